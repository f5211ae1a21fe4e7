"""`headcount submit` and `watch` as typed: straight to a store, and to a real service with a token."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from homes import Home
from plans import finish, start_next
from sqlalchemy import select

from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Attempt, Sweep
from headcount.orchestrator.submitting.service import Service, Unreachable
from headcount.trainer.errors import UserError

SWEEP = """
name: sent
job: {model: {scale: nano}, data: {source: stdlib}, train: {steps: 40, eval_every: 5}}
seeds: [0, 1]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("submitting") / "home", {})
    (made.folder.parent / "sent.yaml").write_text(SWEEP)
    yield made
    made.stop_all()


@pytest.fixture(scope="module")
def service(home: Home) -> Service:
    """A service over the home's store, asked with a token that may submit."""
    token = home.typed("token", "create", "ada", "--scope", "submit").stdout.strip()
    serving = home.start("serve", "--port", "0")
    assert serving.stdout is not None
    lines = iter(serving.stdout.readline, "")
    url = next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line)))
    return Service(url, token)


def test_a_file_is_sent_known_and_followed(home: Home, service: Service) -> None:
    file = str(home.folder.parent / "sent.yaml")
    home.environment["HEADCOUNT_TOKEN"] = str(service._token)
    sent = home.typed("submit", file, "--url", service.url)
    assert sent.stdout.splitlines() == [
        "sent: 2 jobs, 2 new, 0 known, 0 shared with other sweeps",
        f"To follow it: headcount watch sent --url {service.url}",
    ], sent.stderr
    assert service.submit(SWEEP)["known"] == 2
    store = open_store(f"sqlite:///{home.folder / 'headcount.db'}")
    with store.write() as session:
        finish(session, start_next(session))
        finish(session, start_next(session))
    store.close()
    watched = home.typed("watch", "sent", "--url", service.url)
    assert (watched.returncode, watched.stdout) == (0, "sent: 2 finished of 2 (100% of the work)\n")


def test_a_sweep_whose_budget_is_used_up_is_not_watched_for_ever(home: Home, service: Service) -> None:
    service.submit(
        SWEEP.replace("name: sent", "name: held").replace("[0, 1]", "[2, 3]") + "budget: {gpu_hours: 0.1}\n"
    )
    with closing(open_store(f"sqlite:///{home.folder / 'headcount.db'}")) as store, store.write() as session:
        work = start_next(session)
        finish(session, work)
        sweep = session.scalars(select(Sweep).where(Sweep.name == "held")).one()
        sweep.created = now() - timedelta(hours=2)
        attempt = session.get_one(Attempt, work.attempt_id)
        attempt.started, attempt.ended = now() - timedelta(hours=1), now()
    watched = home.typed("watch", "held", "--url", service.url)
    assert watched.returncode == 3, watched.stderr
    assert watched.stdout.splitlines() == [
        "held: 1 queued, 1 finished of 2 (50% of the work)",
        "No more is begun: the budget of 0.1 GPU-hours holds no other, 1 are used; to go on, raise it in the "
        "sweep's file",
    ]


def test_the_store_is_told_without_a_service(home: Home) -> None:
    done = home.typed("submit", str(home.folder.parent / "sent.yaml"))
    assert done.stdout.startswith(
        "sent: 2 jobs, 0 new, 2 known, 0 shared with other sweeps\nNo scheduler is"
    ), done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: 1st", "the body of the request:1: name: got '1st'"),
        (
            SWEEP.replace("source: stdlib", "text: [/etc]"),
            "names a data source that the service knows, not a",
        ),
    ],
)
def test_what_the_service_refuses_is_said_in_its_words(service: Service, text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"the service at {service.url} refuses: .*{re.escape(message)}"):
        service.submit(text)


def test_a_wrong_token_or_address_is_one_clear_error(service: Service) -> None:
    with pytest.raises(UserError, match=r"refuses: .*; set HEADCOUNT_TOKEN to a token"):
        Service(service.url, "hc_nobody").sweep("sent")
    with pytest.raises(Unreachable, match=r"the service at http://127.0.0.1:9 does not answer"):
        Service("http://127.0.0.1:9/", None).sweep("sent")
    with pytest.raises(UserError, match="is no service's address; expected one such as"):
        Service("lab.example:8321", None)
    with pytest.raises(UserError, match="give the token in HEADCOUNT_TOKEN"):
        Service("http://ada:hc_x@lab.example", None)
    with pytest.raises(UserError, match="refuses: no sweep is called 'none'"):
        service.sweep("none")
