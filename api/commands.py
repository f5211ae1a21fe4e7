"""The command `headcount table`."""

from typing import Literal

import click

Format = Literal["text", "json", "csv", "md", "tex"]


@click.command()
@click.argument("sweep")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv", "md", "tex"]),
    default="text",
    show_default=True,
    help="json and csv hold every field in full precision.",
)
@click.option(
    "--digits",
    type=click.IntRange(0, 15),
    default=4,
    show_default=True,
    help="Decimals of text, md and tex.",
)
def table(sweep: str, form: Format, digits: int) -> None:
    """The ablation table of SWEEP: loss over seeds, and the delta to the control paired by seed."""
    from headcount.api.results import ablation_table
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    with open_store(load_settings()).read() as session:
        found = ablation_table(session, sweep)
    if form == "text":
        from headcount.api.terminal import print_table

        print_table(found, digits)
    else:
        from headcount.api.formats import render

        click.echo(render(found, form, digits), nl=False)
