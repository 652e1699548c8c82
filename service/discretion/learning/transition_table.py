"""Where a judged policy goes and what it earns there, from a table of transitions: the second way of `occupancy`, whose
words these are.

The table, sums of rewards, and where trajectories start are asked for once; everything else is arithmetic.

A *live* cell is one that has visits which stand for the policy: a trusted decision, a place where everyone stands in,
the pool. Which ones these are, counts that were released and the policy tell, before the table is asked for. Their rows
alone are summed, drawn and held: no more than S + 1 if the policy decides alike at every step.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning import denoising, followed, occupancy, outcomes, potential
from discretion.learning.asking import Asker, deviation
from discretion.learning.occupancy import Counts, Estimate, MeanSizes
from discretion.learning.schemas import FloatArray, IntArray

_TINY: Final = 1e-300
_ENTRIES: Final = 2**20  # of the table that are looked at together, whatever its size


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Of the live cells, a row each; behind them a row of zeros, for cells of which nothing is known."""

    live: IntArray  # (R,) cells, ascending
    stands: IntArray  # (H, S + 1) rows, like those of `Counts` for cells
    shares: FloatArray  # (R + 1, S + 2) the last column is the end's
    doubt: FloatArray  # (R, S + 2) their variance


def estimate(asker: Asker, counts: Counts, sizes: MeanSizes, settled: potential.Potential | None = None) -> Estimate:
    """Everything from a table of transitions, sums of rewards, and where trajectories start."""
    states = asker.schema.count
    kernel = _transitions(asker, counts)
    expected = np.zeros(len(kernel.live))
    if settled is not None:
        _last(kernel, counts, settled.ended(asker.units))
        expected = _improves(kernel, counts.judged)
    reward, unsure = _rewards(asker, counts, sizes, kernel.live, expected)
    starts = asker.ask(outcomes.Arrivals(counts.judged, np.zeros(states + 1), 1.0))
    start = _on_simplex(starts.values / max(float(starts.values.sum()), 1.0))
    values = _backwards(counts, kernel, reward)
    variance = np.zeros(len(counts.cells))
    variance[kernel.live] = unsure + _spread(kernel, values[0])
    place = np.arange(states) if counts.judged.place is None else counts.judged.place
    *by_step, last = _forwards(counts, kernel, start)
    return Estimate(np.array(by_step), values[:, np.append(place, states + 1)], variance, variance, last=last)


def _transitions(asker: Asker, counts: Counts) -> _Kernel:
    cells, states = counts.cells, asker.schema.count
    standing = float(cells[states * asker.schema.actions :].sum()) / asker.units
    live = np.flatnonzero(cells > 0)
    radius = math.sqrt(counts.judged.limits.followed + occupancy.VISITED_LIMIT * standing)
    moved = asker.ask(outcomes.Transitions(counts.judged, radius, live))
    # A run that was interrupted before rows were chosen recalls the whole table.
    table = moved.grid if len(moved.grid) == len(live) else moved.grid[live]
    rows = np.full(len(cells), len(live))
    rows[live] = np.arange(len(live))
    unit, noise = float(moved.event.resolution) * radius, deviation(moved) * radius
    return _Kernel(live, rows[counts.stands], *_shares_of(table, unit, np.maximum(cells[live], 1.0), noise))


