"""What is public about a dataset, declared before anything is read: states, actions, steps, rewards, and their limits.

The *unit* of privacy is one patient, with at most `per_unit` trajectories. Nothing of a schema is ever read off the
data.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discretion import errors

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
AnyIntArray = NDArray[np.integer]

MAX_HORIZON: Final = 10_000
MAX_STATES: Final = 10_000_000
MAX_ACTIONS: Final = 100_000
MAX_COLUMNS: Final = 1_000
MAX_UNITS: Final = 10**10
MAX_PER_UNIT: Final = 10_000
MAX_BOUND: Final = 1e100

_MOST_REWARDS: Final = 1e9  # that a total may be worth; there are at most MAX_HORIZON

_ROUNDED: Final = 1e30  # bounds of rewards up to which float32 has all its digits

CONSTANT: Final = "1"  # the term of a feature map that is always 1


def is_finite(value: object) -> bool:
    """Whether this is a number that float64 can hold; integers of any length may come from JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _whole(value: object, name: str, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise errors.InvalidSchema(f"{name} must be a whole number from {low} to {high}, not {value!r}.")


def _interval(bounds: tuple[float, float], name: str) -> None:
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not pair or not all(map(is_finite, bounds)) or not float(bounds[0]) < float(bounds[1]):
        raise errors.InvalidSchema(f"{name} must be two finite numbers, the lower first.")
    if max(map(abs, bounds)) > MAX_BOUND:
        raise errors.InvalidSchema(f"{name} is too wide to compute with; scale it to at most {MAX_BOUND:g}.")


@dataclass(frozen=True)
class Discrete:
    """States 0 … count−1."""

    count: int

    def __post_init__(self) -> None:
        _whole(self.count, "The number of states", 1, MAX_STATES)


@dataclass(frozen=True)
class Vector:
    """States that are vectors of named, bounded numbers; those of the columns in `missing` may be missing (NaN)."""

    columns: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not isinstance(self.bounds, tuple):
            raise errors.InvalidSchema("State columns and their bounds must be given as tuples.")
        _whole(len(self.columns), "The number of state columns", 1, MAX_COLUMNS)
        if len(set(self.columns)) != len(self.columns) or not all(isinstance(c, str) and c for c in self.columns):
            raise errors.InvalidSchema("State columns need names, each of them once.")
        if CONSTANT in self.columns:
            raise errors.InvalidSchema(f"No state column can be named {CONSTANT!r}: that stands for the constant.")
        if len(self.bounds) != len(self.columns):
            raise errors.InvalidSchema(
                f"{len(self.columns)} state columns need as many bounds, not {len(self.bounds)}."
            )
        for column, bounds in zip(self.columns, self.bounds, strict=True):
            _interval(bounds, f"The bounds of state column {column!r}")
        named = isinstance(self.missing, tuple) and all(column in self.columns for column in self.missing)
        if not named or len(set(self.missing)) != len(self.missing):
            raise errors.InvalidSchema("Columns that may be missing must be state columns, each of them once.")
        if len(self.missing) == len(self.columns):
            raise errors.InvalidSchema("At least one state column must always have a value, or no state is known.")
        # Whole numbers beyond 2⁵³ would be compared exactly and computed with otherwise.
        object.__setattr__(self, "bounds", tuple((float(low), float(high)) for low, high in self.bounds))

    @cached_property
    def low(self) -> FloatArray:
        return np.array([b[0] for b in self.bounds], dtype=np.float64)

    @cached_property
    def high(self) -> FloatArray:
        return np.array([b[1] for b in self.bounds], dtype=np.float64)

    @cached_property
    def complete(self) -> BoolArray:
        """Which columns must have a value for a record to count."""
        return np.array([column not in self.missing for column in self.columns], dtype=np.bool_)


@dataclass(frozen=True)
class Schema:
    """What is public about a dataset besides its number of units."""

    horizon: int
    states: Discrete | Vector
    actions: int
    reward: tuple[float, float] = (0.0, 1.0)
    total: tuple[float, float] | None = None  # a public bound on a trajectory's total reward
    per_unit: int = 1  # m, the most trajectories one unit may have
    outcome: bool = False  # a trajectory earns once, in its last record

    def __post_init__(self) -> None:
        _whole(self.horizon, "The horizon", 1, MAX_HORIZON)
        if not isinstance(self.states, Discrete | Vector):
            raise errors.InvalidSchema("The states must be declared as Discrete or Vector.")
        _whole(self.actions, "The number of actions", 1, MAX_ACTIONS)
        _whole(self.per_unit, "The most trajectories of a unit", 1, MAX_PER_UNIT)
        _interval(self.reward, "The reward range")
        if self.width < 1 / MAX_BOUND:
            raise errors.InvalidSchema(
                f"The reward range is too narrow to compute with; scale it above {1 / MAX_BOUND:g}."
            )
        if self.total is not None:
            _interval(self.total, "The range of a trajectory's total reward")
            if not self.total[0] <= 0.0 <= self.total[1]:
                raise errors.InvalidSchema("The range of a trajectory's total reward must contain 0, where it starts.")
            if max(map(abs, self.total)) / self.width > _MOST_REWARDS:
                raise errors.InvalidSchema(
                    "The range of a trajectory's total reward is far wider than all its rewards."
                )

    @property
    def low(self) -> float:
        return min(float(self.reward[0]), 0.0)

    @property
    def width(self) -> float:
        return max(float(self.reward[1]), 0.0) - self.low

    @property
    def idle(self) -> float:
        """The scaled reward of a step after the end, where r = 0."""
        return -self.low / self.width

    def rounded(self, rewards: NDArray[np.generic]) -> NDArray[np.floating[Any]]:
        """Rewards with the digits of float32, which keeps them in half the bytes: each moves by at most 2⁻²⁴ of the
        range, which contains 0, and is a function of itself alone. Rounded again they are the same. The widest and the
        narrowest ranges that may be declared, for which float32 has no numbers, keep all digits."""
        fits = self.width >= 1 / _ROUNDED and max(-self.low, self.low + self.width) <= _ROUNDED
        with np.errstate(over="ignore"):  # a warning would be a message about a record
            return np.asarray(rewards).astype(np.float32 if fits else np.float64, copy=False)

    def scaled(self, reward: FloatArray) -> FloatArray:
        return (reward - self.low) / self.width

    @property
    def count(self) -> int:
        """The number of discrete states."""
        if isinstance(self.states, Discrete):
            return self.states.count
        raise errors.InvalidParameter("Counting needs discrete states; bin the columns of a vector state first.")


def check_units(units: int) -> None:
    _whole(units, "The number of units", 1, MAX_UNITS)
