"""How fast a job would train: by jobs of its kind that were measured, or by a stated model where none was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from headcount.trainer.config import JobConfig

CPU_MODEL = (5e9, 15e9, 40e9)
GPU_MODEL = (20e12, 80e12, 400e12)
"""Operations a second of one slot, where nothing was measured: low, typical and high."""

STRETCH = 2.0
"""How much wider the interval is for a rate that was measured on other shapes only."""


@dataclass(frozen=True)
class Measured:
    """One job that was trained from its start to its end by one attempt."""

    config: JobConfig
    flops: float
    seconds: float
    """Of the whole attempt, with its start, evaluations and checkpoints."""
    peak_memory: float | None
    """Bytes."""


@dataclass(frozen=True)
class History:
    """What the store knows that a forecast can go by."""

    device: str
    """`cpu` or `cuda`: where the jobs would be trained."""
    slots: int
    """That train at a time."""
    hardware: str | None = None
    """What the measured jobs were trained on; none where there are none."""
    jobs: tuple[Measured, ...] = ()
    """Of that hardware alone."""
    results: Mapping[str, float | None] = field(default_factory=dict)
    """Job id to tail mean of the plan's jobs that have a result; none for a diverged one."""
    delta_sd: float | None = None
    """Standard deviation of paired differences between jobs of this size, pooled over `delta_cells` cells."""
    delta_cells: int = 0


@dataclass(frozen=True)
class Rate:
    """Operations a second of one slot: an interval around the typical one, and what it rests on."""

    low: float
    typical: float
    high: float
    basis: str


def rate_of(config: JobConfig, history: History) -> Rate:
    """By measured jobs of the same shape, else of the stream and width, else of any, else by the model."""
    for kind, alike in _kinds(config, history.jobs):
        rates = [job.flops / job.seconds for job in alike]
        if rates:
            stretch = 1.0 if kind == "this shape" else STRETCH
            count = f"{len(rates)} job{'s' if len(rates) > 1 else ''}"
            basis = f"{count} of {kind} on {history.hardware}"
            return Rate(min(rates) / stretch, median(rates), max(rates) * stretch, basis)
    low, typical, high = GPU_MODEL if history.device == "cuda" else CPU_MODEL
    unit, per = ("TFLOP/s a GPU", 1e12) if history.device == "cuda" else ("GFLOP/s a CPU thread", 1e9)
    return Rate(low, typical, high, f"a model, {low / per:g} to {high / per:g} {unit}: nothing was measured")


def measured_memory(config: JobConfig, history: History) -> float | None:
    """The highest peak of a measured job of the same shape, in bytes; none where there is none."""
    same = [job.peak_memory for job in history.jobs if shape_of(job.config) == shape_of(config)]
    return max((peak for peak in same if peak), default=None)


def _kinds(config: JobConfig, jobs: Sequence[Measured]) -> Iterator[tuple[str, list[Measured]]]:
    shape, model = shape_of(config), config.model
    yield "this shape", [job for job in jobs if shape_of(job.config) == shape]
    yield (
        "this stream and width",
        [
            job
            for job in jobs
            if (job.config.model.residual, job.config.model.d_model) == (model.residual, model.d_model)
        ],
    )
    yield "other shapes", list(jobs)


def shape_of(config: JobConfig) -> tuple[object, ...]:
    """What decides a job's speed and memory, whatever its length, rate, seed and text."""
    model, train = config.model, config.train
    return (
        *(model.d_model, model.layers, model.heads, model.kv_heads, model.d_ff, model.vocab_size),
        *(model.width_of_head, model.unembedding),
        *(model.residual, model.routing_heads, model.block_size, model.streams, model.loops),
        *(config.data.context, train.batch_tokens, train.precision),
    )
