"""What a pooled learner released so far, evaluated on one record at a time: what actions are worth, and who takes them.

| here   | is                                                                                                   |
|--------|------------------------------------------------------------------------------------------------------|
| mean   | Q̃(x, a) = base + ψᵀw_a                                                                              |
| share  | how often the recorded doctors take action a in state x, about: frequency_a + ψᵀv_a                  |

An action is *supported* where its share is not below a stated part of the largest share: what hardly anybody did, the
data cannot tell about. A decision is the supported action with the best mean. Where there is no choice, or nothing was
learned, it is the action taken most often, and it says so.

Products over rows add up exactly (see `values`), the rest is elementwise: a record's values are its own to the last
bit.
"""

from dataclasses import dataclass

import numpy as np

from discretion.learning.features import ONE
from discretion.learning.schemas import BoolArray, FloatArray, IntArray
from discretion.learning.values import on_grid


def _products(factors: FloatArray, psi: FloatArray) -> FloatArray:  # (…, p), (R, p) → (…, R)
    return np.asarray((factors * (1.0 / ONE)) @ psi.T)  # by a power of two: exact


@dataclass(frozen=True, eq=False)
class Score:
    """The released numbers of one group of steps, rewards over the width of their range."""

    base: float  # what an average step is worth, and what a state is of which nothing is known
    support: float  # the least share of a supported action, relative to the largest
    informed: bool  # whether anything was learned
    weights: FloatArray  # (A, p) w, put on their grid
    shares: FloatArray  # (A, p) v, put on their grid
    frequencies: FloatArray  # (A,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", on_grid(self.weights))
        object.__setattr__(self, "shares", on_grid(self.shares))

    def mean(self, psi: FloatArray, action: int | None = None) -> FloatArray:  # (R, p) → (A, R), or (R,) of one action
        weights = self.weights if action is None else self.weights[action]
        return self.base + _products(weights, psi)

    def share(self, psi: FloatArray) -> FloatArray:  # (R, p) → (A, R)
        return self.frequencies[:, None] + _products(self.shares, psi)

    def judged(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:  # (R, p) → (A, R) each
        """The means of supported actions, −∞ for others, and the shares."""
        share = self.share(psi)
        return self.supported(self.mean(psi), share), share

    def supported(self, mean: FloatArray, share: FloatArray) -> FloatArray:  # (A, R) each
        least = self.support * np.maximum(share.max(axis=0), 0.0)
        return np.where(share >= least, mean, -np.inf)

    def choose(self, psi: FloatArray) -> tuple[IntArray, BoolArray, FloatArray]:  # (R, p) → (R,) each
        """The action, whether it was learned, and its mean."""
        mean, share = self.judged(psi)
        learned = self.informed & ((mean > -np.inf).sum(axis=0) > 1)
        action = np.where(learned, mean.argmax(axis=0), share.argmax(axis=0))
        return action, learned, self.mean(psi)[action, np.arange(len(psi))]


@dataclass(frozen=True, eq=False)
class StateValue:
    """V(x) = clip(base + ψᵀw) within what is possible; the end is worth nothing."""

    base: float
    weights: FloatArray  # (p,), put on their grid
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", on_grid(self.weights))

    def predicted(self, psi: FloatArray) -> FloatArray:  # (R, p) → (R,)
        return self.base + (psi @ self.weights) * (1.0 / ONE)

    def of(self, psi: FloatArray) -> FloatArray:  # (R, p) → (R,)
        return np.minimum(np.maximum(self.predicted(psi), self.low), self.high)


@dataclass(frozen=True, eq=False)
class Value:
    """V(x) = max of Q̃(x, a) over the supported actions, within the range it has over public states."""

    score: Score
    low: float
    high: float

    def of(self, psi: FloatArray) -> FloatArray:  # (R, p) → (R,)
        return self.best(psi)[0]

    def best(self, psi: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:  # (R, p) → (R,), (R,), (A, R)
        """The value, the action that has it, and the means of all."""
        mean, share = self.score.mean(psi), self.score.share(psi)
        supported = self.score.supported(mean, share)
        action = supported.argmax(axis=0)
        return np.minimum(np.maximum(supported.max(axis=0), self.low), self.high), action, mean