def _shares_of(
    table: IntArray, unit: float, visits: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:  # (R, S + 2) in units, (R,) → (R + 1, S + 2), (R, S + 2)
    """Some rows at a time: the table may be most of the memory."""
    rows, columns = table.shape
    shares, doubt = np.zeros((rows + 1, columns)), np.zeros((rows, columns))
    if not rows:
        return shares, doubt

    def noised(which: IntArray) -> denoising.Noised:
        return _noised(table.reshape(-1)[which].astype(np.float64) * unit, visits[which // columns], noise)

    levels = _levels(noise, visits)
    some = np.arange(0, table.size, denoising.sampled(table.size, columns).step)
    mixture = _mixture(noised(some), levels, mass=1 / columns)
    for part in _parts(rows, columns):
        found = denoising.posterior(noised(np.arange(part.start * columns, part.stop * columns)), mixture)
        mean, doubt[part] = (each.reshape(-1, columns) for each in found)
        shares[part] = denoising.closed(mean, doubt[part])
    return shares, doubt


def _parts(rows: int, columns: int) -> list[slice]:
    step = max(1, _ENTRIES // columns)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _last(kernel: _Kernel, counts: Counts, ended: float) -> None:
    """With no more ends than there are, and no pool where nobody is pooled: noise makes some of what is never negative
    positive, and over a horizon even one in a hundred adds up."""
    shares = kernel.shares
    shares[:, -2] *= counts.cells[-1] > 0
    often = float((counts.recorded * shares[kernel.stands[0], -1]).sum())
    shares[:, -1] *= min(1.0, ended / max(often, _TINY))
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), _TINY)


def _improves(kernel: _Kernel, judged: followed.Judged) -> FloatArray:  # (R,)
    """By how much the next state is better, of those that go on, as far as the table knows."""
    on, now = kernel.shares[:-1, :-1], occupancy.phi_by_cell(judged)[kernel.live]
    return np.asarray(on @ occupancy.phi_by_place(judged) / np.maximum(on.sum(axis=1), _TINY) - now)


def _spread(kernel: _Kernel, values: FloatArray) -> FloatArray:  # (S + 2,) → (R,)
    """The variance of what follows, by that of the shares."""
    found = np.zeros(len(kernel.live))
    for part in _parts(*kernel.doubt.shape):
        mean = kernel.shares[part] @ values
        found[part] = (kernel.doubt[part] * (values - mean[:, None]) ** 2).sum(axis=1)
    return found


def _backwards(counts: Counts, kernel: _Kernel, reward: FloatArray) -> FloatArray:
    """V by step and place, (H + 1, S + 2), from the last step back."""
    horizon, (low, high) = followed.pooled_steps(counts.judged.schema), occupancy.possible_range(counts.judged)
    values = np.zeros((horizon + 1, counts.judged.schema.count + 2))
    for step in reversed(range(horizon)):
        cells, found = counts.stands[step], reward + kernel.shares @ values[step + 1]
        values[step, :-1] = np.clip(found[kernel.stands[step]], low[cells], high[cells])
    return values


def _forwards(counts: Counts, kernel: _Kernel, start: FloatArray) -> FloatArray:
    """The occupancy by step and place, (H + 1, S + 1), from the first step on to the one behind the last."""
    horizon, rows = followed.pooled_steps(counts.judged.schema), len(kernel.shares)
    found = np.empty((horizon + 1, counts.judged.schema.count + 1))
    found[0] = start
    for step in range(horizon):
        by_row = np.bincount(kernel.stands[step], weights=found[step], minlength=rows)  # places may share a row
        found[step + 1] = (by_row @ kernel.shares)[:-1]
    return found


def _rewards(
    asker: Asker, counts: Counts, sizes: MeanSizes, live: IntArray, expected: FloatArray
) -> tuple[FloatArray, FloatArray]:  # (R + 1,), (R,)
    """The mean reward of each live cell, behind them that of all; the variance of each, as far as noise lets it be told
    from what was expected."""
    idle, visits = asker.schema.idle, np.maximum(counts.cells[live], 1.0)
    either = counts.judged.potential is not None  # with it visits are paid above and below zero
    _, radius = occupancy.centred(asker, counts, sizes, None)
    paid = asker.ask(outcomes.Targets(counts.judged, None, 0.0, radius))
    mean = 2 * float(paid.values[-1]) * radius / max(float(counts.cells.sum()), 1.0)
    if not len(live):
        return np.array([mean]), np.zeros(0)
    noise = deviation(paid) * radius
    rest = _noised(paid.values[live] * radius - visits * expected, visits, noise)
    levels = _levels(noise, visits, below=either or idle > 0, above=either or idle < 1)
    some = rest.only(denoising.sampled(len(rest), 1))
    found, unsure = denoising.posterior(rest, _mixture(some, levels))
    return np.append(expected + found, mean), unsure


def _levels(noise: float, visits: FloatArray, *, below: bool = False, above: bool = True) -> FloatArray:
    return denoising.levels(float(np.clip(noise / 2 / np.median(visits), 1e-3, 0.5)), below=below, above=above)


def _noised(sums: FloatArray, visits: FloatArray, noise: float) -> denoising.Noised:
    """Sums over visits, as shares of which most may be zero."""
    group, variance = np.zeros(len(sums), dtype=np.int64), np.full(len(sums), noise**2)
    return denoising.Noised(sums, visits, variance, group, sampled=False)


def _mixture(some: denoising.Noised, levels: FloatArray, mass: float | None = None) -> denoising.Mixture:
    start = np.full(len(levels), 0.5 / (len(levels) - 1))
    start[0] = 0.5
    return denoising.fit(some, start, levels, mass=mass)


def _on_simplex(shares: FloatArray) -> FloatArray:
    """The closest shares that add up to 1, none below zero."""
    descending = -np.sort(-shares)
    drops = (np.cumsum(descending) - 1.0) / np.arange(1, len(shares) + 1)
    return np.maximum(shares - drops[max(int((descending > drops).sum()), 1) - 1], 0.0)
