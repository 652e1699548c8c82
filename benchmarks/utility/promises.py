"""What every row of the study must keep: copying is the floor, and more budget does not hurt."""

import itertools
import math
from typing import Any, Final

import numpy as np

from benchmarks.utility import study

Document = dict[str, Any]
_FLOOR: Final = 0.005  # how far below copying `auto` may be at ρ = 0.1,
_UNPROMISED: Final = ("shock",)  # where nothing is promised about that: docs/utility.md says what happens
_ERRORS: Final = 3.0  # standard errors of the paired difference that a tenfold ρ may cost,
_RANGE: Final = 0.01  # or this part of what lies between the best known and a random policy


def check(rows: list[Document]) -> list[str]:
    """What does not hold, in words."""
    found = []
    for problem, size in dict.fromkeys((row["problem"], row["size"]) for row in rows):
        each = {
            (row["method"], row["rho"]): np.array(row["each"])
            for row in rows
            if (row["problem"], row["size"]) == (problem, size)
        }
        wrong = [*([] if problem in _UNPROMISED else _below(each)), *_hurts(each)]
        found += [f"{problem} at {size}: {one}" for one in wrong]
    return found


Values = dict[tuple[str, float | None], Any]


def _below(each: Values) -> list[str]:
    auto, mode = each[study.AUTO, 0.1], each[study.MODE, 0.1]
    short = float((mode - auto).mean())
    return [f"auto is {short:.4f} below copying at ρ = 0.1"] if short > _FLOOR else []


def _hurts(each: Values) -> list[str]:
    known = max(float(values.mean()) for values in each.values())
    span = known - float(each[study.UNIFORM, None].mean())
    found = []
    for method in dict.fromkeys(method for method, rho in each if rho is not None and method.startswith(study.AUTO)):
        rhos = sorted(rho for name, rho in each if name == method and rho is not None)
        for less, more in itertools.pairwise(rhos):
            lost = each[method, less] - each[method, more]
            error = float(lost.std(ddof=1)) / math.sqrt(len(lost)) if len(lost) > 1 else math.inf
            if lost.mean() > max(_ERRORS * error, _RANGE * span):
                found.append(f"{method} loses {lost.mean():.4f} (±{error:.4f}) from ρ = {less:g} to {more:g}")
    return found
