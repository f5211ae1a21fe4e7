"""The error of a user's mistake, as against a fault of ours."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend. The message says what, where, and the nearest right thing."""


class FieldError(UserError):
    """A field of a job that is unknown, of the wrong type, or that breaks a rule."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)  # both, so that the error can be sent between processes
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


class Stopped(Exception):
    """Work that was asked to stop, and did, before it had a result."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint for an unknown name: the closest valid name, or all of them when none is close."""
    valid = sorted(valid)
    close = get_close_matches(name, valid, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(valid)}"
