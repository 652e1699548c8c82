"""DP-VAPVI as printed: what is done with a step's released sums, for any map in the paper's calibration and for blocks.

| paper                 | here                                                                            |
|-----------------------|---------------------------------------------------------------------------------|
| Λ̃_h⁻¹, Σ̃_h⁻¹          | `Learner.inverse`: of the noised Gram matrix with λ + E/2 on its diagonal        |
| λ, C, D/K, E, δ       | `Constants.ridge`, `.c`, `.margin`, `.e` or by rule, `.delta`                     |
| σ̃_h                   | `deviation`                                                                      |
| Γ_h, Q̂_h, Ṽ_h         | penalty, clipped pessimistic score, its maximum: `improve`                       |

In the `tight` calibration an action of blocks *was seen* in a state if ‖φ‖²/φᵀΛ̃⁻¹φ is more than noise alone would make
of it, `Constants.noise`. Only such actions are decided for; values stay as printed, the maximum over all actions. The
`paper` calibration decides as printed.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import policy, rewards
from discretion.learning.curator import Answer
from discretion.learning.regressions import Deviation, Value
from discretion.learning.schemas import FloatArray, Schema
from discretion.learning.values import (
    LinearDeviation,
    LinearScore,
    LinearValue,
    TableDeviation,
    TableValue,
    linear_score,
)
from discretion.privacy import events

# Where the shift barely outweighs the noise, some direction looks unseen and its penalty empties whole states. Chosen
# on other data than the reported ones (docs/reproduction.md has the table): no factor is best for every K and ρ.
_TIGHT_SHIFT: Final = 6.0
_BEYOND: Final = 3.0  # deviations of a diagonal entry's noise, beyond the norm of all, that noise alone will not reach


@dataclass(frozen=True)
class Constants:
    ridge: float
    c: float
    margin: float  # D/K
    e: float | None
    delta: float
    tight: bool

    def shift(self, event: events.Event, schema: Schema) -> float:
        """E, unless given from the norm of a p × p symmetric noise of variance v."""
        groups, width, _ = event.shape
        if self.e is not None:
            return self.e
        if self.tight:
            return _TIGHT_SHIFT * _norm(event)
        return _norm(event) * (2 + (math.log(5 * schema.horizon * groups / self.delta) / width) ** (2 / 3))

    def added(self, event: events.Event, schema: Schema) -> float:
        """λ + E/2."""
        return self.ridge + self.shift(event, schema) / 2

    def noise(self, event: events.Event, schema: Schema) -> float:
        """An eigenvalue of Λ̃ of which noise alone makes no more: an action that has less was hardly ever taken."""
        if not self.tight:
            return 0.0
        return self.added(event, schema) + _norm(event) + _BEYOND * math.sqrt(2 * float(event.scale))


def _norm(event: events.Event) -> float:
    """Close to 2√(pv)."""
    return 2 * math.sqrt(event.shape[1] * float(event.scale))


class Learner:
    """The backward pass: holds released numbers only."""

    def __init__(self, schema: Schema, features: maps.FeatureMap, constants: Constants) -> None:
        self.schema, self.features, self.constants = schema, features, constants
        self.bonus = constants.c * math.sqrt(maps.dimension(features))
        self.value: Value | None = None  # line 2: Ṽ_{H+1} = 0

    def following(self) -> Value | None:
        """What the regression's target adds to the reward."""
        return self.value

    def inverse(self, answer: Answer) -> FloatArray:  # (G, p, p)
        """(Σ φφᵀ + λI + K)⁻¹ with K = E/2·I + noise, lines 4 and 9."""
        eigenvalues, vectors = np.linalg.eigh(answer.values)
        lifted = np.maximum(eigenvalues + self.constants.added(answer.event, self.schema), self.constants.ridge)
        return np.einsum("gij,gj,gkj->gik", vectors, 1.0 / lifted, vectors)

    def solve(self, inverse: FloatArray, answer: Answer) -> FloatArray:  # (G, p)
        return np.einsum("gij,gj->gi", inverse, answer.values)


