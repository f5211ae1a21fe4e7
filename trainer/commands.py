"""The commands about data sets; each imports what it needs when it works."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _home(command: Command) -> Command:
    return click.option(
        "--home",
        envvar="HEADCOUNT_HOME",
        default="~/.headcount",
        show_default=True,
        callback=lambda ctx, parameter, value: Path(value or "~/.headcount").expanduser().absolute(),
        help="Headcount's home; else HEADCOUNT_HOME.",
    )(command)


def _replace(command: Command) -> Command:
    return click.option("--replace", is_flag=True, help="Let a name that is taken stand for this instead.")(
        command
    )


@click.group()
def data() -> None:
    """Prepare, register and look at the data sets that sweeps name."""


@data.command()
@click.argument("name", required=False)
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--preset",
    type=click.Choice(["english-docs"]),
    help="In place of files: text out of packages of Debian and PyPI, with a tokenizer of its own.",
)
@click.option(
    "--tokenizer",
    default="bytes",
    show_default=True,
    help="bytes, tiktoken:NAME, or the path of a tokenizer.json.",
)
@click.option("--separator", help="The token that ends a document, where the tokenizer's is not found.")
@click.option("--column", default="text", show_default=True, help="The field of a row that is the text.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "jsonl", "text"]),
    help="Of all files; else by their suffixes.",
)
@click.option("--workers", type=click.IntRange(1), help="Processes; else as many as there are cores.")
@_replace
@_home
def prepare(
    name: str | None,
    files: tuple[str, ...],
    preset: str | None,
    tokenizer: str,
    separator: str | None,
    column: str,
    form: Any,
    workers: int | None,
    replace: bool,
    home: Path,
) -> None:
    """Tokenise files and register them as NAME, for 'data: {source: NAME}' in a sweep.

    FILE is a path, a folder, a glob, a URL that fsspec opens, or hf:OWNER/NAME/FOLDER for parquet files on
    the Hugging Face hub. A preparation that was stopped goes on where it was when the same command is run
    again.

    --preset english-docs fetches 20 packages by apt and 10 by pip, makes 100 MB or more of English prose and
    code of them, and trains a tokenizer of 16,384 tokens on it. The same packages are the same data set.
    """
    from headcount.trainer.data.building import build
    from headcount.trainer.data.workers import Recipe

    if preset is not None:
        if files:
            raise click.UsageError("a preset has files of its own; leave FILE out, or --preset")
        _prepare_preset(name or preset, home, workers or 0, replace)
        return
    if name is None or not files:
        raise click.UsageError("expected NAME FILE..., or --preset english-docs")
    recipe = Recipe(tokenizer, separator, column, form)
    with _progress() as report:
        manifest = build(name, files, home, recipe, workers=workers or 0, replacing=replace, report=report)
    _show(manifest, home)


def _prepare_preset(name: str, home: Path, workers: int, replacing: bool) -> None:
    from headcount.trainer.data.english_docs import build_english_docs

    with _progress() as report:
        manifest, listing = build_english_docs(
            name, home, workers=workers, replacing=replacing, report=report
        )
    _show(manifest, home)
    click.echo(f"{'packages:':15}{listing}, with their versions and licences")


@data.command()
@click.argument("name")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--vocabulary", type=click.IntRange(2), help="Number of ids, where the files do not tell it.")
@click.option(
    "--dtype",
    type=click.Choice(["uint8", "uint16", "uint32"]),
    help="Of files without a header, such as nanoGPT's (uint16).",
)
@click.option("--tokenizer", help="What made the tokens: tiktoken:NAME, or the path of a tokenizer.json.")
@click.option(
    "--validation",
    multiple=True,
    help="A file or glob of the validation side; else the files with 'val' in their names.",
)
@_replace
@_home
def register(
    name: str,
    files: tuple[str, ...],
    vocabulary: int | None,
    dtype: str | None,
    tokenizer: str | None,
    validation: tuple[str, ...],
    replace: bool,
    home: Path,
) -> None:
    """Let NAME stand for tokens that are there already; they stay where they are.

    FILE is a folder, files or globs: shards of llm.c (version 1 or 7), bare ones such as nanoGPT's, or a data
    set that Headcount prepared. Every file is read through once.
    """
    from headcount.trainer.data.registration import Stated, register

    stated = Stated(vocabulary, dtype, tokenizer, validation)
    with _progress() as report:
        read = 0

        def advance(tokens: int) -> None:
            nonlocal read
            read += tokens
            report("reading", read, 0)

        manifest = register(name, files, home, stated, replacing=replace, advance=advance)
    _show(manifest, home)


@data.command()
@click.argument("name")
@click.option("--check", is_flag=True, help="Read every shard through and compare its hash.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
@_home
def inspect(name: str, check: bool, as_json: bool, home: Path) -> None:
    """Show what a data set holds and where it lies."""
    from headcount.trainer.data.manifest import dataset_folder
    from headcount.trainer.data.names import get_named
    from headcount.trainer.data.verification import verify

    manifest = get_named(name, home)
    if check:
        total, read = manifest.train_tokens + manifest.validation_tokens, 0
        with _progress() as report:

            def advance(tokens: int) -> None:
                nonlocal read
                read += tokens
                report("reading", read, total)

            verify(manifest, dataset_folder(manifest.fingerprint, home), advance)
    if as_json:
        click.echo(manifest.to_json(), nl=False)
        return
    _show(manifest, home)
    if check:
        click.echo("Every shard is as its manifest states.")


@data.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@_home
def list_(as_json: bool, home: Path) -> None:
    """List the registered data sets with their ids in the vocabulary and their tokens on either side."""
    from rich.console import Console
    from rich.table import Column, Table

    from headcount.trainer.data.names import find_named, registered_names
    from headcount.trainer.errors import UserError

    rows: list[dict[str, Any]] = []
    for name in registered_names(home):
        try:
            manifest = find_named(name, home)
        except UserError as error:
            rows.append({"name": name, "problem": str(error)})
            continue
        if manifest is not None:
            keys = ("name", "fingerprint", "tokenizer", "vocab_size", "train_tokens", "validation_tokens")
            rows.append({key: getattr(manifest, key) for key in keys})
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("name", "tokenizer", "ids", "training", "validation", Column("fingerprint", no_wrap=True))
    for row in rows:
        if "problem" not in row:
            numbers = (f"{row[key]:,}" for key in ("vocab_size", "train_tokens", "validation_tokens"))
            table.add_row(row["name"], row["tokenizer"][:24], *numbers, row["fingerprint"][:12])
    if table.rows:
        Console().print(table)
    for row in rows:
        if "problem" in row:
            click.echo(f"{row['name']}: {row['problem']}")
    if not rows:
        click.echo("No data sets yet: headcount data prepare NAME FILES")


def _show(manifest: Any, home: Path) -> None:
    from headcount.trainer.data.manifest import dataset_folder

    shards = len(manifest.train) + len(manifest.validation)
    per_token = manifest.bytes_per_token
    lines = {
        "name": manifest.name,
        "fingerprint": manifest.fingerprint,
        "tokenizer": f"{manifest.tokenizer}, {manifest.vocab_size:,} ids, {manifest.dtype}",
        "tokens": f"{manifest.train_tokens:,} for training, {manifest.validation_tokens:,} for validation",
        "documents": "not known" if manifest.documents is None else f"{manifest.documents:,}",
        "text": "size not known" if manifest.bytes is None else f"{manifest.bytes:,} bytes",
        "bytes a token": "not known" if per_token is None else f"{per_token:.4f}",
        "shards": f"{shards}, in {dataset_folder(manifest.fingerprint, home)}",
    }
    if manifest.train and Path(manifest.train[0].file).is_absolute():
        lines["shards"] = f"{shards}, in {Path(manifest.train[0].file).parent}"
    for key, value in lines.items():
        click.echo(f"{key + ':':15}{value}")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error, where that is a terminal; one line a stage where it is not."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total or None)
                if not console.is_terminal:
                    click.echo(stage, err=True)
            bar.update(tasks[stage], completed=done)

        yield report
