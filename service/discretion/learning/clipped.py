"""Sums over patients whose own contribution was cut to a fixed length, each beside its sensitivity.

What one unit adds to a table of discrete cells is first added up over all its trajectories to one vector b, divided by
a *radius* C that is public or was released before, and shortened to clip₁(b/C) = b/C · min(1, C/‖b‖). A stay's worst
case is many times longer than nearly every stay, so little is cut and the noise falls by that factor.

For replacing one unit, v and v′ being its two shortened vectors, ‖v‖ ≤ 1 and ‖v′‖ ≤ 1 whatever was recorded, however
many trajectories there are, and whatever the radius is:

* signed vectors: ‖v − v′‖ ≤ ‖v‖ + ‖v′‖ ≤ 2, squared 4;
* vectors without negative entries: ⟨v, v′⟩ ≥ 0, so ‖v − v′‖² = ‖v‖² − 2⟨v, v′⟩ + ‖v′‖² ≤ 2;
* histograms: a unit counts in at most one bin, so v is zero or one 1, and again ‖v − v′‖² ≤ 2;
* several averages, each in [0, 1]: every coordinate moves by at most 1, so ‖v − v′‖² ≤ their number.

The bounds hold of the integers that are summed: each record becomes an integer, truncated toward zero; a unit's vector
is added up exactly; shortened and truncated again, so that no coordinate grows; and then its squared norm, an integer
below 2⁵³, is compared with 2³² exactly, and what is still too long is made shorter until it fits.

A unit's vector is a function of its own records and of released numbers, bit for bit: records are looked up and
combined elementwise, and what is summed in floating point is summed over one unit, in the order of its cells.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from discretion import errors
from discretion.learning import rewards, sums, walks
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import EVERY, Bounded
from discretion.privacy import events

BITS: Final = 16
ONE: Final = 1 << BITS  # steps of the grid in one radius
# Lengths are told apart from 2⁻¹⁴ to 2¹² of the unit they are measured in.
SHORTEST: Final = -14
LONGEST: Final = 12
PER_OCTAVE: Final = 4
EDGES: Final = sums.geometric(SHORTEST, LONGEST, PER_OCTAVE)
SIZED: Final = 1 << 18  # patients whose lengths are looked at
_LARGEST: Final = 2.0**100  # of a released number: nothing overflows below it
_MOST: Final = 1 << 10  # radii that one record may add; 2¹⁰ · 2¹⁶ · 10⁸ records of a unit stay below 2⁵³


@dataclass(frozen=True, eq=False, repr=False)
class _Columns:
    """What units add before shortening that are one trajectory each: its column has an entry where it first was in a
    cell, else zero."""

    cells: walks.Cells  # (H, B); of entries that are zero, any
    sums: FloatArray  # (H, B) integers
    anywhere: BoolArray  # (B,)

    @property
    def norms(self) -> FloatArray:  # (units,)
        return np.sqrt(sums.squared_columns(self.sums))[self.anywhere]

    def shortened(self, size: int) -> IntArray:  # (size,)
        """Added up, every unit's vector at most 2¹⁶ long."""
        weights = sums.shortened_columns(self.sums, ONE).ravel()
        return np.bincount(self.cells.ravel(), weights=weights, minlength=size)[:size].astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class _Entries:
    """The same of units with any number of trajectories: one entry for each unit and cell."""

    owners: IntArray  # (E,) a number for each unit
    cells: IntArray  # (E,) in an order of the unit's own
    sums: FloatArray  # (E,) integers

    @property
    def norms(self) -> FloatArray:
        return np.sqrt(np.bincount(self.owners, weights=self.sums * self.sums))

    def shortened(self, size: int) -> IntArray:
        weights = sums.shortened(self.sums, self.owners, ONE)
        return np.bincount(self.cells, weights=weights, minlength=size).astype(np.int64)


_Vectors = _Columns | _Entries


