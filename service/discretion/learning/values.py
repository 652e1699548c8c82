"""What was released so far, evaluated on one record at a time.

A learner hands these to the curator as regression targets and weights, and a policy decides with them. They hold
released numbers only. On many records they use look-up or elementwise operations, column by column: a matrix product
over many rows may change the last bits of *other* rows when one row changes, and the proofs need a record's target
to be a function of that record alone.
"""

from dataclasses import dataclass

import numpy as np

from discretion.learning.features import ONE
from discretion.learning.trajectories import FloatArray, IntArray


@dataclass(frozen=True)
class TableValue:
    """V by look-up; the last entry is the end's."""

    values: FloatArray  # (S + 1,)


@dataclass(frozen=True)
class TableDeviation:
    """σ̃ ≥ 1 by look-up."""

    values: FloatArray  # (S, A)


@dataclass(frozen=True)
class LinearScore:
    """Q̂(x, a) = clip(ψᵀw_a − bonus·√(ψᵀ M_a ψ) − margin, 0, ceiling); Alg. 2, lines 11 to 13."""

    weights: FloatArray  # (A, p)
    inverse: FloatArray  # (A, p, p), M = Λ̃⁻¹
    bonus: float
    margin: float
    ceiling: float

    def of(self, psi: IntArray) -> FloatArray:  # (R, p) → (R, A)
        columns = _columns(psi)
        scores = np.empty((len(psi), len(self.weights)))
        for action, (weights, inverse) in enumerate(zip(self.weights, self.inverse, strict=True)):
            raw = linear(columns, weights) - self.bonus * np.sqrt(quadratic(columns, inverse)) - self.margin
            scores[:, action] = np.clip(raw, 0.0, self.ceiling)
        return scores

    def spread(self, psi: IntArray) -> FloatArray:  # (R, p) → (R, A)
        """ψᵀ M_a ψ: small where the data covers the action well."""
        columns = _columns(psi)
        return np.stack([quadratic(columns, inverse) for inverse in self.inverse], axis=1)


@dataclass(frozen=True)
class LinearValue:
    """V(x) = max_a Q̂(x, a), and the end's known value."""

    score: LinearScore
    end: float


@dataclass(frozen=True)
class LinearDeviation:
    """σ̃(x, a) = √max(1, clip(ψᵀβ_a, 0, c²) − clip(ψᵀθ_a, 0, c)²); Alg. 2, lines 7 and 8."""

    square: FloatArray  # (A, p), β̃
    mean: FloatArray  # (A, p), θ̃
    ceiling: float

    def of(self, psi: IntArray, actions: IntArray) -> FloatArray:  # (R, p), (R,) → (R,)
        columns = _columns(psi)
        square = sum_of_products(columns, self.square[actions])
        mean = sum_of_products(columns, self.mean[actions])
        variance = np.clip(square, 0.0, self.ceiling**2) - np.clip(mean, 0.0, self.ceiling) ** 2
        return np.sqrt(np.maximum(1.0, variance))


def _columns(psi: IntArray) -> FloatArray:  # (R, p) on the grid → (p, R)
    return np.ascontiguousarray(psi.T).astype(np.float64) * (1.0 / ONE)


def linear(columns: FloatArray, weights: FloatArray) -> FloatArray:  # (p, R), (p,) → (R,)
    total = columns[0] * weights[0]
    for column, weight in zip(columns[1:], weights[1:], strict=True):
        total += column * weight
    return total


def sum_of_products(columns: FloatArray, rows: FloatArray) -> FloatArray:  # (p, R), (R, p) → (R,)
    total = columns[0] * rows[:, 0]
    for index in range(1, len(columns)):
        total += columns[index] * rows[:, index]
    return total


def quadratic(columns: FloatArray, matrix: FloatArray) -> FloatArray:  # (p, R), (p, p) symmetric → (R,)
    total = np.zeros(columns.shape[1])
    for i, column in enumerate(columns):
        inner = column * matrix[i, i]
        for j in range(i):
            inner += columns[j] * (2.0 * matrix[i, j])
        inner *= column
        total += inner
    return np.maximum(total, 0.0)
