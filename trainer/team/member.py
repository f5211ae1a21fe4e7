"""`python -m headcount.trainer.team.member`: a process of a job that another one leads.

Messages come pickled through standard input, and its end is the end: the leader is gone or has finished.
"""

import os
import pickle
import sys
from contextlib import suppress
from typing import IO

import torch
import torch.distributed as dist

from headcount.trainer.data import Dataset
from headcount.trainer.device import choose_device
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import batch_windows
from headcount.trainer.initial import start_model
from headcount.trainer.job_files.job_folder import JobFolder
from headcount.trainer.step import updater_for
from headcount.trainer.team.leader import (
    Membership,
    Restore,
    Update,
    backend_of,
    make_group,
    share_of,
    store_at,
)


def main(messages: IO[bytes], ready: IO[str]) -> None:
    told = pickle.load(messages)
    assert isinstance(told, Membership)
    if torch.cuda.is_available() and told.execution.device != "cpu":
        torch.cuda.set_device(told.rank)
    with exact_mode(told.execution):
        _follow(told, messages, ready)


def _follow(told: Membership, messages: IO[bytes], ready: IO[str]) -> None:
    config, data = told.config, Dataset(told.manifest, told.data)
    device = choose_device(config, told.execution)
    model = start_model(config, device, told.weights)
    updater = updater_for(model, config, told.execution, told.micro_batch)
    print("ready", file=ready, flush=True)
    store = store_at(told.port)
    make_group(backend_of(device), store, told.rank, told.size)
    while True:
        match _next(messages):
            case Update(step, rate):
                windows = data.batch(config.seed, step, batch_windows(config), config.data.context)
                updater.update(share_of(torch.from_numpy(windows), told.rank, told.size), rate)
            case Restore():
                assert told.folder is not None
                state = JobFolder(told.folder, config, told.manifest.fingerprint).load()
                assert state is not None
                updater.restore(state)
            case _:
                return


def _next(messages: IO[bytes]) -> object:
    """None at the end, and where the leader died in the middle of a message."""
    try:
        return pickle.load(messages)
    except (EOFError, pickle.UnpicklingError):
        return None


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    with suppress(BrokenPipeError, dist.DistNetworkError):  # the leader died while this one started
        main(sys.stdin.buffer, out)
    os._exit(0)  # a sum that the leader will never take part in must not hold up the end
