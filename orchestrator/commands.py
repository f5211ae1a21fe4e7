"""The commands that run sweeps and show how far they are; each imports what it needs when it works."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Literal

import click

_RAY_HELP = "A Ray cluster to use, such as 10.0.0.1:6379; else RAY_ADDRESS, else a Ray of this home's own."

_small = click.option("--small", is_flag=True, help="Take the sweep's small variant, for a first try.")


@click.command()
@click.argument("file", metavar="FILE|NAME")
@_small
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option(
    "--slots",
    type=click.IntRange(1),
    help="GPUs, or CPU slots, to train on; else those of this machine.",
)
def plan(file: str, small: bool, as_json: bool, slots: int | None) -> None:
    """Show the cells and jobs of a sweep, what they would cost, and what they could not tell.

    The time rests on jobs like these that the store has measured on hardware like this, or else on a model
    that is stated. Of a sweep that was edited, the difference from what was submitted is shown.
    """
    from rich.console import Console

    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.difference import difference
    from headcount.orchestrator.store.submission import compare
    from headcount.orchestrator.submitting.history import read_history
    from headcount.orchestrator.submitting.planning import difference_lines, make_plan, read_spec
    from headcount.sweeps.rendering import plan_as_dict, render_plan

    settings = load_settings()
    store = open_store(settings)
    planned = make_plan(read_spec(file, store, small), settings, store)
    with store.read() as session:
        found = compare(session, planned)
        changed = difference(session, planned)
        history = read_history(session, planned, slots)
    counts = {"new": found.new, "known": found.known, "shared": found.shared}
    if as_json:
        difference_as_dict = asdict(changed) if changed else None
        content = {
            **plan_as_dict(planned, history),
            "jobs_in_store": counts,
            "difference": difference_as_dict,
        }
        click.echo(json.dumps(content, indent=2))
        return
    console = Console()
    render_plan(planned, console, history)
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    console.print(f"In the store: {words}", highlight=False)
    for line in difference_lines(changed) if changed else ():
        console.print(line, highlight=False, markup=False, soft_wrap=True)


@click.command()
@click.argument("file", metavar="FILE|NAME")
@_small
@click.option("--ray-address", envvar="RAY_ADDRESS", help=_RAY_HELP)
@click.option(
    "--stop-after",
    metavar="TIME",
    help="Such as 90s, 8m or 2h: begin only jobs that should end by then; what still runs is put back.",
)
def run(file: str, small: bool, ray_address: str | None, stop_after: str | None) -> None:
    """Train what a sweep still lacks, and follow it until every job has an outcome.

    FILE is a sweep's YAML; NAME is a sweep that was submitted before, or a ready-made study. Ctrl-C stops
    cleanly, and the same command goes on. Exits with 0 when every job has finished, and with 3 when some
    failed or diverged, or are left because the time or the budget is up.
    """
    from rich.console import Console

    from headcount.orchestrator.following.live import seconds_of
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.submitting.running import run_sweep

    seconds = None if stop_after is None else seconds_of(stop_after, "--stop-after")
    sys.exit(run_sweep(file, load_settings(), ray_address, Console(), seconds, small))


_SERVICE = (
    click.option(
        "--url", envvar="HEADCOUNT_URL", help="A service, such as https://lab.example; else HEADCOUNT_URL."
    ),
    click.option(
        "--token",
        envvar="HEADCOUNT_TOKEN",
        help="Of the service. Better in HEADCOUNT_TOKEN: others on this machine see what is typed.",
    ),
)


def _of_service(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_SERVICE):
        command = option(command)
    return command


@click.command()
@click.argument("file", metavar="FILE|NAME")
@_small
@_of_service
def submit(file: str, small: bool, url: str | None, token: str | None) -> None:
    """Ask for a sweep's jobs and return at once; a scheduler trains them.

    With --url the file is sent to a service, and its text must be a data source that the service knows.
    Otherwise it goes straight to the store. What is known already is not trained again; of a file that was
    edited, only what is new is added, and what is gone is withdrawn.
    """
    from rich.console import Console

    from headcount.orchestrator.submitting.sending import submit_to_service, submit_to_store

    if url:
        from headcount.orchestrator.submitting.service import Service

        submit_to_service(file, Service(url, token), Console(), small)
        return
    from headcount.orchestrator.settings import load_settings

    submit_to_store(file, load_settings(), Console(), small)


@click.command()
@click.argument("sweep")
@_of_service
def watch(sweep: str, url: str | None, token: str | None) -> None:
    """Follow a sweep that others train, until nothing of it is to come.

    Ctrl-C ends the watching, and nothing else. Exits as 'run' does: 0 when every job has finished, else 3.
    """
    from rich.console import Console

    from headcount.orchestrator.following.watching import watch_service, watch_store

    if url:
        from headcount.orchestrator.submitting.service import Service

        sys.exit(watch_service(sweep, Service(url, token), Console()))
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    sys.exit(watch_store(sweep, open_store(load_settings()), Console()))


@click.command()
@click.option("--ray-address", envvar="RAY_ADDRESS", help=_RAY_HELP)
@click.option(
    "--stand-by", is_flag=True, help="Wait while another schedules, and take over when it has gone."
)
@click.option("--attached", is_flag=True, hidden=True, help="End when standard input closes.")
@click.option(
    "--log-format",
    envvar="HEADCOUNT_LOG_FORMAT",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json writes one object a line; else HEADCOUNT_LOG_FORMAT.",
)
@click.option(
    "--metrics-port",
    envvar="HEADCOUNT_METRICS_PORT",
    type=click.IntRange(0, 65_535),
    help="Answer Prometheus at this port of the loopback address; else HEADCOUNT_METRICS_PORT, else nowhere.",
)
def scheduler(
    ray_address: str | None,
    stand_by: bool,
    attached: bool,
    log_format: Literal["text", "json"],
    metrics_port: int | None,
) -> None:
    """Run the jobs of every sweep in the store until stopped, for any number of 'headcount run'."""
    from headcount.orchestrator.scheduling.logs import set_up_logs
    from headcount.orchestrator.scheduling.serving import serve
    from headcount.orchestrator.settings import load_settings

    set_up_logs(log_format)
    sys.exit(serve(load_settings(), ray_address, attached, metrics_port, stand_by))


@click.command()
@click.argument("sweep", required=False)
def status(sweep: str | None) -> None:
    """Show how far all sweeps are, or one of them with its running jobs."""
    from headcount.orchestrator.following.showing import show_status

    show_status(sweep)


@click.command()
@click.argument("sweep")
def jobs(sweep: str) -> None:
    """List the jobs of a sweep with their state, result and last cause."""
    from headcount.orchestrator.following.showing import show_jobs

    show_jobs(sweep)


@click.command()
@click.argument("job")
def logs(job: str) -> None:
    """Show how each attempt at a job ended, and what the last one printed. JOB is the beginning of its id."""
    from headcount.orchestrator.following.showing import show_logs

    show_logs(job)


@click.command()
@click.argument("job")
def why(job: str) -> None:
    """Say what a job waits for, or how each attempt at it ended. JOB is the beginning of its id."""
    from headcount.orchestrator.following.reasons import explain
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    for line in explain(open_store(load_settings()), job):
        click.echo(line)


@click.command()
@click.argument("sweep")
def cancel(sweep: str) -> None:
    """Withdraw a sweep's wish for its unsettled jobs; what other sweeps want goes on."""
    from headcount.orchestrator.submitting.changing import cancel_sweep

    cancel_sweep(sweep)


