"""What `headcount bench` times of the trainer, beside the kernels."""

import click

from headcount.kernels.commands import HANDED_ON, bench

__all__ = ["bench"]


@bench.command(**HANDED_ON)
@click.pass_context
def data(context: click.Context) -> None:
    """The preparation of a text, beside nanoGPT's way (its options: --help)."""
    from headcount.trainer.data.bench import main

    main(context.args)


@bench.command(**HANDED_ON)
@click.pass_context
def streams(context: click.Context) -> None:
    """Every residual stream: losses, speed and memory (its options: --help)."""
    from headcount.trainer.residuals.bench import main

    main(context.args)


@bench.command(**HANDED_ON)
@click.pass_context
def training(context: click.Context) -> None:
    """Whole training steps, beside nanoGPT's (its options: --help)."""
    from headcount.trainer.bench.training import main

    main(context.args)
