"""The commands that run sweeps and show how far they are; each imports what it needs when it works."""

import json
import sys

import click

_RAY_HELP = "A Ray cluster to use, such as 10.0.0.1:6379; else RAY_ADDRESS, else a Ray of this home's own."


@click.command()
@click.argument("file", metavar="FILE|NAME")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(file: str, as_json: bool) -> None:
    """Show the cells and jobs of a sweep and what they would cost."""
    from rich.console import Console

    from headcount.orchestrator.running import make_plan, read_spec
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.submission import compare
    from headcount.sweeps.rendering import plan_as_dict, render_plan

    settings = load_settings()
    store = open_store(settings)
    planned = make_plan(read_spec(file, store), settings)
    with store.read() as session:
        found = compare(session, planned)
    counts = {"new": found.new, "known": found.known, "shared": found.shared}
    if as_json:
        click.echo(json.dumps({**plan_as_dict(planned), "jobs_in_store": counts}, indent=2))
        return
    console = Console()
    render_plan(planned, console)
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    if found.added_cells and found.known:
        words += f"; {found.added_cells} cells added"
    if found.removed_cells:
        words += f"; {found.removed_cells} cells withdrawn"
    console.print(f"In the store: {words}", highlight=False)


@click.command()
@click.argument("file", metavar="FILE|NAME")
@click.option("--ray-address", envvar="RAY_ADDRESS", help=_RAY_HELP)
def run(file: str, ray_address: str | None) -> None:
    """Train what a sweep still lacks, and follow it until every job has an outcome.

    FILE is a sweep's YAML; NAME is a sweep that was submitted before. Ctrl-C stops cleanly, and the same
    command goes on. Exits with 0 when every job has finished, and with 3 when some failed or diverged.
    """
    from rich.console import Console

    from headcount.orchestrator.running import run_sweep
    from headcount.orchestrator.settings import load_settings

    sys.exit(run_sweep(file, load_settings(), ray_address, Console()))


@click.command()
@click.option("--ray-address", envvar="RAY_ADDRESS", help=_RAY_HELP)
@click.option("--attached", is_flag=True, hidden=True, help="End when standard input closes.")
def scheduler(ray_address: str | None, attached: bool) -> None:
    """Run the jobs of every sweep in the store until stopped, for any number of 'headcount run'."""
    import logging

    from headcount.orchestrator.serving import serve
    from headcount.orchestrator.settings import load_settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    sys.exit(serve(load_settings(), ray_address, attached))


@click.command()
@click.argument("sweep", required=False)
def status(sweep: str | None) -> None:
    """Show how far all sweeps are, or one of them with its running jobs."""
    from headcount.orchestrator.showing import show_status

    show_status(sweep)


@click.command()
@click.argument("sweep")
def jobs(sweep: str) -> None:
    """List the jobs of a sweep with their state, result and last cause."""
    from headcount.orchestrator.showing import show_jobs

    show_jobs(sweep)


@click.command()
@click.argument("job")
def logs(job: str) -> None:
    """Show how each attempt at a job ended, and what the last one printed. JOB is the beginning of its id."""
    from headcount.orchestrator.showing import show_logs

    show_logs(job)


@click.command()
@click.argument("sweep")
def cancel(sweep: str) -> None:
    """Withdraw a sweep's wish for its unsettled jobs; what other sweeps want goes on."""
    from headcount.orchestrator.changing import cancel_sweep

    cancel_sweep(sweep)


@click.command()
@click.argument("sweep")
def pause(sweep: str) -> None:
    """Start no more jobs of a sweep; those that run go on."""
    from headcount.orchestrator.changing import pause_sweep

    pause_sweep(sweep)


@click.command()
@click.argument("sweep")
def resume(sweep: str) -> None:
    """Let the jobs of a paused sweep start again."""
    from headcount.orchestrator.changing import resume_sweep

    resume_sweep(sweep)


@click.command()
@click.argument("sweep")
def retry(sweep: str) -> None:
    """Queue the failed jobs of a sweep again."""
    from headcount.orchestrator.changing import retry_sweep

    retry_sweep(sweep)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("sweep")
@click.argument("priority", type=click.IntRange(-1000, 1000))
def priority(sweep: str, priority: int) -> None:
    """Start the jobs of a sweep before those of a lower priority. A sweep's own is 0, or that of its file."""
    from headcount.orchestrator.changing import set_priority

    set_priority(sweep, priority)


@click.command()
@click.argument("sweep")
@click.confirmation_option("--yes", prompt="Remove the sweep? Its jobs stay, but what waits is cancelled")
def delete(sweep: str) -> None:
    """Remove a sweep. Its jobs stay with their results, and train nothing again when a sweep wants them."""
    from headcount.orchestrator.changing import delete_sweep

    delete_sweep(sweep)
