"""What treatments are worth by a scaling law that is fitted to the sweep's own controls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from headcount.api.results.lookup import QueryError
from headcount.api.results.records import Record, loss, provenance, settings
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import PairedDelta
from headcount.sweeps.statistics.chinchilla import ChinchillaLaws, bootstrap_chinchilla
from headcount.sweeps.statistics.resampling import Cells, drawn_cells
from headcount.sweeps.statistics.scaling import LEAST_SPAN, FittedGain, FittedGap, Laws, bootstrap_laws

Known = TypeVar("Known")
Answer = TypeVar("Answer")

RESAMPLES = 200

NO_FLOOR = 1e-3
"""Of E, nats: lower ones are what the fit gives where the loss falls as a plain power."""


@dataclass(frozen=True)
class Worth:
    """One cell, compared in three ways; times are those of one job's training at the speed measured."""

    row: TableRow
    flops: float
    seconds: float | None
    at_equal_steps: PairedDelta | None
    """Treatment minus control at the same steps and seed; None for a control."""
    at_equal_flops: FittedGap
    """Against the law of compute, at this cell's FLOPs."""
    at_equal_time: FittedGap | None
    """Against the law of training time, at this cell's seconds; None where a speed is not known."""
    gain: FittedGain | None
    """The controls' FLOPs for its loss, over its own; None for a control."""
    time_gain: FittedGain | None
    token_gain: FittedGain | None
    """The tokens of its control's size for its loss, over its own, by the law of size and data."""


@dataclass(frozen=True)
class Scaling:
    """The laws of a sweep's controls, and what its cells are worth by them."""

    by_compute: Laws
    by_time: Laws | None
    """None where a control's speed is not known, or their times are fewer than four or nearly alike."""
    by_size: ChinchillaLaws | None
    """Of parameters and tokens; None where the controls do not vary both, three of each at least."""
    runs: int
    """That the laws are fitted to."""
    cells: tuple[Worth, ...]
    warnings: tuple[str, ...]


def scaling(table: AblationTable) -> Scaling:
    """Raises `QueryError` where the controls cannot fix a law."""
    # as everywhere, a cell with a diverged seed has no loss: those that are left would make it look better
    controls = [row for row in table.controls if row.flops and row.mean is not None]
    by_compute = _laws([(row.flops or 0.0, row.losses) for row in controls])
    timed = [(_seconds(row), row.losses) for row in controls]
    by_time = None
    if all(seconds for seconds, _ in timed):
        try:
            by_time = _laws([(seconds or 0.0, losses) for seconds, losses in timed])
        except QueryError:
            by_time = None
    by_size = _size_laws(controls)
    sizes = {row.cell: float(row.parameters or 0) for row in controls}
    rows = [row for row in table.rows if row.flops and row.mean is not None]
    cells = tuple(_worths(rows, by_compute, by_time, by_size, sizes))
    return Scaling(
        by_compute,
        by_time,
        by_size,
        sum(len(row.losses) for row in controls),
        cells,
        tuple(_warnings(by_compute, by_time, cells, controls)),
    )


def scaling_records(table: AblationTable) -> list[Record]:
    """A row a cell: its compute and training time, how far it lies from the laws there, and what its own loss
    is worth: the controls' compute, or time, for that loss over its own.

    Raises `QueryError` as `scaling`. Time is left out where a control's is not known.
    """
    found = scaling(table)
    law = found.by_compute.law
    return [
        {"role": "control" if worth.row.is_control else "treatment"}
        | settings(table, worth.row)
        | loss(worth.row)
        | {"flops": worth.flops, "law_loss": law.loss(worth.flops)}
        | _gap("to_law", worth.at_equal_flops)
        | _gain("gain", worth.gain)
        | {"seconds": worth.seconds}
        | _gap("time_to_law", worth.at_equal_time)
        | _gain("time_gain", worth.time_gain)
        | _by_size(found.by_size, worth)
        | {"law_E": law.irreducible, "law_exponent": law.exponent}
        | provenance(worth.row)
        for worth in found.cells
    ]


def _by_size(laws: ChinchillaLaws | None, worth: Worth) -> Record:
    """What the law of size and data says of a cell; no columns without one."""
    if laws is None:
        return {}
    parameters, tokens = worth.row.parameters, worth.row.tokens
    return _gain("token_gain", worth.token_gain) | {
        "size_term": laws.law.size_term(parameters) if parameters else None,
        "data_term": laws.law.data_term(tokens) if tokens else None,
        "size_exponent": laws.law.size_exponent,
        "data_exponent": laws.law.data_exponent,
        "size_law_E": laws.law.irreducible,
    }


