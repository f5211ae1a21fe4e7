"""The commands `headcount train` and `headcount studies`."""

import sys

import click


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.pass_context
def train(context: click.Context) -> None:
    """Train one job from a YAML file, without Ray and without a store."""
    from headcount.sweeps.file.job_file import read_job
    from headcount.trainer.single_job import main

    sys.exit(main(context.args, read_job, "headcount train"))


@click.command()
@click.argument("name", required=False)
@click.option("--small", is_flag=True, help="Print the file of NAME's small variant.")
def studies(name: str | None, small: bool) -> None:
    """List the ready-made studies with their cost, or print the file of one.

    'headcount run best-lr --small' runs one in its small variant; 'headcount studies best-lr > best-lr.yaml'
    begins one of your own.
    """
    from headcount.sweeps import studies as ready_made
    from headcount.trainer.errors import UserError

    if name is not None:
        click.echo(ready_made.study_text(name, small), nl=False)
        return
    if small:
        raise UserError(
            "--small prints the file of one study; name it, as in 'headcount studies best-lr --small'"
        )
    from rich.console import Console

    from headcount.sweeps.rendering import render_studies

    render_studies(ready_made.studies(), Console())
