"""What every row of the study must keep, and every service: copying is the floor, and more budget does not hurt.

Both are about means over datasets. A single run may be worth less than copying: how many are, the page says.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.utility import study
from discretion.learning.schemas import FloatArray

Document = dict[str, Any]
FLOOR: Final = 0.005  # how far below copying `auto` may be at ρ = 0.1, on average,
_UNPROMISED: Final = ("shock",)  # where nothing is promised about that: docs/utility.md says what happens
_ERRORS: Final = 3.0  # standard errors of the paired difference that a tenfold ρ may cost,
_RANGE: Final = 0.01  # or this part, whichever is more, of what lies between the best known and a random policy
GOAL: Final = f"≥ −{_ERRORS:g} standard errors or −{100 * _RANGE:g} % of the range"  # the lower of the two


Values = dict[tuple[str, float | None], Any]


def check(rows: list[Document]) -> list[str]:
    """What does not hold, in words."""
    found = []
    for problem, size, each in _cells(rows):
        lost = [_told(method, one) for method, one, span in _changed(each) if one.hurts(span)]
        wrong = [*([] if problem in _UNPROMISED else _below(each)), *lost]
        found += [f"{problem} at {size}: {one}" for one in wrong]
    return found


def strictly(rows: list[Document]) -> list[str]:
    """Losses that would not hold either if passing one of the two limits were enough."""
    return [
        f"{problem} at {size}: {_told(method, one)}"
        for problem, size, each in _cells(rows)
        for method, one, span in _changed(each)
        if one.passes_one(span)
    ]


def _cells(rows: list[Document]) -> Iterator[tuple[str, int, Values]]:
    for problem, size in dict.fromkeys((row["problem"], row["size"]) for row in rows):
        here = [row for row in rows if (row["problem"], row["size"]) == (problem, size)]
        yield problem, size, {(row["method"], row["rho"]): np.array(row["each"]) for row in here}


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
        """Whether more was lost than chance explains, and than counts; `span` is what could be gained or lost. Both are
        needed: of many steps some lose a hundredth by chance, and where all runs are alike three errors are nothing."""
        return -self.gained > max(_ERRORS * self.error, _RANGE * span)

    def passes_one(self, span: float) -> bool:
        """Whether more was lost than chance explains, or than counts."""
        return -self.gained > min(_ERRORS * self.error, _RANGE * span)


def changes(each: dict[float, FloatArray]) -> list[Change]:  # by ρ, a value for each dataset
    found = []
    for less, more in itertools.pairwise(sorted(each)):
        gained = each[more] - each[less]
        error = float(gained.std(ddof=1)) / math.sqrt(len(gained)) if len(gained) > 1 else math.inf
        found.append(Change(less, more, float(gained.mean()), error))
    return found


def _changed(each: Values) -> Iterator[tuple[str, Change, float]]:
    """Every step of ρ of each way to run `auto`, and what lies between a random policy and the best known."""
    known = max(float(values.mean()) for values in each.values())
    span = known - float(each[study.UNIFORM, None].mean())
    for method in dict.fromkeys(method for method, rho in each if rho is not None and method.startswith(study.AUTO)):
        by_rho = {rho: each[name, rho] for name, rho in each if name == method and rho is not None}
        yield from ((method, one, span) for one in changes(by_rho))


def _told(method: str, one: Change) -> str:
    return f"{method} loses {-one.gained:.4f} (±{one.error:.4f}) from ρ = {one.less:g} to {one.more:g}"
