"""The tables of what `make evidence` and `make bench` found, made from their files alone."""

import json
from pathlib import Path
from typing import Any, Final

_FILES: Final = Path(__file__).parents[2] / "benchmarks" / "evidence"
_EPISODES: Final = {5: "K = 5", 30: "30", 100: "100", 300: "300", 1000: "1000", 10_000: "10⁴", 100_000: "10⁵"}
_CALIBRATIONS: Final = ("paper", "tight")
_RHOS: Final = {"1": "1", "10": "10", "100": "100", "10000": "10⁴"}

Lines = list[list[str]]


def _read(name: str) -> Any:
    return json.loads((_FILES / f"{name}.json").read_text(encoding="utf-8"))


def simulated() -> Lines:
    """Mean sub-optimality by K: what is not private once, then both calibrations by ρ."""
    found = {
        (calibration, row["algorithm"], row["rho"], row["episodes"]): row["mean"]
        for calibration in _CALIBRATIONS
        for row in _read("simulation")[calibration]["suboptimality"]
    }
    told = [("paper", "pevi", "", "PEVI, not private"), ("paper", "vapvi", "", "VAPVI, not private")]
    for calibration in _CALIBRATIONS:
        told += [(calibration, "dp-vapvi", rho, f"DP-VAPVI, `{calibration}` calibration") for rho in _RHOS]
    lines = [["", "ρ", *_EPISODES.values()]]
    for calibration, algorithm, rho, name in told:
        means = [_short(found[calibration, algorithm, rho, episodes]) for episodes in _EPISODES]
        lines.append([name if rho in ("", "1") else "", _RHOS.get(rho, "–"), *means])
    return lines


def _short(mean: float) -> str:
    return f"{mean:.2f}" if mean >= 1 else f"{mean:.3f}"


def attacked() -> Lines:
    """Each statistic at the δ that shows most, with its own noise and with noise for half its sensitivity."""
    lines = [["statistic", "δ", "ε claimed", "ε shown", "shown, half the noise"]]
    rows = _read("attack")["statistics"]
    controls = {row["name"]: row for row in rows if row["halved"]}
    for row in rows:
        if not row["halved"]:
            best = max(row["bounds"], key=lambda bound: float(bound["found"] / bound["claimed"]))
            control = max(controls[row["name"]]["bounds"], key=lambda bound: float(bound["found"] / bound["claimed"]))
            shown = f"{control['found']:.2f}, claimed {control['claimed']:.2f}"
            lines.append([row["name"], f"{best['delta']:g}", f"{best['claimed']:.2f}", f"{best['found']:.2f}", shown])
    return lines


def held() -> Lines:
    """What the worst pair of neighbours used of each learner's claim, along its transcript and of one statistic."""
    lines = [["learner and mode", "pairs", "worst of the whole claim", "worst of one statistic's"]]
    for row in _read("neighbours"):
        one = max(row["worst_share_of_each"].values())
        pairs = f"{row['pairs']:,}".replace(",", " ")
        lines.append([row["learner"], pairs, f"{row['worst_share_of_claim']:.3f}", f"{one:.3f}"])
    return lines


def measured() -> Lines:
    """Speed and memory, each beside its peer."""
    found = json.loads((_FILES.parent / "results.json").read_text(encoding="utf-8"))
    lines = [["task", "ours", "peer", "ratio", "goal"]]
    for row in found:
        ours, theirs = (_figure(row[name], row["unit"]) for name in ("value", "peer_value"))
        goal = row["goal"].replace("<=", "≤")
        lines.append([row["name"], ours, f"{row['peer']}, {theirs}", f"{row['ratio']:.2g}", goal])
    return lines


def _figure(value: float, unit: str) -> str:
    shown = f"{value:.3g}" if value < 1000 else f"{value:,.0f}".replace(",", " ")
    return f"{shown} {unit}" if unit != "exponent" else shown
