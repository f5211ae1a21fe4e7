"""A real server that speaks S3, on the loopback address."""

import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from homes import wait_for

KEYS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Bucket:
    """A bucket, and what a client's environment has to say to use it."""

    name: str
    port: int

    @property
    def url(self) -> str:
        return f"s3://{self.name}/headcount"

    @property
    def environment(self) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}


class S3Server:
    """moto's server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        log = folder / "server.log"
        with log.open("wb") as output:
            command = [sys.executable, "-m", "moto.server", "--port", "0"]
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ})
        found = wait_for(lambda: re.search(r"Running on http://127\.0\.0\.1:(\d+)", log.read_text()), 60)
        self.port = int(found[1])

    def make_bucket(self) -> Bucket:
        import s3fs

        bucket = Bucket(f"bucket-{uuid.uuid4().hex[:12]}", self.port)
        endpoint = bucket.environment["AWS_ENDPOINT_URL"]
        fs = s3fs.S3FileSystem(key="tests", secret="tests", endpoint_url=endpoint)
        fs.mkdir(bucket.name)
        return bucket

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
