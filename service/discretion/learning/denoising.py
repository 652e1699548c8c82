"""What noised counts say about the shares behind them, given that most shares are zero.

A noised count is y = n·p + noise, of n visits a share p. Noise of known size, thousands of counts and few kinds of
shares: the distribution of the p is learned from the released counts themselves (a mixture over fixed levels, by
expectation maximisation), and each p is replaced by its mean given y. All of it is post-processing of released numbers.

| symbol | here                                                                                                |
|--------|-----------------------------------------------------------------------------------------------------|
| y, n   | `Noised.counts`, `.visits`; v, the variance of the noise: `.variance`                                |
| p      | level of the mixture: 0, and a geometric series up to 1                                               |
| w      | `weights`, one distribution over the levels for each group of cells                                   |

The likelihood adds the sampling variance n·p(1 − p) to the noise's, so shares of few visits are shrunk as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discretion.learning.schemas import BoolArray, FloatArray, IntArray

RATIO: Final = 1.25  # of two levels: finer than what the likelihood of any shrunk cell can tell apart
ROUNDS: Final = 25  # of expectation maximisation; directions that are flat after these are not in the data
SAMPLE: Final = 100_000  # cells that the distribution is learned from
CHUNK: Final = 10_000  # cells whose likelihoods fit the cache
PRIOR: Final = 20.0  # cells' worth of the common distribution in that of each group
SURE: Final = 4.0  # deviations from zero after which a share is taken as it was counted
_LEAST: Final = 1e-12  # weight of a level, so that no cell is impossible
_NEVER: Final = -110.0  # the logarithm of less than 32 bits hold: zero
_NEAR: Final = 128  # counts below this are looked up, being few
_FAR, _FAR_LAPLACE = 10.0, 50.0  # deviations of the noise
DOUBT: Final = 1e-3  # or the least probability of zero that still shrinks


@dataclass(frozen=True, eq=False)
class Noised:
    """Noised counts of cells side by side, each with its visits, noise and group."""

    counts: FloatArray  # (M,)
    visits: FloatArray  # (M,) at least 1
    variance: FloatArray  # (M,) of the noise
    group: NDArray[np.integer]  # (M,)
    laplace: bool = False
    sampled: bool = True  # whether counts vary around n·p as those of n visits do

    def __len__(self) -> int:
        return len(self.counts)

    def only(self, which: slice | BoolArray | IntArray) -> "Noised":
        return replace(
            self,
            counts=self.counts[which],
            visits=self.visits[which],
            variance=self.variance[which],
            group=self.group[which],
        )

    def spread(self, levels: FloatArray) -> FloatArray:  # (K, M), variances
        if not self.sampled:
            return np.broadcast_to(self.variance, (len(levels), len(self)))
        share = np.abs(levels)[:, None]
        return self.variance + share * (1 - share) * self.visits

    def likelihood(self, levels: FloatArray) -> FloatArray:  # (K, M), up to a factor of each cell's own
        """Level by level: there are few of them, and long rows are what numpy is fast with."""
        deviation = np.sqrt(self.spread(levels))
        log = levels[:, None] * self.visits
        log -= self.counts
        log /= deviation
        if self.laplace:
            np.abs(log, out=log)
            log *= -math.sqrt(2)
        else:
            log *= log
            log *= -0.5
        log -= log.max(axis=0)
        np.maximum(log, _NEVER, out=log)
        chances = np.exp(log.astype(np.float32)).astype(np.float64)  # six digits, and nine times as fast as sixteen
        chances /= deviation
        return chances


@dataclass(frozen=True, eq=False)
class Mixture:
    levels: FloatArray  # (K,), zero first
    weights: FloatArray  # (groups, K)


def levels(smallest: float, *, below: bool = False, above: bool = True) -> FloatArray:
    """Zero, and shares from the smallest to 1, of the signs that can occur."""
    rungs = np.geomspace(smallest, 1.0, 2 + math.ceil(math.log(1 / smallest) / math.log(RATIO)))
    return np.concatenate(([0.0], rungs if above else [], -rungs if below else []))


def sparse_start(levels: FloatArray, columns: int) -> FloatArray:
    """Weights under which a row of that many cells has one visit's mass, equally much of it at every level."""
    weights = np.zeros(len(levels))
    weights[1:] = 1 / (columns * (len(levels) - 1) * levels[1:])
    weights[1:] *= min(1.0, 0.5 / weights.sum())
    weights[0] = 1 - weights.sum()
    return weights


