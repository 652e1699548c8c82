"""Where within their declared bounds the columns of vector states lie, so that a feature map can look there.

Bounds are what is possible, and patients are often in a small part of it: a glucose may be declared up to 1000 and
never pass 400. A map that spreads over the bounds hardly tells such patients apart, and noise drowns what it tells.

**The statistic**: Σ over units of the share of its records in each of B equal parts of each column's bounds. For
replacing one unit, X and Y being the two contributions, whatever the number of its trajectories and steps: the shares
of one column are not negative and add up to 1 at most (a missing value is in no part), so their squares do, and
⟨X, Y⟩ ≥ 0: with C columns ‖X − Y‖₂² ≤ ‖X‖² + ‖Y‖² ≤ 2C. On the grid shares are truncated, which only shortens them.

**What is made of it**, for nothing: for each column the range from the first part to the last whose share stands out of
the noise, and half as much on either side; if that is less than half of the bounds.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import pooled
from discretion.learning.pooled_records import seen_of
from discretion.learning.schemas import FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import Bounded
from discretion.privacy import events

_FEWEST, _MOST = 8, 32  # parts: with fewer, hardly any range could be told from the bounds
_DEAREST: Final = Fraction(1, 10)  # of ρ, that looking may cost at all,
_CHEAP: Final = Fraction(1, 50)  # that it costs at least, and that looking closer may
_APART: Final = 5  # standard deviations of the noise that a part must have of patients if all have alike
_STANDS_OUT: Final = 4.2  # standard deviations: noise alone widens a range in one of a hundred trainings
_SELDOM: Final = 0.005  # of patients' records: where hardly anybody is
_AROUND: Final = 0.5  # of the range, on either side: rare patients are often the ones who matter


def parts(vector: Vector, units: int, rho: Fraction) -> int:
    """Into how many the bounds are cut, a power of two; 1: to tell would cost more than it is worth."""
    if _needed(vector, units, rho, _FEWEST) > _DEAREST:
        return 1
    found = _FEWEST
    while found < _MOST and _needed(vector, units, rho, 2 * found) <= _CHEAP:
        found *= 2
    return found


def share(vector: Vector, units: int, rho: Fraction, parts: int) -> Fraction:
    """Of ρ: what tells so many parts apart, in thousandths."""
    return min(max(Fraction(math.ceil(1000 * _needed(vector, units, rho, parts)), 1000), _CHEAP), _DEAREST)


def _needed(vector: Vector, units: int, rho: Fraction, parts: int) -> Fraction:
    """The share of ρ at which n/parts = _APART·σ, σ² being 2C/(2·share·ρ)."""
    return Fraction((_APART * parts) ** 2 * len(vector.columns), units**2) / rho


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
        seen = seen_of(block, self.schema, 1)
        records = np.maximum(np.bincount(seen.units, minlength=seen.count), 1)
        for column, (low, high) in enumerate(self.vector.bounds):
            values = np.asarray(seen.here[:, column], dtype=np.float64)
            known = np.flatnonzero(~np.isnan(values))
            place = np.floor((values[known] - low) / (high - low) * self.parts)
            place = np.minimum(np.maximum(place, 0.0), self.parts - 1.0).astype(np.int64)
            counts = np.bincount(seen.units[known] * self.parts + place, minlength=seen.count * self.parts)
            shares = counts.reshape(seen.count, self.parts) * pooled.UNIT // records[:, None]
            partial[column] += shares.sum(axis=0)

    def finish(self, partial: IntArray) -> IntArray:
        return partial


def narrowed(features: maps.Blocks, shares: FloatArray, deviation: float, units: int) -> maps.Blocks:  # (C, B)
    """The same map, looking where patients are; a column of which that is half or more is looked at as declared."""
    within = []
    for (low, high), column in zip(features.vector.bounds, shares, strict=True):
        many = len(column)
        first, last = many - _end(column[::-1], deviation, units), _end(column, deviation, units)
        first, last = _around(first, last, many)
        edges = [low + (high - low) * edge / many for edge in (first, last)]
        within.append((edges[0], high if last == many else edges[1]))
    return maps.Blocks(features.vector, features.actions, features.terms, tuple(within))


def _end(column: FloatArray, deviation: float, units: int) -> int:
    """Behind the last part in which patients stand out of the noise, alone or with the next few: a thin tail has few in
    each part and many in all."""
    many = len(column)
    before, start = np.append(0.0, column.cumsum()), np.arange(many)
    found = 0
    for exponent in range(many.bit_length()):
        summed = before[np.minimum(start + 2**exponent, many)] - before[:-1]
        stands = summed > max(_STANDS_OUT * deviation * math.sqrt(2**exponent), _SELDOM * units)
        found = max(found, int(np.flatnonzero(stands).max(initial=-1)) + 1)
    return found


def _around(first: int, last: int, many: int) -> tuple[int, int]:
    """The same with what is around it, in parts."""
    if last <= first:  # nobody was seen
        return 0, many
    more = max(1, math.ceil(_AROUND * (last - first)))
    first, last = max(first - more, 0), min(last + more, many)
    return (first, last) if 2 * (last - first) < many else (0, many)
