"""The description of the interface is the file in the repository, and every answer is as described."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from builders import CONTROL, build_sweep
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.python import asgi
from schemathesis.specs.openapi.checks import positive_data_acceptance
from sqlalchemy import create_engine, make_url, select, text
from sqlalchemy.orm import Session

from headcount.api.app import create_app
from headcount.api.schema import FILE, openapi_text
from headcount.api.security import Access
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Job
from headcount.orchestrator.store.tokens import create_token

STATES = {
    (1, 1, 1e-3, 0): "diverged",
    (2, 1, 1e-3, 0): "failed",
    (4, 1, 1e-3, 0): "running",
    (8, 1, 1e-3, 0): "queued",
    (16, 1, 1e-3, 0): "cancelled",
    (1, 2, 1e-3, 0): "cancelling",
    (CONTROL, 2, 1e-3, 1): "diverged",
}


def test_the_description_is_the_file_in_the_repository() -> None:
    hint = "the interface changed: python -m headcount.api.schema writes it anew, then review the difference"
    assert FILE.read_text(encoding="utf-8") == openapi_text(), hint


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def odd_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with jobs in every state, a sweep of one axis and one without a single result."""
    url = f"sqlite:///{tmp_path_factory.mktemp('schema') / 'headcount.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        engine = create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE schemathesis"))
        engine.dispose()
        url = make_url(server).set(database="schemathesis").render_as_string(hide_password=False)
    store = open_store(url)
    with store.write() as session:
        build_sweep(session, states=STATES, missing=[(2, 2, 1e-3, 2)])
        build_sweep(
            session,
            "young",
            kv_heads=(8,),
            seeds=(0,),
            states={(h, 8, 1e-3, 0): "queued" for h in (1, 2, 4, 8, 16, None)},
        )
        finished = session.scalars(select(Job).where(Job.state == "finished")).first()
        assert finished is not None
        finished.tail_mean = float("inf")
    yield store
    store.close()


@pytest.fixture(scope="module")
def bearer(odd_store: Store) -> dict[str, str]:
    """A credential for everything; without it every request is refused."""
    with odd_store.write() as session:
        return {"Authorization": f"Bearer {create_token(session, 'ada', 'admin', expires=None, by='ada')}"}


@pytest.fixture(scope="module")
def interface(
    odd_store: Store, bearer: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> schemathesis.BaseSchema:
    home: Path = tmp_path_factory.mktemp("home")
    settings = Settings(home, str(odd_store.engine.url), home)
    app = create_app(odd_store, settings, access=Access(hosts=(asgi.HOST,)))
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers=bearer)


OPERATIONS = [
    (path, method, operation)
    for path, methods in json.loads(FILE.read_text(encoding="utf-8"))["paths"].items()
    for method, operation in methods.items()
]
VALID = [(path, method) for path, method, _ in OPERATIONS]
INVALID = [(path, method) for path, method, o in OPERATIONS if "parameters" in o or "requestBody" in o]

# a described request may still ask for an axis that a sweep lacks, or send a sweep that cannot be
UNCHECKED = [positive_data_acceptance]

EXAMPLES = {"sqlite": 6, "postgresql": 2}


def bounded(store: Store) -> settings:
    """Few examples on the second engine: what differs there is SQL, not parsing."""
    examples = EXAMPLES[store.engine.dialect.name]
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )


@pytest.mark.parametrize(("path", "method"), VALID)
def test_every_answer_is_as_described(
    interface: schemathesis.BaseSchema, odd_store: Store, bearer: dict[str, str], path: str, method: str
) -> None:
    with odd_store.read() as session:
        job_ids = [ids[0] for _, ids in job_ids_by_state(session).items()]
    known = {"sweep": ["head-count", "young"], "job": job_ids, "cell": [1, 2, 19]}

    @bounded(odd_store)
    @given(case=interface[path][method.upper()].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def check(case: schemathesis.Case) -> None:
        if "follow" in case.query or path.endswith("/events"):
            case.query["follow"] = "false"  # a stream that waits would never end
        case.call_and_validate(headers=bearer, excluded_checks=UNCHECKED)
        for name in case.path_parameters.keys() & known.keys():
            for value in known[name]:
                case.path_parameters[name] = value
                case.call_and_validate(headers=bearer, excluded_checks=UNCHECKED)

    check()


@pytest.mark.parametrize(("path", "method"), INVALID)
def test_what_is_not_described_is_refused(
    interface: schemathesis.BaseSchema, odd_store: Store, bearer: dict[str, str], path: str, method: str
) -> None:
    @bounded(odd_store)
    @given(case=interface[path][method.upper()].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=bearer)

    check()


def job_ids_by_state(session: Session) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job_id, state in session.execute(select(Job.id, Job.state)):
        found.setdefault(state, []).append(job_id)
    return found
