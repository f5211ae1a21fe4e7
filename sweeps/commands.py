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
def studies(name: str | None) -> None:
    """List the ready-made studies, or print the file of one: 'headcount studies best-lr > best-lr.yaml'."""
    from headcount.sweeps import studies as ready_made

    if name is not None:
        click.echo(ready_made.study_text(name), nl=False)
        return
    found = list(ready_made.studies())
    width = max(len(study.name) for study in found)
    for study in found:
        click.echo(f"{study.name:<{width}}  {study.description}")
