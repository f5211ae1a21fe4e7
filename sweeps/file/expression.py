"""The expressions of `skip:`: comparisons over a job's fields, parsed by hand and never evaluated as code.

    or → and → not → comparison → + - → * / // % → unary - → number, 'name', field, ( )

Precedence and meaning are Python's. Kinds are checked while parsing: arithmetic takes numbers, `and`, `or`
and `not` take comparisons, names are compared with names, and the whole must be true or false.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from headcount.trainer.config import FIELDS
from headcount.trainer.errors import UserError, nearest

MAX_LENGTH = 500
MAX_NESTING = 40

Values = Mapping[str, Any]
Kind = Literal["truth", "number", "name"]


class ExpressionError(UserError):
    """What is wrong in an expression; `column` from 0 is where."""

    def __init__(self, problem: str, text: str, column: int) -> None:
        super().__init__(f"{problem}\n    {text}\n    {' ' * column}^")
        self.column = column


@dataclass(frozen=True)
class Expression:
    """A parsed expression: called with every field of a job, it tells whether the cell is skipped."""

    text: str
    _evaluate: Callable[[Values], Any] = field(repr=False, compare=False)

    def __call__(self, values: Values) -> bool:
        """Raises `ExpressionError` for a division by zero or an overflow."""
        try:
            return bool(self._evaluate(values))
        except ArithmeticError as error:
            raise ExpressionError(f"{error}", self.text, 0) from error


def parse_expression(text: str) -> Expression:
    """Raises `ExpressionError`, which points into the text."""
    return Expression(text, _Parser(text).whole())


class _Term(NamedTuple):
    kind: Kind
    column: int
    evaluate: Callable[[Values], Any]


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)
    | (?P<field>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    | (?P<string>'[^'\\\n]*'|"[^"\\\n]*")
    | (?P<operator>==|!=|<=|>=|//|\*\*|&&|\|\||[-+*/%<>()=!&|^~])""",
    re.VERBOSE | re.ASCII,
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SUMS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_INSTEAD = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not"}
_KINDS = {"truth": "a comparison", "number": "a number", "name": "a name"}