@dataclass(frozen=True)
class _Asked:
    """The cells of a table, for a law to be asked about."""

    place: Mapping[int, int]
    cells: Cells

    def of(
        self, known: Mapping[int, Known | None], ask: Callable[[Sequence[Known], Cells], Sequence[Answer]]
    ) -> dict[int, Answer]:
        """The answer of each cell of which the law needs what is known."""
        told = {cell: value for cell, value in known.items() if value}
        some = [self.place[cell] for cell in told]
        means = [self.cells.means[i] for i in some]
        return dict(zip(told, ask(list(told.values()), Cells(means, self.cells.drawn[some])), strict=True))


def _worths(
    rows: Sequence[TableRow],
    by_compute: Laws,
    by_time: Laws | None,
    by_size: ChinchillaLaws | None,
    sizes: Mapping[int, float],
) -> Iterator[Worth]:
    """`sizes` are the parameters of the controls, by cell."""
    asked = _Asked(
        {row.cell: i for i, row in enumerate(rows)}, drawn_cells([row.losses for row in rows], RESAMPLES)
    )
    treated = [row for row in rows if not row.is_control]
    flops, seconds = {row.cell: row.flops for row in rows}, {row.cell: _seconds(row) for row in rows}
    gaps = asked.of(flops, by_compute.gaps)
    gains = asked.of({row.cell: row.flops for row in treated}, by_compute.gains)
    time_gaps: Mapping[int, FittedGap] = {}
    time_gains: Mapping[int, FittedGain] = {}
    token_gains: Mapping[int, FittedGain] = {}
    if by_time:
        time_gaps = asked.of(seconds, by_time.gaps)
        time_gains = asked.of({row.cell: seconds[row.cell] for row in treated}, by_time.gains)
    if by_size:
        jobs = {
            row.cell: (sizes[row.control], float(row.tokens))
            for row in treated
            if row.control is not None and row.control in sizes and row.tokens
        }
        token_gains = asked.of(jobs, by_size.token_gains)
    for row in rows:
        assert row.flops
        yield Worth(
            row=row,
            flops=row.flops,
            seconds=seconds[row.cell],
            at_equal_steps=row.delta,
            at_equal_flops=gaps[row.cell],
            at_equal_time=time_gaps.get(row.cell),
            gain=gains.get(row.cell),
            time_gain=time_gains.get(row.cell),
            token_gain=token_gains.get(row.cell),
        )


def _warnings(
    by_compute: Laws, by_time: Laws | None, cells: Sequence[Worth], controls: Sequence[TableRow]
) -> list[str]:
    """What the laws cannot carry, in words."""
    found = []
    gains = [worth.gain for worth in cells if worth.gain is not None]
    if far := sum(gain.extrapolated for gain in gains):
        low, high = by_compute.law.computes
        found.append(
            f"{far} of {len(gains)} gains are extrapolated: the controls' compute for such a loss lies "
            f"outside the {low:.3g} to {high:.3g} FLOP that were fitted"
        )
    low, high = by_compute.irreducible_interval
    if by_compute.law.irreducible < NO_FLOOR:
        found.append(
            "the runs show no floor: E is at its lowest, so the law is a plain power of compute, and a gain "
            "far from the fitted computes means little"
        )
    elif high - low > 0.5 * max(by_compute.law.irreducible, 0.1):
        found.append(
            f"the runs hardly fix E: 95 % of resampled laws have it from {low:.3g} to {high:.3g}, so that a "
            "gain far from the fitted computes means little"
        )
    if any(len(row.losses) < 2 for row in controls):
        found.append("controls of one seed: the intervals leave out how much another seed would move the law")
    if by_time is None:
        found.append(
            "no law of time: it needs four different speeds or lengths of the controls, all measured, the "
            f"longest {LEAST_SPAN:g} times the shortest"
        )
    elif any(worth.row.mixed_environments for worth in cells):
        found.append("times are of more than one kind of hardware: equal time compares the machines as well")
    return found


def _gap(name: str, found: FittedGap | None) -> Record:
    return {
        name: found.mean if found else None,
        f"{name}_low": found.low if found else None,
        f"{name}_high": found.high if found else None,
    }


def _gain(name: str, found: FittedGain | None) -> Record:
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


def _size_laws(controls: Sequence[TableRow]) -> ChinchillaLaws | None:
    if not all(row.parameters and row.tokens for row in controls):
        return None
    runs = tuple(
        (float(row.parameters or 0), float(row.tokens or 0), value)
        for row in controls
        for value in row.losses
    )
    try:
        return _fitted_sizes(runs)
    except ValueError:
        return None


@lru_cache(maxsize=32)
def _fitted_sizes(runs: tuple[tuple[float, float, float], ...]) -> ChinchillaLaws:
    return bootstrap_chinchilla(*zip(*runs, strict=True), resamples=RESAMPLES)


@lru_cache(maxsize=32)
def _fitted(runs: tuple[tuple[float, float], ...]) -> Laws:
    return bootstrap_laws([c for c, _ in runs], [value for _, value in runs], resamples=RESAMPLES)
