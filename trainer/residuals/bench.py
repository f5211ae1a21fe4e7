"""`python -m headcount.trainer.residuals.bench`: every residual stream in every form, trained and timed here.

First all jobs, each form at each peak rate, in several processes at once; then each form alone, for speed and
peak memory. A row is printed as it ends and kept in the results file: what is there is not run again.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headcount.trainer.bench.rows import reset_memory, timed
from headcount.trainer.config import DataConfig, JobConfig, job_from_fields
from headcount.trainer.data import Dataset, open_dataset, prepare
from headcount.trainer.events import Evaluation, Result
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution, batch_windows
from headcount.trainer.initial import start_model
from headcount.trainer.loop import train
from headcount.trainer.residuals.registry import added_parameters, stream_label
from headcount.trainer.step import updater_for

Row = dict[str, Any]

FORMS: list[dict[str, Any]] = [
    {},
    {"residual": "mhar"},
    {"residual": "mhar", "logit_scale": 8**-0.5},
    {"residual": "mhar", "routing_heads": 8},
    {"residual": "mhar", "routing_heads": 8, "block_size": 4},
    {"residual": "mhar", "routing_heads": 8, "logit_scale_form": "per_head"},
    {"residual": "mhar_hw", "routing_heads": 8},
    {"residual": "delta", "routing_heads": 8},
    {"residual": "delta", "routing_heads": 8, "block_size": 4},
    {"residual": "hyper_connections", "connections": "static"},
    {"residual": "hyper_connections", "connections": "dynamic"},
    {"residual": "hyper_connections", "connections": "simplified"},
    {"residual": "mhc"},
    {"residual": "mhc", "mhc_init": "normal"},
    {"residual": "frac_connections", "connections": "dynamic"},
    {"residual": "frac_connections", "connections": "static"},
    {"residual": "denseformer"},
    {"residual": "value_residual", "value_mix": "constant"},
    {"residual": "value_residual", "value_mix": "learned"},
    {"residual": "muddformer"},
    {"residual": "laurel", "laurel_form": "rw"},
    {"residual": "laurel", "laurel_form": "lr"},
    {"residual": "laurel", "laurel_form": "pa"},
    {"residual": "laurel", "laurel_form": "rw_lr"},
    {"residual": "dar", "block_size": 4},
    {"residual": "wav", "block_size": 4},
    {"residual": "haares", "block_size": 4},
    {"residual": "deeploop"},
    {"residual": "deeploop", "loops": 2},
    {"residual": "xhc"},
    {"residual": "xhc", "streams": 16},
    {"residual": "xhc_flash"},
    {"residual": "xhc_flash", "streams": 16},
]
"""As fields of the model."""


def job(form: dict[str, Any], options: argparse.Namespace, windows: int, rate: float) -> JobConfig:
    context = job_from_fields({"model.scale": options.scale}).data.context
    fields = {f"model.{name}": value for name, value in form.items()}
    return job_from_fields(
        fields
        | {
            "model.scale": options.scale,
            "train.batch_tokens": windows * context,
            "train.steps": options.steps,
            "train.eval_every": options.steps // 8,
            "train.eval_windows": 8,
            "train.peak_lr": rate,
        }
    )


def learn(config: JobConfig, home: Path, device: Any) -> Row:
    """Train the job; the validation loss before and after, and how it ended."""
    row: Row = {"evaluations": []}
    began = time.perf_counter()
    try:
        for event in train(config, _data(config, home), execution=Execution(device=device)):
            if isinstance(event, Evaluation):
                row["evaluations"].append(event.loss)
            elif isinstance(event, Result):
                row["outcome"] = event.outcome
    except Exception as error:  # one form must not end the others
        row["outcome"] = f"{type(error).__name__}: {error}"
    return row | {"seconds": time.perf_counter() - began}


def measure(config: JobConfig, home: Path, device: Any, updates: int = 10) -> Row:
    """Tokens a second over the median update, and bytes allocated at the peak; None of these on a CPU."""
    execution = Execution(device=device)
    try:
        with exact_mode(execution):
            where = torch.device("cuda" if torch.cuda.is_available() and device != "cpu" else "cpu")
            reset_memory(where)
            before = torch.cuda.memory_allocated() if where.type == "cuda" else 0
            windows = batch_windows(config)
            updater = updater_for(start_model(config, where), config, execution, windows)
            batch = torch.from_numpy(_data(config, home).batch(0, 0, windows, config.data.context))
            seconds = timed(lambda: updater.update(batch, config.train.peak_lr)[0], updates)
            row: Row = {"tokens_per_second": config.train.batch_tokens / seconds}
            if where.type == "cuda":
                row["peak_bytes"] = torch.cuda.max_memory_allocated() - before
            return row | updater.environment()
    except Exception as error:  # one form must not end the others
        return {"error": f"{type(error).__name__}: {error}"}


def table(results: dict[str, Row], rates: Sequence[float]) -> str:
    """Markdown, a row for each form that is in the results."""
    labels = dict.fromkeys(row["label"] for row in results.values())
    lines = ["| stream | added | k tokens/s | of additive | GiB |" + "".join(f" {r:g} |" for r in rates)]
    lines.append("|---" * (5 + len(rates)) + "|")
    additive = results.get("additive", {}).get("tokens_per_second")
    for label in labels:
        alone = results.get(label, {})
        cells = [label, f"{next(r for r in results.values() if r['label'] == label)['added']:,}"]
        speed, peak = alone.get("tokens_per_second"), alone.get("peak_bytes")
        cells += [
            f"{speed / 1e3:,.0f}" if speed else "–",
            f"{speed / additive:.2f}" if speed and additive else "–",
        ]
        cells.append(f"{peak / 2**30:.1f}" if peak else "–")
        for rate in rates:
            trained = results.get(f"{label} @ {rate:g}", {})
            finished = trained.get("outcome") == "finished"
            cells.append(f"{trained['evaluations'][-1]:.3f}" if finished else trained.get("outcome", "–"))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m headcount.trainer.residuals.bench", description=__doc__)
    parser.add_argument("--scale", default="50m")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs=2, default=[3e-4, 1e-3], help="Peak learning rates.")
    parser.add_argument("--windows", type=int, default=4, help="Of an update, where losses are measured.")
    parser.add_argument(
        "--timed-windows", type=int, default=16, help="Of an update, where speed is measured."
    )
    parser.add_argument("--processes", type=int, default=4, help="That train at once.")
    parser.add_argument("--parts", nargs="+", choices=("train", "time"), default=("train", "time"))
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--home", type=Path, help="Where the text is kept; else a temporary folder.")
    parser.add_argument("--results", type=Path, default=Path("residual_streams.json"))
    options = parser.parse_args(arguments)
    home = options.home or Path(tempfile.gettempdir()) / "headcount-bench"
    results: dict[str, Row] = json.loads(options.results.read_text()) if options.results.exists() else {}
    prepare(DataConfig(context=128, source="stdlib"), home)

    def keep(key: str, config: JobConfig, row: Row) -> None:
        results[key] = {
            "label": stream_label(config.model),
            "added": added_parameters(config.model),
            **row,
        }
        options.results.write_text(json.dumps(results, indent=1))
        print(key, json.dumps(row), flush=True)

    jobs = {}
    for form in FORMS:
        for rate in options.rates:
            config = job(form, options, options.windows, rate)
            jobs[f"{stream_label(config.model)} @ {rate:g}"] = config
    left = [(key, config, home, options.device) for key, config in jobs.items() if key not in results]
    left = left if "train" in options.parts else []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for key, row in pool.imap_unordered(_learn_by_key, left):
            keep(key, jobs[key], row)
    for form in FORMS if "time" in options.parts else []:
        config = job(form, options, options.timed_windows, options.rates[0])
        if stream_label(config.model) not in results:
            keep(stream_label(config.model), config, measure(config, home, options.device))
    print(table(results, options.rates))


def _learn_by_key(given: tuple[str, JobConfig, Path, Any]) -> tuple[str, Row]:
    key, config, home, device = given
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return key, learn(config, home, device)


def _data(config: JobConfig, home: Path) -> Dataset:
    return open_dataset(prepare(config.data, home).fingerprint, home)


if __name__ == "__main__":
    main()
