"""Which nodes may hold slots of which jobs, and what the cluster is asked for where none may."""

import os
import shutil
from pathlib import Path

import pytest
from homes import Home, ended, wait_for
from ray_nodes import Nodes

import headcount
from headcount import __version__

LABEL = "--labels=ray.io/accelerator-type="


def told(home: Home) -> dict[str, str]:
    """What people are told of nodes and sweeps."""
    return dict(home.rows("SELECT subject, words FROM notice"))


@pytest.mark.drill
def test_jobs_go_to_nodes_with_their_label_and_the_autoscaler_is_asked_for_what_is_lacking(
    home: Home, nodes: Nodes
) -> None:
    """GPUs that Ray is only told of: what trains there has none, and trains on a processor."""
    for kind in ("A100", "H100"):
        nodes.start(kind, "--num-cpus=1", "--num-gpus=1", LABEL + kind)
    nodes.declare_maximum(gpus=2)
    for steps, name, resources in (
        (40, "there", "{accelerator: H100}"),
        (45, "lacking", "{accelerator: B200, max_parallel: 2}"),
        (50, "beyond", "{gpus_per_job: 4}"),
    ):
        file = Path(home.sweep(steps, f"resources: {resources}\n"))
        file.write_text(file.read_text().replace("name: small", f"name: {name}"))
        submitted = home.headcount("submit", str(file))
        assert submitted.returncode == 0, submitted.stderr
    home.start("scheduler")
    wait_for(lambda: home.rows("SELECT count(*) FROM job WHERE state = 'finished'") == [(3,)], 90)
    trained = home.rows("SELECT DISTINCT node, share FROM attempt")
    assert len(trained) == 1
    assert trained[0][1] == 1.0
    # two of three jobs, which `max_parallel` lets begin; the others are beyond what the cluster may have
    wait_for(lambda: nodes.requested() == [{"GPU": 1.0}] * 2, 30)
    assert told(home) == {
        "sweep lacking": "its jobs wait: no node of the cluster now has a card of kind B200",
        "sweep beyond": "its jobs cannot start: it needs 4 GPUs on one node, and no node of the cluster may "
        "have more than 2",
    }
    for name in ("lacking", "beyond"):
        assert home.headcount("cancel", name).returncode == 0
    wait_for(lambda: nodes.requested() == [], 30)
    assert told(home) == {}
    print("3 jobs on the node of their label; 2 cards asked for, and asked for no more when nothing waits")


@pytest.mark.drill
def test_a_node_that_was_given_some_of_its_machine_s_cards_trains_on_those(home: Home, nodes: Nodes) -> None:
    """Ray calls them by the machine's numbers, so that the first is not number 0."""
    nodes.start("some", "--num-cpus=2", "--num-gpus=2", CUDA_VISIBLE_DEVICES="2,3")
    run = home.start("run", home.sweep(40, "resources: {gpu_share: 1}\n"))
    output, _ = ended(run, 90)
    assert run.returncode == 0, output
    assert home.rows("SELECT count(*), min(share) FROM attempt WHERE cause = 'finished'") == [(3, 1.0)]


@pytest.mark.drill
def test_nodes_that_may_hold_no_slots_are_told_of_and_the_others_train(
    home: Home, nodes: Nodes, tmp_path: Path
) -> None:
    """Another version of the package, one that lacks a part, and, where we may mount, files of its own."""
    newer, older = tmp_path / "newer", tmp_path / "older"
    for folder in (newer, older):
        _copy_package(folder / "headcount")
    init = newer / "headcount" / "__init__.py"
    init.write_text(init.read_text().replace(f'"{__version__}"', '"9.9.9"'))
    (older / "headcount" / "orchestrator" / "cluster" / "warden.py").unlink()
    nodes.start("sound", "--num-cpus=1")
    nodes.start("newer", "--num-cpus=1", PYTHONPATH=str(newer))
    nodes.start("older", "--num-cpus=1", PYTHONPATH=str(older))
    if os.geteuid() == 0:
        hidden = f'mount -t tmpfs tmpfs {home.folder} && exec "$@"'
        home.folder.mkdir()
        private = ["unshare", "--mount", "sh", "-c", hidden, "sh"]
        nodes.start("private", "--num-cpus=1", within=private)
    run = home.start("run", home.sweep(60))
    expected = ["it has headcount 9.9.9", "No module named 'headcount.orchestrator.cluster.warden'"]
    expected += ["it does not share"] if os.geteuid() == 0 else []
    wait_for(lambda: all(any(words in line for line in told(home).values()) for words in expected), 60)
    refused = told(home)
    output, _ = ended(run, 120)
    assert run.returncode == 0, output
    assert len(home.rows("SELECT DISTINCT node FROM attempt")) == 1
    print(f"3 jobs on the one sound node; of the others: {refused}")


def _copy_package(folder: Path) -> None:
    source = Path(headcount.__file__).parent
    for room in ("kernels", "trainer", "sweeps", "orchestrator"):
        shutil.copytree(source / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in source.glob("__*__.py"):
        shutil.copy(file, folder)
