"""The commands `export`, `import` and `db`; each imports what it needs when it works."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from headcount.orchestrator.store import Store


@click.command()
@click.argument("sweep")
@click.option(
    "--to",
    "form",
    type=click.Choice(["bundle", "csv", "jsonl", "parquet", "tensorboard", "mlflow"]),
    default="bundle",
    show_default=True,
    help="A bundle is all but weights; csv, jsonl and parquet a row an evaluation; the others a run a job.",
)
@click.option(
    "--out",
    metavar="PLACE",
    help="The file, TensorBoard's folder, or MLflow's tracking URI. By default it is named after SWEEP, and "
    "MLflow as it is set up.",
)
def export(sweep: str, form: str, out: str | None) -> None:
    """Write SWEEP as one file: its YAML, jobs, curves, probes and scores, as SWEEP.tar.gz.

    'headcount import' reads it back, here or elsewhere. Weights are left out: its last lines say which, and
    where they lie.
    """
    from headcount.orchestrator.artifacts.folder import open_artifacts
    from headcount.orchestrator.exchange.bundle import SUFFIX, write_bundle
    from headcount.orchestrator.exchange.flat import write_flat
    from headcount.orchestrator.exchange.to_mlflow import write_mlflow
    from headcount.orchestrator.exchange.to_tensorboard import write_tensorboard
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    file = Path(out or f"{sweep}{SUFFIX if form == 'bundle' else '.' + form}")
    settings = load_settings()
    artifacts = open_artifacts(settings)
    with open_store(settings).read() as session:
        if form == "tensorboard":
            click.echo(f"{file}: {write_tensorboard(session, sweep, file)} runs")
            return
        if form == "mlflow":
            logged, passed = write_mlflow(session, sweep, out)
            click.echo(f"{sweep}: {logged} runs logged; {passed} were there already or have no result")
            return
        if form != "bundle":
            click.echo(f"{file}: {write_flat(session, sweep, form, file)} rows")
            return
        written = write_bundle(session, sweep, file, artifacts.read)
    counts = ", ".join(f"{written.rows[t]} {t}s" for t in ("job", "attempt", "evaluation"))
    click.echo(f"{written.file}: {counts}; SHA-256 {written.sha256}")
    for kind, use in _WEIGHTS.items():
        keys = [weights.key for weights in written.left_out if weights.kind == kind]
        if keys:
            click.echo(f"left out: {len(keys)} {use}, under {artifacts.url}, such as {keys[0]}")


_WEIGHTS = {
    "initial": "initial weights, which jobs that are to be trained elsewhere need there under the same key",
    "model": "models, which probes and evaluations read",
    "checkpoint": "checkpoints; elsewhere their jobs begin anew",
}


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Import under another name than the sweep's own, or the file's.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="MEANING=COLUMN",
    help="What a column of FILE means: a field of a job or any other axis, or seed, step, loss, parameters, "
    "flops, tokens_per_second. Several between commas.",
)
@click.option(
    "--control",
    multiple=True,
    metavar="AXIS=VALUE",
    help="The runs that the others are paired with, by seed.",
)
def import_results(file: Path, name: str | None, mapping: tuple[str, ...], control: tuple[str, ...]) -> None:
    """Read results into the store: a sweep that 'headcount export' wrote, or runs of another program.

    Runs are CSV, JSON lines or Parquet: a row a run, or a row an evaluation, such as
    --map model.routing_heads=H,seed=seed,step=step,loss=val_loss --control model.residual=additive.
    What the store has already stays as it is, and importing twice changes nothing. Jobs that had no outcome
    are cancelled here until somebody wants them: an import begins nothing.
    """
    from headcount.orchestrator.exchange.records import FORMS
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    settings = load_settings()
    store = open_store(settings)
    if file.suffix.lower() in FORMS or mapping or control:
        _import_runs(store, file, name, mapping, control)
        return
    from headcount.orchestrator.artifacts.folder import open_artifacts
    from headcount.orchestrator.exchange.importing import import_bundle

    artifacts = open_artifacts(settings)
    found = import_bundle(store, file, artifacts, name)
    click.echo(
        f"{found.sweep}: {found.new} jobs new, {found.completed} completed, {found.kept} kept as they were"
    )
    if found.unsettled:
        click.echo(
            f"{found.unsettled} have no outcome yet, and are cancelled until somebody here wants them: "
            f"'headcount run {found.sweep}' trains them"
        )
    for weights in found.lacking:
        click.echo(f"they start from weights that are not here: put them at {artifacts.url}/{weights.key}")


def _import_runs(
    store: "Store", file: Path, name: str | None, mapping: tuple[str, ...], control: tuple[str, ...]
) -> None:
    from headcount.orchestrator.exchange.external import import_runs, sweep_name
    from headcount.orchestrator.exchange.mapping import parse_pairs
    from headcount.orchestrator.store.journal import user_name

    found = import_runs(
        store,
        file,
        sweep_name(name or file.stem, given=name is not None),
        parse_pairs(mapping, "--map"),
        parse_pairs(control, "--control"),
        user_name(),
    )
    if not found.changed:
        click.echo(f"{found.sweep}: these runs are in the store already")
        return
    cells = f"{found.cells} cells, {found.controls} of them controls"
    click.echo(f"{found.sweep}: {found.jobs} runs of {cells}; 'headcount table {found.sweep}' shows them")
    for count, words in (
        (found.diverged, "diverged"),
        (found.incomplete, "end before the others: kept without a result"),
    ):
        if count:
            click.echo(f"{count} {words}")
    if found.unused:
        click.echo(f"not read: the columns {', '.join(found.unused)}")


globals()["import"] = import_results  # the command's name is a word of Python


@click.group()
def db() -> None:
    """Keep the store: its schema, its soundness, a copy of it."""


@db.command()
def upgrade() -> None:
    """Bring the store to the newest schema, as every command does that uses it."""
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store
    from headcount.orchestrator.store.migrations.upgrade import HEAD

    store = open_store(load_settings())
    click.echo(f"{store.engine.url.render_as_string()}: schema {HEAD}, the newest")


@db.command()
def check() -> None:
    """Look for what is wrong with the store. Exits with 1 where something is."""
    from headcount.orchestrator.exchange.checking import check_store
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    store = open_store(load_settings())
    problems = check_store(store)
    for problem in problems:
        click.echo(problem)
    click.echo(f"{store.engine.url.render_as_string()}: {len(problems) or 'no'} problems")
    sys.exit(1 if problems else 0)


@db.command()
@click.argument("url")
def copy(url: str) -> None:
    """Copy the store, every row of it, to the empty store at URL: sqlite:///PATH or postgresql://…"""
    from headcount.orchestrator.exchange.copying import copy_store
    from headcount.orchestrator.settings import load_settings, with_driver
    from headcount.orchestrator.store import open_store

    source, target = open_store(load_settings()), open_store(with_driver(url, "URL"))
    counts = copy_store(source, target)
    click.echo(f"{target.engine.url.render_as_string()}: {sum(counts.values())} rows copied and compared")
    click.echo("Set HEADCOUNT_DATABASE_URL to use it.")
