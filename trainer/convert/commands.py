"""`headcount convert`, whose options are those of `python -m headcount.trainer.convert`."""

import sys

import click


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.pass_context
def convert(context: click.Context) -> None:
    """Convert a pretrained model to ours with depth routing, or ours to a Hugging Face folder."""
    from headcount.trainer.convert.command import main

    sys.exit(main(context.args, "headcount convert"))
