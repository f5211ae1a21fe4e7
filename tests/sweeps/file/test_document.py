"""Reading YAML: numbers as YAML 1.2 has them, a line for every value, and one clear error for the rest."""

import math
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.sweeps.file.document import MAX_BYTES, SpecError, parse_document, read_text


def value(text: str) -> object:
    return parse_document(f"field: {text}", "sweep.yaml").mapping("fields")["field"].plain()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-4", 1e-4),
        ("1E3", 1000.0),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("+12", 12),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        # text in YAML 1.2, something else in 1.1
        ("on", "on"),
        ("no", "no"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b1", "0b1"),
        ("2024-01-01", "2024-01-01"),
        ("1e", "1e"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("[1, [2, a]]", [1, [2, "a"]]),
        ("{a: {b: 1.5}}", {"a": {"b": 1.5}}),
    ],
)
def test_scalars_are_those_of_the_core_schema(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_any_number_that_python_writes_is_read_back(number: float) -> None:
    text = str(number).replace("inf", ".inf")
    assert value(text) == number


def test_every_value_knows_its_line_and_path() -> None:
    top = parse_document("a: 1\nb:\n  c:\n    - x\n    - y: 2\nd: >\n  folded\n", "sweep.yaml")
    b = top.mapping("")["b"]
    c = b.mapping("")["c"]
    x, y = c.items("")
    places = [(node.path, node.line) for node in (b, c, x, y, y.mapping("")["y"], top.mapping("")["d"])]
    assert places == [("b", 2), ("b.c", 3), ("b.c[0]", 4), ("b.c[1]", 5), ("b.c[1].y", 5), ("d", 6)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sweep.yaml: empty; expected a sweep, which begins with its name"),
        ("# nothing\n", "sweep.yaml: empty; expected a sweep, which begins with its name"),
        ("- a\n", "sweep.yaml:1: expected fields such as 'name: my-sweep'"),
        ("\n\njust text\n", "sweep.yaml:3: expected fields such as 'name: my-sweep'"),
        ("a: 1\nb: [1, 2\nc: 3\n", "sweep.yaml:3: malformed YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", "sweep.yaml:2: malformed YAML: found character '\\t' that cannot start any token"),
        ("a: 'x\n", "sweep.yaml:2: malformed YAML: found unexpected end of stream"),
        ("a: 1\nb: 2: 3\n", "sweep.yaml:2: malformed YAML: mapping values are not allowed here"),
        ("a: 1\nb: \x07\n", "sweep.yaml:2: malformed YAML: the character '\\x07' is not allowed"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "sweep.yaml:4: b.c: given twice; first on line 3"),
        ("a: &x 1\n", "sweep.yaml:1: a: anchors and aliases (x) are not read; write the value out"),
        ("a: 1\nb: *x\n", "sweep.yaml:2: b: anchors and aliases (x) are not read; write the value out"),
        (
            "a: !!python/name:os.system 1\n",
            "sweep.yaml:1: a: tags (tag:yaml.org,2002:python/name:os.system) are",
        ),
        ("a: !x {b: 1}\n", "sweep.yaml:1: a: tags (!x) are not read; write the plain value"),
        ("a: {[1, 2]: 3}\n", "sweep.yaml:1: a: expected a plain name as the key"),
        ("a: 1\n---\nb: 2\n", "sweep.yaml:2: a second document; expected one sweep a file"),
        ("a: " + "[" * 60 + "]" * 60, "sweep.yaml:1: a[0][0][0][0][0][0][0][0]: nested more than 8 deep"),
        ("a: " + "1" * 50, "sweep.yaml:1: a: a number of 50 characters; expected at most 40"),
        ("a: " + "x" * MAX_BYTES, "sweep.yaml: larger than 256 KiB; expected a sweep file"),
    ],
)
def test_a_bad_document_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_document(text, "sweep.yaml")
    assert str(caught.value).startswith(message)
    assert caught.value.origin == "sweep.yaml"


@settings(deadline=None)
@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@`#,?~ \n\t0123e."), max_size=80))
def test_any_text_is_a_tree_or_one_clear_error(text: str) -> None:
    with suppress(SpecError):
        parse_document(text, "sweep.yaml")


def test_an_error_quotes_a_bounded_part_of_the_file() -> None:
    top = parse_document(f"a: {'x' * 5000}", "sweep.yaml")
    message = str(top.mapping("fields")["a"].unexpected("a number"))
    assert message == f"sweep.yaml:1: a: got '{'x' * 995} …"


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(40))
    with pytest.raises(SpecError, match=r"sweep.yaml:1: a: anchors"):
        parse_document(bomb, "sweep.yaml")


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text("name: a")
    (tmp_path / "latin.yaml").write_bytes(b"name: a\ndescription: caf\xe9\n")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    expected = {
        "quikstart.yaml": ": no such file; did you mean 'quickstart.yaml'?",
        "nowhere/a.yaml": ": no such file",
        "quickstart.yaml/a": ": no such file",
        "folder": ": not a file; expected a sweep file in YAML",
        "pipe": ": not a file; expected a sweep file in YAML",
        "latin.yaml": ":2: not UTF-8 text; save the file as UTF-8",
        "large.yaml": ": larger than 256 KiB; expected a sweep file",
        "n" * 300: ": cannot be read: File name too long",
    }
    for name, message in expected.items():
        with pytest.raises(SpecError) as caught:
            read_text(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}{message}"
    assert read_text(tmp_path / "quickstart.yaml") == "name: a"
