"""Pages of the documentation that are written from the code: commands, fields of a job, REST."""

import ast
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import click

from headcount.__main__ import COMMANDS, cli
from headcount.trainer import config

ROOT = Path(__file__).parents[1]


def commands_page() -> str:
    """Every command with its arguments and options."""
    lines = ["# Commands", "", "As `headcount COMMAND --help` tells them.", ""]
    context = click.Context(cli, info_name="headcount")
    for name in sorted(COMMANDS):
        command = cli.get_command(context, name)
        assert command is not None
        lines += _command(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(lines)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}"
    yield ""
    yield from (inspect.cleandoc(command.help or "").replace("\b\n", ""), "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```", f"{context.command_path} {usage}", "```", "")
    options = [record for p in command.params if (record := p.get_help_record(context)) is not None]
    if options:
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{_cell(option)}` | {_cell(words)} |" for option, words in options)
        yield ""


def job_fields_page() -> str:
    """Every field that a sweep may set or vary, with its type, default and docstring."""
    lines = [
        "# Fields of a job",
        "",
        "A sweep's `job:` may set each of them, and its `axes:` vary it. What has no default comes from "
        "`model.scale`, or from the other fields.",
        "",
        "| field | values | default | meaning |",
        "|---|---|---|---|",
    ]
    meanings = _docstrings(Path(inspect.getfile(config.JobConfig)))
    for name, field in config.FIELDS.items():
        kind = config.SECTIONS[name.partition(".")[0]].__name__
        default = "" if name not in config._DEFAULTS else f"`{json.dumps(config._DEFAULTS[name])}`"
        meaning = meanings.get((kind, field.name), "")
        lines.append(f"| `{name}` | {_values(field.type)} | {default} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def _docstrings(file: Path) -> dict[tuple[str, str], str]:
    """The text beneath each field of each class in a module."""
    found = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            for field, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                    assert isinstance(field.target, ast.Name)
                    found[node.name, field.target.id] = inspect.cleandoc(ast.literal_eval(after.value))
    return found


def _values(declared: Any) -> str:
    if get_origin(declared) is not None and get_origin(declared) is not tuple:
        return ", ".join(f"`{value}`" for value in get_args(declared))
    return {int: "whole number", float: "number", str: "name"}.get(declared, "path or list of paths")


def rest_page() -> str:
    """Every path of the REST interface with what it needs, from its OpenAPI description."""
    described = json.loads((ROOT / "api/openapi.json").read_text(encoding="utf-8"))
    lines = ["# REST", "", described["info"]["description"], ""]
    lines += ["The service answers with its whole description at `/api/v1/openapi.json`.", ""]
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}", "", route.get("description", ""), ""]
            lines += [f"Needs the scope `{route['x-scope']}`.", ""]
            if parameters := route.get("parameters"):
                lines += ["| parameter | in | meaning |", "|---|---|---|"]
                for given in parameters:
                    star = "" if given.get("required") else " (optional)"
                    words = _cell(given.get("description", ""))
                    lines.append(f"| `{given['name']}`{star} | {given['in']} | {words} |")
                lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands_page,
    "job_fields": job_fields_page,
    "rest": rest_page,
}
"""The pages of the folder `reference`, and what writes each."""