@click.command()
@click.argument("sweep")
def pause(sweep: str) -> None:
    """Start no more jobs of a sweep; those that run go on."""
    from headcount.orchestrator.submitting.changing import pause_sweep

    pause_sweep(sweep)


@click.command()
@click.argument("sweep")
def resume(sweep: str) -> None:
    """Let the jobs of a paused sweep start again."""
    from headcount.orchestrator.submitting.changing import resume_sweep

    resume_sweep(sweep)


@click.command()
@click.argument("sweep")
@click.option("--failed", is_flag=True, help="The failed jobs: what is queued anyway.")
def retry(sweep: str, failed: bool) -> None:
    """Queue the failed jobs of a sweep again."""
    from headcount.orchestrator.submitting.changing import retry_sweep

    retry_sweep(sweep)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("sweep")
@click.argument("priority", type=click.IntRange(-1000, 1000))
def priority(sweep: str, priority: int) -> None:
    """Start the jobs of a sweep before those of a lower priority. A sweep's own is 0, or that of its file."""
    from headcount.orchestrator.submitting.changing import set_priority

    set_priority(sweep, priority)


@click.command()
@click.argument("sweep")
@click.confirmation_option("--yes", prompt="Remove the sweep? Its jobs stay, but what waits is cancelled")
def delete(sweep: str) -> None:
    """Remove a sweep. Its jobs stay with their results, and train nothing again when a sweep wants them."""
    from headcount.orchestrator.submitting.changing import delete_sweep

    delete_sweep(sweep)
