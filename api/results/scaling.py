"""What treatments are worth by a scaling law that is fitted to the sweep's own controls."""

from collections.abc import Sequence
from functools import lru_cache

from headcount.api.results.lookup import QueryError
from headcount.api.results.records import Record, loss, provenance, settings
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics.scaling import FittedGain, Laws, bootstrap_laws

RESAMPLES = 200


def scaling_records(table: AblationTable) -> list[Record]:
    """A row a cell: its compute and training time, the law's loss there, and what its own loss is worth: the
    controls' compute, or time, for that loss over its own.

    Raises `QueryError` where the controls cannot fix a law. Time is left out where a control's is not known.
    """
    # as everywhere, a cell with a diverged seed has no loss: those that are left would make it look better
    controls = [row for row in table.controls if row.flops and row.mean is not None]
    by_compute = _laws([(row.flops or 0.0, row.losses) for row in controls])
    timed = [(_seconds(row), row.losses) for row in controls]
    by_time = None
    if all(seconds for seconds, _ in timed) and len({seconds for seconds, _ in timed}) > 3:
        by_time = _laws([(seconds or 0.0, losses) for seconds, losses in timed])
    records = []
    for row in table.rows:
        if not row.flops or row.mean is None:
            continue
        seconds = _seconds(row)
        law = by_compute.law
        records.append(
            {"role": "control" if row.is_control else "treatment"}
            | settings(table, row)
            | loss(row)
            | {"flops": row.flops, "law_loss": law.loss(row.flops), "to_law": row.mean - law.loss(row.flops)}
            | _worth("gain", None if row.is_control else by_compute.gain(row.flops, row.losses))
            | {"seconds": seconds}
            | _worth(
                "time_gain",
                by_time.gain(seconds, row.losses) if by_time and seconds and not row.is_control else None,
            )
            | {"law_E": law.irreducible, "law_exponent": law.exponent}
            | provenance(row)
        )
    return records


def _worth(name: str, found: FittedGain | None) -> Record:
    return {
        name: found.gain if found else None,
        f"{name}_low": found.low if found else None,
        f"{name}_high": found.high if found else None,
        f"{name}_extrapolated": found.extrapolated if found else None,
    }


def _seconds(row: TableRow) -> float | None:
    """Of one job's training at the speed measured."""
    if not row.flops or not row.flops_per_token or not row.tokens_per_second:
        return None
    return row.flops / row.flops_per_token / row.tokens_per_second


def _laws(cells: Sequence[tuple[float, Sequence[float]]]) -> Laws:
    runs = tuple((compute, value) for compute, losses in cells for value in losses)
    try:
        return _fitted(runs)
    except ValueError as error:
        raise QueryError(f"{error}; vary model.scale or train.steps") from error


@lru_cache(maxsize=32)
def _fitted(runs: tuple[tuple[float, float], ...]) -> Laws:
    return bootstrap_laws([c for c, _ in runs], [value for _, value in runs], resamples=RESAMPLES)
