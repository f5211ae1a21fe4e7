"""The expressions of `skip:` against Python's own evaluation, and what they refuse."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.sweeps.file.expression import ExpressionError, parse_expression
from headcount.trainer.config import complete_fields

VALUES = complete_fields({"model.residual": "mhar", "model.routing_heads": 3, "train.peak_lr": 5e-4})


def python(text: str, values: dict[str, Any] = VALUES) -> bool:
    """What Python makes of the same text, with the fields as attributes."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, field = name.partition(".")
        sections.setdefault(section, {})[field] = value
    return bool(eval(text, {}, {section: SimpleNamespace(**held) for section, held in sections.items()}))


@pytest.mark.parametrize(
    "text",
    [
        "model.d_model % model.routing_heads != 0",
        "model.routing_heads == model.kv_heads or model.residual == 'mhar'",
        "not model.kv_heads > 1 and model.heads == 4",
        "not (model.kv_heads > 1 and model.heads == 5)",
        "1 < model.routing_heads <= 3 < model.d_model",
        "model.d_model // model.routing_heads * model.routing_heads + 1 == model.d_model",
        "-7 // 2 == -4 and -7 % 3 == 2 and 7 / 2 == 3.5",
        "-model.heads - -2 < +.5e1",
        "2 - 3 - 4 == -5",
        "train.peak_lr >= 5e-4",
        'model.scale != "nano" or train.precision == "fp32"',
        "(((model.layers)) == (2))",
    ],
)
def test_the_meaning_is_python_s(text: str) -> None:
    assert parse_expression(text)(VALUES) is python(text)


NUMBERS = st.recursive(
    st.one_of(
        st.integers(0, 99).map(str),
        st.sampled_from([".5", "2.", "1e3", "2.5e-1"]),
        st.sampled_from([name for name, value in VALUES.items() if isinstance(value, int | float)]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join),
        inner.map("-{}".format),
        inner.map("({})".format),
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["model.residual", "model.query_init", "data.source", "'mhar'", '"zeros"'])
COMPARISONS = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), NUMBERS).map(" ".join),
    st.tuples(NUMBERS, st.just("<"), NUMBERS, st.just("<="), NUMBERS).map(" ".join),
    st.tuples(NAMES, st.sampled_from(["==", "!="]), NAMES).map(" ".join),
)
TRUTHS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map("not ({})".format),
        inner.map("not {}".format),
        inner.map("({})".format),
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(TRUTHS)
def test_any_expression_means_what_it_means_in_python(text: str) -> None:
    try:
        expected = python(text)
    except ArithmeticError:
        with pytest.raises(ExpressionError):
            parse_expression(text)(VALUES)
        return
    assert parse_expression(text)(VALUES) is expected


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("model.heads_kv ()'\"+-*/%<>=!&|0123456789eE andornot\t;:[]{}\\λ"), max_size=60)
)
def test_any_text_is_an_expression_or_one_clear_error(text: str) -> None:
    with suppress(ExpressionError):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("model.d_modle % 2 == 0", 0, "unknown field 'model.d_modle'; did you mean 'model.d_model'?"),
        (
            "model.residual == mhra",
            18,
            "unknown field 'mhra'; a name is written in quotes: 'mhra'",
        ),
        ("model.d_model.bit_length == 1", 0, "unknown field 'model.d_model.bit_length'; did you mean"),
        ("__import__('os') == 1", 0, "__import__(...): functions are not called in an expression"),
        ("model.d_model(1) == 1", 0, "model.d_model(...): functions are not called in an expression"),
        ("2 ** 9 == 1", 2, "unexpected '**'"),
        ("model.heads = 4", 12, "unexpected '='; did you mean '=='?"),
        ("model.heads == 4 && model.layers == 2", 17, "unexpected '&&'; did you mean 'and'?"),
        ("model.heads == 4 || model.layers == 2", 17, "unexpected '||'; did you mean 'or'?"),
        ("!model.heads", 0, "unexpected '!'; expected a field, a number or a name in quotes"),
        ("model.heads[0] == 1", 11, "'[' is not part of an expression"),
        ("model.heads == 4 if 1 else 2", 17, "unexpected 'if'"),
        ("lambda: 1", 6, "':' is not part of an expression"),
        ("(model.heads == 4", 0, "this ( is not closed"),
        ("model.heads == 4)", 16, "unexpected ')'"),
        (
            "model.heads ==",
            14,
            "the expression ends too early; expected a field, a number or a name in quotes",
        ),
        ("", 0, "the expression ends too early"),
        ("model.heads % 2", 0, "a number where a comparison is expected; compare it, as in '... != 0'"),
        ("model.heads and model.layers == 2", 0, "a number where a comparison is expected; compare it"),
        ("'mhar'", 0, "a name where a comparison is expected"),
        ("(model.heads == 4) + 1 == 2", 0, "a comparison where a number is expected"),
        ("1 + 'a' == 2", 4, "a name where a number is expected"),
        ("-model.residual == 1", 1, "a name where a number is expected"),
        ("model.scale == 100", 12, "a number is compared with a name"),
        ("model.scale < 'nano'", 12, "names have no order; use == or != instead of <"),
        ("(1 < 2) == (3 < 4)", 0, "a comparison where a number or a name is expected"),
        ("1 == not 2", 5, "unexpected 'not'; expected a field, a number or a name in quotes"),
        ("data.text == 'a'", 0, "data.text is a list, which an expression cannot compare"),
        ("model.scale == 'a\\n'", 15, "expected a name in closed quotes, without a backslash"),
        ("model.scale == 'a", 15, "expected a name in closed quotes, without a backslash"),
        ("d_model > 8", 0, "unknown field 'd_model'; did you mean 'model.d_model'?"),
        ("(" * 60 + "1" + ")" * 60 + " == 1", 40, "nested more than 40 deep"),
        ("- " * 60 + "1 == 1", 80, "nested more than 40 deep"),
        ("not " * 60 + "1 == 1", 160, "nested more than 40 deep"),
        ("1 == 1 or " * 60 + "1 == 1", 0, "606 characters; expected at most 500"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_what_is_refused_is_pointed_at(text: str, column: int, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    first, shown, pointer = str(caught.value).split("\n")
    assert first.startswith(problem)
    assert (shown, pointer) == (f"    {text}", "    " + " " * column + "^")
    assert caught.value.column == column


@pytest.mark.parametrize(
    "text", ["1 / (model.heads - 4) > 0", "1e308 * 10 % 0 == 1", "9" * 400 + " * 1.5 > 0"]
)
def test_arithmetic_that_has_no_answer_is_an_error(text: str) -> None:
    expression = parse_expression(text)
    with pytest.raises(ExpressionError):
        expression(VALUES)


def test_the_longest_expression_is_evaluated() -> None:
    text = "+".join("1" * 247) + " > 3"
    assert parse_expression(text)(VALUES) is True
