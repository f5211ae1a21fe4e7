"""Jobs that compute nothing, so that scheduling is all that costs: their plan, and what they tell."""

from headcount.orchestrator.slots.slot import Slot
from headcount.orchestrator.store.recording import Record
from headcount.orchestrator.store.transitions import Work
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.plan import Plan, plan
from headcount.trainer.data import Manifest

STEPS = 40
REPORTS = (20, 30, 40)
"""The steps of a job's evaluations."""

_SEEDS = 25

_SWEEP = """
name: {name}
job:
  model: {{scale: nano, residual: mhar, routing_heads: 1}}
  train: {{steps: {steps}, eval_every: 5}}
axes:
  train.peak_lr: [{rates}]
seeds: [{seeds}]
control: none
"""


def trivial_plan(jobs: int, name: str = "trivial", others: int = 0) -> Plan:
    """A sweep of that many jobs, a multiple of 25, over a text that is only a fingerprint.

    None of them is among the jobs of a plan of `others`.
    """
    assert jobs % _SEEDS == others % _SEEDS == 0
    rates = ", ".join(f"{1e-4 + 1e-7 * (others // _SEEDS + n):.7f}" for n in range(jobs // _SEEDS))
    text = _SWEEP.format(name=name, steps=STEPS, rates=rates, seeds=", ".join(map(str, range(_SEEDS))))
    manifest = Manifest("ab" * 32, "none", 256, 100_000, 5_000, 3, 105_000)
    return plan(parse_spec(text, name), lambda data: manifest)


def reports_of(work: Work) -> list[list[Record]]:
    """What a job tells, by the moment: at its start, and at each of its reports; its last words come last."""
    told: list[list[Record]] = [[{"kind": "started", "step": 0, "environment": {"device": "none"}}]]
    for step in REPORTS:
        loss = 3.0 + work.seed / 100 + 1 / step
        told.append([{"kind": "evaluation", "step": step, "loss": loss, "window_losses": []}])
    result = {"kind": "result", "outcome": "finished", "step": STEPS, "tail_mean": None}
    told[-1] += [
        {**result, "measurements": {"seconds": 0.0}},
        {"kind": "ended", "cause": "finished", "message": None, "reusable": True},
    ]
    return told


class TrivialSlot(Slot):
    """A slot whose jobs are over as soon as they have told what they have to."""

    def _train(self, work: Work, result: list[Record], copies: object) -> tuple[str, str | None]:
        *reports, last = reports_of(work)
        for report in (*reports, last[:1]):
            self._tell(*report)
        result.append(last[1])
        return "finished", None