class _Parser:
    """One method a level of precedence, the loosest first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.next = 0
        self.tokens: list[_Token] = []
        if len(text) > MAX_LENGTH:
            raise self.error(f"{len(text)} characters; expected at most {MAX_LENGTH}", 0)
        column = 0
        while column < len(text):
            match = _TOKEN.match(text, column)
            if match is None:
                if text[column] in "'\"":
                    raise self.error("expected a name in closed quotes, without a backslash", column)
                raise self.error(f"{text[column]!r} is not part of an expression", column)
            if match.lastgroup != "space":
                self.tokens.append(_Token(str(match.lastgroup), match.group(), column))
            column = match.end()
        self.tokens.append(_Token("end", "", len(text)))

    def error(self, problem: str, column: int) -> ExpressionError:
        return ExpressionError(problem, self.text, column)

    def take(self, *texts: str) -> _Token | None:
        """The next token when it is one of `texts`, which are operators or words."""
        token = self.tokens[self.next]
        if token.kind in ("operator", "field") and token.text in texts:
            self.next += 1
            return token
        return None

    def need(self, term: _Term, *kinds: Kind) -> _Term:
        if term.kind not in kinds:
            expected = " or ".join(_KINDS[k] for k in kinds)
            hint = "; compare it, as in '... != 0'" if kinds == ("truth",) and term.kind == "number" else ""
            raise self.error(f"{_KINDS[term.kind]} where {expected} is expected{hint}", term.column)
        return term

    def whole(self) -> Callable[[Values], Any]:
        term = self.either()
        rest = self.tokens[self.next]
        if rest.kind != "end":
            hint = f"; did you mean {_INSTEAD[rest.text]!r}?" if rest.text in _INSTEAD else ""
            raise self.error(f"unexpected {rest.text!r}{hint}", rest.column)
        return self.need(term, "truth").evaluate

    def either(self) -> _Term:
        return self.joined("or", any, self.both)

    def both(self) -> _Term:
        return self.joined("and", all, self.negation)

    def joined(self, word: str, combine: Callable[[Any], bool], operand: Callable[[], _Term]) -> _Term:
        first = operand()
        if self.tokens[self.next].text != word:
            return first
        parts = [self.need(first, "truth").evaluate]
        while self.take(word):
            parts.append(self.need(operand(), "truth").evaluate)
        return _Term("truth", first.column, lambda values: combine(part(values) for part in parts))

    def negation(self) -> _Term:
        if not (token := self.take("not")):
            return self.comparison()
        self.descend(token.column)
        inner = self.need(self.negation(), "truth").evaluate
        self.depth -= 1
        return _Term("truth", token.column, lambda values: not inner(values))

    def comparison(self) -> _Term:
        terms, compare = [self.sum()], []
        while token := self.take(*_COMPARISONS):
            terms.append(self.sum())
            for term in terms[-2:]:
                self.need(term, "number", "name")
            kinds = {terms[-2].kind, terms[-1].kind}
            if kinds == {"number", "name"}:
                raise self.error("a number is compared with a name", token.column)
            if kinds == {"name"} and token.text not in ("==", "!="):
                raise self.error(f"names have no order; use == or != instead of {token.text}", token.column)
            compare.append(_COMPARISONS[token.text])
        if not compare:
            return terms[0]

        def chain(values: Values) -> bool:
            left = terms[0].evaluate(values)
            for holds, term in zip(compare, terms[1:], strict=True):
                right = term.evaluate(values)
                if not holds(left, right):
                    return False
                left = right
            return True

        return _Term("truth", terms[0].column, chain)

    def sum(self) -> _Term:
        return self.folded(_SUMS, self.product)

    def product(self) -> _Term:
        return self.folded(_PRODUCTS, self.sign)

    def folded(
        self, operators: Mapping[str, Callable[[Any, Any], Any]], operand: Callable[[], _Term]
    ) -> _Term:
        """Operands joined from left to right."""
        left = operand()
        while token := self.take(*operators):
            left = self.applied(operators[token.text], self.need(left, "number"), operand())
        return left

    def applied(self, operate: Callable[[Any, Any], Any], left: _Term, right: _Term) -> _Term:
        before, after = left.evaluate, self.need(right, "number").evaluate
        return _Term("number", left.column, lambda values: operate(before(values), after(values)))

    def sign(self) -> _Term:
        if not (token := self.take("-", "+")):
            return self.atom()
        self.descend(token.column)
        inner = self.need(self.sign(), "number").evaluate
        self.depth -= 1
        if token.text == "+":
            return _Term("number", token.column, inner)
        return _Term("number", token.column, lambda values: -inner(values))

    def atom(self) -> _Term:
        token = self.tokens[self.next]
        self.next += 1
        if token.text == "(":
            self.descend(token.column)
            inner = self.either()
            self.depth -= 1
            if not self.take(")"):
                raise self.error("this ( is not closed", token.column)
            return inner._replace(column=token.column)
        if token.kind == "number":
            value = float(token.text) if re.search("[.eE]", token.text) else int(token.text)
            return _Term("number", token.column, lambda values: value)
        if token.kind == "string":
            name = token.text[1:-1]
            return _Term("name", token.column, lambda values: name)
        if token.kind == "field" and token.text not in ("and", "or", "not"):
            return self.field(token)
        found = f"unexpected {token.text!r}" if token.text else "the expression ends too early"
        raise self.error(f"{found}; expected a field, a number or a name in quotes", token.column)

    def field(self, token: _Token) -> _Term:
        name = token.text
        if self.tokens[self.next].text == "(":
            raise self.error(f"{name}(...): functions are not called in an expression", token.column)
        if name not in FIELDS:
            hint = nearest(name, FIELDS)
            if "." not in name and not hint.startswith("did you mean"):
                hint = f"a name is written in quotes: {name!r}"
            raise self.error(f"unknown field {name!r}; {hint}", token.column)
        declared = FIELDS[name].type
        if declared == tuple[str, ...]:
            raise self.error(f"{name} is a list, which an expression cannot compare", token.column)
        kind: Kind = "number" if declared in (int, float) else "name"
        return _Term(kind, token.column, operator.itemgetter(name))

    def descend(self, column: int) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"nested more than {MAX_NESTING} deep", column)
