"""A kernel from noised first-visit counts: which rows to trust, and the mean of each share given its count.

Cells of one state's actions lend each other what they know: a successor that the other actions lead to is likelier, and
how much likelier is learned from the counts (`denoising`). Everything here is computed from released numbers.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discretion.learning import denoising, sums
from discretion.learning.denoising import Noised
from discretion.learning.schemas import FloatArray, IntArray
from discretion.privacy import events

_LIKELY: Final = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4)  # shares of a successor after other actions, grouped
_SMALLEST: Final = (1e-3, 0.02)  # where the levels of shares begin: half the noise of a usual row, within these
CELLS: Final = 2**18  # denoised at once
_PER_VISIT: Final = 20  # a row needs a visit for so many states,
_FEWEST: Final = 40.0  # and no more than these
_FALSE: Final = 0.1  # of the trusted rows, at most, may be expected to owe it to noise

Float32Array = NDArray[np.float32]
Groups = NDArray[np.int8]


def deviation(event: events.Event) -> float:
    return math.sqrt(variance_of(event))


def variance_of(event: events.Event) -> float:
    """Of the noise in the statistic's own unit; that of the discrete distributions is no larger."""
    return 2 * float(event.scale) ** 2 if event.mechanism == events.LAPLACE else float(event.scale)


@dataclass(frozen=True, eq=False)
class Counted:
    """Noised counts, not clipped; what was drawn, and all that may be used."""

    visits: IntArray  # (S, A)
    rows: IntArray  # (R,) flat (s, a) of the rows drawn, ascending
    transitions: IntArray  # (R, S+1)
    counted: tuple[events.Event, events.Event]  # how visits and transitions were noised


@dataclass(frozen=True, eq=False)
class Model:
    """What is known of the trusted rows."""

    rows: IntArray  # (R,) flat (s, a)
    visits: FloatArray  # (R,) at least 1
    kernel: Float32Array  # (R, S+1)
    variance: Float32Array  # (R, S+1) of the kernel

    def mean(self, following: FloatArray) -> FloatArray:  # (S+1,) → (R,)
        """In as many digits as the kernel has: more would be a copy of it, twice as large, each time."""
        return (self.kernel @ following.astype(np.float32)).astype(np.float64)

    def squared(self, variance: FloatArray) -> FloatArray:  # (S+1,) → (R,)
        """What independent errors of what follows leave in its mean."""
        return (self.kernel**2 @ variance.astype(np.float32)).astype(np.float64)

    def sampling(self, following: FloatArray, mean: FloatArray) -> FloatArray:
        """The part of `spread` that the same visits without noise would leave."""
        centre = following.mean()
        square = self.mean((following - centre) ** 2) - (mean - centre) ** 2
        return np.maximum(square, 0.0) / self.visits

    def spread(self, following: FloatArray, mean: FloatArray) -> FloatArray:
        """The variance of kernel @ following: Σ variance·(following − mean)²."""
        centre = following.mean()
        around, aside = (following - centre).astype(np.float32), mean - centre
        first, second = (self.variance @ part for part in (around, around**2))
        return np.maximum(second - 2 * aside * first + aside**2 * self._whole, 0.0).astype(np.float64)

    @cached_property
    def _whole(self) -> Float32Array:
        return self.variance.sum(axis=1)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The noised transitions of the trusted rows, cell by cell: their own, and those of the state's other actions."""

    rows: IntArray  # (R,) ascending
    states: IntArray  # (R,) ascending
    visits: FloatArray  # (R,) at least 1
    transitions: IntArray  # (R, S+1)
    variance: float
    laplace: bool

    @property
    def columns(self) -> int:
        return self.transitions.shape[1]

    def own(self, cells: IntArray, group: Groups) -> Noised:
        of_row = cells // self.columns
        noise = np.full(len(cells), self.variance)
        return Noised(
            self.transitions.ravel()[cells].astype(np.float64), self.visits[of_row], noise, group, self.laplace
        )

    @cached_property
    def _pooled(self) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """Which of the states that occur each row has, and of these: transitions, visits and rows, added up."""
        _, starts, index, rows = np.unique(self.states, return_index=True, return_inverse=True, return_counts=True)
        return (
            index,
            np.add.reduceat(self.transitions, starts, dtype=np.int64),
            np.add.reduceat(self.visits, starts),
            rows,
        )

    def others(self, cells: IntArray) -> tuple[Noised, IntArray]:
        """What followed the other actions of the state, and how many of these there are; noise adds up."""
        of_row, column = np.divmod(cells, self.columns)
        index, sums, visits, rows = self._pooled
        state = index[of_row]
        others = rows[state] - 1
        pooled = (sums[state, column] - self.transitions.ravel()[cells]).astype(np.float64)
        size = np.maximum(visits[state] - self.visits[of_row], 1.0)
        noise = self.variance * np.maximum(others, 1)
        return Noised(pooled, size, noise, np.zeros(len(cells), dtype=np.int64), self.laplace), others


