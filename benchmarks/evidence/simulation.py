"""How much of the paper's simulation reproduces: mean sub-optimality by K and ρ, both calibrations, on fresh noise."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discretion import figures, simulation
from discretion.privacy.rho import Rho

FOLDER = Path(__file__).parent
FIGURES = FOLDER.parents[1] / "docs" / "figures"
RHOS = ("1", "10", "100", "10000")


def run(sample: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for calibration in ("paper", "tight"):
        design = simulation.Design(
            episodes=(100, 1000) if sample else (5, 10, 30, 100, 300, 1000, 10_000, 100_000),
            rhos=tuple(map(Rho.parse, (RHOS[0], RHOS[-1]) if sample else RHOS)),
            instances=2 if sample else 10,
            repetitions=1 if sample else 3,
            calibration=calibration,
        )
        rows = list(simulation.run(design))
        result[calibration] = {"design": _design(design), "suboptimality": _table(rows)}
        if not sample:
            _draw(rows, calibration)
    if not sample:
        text = json.dumps(result, indent=1, ensure_ascii=False)
        (FOLDER / "simulation.json").write_text(text + "\n", encoding="utf-8")
    return result


def _design(design: simulation.Design) -> dict[str, int]:
    return {"instances": design.instances, "repetitions": design.repetitions}


def _table(rows: Sequence[simulation.Row]) -> list[dict[str, Any]]:
    """Means with standard errors over instances; repetitions of one instance are not independent of each other."""
    groups: dict[tuple[str, str, int], dict[int, list[float]]] = {}
    for row in rows:
        cell = groups.setdefault((row.algorithm, row.rho, row.episodes), {})
        cell.setdefault(row.instance, []).append(row.suboptimality)
    return [
        {
            "algorithm": algorithm,
            "rho": rho,
            "episodes": episodes,
            "mean": round(float(np.mean(means)), 4),
            "standard_error": round(float(np.std(means, ddof=1) / np.sqrt(len(means))), 4),
        }
        for (algorithm, rho, episodes), cell in groups.items()
        if (means := [np.mean(gaps) for gaps in cell.values()])
    ]


def _draw(rows: Sequence[simulation.Row], calibration: str) -> None:
    folder = FIGURES / calibration
    folder.mkdir(parents=True, exist_ok=True)
    figures.draw(rows, calibration, folder)
