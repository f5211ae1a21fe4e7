"""The command `headcount scaling`: the fitted law, and three comparisons of each method with it."""

import json
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headcount.api.results.scaling import Scaling
    from headcount.sweeps.statistics import PairedDelta
    from headcount.sweeps.statistics.chinchilla import ChinchillaLaws
    from headcount.sweeps.statistics.scaling import FittedGain, FittedGap, Laws

_COLUMNS = ("loss", "FLOP", "equal steps", "equal FLOP", "equal time", "gain", "time gain")


@click.command()
@click.argument("sweep")
@click.option("--json", "as_json", is_flag=True, help="Every figure in full precision.")
def scaling(sweep: str, as_json: bool) -> None:
    """The scaling law of SWEEP's controls, and what each method is worth by it.

    L = E + A (C / C0)^-alpha is fitted to the controls, which need four different computes. Each treatment is
    compared with its control at equal steps, and with the law at equal FLOPs and at equal training time. A
    gain is the controls' compute, or time, for its loss, over its own. Where the controls have three sizes
    and three lengths or more, L = E + A / N^alpha + B / D^beta is fitted too. Intervals are of 95 %.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: fits have three parameters
    from rich.console import Console

    from headcount.api.results import ablation_table
    from headcount.api.results.scaling import scaling as scaling_of
    from headcount.api.results.scaling import scaling_records
    from headcount.orchestrator.settings import load_settings
    from headcount.orchestrator.store import open_store

    with open_store(load_settings()).read() as session:
        table = ablation_table(session, sweep)
    found = scaling_of(table)
    if as_json:
        content = {"sweep": sweep, **_as_dict(found), "cells": scaling_records(table)}
        click.echo(json.dumps(content, indent=1))
        return
    show_scaling(found, Console(highlight=False))


def show_scaling(found: "Scaling", console: Any) -> None:
    from rich.table import Table

    from headcount.orchestrator.following.live import cell_words

    console.print(f"by compute: {_law_words(found.by_compute, 'C', 'FLOP')}, {found.runs} runs", markup=False)
    if found.by_time is not None:
        console.print(f"by time:    {_law_words(found.by_time, 't', 's')}", markup=False)
    if found.by_size is not None:
        console.print(f"by size:    {_size_words(found.by_size)}", markup=False)
    grid = Table(box=None, pad_edge=False, header_style="dim")
    grid.add_column("cell")
    for name in (*_COLUMNS, *(["token gain"] if found.by_size else [])):
        grid.add_column(name, justify="right", no_wrap=True)
    for worth in found.cells:
        grid.add_row(
            cell_words(worth.row.settings) + (" (control)" if worth.row.is_control else ""),
            f"{worth.row.mean:.4f}",
            f"{worth.flops:.3g}",
            _difference(worth.at_equal_steps),
            _difference(worth.at_equal_flops),
            _difference(worth.at_equal_time),
            _gain(worth.gain),
            _gain(worth.time_gain),
            *([_gain(worth.token_gain)] if found.by_size else []),
        )
    console.width = max(console.width, 160)
    console.print(grid)
    console.print(
        "Differences in nats a token, negative is better; gains above 1 save compute or time. "
        "* extrapolated: outside the computes, or times, that were fitted.",
        style="dim",
        soft_wrap=True,
    )
    for warning in found.warnings:
        console.print(f"Warning: {warning}", markup=False, soft_wrap=True)


def _law_words(laws: "Laws", variable: str, unit: str) -> str:
    law = laws.law
    (e_low, e_high), (low, high) = laws.irreducible_interval, laws.exponent_interval
    return (
        f"L = {law.irreducible:.4g} + {law.coefficient:.4g} ({variable} / {law.scale:.3g} {unit})"
        f"^-{law.exponent:.3g}; E {e_low:.3g} to {e_high:.3g}, exponent {low:.3g} to {high:.3g}; "
        f"fitted from {law.computes[0]:.3g} to {law.computes[1]:.3g} {unit}"
    )


def _size_words(laws: "ChinchillaLaws") -> str:
    law = laws.law
    said = {
        name: f"{low:.3g} to {high:.3g}"
        for name in ("irreducible", "size_exponent", "data_exponent")
        for low, high in [laws.interval(name)]
    }
    return (
        f"L = {law.irreducible:.4g} + {law.size_coefficient:.4g} / N^{law.size_exponent:.3g} + "
        f"{law.data_coefficient:.4g} / D^{law.data_exponent:.3g}; E {said['irreducible']}, exponents "
        f"{said['size_exponent']} and {said['data_exponent']}; fitted from {laws.sizes[0]:.3g} to "
        f"{laws.sizes[1]:.3g} parameters and {laws.tokens[0]:.3g} to {laws.tokens[1]:.3g} tokens"
    )


def _difference(found: "PairedDelta | FittedGap | None") -> str:
    if found is None:
        return ""
    mark = "*" if getattr(found, "extrapolated", False) else ""
    interval = "" if found.low is None else f" [{found.low:+.4f}, {found.high:+.4f}]"
    return f"{found.mean:+.4f}{mark}{interval}"


def _gain(found: "FittedGain | None") -> str:
    if found is None:
        return ""
    ends = ["…" if end is None else f"{end:.2f}" for end in (found.low, found.high)]
    value = "not reached" if found.gain is None else f"{found.gain:.2f}"
    return f"{value}{'*' if found.extrapolated else ''} [{ends[0]}, {ends[1]}]"


def _as_dict(found: "Scaling") -> dict[str, Any]:
    def law(laws: "Laws | None") -> dict[str, Any] | None:
        if laws is None:
            return None
        return {
            "E": laws.law.irreducible,
            "E_interval": laws.irreducible_interval,
            "A": laws.law.coefficient,
            "scale": laws.law.scale,
            "exponent": laws.law.exponent,
            "exponent_interval": laws.exponent_interval,
            "fitted": laws.law.computes,
            "resamples": len(laws.resampled),
        }

    return {
        "by_compute": law(found.by_compute),
        "by_time": law(found.by_time),
        "by_size": _sizes_as_dict(found.by_size),
        "runs": found.runs,
        "warnings": list(found.warnings),
    }


def _sizes_as_dict(laws: "ChinchillaLaws | None") -> dict[str, Any] | None:
    if laws is None:
        return None
    return {
        "E": laws.law.irreducible,
        "E_interval": laws.interval("irreducible"),
        "A": laws.law.size_coefficient,
        "size_exponent": laws.law.size_exponent,
        "size_exponent_interval": laws.interval("size_exponent"),
        "B": laws.law.data_coefficient,
        "data_exponent": laws.law.data_exponent,
        "data_exponent_interval": laws.interval("data_exponent"),
        "fitted_parameters": laws.sizes,
        "fitted_tokens": laws.tokens,
        "resamples": len(laws.resampled),
    }
