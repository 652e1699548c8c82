"""What the decisions of a judged policy earn and lead to, with discrete states: sums over the visits that stand for it,
which `followed` finds.

The sensitivities are those of `followed`: sums over cells 4, or 2 without negative entries; a score in [−1, 1] with its
square 4, and ¼ more for a number in [−¼, ¼] beside them; a histogram 2. What a unit adds is checked there, in integers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np

from discretion.learning import counts, followed, horizon, sums
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded

EDGES: Final = sums.geometric(-8, 14, 2)  # of the histogram of scores, in rewards' widths


@dataclass(frozen=True, eq=False)
class Arrivals(followed.Summed):
    """Σ of weights(s) over visits that stand for the policy, where they lead to; at first, 1 for a unit's starts."""

    weights: FloatArray  # (S + 1,) by place
    radius: float
    round: int = 0

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(4 if self.round else 2)  # starts and occupancies are not negative, corrections are

    @property
    def name(self) -> str:
        return f"where the policy leads to, every patient up to a set length, round {self.round + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count + 1,)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        chosen = self.judged.chosen(block)
        seen, states = chosen.visits, self.schema.count
        leads = chosen.own_step & (seen.successors < states) & (seen.steps + 1 < followed.pooled_steps(self.schema))
        places = np.append(chosen.place, states)
        weight = self.weights if self.round else np.maximum(self.weights, 0.0)
        values = weight[places[seen.states[leads]]]
        owners, cells = seen.units[leads], places[seen.successors[leads]]
        if not self.round:
            owners = np.append(owners, seen.units[seen.starts])
            cells = np.append(cells, places[seen.states[seen.starts]])
            trajectories = np.bincount(seen.units[seen.starts], minlength=seen.count)
            values = np.append(values, 1.0 / trajectories[seen.units[seen.starts]])
        self.collect(partial, owners, cells, followed.integers(values, self.radius))