def _vectors(block: Bounded, cells: walks.Cells, values: FloatArray, size: int) -> _Vectors:  # (H, B) each
    """What a unit has in one cell, added up; the cell `size` is none. Integers below 2⁵³ add up exactly in float64, in
    any order. Where a unit is one trajectory its steps are compared, which is faster than sorting. `values` is ours."""
    if block.schema.per_unit > 1:
        return _entries(block, cells, values, size)
    nowhere = cells == size
    np.copyto(values, 0.0, where=nowhere)
    walks.merge(cells, values)
    return _Columns(cells, values, ~nowhere.all(axis=0))


def _entries(block: Bounded, cells: walks.Cells, values: FloatArray, size: int) -> _Entries:
    place = np.flatnonzero((cells != size).ravel())
    positions = block.positions[place % cells.shape[1]]
    keys, inverse = np.unique(positions * size + cells.ravel()[place], return_inverse=True)
    owners = np.unique(keys // size, return_inverse=True)[1]
    sums: FloatArray = np.bincount(inverse, weights=values.ravel()[place], minlength=len(keys)).astype(np.float64)
    return _Entries(owners, keys % size, sums)


def _integers(values: FloatArray, radius: float) -> FloatArray:
    """Records on the grid, in units of the radius."""
    return sums.whole(values * (ONE / radius), _MOST * ONE)


def _finite(values: FloatArray) -> FloatArray:
    """A learner's number may be none; what is summed must be one."""
    return np.clip(np.nan_to_num(values), -_LARGEST, _LARGEST)


def _states(block: Bounded, cells: walks.Cells) -> walks.Cells:  # (H, B)
    """The states of cells; nowhere is the number of states."""
    return cells // block.schema.actions


def _paid(block: Bounded, reward: rewards.Known | None) -> FloatArray:  # (H, B)
    """r / width, so that the end earns 0: recorded, or looked up in a public table."""
    schema = block.schema
    if reward is None:
        return block.rewards(EVERY) - schema.idle
    if reward.table.ndim == 1:
        return (np.asarray(reward.on_arrival(schema)) - schema.idle).take(walks.following(block).states)
    return (np.append(np.asarray(reward.at(schema, 0)), 0.0) - schema.idle).take(walks.cells(block))


def _check(radius: float) -> None:
    if not 1 / _LARGEST <= radius <= _LARGEST:
        raise errors.InvalidParameter("The length that patients' sums are cut to must be a positive number.")


@dataclass(frozen=True, eq=False)
class _Clipped(ABC):
    """What the shortened sums share. A number of the answer counts radii."""

    schema: Schema

    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None
    resolution = Fraction(1, ONE)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count, self.schema.actions)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def largest(self, units: int) -> int:
        return units * ONE

    def partial(self) -> IntArray:
        return np.zeros(self.size, dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial.reshape(self.shape)

    @abstractmethod
    def vectors(self, block: Bounded) -> _Vectors: ...

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        partial += self.vectors(block).shortened(len(partial))


@dataclass(frozen=True, eq=False)
class Coverage(_Clipped):
    """Which (s, a) a unit ever went through: a 1 for each, the vector shortened to length 1. None is negative."""

    squared_sensitivity = Fraction(2)
    rewarded = False
    name = "states and actions that each patient went through, every patient cut to length 1"

    def vectors(self, block: Bounded) -> _Vectors:
        cells = walks.cells(block)
        visited = _vectors(block, cells, np.ones(cells.shape), self.size)
        return replace(visited, sums=np.minimum(visited.sums, 1.0) * ONE)


@dataclass(frozen=True, eq=False)
class Returns(_Clipped):
    """Σ over the visits of s of what was earned from there on, discounted, minus a centre. Either sign."""

    discount: float
    centre: float
    radius: float
    reward: rewards.Known | None = None

    squared_sensitivity = Fraction(4)
    name = "earnings from each state on compared with the average, every patient cut to a set length"

    def __post_init__(self) -> None:
        _check(self.radius)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count,)

    def vectors(self, block: Bounded) -> _Vectors:
        earned = _earned(block, self.discount, self.reward)
        values = _integers(earned - _finite(np.asarray(self.centre)), self.radius)
        return _vectors(block, _states(block, walks.cells(block)), values, self.size)


