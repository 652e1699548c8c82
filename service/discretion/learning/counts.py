"""Counts of visits, transitions and rewards of discrete states, each beside its sensitivity.

For replacing one unit of at most m trajectories with H steps, b and b′ being the two contributions:

* counts: at each step one trajectory adds 1 to one cell, so ‖b − b′‖₂² ≤ 2m² and ‖b − b′‖₁ ≤ 2m a step. First-visit
  counts add at most H ones to different cells: the same totals over all steps.
* centred reward sums: at each step one trajectory adds x − ½ in [−½, ½] to one cell. In the same cell the two differ
  by at most 1; in two cells by ½ each, ¼ + ¼ < 1 squared. So ≤ m² a step (and m in ℓ1): half of what x ∈ [0, 1] costs.
  First visits: at most H cells each, a shared cell differs by at most 1 and an unshared one by ½, so ≤ H·m² again.
* sums of r/width = x − idle, first visits: at most H cells each. With c the largest |r|/width and d ≤ 1 the distance
  between the largest and the smallest, k shared cells and 2(H − k) others give ≤ kd² + 2(H − k)c² ≤ H·max(d², 2c²).
  Where rewards have one sign and a trajectory's total is at most T widths, Σ(r/width)² ≤ c·T, and two vectors of one
  sign are no further apart than √(their squared norms added): ≤ 2c·min(T, Hc), and 2·min(T, Hc) in ℓ1.
* first arrivals: at most H ones in different cells of S each; two sets differ in at most min(2H, S) cells.
"""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np

from discretion.learning import features as maps
from discretion.learning import walks
from discretion.learning.trajectories import Bounded, FloatArray, IntArray, Schema
from discretion.privacy import events

Dynamics = Literal["per_step", "stationary"]


_TURN: Final = threading.Lock()  # of whoever adds to a table that threads share


def _add(table: IntArray, keys: walks.Cells, values: IntArray | int) -> None:
    """As many numbers as there are records, however large the table is."""
    places = keys.astype(np.intp, copy=False)
    with _TURN:
        np.add.at(table, places, values)


