"""DP-VAPVI on finitely many (s, a), in the `tight` calibration: what is done with a step's released sums.

What one step releases is (Σψψᵀ, Σψy) in whitened coordinates, y being the target centred on and divided by the range of
the next step's released value (and of the reward, where it is observed): y = (x + Ṽ(s′) − mid) / half ∈ [−1, 1].

| symbol | here                                                                                                   |
|--------|--------------------------------------------------------------------------------------------------------|
| G, b   | the noisy Gram matrix and moment; G is projected on what a Gram matrix of so many records can be        |
| s², t² | variance of the noise in an entry of G (before it is averaged with its transpose) and of b              |
| θ      | E[y] = ψᵀθ, supposed to be of variance τ² = 1/20λ in every direction before the data is seen            |
| N_j    | how far b_j is off G_jθ_j, squared: t² + s²·D‖θ‖²/r² + G_j/4, from the noise of b, that of G, and chance |

In the directions of G's eigenvectors θ_j has mean τ²G_j b_j/(τ²G_j² + N_j) and variance τ²N_j/(τ²G_j² + N_j): without
noise that is a ridge regression with 5λ, and where all is noise it is what was supposed. So no direction needs a
floor, and more data or budget narrow the estimate. The penalty is 10C standard deviations (and D/K).

A state's decision is the action of the best pessimistic score if the data say that it beats the best-covered action, by
half a standard deviation of the difference. Else it is the best-covered action (that whose estimate was narrowed most),
labelled `fallback`, unless that is the best itself and its estimate was narrowed to half.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import policy, rewards, whitening
from discretion.learning.curator import Answer
from discretion.learning.trajectories import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.values import TableDeviation, TableValue

# The next five were chosen on problems that are not reported. λ = 1 means a prediction of 0 ± 0.22 before the data.
PRECISION: Final = 20.0  # 1/τ² at λ = 1
_SAMPLING: Final = 0.25  # variance of a target within [−1, 1], which is 1 at most
_PENALTY: Final = 10.0  # so that C = 0.1, the default, is one standard deviation
_CONVINCING: Final = 0.5
_NARROWED: Final = 0.5
_NARROWEST: Final = 1e-9  # of half a range: where all values agree there is nothing to learn
_ENDINGS: Final = 4.5  # standard deviations of its noise above which the number of endings is no noise


@dataclass(frozen=True, eq=False)
class Noisy:
    """Sums over one step with the variances of their noise."""

    gram: FloatArray  # (G, p, p)
    moment: FloatArray  # (G, p)
    gram_variance: float  # s²
    moment_variance: float  # t²

    @classmethod
    def of_joint(cls, answer: Answer, weight: int) -> "Noisy":
        alpha, values, variance = weight / maps.ONE, answer.values, float(answer.event.scale)
        gram = values[..., :-1]
        return cls((gram + gram.swapaxes(1, 2)) / 2, values[..., -1] / alpha, variance, variance / alpha**2)

    @classmethod
    def of_pair(cls, gram: Answer, moment: Answer) -> "Noisy":
        return cls(gram.values, moment.values, 2 * float(gram.event.scale), float(moment.event.scale))


@dataclass(frozen=True, eq=False)
class Estimate:
    """ψᵀθ at every (s, a): its mean, variance, and variance before the data was seen; (S, A) each."""

    mean: FloatArray
    variance: FloatArray
    before: FloatArray
    along: FloatArray | None  # (S, A, r) every ψ along independent directions; None: each (s, a) has its own
    directions: FloatArray  # (r,) the variance of θ in these

    @property
    def narrowed(self) -> FloatArray:  # (S, A)
        """The standard deviation that is left, as a part of what it was."""
        return np.sqrt(self.variance / self.before)

    def between(self, one: IntArray, other: IntArray) -> FloatArray:  # (S,), (S,) → (S,)
        """The standard deviation of the difference of two actions in each state."""
        states = np.arange(len(self.mean))
        if self.along is None:
            apart = self.variance[states, one] + self.variance[states, other]
            return np.where(one == other, 0.0, np.sqrt(apart))
        apart = self.along[states, one] - self.along[states, other]
        return np.sqrt((apart**2) @ self.directions)


def possible(eigenvalues: FloatArray, most: float) -> FloatArray:  # (r,) → (r,)
    """The nearest ones that a Gram matrix of so many records can have: none below zero, and no more in sum."""
    descending = np.sort(eigenvalues)[::-1]
    excess = (np.cumsum(descending) - most) / np.arange(1, len(descending) + 1)
    return np.maximum(eigenvalues - max(0.0, float(excess.max())), 0.0)


def estimate(
    sums: Noisy, geometry: whitening.Geometry | maps.Bins, ridge: float, most: float = math.inf, shift: float = 0.0
) -> Estimate:
    """What the sums of at most so many records say of θ, the noise in them being known."""
    prior = 1.0 / (PRECISION * ridge)
    if isinstance(geometry, maps.Bins):
        gram, moment, along, freedom = sums.gram[:, 0, 0], sums.moment[:, 0], None, geometry.groups
    else:
        basis, freedom = geometry.basis, geometry.freedom
        gram, vectors = np.linalg.eigh(geometry.projected(basis @ sums.gram[0] @ basis.T))
        moment, rows = vectors.T @ (basis @ sums.moment[0]), geometry.coordinates
        along = (rows.reshape(-1, len(basis)) @ vectors).reshape(rows.shape)  # one product, not one a state
    gram = possible(gram, most) + shift / 2
    mean, variance = _weights(gram, moment, sums, prior, freedom / len(gram) ** 2)
    if along is None:
        assert isinstance(geometry, maps.Bins)
        shape = geometry.group.shape
        return Estimate(mean.reshape(shape), variance.reshape(shape), np.full(shape, prior), None, variance)
    return Estimate(along @ mean, along**2 @ variance, prior * (along**2).sum(axis=-1), along, variance)


def _weights(
    gram: FloatArray,  # (r,)
    moment: FloatArray,  # (r,)
    sums: Noisy,
    prior: float,
    spread: float,  # D/r²
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of θ along each direction; ‖θ‖² is the one that comes out, in three rounds."""
    length = prior * len(gram) / 2
    for _ in range(3):
        missed = sums.moment_variance + sums.gram_variance * spread * length + _SAMPLING * gram
        total = prior * gram**2 + missed
        mean, variance = prior * gram * moment / total, prior * missed / total
        length = float((mean**2).sum() + variance.sum())
    return mean, variance


