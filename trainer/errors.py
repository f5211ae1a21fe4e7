"""The error of a user's mistake, as against a fault of ours."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend. The message says what, where, and the nearest right thing."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint for an unknown name: the closest valid name, or all of them when none is close."""
    valid = sorted(valid)
    close = get_close_matches(name, valid, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(valid)}"