def fit(
    cells: Noised,
    start: FloatArray,
    levels: FloatArray,
    *,
    groups: int = 1,
    zeros: float = 0.0,
    mass: float | None = None,
) -> Mixture:
    """The distribution of the shares, common first and then of each group.

    `zeros` stands for that many further cells whose share is known to be zero; `mass` is the most that the shares of
    one cell may have on average, because those of a row add up to 1.
    """
    likelihood = cells.likelihood(levels)
    common, size = start[None], np.array([float(len(cells))])
    for _ in range(ROUNDS):
        expected = _expected([likelihood], common)
        expected[:, 0] += zeros
        common = _limited(expected, size + zeros, levels, mass)
    if groups == 1:
        return Mixture(levels, common)
    size = (np.bincount(cells.group, minlength=groups) + PRIOR).astype(np.float64)
    weights, apart = np.repeat(common, groups, axis=0), [likelihood[:, cells.group == group] for group in range(groups)]
    for _ in range(ROUNDS):
        weights = _limited(_expected(apart, weights) + PRIOR * common, size, levels, mass)
    return Mixture(levels, weights)


def _expected(likelihoods: Sequence[FloatArray], weights: FloatArray) -> FloatArray:  # (K, M) each, (groups, K)
    """How many cells of each group are at each level, as far as is known: w·Σ likelihood/(w·likelihood)."""
    pairs = zip(likelihoods, np.maximum(weights, _LEAST), strict=True)
    return np.stack([weight * (likelihood @ (1 / (weight @ likelihood))) for likelihood, weight in pairs])


def _limited(expected: FloatArray, size: FloatArray, levels: FloatArray, mass: float | None) -> FloatArray:
    """The maximisation step; where the shares would add up to too much, with the Lagrange multiplier of their sum."""
    plain = expected / size[:, None]

    def weights(multiplier: float) -> FloatArray:
        found = plain / (1 + multiplier * np.abs(levels))
        found[:, 0] = 1 - found[:, 1:].sum(axis=1)
        return found

    def exceeds(multiplier: float) -> bool:
        return mass is not None and bool(size @ (weights(multiplier) @ levels) > mass * size.sum())

    low, high = 0.0, 0.0
    if exceeds(0.0):
        high = 1.0
        while exceeds(high) and high < 1e9:
            low, high = high, high * 4
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if exceeds(middle) else (low, middle)
    return weights(high)


