"""How much one client may ask of the service, and how much all of them at once."""

import time
from collections.abc import Callable

BURST_SECONDS = 10.0
"""A client that was quiet may ask what it could have asked in this time at once."""

MAX_AT_ONCE = 500
"""Requests under way, live streams among them."""

_MANY_CLIENTS = 10_000


class Rate:
    """Lets each client ask `per_second` times on average; 0 for as often as it likes.

    Keeps one number a client, the time at which its requests so far would have been due (the generic cell
    rate algorithm, ITU-T I.371).
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._due: dict[str, float] = {}

    def wait(self, client: str) -> float:
        """Seconds until the client may ask; 0 where it may now, which counts as having asked."""
        if not self._interval:
            return 0.0
        now = self._clock()
        due = max(self._due.get(client, now), now)
        if due + self._interval - now > BURST_SECONDS:
            return due + self._interval - now - BURST_SECONDS
        if len(self._due) >= _MANY_CLIENTS:
            self._due = {name: time for name, time in self._due.items() if time > now}
        self._due[client] = due + self._interval
        return 0.0
