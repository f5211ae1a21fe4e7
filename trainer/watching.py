"""Looking into the depth history while a model computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from headcount.trainer.model.attention import Attention
from headcount.trainer.residuals.interface import ResidualStream, State


@contextmanager
def watched(stream: ResidualStream, note: Callable[[State, int], None]) -> Iterator[None]:
    """Inside, `note(state, site)` is called before each read of a forward pass: at the sites of the
    sublayers, and for the end with the site after the last, which only some streams have."""
    attend, read, finish = stream.attend, stream.read, stream.finish
    last, ending = -1, False

    def noted_attend(state: State, site: int, attention: Attention, rotation: Tensor) -> Tensor:
        note(state, site)
        return attend(state, site, attention, rotation)

    def noted_read(state: State, site: int) -> Tensor:
        nonlocal last
        if not ending:
            last = site
            if site % 2:  # `attend` has told of the others
                note(state, site)
        return read(state, site)

    def noted_finish(state: State) -> Tensor:
        nonlocal ending
        note(state, last + 1)
        ending = True  # some streams end by a read
        try:
            return finish(state)
        finally:
            ending = False

    noted = {"attend": noted_attend, "read": noted_read, "finish": noted_finish}
    stream.__dict__.update(noted)
    try:
        yield
    finally:
        for name in noted:
            del stream.__dict__[name]
