import pytest

from headcount.dashboard import text


@pytest.mark.parametrize(
    ("value", "number", "signed"),
    [
        (3.46005, "3.4600", "+3.4600"),
        (-0.04713, "−0.0471", "−0.0471"),
        (0.00004, "0.0000", "0.0000"),
        (-0.00004, "−0.0000", "0.0000"),
        (None, "—", "—"),
    ],
)
def test_losses_and_deltas(value: float | None, number: str, signed: str) -> None:
    assert (text.number(value), text.signed(value)) == (number, signed)


def test_an_interval_needs_both_ends() -> None:
    assert text.interval(-0.0551, 0.0392) == "[−0.0551,\u00a0+0.0392]"
    assert text.interval(-0.0551, None) == "—"


@pytest.mark.parametrize(
    ("p", "written", "equals"),
    [
        (0.0000786, "<0.0001", "p\u00a0<\u00a00.0001"),
        (0.0035163, "0.0035", "p\u00a0=\u00a00.0035"),
        (0.0202041, "0.020", "p\u00a0=\u00a00.020"),
        (1.0, "1.000", "p\u00a0=\u00a01.000"),
        (None, "—", "p\u00a0=\u00a0—"),
    ],
)
def test_p_values(p: float | None, written: str, equals: str) -> None:
    assert text.p_value(p) == written
    assert text.p_equals(p) == equals


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (8, "8"),
        (8.0, "8"),
        (5e-4, "5e-4"),
        (1e-3, "1e-3"),
        (2.5e-3, "2.5e-3"),
        (1e-5, "1e-5"),
        (0.01, "0.01"),
        (0.1, "0.1"),
        (1e20, "1e20"),
        ("mhar", "mhar"),
        ((), ""),
        (("a.txt", "b.txt"), "a.txt, b.txt"),
        (True, "true"),
        (None, "—"),
    ],
)
def test_values_of_axes_as_in_a_sweep_file(value: object, written: str) -> None:
    assert text.setting(value) == written


def test_settings_by_short_names() -> None:
    settings = {"model.routing_heads": 8, "train.peak_lr": 5e-4, "train.weight_decay": 0.1}
    assert text.settings(settings) == "H\u00a08 · LR\u00a05e-4 · weight_decay\u00a00.1"
    assert text.settings(settings, ("train.peak_lr", "train.weight_decay")) == "H\u00a08"
    assert text.settings({}) == ""


@pytest.mark.parametrize(
    ("value", "written"),
    [(999, "999"), (113_900, "113.9k"), (1e5, "100k"), (2.5e12, "2.5T"), (0.88, "0.88"), (None, "—")],
)
def test_large_numbers(value: float | None, written: str) -> None:
    assert text.compact(value) == written


def test_counts_and_seeds() -> None:
    assert [text.plural(n, "job") for n in (0, 1, 1000)] == ["0 jobs", "1 job", "1,000 jobs"]
    assert [text.seeds(s) for s in ((), (0,), (0, 1))] == ["no seed", "seed 0", "seeds 0, 1"]


def test_what_is_not_drawn_is_named_by_its_reason_and_counted() -> None:
    absent = [text.Absent(f"H {heads}", "missing") for heads in (1, 2)]
    absent.insert(1, text.Absent("H 4", "1 of 3 diverged"))
    assert text.not_drawn(absent) == "Not drawn: H 1, H 2 (missing); H 4 (1 of 3 diverged)"
    assert text.not_drawn([*absent, *absent, *absent]).endswith("; and 3 more")
