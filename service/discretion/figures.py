"""The two panels of the paper's Figure 1, drawn from the rows of a simulation. Needs the extra `plots`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from discretion.learning import vapvi
from discretion.simulation import Row

_STYLE = {"pevi": ("PEVI, not private", "0.55", "s"), "vapvi": ("VAPVI, not private", "black", "o")}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def draw(rows: Sequence[Row], calibration: str, folder: Path) -> tuple[Path, Path]:
    rhos = list(dict.fromkeys(row.rho for row in rows if row.algorithm == vapvi.NAME))
    first, second = folder / "figure-1a.png", folder / "figure-1b.png"
    _panel(rows, ["pevi", "vapvi"], rhos[:1], f"Different algorithms ({calibration} calibration)").savefig(first)
    _panel(rows, ["vapvi"], rhos, f"Different privacy budgets ({calibration} calibration)").savefig(second)
    return first, second


def _panel(rows: Sequence[Row], public: Sequence[str], rhos: Sequence[str], title: str) -> Figure:
    figure = Figure(figsize=(6, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    for algorithm in public:
        label, colour, marker = _STYLE[algorithm]
        x, mean, error = _curve([row for row in rows if row.algorithm == algorithm])
        axes.errorbar(x, mean, error, label=label, color=colour, marker=marker, capsize=2)
    for index, rho in enumerate(rhos):
        x, mean, error = _curve([row for row in rows if (row.algorithm, row.rho) == (vapvi.NAME, rho)])
        colour = _COLOURS[index % len(_COLOURS)]
        axes.errorbar(x, mean, error, label=f"DP-VAPVI, ρ = {rho}", color=colour, marker="^", capsize=2)
    axes.set(xscale="log", xlabel="episodes K", ylabel="sub-optimality v* − v^π", title=title, ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def _curve(rows: Sequence[Row]) -> tuple[list[int], list[float], list[float]]:
    """Mean and standard error over instances and repetitions, by number of episodes."""
    gaps: dict[int, list[float]] = {}
    for row in rows:
        gaps.setdefault(row.episodes, []).append(row.suboptimality)
    x = sorted(gaps)
    errors = [float(np.std(gaps[k]) / np.sqrt(len(gaps[k]))) for k in x]
    return x, [float(np.mean(gaps[k])) for k in x], errors
