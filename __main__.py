"""The command `headcount`: joins the folders' commands and mounts the pages on the service."""

import importlib
import sys

import click

from headcount import __version__
from headcount.trainer.errors import UserError

COMMANDS = {
    "plan": "headcount.orchestrator.commands",
    "run": "headcount.orchestrator.commands",
    "submit": "headcount.orchestrator.commands",
    "watch": "headcount.orchestrator.commands",
    "status": "headcount.orchestrator.commands",
    "jobs": "headcount.orchestrator.commands",
    "logs": "headcount.orchestrator.commands",
    "why": "headcount.orchestrator.commands",
    "cancel": "headcount.orchestrator.commands",
    "pause": "headcount.orchestrator.commands",
    "resume": "headcount.orchestrator.commands",
    "retry": "headcount.orchestrator.commands",
    "priority": "headcount.orchestrator.commands",
    "delete": "headcount.orchestrator.commands",
    "scheduler": "headcount.orchestrator.commands",
    "doctor": "headcount.orchestrator.upkeep.commands",
    "replay": "headcount.orchestrator.upkeep.commands",
    "gc": "headcount.orchestrator.upkeep.commands",
    "probe": "headcount.orchestrator.instruments.commands",
    "generate": "headcount.orchestrator.instruments.commands",
    "evaluate": "headcount.orchestrator.instruments.commands",
    "convert": "headcount.trainer.convert.commands",
    "export": "headcount.orchestrator.exchange.commands",
    "import": "headcount.orchestrator.exchange.commands",
    "db": "headcount.orchestrator.exchange.commands",
    "table": "headcount.api.commands",
    "scaling": "headcount.api.scaling_command",
    "token": "headcount.api.commands",
    "report": "headcount.dashboard.commands",
    "figure": "headcount.dashboard.figure_command",
    "serve": "headcount.dashboard.commands",
    "train": "headcount.sweeps.commands",
    "studies": "headcount.sweeps.commands",
    "data": "headcount.orchestrator.data_commands",
    "bench": "headcount.dashboard.bench.commands",
}
"""The module of each command, imported only when the command is used: `headcount status` loads no torch."""

SECTIONS = {
    "Train a sweep": ("studies", "plan", "run", "status"),
    "See what came out": ("table", "report", "figure", "serve", "scaling"),
    "Follow and change it": (
        *("jobs", "logs", "why", "cancel", "pause", "resume", "retry", "priority", "delete"),
        "replay",
    ),
    "As a team": ("scheduler", "submit", "watch", "token"),
    "One job or model": ("train", "probe", "generate", "evaluate", "convert"),
    "Data and upkeep": ("data", "import", "export", "doctor", "gc", "db", "bench"),
}
"""The commands as `headcount --help` shows them, a newcomer's first ones first."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[name]), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(n, c.get_short_help_str(200)) for n, c in commands if c], col_max=12)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from headcount.trainer.errors import nearest

            raise click.UsageError(f"No command {args[0]!r}; {nearest(args[0], COMMANDS)}", ctx) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="headcount")
def cli() -> None:
    """Ablation sweeps of transformers with multi-head attention residuals."""


def main() -> None:
    """Run a command. Exit code 2 for the user's mistakes, 1 for our own faults."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except UserError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
