"""Work that asks no store anything, as a process of its own: what a busy processor alone does to a writer."""

import random
import sys
import time


def burn(milliseconds: float, per_second: float, seconds: float) -> None:
    """Compute so long at a time, so often on average, at moments that know nothing of each other."""
    rng = random.Random(0)
    due = begun = time.monotonic()
    while due < begun + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        end = time.thread_time() + milliseconds / 1000
        while time.thread_time() < end:
            pass
        due += rng.expovariate(per_second)


if __name__ == "__main__":
    burn(*map(float, sys.argv[1:]))
