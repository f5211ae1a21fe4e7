"""A job's id: what it depends on, what it does not, and that it never changes by itself."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.sweeps.planning.identity import canonical, job_id
from headcount.trainer.config import FIELDS, NUMERICS, JobConfig, fields_of, job_from_fields

GOLDEN = Path(__file__).parent / "golden"
TEXT = "0123456789abcdef" * 4

FROZEN = (
    "Earlier results would be found under other ids, or new ones under earlier ids. "
    "Bring the earlier value back, or raise NUMERICS in trainer/config.py and write the golden files anew."
)

# written out, since another scale is another job and no change of this one
SMALL = {
    "model.d_model": 64,
    "model.layers": 2,
    "model.heads": 4,
    "model.kv_heads": 2,
    "model.d_ff": 192,
    "data.context": 128,
    "train.steps": 200,
    "train.batch_tokens": 1024,
    "train.precision": "fp32",
    "train.peak_lr": 1e-3,
}

GOLDEN_JOBS: dict[str, tuple[dict[str, Any], int]] = {
    "additive": (SMALL, 0),
    "additive at seed 1": (SMALL, 1),
    "mhar, one routing head": ({**SMALL, "model.residual": "mhar"}, 0),
    "mhar, four routing heads": ({**SMALL, "model.residual": "mhar", "model.routing_heads": 4}, 0),
    "mhar, random queries, another rate": (
        {**SMALL, "model.residual": "mhar", "model.query_init": "normal", "train.peak_lr": 5e-4},
        2,
    ),
    "every field set": (
        {
            "model.d_model": 96,
            "model.layers": 3,
            "model.heads": 6,
            "model.kv_heads": 3,
            "model.d_ff": 200,
            "model.vocab_size": 300,
            "model.rope_theta": 500_000,
            "model.norm_eps": 1e-5,
            "model.init_std": 0.01,
            "model.residual": "mhar",
            "model.routing_heads": 2,
            "model.query_init": "normal",
            "data.context": 64,
            "train.steps": 400,
            "train.batch_tokens": 256,
            "train.precision": "bf16",
            "train.warmup_steps": 2,
            "train.eval_every": 5,
            "train.eval_windows": 8,
            "train.peak_lr": 3e-4,
            "train.min_lr_ratio": 0,
            "train.beta1": 0.8,
            "train.beta2": 0.99,
            "train.adam_eps": 1e-7,
            "train.weight_decay": 0.01,
            "train.clip_norm": 0.5,
        },
        7,
    ),
}


def job(seed: int = 0, **values: Any) -> JobConfig:
    return job_from_fields(SMALL | {name.replace("__", "."): value for name, value in values.items()}, seed)


def test_ids_are_the_golden_ones() -> None:
    ids = {name: job_id(job_from_fields(values, seed), TEXT) for name, (values, seed) in GOLDEN_JOBS.items()}
    golden = json.loads((GOLDEN / "ids.json").read_text())
    assert ids == golden, FROZEN


def test_defaults_are_the_golden_ones() -> None:
    # the source and its paths are never in an id: the fingerprint stands for the text
    named = {n: f for n, f in FIELDS.items() if n not in ("data.source", "data.text")}
    defaults = {n: f.default for n, f in named.items() if f.default is not dataclasses.MISSING}
    held = json.loads(json.dumps({"NUMERICS": NUMERICS, **defaults}))
    golden = json.loads((GOLDEN / "defaults.json").read_text())
    # a new field with a default is no change: it is left out of every earlier job's id
    assert {name: held.get(name) for name in golden} == golden, FROZEN
    assert held.keys() == golden.keys(), f"add the new defaults to {GOLDEN / 'defaults.json'}"


def test_every_field_of_the_golden_job_is_in_its_id() -> None:
    values, seed = GOLDEN_JOBS["every field set"]
    content = canonical(job_from_fields(values, seed), TEXT)
    assert content == {
        "kind": "train",
        "numerics": NUMERICS,
        "fingerprint": TEXT,
        "seed": 7,
        **values,
    }


@pytest.mark.parametrize("name", list(GOLDEN_JOBS["every field set"][0]))
def test_any_field_changes_the_id(name: str) -> None:
    values, seed = GOLDEN_JOBS["every field set"]
    config = job_from_fields(values, seed)
    section, _, field = name.partition(".")
    value = getattr(getattr(config, section), field)
    other = {"normal": "zeros", "bf16": "fp32", "mhar": "additive"}.get(value) or value * 2 + 1
    changed = dataclasses.replace(getattr(config, section), **{field: other})
    assert job_id(dataclasses.replace(config, **{section: changed}), TEXT) != job_id(config, TEXT)


def test_seed_and_text_are_in_the_id() -> None:
    assert len({job_id(job(), TEXT), job_id(job(1), TEXT), job_id(job(), TEXT[::-1])}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"train__peak_lr": 0.1}, {"train__peak_lr": 1e-1}),
        ({"model__rope_theta": 20000}, {"model__rope_theta": 2e4}),
        ({"train__weight_decay": 0}, {"train__weight_decay": -0.0}),
        ({"train__weight_decay": 0.1}, {}),
        ({"model__scale": "1b"}, {"model__scale": "nano"}),
        ({"train__warmup_steps": 10}, {}),
        ({"data__text": ["a.txt"]}, {"data__text": "b.txt"}),
        ({"data__text": ["a.txt"]}, {"data__source": "stdlib"}),
        ({"model__routing_heads": 4}, {"model__routing_heads": 1}),
        ({"model__query_init": "normal"}, {}),
        ({"model__residual": "mhar", "model__routing_heads": 1}, {"model__residual": "mhar"}),
    ],
    ids=str,
)
def test_two_spellings_of_one_job_have_one_id(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert job_id(job(**one), TEXT) == job_id(job(**other), TEXT)


def test_equal_shapes_under_two_scale_names_are_one_job() -> None:
    large = job_from_fields({"model.scale": "100m"})
    shape = {name: value for name, value in fields_of(large).items() if name != "model.scale"}
    assert job_id(job_from_fields({**shape, "model.scale": "nano"}), TEXT) == job_id(large, TEXT)


def test_a_whole_number_in_a_real_field_is_the_same_number() -> None:
    config = job(train__weight_decay=2.0)
    whole = dataclasses.replace(config, train=dataclasses.replace(config.train, weight_decay=2))
    assert job_id(whole, TEXT) == job_id(config, TEXT)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    heads=st.sampled_from([1, 2, 4, 8, 16, 32, 64]),
    rate=st.floats(1e-6, 1.0),
    init=st.sampled_from(["zeros", "normal"]),
)
def test_an_additive_job_is_one_job_for_every_number_of_routing_heads(
    seed: int, heads: int, rate: float, init: str
) -> None:
    control = job(seed, train__peak_lr=rate)
    idle = job(seed, train__peak_lr=rate, model__routing_heads=heads, model__query_init=init)
    assert job_id(idle, TEXT) == job_id(control, TEXT)
    treatment = job(seed, train__peak_lr=rate, model__routing_heads=heads, model__residual="mhar")
    assert job_id(treatment, TEXT) != job_id(control, TEXT)
    assert job_id(job_from_fields(fields_of(treatment), seed), TEXT) == job_id(treatment, TEXT)
