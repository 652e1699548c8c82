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
from collections.abc import Sequence
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
_OWN: Final = 0.5  # κ, the part of τ² that is a step's own before the data
_LIKE: Final = 0.3
_ROUNDS: Final = 20
_WORK: Final = 1e9
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
    precision: FloatArray  # (G, p, p) what the sums alone say: θ is normal of this precision,
    signal: FloatArray  # (G, p) and of this precision times its mean

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


def _estimate_of(
    psi: FloatArray,  # (S, A, p)
    groups: IntArray | None,  # (S, A): bins, where p = 1
    weights: FloatArray,  # (G, p)
    covariance: FloatArray,  # (G, p, p)
    prior: float,
) -> Estimate:
    if groups is not None:
        mean, variance = weights[groups, 0], covariance[groups, 0, 0]
        return Estimate(mean, variance, np.full(groups.shape, prior), None, variance.ravel(), covariance, weights)
    directions, vectors = np.linalg.eigh(covariance[0])
    along = (psi.reshape(-1, psi.shape[2]) @ vectors).reshape(psi.shape)
    directions = np.maximum(directions, 0.0)
    before = prior * (psi**2).sum(axis=-1)
    return Estimate(psi @ weights[0], along**2 @ directions, before, along, directions, covariance, weights)


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
    missed = _missed(gram, moment, sums, prior, freedom / len(gram) ** 2)
    total = prior * gram**2 + missed
    mean, variance = prior * gram * moment / total, prior * missed / total
    told, signal = gram**2 / missed, gram * moment / missed
    if isinstance(geometry, maps.Bins):
        shape, told, signal = geometry.group.shape, told[:, None, None], signal[:, None]
        before = np.full(shape, prior)
        return Estimate(mean.reshape(shape), variance.reshape(shape), before, None, variance, told, signal)
    axes = geometry.basis.T @ vectors  # (p, r)
    before = prior * (along**2).sum(axis=-1)
    told, signal = ((axes * told) @ axes.T)[None], (axes @ signal)[None]
    return Estimate(along @ mean, along**2 @ variance, before, along, variance, told, signal)


def _missed(
    gram: FloatArray,  # (r,)
    moment: FloatArray,  # (r,)
    sums: Noisy,
    prior: float,
    spread: float,  # D/r²
) -> FloatArray:
    """N along each direction; ‖θ‖² is the one that comes out, in three rounds."""
    length, missed = prior * len(gram) / 2, np.zeros_like(gram)
    for _ in range(3):
        missed = sums.moment_variance + sums.gram_variance * spread * length + _SAMPLING * gram
        total = prior * gram**2 + missed
        length = float(((prior * gram * moment / total) ** 2).sum() + (prior * missed / total).sum())
    return missed


@dataclass(frozen=True, eq=False)
class Step:
    """What a step's sums say, and the range that its targets were divided by."""

    estimated: Estimate
    found: "Range"


@dataclass(frozen=True, eq=False)
class _Told:
    """The sums of all steps as normal distributions of the weights in one unit, half_h·θ_h."""

    precision: FloatArray  # (H, G, p, p)
    signal: FloatArray  # (H, G, p)

    @classmethod
    def by(cls, steps: Sequence[Step]) -> "_Told":
        precision = [step.estimated.precision / step.found.half**2 for step in steps]
        return cls(np.stack(precision), np.stack([step.estimated.signal / step.found.half for step in steps]))

    def given(self, own: FloatArray, shared: float) -> tuple[FloatArray, FloatArray, FloatArray]:  # (G, p)
        """Mean and covariance of every step's weights and the mean square of what is a step's own in them."""
        inverse = 1.0 / own
        unit = np.eye(own.shape[1])
        alone = _inverse(self.precision + unit * inverse[:, None, :])  # given μ
        pull = alone * inverse[:, None, :]  # how far μ draws the weights
        common = _inverse(unit / shared + ((unit - pull) * inverse[..., None]).sum(axis=0))
        mean = _times(common, (_times(alone, self.signal) * inverse).sum(axis=0))
        weights = _times(alone, self.signal) + _times(pull, mean)
        off = (unit - pull) @ common
        squares = (weights - mean) ** 2 + _diagonal(alone + off @ (unit - pull).swapaxes(-1, -2))
        return weights, alone + pull @ common @ pull.swapaxes(-1, -2), squares


def _inverse(matrices: FloatArray) -> FloatArray:  # (…, p, p)
    return 1.0 / matrices if matrices.shape[-1] == 1 else np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:  # (…, p, p), (…, p) → (…, p)
    return np.asarray((matrices @ vectors[..., None])[..., 0], dtype=np.float64)


def _diagonal(matrices: FloatArray) -> FloatArray:  # (…, p, p) → (…, p)
    return np.asarray(np.diagonal(matrices, axis1=-2, axis2=-1), dtype=np.float64)


def together(steps: Sequence[Step], features: maps.FiniteMap, ridge: float) -> list[Estimate]:
    """Every step's weights, seen in the light of the others': half_h·θ_h = μ + what is the step's own.

    Before the data, μ has variance (1 − κ)T and a step's own part κT, T being the mean of τ²half_h². How much is a
    step's own in each coordinate is then found by expectation maximisation, its first value counting like one step.
    """
    psi, groups = features.psi / maps.ONE, None if isinstance(features, maps.Table) else features.group
    told, prior = _Told.by(steps), float(np.mean([step.found.half**2 for step in steps])) / (PRECISION * ridge)
    own = np.full(told.signal.shape[1:], _OWN * prior)
    for _ in range(_ROUNDS):
        _, _, squares = told.given(own, (1 - _OWN) * prior)
        own = (_LIKE * _OWN * prior + squares.sum(axis=0)) / (_LIKE + len(steps))
    weights, covariances, _ = told.given(own, (1 - _OWN) * prior)
    return [
        _estimate_of(psi, groups, mean / step.found.half, covariance / step.found.half**2, prior / step.found.half**2)
        for mean, covariance, step in zip(weights, covariances, steps, strict=True)
    ]


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
        self._white = features if isinstance(self._geometry, maps.Bins) else self._geometry.features
        self._ends = False
        self._steps: dict[int, Step] = {}
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
        self._steps[step] = Step(estimated, found)
        self._decide(step, estimated, found)

    def look_again(self) -> None:
        """All decisions once more, now that every step has been seen; the Ṽ that targets were made of stay."""
        if len(self._steps) < 2 or len(self._steps) * self._white.width**3 > _WORK:
            return
        found = together(list(self._steps.values()), self._white, self._constants.ridge)
        for (step, seen), estimated in zip(self._steps.items(), found, strict=True):
            self._decide(step, estimated, seen.found)

    def _decide(self, step: int, estimated: Estimate, found: Range) -> None:
        constants = self._constants
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
        self.look_again()
        steps = np.arange(self._schema.horizon, 0, -1)[:, None]
        scores = self._scores * self._schema.width + self._schema.low * steps
        bins = self._features if isinstance(self._features, maps.Bins) else None
        return policy.of_table(name, self._schema, self._decisions, self._learned, scores, bins)
