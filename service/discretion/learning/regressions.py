"""Gram matrices and moments of features, each beside its sensitivity.

For replacing one unit of at most m trajectories, X and Y being the two contributions to one step, ‖φ‖ ≤ 1:

* Gram Σφφᵀ: X and Y are positive semidefinite with ‖X‖_F, ‖Y‖_F ≤ m, and so ⟨X, Y⟩ ≥ 0: ‖X − Y‖_F² ≤ 2m².
* moment Σφy with |y| ≤ B: ‖X − Y‖₂ ≤ 2mB.

Weights 1/σ̃² ≤ 1 enter as φ/σ̃ and y/σ̃ *before* either is put on the grid, so both bounds hold of the integers that are
summed; rounding products instead would break them.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import sums
from discretion.learning.trajectories import BoolArray, Bounded, FloatArray, IntArray, Records, Schema
from discretion.learning.values import LinearDeviation, LinearValue, TableDeviation, TableValue
from discretion.privacy import events

Value = TableValue | LinearValue
Deviation = TableDeviation | LinearDeviation

_GRID: Final = Fraction(1, maps.ONE)
_CHUNK: Final = 8192  # records evaluated at once: what fits the cache


def _chosen(block: Bounded, part: str, units: int) -> BoolArray | None:
    if part == events.EVERYONE:
        return None
    return block.part(0, units // 2) if part == events.FIRST_HALF else block.part(units // 2, units)


@dataclass(frozen=True)
class _Regressed:
    """What Gram matrices and moments share: the features of one step, weighted by 1/σ̃."""

    schema: Schema
    features: maps.FeatureMap
    step: int  # from 0
    part: str = events.EVERYONE
    deviation: Deviation | None = None  # σ̃, None for 1

    def _records(self, block: Bounded, units: int) -> Records:
        records = block.records(self.step, _chosen(block, self.part, units))
        last = self.step + 1 == self.schema.horizon
        return records if last else records.only(records.known)

    def _cells(self, records: Records) -> IntArray:
        assert not isinstance(self.features, maps.Blocks)
        return self.features.cells(records.states) * self.schema.actions + records.actions

    @cached_property
    def _finite_deviation(self) -> FloatArray | None:  # (cells·A,)
        return self.deviation.values.ravel() if isinstance(self.deviation, TableDeviation) else None

    @cached_property
    def _finite_psi(self) -> IntArray:  # (cells·A, p), weighted
        assert not isinstance(self.features, maps.Blocks)
        psi = self.features.psi.reshape(-1, self.features.width)
        return psi if self._finite_deviation is None else _weighted(psi, self._finite_deviation)

    def _psi(self, records: Records) -> tuple[IntArray, FloatArray | None]:  # (R, p) weighted, and σ̃ (R,)
        assert isinstance(self.features, maps.Blocks)
        psi = self.features.psi(records.states)
        if not isinstance(self.deviation, LinearDeviation):
            return psi, None
        deviation = self.deviation.of(psi, records.actions)
        return _weighted(psi, deviation), deviation


def _weighted(psi: IntArray, deviation: FloatArray) -> IntArray:
    """φ/σ̃ with σ̃ ≥ 1, truncated: no coordinate grows."""
    return np.trunc(psi / deviation[:, None]).astype(np.int64)


def _chunks(records: Records) -> list[Records]:
    if len(records.rows) <= _CHUNK:
        return [records]
    index = np.arange(len(records.rows)) // _CHUNK
    return [records.only(index == chunk) for chunk in range(int(index[-1]) + 1)]


@dataclass(frozen=True)
class Gram(_Regressed):
    """Σ φφᵀ/σ̃² of one step, a (p, p) matrix per group."""

    label: str = "Gram matrix"

    resolution = _GRID**2
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
        records = self._records(block, units)
        if not isinstance(self.features, maps.Blocks):
            partial += np.bincount(self._cells(records), minlength=len(partial))
            return
        for chunk in _chunks(records):
            psi, _ = self._psi(chunk)
            for action in np.unique(chunk.actions):
                rows = psi[chunk.actions == action]
                partial[action] += sums.exact_product(rows, rows, maps.ONE, maps.ONE)

    def finish(self, partial: IntArray) -> IntArray:
        if isinstance(self.features, maps.Blocks):
            return partial
        psi = self._finite_psi
        if isinstance(self.features, maps.Bins):  # one cell a group, one number a cell
            return (partial[:, None] * psi * psi).reshape(self.shape)
        bound = max(1, int(partial.max())) * maps.ONE
        return sums.exact_product(partial[:, None] * psi, psi, bound, maps.ONE).reshape(self.shape)


@dataclass(frozen=True)
class Moment(_Regressed):
    """Σ φy/σ̃² of one step, |y| ≤ bound: y = x (if `reward`) + V(s′)^power (if `value`)."""

    bound: int = 1
    label: str = "value"
    reward: bool = False
    value: Value | None = None
    power: int = 1

    resolution = _GRID**2
    symmetric = False
    absolute_sensitivity = None

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
        return units * self.schema.per_unit * maps.ONE**2 * self.bound

    def partial(self) -> IntArray:
        if isinstance(self.features, maps.Blocks):
            return np.zeros(self.shape, dtype=np.int64)
        return np.zeros(self.features.states * self.schema.actions, dtype=np.int64)

    def _target(self, records: Records, deviation: FloatArray | None) -> IntArray:
        target = records.rewards if self.reward else np.zeros(len(records.rows))
        if self.value is not None:
            target = target + self._following(records) ** self.power
        if deviation is not None:
            target = target / deviation
        return np.trunc(np.clip(target, -self.bound, self.bound) * maps.ONE).astype(np.int64)

    def _following(self, records: Records) -> FloatArray:
        """V(s′); where the successor is unknown (only at the horizon) or the end, the end's value."""
        if isinstance(self.value, TableValue):
            assert not isinstance(self.features, maps.Blocks)
            cells = self.features.cells(records.successors)
            return self.value.values[np.where(records.known & ~records.ended, cells, -1)]
        assert isinstance(self.value, LinearValue)
        assert isinstance(self.features, maps.Blocks)
        best = self.value.score.of(self.features.psi(records.successors)).max(axis=1)
        return np.where(records.known & ~records.ended, best, self.value.end)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        records = self._records(block, units)
        if not isinstance(self.features, maps.Blocks):
            cells = self._cells(records)
            deviation = None if self._finite_deviation is None else self._finite_deviation[cells]
            target = self._target(records, deviation)
            partial += np.bincount(cells, weights=target, minlength=len(partial)).astype(np.int64)
            return
        for chunk in _chunks(records):
            psi, deviation = self._psi(chunk)
            target = self._target(chunk, deviation)[:, None]
            for action in np.unique(chunk.actions):
                mine = chunk.actions == action
                product = sums.exact_product(psi[mine], target[mine], maps.ONE, self.bound * maps.ONE)
                partial[action] += product[:, 0]

    def finish(self, partial: IntArray) -> IntArray:
        if isinstance(self.features, maps.Blocks):
            return partial
        psi = self._finite_psi
        if isinstance(self.features, maps.Bins):
            return (partial[:, None] * psi).reshape(self.shape)
        bound = max(1, int(np.abs(partial).max()))
        return sums.exact_product(partial[:, None], psi, bound, maps.ONE)[0].reshape(self.shape)
