"""Does a sample follow a discrete Gaussian or Laplace law? Shared by the tests and by the evidence at 10^8 draws.

The expected probabilities are plain float sums of exp(-x²/(2σ²)) or exp(-|x|/scale): nothing here knows how the
sampler works. A fit is three tests (cells, variance, mean), and its verdict allows for having looked three times.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Draw = Callable[[int], Ints]  # so many draws, please

# One fit in 10^9 fails although all is well: a hundred of them keep false alarms below one run in 10^6.
ALARM = 1e-9
FEWEST = 25.0  # draws expected in a cell, so that chi-square holds even at the far end of its tail
_BATCH = 10**7


@dataclass(frozen=True)
class Reference:
    """Probabilities of the cells first, first + width, …, and the moments of the law (its mean is zero)."""

    first: int
    width: int
    probabilities: Floats
    variance: float
    fourth: float


@dataclass(frozen=True)
class Fit:
    cells: int
    variance: float
    expected_variance: float
    cells_p: float
    variance_p: float
    mean_p: float

    @property
    def p(self) -> float:
        return min(1.0, 3 * min(self.cells_p, self.variance_p, self.mean_p))

    @property
    def accepted(self) -> bool:
        return self.p > ALARM


def gaussian(variance: Fraction) -> Reference:
    sigma = math.sqrt(variance)
    return _reference(math.ceil(9.5 * sigma) + 2, max(1, int(sigma / 60)), lambda x: x * x / (2 * float(variance)))


def laplace(scale: Fraction) -> Reference:
    return _reference(math.ceil(45 * scale) + 2, max(1, int(scale / 60)), lambda x: x / float(scale))


def _reference(reach: int, width: int, exponent: Callable[[Floats], Floats]) -> Reference:
    """Sum the weights of the integers of each cell, in pieces of whole cells; the cells are symmetric up to one."""
    cells = reach // width + 1
    first = -cells * width
    weights, second, fourth = np.zeros(2 * cells), 0.0, 0.0
    per_piece = max(1, 10**6 // width)
    for start in range(0, 2 * cells, per_piece):
        stop = min(start + per_piece, 2 * cells)
        x = np.abs(np.arange(first + start * width, first + stop * width, dtype=np.float64))
        weight = np.exp(-exponent(x))
        weights[start:stop] = weight.reshape(-1, width).sum(axis=1)
        second += float((weight * x**2).sum())
        fourth += float((weight * x**4).sum())
    total = float(weights.sum())
    return Reference(first, width, weights / total, second / total, fourth / total)


@dataclass
class Tally:
    """Counts and moments of as many batches as one likes."""

    reference: Reference
    draws: int = 0
    total: float = 0.0
    squares: float = 0.0
    counts: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.reference.probabilities.size, np.int64)

    def add(self, draws: Ints) -> None:
        last = self.counts.size - 1
        cells = np.clip((draws - self.reference.first) // self.reference.width, 0, last)
        self.counts += np.bincount(cells, minlength=last + 1)
        self.draws += draws.size
        real = draws.astype(np.float64)
        self.total += float(real.sum())
        self.squares += float(np.dot(real, real))

    def fit(self) -> Fit:
        reference, draws = self.reference, self.draws
        observed, expected = _pooled(self.counts, reference.probabilities * draws)
        variance = self.squares / draws  # around the known mean, zero
        spread = math.sqrt((reference.fourth - reference.variance**2) / draws)
        return Fit(
            cells=observed.size,
            variance=variance,
            expected_variance=reference.variance,
            cells_p=float(stats.chi2.sf(float(((observed - expected) ** 2 / expected).sum()), observed.size - 1)),
            variance_p=_two_sided((variance - reference.variance) / spread),
            mean_p=_two_sided(self.total / draws / math.sqrt(reference.variance / draws)),
        )


def fit(draw: Draw, reference: Reference, draws: int) -> Fit:
    tally = Tally(reference)
    for size in _batches(draws):
        tally.add(draw(size))
    return tally.fit()


def same_law(ones: Ints, others: Ints) -> float:
    """The p-value of a chi-square test that two samples come from one law."""
    first = min(ones.min(), others.min())
    size = int(max(ones.max(), others.max()) - first) + 1
    table = np.stack([np.bincount(sample - first, minlength=size) for sample in (ones, others)]).astype(np.float64)
    rare = table.sum(axis=0) < 4 * FEWEST
    pooled = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return float(stats.chi2_contingency(pooled[:, pooled.sum(axis=0) > 0]).pvalue)


def _batches(draws: int) -> Iterator[int]:
    for start in range(0, draws, _BATCH):
        yield min(_BATCH, draws - start)


def _pooled(observed: Ints, expected: Floats) -> tuple[Floats, Floats]:
    """Cells with few expected draws are counted together, apart for either side, so that no test rests on a handful."""
    common = np.flatnonzero(expected >= FEWEST)
    low, high = common[0] + 1, common[-1]  # a side joins the last cell that is common enough
    cuts = np.array([0, *range(low, high + 1)])
    return np.add.reduceat(observed.astype(np.float64), cuts), np.add.reduceat(expected, cuts)


def _two_sided(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))
