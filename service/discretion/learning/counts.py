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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, cast

import numpy as np

from discretion.learning import features as maps
from discretion.learning import sums, walks
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded
from discretion.privacy import events

Dynamics = Literal["per_step", "stationary"]


MAKERS: Final = 4  # threads that make a table's pages: each has a stack, within what a fence leaves
_TURN: Final = threading.Lock()  # of whoever adds to a table that threads share


def add_at(table: IntArray, keys: IntArray, values: IntArray | int) -> None:
    """As many numbers as there are records, however large the table is; threads may share it."""
    more = table.dtype.type(values) if isinstance(values, int) else values.ravel()  # of another type: far slower
    with _TURN:
        np.add.at(table.reshape(-1), keys.ravel(), more)


def _zeros(shape: tuple[int, int], kind: type[np.signedinteger[Any]]) -> IntArray:
    """Of a table that may be most of the memory: its pages are made by some processors now, and not by whoever first
    adds to each, while all others wait."""
    table, many = np.empty(shape, kind), min(sums.processors(), MAKERS)
    with ThreadPoolExecutor(many) as pool:
        list(pool.map(lambda part: part.fill(0), np.array_split(table, many)))
    return cast(IntArray, table)


def _count(table: IntArray, keys: IntArray) -> None:
    """One more for each key. Counted apart where that is not more work: other threads need not wait for it."""
    if keys.size < table.size:
        add_at(table, keys, 1)
        return
    found = np.bincount(keys.ravel(), minlength=table.size)
    with _TURN:
        table += found.reshape(table.shape)


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

    def _visits(self, block: Bounded) -> IntArray:  # (H, B)
        """The cell of each record in the flat tables; what does not count is nowhere, one cell more in each.

        A visit whose successor nobody recorded counts in no table. At the horizon of a kernel per step that would lose
        every visit although nothing after it matters: there an unknown successor is taken as the end, whose value is
        zero like everyone's.
        """
        return block.once(("visits", self.dynamics), lambda: self._find_visits(block))

    def _find_visits(self, block: Bounded) -> IntArray:
        if self.dynamics == "stationary":
            return walks.first_visits(block).astype(np.int64)
        found = walks.known(block).astype(np.int64)
        found[-1] = walks.cells(block)[-1]
        found += np.arange(self.tables)[:, None] * (self.cells + 1)
        return found

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
        _count(partial, self._visits(block))


@dataclass(frozen=True, eq=False)
class TransitionCounts(VisitCounts):
    """n_sas′ for the chosen rows (step, state, action), flat; the last column counts the trajectories that ended.

    The rows are chosen from released numbers only; the mechanism is the one of the whole table, of which the other
    rows are thrown away before they are drawn.
    """

    rows: IntArray | None = None  # (R,) ascending; None stands for the whole table, in plans
    narrow: bool = False  # whether 32 bits hold what can be counted, and its noise: half of what may be most memory

    @property
    def name(self) -> str:
        return f"transitions from each state and action to each next state or the end, {self._per_step}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (*super().shape, self.schema.count + 1)

    @cached_property
    def _index(self) -> IntArray:  # (tables·(cells + 1),) → row of the answer; the one behind them is for all others
        rows = np.arange(self.tables * self.cells) if self.rows is None else self.rows
        index = np.full(self.tables * (self.cells + 1), len(rows), dtype=np.int64)
        index[rows + rows // self.cells] = np.arange(len(rows))
        return index

    @property
    def _kind(self) -> type[np.signedinteger[Any]]:
        return np.int32 if self.narrow else np.int64

    @property
    def _held(self) -> tuple[int, int]:
        rows = self.tables * self.cells if self.rows is None else len(self.rows)
        return rows + 1, self.schema.count + 1

    @property
    def form(self) -> sums.Form:
        return sums.Form(self._held, np.dtype(self._kind))

    @property
    def bytes(self) -> int:
        return self.form.bytes

    def partial(self) -> IntArray:
        _ = self._index  # once, and not by each thread
        return _zeros(self._held, self._kind)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        keys = self._index.take(self._visits(block))
        keys *= self.schema.count + 1
        keys += walks.following(block).states
        add_at(partial, keys, 1)

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
        centred = block.of_rewards(lambda scaled: np.trunc((scaled - 0.5) * maps.ONE).astype(np.int64))
        add_at(partial, self._visits(block), centred)


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
        add_at(partial, self._visits(block), self._paid(block))

    def _paid(self, block: Bounded) -> IntArray:  # (H, B)
        return block.of_rewards(lambda scaled: self._on_grid(scaled).astype(np.int64))


def _first_arrivals(block: Bounded) -> tuple[walks.Cells, walks.Cells]:  # (H, B) each
    """Of the first visits, the first that reached each state, and the one that ended the trajectory: the cells, nowhere
    for the rest, and what was reached."""
    return walks.first_arrivals(block), walks.following(block).states


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
        states, (cells, reached) = self.schema.count, _first_arrivals(block)
        keys = cells.astype(np.int64)
        keys += states
        np.copyto(keys, reached, where=(reached < states) & (cells != walks.nowhere(self.schema)))
        add_at(partial, keys, self._paid(block))


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
        cells, reached = _first_arrivals(block)
        keys = reached.astype(np.int64)
        np.copyto(keys, self.schema.count, where=cells == walks.nowhere(self.schema))
        _count(partial, keys)
