"""The commands that look at a trained model: `probe`, `generate` and `evaluate`."""

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

_device = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="To run on.",
)


@click.command()
@click.argument("model", metavar="JOB|FILE")
@click.option("--windows", type=click.IntRange(2), default=64, show_default=True, help="Of validation text.")
@click.option("--slices", type=click.IntRange(1), default=4, show_default=True, help="Of the width.")
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Random queries a site, for the null.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of these draws.")
@_device
@click.option("--out", type=click.Path(path_type=Path), help="Write all figures here too, as JSON.")
def probe(
    model: str,
    windows: int,
    slices: int,
    draws: int,
    seed: int,
    device: Literal["auto", "cpu", "cuda"],
    out: Path | None,
) -> None:
    """Show what a trained model reads of its depth, and whether slices of the width disagree about it.

    JOB is the beginning of a finished job's id, FILE a model.safetensors or its folder. The text is that of
    the job's own validation, which lies in the Headcount home. What is found of a JOB is stored, as a sweep's
    `probe` would store it.
    """
    import torch

    from headcount.orchestrator.artifacts.datasets import dataset_of
    from headcount.orchestrator.instruments.keeping import keep
    from headcount.orchestrator.instruments.models import find_model
    from headcount.orchestrator.instruments.showing import show_probe
    from headcount.orchestrator.settings import load_settings
    from headcount.sweeps.file.instruments import ProbeAsked
    from headcount.sweeps.planning.instruments import FILES, probe_settings
    from headcount.trainer.job_files.files import whole_file
    from headcount.trainer.job_files.model_header import read_metadata
    from headcount.trainer.probe.figures import Settings
    from headcount.trainer.probe.running import probe_file

    settings = load_settings()
    file = find_model(model, settings)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dataset = dataset_of(read_metadata(file)["headcount.fingerprint"], settings)
    figures = probe_file(file, dataset, Settings(windows, slices, draws, seed), device)
    show_probe(figures)
    asked = probe_settings(ProbeAsked(windows, slices, draws, seed))
    record = figures.to_record()
    kept = keep(model, settings, "probe", asked, figures.measurements(), record, FILES["probe"])
    if kept is not None:
        click.echo(kept)
    if out is not None:
        with whole_file(out) as written:
            written.write(json.dumps(record, indent=1).encode())


@click.command()
@click.argument("model", metavar="JOB|FILE")
@click.argument("prompt")
@click.option("--tokens", type=click.IntRange(1), default=100, show_default=True, help="To add.")
@click.option(
    "--temperature",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Of the draw; 0 takes the likeliest token.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draw.")
@click.option("--tokenizer", help="The tokenizer.json of the data set, where it is one.")
@_device
def generate(
    model: str,
    prompt: str,
    tokens: int,
    temperature: float,
    seed: int,
    tokenizer: str | None,
    device: Literal["auto", "cpu", "cuda"],
) -> None:
    """Continue PROMPT by a trained model, and print the text as it comes.

    JOB is the beginning of a finished job's id, FILE a model.safetensors or its folder.
    """
    from headcount.orchestrator.instruments.models import find_model
    from headcount.orchestrator.instruments.writing import written
    from headcount.orchestrator.settings import load_settings

    settings = load_settings()
    parts = written(
        find_model(model, settings),
        prompt,
        settings.home,
        tokens=tokens,
        temperature=temperature,
        seed=seed,
        tokenizer=tokenizer,
        device=device,
    )
    begun = prompt + next(parts)  # raises what is wrong with the model or the prompt before anything is shown
    click.echo(begun, nl=False)
    for part in parts:
        click.echo(part, nl=False)
    click.echo()


@click.command()
@click.argument("model", metavar="JOB|FILE")
@click.option("--tasks", required=True, help="Of lm-eval or of --include, by name with commas between.")
@click.option(
    "--include",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of tasks of your own: YAML files of lm-eval.",
)
@click.option(
    "--task-data",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where copies of the tasks' data sets lie, as OWNER/NAME on the Hugging Face hub.",
)
@click.option("--against", metavar="JOB|FILE", help="Another model: show the paired difference to it.")
@click.option("--limit", type=click.IntRange(1), help="Only the first items of each task.")
@click.option("--tokenizer", help="The tokenizer.json of the data set, where it is one.")
@_device
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the figures here too, as JSON, with every item's score.",
)
def evaluate(
    model: str,
    tasks: str,
    include: Path | None,
    task_data: Path | None,
    against: str | None,
    limit: int | None,
    tokenizer: str | None,
    device: Literal["auto", "cpu", "cuda"],
    out: Path | None,
) -> None:
    """Score a trained model on downstream tasks, by EleutherAI's lm-eval.

    JOB is the beginning of a finished job's id, FILE a model.safetensors or its folder. A task reads its data
    from files or from the network, as its YAML file says. What is found of a JOB is stored, as a sweep's
    `evaluate` would store it.
    """
    import torch

    from headcount.orchestrator.instruments.downstream import differences, evaluate_model
    from headcount.orchestrator.instruments.keeping import keep
    from headcount.orchestrator.instruments.showing import show_differences, show_downstream
    from headcount.orchestrator.settings import load_settings
    from headcount.sweeps.file.instruments import EvaluateAsked
    from headcount.sweeps.planning.instruments import FILES, evaluate_settings
    from headcount.trainer.job_files.files import whole_file

    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # its tasks leave defaults out, and it warns of each
    settings = load_settings()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    models = [model] if against is None else [model, against]
    given = EvaluateAsked(
        tuple(names),
        str(include) if include else None,
        str(task_data) if task_data else None,
        limit,
        tokenizer,
    )
    asked = evaluate_settings(given)
    outcomes = [
        evaluate_model(
            name,
            settings,
            names,
            include=include,
            data=task_data,
            limit=limit,
            tokenizer=tokenizer,
            device=device,
        )
        for name in models
    ]
    record = {"tasks": names, "limit": limit, **outcomes[0].to_record()}
    for name, outcome in zip(models, outcomes, strict=True):
        show_downstream(outcome)
        figures, content = outcome.measurements(), outcome.to_record()
        kept = keep(name, settings, "evaluate", asked, figures, content, FILES["evaluate"])
        if kept is not None:
            click.echo(kept)
    if against is not None:
        found = differences(*outcomes)
        show_differences(found)
        record["against"] = outcomes[1].to_record()
        record["differences"] = [{"task": t, "metric": m, **asdict(d)} for (t, m), d in found.items()]
    if out is not None:
        with whole_file(out) as written:
            written.write(json.dumps(record, indent=1).encode())
