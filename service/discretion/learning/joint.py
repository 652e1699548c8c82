"""Gram matrix and moment of the same records in one release, and how many trajectories ended.

For replacing one unit of at most m trajectories, X and Y being the two contributions:

* Σφ(φ, αy)ᵀ of one step, with ‖φ‖ ≤ 1 and |y| ≤ 1: ‖X − Y‖_F² ≤ m²(2 + α²)²/2 if α² ≤ 2, else 4m²α². No patient moves
  the Gram matrix and the moment furthest at the same time, so together they cost less than apart, by up to a quarter.
* endings: a trajectory ends once at most, |X − Y| ≤ m.

Proof of the first, for one record each, with lengths a, b ≤ 1, c = ⟨φ, φ′⟩ and |c| ≤ ab. The squared distance is
a⁴ + b⁴ − 2c² + α²(y²a² + y′²b² − 2yy′c) ≤ a⁴ + b⁴ − 2c² + α²(a² + b² + 2|c|). It grows with a and with b; at a = b = 1
it is 2(1 − c²) + 2α²(1 + |c|), greatest at |c| = α²/2, or at 1 if that is more. A record that is missing has a = 0. For
m trajectories, X − Y is a sum of m such differences, and no longer than m times the longest.

In terms of what the two would cost apart, A = 1/σ² for the Gram matrix and B = 2α²/σ² for the moment, σ² being the
variance of the noise: together they cost (A + B/4)²/A if B ≤ 4A, else B. The Gram matrix is released with noise in each
of its p² entries; a learner that averages it with its transpose has the same noise as a `symmetric-gaussian` release.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discretion import errors
from discretion.learning import features as maps
from discretion.learning.regressions import GRID, LARGEST_TARGET, Regressed, Seen, check_fit, on_target_grid
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded
from discretion.learning.values import TableValue
from discretion.privacy import events


@dataclass(frozen=True, eq=False)
class Joint(Regressed):
    """Σ φ(φ, αy)ᵀ/σ̃² of one step over a finite map: a (p, p) Gram matrix and a moment in the last column of each group.

    y = share·x + V(s′), cut to [−1, 1]. A learner divides both by the range that it has released before: then the
    sensitivity is the same number whatever that range is.
    """

    weight: int = maps.ONE  # α in steps of the grid
    label: str = "next value"
    share: float = 0.0  # of the reward
    value: TableValue | None = None

    symmetric = False
    absolute_sensitivity = None
    resolution = GRID**2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fit(not isinstance(self.features, maps.Blocks), "joint release")
        check_fit(self.value is None or self.value.values.shape == (self._cells[0] + 1,), "value")
        if not 0 < self.weight <= LARGEST_TARGET:
            raise errors.InvalidParameter("The shares of Gram matrices and targets are too far apart.")

    @property
    def name(self) -> str:
        return f"features times themselves and times {self.label}, step {self.step + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.features.groups, self.features.width, self.features.width + 1)

    @property
    def squared_sensitivity(self) -> Fraction:
        square = Fraction(self.weight, maps.ONE) ** 2
        return self.schema.per_unit**2 * ((2 + square) ** 2 / 2 if square <= 2 else 4 * square)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit * maps.ONE * max(maps.ONE, self.weight)

    def partial(self) -> IntArray:
        return np.zeros((2, self._cells[0] * self._cells[1]), dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen = self._seen(block, units)
        partial[0] += np.bincount(seen.cells, minlength=partial.shape[1])
        targets = np.bincount(seen.cells, weights=self._target(seen), minlength=partial.shape[1])
        partial[1] += targets.astype(np.int64)

    def _target(self, seen: Seen) -> FloatArray:  # (R,) integers
        records, target = seen.records, self.share * seen.records.rewards
        if self.value is not None:
            target = target + self._looked_up(records, self.value)
        return on_target_grid(target, seen.deviation, 1, self.weight)

    def finish(self, partial: IntArray) -> IntArray:
        gram, moment = self._finite_gram(partial[0]), self._finite_moment(partial[1])
        return np.concatenate([gram, moment[..., None]], axis=-1)


@dataclass(frozen=True, eq=False)
class Endings:
    """How many trajectories ended by themselves before the horizon, one number."""

    schema: Schema

    name = "trajectories that ended before the horizon"
    shape = (1,)
    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None  # it is asked beside releases that need zCDP
    resolution = Fraction(1)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(self.schema.per_unit**2)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit

    def partial(self) -> IntArray:
        return np.zeros(1, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for step in range(self.schema.horizon - 1):
            partial += np.count_nonzero(block.records(step).ended)

    def finish(self, partial: IntArray) -> IntArray:
        return partial
