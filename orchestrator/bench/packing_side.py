"""A slot in a process of its own, without a scheduler: `python -m … HOME FINGERPRINT DEVICE`.

Each line on standard input is a JSON object of jobs, `{"fields": …, "seeds": […]}`, which are trained one
after another; a line on standard output answers it with their losses in hexadecimal and with when the first
began and the last ended, or with `{"error": …}`. Needs the trainer only.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Literal, cast

from headcount.orchestrator.slots.freeing import free_memory
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import Dataset, open_dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import Evaluation
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train


def answer(
    dataset: Dataset, device: Literal["cpu", "cuda"], fields: dict[str, Any], seeds: list[int]
) -> dict[str, Any]:
    begun = time.monotonic()
    try:
        losses = {seed: _losses(dataset, device, fields, seed) for seed in seeds}
    except UserError as error:
        return {"error": str(error)}
    except RuntimeError as error:  # such as PyTorch's when the card is full
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {"losses": losses, "begun": begun, "ended": time.monotonic()}


def _losses(dataset: Dataset, device: Literal["cpu", "cuda"], fields: dict[str, Any], seed: int) -> list[str]:
    events = train(job_from_fields(fields, seed), dataset, execution=Execution(device=device))
    losses = [event.loss.hex() for event in events if isinstance(event, Evaluation)]
    free_memory()
    return losses


if __name__ == "__main__":
    home, fingerprint, device = sys.argv[1:]
    dataset = open_dataset(fingerprint, Path(home))
    for line in sys.stdin:
        asked = json.loads(line)
        found = answer(dataset, cast(Literal["cpu", "cuda"], device), asked["fields"], asked["seeds"])
        print(json.dumps(found), flush=True)
