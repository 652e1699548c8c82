"""Counts of visits, transitions and rewards of discrete states, each beside its sensitivity.

For replacing one unit of at most m trajectories with H steps, b and b′ being the two contributions:

* counts: at each step one trajectory adds 1 to one cell, so ‖b − b′‖₂² ≤ 2m² and ‖b − b′‖₁ ≤ 2m a step. First-visit
  counts add at most H ones to different cells: the same totals over all steps.
* centred reward sums: at each step one trajectory adds x − ½ in [−½, ½] to one cell. In the same cell the two differ
  by at most 1; in two cells by ½ each, ¼ + ¼ < 1 squared. So ≤ m² a step (and m in ℓ1): half of what x ∈ [0, 1] costs.
  First visits: at most H cells each, a shared cell differs by at most 1 and an unshared one by ½, so ≤ H·m² again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from discretion.learning import features as maps
from discretion.learning.trajectories import Bounded, FloatArray, IntArray, Schema
from discretion.privacy import events

Dynamics = Literal["per_step", "stationary"]


@dataclass(frozen=True, eq=False, repr=False)
class _Visits:
    """Visits to be counted in one table: cell (state, action), scaled reward, and successor or the end."""

    cells: IntArray
    rewards: FloatArray
    successors: IntArray


def _step_visits(schema: Schema, block: Bounded, step: int, known_only: bool) -> tuple[_Visits, IntArray]:
    records = block.records(step)
    if known_only:
        records = records.only(records.known)
    cells = records.states.astype(np.int64) * schema.actions + records.actions
    successors = np.where(records.known, records.successors, schema.count).astype(np.int64)
    return _Visits(cells, records.rewards, successors), records.rows


def _visits_per_step(schema: Schema, block: Bounded) -> Iterator[_Visits]:
    """A visit whose successor nobody recorded counts in no table. At the horizon that would lose every visit although
    nothing after it matters: there an unknown successor is taken as the end, whose value is zero like everyone's."""
    for step in range(schema.horizon):
        yield _step_visits(schema, block, step, known_only=step + 1 < schema.horizon)[0]


def _first_visits(schema: Schema, block: Bounded) -> Iterator[_Visits]:
    """Each (s, a) at most once a trajectory, with its one successor; one without successor is left out, since pooled
    over steps the horizon is not like everyone's end."""
    steps = [_step_visits(schema, block, step, known_only=True) for step in range(schema.horizon)]
    cells = np.concatenate([visits.cells for visits, _ in steps])
    rows = np.concatenate([rows for _, rows in steps])
    _, first = np.unique(rows * (schema.count * schema.actions) + cells, return_index=True)
    rewards = np.concatenate([visits.rewards for visits, _ in steps])
    yield _Visits(cells[first], rewards[first], np.concatenate([visits.successors for visits, _ in steps])[first])


@dataclass(frozen=True, eq=False)
class _Counted:
    """What the statistics of discrete states share."""

    schema: Schema
    dynamics: Dynamics = "per_step"

    part = events.EVERYONE
    symmetric = False

    @property
    def cells(self) -> int:
        return self.schema.count * self.schema.actions

    @property
    def tables(self) -> int:
        return 1 if self.dynamics == "stationary" else self.schema.horizon

    @property
    def shape(self) -> tuple[int, ...]:
        steps = () if self.dynamics == "stationary" else (self.schema.horizon,)
        return (*steps, self.schema.count, self.schema.actions)

    def _visits(self, block: Bounded) -> Iterator[tuple[int, _Visits]]:
        visits = _first_visits if self.dynamics == "stationary" else _visits_per_step
        return enumerate(visits(self.schema, block))

    @property
    def _per_step(self) -> str:
        return "first visits of each trajectory" if self.dynamics == "stationary" else "each step"

    def partial(self) -> IntArray:
        return np.zeros((self.tables, self.cells), dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class VisitCounts(_Counted):
    """n_sa."""

    resolution = Fraction(1)

    @property
    def name(self) -> str:
        return f"visits of each state and action, {self._per_step}"

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(2 * self.schema.horizon * self.schema.per_unit**2)

    @property
    def absolute_sensitivity(self) -> Fraction:
        return Fraction(2 * self.schema.horizon * self.schema.per_unit)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for table, visits in self._visits(block):
            partial[table] += np.bincount(visits.cells, minlength=self.cells)


@dataclass(frozen=True, eq=False)
class TransitionCounts(VisitCounts):
    """n_sas′ for the chosen rows (step, state, action), flat; the last column counts the trajectories that ended.

    The rows are chosen from released numbers only; the mechanism is the one of the whole table, of which the other
    rows are thrown away before they are drawn.
    """

    rows: IntArray | None = None  # (R,) ascending; None stands for the whole table, in plans

    @property
    def name(self) -> str:
        return f"transitions from each state and action to each next state or the end, {self._per_step}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (*super().shape, self.schema.count + 1)

    @cached_property
    def _index(self) -> IntArray:  # (tables, cells) → row of the answer, or −1
        index = np.full(self.tables * self.cells, -1, dtype=np.int64)
        rows = np.arange(len(index)) if self.rows is None else self.rows
        index[rows] = np.arange(len(rows))
        return index.reshape(self.tables, self.cells)

    def partial(self) -> IntArray:
        rows = self.tables * self.cells if self.rows is None else len(self.rows)
        return np.zeros((rows, self.schema.count + 1), dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        columns = self.schema.count + 1
        for table, visits in self._visits(block):
            row = self._index[table][visits.cells]
            keys, counts = np.unique((row * columns + visits.successors)[row >= 0], return_counts=True)
            partial.reshape(-1)[keys] += counts

    def finish(self, partial: IntArray) -> IntArray:
        return partial


@dataclass(frozen=True, eq=False)
class RewardSums(_Counted):
    """Σ (x − ½) over the visits of each (s, a), x being the reward scaled to [0, 1]."""

    resolution = Fraction(1, maps.ONE)

    @property
    def name(self) -> str:
        return f"centred rewards of each state and action, {self._per_step}"

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(self.schema.horizon * self.schema.per_unit**2)

    @property
    def absolute_sensitivity(self) -> Fraction:
        return Fraction(self.schema.horizon * self.schema.per_unit)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit * self.schema.horizon * maps.ONE

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for table, visits in self._visits(block):
            centred = np.trunc((visits.rewards - 0.5) * maps.ONE)
            partial[table] += np.bincount(visits.cells, weights=centred, minlength=self.cells).astype(np.int64)
