"""The queue as it is kept up with: the same at every moment as one that is read anew."""

from plans import SWEEP, end, make_plan, start, start_next, submit_text
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store, steering, withdraw
from headcount.orchestrator.store.memory import RESERVED, memory_kind, recorded_peaks
from headcount.orchestrator.store.models import Attempt, Job, Measurement, Sweep
from headcount.orchestrator.store.queue import Queue, next_jobs

MICRO = SWEEP.replace("nano", "micro")


def ids(queue: Queue, session: Session) -> list[str]:
    queue.read(session)
    return [turn.job_id for turn in queue.turns(session)]


def test_a_kept_queue_is_what_one_that_is_read_anew_is(store: Store) -> None:
    queue = Queue()
    first = submit_text(store).sweep_id
    with store.read() as session:
        assert ids(queue, session) == [job.id for job in make_plan().jobs] == next_jobs(session, 10)
    with store.write() as session:
        work = start_next(session)
        queue.took(work.job_id)
        assert ids(queue, session) == next_jobs(session, 10)
        end(session, work, "slot_lost")
        assert work.job_id in ids(queue, session)
        assert ids(queue, session) == next_jobs(session, 10)
    second = submit_text(store, MICRO.replace("tiny", "other")).sweep_id
    with store.write() as session:
        assert len(ids(queue, session)) == 12
        for change in (
            lambda: steering.pause(session, first, by="ada"),
            lambda: steering.set_priority(session, second, 3, by="ada"),
            lambda: steering.resume(session, first, by="ada"),
            lambda: withdraw(session, second),
        ):
            change()
            assert ids(queue, session) == next_jobs(session, 20)
    with store.read() as session:
        assert len(ids(queue, session)) == 6
    submit_text(store, MICRO.replace("tiny", "other"))  # asks for what was withdrawn again
    with store.read() as session:
        assert len(ids(queue, session)) == 12


def test_owners_of_equal_priority_take_turns(store: Store) -> None:
    submit_text(store)
    other = submit_text(store, MICRO.replace("tiny", "other")).sweep_id
    with store.write() as session:
        session.get_one(Sweep, other).owner = "bob"
        session.flush()
        mine, theirs = (
            [job.id for job in make_plan(text).jobs] for text in (SWEEP, MICRO.replace("tiny", "other"))
        )
        assert next_jobs(session, 4) == [mine[0], theirs[0], mine[1], theirs[1]]
        assert start(session, mine[0], share=1.0)
        assert next_jobs(session, 2) == [theirs[0], mine[1]]


def test_keeping_up_reads_what_is_new_only(store: Store) -> None:
    """With nothing changed a look costs one statement, however many jobs wait."""
    submit_text(store)
    queue = Queue()
    with store.read() as session:
        queue.read(session)
    statements: list[str] = []

    def note(_c: object, _u: object, statement: str, *rest: object) -> None:
        if statement.startswith("SELECT"):
            statements.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    with store.read() as session:
        queue.read(session)
        assert len(statements) == 1
        assert statements[0].splitlines()[1].strip() == "FROM event"
    with store.write() as session:
        work = start_next(session)
    queue.took(work.job_id)
    statements.clear()
    with store.read() as session:
        queue.read(session)
    assert [s for s in statements if "FROM job" in s or "FROM sweep_job" in s] == []
    event.remove(store.engine, "before_cursor_execute", note)


def test_jobs_of_one_kind_share_what_their_like_took(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        queue = Queue(by_memory=True)
        queue.read(session)
        kinds = {turn.need.kind for turn in queue.turns(session)}
        assert len(kinds) == 3  # two cells and their control, each at two seeds
        assert all(turn.need.share is None for turn in queue.turns(session))
        jobs = {job.id: job for job in session.scalars(select(Job))}
        alike = [job for job in jobs.values() if job.config["model.residual"] == "additive"]
        for job, bytes_ in zip(alike, (3e9, 5e9), strict=True):
            job.state = "finished"
            session.add(Measurement(job_id=job.id, name=RESERVED, value=bytes_))
        session.flush()
        assert recorded_peaks(session) == {memory_kind(alike[0].config): 5e9}


def test_a_job_out_of_memory_is_tried_once_more_alone_with_half_the_windows(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        assert work.micro_batch is None
        attempt = session.get_one(Attempt, work.attempt_id)
        attempt.environment, attempt.share = {"micro_batch": 6}, 0.25
        end(session, work, "gpu_memory", "CUDA out of memory")
        assert attempt.message == (
            "CUDA out of memory\ntried once more, alone on a card and with 3 instead of 6 windows a pass"
        )
        queue = Queue(by_memory=True)
        queue.read(session)
        [alone] = [turn for turn in queue.turns(session) if turn.need.share is not None]
        assert (alone.job_id, alone.need.share) == (work.job_id, 1.0)
        again = start(session, work.job_id, share=1.0)
        assert again is not None
        assert (again.number, again.micro_batch) == (2, 3)
        end(session, again, "node_lost")  # the smaller passes stay with the job
        third = start(session, work.job_id, share=1.0)
        assert third is not None
        assert third.micro_batch == 3
        end(session, third, "gpu_memory", "CUDA out of memory")
        assert session.get_one(Job, work.job_id).state == "failed"
    submit_text(store)  # the user asks again: as if for the first time
    with store.read() as session:
        job = session.get_one(Job, work.job_id)
        assert (job.state, job.micro_batch) == ("queued", None)


def test_one_window_a_pass_cannot_be_halved_but_a_shared_card_can_be_left(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        for share, state in ((1.0, "failed"), (0.5, "queued")):
            work = start_next(session)
            attempt = session.get_one(Attempt, work.attempt_id)
            attempt.environment, attempt.share = {"micro_batch": 1}, share
            end(session, work, "gpu_memory")
            job = session.get_one(Job, work.job_id)
            assert (job.state, job.micro_batch) == (state, 1 if state == "queued" else None)


def test_a_job_on_several_cards_has_them_to_itself(store: Store) -> None:
    submit_text(store, SWEEP + "resources: {gpus_per_job: 2}\n")
    queue = Queue(by_memory=True)
    with store.read() as session:
        queue.read(session)
        assert {(turn.need.gpus, turn.need.share) for turn in queue.turns(session)} == {(2, 1.0)}


def test_a_job_whose_node_ran_out_of_memory_is_tried_alone(store: Store) -> None:
    submit_text(store)
    queue = Queue()
    with store.write() as session:
        queue.read(session)
        first = start_next(session)  # still at the front of its lane for this queue
        work = start_next(session)
        queue.took(work.job_id)
        end(session, work, "host_memory", "killed under memory pressure")
        end(session, first, "slot_lost")
        queue.read(session)
        turns = list(queue.turns(session))
        assert [turn.job_id for turn in turns if turn.need.alone] == [work.job_id]
        assert sorted(turn.job_id for turn in turns) == sorted(job.id for job in make_plan().jobs)
        again = start(session, work.job_id)
        assert again is not None
        end(session, again, "user_error", "no such file")
    submit_text(store)  # asked for again: as if for the first time
    with store.read() as session:
        queue.read(session)
        assert not [turn for turn in queue.turns(session) if turn.need.alone]