class Finite(Learner):
    """Maps with finitely many states: scores are tables over (state, action)."""

    def __init__(
        self, schema: Schema, features: maps.FiniteMap, reward: rewards.Known | None, constants: Constants
    ) -> None:
        super().__init__(schema, features, constants)
        self.map, self.reward = features, reward
        self.psi = self.map.psi / maps.ONE  # (S, A, p)
        shape = (schema.horizon, self.map.states, self.map.actions)
        self.scores, self.fallback = np.zeros(shape), np.zeros(shape[:2], dtype=np.int64)

    def following(self) -> Value | None:
        if self.reward is None or self.reward.table.ndim > 1:
            return self.value
        values = self.value.values if isinstance(self.value, TableValue) else np.zeros(self.map.states + 1)
        return TableValue(values + self.reward.on_arrival(self.schema))

    def _linear(self, weights: FloatArray) -> FloatArray:  # (G, p) → (S, A)
        if self.map.groups == 1:
            return self.psi @ weights[0]
        return (self.psi * weights[self.map.group]).sum(axis=-1)

    def _quadratic(self, inverse: FloatArray) -> FloatArray:  # (G, p, p) → (S, A)
        if self.map.groups == 1:
            return ((self.psi @ inverse[0]) * self.psi).sum(axis=-1)
        return self.psi[..., 0] ** 2 * inverse[self.map.group, 0, 0]  # bins: width 1

    def deviation(self, step: int, covariance: Answer, square: Answer, mean: Answer) -> Deviation:
        inverse, ceiling = self.inverse(covariance), self.schema.horizon - step
        squared = np.clip(self._linear(self.solve(inverse, square)), 0.0, ceiling**2)  # lines 5 to 7
        variance = squared - np.clip(self._linear(self.solve(inverse, mean)), 0.0, ceiling) ** 2
        return TableDeviation(np.sqrt(np.maximum(1.0, variance)))  # line 8

    def improve(self, step: int, gram: Answer, target: Answer) -> None:
        inverse, ceiling = self.inverse(gram), self.schema.horizon - step
        spread = self._quadratic(inverse)
        score = self._linear(self.solve(inverse, target))  # line 10
        if self.reward is not None:
            score += self.reward.at(self.schema, step)
        score -= self.bonus * np.sqrt(spread) + self.constants.margin  # lines 11 and 12
        self.scores[step] = np.clip(score, 0.0, ceiling)  # line 13
        self.fallback[step] = spread.argmin(axis=1)
        end = self.schema.idle * ceiling
        self.value = TableValue(np.append(self.scores[step].max(axis=1), end))  # line 14

    def policy(self, name: str) -> policy.Policy:
        bins = self.map if isinstance(self.map, maps.Bins) else None
        return policy.tabular(name, self.schema, self.scores, self.fallback, bins)


class Continuous(Learner):
    """Action blocks over vector states: scores are functions of ψ."""

    def __init__(self, schema: Schema, features: maps.Blocks, constants: Constants) -> None:
        super().__init__(schema, features, constants)
        self.scores: list[LinearScore] = []  # last step first

    def deviation(self, step: int, covariance: Answer, square: Answer, mean: Answer) -> Deviation:
        inverse = self.inverse(covariance)
        return LinearDeviation(
            self.solve(inverse, square), self.solve(inverse, mean), float(self.schema.horizon - step)
        )

    def improve(self, step: int, gram: Answer, target: Answer) -> None:
        inverse, ceiling = self.inverse(gram), self.schema.horizon - step
        weights = self.solve(inverse, target)
        noise = self.constants.noise(gram.event, self.schema)
        score = linear_score(weights, inverse, self.bonus, self.constants.margin, float(ceiling), noise)
        self.scores.append(score)
        self.value = LinearValue(score, self.schema.idle * ceiling)

    def policy(self, name: str) -> policy.Policy:
        schema = self.schema
        assert isinstance(self.features, maps.Blocks)
        rule = policy.Linear(self.features, tuple(reversed(self.scores)), schema.low, schema.width)
        return policy.Policy(name, schema.horizon, schema.states, schema.actions, rule)


def of(
    schema: Schema, features: maps.FeatureMap, reward: rewards.Known | None, constants: Constants
) -> Finite | Continuous:
    if isinstance(features, maps.Blocks):
        return Continuous(schema, features, constants)
    return Finite(schema, features, reward, constants)
