"""The command `headcount bench`."""

from typing import Any

import click

HANDED_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
}
"""Of a command whose arguments, `--help` among them, are another program's."""


@click.group()
def bench() -> None:
    """Time the building blocks on this machine."""


@bench.command(**HANDED_ON)
@click.pass_context
def routing(context: click.Context) -> None:
    """Depth routing's kernels (the options of python -m headcount.kernels.bench)."""
    from headcount.kernels.bench import main

    main(context.args)


@bench.command(**HANDED_ON)
@click.pass_context
def step(context: click.Context) -> None:
    """A training step with depth routing (the options of python -m headcount.kernels.step_bench)."""
    from headcount.kernels.step_bench import main

    main(context.args)
