"""The tables and pictures of docs/utility.md, made from study.json, served.json and coverage.json alone."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from benchmarks.utility import coverage, promises, served, study

PAGE: Final = Path(__file__).parents[2] / "docs" / "utility.md"
FIGURES: Final = PAGE.parent / "figures" / "utility"
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_FIRST: Final = (
    *(study.BEHAVIOUR, study.UNIFORM, study.BEST, study.NOT_PRIVATE, study.VAPVI, study.CQL),
    *(study.AUTO, study.MODE),
)
_UNITS: Final = {"icu-sepsis": "survival", "paper's MDP": "v − v*"}  # others: the total reward of a trajectory

Document = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    studied: list[Document]
    promised: list[Document]
    covered: list[Document]


def read() -> Measured:
    """What is stored."""
    return Measured(*(json.loads(part.SUMMARY.read_text(encoding="utf-8")) for part in (study, served, coverage)))


def write(found: Measured) -> None:
    """Every table into the page, every picture beside it."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    FIGURES.mkdir(parents=True, exist_ok=True)
    for problem in dict.fromkeys(row["problem"] for row in found.studied):
        drawn(problem, [row for row in found.studied if row["problem"] == problem]).savefig(FIGURES / file(problem))


def filled(page: str, found: Measured) -> str:
    """The page with what stands between the marks of each table replaced."""

    def table(mark: re.Match[str]) -> str:
        name = mark["name"]
        if name == "promises":
            made = _promised(found.promised)
        elif name == "copying, single runs":
            made = _single(found.promised)
        elif name == "budget, read strictly":
            made = _strictly(found.studied)
        elif name == "coverage":
            made = _covered(found.covered)
        elif name == "glucose, against itself":
            made = _against_itself([row for row in found.studied if row["problem"] == "glucose"])
        else:
            made = _measured([row for row in found.studied if row["problem"] == name])
        return f"<!-- table: {name} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>[^>]+) -->\n.*?\n<!-- end -->", table, page, flags=re.DOTALL)


def file(problem: str) -> str:
    return re.sub("[^a-z]+", "-", problem.lower()) + ".png"


def _measured(rows: Sequence[Document]) -> str:
    """A line for each size and method; columns are ρ. Without privacy, ρ has no meaning."""
    rhos = sorted({row["rho"] for row in rows if row["rho"] is not None})
    lines = [["n", "method", *(f"ρ = {rho:g}" for rho in rhos)]]
    for size, method in sorted({(row["size"], row["method"]) for row in rows}, key=_place):
        found = {row["rho"]: row for row in rows if (row["size"], row["method"]) == (size, method)}
        if None in found:
            lines.append([_count(size), method, _cell(found[None]), *[""] * (len(rhos) - 1)])
        else:
            lines.append([_count(size), method, *(_cell(found.get(rho)) for rho in rhos)])
    return _markdown(lines)


def _against_itself(rows: Sequence[Document]) -> str:
    """What `auto` recovers at ρ = 1, if what it reaches at ρ = 100 is taken for what can be reached."""
    told = []
    for size in sorted({row["size"] for row in rows}):
        mean = {(row["method"], row["rho"]): row["mean"] for row in rows if row["size"] == size}
        copied, reached = mean[study.BEHAVIOUR, None], mean[study.AUTO, 100.0]
        shares = [(mean[study.AUTO, 1.0] - copied) / (top - copied) for top in (reached, mean[study.NOT_PRIVATE, None])]
        told.append(f"with {_count(size)} episodes {shares[0]:.2f} (against fitted Q-iteration {shares[1]:.2f})")
    shown = " and ".join(told)
    return f"Of what `auto` itself gains at ρ = 100, it gains at ρ = 1 {shown}, in the runs of the table below."


def _place(line: tuple[int, str]) -> tuple[int, int, str]:
    """By size; what there is to beat and to reach first, then what is private."""
    size, method = line
    return size, _FIRST.index(method) if method in _FIRST else len(_FIRST), method


