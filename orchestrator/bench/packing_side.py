"""A slot's jobs one after another, in a process of its own, told as JSON once it is told to go.

`python -m … HOME FINGERPRINT FIELDS DEVICE READY GO SEED …`: FIELDS is the job in JSON, READY a file that is
made when a first job has warmed everything up, and GO one that is waited for. Needs the trainer only.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Literal, cast

from headcount.trainer.config import job_from_fields
from headcount.trainer.data import open_dataset
from headcount.trainer.events import Evaluation
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train


def main(
    home: Path, fingerprint: str, fields: dict[str, Any], device: str, ready: Path, go: Path, seeds: list[int]
) -> None:
    dataset = open_dataset(fingerprint, home)
    execution = Execution(device=cast(Literal["cpu", "cuda"], device))

    def losses(fields: dict[str, Any], seed: int) -> list[str]:
        config = job_from_fields(fields, seed)
        events = train(config, dataset, execution=execution)
        return [event.loss.hex() for event in events if isinstance(event, Evaluation)]

    losses(fields, 10**6)
    ready.touch()
    while not go.exists():
        time.sleep(0.005)
    begun = time.monotonic()
    found = {seed: losses(fields, seed) for seed in seeds}
    print(json.dumps({"losses": found, "begun": begun, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    home, fingerprint, fields, device, ready, go, *seeds = sys.argv[1:]
    main(Path(home), fingerprint, json.loads(fields), device, Path(ready), Path(go), [int(s) for s in seeds])