@dataclass(frozen=True)
class Constants:
    ridge: float
    c: float
    margin: float  # D/K
    shift: float  # E
    most: tuple[int, int]  # records of a step in D′ and in D, by public numbers


@dataclass(frozen=True)
class Range:
    """Where targets lie, from released values and the reward's public range."""

    middle: float
    half: float

    @classmethod
    def of(cls, values: FloatArray, extra: float) -> "Range":
        low, high = float(values.min()), float(values.max()) + extra
        return cls((low + high) / 2, max((high - low) / 2, _NARROWEST))

    def within(self, values: FloatArray) -> TableValue:
        return TableValue((values - self.middle) / self.half)


class Backward:
    """The backward pass: holds released numbers only."""

    def __init__(
        self, schema: Schema, features: maps.FiniteMap, reward: rewards.Known | None, constants: Constants
    ) -> None:
        self._schema, self._features, self._reward, self._constants = schema, features, reward, constants
        self._geometry = features if isinstance(features, maps.Bins) else whitening.whitened(features)
        self._value = np.zeros(features.states + 1)  # Ṽ_{H+1} = 0; the last entry is the end's
        self._ends = False
        shape = (schema.horizon, features.states)
        self._decisions, self._scores = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self._learned: BoolArray = np.zeros(shape, dtype=bool)

    def hear_of_endings(self, answer: Answer) -> None:
        self._ends = bool(answer.values[0] > _ENDINGS * math.sqrt(answer.event.scale))

    def _following(self, step: int) -> tuple[FloatArray, FloatArray]:
        """Ṽ_{h+1} with a known reward of arriving, (S + 1,), and those of its entries that set the range.

        Where next to nobody ends early, the end's value, which may lie far from all others, is cut to their range.
        """
        arriving = self._reward is not None and self._reward.table.ndim == 1
        values = self._value
        if arriving and self._reward is not None:
            values = values + self._reward.on_arrival(self._schema)
        ends = self._ends or (arriving and step + 1 == self._schema.horizon)
        return values, values if ends else values[:-1]

    def next_value(self, step: int) -> tuple[TableValue, Range]:
        """Ṽ_{h+1} alone, from which variances are estimated."""
        values, setting = self._following(step)
        found = Range.of(setting, 0.0)
        return found.within(values), found

    def target(self, step: int) -> tuple[TableValue, Range, float]:
        """Ṽ_{h+1} within the target's range, that range, and what a scaled reward of 1 adds to the target."""
        values, setting = self._following(step)
        observed = 1.0 if self._reward is None else 0.0
        found = Range.of(setting, observed)
        return found.within(values), found, observed / found.half

    def deviation(self, found: Range, covariance: Answer, square: Answer, mean: Answer) -> TableDeviation:
        ridge, most = self._constants.ridge, self._constants.most[0]
        pairs = (Noisy.of_pair(covariance, moment) for moment in (square, mean))
        squared, first = (estimate(pair, self._geometry, ridge, most).mean for pair in pairs)
        variance = np.clip(squared, 0.0, 1.0) - np.clip(first, -1.0, 1.0) ** 2
        return TableDeviation(np.sqrt(np.maximum(1.0, found.half**2 * variance)))

    def improve(self, step: int, sums: Noisy, found: Range) -> None:
        constants = self._constants
        estimated = estimate(sums, self._geometry, constants.ridge, constants.most[1], constants.shift)
        score = found.middle + found.half * estimated.mean
        if self._reward is not None:
            score = score + self._reward.at(self._schema, step)
        deviations = _PENALTY * constants.c * np.sqrt(estimated.variance)
        pessimistic = np.clip(score - found.half * deviations - constants.margin, 0.0, self._schema.horizon - step)
        states = np.arange(len(score))
        best, covered = pessimistic.argmax(axis=1), estimated.narrowed.argmin(axis=1)
        gain = score[states, best] - score[states, covered]
        convincing = gain >= _CONVINCING * found.half * estimated.between(best, covered)
        narrow = estimated.narrowed[states, covered] <= _NARROWED
        learned = np.where(best == covered, narrow, convincing)
        self._settle(step, np.where(learned, best, covered), learned, pessimistic)

    def know(self, step: int) -> None:
        """The last step of a known reward for (s, a) needs no data."""
        assert self._reward is not None
        shape = (self._features.states, self._features.actions)
        score: FloatArray = np.broadcast_to(self._reward.at(self._schema, step), shape)
        self._settle(step, score.argmax(axis=1), np.ones(len(score), dtype=bool), score)

    def _settle(self, step: int, decisions: IntArray, learned: BoolArray, scores: FloatArray) -> None:
        value = scores[np.arange(len(scores)), decisions]
        self._decisions[step], self._learned[step], self._scores[step] = decisions, learned, value
        self._value = np.append(value, self._schema.idle * (self._schema.horizon - step))

    def policy(self, name: str) -> policy.Policy:
        steps = np.arange(self._schema.horizon, 0, -1)[:, None]
        scores = self._scores * self._schema.width + self._schema.low * steps
        bins = self._features if isinstance(self._features, maps.Bins) else None
        return policy.of_table(name, self._schema, self._decisions, self._learned, scores, bins)
