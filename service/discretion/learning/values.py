"""What was released so far, evaluated on one record at a time.

A learner hands these to the curator as regression targets and weights, and a policy decides with them. They hold
released numbers only. The proofs need a record's target to be a function of that record alone, bit for bit, and a
matrix product over many rows may round *other* rows differently when one row changes. So a product over rows is used
only where nothing is rounded: ψ is an integer below 2¹⁶, the factors are put on a grid coarse enough that every sum of
products is an integer below 2⁵³ times a power of two, and then any order of summation gives the same bits. The rest is
look-up and elementwise arithmetic.
"""

import math
from dataclasses import dataclass

import numpy as np

from discretion.learning.features import BITS, ONE
from discretion.learning.schemas import FloatArray, IntArray

_LARGEST = 2.0**900  # of a factor, so that no power of two here leaves the range of float64


def on_grid(factors: FloatArray) -> FloatArray:  # (…, p)
    """Rounded (to 2⁻²⁹ of the largest, for p ≤ 64) so that ψᵀ·factors adds up exactly; twice is the same as once."""
    finite = np.clip(np.nan_to_num(factors), -_LARGEST, _LARGEST)
    largest = max(float(np.abs(finite).max(initial=0.0)), 1 / _LARGEST)
    bits = 52 - BITS - factors.shape[-1].bit_length()
    unit = math.ldexp(1.0, math.frexp(largest)[1] - bits)
    return np.rint(finite / unit) * unit


def _products(factors: FloatArray, psi: FloatArray) -> FloatArray:  # (…, p), (R, p) → (…, R)
    scaled = factors.reshape(-1, factors.shape[-1]) * (1.0 / ONE)  # by a power of two: exact
    return (scaled @ psi.T).reshape(*factors.shape[:-1], len(psi))


@dataclass(frozen=True, eq=False)
class TableValue:
    """V by look-up; the last entry is the end's."""

    values: FloatArray  # (S + 1,)


@dataclass(frozen=True, eq=False)
class TableDeviation:
    """σ̃ ≥ 1 by look-up."""

    values: FloatArray  # (S, A)


@dataclass(frozen=True, eq=False)
class LinearScore:
    """Q̂(x, a) = clip(ψᵀw_a − bonus·‖R_a ψ‖ − margin, 0, ceiling), R_aᵀR_a = Λ̃_a⁻¹; Alg. 2, lines 11 to 13."""

    weights: FloatArray  # (A, p), put on their grid
    roots: FloatArray  # (A, p, p), put on their grid
    bonus: float
    margin: float
    ceiling: float
    noise: float = 0.0  # the largest ‖ψ‖²/ψᵀΛ̃⁻¹ψ that an action may have which nobody took

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", on_grid(self.weights))
        object.__setattr__(self, "roots", on_grid(self.roots))

    def of(self, psi: FloatArray) -> FloatArray:  # (R, p) → (A, R)
        return self._penalised(psi, self.spread(psi))

    def _penalised(self, psi: FloatArray, spread: FloatArray) -> FloatArray:
        raw = _products(self.weights, psi) - self.bonus * np.sqrt(spread) - self.margin
        return np.minimum(np.maximum(raw, 0.0), self.ceiling)

    def judged(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:  # (R, p) → (A, R) each
        """Scores, zero where the released sums of an action say no more about a state than noise would, and spreads."""
        spread = self.spread(psi)
        lengths = np.einsum("ij,ij->i", psi, psi) * (1.0 / ONE**2)  # of integers: exact
        return np.where(spread * self.noise <= lengths, self._penalised(psi, spread), 0.0), spread

    def spread(self, psi: FloatArray) -> FloatArray:  # (R, p) → (A, R)
        """ψᵀ Λ̃_a⁻¹ ψ: small where the data covers the action well."""
        rows = _products(self.roots, psi)
        rows *= rows
        total = rows[:, 0]
        # One by one, because `sum` chooses its order by the shape, and so by how many other rows there are.
        for index in range(1, rows.shape[1]):
            total += rows[:, index]
        return total


def linear_score(
    weights: FloatArray,  # (A, p)
    inverse: FloatArray,  # (A, p, p)
    bonus: float,
    margin: float,
    ceiling: float,
    noise: float = 0.0,
) -> LinearScore:
    eigenvalues, vectors = np.linalg.eigh(inverse)
    roots = np.sqrt(np.maximum(eigenvalues, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
    return LinearScore(weights, roots, bonus, margin, ceiling, noise)


@dataclass(frozen=True, eq=False)
class LinearValue:
    """V(x) = max_a Q̂(x, a), and the end's known value."""

    score: LinearScore
    end: float


@dataclass(frozen=True, eq=False)
class LinearDeviation:
    """σ̃(x, a) = √max(1, clip(ψᵀβ_a, 0, c²) − clip(ψᵀθ_a, 0, c)²); Alg. 2, lines 7 and 8."""

    square: FloatArray  # (A, p), β̃, put on its grid
    mean: FloatArray  # (A, p), θ̃, put on its grid
    ceiling: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "square", on_grid(self.square))
        object.__setattr__(self, "mean", on_grid(self.mean))

    def of(self, psi: FloatArray, actions: IntArray) -> FloatArray:  # (R, p), (R,) → (R,)
        rows = np.arange(len(psi))
        square = _products(self.square, psi)[actions, rows]
        mean = _products(self.mean, psi)[actions, rows]
        variance = np.clip(square, 0.0, self.ceiling * self.ceiling) - np.clip(mean, 0.0, self.ceiling) ** 2
        return np.sqrt(np.maximum(1.0, variance))
