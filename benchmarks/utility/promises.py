"""What every row of the study must keep, and every service: copying is the floor, and more budget does not hurt."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.utility import study
from discretion.learning.schemas import FloatArray

Document = dict[str, Any]
FLOOR: Final = 0.005  # how far below copying `auto` may be at ρ = 0.1,
_UNPROMISED: Final = ("shock",)  # where nothing is promised about that: docs/utility.md says what happens
_ERRORS: Final = 3.0  # standard errors of the paired difference that a tenfold ρ may cost,
_RANGE: Final = 0.01  # or this part of what lies between the best known and a random policy
GOAL: Final = f"≥ −{_ERRORS:g} standard errors or −{100 * _RANGE:g} % of the range"


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
    return [f"auto is {short:.4f} below copying at ρ = 0.1"] if short > FLOOR else []


@dataclass(frozen=True)
class Change:
    """What a tenfold ρ changed on the same datasets: the mean, and its standard error."""

    less: float
    more: float
    gained: float
    error: float

    def hurts(self, span: float) -> bool:
        """Whether more was lost than chance explains, and than counts; `span` is what could be gained or lost."""
        return -self.gained > max(_ERRORS * self.error, _RANGE * span)


def changes(each: dict[float, FloatArray]) -> list[Change]:  # by ρ, a value for each dataset
    found = []
    for less, more in itertools.pairwise(sorted(each)):
        gained = each[more] - each[less]
        error = float(gained.std(ddof=1)) / math.sqrt(len(gained)) if len(gained) > 1 else math.inf
        found.append(Change(less, more, float(gained.mean()), error))
    return found


def _hurts(each: Values) -> list[str]:
    known = max(float(values.mean()) for values in each.values())
    span = known - float(each[study.UNIFORM, None].mean())
    found = []
    for method in dict.fromkeys(method for method, rho in each if rho is not None and method.startswith(study.AUTO)):
        by_rho = {rho: each[name, rho] for name, rho in each if name == method and rho is not None}
        found += [
            f"{method} loses {-one.gained:.4f} (±{one.error:.4f}) from ρ = {one.less:g} to {one.more:g}"
            for one in changes(by_rho)
            if one.hurts(span)
        ]
    return found
