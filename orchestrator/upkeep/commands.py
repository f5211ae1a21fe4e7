"""The commands that look after a store and what it trains on: `doctor`, `gc` and `replay`."""

import sys
from typing import Literal

import click


@click.command()
@click.option(
    "--ray-address",
    envvar="RAY_ADDRESS",
    help="A Ray cluster whose nodes are looked at, such as 10.0.0.1:6379; else RAY_ADDRESS.",
)
def doctor(ray_address: str | None) -> None:
    """Look at everything that training needs, here and on every node, and say how to mend what is wrong.

    Exits with 0 when nothing is wrong, and with 3 otherwise.
    """
    from headcount.orchestrator.upkeep.diagnosis import examine, print_findings

    sys.exit(print_findings(examine(ray_address)))


@click.command()
@click.argument(
    "kinds",
    nargs=-1,
    metavar="[KIND]...",
    type=click.Choice(["checkpoints", "models", "logs", "jobs", "weights"]),
)
@click.option(
    "--older-than",
    metavar="TIME",
    default="30d",
    show_default=True,
    help="Since it ended, such as 12h or 30d; 0d for all.",
)
@click.option("--delete", is_flag=True, help="Delete it; without this, nothing is.")
def gc(kinds: tuple[str, ...], older_than: str, delete: bool) -> None:
    """Show what can be deleted, and delete it with --delete.

    KIND is checkpoints (of ended jobs), logs (what their attempts printed), jobs (that no sweep has any more,
    with their results), weights (which jobs of a sweep started from, where none of them is left) or models
    (of jobs with a result: only when named, since nothing can be evaluated from them afterwards).
    """
    from datetime import timedelta

    from headcount.orchestrator.following.live import seconds_of
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.journal import now, user_name
    from headcount.orchestrator.upkeep.collecting import BY_DEFAULT, KINDS, collect, find_piles
    from headcount.sweeps.rendering import amount

    age = 0.0 if older_than == "0d" else seconds_of(older_than, "--older-than")
    settings = load_settings()
    store = open_store(settings)
    before = now() - timedelta(seconds=age)
    chosen = kinds or (BY_DEFAULT if delete else tuple(KINDS))
    for pile in find_piles(store, settings, before):
        if pile.kind not in chosen:
            continue
        count, size = len(pile.items), f"{amount(pile.size, 'G')}B"
        if delete:
            gone = collect(store, settings, pile, before, user_name()) if count else 0
            click.echo(f"{pile.kind}: {gone} deleted, {size}")
        else:
            click.echo(f"{pile.kind}: {count}, {size}: {KINDS[pile.kind]}")
    if not delete:
        click.echo("Nothing was deleted; --delete does it" + ("" if kinds else ", but for models"))


@click.command()
@click.argument("job")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="auto is the kind of device that the job was trained on, where there is one.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.005,
    show_default=True,
    help="Nats that an evaluation may be apart where not all are equal bit for bit.",
)
@click.option(
    "--micro-batch",
    type=click.IntRange(1),
    metavar="WINDOWS",
    help="Of one pass, in place of the recorded one: how much another card's would change.",
)
@click.option("--keep", is_flag=True, help="Store how far the tail mean is off, for the sweep's noise floor.")
def replay(
    job: str,
    device: Literal["auto", "cpu", "cuda"],
    tolerance: float,
    micro_batch: int | None,
    keep: bool,
) -> None:
    """Train a job with a result again, and say whether it comes to the same numbers.

    JOB is the beginning of its id. It is trained here, with the micro-batch that was recorded for each range
    of steps, and nothing is stored without --keep. Exits with 0 when the evaluations are equal bit for bit
    or within the tolerance, and with 3 when they differ.
    """
    from rich.console import Console
    from rich.progress import Progress

    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.upkeep import replay as replaying
    from headcount.trainer.events import Event

    settings = load_settings()
    store = open_store(settings)
    record = replaying.read_record(store, job)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"job {record.id[:12]}", total=record.config.train.steps)

        def tell(event: Event) -> None:
            bar.update(task, completed=event.step)

        verdict = replaying.replay(record, settings, device, tell, tolerance, micro_batch)
    if keep:
        replaying.keep(store, record, verdict, micro_batch)
    click.echo(f"job {record.id[:12]}: {verdict.outcome}")
    for line in verdict.lines:
        click.echo(f"  {line}")
    sys.exit(3 if verdict.outcome == "different" else 0)
