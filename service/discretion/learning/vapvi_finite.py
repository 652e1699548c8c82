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

When all steps have been asked, they are looked at together (`together`): what a feature is worth at one step is likely
to be near what it is worth at others, and how near is estimated too. Decisions and scores are those of this second
look; the values that targets were made of were released before and stay. It costs nothing: all of it is computed from
what was released. Where steps have nothing in common and data are few, it loses somewhat more than each step by itself
would, a fifth in the worst case that was measured; where they are alike it loses a fraction. Tables too large for it
(H·p³ above 10⁸) are left as each step was seen.

A state's decision is the action of the best pessimistic score if the data say that it beats the best-covered action, by
half a standard deviation of the difference. Else it is the best-covered action (that whose estimate was narrowed most),
labelled `fallback`, unless that is the best itself and its estimate was narrowed to half.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import policy, rewards, whitening
from discretion.learning.curator import Answer
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.values import TableDeviation, TableValue

# The next six were chosen on problems that are not reported. λ = 1 means a prediction of 0 ± 0.22 before the data.
PRECISION: Final = 20.0  # 1/τ² at λ = 1
_SAMPLING: Final = 0.25  # variance of a target within [−1, 1], which is 1 at most
_PENALTY: Final = 10.0  # so that C = 0.1, the default, is one standard deviation
_CONVINCING: Final = 0.5
_NARROWED: Final = 0.5
_USUAL: Final = 10  # steps that the coordinate in the middle counts for
_ROUNDS: Final = 20
_WORK: Final = 1e8  # H·p³ above which every step is left as it was seen
_SHORTEST: Final = 2.0**-10  # of the longest range: shorter ones count as this, so that all can be inverted
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
class Told:
    """What sums alone say of the weights: they are normal of this precision, and signal is precision times mean."""

    precision: FloatArray  # (…, G, p, p)
    signal: FloatArray  # (…, G, p)


@dataclass(frozen=True, eq=False)
class Estimate:
    """ψᵀθ at every (s, a): its mean, variance, and variance before the data was seen; (S, A) each."""

    mean: FloatArray
    variance: FloatArray
    before: FloatArray
    along: FloatArray | None  # (S, A, r) every ψ along independent directions; None: each (s, a) has its own
    directions: FloatArray  # (r,) the variance of θ in these
    told: Told

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
    missed = _missed(gram, moment, sums, prior, freedom / len(gram) ** 2)
    total = prior * gram**2 + missed
    mean, variance = prior * gram * moment / total, prior * missed / total
    precision, signal = gram**2 / missed, gram * moment / missed
    if isinstance(geometry, maps.Bins):
        shape, told = geometry.group.shape, Told(precision[:, None, None], signal[:, None])
        return Estimate(mean.reshape(shape), variance.reshape(shape), np.full(shape, prior), None, variance, told)
    assert along is not None
    axes = geometry.basis.T @ vectors  # (p, r)
    told = Told(((axes * precision) @ axes.T)[None], (axes @ signal)[None])
    return Estimate(along @ mean, along**2 @ variance, prior * (along**2).sum(axis=-1), along, variance, told)


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


def _inverse(matrices: FloatArray) -> FloatArray:  # (…, p, p)
    return 1.0 / matrices if matrices.shape[-1] == 1 else np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:  # (…, p, p), (…, p) → (…, p)
    return np.asarray((matrices @ vectors[..., None])[..., 0], dtype=np.float64)