@dataclass(frozen=True, eq=False)
class _Counted:
    """What the statistics of discrete states share."""

    schema: Schema
    dynamics: Dynamics = "per_step"

    part = events.EVERYONE
    symmetric = False
    locked = True  # threads share one table, which may be most of the memory

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

    def _visits(self, block: Bounded) -> Iterator[tuple[int, int, walks.Cells]]:
        """Of each step its table, and the cell of each trajectory; what does not count is nowhere, one cell more.

        A visit whose successor nobody recorded counts in no table. At the horizon of a kernel per step that would lose
        every visit although nothing after it matters: there an unknown successor is taken as the end, whose value is
        zero like everyone's.
        """
        pooled = self.dynamics == "stationary"
        for step, cells in enumerate(walks.first_visits(block) if pooled else walks.known(block)):
            if not pooled and step + 1 == self.schema.horizon:
                cells = walks.cells(block)[step]
            yield 0 if pooled else step, step, cells

    @property
    def _per_step(self) -> str:
        return "first visits of each trajectory" if self.dynamics == "stationary" else "each step"

    def partial(self) -> IntArray:
        return np.zeros((self.tables, self.cells + 1), dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial[:, :-1].reshape(self.shape)


@dataclass(frozen=True, eq=False)
class VisitCounts(_Counted):
    """n_sa."""

    resolution = Fraction(1)
    rewarded = False

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
        for table, _, cells in self._visits(block):
            _add(partial[table], cells, 1)


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
    def _index(self) -> IntArray:  # (tables, cells + 1) → row of the answer; the one behind them is for all others
        cells = self.tables * self.cells
        rows = np.arange(cells) if self.rows is None else self.rows
        index = np.full(cells, len(rows), dtype=np.int64)
        index[rows] = np.arange(len(rows))
        return np.pad(index.reshape(self.tables, self.cells), ((0, 0), (0, 1)), constant_values=len(rows))

    def partial(self) -> IntArray:
        rows = self.tables * self.cells if self.rows is None else len(self.rows)
        return np.zeros((rows + 1, self.schema.count + 1), dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        columns, successors = self.schema.count + 1, walks.following(block).states
        for table, step, cells in self._visits(block):
            keys = self._index[table].take(cells) * columns
            keys += successors[step]
            _add(partial.reshape(-1), keys, 1)

    def finish(self, partial: IntArray) -> IntArray:
        return partial[:-1]


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
        for table, step, cells in self._visits(block):
            centred = np.trunc((block.rewards(step) - 0.5) * maps.ONE)
            _add(partial[table], cells, centred.astype(np.int64))


@dataclass(frozen=True, eq=False)
class PaidSums(_Counted):
    """Σ r/width over the first visits of each (s, a): where rewards have one sign and a trajectory's total is small,
    far less sensitive than the centred sums."""

    dynamics: Dynamics = "stationary"

    resolution = Fraction(1, maps.ONE)

    @property
    def name(self) -> str:
        return f"rewards of each state and action, {self._per_step}"

    def _on_grid(self, scaled: FloatArray) -> FloatArray:
        return np.trunc((scaled - self.schema.idle) * maps.ONE)

    @cached_property
    def _extremes(self) -> tuple[int, int]:
        """What one reward can be on the grid; every operation above is monotone, so nothing is beyond."""
        low, high = self._on_grid(np.array([0.0, 1.0]))
        return int(low), int(high)

    @cached_property
    def _most(self) -> int | None:
        """The most that one-signed rewards of a trajectory add up to on the grid; None where both signs occur.

        Sums of truncated numbers are whole and rounding errors add up to less than 1, so the next whole number holds.
        """
        low, high = self._extremes
        if self.schema.idle not in (0.0, 1.0):  # exactly: the least reward of the other sign would add up unseen
            return None
        most = self.schema.horizon * max(-low, high)
        if self.schema.total is None:
            return most
        total = Fraction(self.schema.total[1] if low == 0 else -self.schema.total[0]) / Fraction(self.schema.width)
        return max(1, min(most, math.ceil(total * maps.ONE)))

    @property
    def squared_sensitivity(self) -> Fraction:
        (low, high), steps, grid = self._extremes, self.schema.horizon, maps.ONE**2
        largest = max(-low, high)
        if self._most is not None:
            return Fraction(2 * largest * self._most * self.schema.per_unit**2, grid)
        return Fraction(steps * max((high - low) ** 2, 2 * largest**2) * self.schema.per_unit**2, grid)

    @property
    def absolute_sensitivity(self) -> Fraction:
        low, high = self._extremes
        most = self._most if self._most is not None else self.schema.horizon * max(-low, high)
        return Fraction(2 * most * self.schema.per_unit, maps.ONE)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit * maps.ONE

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for table, step, cells in self._visits(block):
            _add(partial[table], cells, self._on_grid(block.rewards(step)).astype(np.int64))


def _first_arrivals(block: Bounded) -> Iterator[tuple[int, walks.Cells, walks.Cells]]:
    """Of the first visits, the first that reached each state, and the one that ended the trajectory: its step, the
    cells, nowhere for the rest, and what was reached."""
    return zip(range(block.schema.horizon), walks.first_arrivals(block), walks.following(block).states, strict=True)


@dataclass(frozen=True, eq=False)
class ArrivalSums(PaidSums):
    """Σ r/width over the first arrivals at each state, then over each (s, a) that ended a trajectory."""

    @property
    def name(self) -> str:
        return "rewards of first arrivals at each state, and of each state and action that ended a trajectory"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count + self.cells,)

    def partial(self) -> IntArray:
        return np.zeros(self.schema.count + self.cells + 1, dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial[:-1]

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        states = self.schema.count
        for step, cells, reached in _first_arrivals(block):
            arrived = (reached < states) & (cells != walks.nowhere(self.schema))
            where = np.where(arrived, reached, states + cells.astype(np.int64))
            _add(partial, where, self._on_grid(block.rewards(step)).astype(np.int64))


@dataclass(frozen=True, eq=False)
class ArrivalCounts(_Counted):
    """How many trajectories arrived at each state."""

    dynamics: Dynamics = "stationary"

    resolution = Fraction(1)
    rewarded = False
    name = "first arrivals of each trajectory at each state"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count,)

    @property
    def _cells_moved(self) -> int:
        return min(2 * self.schema.horizon, self.schema.count)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(self._cells_moved * self.schema.per_unit**2)

    @property
    def absolute_sensitivity(self) -> Fraction:
        return Fraction(self._cells_moved * self.schema.per_unit)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit

    def partial(self) -> IntArray:
        return np.zeros(self.schema.count + 1, dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial[:-1]

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for _, cells, reached in _first_arrivals(block):
            _add(partial, np.where(cells == walks.nowhere(self.schema), self.schema.count, reached), 1)