def _earned(block: Bounded, discount: float, reward: rewards.Known | None) -> FloatArray:  # (H, B)
    """What each trajectory earned from each step on, discounted; one trajectory at a time, elementwise."""
    paid = np.where(walks.cells(block) == walks.nowhere(block.schema), 0.0, _paid(block, reward))
    for step in reversed(range(len(paid) - 1)):
        paid[step] += discount * paid[step + 1]
    return paid


@dataclass(frozen=True, eq=False)
class Surprises(_Clipped):
    """Σ over the visits of (s, a) of r + γV(s′) − V(s), V being released before; without r, of γV(s′) − V(s).

    Within one trajectory these are nearly uncorrelated and add up to the outcome minus V(s₀): a short vector. A visit
    whose successor nobody recorded says nothing and is left out. Either sign.
    """

    discount: float
    values: FloatArray  # (S,)
    radius: float
    rewarded: bool = True
    reward: rewards.Known | None = None

    squared_sensitivity = Fraction(4)

    def __post_init__(self) -> None:
        _check(self.radius)
        if self.values.shape != (self.schema.count,):
            raise errors.InvalidParameter("The values handed to the curator do not fit the states.")

    @property
    def name(self) -> str:
        what = "earnings and changes of value" if self.rewarded else "changes of a value's improvement"
        return f"{what} after each state and action, every patient cut to a set length"

    def vectors(self, block: Bounded) -> _Vectors:
        cells = walks.known(block)
        values = np.append(_finite(self.values), 0.0)  # the end earns nothing
        surprises = (self.discount * values).take(walks.following(block).states)
        surprises -= values.take(_states(block, cells))
        if self.rewarded:
            surprises += _paid(block, self.reward)
        return _vectors(block, cells, _integers(surprises, self.radius), self.size)


@dataclass(frozen=True, eq=False)
class Lengths:
    """How long the units' vectors are before they are cut, in units of their radius: a histogram with geometric bins.

    Bin 0 is for lengths up to 2⁻¹⁴, the last for those beyond 2¹². Of very many units the first are enough, whose
    positions are random: a unit beyond them counts in no bin.
    """

    of: Returns | Surprises

    reach = SIZED

    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None
    resolution = Fraction(1)
    squared_sensitivity = Fraction(2)

    @property
    def schema(self) -> Schema:
        return self.of.schema

    @property
    def name(self) -> str:
        return f"how many of at most {SIZED} patients have how large {self.of.name.partition(',')[0]}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(EDGES) + 1,)

    def largest(self, units: int) -> int:
        return units

    def partial(self) -> IntArray:
        return np.zeros(self.shape, dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        sizes = self.of.vectors(block).norms / ONE
        partial += np.bincount(np.searchsorted(EDGES, sizes), minlength=len(partial))


@dataclass(frozen=True, eq=False)
class EarningsAndSteps:
    """Two numbers of each unit in [0, 1]: its mean earnings from a visit on, within a public range, and its visits."""

    schema: Schema
    discount: float
    low: float
    high: float
    reward: rewards.Known | None = None

    name = "average earnings from a step on, and number of steps, of each patient"
    shape = (2,)
    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None
    resolution = Fraction(1, ONE)
    squared_sensitivity = Fraction(2)

    def largest(self, units: int) -> int:
        return units * ONE

    def partial(self) -> IntArray:
        return np.zeros(2, dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        share = (_earned(block, self.discount, self.reward) - self.low) / (self.high - self.low)
        counts = walks.cells(block) != walks.nowhere(self.schema)
        whole = np.maximum(sums.whole(share * ONE, ONE), 0.0)
        np.copyto(whole, 0.0, where=~counts)
        visits, total = counts.sum(axis=0), whole.sum(axis=0)
        if self.schema.per_unit > 1:
            owners = np.unique(block.positions, return_inverse=True)[1]
            visits, total = (np.bincount(owners, weights=each) for each in (visits, total))
        visits = visits.astype(np.int64)
        partial[0] += int((total // np.maximum(visits, 1)).sum())
        partial[1] += int((visits * ONE // (self.schema.horizon * self.schema.per_unit)).sum())
