"""Slots that have to leave, and a disk that fills up under one: what is trained again is as it was."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import small_disk
from homes import Home, ended, trained_alone, wait_for
from ray_nodes import Nodes, ray_nodes


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """One cluster for all of the file: each test starts what nodes it needs."""
    with ray_nodes() as made:
        made.start("one", "--num-cpus=1")
        yield made


@pytest.mark.drill
def test_a_disk_that_is_full_at_a_checkpoint_costs_what_was_trained_since_the_last(home: Home) -> None:
    """The job fails and says what to do; once there is room, `retry` goes on from the last checkpoint."""
    file = home.sweep(500, "control: none\nskip: [model.routing_heads == 2]\n")
    with small_disk(home.folder / "artifacts", "size=32m") as disk:
        run = home.start("run", file)
        wait_for(lambda: home.running(step=100), 90)
        os.kill(wait_for(home.slot_processes)[0], signal.SIGTERM)  # it writes a checkpoint and leaves
        wait_for(lambda: home.rows("SELECT id FROM attempt WHERE cause = 'preempted'"), 30)
        [(step,)] = home.rows("SELECT step FROM artifact WHERE kind = 'checkpoint'")
        [checkpoint] = disk.rglob("step-*.pt")
        filler = disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(disk).free - checkpoint.stat().st_size // 2))
        wait_for(lambda: home.running(step=step + 50), 60)
        os.kill(wait_for(home.slot_processes)[0], signal.SIGTERM)
        output, _ = ended(run, 120)
        assert run.returncode == 3, output
        [(cause, message)] = home.rows("SELECT cause, message FROM attempt WHERE number = 2")
        assert cause == "user_error"
        assert "cannot write the checkpoint of step " in message
        assert "No space left on device; free some space and start the job again" in message
        filler.unlink()
        assert home.headcount("retry", "small", "--failed").returncode == 0
        again = home.headcount("run", file)
        assert again.returncode == 0, again.stdout + again.stderr
    assert home.rows("SELECT start_step, cause FROM attempt WHERE number = 3") == [(step, "finished")]
    assert home.tail_means() == trained_alone(Path(file), home.folder)
    print(f"a disk was full at the second checkpoint; the job went on from step {step}, to the bit")


def nodes_at_work(home: Home) -> set[str]:
    rows = home.rows(
        "SELECT node FROM attempt JOIN job ON job.id = job_id WHERE attempt.ended IS NULL AND step > 9"
    )
    return {node.rpartition("/")[2] for (node,) in rows}


@pytest.mark.cluster
def test_a_drained_node_a_told_slot_and_a_killed_one_cost_no_result(home: Home, nodes: Nodes) -> None:
    """The results are, to the bit, those of the trainer alone."""
    nodes.start("two", "--num-cpus=1")
    file = home.sweep(500)
    run = home.start("run", file)
    wait_for(lambda: len(nodes_at_work(home)) == 2, 90)
    nodes.drain(min(nodes_at_work(home)))
    wait_for(lambda: home.rows("SELECT id FROM attempt WHERE cause = 'preempted'"), 30)
    told = wait_for(home.slot_processes)[0]
    os.kill(told, signal.SIGTERM)
    wait_for(lambda: home.rows("SELECT count(*) FROM attempt WHERE cause = 'preempted'") == [(2,)], 30)
    os.kill(wait_for(home.slot_processes, 60)[0], signal.SIGKILL)
    output, _ = ended(run, 200)
    assert run.returncode == 0, output
    assert home.rows("SELECT count(*) FROM attempt WHERE cause = 'slot_lost'") == [(1,)]
    assert home.rows("SELECT count(*) FROM attempt WHERE cause = 'finished'") == [(3,)]
    assert home.tail_means() == trained_alone(Path(file), home.folder)
    print("a node drained, a slot told to end and a slot killed: 3 jobs finished once each, to the bit")
