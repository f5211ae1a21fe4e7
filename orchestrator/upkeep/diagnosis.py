"""`headcount doctor`: every part that training needs is looked at; what is wrong comes with its mending."""

import os
from collections.abc import Iterator
from typing import Literal

from rich.console import Console
from sqlalchemy import func, select

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.cluster import local_ray
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.settings import Settings, load_settings
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import SETTLED_STATES, Job, Notice
from headcount.orchestrator.upkeep.cluster_nodes import examine_cluster
from headcount.orchestrator.upkeep.findings import Finding, machine_findings
from headcount.orchestrator.upkeep.nodes import report
from headcount.trainer.errors import UserError

CLOCK_SECONDS = 5.0
"""More than this between the database's clock and this machine's is told."""


def examine(ray_address: str | None) -> Iterator[Finding]:
    """Look at one part after another; each finding as soon as it is known."""
    try:
        settings = load_settings()
    except UserError as error:
        yield Finding("wrong", "settings", str(error), "mend what is said, and look again")
        return
    where = settings.artifacts_url or settings.artifacts
    yield Finding("ok", "settings", f"home {settings.home}, artifacts {where}")
    here = report(str(settings.home), str(settings.artifacts), None, "")
    yield from machine_findings("here", here)
    if settings.artifacts_url is not None:
        yield _address(settings.artifacts_url)
    try:
        store = open_store(settings)
    except UserError as error:
        yield Finding("wrong", "store", str(error), "mend what is said, and look again")
        return
    yield from store_findings(store)
    if ray_address is None:
        yield _own_ray(settings)
    else:
        yield from examine_cluster(settings, store, ray_address, here)


def _address(url: str) -> Finding:
    try:
        Artifacts(url).check()
    except UserError as error:
        return Finding("wrong", "artifacts", str(error), "look at the address, its keys and the network")
    return Finding("ok", "artifacts", f"{url} answers")


def store_findings(store: Store) -> Iterator[Finding]:
    """Of the store, its clock, and who schedules."""
    where = store.engine.url.render_as_string(hide_password=True)
    with store.read() as session:
        open_jobs = session.scalar(select(func.count()).where(Job.state.not_in(SETTLED_STATES))) or 0
        jobs = session.scalar(select(func.count()).select_from(Job)) or 0
        clock = now() if store.file else session.scalar(select(func.clock_timestamp())) or now()
        notices = [(notice.subject, notice.words) for notice in session.scalars(select(Notice))]
    yield Finding("ok", "store", f"{where}: {jobs} jobs, {open_jobs} without an outcome")
    apart = abs((clock - now()).total_seconds())
    if apart > CLOCK_SECONDS:
        yield Finding(
            "warning",
            "clock",
            f"this machine's and the database's are {apart:.0f} s apart",
            "keep both by NTP: times that are shown and budgets go by them",
        )
    for subject, words in notices:
        yield Finding(
            "warning", subject, words, "the scheduler starts jobs again by itself once it is mended"
        )
    holder = current_holder(store)
    if holder is None and open_jobs:
        yield Finding(
            "warning",
            "scheduler",
            "none at work, and jobs wait",
            "headcount run SWEEP, or headcount scheduler",
        )
    else:
        yield Finding("ok", "scheduler", holder or "none at work; 'headcount run' starts one")


def _own_ray(settings: Settings) -> Finding:
    from importlib.metadata import version

    running = local_ray.find(settings.home)
    cores = len(os.sched_getaffinity(0))
    where = (
        f"running at {running.address}" if running else f"none now; one of {cores} cores starts with a run"
    )
    return Finding("ok", "Ray", f"{version('ray')}, this home's own: {where}")


MARKS: dict[Literal["ok", "warning", "wrong"], str] = {"ok": "ok", "warning": "!", "wrong": "WRONG"}


def print_findings(findings: Iterator[Finding]) -> int:
    """Print each as it comes; 3 where something is wrong, else 0."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    wrong = warnings = 0
    for finding in findings:
        console.print(f"{MARKS[finding.level]:6}{finding.subject}: {finding.words}")
        if finding.mend:
            console.print(f"      → {finding.mend}")
        wrong += finding.level == "wrong"
        warnings += finding.level == "warning"
    if wrong or warnings:
        console.print(f"{wrong} wrong, {warnings} to look at")
    else:
        console.print("Nothing is wrong.")
    return 3 if wrong else 0
