"""What trajectories with vector states earn at the horizon, by their outcome, as a function g of their state there.

Where a trajectory earns once (`Schema.outcome`) and is watched for a window of H steps, what it earns at step H it
earns at no other step. Dynamics that are the same at every step stay so if step H stands apart:

* g(x), regressed on the features ψ of the states at step H, whatever the records say about what followed;
* before that a problem of H − 1 steps, in which a step earns what an early end pays, and what g rises by. All of that
  adds up to what the trajectory earns, less g where it starts.

The learner (`vapvi_stationary`) takes g for a potential; the evaluator (`fqe_vector`) for the value of step H.

**The statistic**: Σ over units of the mean of ξξᵀ over its trajectories that reach step H, ξ = (ψ, z), z = x − ½, x
being the reward there scaled to [0, 1]. For replacing one unit, X and Y being its two contributions: they are positive
semidefinite, so ⟨X, Y⟩ ≥ 0, and ‖X‖_F ≤ tr X ≤ 1 + ¼: ‖X − Y‖_F² ≤ 2·(5/4)². This holds on the grid, of what is
summed: X is a sum of outer products of integer vectors, and truncation only shortens them.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import sums
from discretion.learning.pooled_values import StateValue
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded
from discretion.privacy import events

_SHORT: Final = 1 - 2.0**-40  # so that a rounded root is never too long
_TOGETHER: Final = 2**13  # records whose features are looked at together: what bounds the memory


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Σ over units of the mean of ξξᵀ at the horizon: a (p + 1, p + 1) matrix, the last of ξ being the outcome."""

    schema: Schema
    features: maps.Blocks

    part = events.EVERYONE
    symmetric = True
    absolute_sensitivity = None
    squared_sensitivity = 2 * Fraction(5, 4) ** 2
    resolution = Fraction(1, maps.ONE**2)
    name = "Gram matrix of the features at the horizon and the outcome"

    def __post_init__(self) -> None:
        maps.check(self.features, self.schema)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.features.width + 1, self.features.width + 1)

    def largest(self, units: int) -> int:
        return units * maps.ONE**2

    def partial(self) -> IntArray:
        return np.zeros(self.shape, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        records = block.records(self.schema.horizon - 1)
        _, owners, many = np.unique(block.positions[records.rows], return_inverse=True, return_counts=True)
        for start in range(0, len(owners), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            root = np.sqrt(1.0 / many[owners[part]]) * np.where(many[owners[part]] > 1, _SHORT, 1.0)
            earned = np.trunc((records.rewards[part] - 0.5) * maps.ONE)
            xi = np.column_stack([self.features.psi(records.states[part]), earned])
            rooted = np.trunc(xi * root[:, None])
            partial += sums.exact_product(rooted, rooted, maps.ONE, maps.ONE)

    def finish(self, partial: IntArray) -> IntArray:
        return partial


@dataclass(frozen=True, eq=False)
class Released:
    """Σψψᵀ and Σψz at the horizon, with noise."""

    gram: FloatArray  # (p, p)
    moment: FloatArray  # (p,)
    deviation: float  # of the noise of an entry

    @classmethod
    def of(cls, values: FloatArray, scale: Fraction) -> "Released":
        return cls(values[:-1, :-1], values[:-1, -1], math.sqrt(scale))

    @property
    def noise(self) -> float:
        """About the norm of the noise of the matrix."""
        return 2.0 * math.sqrt(len(self.moment)) * self.deviation

    def value(self, schema: Schema, one: FloatArray, lift: float) -> StateValue:
        """g: the mean outcome, and a ridge regression of what differs from it; ψᵀone is nearly 1. A mean of so few that
        noise alone could make it is nearly that of the range."""
        many = max(float(one @ self.gram @ one), 4 * float(np.linalg.norm(one)) * self.deviation, 1.0)
        mean = min(max(float(one @ self.moment) / many, -0.5), 0.5)
        eigenvalues, vectors = np.linalg.eigh(self.gram)
        excess = self.moment - mean * (self.gram @ one)
        weights = vectors @ ((vectors.T @ excess) / (np.maximum(eigenvalues, 0.0) + lift))
        low = -schema.idle
        return StateValue(mean + 0.5 + low, np.asarray(weights), low, low + 1.0)
