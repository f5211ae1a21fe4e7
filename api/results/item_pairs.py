"""Treatments and controls on the same items of a task, from every item's scores as evaluations left them."""

import json
from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from headcount.api.results.families import alpha_of
from headcount.api.results.lookup import QueryError
from headcount.api.results.named import NamedTable
from headcount.api.results.records import Record, provenance, settings
from headcount.api.results.tables import AblationTable, ablation_table
from headcount.orchestrator.store.models import Artifact, Job, SweepJob
from headcount.sweeps.statistics import holm
from headcount.sweeps.statistics.items import ItemDifference, Scores, item_difference_of_pairs

ITEMS = "items"
"""The table's name."""

QUESTION = "Is it better on the same items?"

Read = Callable[[str], bytes | None]

File = tuple[str, str]
"""The key of an artifact, and its SHA-256."""

Files = tuple[File, ...]
"""What the evaluations of one job left, the newest last."""

Tasks = dict[tuple[str, str], Scores]
"""Scores by task and metric."""

Found = dict[tuple[str, str], tuple[ItemDifference, int]]
"""By task and metric, the difference and the seeds that it is over."""

_known: dict[tuple[tuple[Files, Files], ...], Found] = {}
"""Differences that were asked for before: a file's hash is its content."""

_KEPT = 1000


def items_table(session: Session, sweep: str, read: Read) -> NamedTable:
    """A row a treatment, task and metric: its items' scores less the control's, at the seeds that both have.

    `read` opens an artifact by its key, and gives None where it is gone. Raises `NotFoundError`, and
    `QueryError` where no two evaluations make a pair.
    """
    table = ablation_table(session, sweep)
    files = _files(session, table)
    scores: dict[File, Tasks] = {}
    records: list[Record] = []
    p_values: dict[str, float | None] = {}
    for row in table.rows:
        if row.control is None:
            continue
        own, control = files.get(row.cell, {}), files.get(row.control, {})
        both = tuple((own[seed], control[seed]) for seed in sorted(own.keys() & control.keys()))
        for (task, metric), (difference, pairs) in _differences(both, read, scores).items():
            if difference.p is not None:
                p_values[f"{row.cell} {task} {metric}"] = difference.p
            records.append(
                settings(table, row)
                | {"task": task, "metric": metric}
                | {"delta": difference.mean, "low": difference.low, "high": difference.high}
                | {"p": difference.p, "adjusted_p": None, "items": difference.n, "pairs": pairs}
                | provenance(row)
            )
    if not records:
        raise QueryError(
            f"no treatment of sweep {sweep!r} was scored on the same items as its control; 'evaluate:' in "
            "the sweep's file scores both"
        )
    named = f"every task that tells right from wrong, of every cell of {table.sweep} against its control"
    family = holm(named, p_values, alpha=alpha_of(table))
    for record in records:
        member = family.members.get(f"{record['cell']} {record['task']} {record['metric']}")
        record["adjusted_p"] = member.adjusted_p if member else None
    return NamedTable(
        name=ITEMS,
        question=QUESTION,
        sweep=table.sweep,
        version=table.version,
        estimator="items' scores, treatment minus control at the same seed, mean over seeds and items; "
        "interval: bootstrap of items with all their seeds",
        test="McNemar's exact, over seeds by flips of whole items; of these models, not of their methods",
        family=f"{family.name}, Holm",
        size=family.size,
        law=None,
        columns=tuple(records[0]),
        rows=tuple(records),
    )


def _files(session: Session, table: AblationTable) -> dict[int, dict[int, Files]]:
    """By cell and seed, of finished evaluations."""
    child = aliased(Job)
    query = (
        select(SweepJob.cell_id, child.seed, Artifact.key, Artifact.sha256)
        .join(child, child.parent_id == SweepJob.job_id)
        .join(Artifact, Artifact.job_id == child.id)
        .where(SweepJob.cell_id.in_([row.cell for row in table.rows]))
        .where(child.kind == "evaluate", child.state == "finished", Artifact.kind == "evaluate")
        .order_by(SweepJob.cell_id, child.seed, child.ended, child.id)
    )
    found: dict[int, dict[int, Files]] = {}
    for cell, seed, key, sha256 in session.execute(query):
        of_cell = found.setdefault(cell, {})
        of_cell[seed] = (*of_cell.get(seed, ()), (key, sha256))
    return found


def _differences(both: tuple[tuple[Files, Files], ...], read: Read, scores: dict[File, Tasks]) -> Found:
    """Of a treatment's files and its control's, a pair a seed. `scores`: of files that were read before."""
    if both in _known:
        return _known[both]
    pairs = [(_scores(own, read, scores), _scores(control, read, scores)) for own, control in both]
    found: Found = {}
    for name in sorted({name for own, _ in pairs for name in own}):
        having = [(own[name], control[name]) for own, control in pairs if name in own and name in control]
        if having and set.intersection(*(set(items) for pair in having for items in pair)):
            found[name] = item_difference_of_pairs(having), len(having)
    if all(file in scores for pair in both for files in pair for file in files):
        if len(_known) >= _KEPT:
            _known.clear()
        _known[both] = found
    return found


def _scores(files: Files, read: Read, known: dict[File, Tasks]) -> Tasks:
    """Of each task the newest; a file that is gone tells nothing."""
    found: Tasks = {}
    for file in files:
        if file not in known and (content := read(file[0])) is not None:
            tasks = json.loads(content)["items"]
            known[file] = {
                (task, metric): {int(item): score for item, score in items.items()}
                for task, metrics in tasks.items()
                for metric, items in metrics.items()
            }
        found |= known.get(file, {})
    return found
