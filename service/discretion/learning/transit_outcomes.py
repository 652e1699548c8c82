"""What the decisions of a judged policy earn and lead to, with vector states: sums over the visits of `transits`.

The sensitivities are those of `transits`: sums shortened to a radius 4; a score in [−1, 1] with its square 4, and ¼
more for each number in [−¼, ¼] beside them; a histogram 2. What a unit adds is checked there, in integers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discretion.learning import features as maps
from discretion.learning import followed, sums, transits
from discretion.learning.pooled_records import group_of
from discretion.learning.schemas import FloatArray, IntArray
from discretion.learning.trajectories import Bounded
from discretion.learning.transits import MOST, ONE
from discretion.learning.values import on_grid


@dataclass(frozen=True, eq=False)
class Starts(transits.Summed):
    """The mean ψ(x₁) of each unit's trajectories: ‖X‖, ‖Y‖ ≤ 1."""

    squared_sensitivity = Fraction(4)
    resolution = Fraction(1, maps.ONE)
    name = "features at the start of each patient's stay"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    def largest(self, units: int) -> int:
        return units * maps.ONE

    def gather(self, seen: transits.Visits, partial: IntArray) -> None:
        began = np.flatnonzero(seen.starts)
        total = np.zeros((seen.count, self.width))
        np.add.at(total, seen.units[began], seen.psi[began])  # integers: exact
        many = np.maximum(np.bincount(seen.units[began], minlength=seen.count), 1)
        partial += np.trunc(total / many[:, None]).sum(axis=0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Moves(transits.Vectors):
    """Σωψ(ψ′ − ψ)ᵀ over the followed visits taken, of each group of steps; over the radius."""

    radius: float = 1.0

    name = "how features change where the policy was followed, every patient cut to a set length"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.judged.groups, self.width, self.width)

    def gather(self, seen: transits.Visits, partial: IntArray) -> None:
        taken, width = self.judged.taken(seen), self.width
        groups = group_of(self.schema, self.judged.groups)[seen.steps[taken.rows]]
        order = np.lexsort((groups, seen.units[taken.rows]))
        rows, groups = taken.rows[order], groups[order]
        here = np.trunc(seen.psi[rows] * (taken.weights[order] / MOST)[:, None])  # at most 2¹⁶
        change = seen.following[rows] - seen.psi[rows]  # at most 2¹⁷
        cells = self.judged.groups * width**2
        for units, part in transits.runs(seen.units[rows], transits.at_once(cells)):
            moved = np.zeros(((int(units[-1]) + 1) * self.judged.groups, width, width))
            places = units * self.judged.groups + groups[part]
            for _, mine in transits.runs(places, 1):
                moved[places[mine.start]] = here[part][mine].T @ change[part][mine]  # integers below 2⁵²: exact
            self.collect(partial, moved.reshape(-1, cells) * (MOST / maps.ONE**2), self.radius)


@dataclass(frozen=True, eq=False)
class Targets(transits.Vectors):
    """Σωψ·(r + V(x′) − base − ψᵀw − centre) over the followed visits taken of a group of steps; over the radius."""

    value: transits.Value | None = None
    group: int = 0
    centre: float = 0.0
    bound: float = 1.0
    radius: float = 1.0
    round: int = 0

    @property
    def name(self) -> str:
        return f"features times what the value fails to predict where the policy was followed, round {self.round + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    def gather(self, seen: transits.Visits, partial: IntArray) -> None:
        taken = self.judged.taken(seen)
        now = group_of(self.schema, self.judged.groups)[seen.steps[taken.rows]] == self.group
        rows, weights = taken.rows[now], taken.weights[now]
        error = seen.rewards[rows] - self.centre
        if self.value is not None:
            later = np.where(seen.ended[rows], 0.0, self.value.of(seen.following[rows]))
            error = error + later - self.value.predicted(seen.psi[rows])
        whole = sums.whole(error * (weights * (2.0**15 / (MOST * transits.positive(self.bound)))), 2.0**15)
        table = np.zeros((seen.count, self.width))
        np.add.at(table, seen.units[rows], seen.psi[rows] * whole[:, None])  # integers below 2⁵³
        self.collect(partial, table * (MOST * transits.positive(self.bound) / (2.0**15 * maps.ONE)), self.radius)


