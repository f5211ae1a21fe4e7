"""What a single value of a sweep file may be, with the error where it is not."""

from headcount.sweeps.file.document import Node
from headcount.trainer.errors import nearest

LARGEST = 2**31 - 1
"""Of any whole number: what a column of the store holds."""


def known(node: Node, *names: str) -> dict[str, Node]:
    """The fields of a mapping that has no others than `names`, and each with a value."""
    given = node.mapping(f"fields: {', '.join(names)}")
    for key, child in given.items():
        if key not in names:
            raise child.error(f"unknown field; {nearest(key, names)}")
        if child.value is None:
            raise child.error("has no value; leave the line out for the default")
    return given


def whole(node: Node, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    expected = f"a whole number from {low} to {high}"
    value = node.integer(expected)
    if not low <= value <= high:
        raise node.unexpected(expected)
    return value


def positive(node: Node) -> float:
    """A finite number above 0."""
    value = float(node.number("a number above 0"))
    if not 0 < value < float("inf"):
        raise node.unexpected("a number above 0")
    return value
