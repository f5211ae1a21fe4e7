"""Answers that are made once for everyone who asks at a time, off the event loop.

An answer is known by its ETag before anything of it is computed: the data's version, the path, the query and
the code decide it.
"""

import asyncio
import itertools
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from headcount.api import results
from headcount.api.caching import check_cached, normal_query, validators
from headcount.api.formats import MEDIA_TYPES
from headcount.api.looks import Look, Looks
from headcount.api.results import AblationTable
from headcount.api.results.sweeps import SweepVersions
from headcount.api.versions import VersionOf, of_results
from headcount.orchestrator.store import Store

T = TypeVar("T")

MOST_KEPT = 256
"""Questions whose newest answer is kept."""

MOST_BYTES = 64 * 2**20
"""Of all answers kept."""

MOST_TABLES = 16

MAKERS = 2
"""Answers that are computed at a time: more would only slow each other."""


@dataclass(frozen=True)
class Body:
    """An answer without what depends on who asks."""

    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Wish(NamedTuple):
    """What one who asks must be given: what is of `version`, or was begun to be made after they `arrived`."""

    version: str
    arrived: int


class Kept(NamedTuple, Generic[T]):
    """What was made last of a question."""

    version: str
    begun: int
    value: T

    def serves(self, wish: Wish) -> bool:
        """Whether it will do."""
        return self.version == wish.version or self.begun > wish.arrived


_CLOCK = itertools.count()
"""Of what came before what; no time of day."""


@dataclass
class _Place:
    """Of one question: its newest answer, and the turn to make the next."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    kept: Kept[Body] | None = None


class Answers:
    """The newest answer to each question. One at a time is made of a question; who waits for it shares it.

    While a writer raises the version again and again, two answers a question are made at most between the
    first who asks and the last who is served, however many ask.
    """

    def __init__(self) -> None:
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._bytes = 0
        self._makers = CapacityLimiter(MAKERS)

    @property
    def busy(self) -> bool:
        """Whether some answer is being made."""
        return self._makers.borrowed_tokens > 0

    async def get(self, question: str, version: str, make: Callable[[Wish], Kept[Body]]) -> Kept[Body]:
        """The answer at `version` or a newer one. `make` runs in a thread, and is told what must be given."""
        wish = Wish(version, next(_CLOCK))
        place = self._places.setdefault(question, _Place())
        self._places.move_to_end(question)
        async with place.turn:
            kept = place.kept
            if kept is None or not kept.serves(wish):
                kept = await to_thread.run_sync(make, wish, limiter=self._makers)
                self._keep(question, place, kept)
        return kept

    def _keep(self, question: str, place: _Place, kept: Kept[Body]) -> None:
        if place.kept is not None:
            self._bytes -= len(place.kept.value.content)
        place.kept = kept
        self._bytes += len(kept.value.content)
        for other in list(self._places):
            if len(self._places) <= MOST_KEPT and self._bytes <= MOST_BYTES:
                return
            if not self._places[other].turn.locked():
                gone = self._places.pop(other).kept
                self._bytes -= len(gone.value.content) if gone else 0


class Tables:
    """The ablation tables read last: a table, its curve and its statistics are made from one read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, bool], Kept[AblationTable]] = OrderedDict()
        self._turns: defaultdict[tuple[str, bool], threading.Lock] = defaultdict(threading.Lock)

    def get(self, store: Store, sweep: str, with_reference: bool, wish: Wish) -> Kept[AblationTable]:
        """As `results.ablation_table`, read once for all who wait. Raises `NotFoundError`."""
        key = (sweep, with_reference)
        with self._turns[key]:
            kept = self._kept.get(key)
            if kept is None or not kept.serves(wish):
                begun = next(_CLOCK)
                with store.read() as session:
                    version = results.results_version(session, sweep)
                    table = results.ablation_table(session, sweep, with_reference=with_reference)
                kept = self._kept[key] = Kept(version, begun, table)
                self._kept.move_to_end(key)
                while len(self._kept) > MOST_TABLES:
                    self._kept.popitem(last=False)
        return kept


async def answer(
    request: Request,
    version_of: Callable[[Session], str],
    make: Callable[[Session], Body | bytes],
    *,
    form: str = "json",
) -> Response:
    """What `make` says of the store, made once for all who ask for the same; 304 where the client has it.

    `version_of` tells the version of all data that `make` reads. A `form` that is none of `MEDIA_TYPES` names
    its own type in the headers of its body.
    """
    store: Store = request.app.state.store

    def made(wish: Wish) -> Kept[Body]:
        begun = next(_CLOCK)
        with store.read() as session:
            return Kept(version_of(session), begun, _body(make(session)))

    return await _answer(request, version_of, made, form)


async def answer_from_table(
    request: Request,
    sweep: str,
    make: Callable[[AblationTable], Body | bytes],
    *,
    form: str = "json",
    with_reference: bool = False,
) -> Response:
    """As `answer`, for what is made from the ablation table of a sweep alone."""
    store: Store = request.app.state.store
    tables: Tables = request.app.state.tables

    def made(wish: Wish) -> Kept[Body]:
        read = tables.get(store, sweep, with_reference, wish)
        return Kept(read.version, read.begun, _body(make(read.value)))

    return await _answer(request, of_results(sweep), made, form)


async def _answer(
    request: Request, version_of: Callable[[Session], str], made: Callable[[Wish], Kept[Body]], form: str
) -> Response:
    answers: Answers = request.app.state.answers
    version = await _version(request, version_of)
    check_cached(request, version, form)
    question = "\0".join((request.scope["path"], normal_query(request), form))
    found = await answers.get(question, version, made)
    headers = {**validators(request, found.version, form), **found.value.headers}
    return Response(found.value.content, 200, headers, media_type=MEDIA_TYPES.get(form))


async def _version(request: Request, version_of: Callable[[Session], str]) -> str:
    """As it is after the request came."""
    looks: Looks = request.app.state.looks
    put: Look[SweepVersions] | None = getattr(request.state, "versions", None)
    if put is not None and isinstance(version_of, VersionOf) and version_of.look == put.question:
        return version_of.among(await looks.take(put))
    return await looks.ask(version_of)


def _body(content: Body | bytes) -> Body:
    return content if isinstance(content, Body) else Body(content)


def as_json(value: Any) -> bytes:
    """A result as JSON, NaN and infinity as null, as `formats.to_json` has it but ten times as fast."""
    return adapter_of(type(value)).dump_json(value)


def adapter_of(kind: type[Any]) -> TypeAdapter[Any]:
    """What writes results of one kind."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
