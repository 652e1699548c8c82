"""What a pooled learner released so far, evaluated on one record at a time: means, penalties and coverage of actions.

For an action a with Λ̃_a = Uᵀ·diag(l)·U and u = Uψ:

| here      | is                                                                       |
|-----------|--------------------------------------------------------------------------|
| mean      | Q̃(x, a) = base + ψᵀw_a                                                  |
| spread    | ψᵀΛ̃_a⁻¹ψ = Σ uᵢ²/lᵢ: small where the data covers the action well        |
| penalty   | Γ(x, a) = √Σ uᵢ²·qᵢ, q from the known noise                              |

A decision is the best mean − penalty if that action is covered and better than the best-covered one by more than the
two penalties' scale; else it is the best-covered action, and says so.

Products over rows add up exactly (see `values`), the rest is elementwise: a record's values are its own to the last
bit.
"""

from dataclasses import dataclass

import numpy as np

from discretion.learning.features import ONE
from discretion.learning.trajectories import BoolArray, FloatArray, IntArray
from discretion.learning.values import on_grid


def _products(factors: FloatArray, psi: FloatArray) -> FloatArray:  # (…, p), (R, p) → (…, R)
    scaled = factors.reshape(-1, factors.shape[-1]) * (1.0 / ONE)  # by a power of two: exact
    return np.asarray((scaled @ psi.T).reshape(*factors.shape[:-1], len(psi)))


@dataclass(frozen=True, eq=False)
class Judged:
    """What is known about every action in some states."""

    mean: FloatArray  # (A, R)
    penalty: FloatArray  # (A, R)
    spread: FloatArray  # (A, R)


@dataclass(frozen=True, eq=False)
class Score:
    """The released numbers of one group of steps, rewards over the width of their range."""

    base: float  # what an average step is worth, and what a state is of which nothing is known
    caution: float  # by how many penalties the best action must beat the best-covered one
    known: float  # the largest spread of a covered action, relative to ‖ψ‖²
    weights: FloatArray  # (A, p), put on their grid
    spreads: FloatArray  # (A, p) 1/l
    penalties: FloatArray  # (A, p) q
    directions: FloatArray  # (A, p, p) rows of U, put on their grid

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", on_grid(self.weights))
        object.__setattr__(self, "directions", on_grid(self.directions))

    def mean(self, psi: FloatArray) -> FloatArray:  # (R, p) → (A, R)
        return self.base + _products(self.weights, psi)

    def quadratic(self, psi: FloatArray, *factors: FloatArray) -> list[FloatArray]:  # (R, p), (A, p) → (A, R)
        """Σ factor·uᵢ² for each of the factors."""
        found = [np.zeros((len(self.weights), len(psi))) for _ in factors]
        squares = _products(self.directions, psi)
        squares *= squares
        # One by one: a sum over an axis chooses its order by the shape, and so by how many other rows there are.
        for index in range(squares.shape[1]):
            for total, factor in zip(found, factors, strict=True):
                total += squares[:, index] * factor[:, index, None]
        return found

    def judged(self, psi: FloatArray) -> Judged:
        penalty, spread = self.quadratic(psi, self.penalties, self.spreads)
        return Judged(self.mean(psi), np.sqrt(penalty), spread)

    def choose(self, psi: FloatArray) -> tuple[IntArray, BoolArray, FloatArray]:  # (R, p) → (R,) each
        """The action, whether it was learned, and its pessimistic score."""
        judged, rows = self.judged(psi), np.arange(len(psi))
        score = judged.mean - judged.penalty
        safe = judged.spread.argmin(axis=0)
        length = _squared(psi)
        covered = judged.spread <= self.known * length
        best = np.where(covered, score, -np.inf).argmax(axis=0)
        gain = judged.mean[best, rows] - judged.mean[safe, rows]
        doubt = np.sqrt(judged.penalty[best, rows] ** 2 + judged.penalty[safe, rows] ** 2)
        learned = covered[best, rows] & ((best == safe) | (gain > self.caution * doubt))
        action = np.where(learned, best, safe)
        return action, learned, score[action, rows]


def _squared(psi: FloatArray) -> FloatArray:  # (R, p) → (R,)
    total = np.zeros(len(psi))
    for column in psi.T:
        total += column * column
    return total / ONE**2


@dataclass(frozen=True, eq=False)
class Value:
    """V(x) = max_a Q̃(x, a) − Γ(x, a), within the released range."""

    score: Score
    low: float
    high: float

    def of(self, psi: FloatArray) -> FloatArray:  # (R, p) → (R,)
        best = self.score.mean(psi)
        if self.score.penalties.any():
            (penalty,) = self.score.quadratic(psi, self.score.penalties)
            best = best - np.sqrt(penalty)
        return np.minimum(np.maximum(best.max(axis=0), self.low), self.high)
