"""The processes that tokenise units of input side by side."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from headcount.trainer.data.inputs import Format, Unit
from headcount.trainer.data.parts import write_part
from headcount.trainer.data.tokenizer import Tokenizer, load_tokenizer
from headcount.trainer.errors import UserError

Report = Callable[[str, int, int], None]
"""Told the stage, and how many bytes (tokenising) or parts (joining) of how many are done."""


@dataclass(frozen=True)
class Recipe:
    """How files become tokens."""

    tokenizer: str = "bytes"
    """As `load_tokenizer` takes it."""
    separator: str | None = None
    column: str = "text"
    format: Format | None = None
    """Of all files; by their suffixes where not given."""


def tokenise(
    units: Sequence[Unit], folder: Path, recipe: Recipe, cut_all: bool, workers: int, report: Report
) -> None:
    """Write the part of every unit that `folder` lacks.

    Raises the `UserError` of the first unit that fails; the parts that are whole by then stay.
    """
    folder.mkdir(exist_ok=True)
    weights = [sum(part.weight for part in unit) for unit in units]
    total, done = sum(weights), 0
    report("tokenising", done, total)
    # spawned: a fork of a process with threads may inherit a lock that nobody releases
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(workers or len(os.sched_getaffinity(0)), len(units)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(watched, recipe, folder, cut_all),
    )
    try:
        running = {pool.submit(_work, unit, number): number for number, unit in enumerate(units)}
        for future in as_completed(running):
            future.result()
            done += weights[running[future]]
            report("tokenising", done, total)
    except BaseException as error:
        held.close()  # ends the workers in the middle of their units
        if isinstance(error, BrokenProcessPool):
            raise UserError(
                "a process that tokenises died, perhaps for want of memory; run the same command again with "
                "fewer --workers: it goes on from here"
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        held.close()
        watched.close()


@dataclass(frozen=True)
class _Worker:
    tokenizer: Tokenizer
    column: str
    folder: Path
    cut_all: bool


_worker: _Worker | None = None
"""Of this process, where it is one of the pool's."""


def _start_worker(watched: Connection, recipe: Recipe, folder: Path, cut_all: bool) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends the pool
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _worker = _Worker(load_tokenizer(recipe.tokenizer, recipe.separator), recipe.column, folder, cut_all)


def _end_with_parent(watched: Connection) -> None:
    """End this process when the parent closes its end of the pipe, or is killed."""
    wait([watched])
    os._exit(1)


def _work(unit: Unit, number: int) -> int:
    assert _worker is not None
    return write_part(unit, number, _worker.folder, _worker.tokenizer, _worker.column, _worker.cut_all)
