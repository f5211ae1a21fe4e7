"""What an event costs against the jobs that are queued, drawn."""

from collections.abc import Mapping
from pathlib import Path


def draw(costs: Mapping[str, Mapping[int, float]], file: Path) -> None:
    """Write a figure, in the form that the file's name ends with, of lines by engine: jobs queued to ms.

    Needs matplotlib, as `headcount[service]` has it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for engine, line in costs.items():
        axes.plot(list(line), list(line.values()), marker="o", markersize=4, label=engine)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("jobs queued")
    axes.set_ylabel("CPU time an event, ms")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