def _given(told: Told, own: FloatArray, shared: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean (H, G, p) and covariance (H, G, p, p) of μ + δ_h, and the mean square (H, G, p) of δ_h.

    Before the data, μ has this variance in every coordinate, and δ_h, independent of it, the variance own, (G, p).
    """
    unit, inverse = np.eye(own.shape[1]), 1.0 / own
    alone = _inverse(told.precision + unit * inverse[:, None, :])  # given μ
    pull = alone * inverse[:, None, :]  # how far μ draws the weights
    seen = _times(alone, told.signal)
    common = _inverse(unit / shared + ((unit - pull) * inverse[..., None]).sum(axis=0))
    mean = _times(common, (seen * inverse).sum(axis=0))
    weights, rest = seen + _times(pull, mean), unit - pull
    spread = np.diagonal(alone + rest @ common @ rest.swapaxes(-1, -2), axis1=-2, axis2=-1)
    return weights, alone + pull @ common @ pull.swapaxes(-1, -2), (weights - mean) ** 2 + spread


def together(told: Told, prior: float) -> tuple[FloatArray, FloatArray]:  # (H, G, p), (H, G, p, p)
    """Mean and covariance of every step's weights in the light of the others': μ + δ_h, δ_h being the step's own.

    Before the data, μ and δ_h have half of the prior variance each, in every coordinate of ψ. How much is the steps'
    own in a coordinate is then found in rounds of expectation maximisation, where what the coordinate in the middle
    has counts like ten more steps. Where all is noise, nothing moves, and every weight keeps its prior variance.
    """
    own = np.full(told.signal.shape[1:], prior / 2)
    for _ in range(_ROUNDS):
        _, _, squares = _given(told, own, prior / 2)
        usual = float(np.median(squares.mean(axis=0)))
        own = (_USUAL * usual + squares.sum(axis=0)) / (_USUAL + len(squares))
    weights, covariances, _ = _given(told, own, prior / 2)
    return weights, covariances


def seen_together(steps: Sequence[tuple[Told, float]], features: maps.FiniteMap, ridge: float) -> Iterator[Estimate]:
    """What is said of θ_h at every step, and half of its range: what steps may share is half_h·θ_h, in one unit. One
    step after the other, since each is as large as the feature table."""
    halves = np.array([half for _, half in steps])
    halves = np.maximum(halves, _SHORTEST * halves.max())
    precision = np.stack([told.precision / half**2 for (told, _), half in zip(steps, halves, strict=True)])
    signal = np.stack([told.signal / half for (told, _), half in zip(steps, halves, strict=True)])
    prior = float(np.mean(halves**2)) / (PRECISION * ridge)
    weights, covariances = together(Told(precision, signal), prior)
    psi = features.psi / maps.ONE
    for mean, covariance, half, (told, _) in zip(weights, covariances, halves, steps, strict=True):
        yield _estimate_of(features, psi, mean / half, covariance / half**2, prior / half**2, told)


def _estimate_of(
    features: maps.FiniteMap,
    psi: FloatArray,  # (S, A, p)
    weights: FloatArray,  # (G, p)
    covariance: FloatArray,  # (G, p, p)
    prior: float,
    told: Told,
) -> Estimate:
    if isinstance(features, maps.Bins):
        cells, variance = features.group, covariance[:, 0, 0]
        return Estimate(weights[cells, 0], variance[cells], np.full(cells.shape, prior), None, variance, told)
    variance, vectors = np.linalg.eigh(covariance[0])
    variance = np.maximum(variance, 0.0)
    along = (psi.reshape(-1, psi.shape[2]) @ vectors).reshape(psi.shape)
    return Estimate(psi @ weights[0], along**2 @ variance, prior * (psi**2).sum(axis=-1), along, variance, told)


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
        self._seen: dict[int, tuple[Told, Range]] = {}
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
        self._seen[step] = estimated.told, found
        self._decide(step, estimated, found)

    def look_again(self) -> None:
        """All decisions once more, now that every step has been seen; the Ṽ that targets were made of stay."""
        white = self._geometry if isinstance(self._geometry, maps.Bins) else self._geometry.features
        if len(self._seen) < 2 or len(self._seen) * white.groups * white.width**3 > _WORK:
            return
        steps = [(told, found.half) for told, found in self._seen.values()]
        estimates = seen_together(steps, white, self._constants.ridge)
        for step, (_, found) in self._seen.items():  # no name for an estimate: it goes before the next is made
            self._decide(step, next(estimates), found)

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
        steps = np.arange(self._schema.horizon, 0, -1)[:, None]
        scores = self._scores * self._schema.width + self._schema.low * steps
        bins = self._features if isinstance(self._features, maps.Bins) else None
        return policy.of_table(name, self._schema, self._decisions, self._learned, scores, bins)
