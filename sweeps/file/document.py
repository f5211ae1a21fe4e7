"""A sweep file's text as a tree of nodes that know their line. A bounded, safe subset of YAML 1.2."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headcount.trainer.errors import UserError, nearest

MAX_BYTES = 256 * 1024
MAX_DEPTH = 8
MAX_DIGITS = 40
MAX_PROBLEM = 1000
"""Characters of an error: it quotes the file, which may hold anything."""

Scalar = str | int | float | bool | None


class SpecError(UserError):
    """What is wrong in a sweep file, and where: `origin` (the file), `line` from 1, `field`."""

    def __init__(
        self, problem: str, *, origin: str, line: int | None = None, field: str | None = None
    ) -> None:
        if len(problem) > MAX_PROBLEM:
            problem = problem[:MAX_PROBLEM] + " …"
        place = origin if line is None else f"{origin}:{line}"
        super().__init__(": ".join(part for part in (place, field, problem) if part))
        self.origin = origin
        self.line = line
        self.field = field
        self.problem = problem


@dataclass(frozen=True)
class Node:
    """One value of the file. `line` is where it begins, its key's line in a mapping; `path` is its field."""

    value: "Scalar | list[Node] | dict[str, Node]"
    origin: str
    line: int
    path: str

    def error(self, problem: str) -> SpecError:
        return SpecError(problem, origin=self.origin, line=self.line, field=self.path or None)

    def unexpected(self, expected: str) -> SpecError:
        """The error for a value of the wrong kind."""
        if isinstance(self.value, dict):
            got = "a mapping"
        elif isinstance(self.value, list):
            got = "a list"
        elif self.value is None:
            got = "nothing"
        else:
            got = repr(self.value)
        return self.error(f"got {got}; expected {expected}")

    def mapping(self, expected: str) -> "dict[str, Node]":
        if not isinstance(self.value, dict):
            raise self.unexpected(expected)
        return self.value

    def items(self, expected: str) -> "list[Node]":
        if not isinstance(self.value, list):
            raise self.unexpected(expected)
        return self.value

    def text(self, expected: str) -> str:
        if not isinstance(self.value, str):
            raise self.unexpected(expected)
        return self.value

    def integer(self, expected: str) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.unexpected(expected)
        return self.value

    def number(self, expected: str) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.unexpected(expected)
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.unexpected("true or false")
        return self.value

    def choice(self, choices: Iterable[str]) -> str:
        choices = tuple(choices)
        if self.value not in choices:
            raise self.unexpected(f"one of {', '.join(choices)}")
        return str(self.value)

    def plain(self) -> object:
        """The value as Python lists, dictionaries and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read_text(path: Path) -> str:
    """The text of a sweep file. Raises `SpecError` unless it is a readable UTF-8 file of fitting size."""
    origin = str(path)
    try:
        if not path.exists():
            beside = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
            hint = f"; {nearest(path.name, beside)}" if beside else ""
            raise SpecError(f"no such file{hint}", origin=origin)
        if not path.is_file():
            raise SpecError("not a file; expected a sweep file in YAML", origin=origin)
        if path.stat().st_size > MAX_BYTES:
            raise SpecError(f"larger than {MAX_BYTES // 1024} KiB; expected a sweep file", origin=origin)
        content = path.read_bytes()
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", origin=origin) from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError("not UTF-8 text; save the file as UTF-8", origin=origin, line=line) from error


def parse_document(text: str, origin: str) -> Node:
    """The one document of `text` as its top node, a mapping.

    Scalars are read by the core schema of YAML 1.2: `1e-4` is a number, `on` and `no` are text, `0o17` is
    octal, `1:30` is text. Anchors, aliases, tags and duplicate keys are refused, depth and size bounded.
    Raises `SpecError`.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SpecError(f"larger than {MAX_BYTES // 1024} KiB; expected a sweep file", origin=origin)
    try:
        # events rather than the composed tree: composing would recurse as deep as the file asks
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        top = _document(events, origin)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise SpecError(f"malformed YAML: {error.problem}", origin=origin, line=line) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError(
            f"malformed YAML: the character {chr(error.character)!r} is not allowed", origin=origin, line=line
        ) from error
    if top is None or top.value is None:
        raise SpecError("empty; expected a sweep, which begins with its name", origin=origin)
    if not isinstance(top.value, dict):
        raise SpecError("expected fields such as 'name: my-sweep'", origin=origin, line=top.line)
    return top


def _document(events: Iterator[Any], origin: str) -> Node | None:
    top = None
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            if top is not None:
                raise SpecError(
                    "a second document; expected one sweep a file", origin=origin, line=_line(event)
                )
            first = next(events)
            top = _node(first, events, Node(None, origin, _line(first), ""), depth=0)
    return top


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _node(event: Any, events: Iterator[Any], place: Node, depth: int) -> Node:
    """The node that begins with `event`, read to its end. `place` is its line and path, still empty."""
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise place.error(f"anchors and aliases ({event.anchor}) are not read; write the value out")
    if event.tag is not None:
        raise place.error(f"tags ({event.tag}) are not read; write the plain value")
    if depth > MAX_DEPTH:
        raise place.error(f"nested more than {MAX_DEPTH} deep")
    if isinstance(event, yaml.ScalarEvent):
        return _at(place, _resolve(event.value, place) if event.implicit[0] else event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            item = Node(None, place.origin, _line(event), f"{place.path}[{len(items)}]")
            items.append(_node(event, events, item, depth + 1))
        return _at(place, items)
    fields: dict[str, Node] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        line = _line(event)
        if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
            raise Node(None, place.origin, line, place.path).error("expected a plain name as the key")
        child = Node(None, place.origin, line, f"{place.path}.{event.value}".removeprefix("."))
        if event.value in fields:
            raise child.error(f"given twice; first on line {fields[event.value].line}")
        fields[event.value] = _node(next(events), events, child, depth + 1)
    return _at(place, fields)


def _at(place: Node, value: "Scalar | list[Node] | dict[str, Node]") -> Node:
    return Node(value, place.origin, place.line, place.path)


_INTEGER = re.compile(r"[-+]?[0-9]+")
_RADIX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + dot: float(sign + "inf") for sign in ("", "+", "-") for dot in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


def _resolve(text: str, place: Node) -> Scalar:
    """A plain scalar by the core schema of YAML 1.2 (its section 10.3.2)."""
    if text in _WORDS:
        return _WORDS[text]
    number = _INTEGER.fullmatch(text) or _RADIX.fullmatch(text) or _REAL.fullmatch(text)
    if number and len(text) > MAX_DIGITS:
        raise place.error(f"a number of {len(text)} characters; expected at most {MAX_DIGITS}")
    if _INTEGER.fullmatch(text):
        return int(text)
    if _RADIX.fullmatch(text):
        return int(text, 0)
    return float(text) if number else text
