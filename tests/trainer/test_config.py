import dataclasses
import math
import pickle

import pytest

from headcount.trainer.config import (
    FIELDS,
    FieldError,
    JobConfig,
    complete_fields,
    effective_fields,
    fields_of,
    job_from_fields,
)
from headcount.trainer.flops import parameter_count
from headcount.trainer.residuals.registry import stream_fields, stream_names
from headcount.trainer.scales import SCALES


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("residual", stream_names())
def test_every_scale_makes_a_job(scale: str, residual: str) -> None:
    config = job_from_fields({"model.scale": scale, "model.residual": residual}, seed=2)
    assert config.seed == 2
    assert fields_of(config).keys() == FIELDS.keys()
    assert job_from_fields(fields_of(config), seed=2) == config
    assert complete_fields({"model.scale": scale, "model.residual": residual}) == fields_of(config)


def test_the_published_shape_and_recipe() -> None:
    config = job_from_fields({"model.scale": "100m", "model.residual": "mhar"})
    model, train = config.model, config.train
    assert (model.d_model, model.layers, model.heads, model.kv_heads, model.d_ff) == (512, 12, 8, 4, 1536)
    assert (model.rope_theta, model.norm_eps, model.init_std) == (1e4, 1e-6, 0.02)
    assert (train.steps, train.warmup_steps, train.eval_every) == (20_000, 1_000, 500)
    assert (train.batch_tokens, config.data.context) == (64 * 2048, 2048)
    assert (train.beta1, train.beta2, train.adam_eps, train.weight_decay, train.clip_norm) == (
        *(0.9, 0.95, 1e-8, 0.1, 1.0),
    )
    assert (train.peak_lr, train.min_lr_ratio, train.precision) == (1e-3, 0.1, "bf16")


def test_the_published_sizes() -> None:
    def parameters(scale: str) -> int:
        return parameter_count(job_from_fields({"model.scale": scale, "model.vocab_size": 151_936}))

    assert (parameters("100m"), parameters("350m"), parameters("1b")) == (
        *(115_554_304, 533_123_072, 1_079_313_280),
    )


def test_steps_move_what_hangs_on_them() -> None:
    train = job_from_fields({"train.steps": 1000}).train
    assert (train.warmup_steps, train.eval_every) == (50, 25)
    given = job_from_fields({"train.steps": 1000, "train.warmup_steps": 7, "train.eval_every": 10}).train
    assert (given.warmup_steps, given.eval_every) == (7, 10)


def test_whole_numbers_are_taken_for_real_ones() -> None:
    rate = job_from_fields({"train.peak_lr": 1}).train.peak_lr
    assert (rate, type(rate)) == (1.0, float)


def test_one_path_is_a_list_of_one() -> None:
    data = job_from_fields({"data.text": "book.txt"}).data
    assert (data.source, data.text) == ("text", ("book.txt",))


def test_effective_fields_are_those_that_change_numbers() -> None:
    def effective(**fields: object) -> dict[str, object]:
        return effective_fields(job_from_fields({k.replace("__", "."): v for k, v in fields.items()}))

    assert effective() == effective(model__routing_heads=4, data__text="book.txt")
    routed = effective(model__residual="mhar", model__routing_heads=4)
    assert routed["model.routing_heads"] == 4
    assert routed != effective(model__residual="mhar", model__routing_heads=8)
    left_out = {"model.scale", "data.source", "data.text", *(f"model.{name}" for name in stream_fields())}
    left_out |= {f"model.{name}" for name in ("rope_factor", "rope_original_context", "head_width")}
    assert FIELDS.keys() - effective().keys() == {
        *left_out,
        "train.decay_fraction",
        "train.routing_lr_ratio",
    }


def test_the_width_of_heads_and_the_scaling_count_where_they_change_numbers() -> None:
    def effective(**fields: object) -> dict[str, object]:
        return effective_fields(job_from_fields({f"model.{name}": value for name, value in fields.items()}))

    assert effective() == effective(head_width=16)
    assert effective(head_width=4, heads=16) == effective(heads=16)
    assert effective(head_width=32)["model.head_width"] == 32
    assert effective(rope_factor=4, rope_original_context=64) == effective()
    linear = effective(rope_scaling="linear", rope_factor=4)
    assert linear == effective(rope_scaling="linear", rope_factor=4, rope_original_context=64)
    assert linear != effective(rope_scaling="linear", rope_factor=2)
    llama = effective(rope_scaling="llama3", rope_factor=4)
    assert llama != effective(rope_scaling="llama3", rope_factor=4, rope_original_context=64)


