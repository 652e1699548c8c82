"""Gram matrices and moments of features, each beside its sensitivity.

For replacing one unit of at most m trajectories, X and Y being the two contributions to one step, ‖φ‖ ≤ 1:

* Gram Σφφᵀ: X and Y are positive semidefinite with ‖X‖_F, ‖Y‖_F ≤ m, and so ⟨X, Y⟩ ≥ 0: ‖X − Y‖_F² ≤ 2m².
* moment Σφy with |y| ≤ B: ‖X − Y‖₂ ≤ 2mB.

Weights 1/σ̃² ≤ 1 enter as φ/σ̃ and y/σ̃ *before* either is put on the grid, so the bounds hold of the integers that are
summed; rounding products instead would break them.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import sums
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded, Records
from discretion.learning.values import LinearDeviation, LinearValue, TableDeviation, TableValue
from discretion.privacy import events

Value = TableValue | LinearValue
Deviation = TableDeviation | LinearDeviation

GRID: Final = Fraction(1, maps.ONE)
_TARGET_BITS: Final = 22  # of a target on its grid, so that 10⁷ units can be summed
LARGEST_TARGET: Final = 2**27
_CHUNK: Final = 4096  # records evaluated at once: what fits the cache


def _chosen(block: Bounded, part: str, units: int) -> BoolArray | None:
    if part == events.EVERYONE:
        return None
    return block.part(0, units // 2) if part == events.FIRST_HALF else block.part(units // 2, units)


@dataclass(frozen=True, eq=False, repr=False)
class Seen:
    """The records of one step of a block, with their weighted features: looked up by cell, or computed."""

    records: Records
    deviation: FloatArray | None  # (R,)
    cells: IntArray  # (R,) of finite maps: the (state, action)
    order: IntArray  # (R,) of continuous maps: the records sorted by action
    psi: FloatArray  # (R, p) of continuous maps: integers, in that order
    bounds: IntArray  # (A + 1,) of continuous maps: where each action's rows begin and end in it

    def of_actions(self) -> Iterator[tuple[int, slice]]:
        for action, (start, stop) in enumerate(itertools.pairwise(self.bounds)):
            yield action, slice(int(start), int(stop))


@dataclass(frozen=True, eq=False)
class Regressed:
    """What Gram matrices and moments share: the features of one step, weighted by 1/σ̃."""

    schema: Schema
    features: maps.FeatureMap
    step: int  # from 0
    part: str = events.EVERYONE
    deviation: Deviation | None = None  # σ̃, None for 1

    def __post_init__(self) -> None:
        maps.check(self.features, self.schema)
        if not 0 <= self.step < self.schema.horizon:
            raise errors.InvalidParameter(
                f"There is no step {self.step + 1} within a horizon of {self.schema.horizon}."
            )
        finite = not isinstance(self.features, maps.Blocks)
        if isinstance(self.deviation, LinearDeviation):
            check_fit(
                not finite and self.deviation.square.shape == self.deviation.mean.shape == self._weights, "deviation"
            )
        elif self.deviation is not None:
            check_fit(finite and self.deviation.values.shape == self._cells, "deviation")

    @property
    def _weights(self) -> tuple[int, ...]:
        return (self.features.groups, self.features.width)

    @property
    def _cells(self) -> tuple[int, ...]:
        assert not isinstance(self.features, maps.Blocks)
        return (self.features.states, self.features.actions)

    def _seen(self, block: Bounded, units: int) -> Seen:
        key = ("seen", self.step, self.part, id(self.features), id(self.deviation))
        return block.once(key, lambda: self._look(block, units))

    def _look(self, block: Bounded, units: int) -> Seen:
        records = block.records(self.step, _chosen(block, self.part, units))
        if self.step + 1 < self.schema.horizon:
            records = records.only(records.known)
        if not isinstance(self.features, maps.Blocks):
            cells = self.features.cells(records.states) * self.schema.actions + records.actions
            deviation = None if self._finite_deviation is None else self._finite_deviation[cells]
            nothing = np.empty(0, dtype=np.int64)
            return Seen(records, deviation, cells, nothing, np.empty((0, 0)), nothing)
        psi = self.features.psi(records.states)
        deviation = None
        if isinstance(self.deviation, LinearDeviation):
            deviation = at_least_one(self.deviation.of(psi, records.actions))
            psi = _weighted(psi, deviation)
        narrow = records.actions.astype(np.min_scalar_type(self.schema.actions))  # small integers sort by radix
        order = np.argsort(narrow, kind="stable")
        bounds = np.concatenate(([0], np.cumsum(np.bincount(records.actions, minlength=self.schema.actions))))
        return Seen(records, deviation, records.actions, order, psi.T[:, order].T, bounds)

    @cached_property
    def _finite_deviation(self) -> FloatArray | None:  # (cells·A,)
        return at_least_one(self.deviation.values.ravel()) if isinstance(self.deviation, TableDeviation) else None

    @cached_property
    def _finite_psi(self) -> IntArray:  # (cells·A, p), weighted
        assert not isinstance(self.features, maps.Blocks)
        psi = self.features.psi.reshape(-1, self.features.width)
        if self._finite_deviation is None:
            return psi
        return _weighted(psi.astype(np.float64), self._finite_deviation).astype(np.int64)

    def _looked_up(self, records: Records, value: TableValue) -> FloatArray:
        assert not isinstance(self.features, maps.Blocks)
        inside = records.known & ~records.ended
        return value.values[np.where(inside, self.features.cells(records.successors), -1)]

    def _finite_gram(self, counts: IntArray) -> IntArray:  # (cells·A,) → (G, p, p)
        psi, shape = self._finite_psi, (self.features.groups, self.features.width, self.features.width)
        if isinstance(self.features, maps.Bins):  # one cell a group, one number a cell
            return (counts[:, None] * psi * psi).reshape(shape)
        bound = max(1, int(counts.max())) * maps.ONE
        return sums.exact_product(counts[:, None] * psi, psi, bound, maps.ONE).reshape(shape)

    def _finite_moment(self, targets: IntArray) -> IntArray:  # (cells·A,) → (G, p)
        psi = self._finite_psi
        if isinstance(self.features, maps.Bins):
            return (targets[:, None] * psi).reshape(self._weights)
        bound = max(1, int(np.abs(targets).max()))
        return sums.exact_product(targets[:, None], psi, bound, maps.ONE)[0].reshape(self._weights)


def check_fit(fits: bool, name: str) -> None:
    if not fits:
        raise errors.InvalidParameter(f"The {name} handed to the curator does not fit the feature map.")


def at_least_one(deviation: FloatArray) -> FloatArray:
    """The bounds need σ̃ ≥ 1, whatever a learner hands in; what is no number counts as 1."""
    return np.fmax(deviation, 1.0)


def _weighted(psi: FloatArray, deviation: FloatArray) -> FloatArray:
    """φ/σ̃ with σ̃ ≥ 1, truncated: no coordinate grows."""
    return np.trunc(psi / deviation[:, None])


def on_target_grid(target: FloatArray, deviation: FloatArray | None, bound: int, steps: int) -> FloatArray:
    """y/σ̃ within ±bound, truncated to a multiple of 1/steps and counted in these; what is no number counts as 0."""
    weighted = target if deviation is None else target / deviation
    return np.trunc(np.clip(np.where(np.isnan(weighted), 0.0, weighted), -bound, bound) * steps)


@dataclass(frozen=True, eq=False)
class Gram(Regressed):
    """Σ φφᵀ/σ̃² of one step, a (p, p) matrix per group."""

    label: str = "Gram matrix"

    resolution = GRID**2
    symmetric = True
    absolute_sensitivity = None

    @property
    def name(self) -> str:
        return f"{self.label} of the features, step {self.step + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.features.groups, self.features.width, self.features.width)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(2 * self.schema.per_unit**2)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit * maps.ONE**2

    def partial(self) -> IntArray:
        if isinstance(self.features, maps.Blocks):
            return np.zeros(self.shape, dtype=np.int64)
        return np.zeros(self.features.states * self.schema.actions, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen = self._seen(block, units)
        if not isinstance(self.features, maps.Blocks):
            partial += np.bincount(seen.cells, minlength=len(partial))
            return
        for action, rows in seen.of_actions():
            psi = seen.psi[rows]
            partial[action] += sums.exact_product(psi, psi, maps.ONE, maps.ONE)

    def finish(self, partial: IntArray) -> IntArray:
        return partial if isinstance(self.features, maps.Blocks) else self._finite_gram(partial)


@dataclass(frozen=True, eq=False)
class Moment(Regressed):
    """Σ φy/σ̃² of one step, |y| ≤ bound: y = x (if `reward`) + V(s′), or V(s′)² if `squared` (if `value`)."""

    bound: int = 1
    label: str = "value"
    reward: bool = False
    value: Value | None = None
    squared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.value, LinearValue):
            fits = isinstance(self.features, maps.Blocks) and self.value.score.weights.shape == self._weights
            check_fit(fits and self.value.score.roots.shape == (*self._weights, self.features.width), "value")
        elif self.value is not None:
            fits = not isinstance(self.features, maps.Blocks)
            check_fit(fits and self.value.values.shape == (self._cells[0] + 1,), "value")
        if not 0 < self.bound <= LARGEST_TARGET:
            raise errors.ProblemTooLarge(
                f"Targets of up to {self.bound} at step {self.step + 1} are too large to be summed exactly; "
                f"use a shorter horizon."
            )

    symmetric = False
    absolute_sensitivity = None

    @property
    def _steps(self) -> int:
        """Steps of the target's grid in one unit: 2¹⁶, fewer where the target is large and so is its noise."""
        return 2 ** min(maps.BITS, max(0, _TARGET_BITS - self.bound.bit_length()))

    @property
    def resolution(self) -> Fraction:
        return GRID / self._steps

    @property
    def name(self) -> str:
        return f"features times {self.label}, step {self.step + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.features.groups, self.features.width)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(4 * self.bound**2 * self.schema.per_unit**2)

    def largest(self, units: int) -> int:
        return units * self.schema.per_unit * maps.ONE * self._steps * self.bound

    def partial(self) -> IntArray:
        if isinstance(self.features, maps.Blocks):
            return np.zeros(self.shape, dtype=np.int64)
        return np.zeros(self.features.states * self.schema.actions, dtype=np.int64)

    def _target(self, block: Bounded, seen: Seen) -> FloatArray:  # (R,) integers
        target = seen.records.rewards if self.reward else np.zeros(len(seen.records.rows))
        if self.value is not None:
            key = ("following", self.step, self.part, id(self.features), id(self.value))
            following = block.once(key, lambda: self._following(seen.records))
            target = target + (following * following if self.squared else following)
        return on_target_grid(target, seen.deviation, self.bound, self._steps)

    def _following(self, records: Records) -> FloatArray:
        """V(s′); where the successor is unknown (only at the horizon) or the end, the end's value."""
        if isinstance(self.value, TableValue):
            return self._looked_up(records, self.value)
        inside = records.known & ~records.ended
        assert isinstance(self.value, LinearValue)
        assert isinstance(self.features, maps.Blocks)
        best = np.empty(len(inside))
        for start in range(0, len(best), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            best[chunk] = self.value.score.of(self.features.psi(records.successors[chunk])).max(axis=0)
        return np.where(inside, best, self.value.end)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen = self._seen(block, units)
        target = self._target(block, seen)
        if not isinstance(self.features, maps.Blocks):
            partial += np.bincount(seen.cells, weights=target, minlength=len(partial)).astype(np.int64)
            return
        target = target[seen.order]
        for action, rows in seen.of_actions():
            psi = seen.psi[rows]
            partial[action] += sums.exact_product(psi, target[rows, None], maps.ONE, self.bound * self._steps)[:, 0]

    def finish(self, partial: IntArray) -> IntArray:
        return partial if isinstance(self.features, maps.Blocks) else self._finite_moment(partial)