@dataclass(frozen=True, eq=False)
class Scores(transits.Summed):
    """z, z², y/4 and s/4 of each unit: z is its score minus a centre, over the radius, cut to [−1, 1]; y likewise its
    mean V₁(x₁); s the part of its score's weight that supported decisions have, over that of all steps, cut likewise.

    A score is the mean V₁(x₁) of a unit's trajectories + Σ over followed visits taken of Σ_h ω·ψᵀu_h·(r + V_{h+1}(x′) −
    V_h(x)), h being the steps of the visit's group; + the mean of that over those at a horizon that stands apart.
    """

    values: tuple[transits.Value, ...] = ()  # H + 1, the last of the end
    weights: FloatArray | None = None  # (H, p) u
    centre: float = 0.0
    radius: float = 1.0

    squared_sensitivity = Fraction(9, 2)
    name = "what the policy would have earned each patient, its square, what was expected, and the supported part"
    shape = (4,)

    def scores(self, block: Bounded) -> Iterator[FloatArray]:
        for seen in self.judged.pieces(block):
            yield self.parts(seen)[0]

    def parts(self, seen: transits.Visits) -> tuple[FloatArray, FloatArray, FloatArray]:  # (U,) each
        """Of each unit, in steps of the grid: the score, V₁(x₁), and s."""
        taken = self.judged.taken(seen).and_then(self.judged.at_horizon(seen))
        rows = taken.rows
        part, known = self._summed(taken)
        began = np.flatnonzero(seen.starts)
        start = followed.integers(self.values[0].of(seen.psi[began]) - self.centre, self.radius)
        trajectories = np.maximum(np.bincount(seen.units[began], minlength=seen.count), 1)
        first = np.trunc(np.bincount(seen.units[began], weights=start, minlength=seen.count) / trajectories)
        summed = np.bincount(seen.units[rows], weights=followed.integers(part, self.radius), minlength=seen.count)
        whole = followed.integers(known, float(self.schema.horizon))
        known_part = np.bincount(seen.units[rows], weights=whole, minlength=seen.count)
        return np.asarray(summed + first, dtype=np.float64), first, np.asarray(known_part, dtype=np.float64)

    def _summed(self, taken: transits.WeightedVisits) -> tuple[FloatArray, FloatArray]:  # (T,) each
        seen, rows = taken.visits, taken.rows
        groups = self.judged.step_groups
        part, total = np.zeros(len(rows)), np.zeros(len(rows))
        exact = np.zeros((self.schema.horizon, self.width)) if self.weights is None else on_grid(self.weights)
        for group in range(int(groups[-1]) + 1):
            own = np.flatnonzero(groups[seen.steps[rows]] == group)
            part[own], total[own] = self._group(seen, rows[own], np.flatnonzero(groups == group), exact)
        support = np.minimum(self.schema.actions * taken.shares, 1.0)
        return taken.weights * part, taken.weights * total * support

    def _group(
        self, seen: transits.Visits, rows: IntArray, steps: IntArray, exact: FloatArray
    ) -> tuple[FloatArray, FloatArray]:  # (T,) each
        """Σ_h ψᵀu_h·(r + V_{h+1}(x′) − V_h(x)) and Σ_h ψᵀu_h over a group's steps, of the visits in it."""
        psi, following, ended = seen.psi[rows], seen.following[rows], seen.ended[rows]
        part, total = np.zeros(len(rows)), np.zeros(len(rows))
        for step in reversed(steps.tolist()) if len(rows) else ():
            weight = (psi @ exact[step]) * (1.0 / maps.ONE)
            later = np.where(ended, 0.0, self.values[step + 1].of(following))
            part += weight * (seen.rewards[rows] + later - self.values[step].of(psi))
            total += weight
        return part, total

    def gather(self, seen: transits.Visits, partial: IntArray) -> None:
        score, first, known = self.parts(seen)
        followed.add_with_squares(partial, np.arange(len(score)), score, np.ones(len(score), dtype=np.int64))
        quarter = ONE // 4
        for index, number in ((2, first), (3, known)):
            partial[index] += int(np.clip(np.trunc(number / 4), -quarter, quarter).sum())
