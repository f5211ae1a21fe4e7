"""From a sweep's file, or its name in the store, to its plan; and what submitting it changes, in words."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sqlalchemy import select

from headcount.orchestrator.artifacts.datasets import prepare_for_all
from headcount.orchestrator.following.live import cell_words
from headcount.orchestrator.following.overview import find_sweep
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, Submission
from headcount.orchestrator.store.difference import Difference
from headcount.orchestrator.store.growth import growth_of
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.submitting.starting import start_for_all
from headcount.sweeps.file.spec import SweepSpec, load_spec, parse_spec
from headcount.sweeps.planning.plan import Plan, plan
from headcount.sweeps.rendering import counted
from headcount.sweeps.studies import study_files
from headcount.trainer.config import DataConfig
from headcount.trainer.errors import UserError

MOST_CELLS = 10
"""Cells that are named of those that an edited file adds, and as many of those that it removes."""


def read_spec(file_or_name: str, store: Store, small: bool = False) -> SweepSpec:
    """The sweep in a file, the one of that name as it was submitted last, or else the ready-made study.

    `small` asks for its small variant.
    """
    if is_file(file_or_name):
        return load_spec(Path(file_or_name), small)
    with store.read() as session:
        try:
            sweep = find_sweep(session, file_or_name)
        except UserError:
            ready_made = study_files()
            if file_or_name in ready_made:
                return load_spec(ready_made[file_or_name], small)
            names = {*session.scalars(select(Sweep.name)), *ready_made}
            if near := get_close_matches(file_or_name, sorted(names), n=1):
                raise UserError(f"no sweep or study {file_or_name!r}; did you mean {near[0]!r}?") from None
            raise
    return parse_spec(sweep.yaml, sweep.name, Path(sweep.folder) if sweep.folder else None, small)


def is_file(file_or_name: str) -> bool:
    """Whether a command's FILE|NAME means a file, there or not."""
    path = Path(file_or_name)
    return path.exists() or path.suffix in (".yaml", ".yml") or "/" in file_or_name


def make_plan(spec: SweepSpec, settings: Settings, store: Store) -> Plan:
    """The plan of a sweep with what the store has of its growth, its text prepared for the nodes."""
    spec = start_for_all(spec, settings)
    with store.read() as session:
        growth = growth_of(session, spec)
    return plan(spec, lambda data: prepare_for_all(text_of(data, spec.folder), settings), growth)


def text_of(data: DataConfig, folder: Path | None) -> DataConfig:
    """`data` with its relative paths taken from `folder`, where the sweep's file lies."""
    if folder is None or not data.text:
        return data
    return replace(data, text=tuple(str(folder / Path(path).expanduser()) for path in data.text))


def found_words(name: str, submission: Submission) -> str:
    """What a submission found and changed, in a line."""
    jobs = submission.new + submission.known + submission.shared
    counts = [
        f"{submission.new} new",
        f"{submission.known} known",
        f"{submission.shared} shared with other sweeps",
    ]
    words = f"{name}: {counted(jobs, 'job')}, " + ", ".join(counts)
    if submission.requeued:
        words += f"; {submission.requeued} queued again"
    if submission.removed_cells:
        words += f"; {counted(submission.removed_cells, 'cell')} withdrawn"
    return words


def difference_lines(found: Difference) -> Iterator[str]:
    """What an edited file changes, a line each; nothing where it changes nothing."""
    if not found:
        return
    added = counted(len(found.added), "cell")
    yield (f"Another file than was submitted: {added} added, {len(found.removed)} removed, {found.kept} kept")
    yield from _cells("+", found.added)
    yield from _cells("-", found.removed)
    for sign, seeds in (("+", found.seeds_added), ("-", found.seeds_removed)):
        if seeds:
            yield f"  {sign} seeds {', '.join(map(str, seeds))}"
    if found.edited:
        yield f"  changed: {', '.join(found.edited)}"
    if found.exploratory:
        yield (
            "  The analysis is not the one that was fixed at submission: the sweep's contrasts are marked "
            "exploratory"
        )


def _cells(sign: str, cells: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    for settings in cells[:MOST_CELLS]:
        yield f"  {sign} {cell_words(settings)}"
    if len(cells) > MOST_CELLS:
        yield f"  {sign} and {len(cells) - MOST_CELLS} more"
