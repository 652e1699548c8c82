"""Exact sums over trajectories, block by block.

A statistic knows three things together, so that none can drift from the others: how to add a block's records to an
integer `partial` (partials of different blocks simply add), what the finished sum is, and how far replacing one unit
can move it (in `counts` and `regressions`, each with its proof). All arithmetic is on integers, so the order and the
size of blocks change nothing.
"""

import contextvars
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from discretion.learning import blas
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded, Trajectories

_EXACT: Final = 53  # bits of an integer that float64 holds exactly
_SHORTER: Final = 1 - 2.0**-16


class Statistic(Protocol):
    @property
    def schema(self) -> Schema: ...
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def resolution(self) -> Fraction: ...
    @property
    def part(self) -> str: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def squared_sensitivity(self) -> Fraction: ...
    @property
    def absolute_sensitivity(self) -> Fraction | None: ...
    def largest(self, units: int) -> int: ...
    def partial(self) -> IntArray: ...
    def add(self, block: Bounded, units: int, partial: IntArray) -> None: ...
    def finish(self, partial: IntArray) -> IntArray: ...


@dataclass(frozen=True)
class Form:
    """What a partial sum is, apart from its numbers."""

    shape: tuple[int, ...]
    kind: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.kind.itemsize


def form(statistic: Statistic) -> Form:
    """Without the memory: what may be most of it says so itself, and nobody writes to the zeros of another."""
    found: Form | None = getattr(statistic, "form", None)
    if found is None:
        partial = statistic.partial()
        found = Form(partial.shape, partial.dtype)
    return found


def totals(statistics: Sequence[Statistic], trajectories: Trajectories) -> list[IntArray]:
    """The exact sums, in one pass over the blocks."""
    return finished(statistics, partials(statistics, trajectories))


def finished(statistics: Sequence[Statistic], made: Sequence[IntArray]) -> list[IntArray]:
    return [statistic.finish(partial) for statistic, partial in zip(statistics, made, strict=True)]


def partials(statistics: Sequence[Statistic], trajectories: Trajectories, threads: int | None = None) -> list[IntArray]:
    """What the blocks contribute; partials of other blocks simply add, wherever they were made. Each processor, or so
    many threads, reads and adds blocks of its own.

    Statistics that need only so many units, the first `reach`, are a pass of their own, which reads no others; rewards
    are read if one of a pass does not say that it is not `rewarded`.
    """
    made: dict[int, IntArray] = {}
    for reach in {_reach(statistic, trajectories.units) for statistic in statistics}:
        chosen = [index for index, one in enumerate(statistics) if _reach(one, trajectories.units) == reach]
        found = _partials([statistics[index] for index in chosen], trajectories, reach, threads)
        made.update(zip(chosen, found, strict=True))
    return [made[index] for index in range(len(statistics))]


def _reach(statistic: Statistic, units: int) -> int:
    return min(units, getattr(statistic, "reach", units))


def _partials(
    statistics: Sequence[Statistic], everyone: Trajectories, reach: int, threads: int | None
) -> list[IntArray]:
    """Integers add up to the same in any order, so neither threads nor blocks can be told from the sums. Each thread
    has a partial of its own, except of statistics that lock theirs themselves because it may be large."""
    trajectories = everyone.part(0, reach)
    first = [statistic.partial() for statistic in statistics]
    blocks = _Blocks(trajectories.readers(any(getattr(each, "rewarded", True) for each in statistics)))

    def work(partials: Sequence[IntArray]) -> Sequence[IntArray]:
        for read in blocks:
            for piece in read().pieces():
                for statistic, partial in zip(statistics, partials, strict=True):
                    statistic.add(piece, everyone.units, partial)
        return partials

    def begun() -> list[IntArray]:
        return [
            shared if getattr(statistic, "locked", False) else statistic.partial()
            for statistic, shared in zip(statistics, first, strict=True)
        ]

    others = _threads(threads or processors(), trajectories.blocks) - 1
    with ThreadPoolExecutor(max(others, 1)) as pool, blas.one_each() if others else nullcontext():
        # A thread begins without what `numpy.errstate` says here.
        running = [pool.submit(contextvars.copy_context().run, work, begun()) for _ in range(others)]
        work(first)
        for done in running:
            for partial, more in zip(first, done.result(), strict=True):
                if partial is not more:
                    partial += more
    return first


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def _threads(most: int, blocks: object) -> int:
    """No more than there are blocks, where that is known."""
    return max(1, min(most, len(blocks) if isinstance(blocks, Sized) else most))


class _Blocks:
    """What is still to be read, handed out one at a time to whoever asks."""

    def __init__(self, readers: Iterator[Callable[[], Bounded]]) -> None:
        self._readers, self._turn = readers, threading.Lock()

    def __iter__(self) -> Iterator[Callable[[], Bounded]]:
        while True:
            with self._turn:
                read = next(self._readers, None)
            if read is None:
                return
            yield read


