import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path


def serve(home: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "headcount", "serve", *options],
        env={"HEADCOUNT_HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_serve_answers_pages_and_api_until_it_is_stopped(tmp_path: Path) -> None:
    process = serve(tmp_path, "--port", "0")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as page:
            assert "No sweep yet" in page.read().decode()
        with urllib.request.urlopen(f"{url}api/v1/sweeps") as answer:
            assert answer.headers["content-type"] == "application/json"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, "\nStopped.\n")


def test_a_port_in_use_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = serve(tmp_path, "--port", port)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == (
        f"Error: cannot listen at 127.0.0.1 port {port}: it is in use; choose another with --port\n"
    )