def _promised(rows: Sequence[Document]) -> str:
    lines = [["problem", "n", "ρ", "promised", "measured", "runs", ""]]
    for row in rows:
        kept = "held" if row["held"] else "**broken**"
        size, goal = _count(row["size"]), _goal(row)
        lines.append([row["problem"], size, row["rho"], goal, _cell(row), str(row["runs"]), kept])
    return _markdown(lines)


def _goal(row: Document) -> str:
    """What is promised of a mean says so."""
    averaged = row["values"] and not row["goal"].startswith("below")
    return f"{row['goal']} on average" if averaged else str(row["goal"])


def _single(rows: Sequence[Document]) -> str:
    """How many runs are below copying by more than their mean may be."""
    below, runs, told = 0, 0, []
    for row in rows:
        if row["problem"].endswith(served.COPYING):
            here = sum(value < -promises.FLOOR for value in row["values"])
            below, runs = below + here, runs + len(row["values"])
            name = f"{row['problem'].split(':')[0]} with {_count(row['size'])}"
            told += (
                [f"{here} of {len(row['values'])} on {name} (the worst by {-min(row['values']):.3f})"] if here else []
            )
    return f"Of {runs} single runs, {below} were below copying by more than {promises.FLOOR:g}: {'; '.join(told)}."


def _strictly(rows: list[Document]) -> str:
    flagged = promises.strictly(rows)
    return f"By one of the limits alone: {'; '.join(flagged)}." if flagged else "No step passes either limit."


def _covered(rows: Sequence[Document]) -> str:
    lines = [["problem", "n", "ρ", "policy", "held", "half-width", "worth", "behaviour", "supported"]]
    for row in rows:
        numbers = [f"{row[name]:.3f}" for name in ("half_width", "truth", "behaviour", "supported_share")]
        held = f"{row['held']} of {row['runs']}"
        lines.append([row["problem"], _count(row["size"]), f"{row['rho']:g}", row["policy"], held, *numbers])
    return _markdown(lines)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _cell(row: Document | None) -> str:
    if row is None:
        return ""
    return f"{row['mean']:.4f}" if not row["error"] else f"{row['mean']:.4f} ± {row['error']:.4f}"


def _markdown(lines: list[list[str]]) -> str:
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rest])


def drawn(problem: str, rows: Sequence[Document]) -> Figure:
    """`auto` and copying by ρ, a colour for each size; what is not private as lines across."""
    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    for colour, size in zip(_COLOURS, sorted({row["size"] for row in rows}), strict=False):
        here = [row for row in rows if row["size"] == size]
        for method, style in ((study.AUTO, "o-"), (study.MODE, "s:")):
            found = [row for row in here if row["method"] == method and row["rho"] is not None]
            x, y = [row["rho"] for row in found], [row["mean"] for row in found]
            label = f"n = {_count(size)}" if method == study.AUTO else None
            axes.errorbar(x, y, [row["error"] or 0.0 for row in found], fmt=style, color=colour, label=label, capsize=2)
        for row in here:
            if row["method"] in (study.NOT_PRIVATE, study.VAPVI):
                axes.axhline(row["mean"], color=colour, linewidth=0.8, linestyle="--")
    behaviour = np.mean([row["mean"] for row in rows if row["method"] == study.BEHAVIOUR])
    axes.axhline(float(behaviour), color="0.4", linewidth=0.8, label="what made the data")
    axes.plot([], [], "k--", linewidth=0.8, label="not private, same n")
    axes.plot([], [], "ks:", label="copying the most frequent action")
    axes.set(xscale="log", xlabel="ρ", ylabel=_UNITS.get(problem, "total reward"), title=problem)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7)  # inside it would hide what it explains
    return figure


def main() -> None:
    write(read())


if __name__ == "__main__":
    main()