def test_what_a_schedule_does_not_read_changes_no_numbers() -> None:
    def effective(schedule: str, **fields: float) -> dict[str, object]:
        given = {f"train.{name}": value for name, value in fields.items()}
        return effective_fields(job_from_fields({"train.schedule": schedule, **given}))

    assert effective("constant") == effective("constant", min_lr_ratio=0, decay_fraction=0.5)
    assert effective("linear") == effective("linear", decay_fraction=0.5)
    assert effective("linear") != effective("linear", min_lr_ratio=0)
    assert effective("wsd") != effective("wsd", decay_fraction=0.5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model.routing_head": 4}, "model.routing_head: unknown field; did you mean 'model.routing_heads'?"),
        ({"model.scale": "100M"}, "model.scale: unknown scale '100M'; did you mean '100m'?"),
        ({"model.residual": "mhra"}, "model.residual: unknown residual stream 'mhra'; did you mean 'mhar'?"),
        ({"model.query_init": "zero"}, "model.query_init: got 'zero'; did you mean 'zeros'?"),
        ({"train.steps": 10.5}, "train.steps: got 10.5; expected a whole number"),
        ({"train.steps": True}, "train.steps: got True; expected a whole number"),
        ({"train.peak_lr": "1e-3"}, "train.peak_lr: got '1e-3'; expected a number"),
        ({"model.scale": 1}, "model.scale: got 1; expected a name"),
        ({"data.text": [1]}, "data.text: got [1]; expected a path or a list of paths"),
        (
            {"data.text": "a", "data.source": "stdlib"},
            "data.text: set either data.source or data.text, not both",
        ),
        (
            {"data.source": "text"},
            "data.text: expected a path or a list of paths, since data.source is text",
        ),
        ({"model.layers": 0}, "model.layers: got 0; expected 1 or more"),
        ({"train.peak_lr": -1e-3}, "train.peak_lr: got -0.001; expected 0 or more"),
        ({"train.peak_lr": float("nan")}, "train.peak_lr: got nan; expected a finite number"),
        ({"train.beta2": 1}, "train.beta2: got 1.0; expected less than 1"),
        (
            {"train.adam_eps": 0},
            "train.adam_eps: got 0; expected more than 0, since a gradient may be 0 and is divided by it",
        ),
        ({"train.clip_norm": -1}, "train.clip_norm: got -1.0; expected 0 or more"),
        ({"train.ema_decay": 1}, "train.ema_decay: got 1.0; expected less than 1"),
        ({"train.z_loss": -1e-4}, "train.z_loss: got -0.0001; expected 0 or more"),
        ({"train.schedule": "cosin"}, "train.schedule: got 'cosin'; did you mean 'cosine'?"),
        ({"train.decay_fraction": 0}, "train.decay_fraction: got 0.0; expected more than 0 and at most 1"),
        (
            {"train.schedule": "wsd", "train.decay_fraction": 0.96},
            "train.decay_fraction: got 0.96, which reaches into the warm-up; expected at most 0.95",
        ),
        ({"train.min_lr_ratio": 2}, "train.min_lr_ratio: got 2.0; expected at most 1"),
        (
            {"model.residual": "mhar", "model.routing_heads": 12},
            "model.routing_heads: 12 does not divide model.d_model (64); the nearest that does is 8",
        ),
        (
            {"model.kv_heads": 3},
            "model.kv_heads: 3 does not divide model.heads (4); the nearest that does is 2",
        ),
        (
            {"model.heads": 64},
            "model.heads: 64 / 64 is odd; rotary positions need an even head width",
        ),
        (
            {"model.heads": 6, "model.kv_heads": 3},
            "model.heads: 6 does not divide model.d_model (64); the nearest that does is 4",
        ),
        ({"model.head_width": 15}, "model.head_width: got 15; rotary positions need an even one"),
        ({"model.head_width": -2}, "model.head_width: got -2; expected 0 or more"),
        ({"model.rope_factor": 0.5}, "model.rope_factor: got 0.5; expected 1 or more"),
        ({"model.qk_norm": "nonr"}, "model.qk_norm: got 'nonr'; did you mean 'none'?"),
        (
            {"model.rope_scaling": "yarn", "model.rope_theta": 1},
            "model.rope_theta: got 1; expected more than 1 with model.rope_scaling: yarn",
        ),
        (
            {"train.batch_tokens": 1000},
            "data.context: 128 does not divide train.batch_tokens (1000); the nearest that does is 125",
        ),
        ({"train.warmup_steps": 240}, "train.warmup_steps: got 240; expected fewer than train.steps (240)"),
        (
            {"train.warmup_steps": 181},
            "train.warmup_steps: got 181, which reaches into the tail; expected at most 180, three quarters "
            "of train.steps",
        ),
        (
            {"train.eval_every": 80},
            "train.eval_every: got 80, which leaves fewer than 3 evaluations in the last quarter of 240 "
            "steps; expected 30 or less",
        ),
        ({"train.steps": 5}, "train.steps: got 5; expected 8 or more, for a tail of 3 evaluations"),
        ({"train.peak_lr": 10**400}, "train.peak_lr: too large; expected a finite number"),
    ],
)
def test_mistakes(fields: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        job_from_fields(fields)
    assert str(caught.value) == message
    assert caught.value.name == message.partition(":")[0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_field_takes_a_number_that_is_not_finite(value: float) -> None:
    for name in (name for name, field in FIELDS.items() if field.type is float):
        with pytest.raises(FieldError) as caught:
            job_from_fields({name: value})
        assert caught.value.name == name


def test_routing_heads_need_not_divide_where_they_are_not_read() -> None:
    assert job_from_fields({"model.routing_heads": 12}).model.residual == "additive"


def test_a_job_is_frozen() -> None:
    config: JobConfig = job_from_fields({})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 1  # type: ignore[misc]


def test_a_field_error_can_be_sent_between_processes() -> None:
    error = pickle.loads(pickle.dumps(FieldError("train.steps", "got 0")))
    assert (type(error), str(error), error.name) == (FieldError, "train.steps: got 0", "train.steps")
