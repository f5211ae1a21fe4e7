"""Python's garbage collector in the service: it works between answers, not amid them.

It looks for rings among objects that are no longer reached. A table of 1,000 jobs makes 6,000 objects and no
ring, but with 16 tables kept, one look amid an answer takes 30 ms.
"""

import gc

AMID_ANSWERS = (200_000, 10, 10)
"""New objects before it works amid an answer after all: when the service has not been idle for long."""

ROUNDS = 100
"""After which it walks through all that was made since the start: 7 ms."""


def begin() -> None:
    """Take all that there is as staying, such as modules: to walk through it would take 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*AMID_ANSWERS)


def collect() -> None:
    """Look among the objects made since the last call: 2 ms for those of one table. Call it while nobody
    waits: where a table takes the place of an old one, the count by which Python would begin does not grow.
    """
    rounds = gc.get_count()[2]
    gc.collect(2 if rounds >= ROUNDS else 1)
