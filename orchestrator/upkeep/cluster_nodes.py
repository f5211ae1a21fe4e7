"""Every node of a Ray cluster, looked at by a task on it."""

import os
import secrets
from collections.abc import Iterator
from typing import Any, NoReturn

from sqlalchemy import select

from headcount.orchestrator.artifacts.folder import open_artifacts
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import SETTLED_STATES, Dataset, Job
from headcount.orchestrator.upkeep.findings import Finding, machine_findings
from headcount.orchestrator.upkeep.nodes import NodeReport, report
from headcount.trainer.errors import UserError

PROBE_SECONDS = 60.0
"""For all nodes to answer: each imports torch first."""


def examine_cluster(settings: Settings, store: Store, address: str, here: NodeReport) -> Iterator[Finding]:
    """The nodes' findings, with `here` as what they must agree with."""
    from headcount.orchestrator.cluster.connection import Cluster

    try:
        cluster = Cluster(settings, address, _lost)
    except UserError as error:
        yield Finding("wrong", "Ray", str(error), "start Ray there, or name another with --ray-address")
        return
    try:
        yield from _nodes(settings, store, cluster.address, here)
    finally:
        cluster.close()


def _nodes(settings: Settings, store: Store, address: str, here: NodeReport) -> Iterator[Finding]:
    import ray

    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    yield Finding("ok", "Ray", f"{ray.__version__} at {address}, {len(nodes)} nodes")
    needed = {} if settings.artifacts_url else _needed_datasets(store)
    probe = f".probe-{secrets.token_hex(8)}"
    artifacts = open_artifacts(settings)
    artifacts.write(probe, b"written by headcount doctor\n")
    try:
        places = (str(settings.home), str(settings.artifacts), settings.artifacts_url)
        arguments = (*places, probe, tuple(needed))
        asked = {node: _ask(node, arguments) for node in nodes}
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=PROBE_SECONDS)
        for node, answer in asked.items():
            yield from _node(nodes[node], answer, here, needed)
    finally:
        artifacts.delete([probe])


def _ask(node: str, arguments: tuple[Any, ...]) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    placed = NodeAffinitySchedulingStrategy(node, soft=False)
    task = ray.remote(report).options(num_cpus=0, max_retries=0, scheduling_strategy=placed)
    return task.remote(*arguments)


def _node(node: dict[str, Any], answer: Any, here: NodeReport, needed: dict[str, str]) -> Iterator[Finding]:
    import ray

    name = f"node {node['NodeManagerAddress']}"
    try:
        found: NodeReport = ray.get(answer, timeout=1)
    except ray.exceptions.GetTimeoutError:
        yield Finding("wrong", name, f"no answer in {PROBE_SECONDS:.0f} s", "see the node's Ray logs")
        return
    except Exception as error:  # whatever keeps a task from running there
        words = str(error).strip().splitlines()[-1]
        yield Finding("wrong", name, words, "install the same Headcount and Python on every node")
        return
    yield from machine_findings(name, found, here)
    if not found.sees_probe:
        yield Finding(
            "wrong",
            f"{name}, artifacts",
            "a file that was just written here is not there",
            "set HEADCOUNT_ARTIFACTS to a folder or an address that every node reaches, the same on all",
        )
    for fingerprint, dataset in needed.items():
        if fingerprint not in found.datasets:
            yield Finding(
                "wrong",
                f"{name}, data",
                f"{dataset} ({fingerprint[:12]}), which jobs wait for, is not in its HEADCOUNT_HOME",
                "share the home, or run 'headcount data' there as here",
            )


def _needed_datasets(store: Store) -> dict[str, str]:
    """Fingerprint to name of the data that unsettled jobs train on."""
    with store.read() as session:
        open_jobs = select(Job.fingerprint).where(Job.state.not_in(SETTLED_STATES))
        rows = select(Dataset.fingerprint, Dataset.name).where(Dataset.fingerprint.in_(open_jobs))
        return dict(session.execute(rows).all())


def _lost(reason: str) -> NoReturn:
    print(f"Ray was lost while it was looked at: {reason}", flush=True)
    os._exit(3)