def least_visits(visits: IntArray, event: events.Event, trust: float) -> float:
    """What noised visits must pass: `trust` deviations, `fewest`, and more where noise alone would let too many rows
    pass. Of k rows above a bound, those of no visits that noise lifts above it may be a tenth (Benjamini and Hochberg).
    """
    ranked = -np.sort(-visits.ravel())
    passing = np.arange(1, len(ranked) + 1)
    sound = np.flatnonzero(len(ranked) * tail(ranked, event) <= _FALSE * passing)
    if not len(sound):
        return math.inf
    enough = max(trust * deviation(event), fewest(len(visits)))
    return max(enough, float(ranked[sound[-1]]) - 0.5)  # half: counts are whole numbers


def fewest(states: int) -> float:
    """However little noise there is, a handful of visits says little about where among so many states they lead."""
    return min(states / _PER_VISIT, _FEWEST)


def tail(noise: IntArray | FloatArray, event: events.Event) -> FloatArray:
    """A bound on how often noise is that large or larger."""
    if event.mechanism == events.LAPLACE:
        return np.exp(-np.maximum(noise / float(event.scale), 0.0)) / 2
    above = np.maximum(noise / math.sqrt(float(event.scale)), 1e-9)
    return np.minimum(np.exp(-(above**2) / 2) / (above * math.sqrt(2 * math.pi)), 0.5)


def _trusted(release: Counted, trust: float) -> _Rows:
    """Rows that enough noised visits speak for; n from these and the sum of the transitions by least squares."""
    visiting, moving = (variance_of(event) for event in release.counted)
    counted = release.visits.ravel()[release.rows]
    trusted = counted > least_visits(release.visits, release.counted[0], trust)
    rows, transitions = release.rows, release.transitions
    if not trusted.all():  # else a large table need not be copied
        rows, transitions, counted = rows[trusted], transitions[trusted], counted[trusted]
    columns = release.transitions.shape[1]
    weight = visiting / (visiting + columns * moving)
    visits = counted + weight * (transitions.sum(axis=1) - counted)
    laplace = release.counted[1].mechanism == events.LAPLACE
    states = rows // release.visits.shape[1]
    return _Rows(rows, states, np.maximum(visits, 1.0), transitions, moving, laplace)


def _likely(table: _Rows, levels: FloatArray) -> Groups:  # (R·(S+1),)
    """The group of each cell: how likely its successor is after the other actions; 0 where there are none."""
    size, columns = table.transitions.size, table.columns
    some, others = table.others(np.arange(0, size, denoising.sampled(size, columns).step))
    some = some.only(others > 0)
    group = np.zeros(size, dtype=np.int8)
    if not len(some):
        return group
    mixture = denoising.fit(some, denoising.sparse_start(levels, columns), levels, mass=1 / columns)

    def sort(cells: IntArray) -> None:
        pooled, others = table.others(cells)
        share, _ = denoising.posterior(pooled, mixture, cells // columns)
        group[cells] = np.where(others > 0, 1 + np.searchsorted(_LIKELY, share), 0)

    _each(sort, size, columns)
    return group


def _each(work: Callable[[IntArray], None], size: int, columns: int) -> None:
    """All cells, some whole rows at a time, by all processors; each piece of work writes to rows of its own."""
    step = max(1, CELLS // columns) * columns
    starts = range(0, size, step)
    with ThreadPoolExecutor(sums.processors()) as pool:
        list(pool.map(lambda start: work(np.arange(start, min(start + step, size))), starts))


def model(release: Counted, trust: float) -> Model:
    table = _trusted(release, trust)
    size, columns = table.transitions.size, table.columns
    kernel, variance = (np.zeros((len(table.rows), columns), dtype=np.float32) for _ in range(2))
    if not size:
        return Model(table.rows, table.visits, kernel, variance)
    levels = denoising.levels(float(np.clip(math.sqrt(table.variance) / 2 / np.median(table.visits), *_SMALLEST)))
    group = _likely(table, levels)
    learned = np.arange(0, size, denoising.sampled(size, columns).step)
    start = denoising.sparse_start(levels, columns)
    mixture = denoising.fit(
        table.own(learned, group[learned]), start, levels, groups=len(_LIKELY) + 2, mass=1 / columns
    )

    def describe(cells: IntArray) -> None:
        found = denoising.posterior(table.own(cells, group[cells]), mixture, cells // columns)
        mean, spread = (part.reshape(-1, columns) for part in found)
        rows = slice(cells[0] // columns, cells[-1] // columns + 1)
        kernel[rows], variance[rows] = denoising.closed(mean, spread), spread

    _each(describe, size, columns)
    return Model(table.rows, table.visits, kernel, variance)