def whole(values: FloatArray, most: float) -> FloatArray:
    """Integers of at most that size, truncated toward zero. What a learner hands in may divide by zero or be no number;
    what is summed never is: a NaN would become −2⁶³, and a patient's record would show without noise."""
    found = np.clip(np.asarray(values, dtype=np.float64), -most, most)
    np.trunc(found, out=found)
    np.copyto(found, 0.0, where=np.isnan(found))
    return found


def geometric(first: int, last: int, per_octave: Literal[2, 4]) -> FloatArray:
    """2^first … 2^last, so many in each octave: edges of histograms that count records. By roots of integers, rounded
    once and correctly: no library's `pow` promises the same last bit on every processor."""
    quarters = range(4 * first, 4 * last + 1, 4 // per_octave)
    return np.array([math.ldexp(math.isqrt(math.isqrt(1 << (256 + k % 4))), k // 4 - 64) for k in quarters])


def shortened(entries: FloatArray, owners: IntArray, one: int) -> FloatArray:  # (E,) or (E, p), integers
    """The entries truncated toward zero, each owner's shortened to a length of `one` together. What remains is checked
    in integers: squares of at most 2⁵³ are exact. An owner's result depends on its own entries in their order alone."""
    count = int(owners.max(initial=-1)) + 1
    factors = np.minimum(1.0, one / np.maximum(np.sqrt(_squared(entries, owners, count)), 1.0))
    short = np.trunc(entries * factors[owners].reshape(-1, *(1,) * (entries.ndim - 1)))
    while (over := _squared(short, owners, count) > float(one) ** 2).any():
        rows = over[owners]
        short[rows] = np.trunc(short[rows] * _SHORTER)  # every entry but 0 moves, so this ends
    return short


def shortened_columns(entries: FloatArray, one: int) -> FloatArray:  # (R, B), integers
    """The same where each owner has a column."""
    factors = np.minimum(1.0, one / np.maximum(np.sqrt(squared_columns(entries)), 1.0))
    short = entries * factors
    np.trunc(short, out=short)
    while len(over := np.flatnonzero(squared_columns(short) > float(one) ** 2)):
        short[:, over] = np.trunc(short[:, over] * _SHORTER)
    return short


def squared_columns(entries: FloatArray) -> FloatArray:  # (R, B) → (B,)
    """Row by row, so that a column's sum does not depend on how many others there are."""
    total = np.zeros(entries.shape[1])
    for row in entries:
        total += row * row
    return total


def _squared(entries: FloatArray, owners: IntArray, count: int) -> FloatArray:
    """Column by column, so that a row's sum does not depend on how many others there are."""
    rows = entries * entries if entries.ndim == 1 else np.zeros(len(entries))
    for column in np.ascontiguousarray(entries.T) if entries.ndim > 1 else ():
        rows += column * column
    return np.asarray(np.bincount(owners, weights=rows, minlength=count), dtype=np.float64)  # of none: integers


def by_run(factors: FloatArray, vectors: FloatArray, starts: IntArray) -> FloatArray:  # (R,), (R, p), (S,) → (S, p)
    """Σ factor·vector over each run of rows, which begins where it says: exact while sums of integers stay below 2⁵³.
    First rows of all runs together, then second rows, and so on: twice as fast as numpy's `add.reduceat`."""
    lengths = np.diff(np.append(starts, len(factors)))
    order = np.argsort(-lengths, kind="stable")  # so that those with another row come first
    first, longer = starts[order], np.cumsum(np.bincount(lengths)[::-1])[::-1]
    products = vectors * factors[:, None]
    total = products.take(first, axis=0)
    for row, some in enumerate(longer[2:], 1):
        total[:some] += products.take(first[:some] + row, axis=0)
    found = np.empty_like(total)
    found[order] = total
    return found


def exact_product(left: NDArray[np.number], right: NDArray[np.number], left_bound: int, right_bound: int) -> IntArray:
    """leftᵀ·right of integers (R, p) and (R, q), by float BLAS in pieces small enough to be exact.

    `left` is cut into limbs so that a piece of rows stays below 2⁵³: 4096 rows, or as many as leave a limb of 8 bits.
    The limbs' sums recombine in int64, where only the final total has to fit.
    """
    spare = max(_EXACT - 12 - right_bound.bit_length(), 8)
    limbs = -(-left_bound.bit_length() // spare)
    chunk = 2**_EXACT // (min(2**spare, left_bound + 1) * right_bound)
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), chunk):
        rows, other = left[start : start + chunk], right[start : start + chunk].astype(np.float64, copy=False)
        for limb, piece in enumerate(_limbs(rows, limbs, spare)):
            total += (piece.T @ other).astype(np.int64) << (limb * spare)
    return total


def _limbs(rows: NDArray[np.number], limbs: int, bits: int) -> Iterator[FloatArray]:
    if limbs == 1:
        yield rows.astype(np.float64, copy=False)
        return
    whole = rows.astype(np.int64, copy=False)
    for limb in range(limbs):
        piece = whole >> (limb * bits)
        yield (piece if limb == limbs - 1 else piece & ((1 << bits) - 1)).astype(np.float64)
