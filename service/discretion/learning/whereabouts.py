"""Where within their declared bounds the columns of vector states lie, so that a feature map can look there.

Bounds are what is possible, and patients are often in a small part of it: a glucose may be declared up to 1000 and
never pass 400. A map that spreads over the bounds hardly tells such patients apart, and noise drowns what it tells.

**The statistic**: Σ over units of the share of its records in each of B equal parts of each column's bounds. For
replacing one unit, X and Y being the two contributions, whatever the number of its trajectories and steps: the shares
of one column are not negative and add up to 1 at most (a missing value is in no part), so their squares do, and
⟨X, Y⟩ ≥ 0: with C columns ‖X − Y‖₂² ≤ ‖X‖² + ‖Y‖² ≤ 2C. On the grid shares are truncated, which only shortens them.

**What is made of it**, for nothing: for each column the range from the first part to the last whose share stands out of
the noise, and a part more on either side.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import pooled
from discretion.learning.trajectories import Bounded, FloatArray, IntArray, Schema, Vector
from discretion.privacy import events

SHARE: Final = Fraction(1, 10)  # of ρ
_MOST: Final = 32  # parts
_FEWEST: Final = 4  # of which the range could not be told from the bounds
_APART: Final = 5  # standard deviations of the noise that a part must have of patients if all have alike
_STANDS_OUT: Final = 4.0  # standard deviations of the noise: a far part that only noise fills widens the range by a lot
_SELDOM: Final = 0.005  # of patients' records: where hardly anybody is


def parts(vector: Vector, units: int, rho: Fraction) -> int:
    """Into how many the bounds are cut, a power of two; 1: too few patients to tell."""
    most = units**2 * 2 * SHARE * rho / (2 * len(vector.columns)) / Fraction(_APART) ** 2  # (n/5σ)²
    found = 1
    while found < _MOST and (2 * found) ** 2 <= most:
        found *= 2
    return found if found >= _FEWEST else 1


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """Σ over units of the share of its records in each part of each column's bounds."""

    schema: Schema
    parts: int

    name = "share of a patient's values in each part of their bounds"
    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None
    resolution = Fraction(1, pooled.UNIT)

    @property
    def vector(self) -> Vector:
        assert isinstance(self.schema.states, Vector)
        return self.schema.states

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.vector.columns), self.parts)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(2 * len(self.vector.columns))

    def largest(self, units: int) -> int:
        return units * pooled.UNIT

    def partial(self) -> IntArray:
        return np.zeros(self.shape, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen = pooled.seen_of(block, self.schema, 1)
        records = np.maximum(np.bincount(seen.units, minlength=seen.count), 1)
        for column, (low, high) in enumerate(self.vector.bounds):
            values = np.asarray(seen.states[:, column], dtype=np.float64)
            known = np.flatnonzero(~np.isnan(values))
            place = np.floor((values[known] - low) / (high - low) * self.parts)
            place = np.minimum(np.maximum(place, 0.0), self.parts - 1.0).astype(np.int64)
            counts = np.bincount(seen.units[known] * self.parts + place, minlength=seen.count * self.parts)
            shares = counts.reshape(seen.count, self.parts) * pooled.UNIT // records[:, None]
            partial[column] += shares.sum(axis=0)

    def finish(self, partial: IntArray) -> IntArray:
        return partial


def narrowed(features: maps.Blocks, shares: FloatArray, deviation: float, units: int) -> maps.Blocks:  # (C, B)
    """The same map, looking where patients are."""
    least = max(_STANDS_OUT * deviation, _SELDOM * units)
    within = []
    for (low, high), column in zip(features.vector.bounds, shares, strict=True):
        found = np.flatnonzero(column > least)
        many = len(column)
        first, last = (max(found[0] - 1, 0), min(found[-1] + 2, many)) if len(found) else (0, many)
        width = high - low
        within.append((low + width * int(first) / many, high if last == many else low + width * int(last) / many))
    return maps.Blocks(features.vector, features.actions, features.terms, tuple(within))
