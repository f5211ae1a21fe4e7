"""What an edited sweep file changes of the sweep that the store has under its name."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.growth import texts_of
from headcount.orchestrator.store.models import Cell, Sweep
from headcount.sweeps.planning.growth import cell_key, plain
from headcount.trainer.errors import UserError

if TYPE_CHECKING:
    from headcount.sweeps.file.spec import SweepSpec
    from headcount.sweeps.planning.plan import Plan


@dataclass(frozen=True)
class Difference:
    """Cells by their settings, treatments first; a control has the fields that make it one."""

    added: tuple[Mapping[str, Any], ...]
    removed: tuple[Mapping[str, Any], ...]
    kept: int
    seeds_added: tuple[int, ...]
    seeds_removed: tuple[int, ...]
    edited: tuple[str, ...]
    """Other fields of the file that say something else now; one of the job makes every job another one."""
    exploratory: bool
    """Whether the analysis is not, or not any more, the one that was first submitted."""

    def __bool__(self) -> bool:
        cells = self.added or self.removed or self.seeds_added or self.seeds_removed
        return bool(cells or self.edited)


def difference(session: Session, plan: "Plan") -> Difference | None:
    """What submitting `plan` would change; None where there is no sweep of that name."""
    sweep = session.scalar(select(Sweep).where(Sweep.name == plan.spec.name))
    if sweep is None:
        return None
    rows = session.scalars(select(Cell).where(Cell.sweep_id == sweep.id).order_by(Cell.position))
    before = {cell_key(row.is_control, row.settings): row.settings for row in rows}
    after = {cell_key(cell.is_control, cell.settings): cell.settings for cell in plan.cells}
    values = sweep_values(plan)
    told_apart = {"axes", "seeds", "yaml", "folder", "adaptive", "texts"}
    return Difference(
        added=tuple(settings for key, settings in after.items() if key not in before),
        removed=tuple(settings for key, settings in before.items() if key not in after),
        kept=len(after.keys() & before.keys()),
        seeds_added=tuple(seed for seed in plan.spec.seeds if seed not in sweep.seeds),
        seeds_removed=tuple(seed for seed in sweep.seeds if seed not in plan.spec.seeds),
        edited=(
            *(
                name
                for name, value in values.items()
                if name not in told_apart and getattr(sweep, name) != value
            ),
            *_edited_beside_columns(sweep, plan.spec),
        ),
        exploratory=values["analysis"]
        != (sweep.analysis if sweep.first_analysis is None else sweep.first_analysis),
    )


def _edited_beside_columns(sweep: Sweep, spec: "SweepSpec") -> Iterator[str]:
    """What only the file says: the fields that all jobs share, and how they are ordered and reported."""
    from headcount.sweeps.file.spec import parse_spec

    try:
        before = parse_spec(sweep.yaml, sweep.name)
    except UserError:
        return  # imported, or of a Headcount that read other fields
    for name in ("control", "order", "priority", "tail", "search", "ranges", "refine", "seed_rule"):
        if getattr(before, name) != getattr(spec, name):
            yield name
    for name in dict.fromkeys((*before.job, *spec.job)):
        if before.job.get(name) != spec.job.get(name):
            yield name


def sweep_values(plan: "Plan") -> dict[str, Any]:
    """The columns of `sweep` that its file decides, with the axes as its cells have them."""
    spec = plan.spec
    adaptive = {
        "search": asdict(spec.search) if spec.search else None,
        "refine": spec.refine,
        "seed_rule": asdict(spec.seed_rule) if spec.seed_rule else None,
        **({"initial": plain(spec.initial)} if spec.initial else {}),
    }
    return {
        "description": spec.description,
        "yaml": spec.text,
        "folder": str(spec.folder) if spec.folder else None,
        "axes": plain(plan.axes),
        "seeds": list(spec.seeds),
        "analysis": plain(asdict(spec.analysis)) if spec.analysis else {},
        "on_failure": spec.on_failure,
        **asdict(spec.resources),
        "gpu_hours": spec.gpu_hours,
        "adaptive": adaptive if spec.is_adaptive else None,
        "texts": texts_of(plan),
    }
