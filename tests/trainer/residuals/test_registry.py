from dataclasses import replace

import pytest

from headcount.trainer.config import job_from_fields
from headcount.trainer.residuals import registry
from headcount.trainer.residuals.registry import (
    added_flops_per_token,
    added_parameters,
    stream_fields,
    stream_names,
    stream_reads,
)

MODEL = job_from_fields({}).model


def test_streams_and_what_they_read() -> None:
    assert {"additive", "mhar"} <= set(stream_names())
    assert stream_reads("additive") == frozenset()
    assert {"routing_heads", "query_init", "block_size"} <= stream_reads("mhar")
    assert stream_fields() >= {"routing_heads", "query_init"}


@pytest.mark.parametrize("name", stream_names())
def test_what_is_stated_for_planning_is_what_the_class_has(name: str) -> None:
    """The planner reads the file without importing it; both must say the same."""
    module = __import__(f"headcount.trainer.residuals.{name}", fromlist=["Stream"])
    model = replace(MODEL, residual=name)
    assert stream_reads(name) == frozenset(module.READS)
    assert added_parameters(model) == module.added_parameters(model)
    assert added_flops_per_token(model) == module.added_flops_per_token(model)
    assert added_parameters(model) == sum(p.numel() for p in module.Stream(model).parameters())


def test_a_stream_that_states_too_little(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "silent.py").write_text("READS = ()\n")
    monkeypatch.setattr(registry, "_FOLDER", tmp_path)
    with pytest.raises(AssertionError, match=r"silent\.py states no DIAGNOSTICS, added_flops_per_token, "):
        stream_reads("silent")