def posterior(cells: Noised, mixture: Mixture, kind: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each share given its count.

    A share that is surely not zero is taken as it was counted: there the levels are coarser than the count is. Cells of
    one `kind`, ascending, have visits and noise in common and whole counts, so that few of them differ.
    """
    mean, variance = np.empty(len(cells)), np.empty(len(cells))
    for start in range(0, len(cells), CHUNK):
        which = slice(start, start + CHUNK)
        some = cells.only(which)
        if kind is None:
            mean[which], variance[which] = _posterior(some, mixture)
            continue
        chosen, place = _different(some, kind[which], len(mixture.weights))
        found = _posterior(some.only(chosen), mixture)
        mean[which], variance[which] = found[0][place], found[1][place]
    return mean, variance


def _different(cells: Noised, kind: IntArray, groups: int) -> tuple[IntArray, IntArray]:
    """Cells of which no two are alike, but for those of large counts, and for every cell which of them it is like."""
    near = np.abs(cells.counts) < _NEAR
    place = ((kind - kind[0]) * groups + cells.group) * (2 * _NEAR) + np.where(near, cells.counts, 0).astype(np.int64)
    place += _NEAR
    last = np.full(int(place.max()) + 1, -1)
    last[place[near]] = np.flatnonzero(near)
    chosen = last[last >= 0]
    last[last >= 0] = np.arange(len(chosen))
    far = np.flatnonzero(~near)
    index = last[place]
    index[far] = len(chosen) + np.arange(len(far))
    return np.concatenate((chosen, far)), index


def _posterior(cells: Noised, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    around = cells.variance + (np.abs(cells.counts) if cells.sampled else 0.0)
    mean, variance = cells.counts / cells.visits, around / cells.visits**2  # as it was counted
    unclear = np.flatnonzero(~_clear(cells, around, mixture.levels))
    if len(unclear):
        mean[unclear], variance[unclear] = _shrunk(cells.only(unclear), around[unclear], mixture)
    return mean, variance


def _clear(cells: Noised, around: FloatArray, levels: FloatArray) -> BoolArray:
    """Cells whose share is surely not zero whatever the weights are, so that no likelihood needs to be computed.

    Some level is within 1/9 of the share. A count of z deviations of the noise is likelier there than at zero by
    exp(z²/2·(1 − 1/81)) or more with Gaussian noise, exp(√2·z·(1 − 1/9)) with Laplace noise, but for half the logarithm
    of the variances' ratio, and its weight is 10⁻¹² at least: with these z, zero is left 10⁻⁶ and less.
    """
    share, far = cells.counts / cells.visits, _FAR_LAPLACE if cells.laplace else _FAR
    inside = (share >= levels[1]) & (share <= 1.0) if levels[1] > 0 else np.zeros(len(cells), dtype=np.bool_)
    return inside & (cells.counts > far * np.sqrt(cells.variance)) & (cells.counts > SURE * np.sqrt(around))


def _shrunk(cells: Noised, around: FloatArray, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    levels, chances = mixture.levels, cells.likelihood(mixture.levels)
    chances *= np.maximum(mixture.weights, _LEAST).T.take(cells.group, axis=1)
    total, mean, square = np.stack((np.ones_like(levels), levels, levels**2)) @ chances
    mean /= total
    variance = np.maximum(square / total - mean**2, 0.0)
    sure = (chances[0] < DOUBT * total) & (np.abs(cells.counts) > SURE * np.sqrt(around))
    return np.where(sure, cells.counts / cells.visits, mean), np.where(sure, around / cells.visits**2, variance)


def sampled(length: int, columns: int) -> slice:
    """Evenly spread cells of rows with that many columns, few enough to learn from, and of every column."""
    stride = -(-length // SAMPLE)
    while math.gcd(stride, columns) > 1:
        stride += 1
    return slice(None, None, stride)


def closed(mean: FloatArray, variance: FloatArray) -> FloatArray:  # (R, W) each
    """Shares of a row that add up to 1, none below zero: what is too much or too little goes to the least certain.

    max(mean − t·variance, 0) with the t that makes the sum 1: the mean given that sum, if errors were normal.
    """
    variance = variance + 1e-9
    shares = lowered(mean, variance, np.ones(len(mean)))
    shares[shares.sum(axis=1) <= 0] = 1.0
    return shares / shares.sum(axis=1, keepdims=True)


def lowered(values: FloatArray, slopes: FloatArray | None, target: FloatArray) -> FloatArray:  # (R, W) twice, (R,)
    """max(value − t·slope, 0) with the t that makes each row's sum its target, which is above zero; None: slopes of 1.

    Newton's steps on that sum, which is convex in t and made of straight pieces: from below they reach it exactly, for
    each drops values that t has passed, and there are no more steps than values.
    """
    spread = values.shape[1] if slopes is None else slopes.sum(axis=1)
    drops, moving = (values.sum(axis=1) - target) / spread, np.arange(len(values))
    while len(moving):
        which = slice(None) if len(moving) == len(values) else moving
        held, passed = values[which], drops[moving, None]
        if slopes is None:  # counted, not multiplied by: two fifths of the time are saved
            above = held > passed
            slope = np.count_nonzero(above, axis=1)
        else:
            above = held > passed * slopes[which]
            slope = np.einsum("rc,rc->r", slopes[which], above)
        step = (np.einsum("rc,rc->r", held, above) - target[moving]) / np.where(slope > 0, slope, 1.0)
        rises = (slope > 0) & (step > drops[moving])
        drops[moving[rises]], moving = step[rises], moving[rises]
    lower = drops[:, None] if slopes is None else drops[:, None] * slopes
    return np.maximum(values - lower, 0.0)
