"""Cells on their way to a plan: their texts, and one clear error for each that cannot be."""

import pytest
from planned import MANIFEST, planned

from headcount.sweeps.file.spec import SpecError
from headcount.trainer.config import DataConfig, FieldError
from headcount.trainer.data import Manifest


def test_the_vocabulary_is_the_text_s() -> None:
    manifest = Manifest("e" * 64, "bpe", 16_384, 9_000, 900, 9, 9_900)
    (job,) = planned("name: one\ncontrol: none", lambda config: manifest).jobs
    assert job.config.model.vocab_size == 16_384


def test_each_text_is_prepared_once() -> None:
    asked: list[DataConfig] = []

    def prepare(config: DataConfig) -> Manifest:
        asked.append(config)
        return Manifest(str(len(asked)) * 64, "text", 256, 9_000, 900, 9, 9_900)

    text = (
        "name: texts\njob: {model: {residual: mhar}}\naxes:\n"
        "  data.text: [a.txt, [b.txt, c.txt]]\n  model.kv_heads: [2, 4]"
    )
    result = planned(text, prepare)
    assert [config.text for config in asked] == [("a.txt",), ("b.txt", "c.txt")]
    assert [manifest.fingerprint[0] for manifest in result.datasets] == ["1", "2"]
    assert [job.fingerprint[0] for job in result.jobs if job.cell < 4] == ["1", "1", "2", "2"]


BROKEN = [
    (
        "job: {model: {residual: mhar}}\naxes:\n  model.kv_heads: [1, 2]\n"
        "  model.routing_heads:\n    - 1\n    - 3",
        "7: axes.model.routing_heads[1]: 3 does not divide model.d_model (64); the nearest that does "
        "is 2 (in the cell model.kv_heads=1, model.routing_heads=3); to leave such cells out, add to skip: "
        '"model.d_model % model.routing_heads != 0"',
    ),
    (
        "axes: {model.kv_heads: [4, 3]}",
        "2: axes.model.kv_heads[1]: 3 does not divide model.heads (4); the nearest that does is 2 "
        "(in the cell model.kv_heads=3); to leave such cells out, add to skip: "
        '"model.heads % model.kv_heads != 0"',
    ),
    (
        "job: {model: {kv_heads: 2}}\naxes: {model.heads: [4, 1]}",
        "3: axes.model.heads[1]: 2 does not divide model.heads (1); the nearest that does is 1 "
        "(in the cell model.heads=1); to leave such cells out, add to skip: "
        '"model.heads % model.kv_heads != 0"',
    ),
    (
        "job: {train: {warmup_steps: 50}}\naxes: {train.steps: [100, 40]}",
        "3: axes.train.steps[1]: got 50; expected fewer than train.steps (40) (in the cell "
        'train.steps=40); to leave such cells out, add to skip: "train.steps == 40"',
    ),
    (
        "job: {model: {kv_heads: 3}}\naxes: {train.peak_lr: [1e-3]}",
        "2: job.model.kv_heads: 3 does not divide model.heads (4); the nearest that does is 2 (in the "
        "cell train.peak_lr=0.001)",
    ),
    (
        "job: {model: {heads: 8, d_model: 72}}",
        "2: job.model.heads: 72 / 8 is odd; rotary positions need an even head width",
    ),
    (
        "job: {model: {heads: 3, d_model: 66}}",
        "2: job: model.kv_heads: 2 does not divide model.heads (3); the nearest that does is 1",
    ),
    (
        "axes: {train.peak_lr: [1e-3, .nan]}",
        "2: axes.train.peak_lr[1]: got nan; expected a finite number (in the cell train.peak_lr=nan)",
    ),
    (
        "axes:\n  model.routing_heads: [1, 2]",
        "3: axes.model.routing_heads: the residual stream additive does not read it; set "
        "model.residual to one that does: delta, haares, mhar, mhar_hw, wav",
    ),
    (
        "job: {model: {residual: mhar}}\ncontrol: {model.kv_heads: 3}",
        "3: control.model.kv_heads: 3 does not divide model.heads (4); the nearest that "
        "does is 2 (in the control of the cell)",
    ),
    (
        'axes: {model.kv_heads: [1, 2]}\nskip: ["model.kv_heads > 0"]',
        "3: skip: every cell is skipped",
    ),
    (
        'axes: {train.weight_decay: [0, 1]}\nskip: ["1 / train.weight_decay > 2"]',
        "3: skip[0]: in the cell train.weight_decay=0.0: float division by zero\n"
        "    1 / train.weight_decay > 2\n    ^",
    ),
    (
        "axes: {model.residual: [additive, mhar], model.routing_heads: [1, 2]}\n"
        "control: {model.residual: mhar}",
        "3: control: the cell model.residual=additive would have several controls, model.residual=mhar, "
        "model.routing_heads=1 and model.residual=mhar, model.routing_heads=2; give model.routing_heads in "
        "control",
    ),
    (
        "axes: {model.vocab_size: [256, 300]}",
        "2: axes.model.vocab_size[1]: 300, where the text stdlib has 256; leave the line out to take "
        "the text's",
    ),
    (
        "axes: {model.scale: [350m, 1b], model.d_model: [64], model.layers: [2], model.d_ff: [8]}",
        "2: axes.model.scale[1]: the cells model.scale=350m, model.d_model=64, model.layers=2, "
        "model.d_ff=8 and model.scale=1b, model.d_model=64, model.layers=2, model.d_ff=8 "
        "are the same job; keep one",
    ),
]


@pytest.mark.parametrize(("text", "message"), BROKEN, ids=[message.split(": ")[1] for _, message in BROKEN])
def test_a_plan_that_cannot_be_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        planned(f"name: s\n{text}")
    assert str(caught.value) == f"sweep.yaml:{message}"


def test_a_text_that_cannot_be_prepared_is_named_by_its_line() -> None:
    def prepare(config: DataConfig) -> Manifest:
        if config.text == ("b.txt",):
            raise FieldError("data.text", "b.txt does not exist")
        return MANIFEST

    with pytest.raises(SpecError) as caught:
        planned("name: s\naxes:\n  data.text:\n    - a.txt\n    - b.txt", prepare)
    assert str(caught.value) == "sweep.yaml:5: axes.data.text[1]: b.txt does not exist"


def test_rules_are_checked_before_any_text_is_prepared() -> None:
    def prepare(config: DataConfig) -> Manifest:
        raise AssertionError("prepared")

    with pytest.raises(SpecError, match="does not divide"):
        planned("name: s\naxes: {model.kv_heads: [2, 3]}", prepare)


@pytest.mark.parametrize("warmup", [10, 12])
def test_a_tail_that_reaches_into_the_warm_up_is_refused(warmup: int) -> None:
    text = (
        "name: s\njob: {train: {steps: 40, eval_every: 5, warmup_steps: %d}}\n"
        "axes: {model.kv_heads: [2, 4]}\ncontrol: none\ntail: %d\n"
    )
    most = {10: 7, 12: 6}[warmup]  # evaluations from the end of the warm-up on
    assert len(planned(text % (warmup, most)).jobs) == 2
    for tail in (most + 1, 1000):
        with pytest.raises(SpecError) as caught:
            planned(text % (warmup, tail))
        assert str(caught.value) == (
            f"sweep.yaml:5: tail: {tail} evaluations reach into the warm-up of {warmup} steps; expected at "
            f"most {most} (in the cell model.kv_heads=2)"
        )
