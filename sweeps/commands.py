"""The command `headcount train`."""

import sys

import click


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.pass_context
def train(context: click.Context) -> None:
    """Train one job from a YAML file, without Ray and without a store."""
    from headcount.sweeps.job_file import read_job
    from headcount.trainer.single_job import main

    sys.exit(main(context.args, read_job, "headcount train"))