@dataclass(frozen=True, eq=False)
class Transitions(followed.Summed):
    """How often each chosen cell led to each place, or (last column) to the end; over the radius.

    The cells are chosen from released numbers and the policy only; the mechanism is the one of the whole table, for
    which a unit is shortened, and of which the other rows are thrown away before they are drawn.
    """

    radius: float = 1.0
    rows: IntArray | None = None  # (R,) cells, ascending; None stands for the whole table, in plans

    squared_sensitivity = Fraction(2)
    name = "where the policy's decisions lead to, every patient up to a set length"
    locked = True  # threads share one table, which may be most of the memory

    @property
    def shape(self) -> tuple[int, int]:
        return (self.schema.count * (self.schema.actions + 1) + 1, self.schema.count + 2)

    @property
    def _chosen(self) -> IntArray:
        return np.arange(self.shape[0]) if self.rows is None else self.rows

    def partial(self) -> IntArray:
        return np.zeros((len(self._chosen), self.shape[1]), dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        (cells, columns), rows, chosen = self.shape, self._chosen, self.judged.chosen(block)
        seen, taken = chosen.visits, chosen.any_step
        reached = np.append(chosen.place, columns - 1)[seen.successors[taken]]
        whole = followed.integers(np.ones(len(reached)), self.radius)
        keys = chosen.cells[taken] * columns + reached
        found, entries = followed.shortened(seen.units[taken], keys, whole, cells * columns)
        row = np.searchsorted(rows, found // columns)
        kept = np.append(rows, -1)[row] == found // columns
        counts.add_at(partial, row[kept] * columns + found[kept] % columns, entries[kept].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Targets(followed.Summed):
    """Σ over the visits of each cell of r, or of values(s′) − centre; behind the cells, half the sum over all cells."""

    values: FloatArray | None  # (S + 1,) by state, the last the end's; None for the reward
    centre: float
    radius: float
    round: int = 0

    squared_sensitivity = Fraction(4)

    @property
    def name(self) -> str:
        return f"what the policy's decisions earn and bring, every patient cut to a set length, round {self.round + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count * (self.schema.actions + 1) + 2,)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        chosen = self.judged.chosen(block)
        seen, taken = chosen.visits, chosen.any_step
        found = seen.rewards if self.values is None else self.values[seen.successors] - self.centre
        whole = followed.integers(found[taken], self.radius)
        owners = np.concatenate([seen.units[taken]] * 2)
        cells = np.append(chosen.cells[taken], np.full(len(whole), len(partial) - 1))
        self.collect(partial, owners, cells, np.append(whole, np.trunc(whole / 2)))


@dataclass(frozen=True, eq=False)
class Scores(followed.Summed):
    """z, z² and y/4 of each unit, z being its score minus a centre, over the radius, cut to [−1, 1], and y likewise the
    mean V₁(s₁) of its trajectories.

    A unit's score is that mean + Σ weight(s)·(r + V_{h+1}(s′) − V_h(s)) over the visits that stand for the policy, h
    being their own step; or, with weights for each step, + Σ_h weight_h(s)·(…) over all h whose cell is the visit's.
    Where everyone stands in, `alike` multiplies the weight of a visit that did otherwise and of one that did alike.
    Where the last step is kept apart, V lacks Φ, and + Φ(s₁) + Σ settling(s)·(r − Φ(s)) over the records of that step
    that stand for the policy's decision there.
    """

    values: FloatArray  # (H + 1, S + 1) by step and state, the last the end's; of the pooled steps
    weights: FloatArray  # (S + 1,) by place, or (H, S + 1)
    cells: IntArray | None = None  # (H, S) with weights for each step: the cell of the policy's decision
    centre: float = 0.0
    radius: float = 1.0
    alike: FloatArray | None = None  # (2, S + 1) by place
    settling: FloatArray | None = None  # (S + 1,) by place, where the last step is kept apart

    squared_sensitivity = Fraction(17, 4)
    name = "what the policy would have earned each patient, its square, and what was expected at the start"
    shape = (3,)

    def parts(self, block: Bounded) -> tuple[IntArray, FloatArray, FloatArray]:
        """Of each record: its unit and its part of the score, on the grid; of each unit: its V₁(s₁)."""
        chosen = self.judged.chosen(block)
        seen = chosen.visits
        part, owners = self._pooled(chosen) if self.cells is not None else self._own(chosen), seen.units
        first = self.values[0] if self.settling is None else self.values[0] + self.judged.phi
        start = np.where(seen.starts, first[seen.states] - self.centre, 0.0)
        total = np.bincount(seen.units, weights=followed.integers(start, self.radius), minlength=seen.count)
        trajectories = np.bincount(seen.units[seen.starts], minlength=seen.count)
        if self.settling is not None:
            last = horizon.last(block)
            part, owners = np.append(part, self._settled(last, chosen.place)), np.append(owners, last.units)
        return owners, followed.integers(part, self.radius), np.trunc(total / np.maximum(trajectories, 1))

    def _settled(self, last: horizon.Last, place: IntArray) -> FloatArray:  # (R,)
        assert self.settling is not None
        stand_in, acted = self.judged.at_last(last.states, last.actions)
        found = place[last.states]
        whose = acted.astype(np.float64)
        if self.alike is not None:
            whose = np.where(stand_in, self.alike[acted.astype(np.int64), found], whose)
        else:
            whose = np.where(stand_in, 1.0, whose)
        return whose * self.settling[found] * (last.rewards - self.judged.phi[last.states])

    def _own(self, chosen: followed.Chosen) -> FloatArray:
        seen, weights = chosen.visits, self.weights[chosen.place]
        change = self.values[seen.steps + 1, seen.successors] - self.values[seen.steps, seen.states]
        whose = self._stand_in(chosen, chosen.followed)
        return np.where(chosen.own_step, whose * weights[seen.states] * (seen.rewards + change), 0.0)

    def _stand_in(self, chosen: followed.Chosen, acted: BoolArray) -> FloatArray:  # (R,)
        """What the weight of each visit is multiplied by."""
        if self.alike is None:
            return np.ones(len(acted))
        by_state = self.alike[:, chosen.place]
        return np.where(chosen.stand_in, by_state[acted.astype(np.int64), chosen.visits.states], 1.0)

    def _pooled(self, chosen: followed.Chosen) -> FloatArray:
        seen, total = chosen.visits, np.zeros(len(chosen.visits.units))
        assert self.cells is not None
        for step, cells in enumerate(self.cells):
            weight = self.weights[step, chosen.place][seen.states]
            change = self.values[step + 1, seen.successors] - self.values[step, seen.states]
            stands = chosen.any_step & (cells[seen.states] == chosen.cells)
            whose = self._stand_in(chosen, self.judged.decisions[step, seen.states] == seen.actions)
            total += np.where(stands, whose * weight * (seen.rewards + change), 0.0)
        return total

    def scores(self, block: Bounded) -> Iterator[FloatArray]:
        owners, whole, start = self.parts(block)
        yield np.bincount(owners, weights=whole, minlength=len(start)) + start

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        owners, whole, start = self.parts(block)
        total = np.bincount(owners, weights=whole, minlength=len(start)) + start
        one = np.ones(len(start), dtype=np.int64)
        followed.add_with_squares(partial, np.arange(len(start)), total, one)
        quarter = followed.ONE // 4
        partial[2] += int(np.clip(np.trunc(start / 4), -quarter, quarter).sum())


class Scored(Protocol):
    """A statistic of units' scores, with either kind of states."""

    @property
    def schema(self) -> Schema: ...
    @property
    def radius(self) -> float: ...
    def scores(self, block: Bounded) -> Iterator[FloatArray]:  # (U,) of some units at a time
        """Of each unit, in steps of the grid: the score minus the centre."""


@dataclass(frozen=True, eq=False)
class ScoreSizes(followed.OnGrid):
    """How many units have how large a score minus the centre: a histogram with geometric bins."""

    of: Scored

    squared_sensitivity = Fraction(2)
    resolution = Fraction(1)
    name = "numbers of patients by how far what the policy would have earned them is from the average"
    shape = (len(EDGES) + 1,)

    @property
    def schema(self) -> Schema:
        return self.of.schema

    def largest(self, units: int) -> int:
        return units

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for scores in self.of.scores(block):
            size = np.abs(scores) * (self.of.radius / followed.ONE)
            partial += np.bincount(np.searchsorted(EDGES, size), minlength=len(partial))
