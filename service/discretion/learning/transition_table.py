"""Where a judged policy goes and what it earns there, from a table of transitions: the second way of `occupancy`, whose
words these are.

The table, sums of rewards, and where trajectories start are asked for once; everything else is arithmetic.
"""

import math
from typing import Final

import numpy as np

from discretion.learning import denoising, followed, occupancy, outcomes, potential
from discretion.learning.asking import Asker, deviation
from discretion.learning.occupancy import Counts, Estimate, MeanSizes
from discretion.learning.schemas import FloatArray, IntArray

_TINY: Final = 1e-300


def estimate(asker: Asker, counts: Counts, sizes: MeanSizes, settled: potential.Potential | None = None) -> Estimate:
    """Everything from a table of transitions, sums of rewards, and where trajectories start."""
    states, live = asker.schema.count, np.flatnonzero(counts.cells > 0)
    kernel, doubt = _transitions(asker, counts, live)
    expected = np.zeros(len(kernel))
    if settled is not None:
        kernel = _lasting(kernel, counts, settled.ended(asker.units))
        expected = _improves(kernel, counts.judged)
    reward, unsure = _rewards(asker, counts, sizes, live, expected)
    starts = asker.ask(outcomes.Arrivals(counts.judged, np.zeros(states + 1), 1.0))
    start = _on_simplex(starts.values / max(float(starts.values.sum()), 1.0))
    values = _backwards(counts, kernel, reward)
    variance = unsure + (doubt * (values[0] - kernel @ values[0][:, None]) ** 2).sum(axis=1)
    place = np.arange(states) if counts.judged.place is None else counts.judged.place
    *by_step, last = _forwards(counts, kernel, start)
    return Estimate(np.array(by_step), values[:, np.append(place, states + 1)], variance, variance, last=last)


def _transitions(asker: Asker, counts: Counts, live: IntArray) -> tuple[FloatArray, FloatArray]:  # (cells, S + 2) each
    """The kernel of each cell, the last column the end's, and its variance."""
    cells, states = counts.cells, asker.schema.count
    standing = float(cells[states * asker.schema.actions :].sum()) / asker.units
    table = outcomes.Transitions(
        counts.judged, math.sqrt(counts.judged.limits.followed + occupancy.VISITED_LIMIT * standing)
    )
    moved = asker.ask(table)
    kernel, doubt = np.zeros((2, len(cells), states + 2))
    if len(live):
        noise, visits = deviation(moved) * table.radius, np.maximum(cells, 1.0)
        kernel[live], doubt[live] = _kernel(moved.values[live] * table.radius, visits[live], noise)
    return kernel, doubt


def _lasting(kernel: FloatArray, counts: Counts, ended: float) -> FloatArray:
    """With no more ends than there are, and no pool where nobody is pooled: noise makes some of what is never negative
    positive, and over a horizon even one in a hundred adds up."""
    fewer = kernel.copy()
    fewer[:, -2] *= counts.cells[-1] > 0
    often = float((counts.recorded * fewer[counts.stands[0], -1]).sum())
    fewer[:, -1] *= min(1.0, ended / max(often, _TINY))
    return fewer / np.maximum(fewer.sum(axis=1, keepdims=True), _TINY)


def _improves(kernel: FloatArray, judged: followed.Judged) -> FloatArray:  # (cells,)
    """By how much the next state is better, of those that go on, as far as the table knows."""
    on = kernel[:, :-1]
    return np.asarray(
        on @ occupancy.phi_by_place(judged) / np.maximum(on.sum(axis=1), _TINY) - occupancy.phi_by_cell(judged)
    )


def _backwards(counts: Counts, kernel: FloatArray, reward: FloatArray) -> FloatArray:
    """V by step and place, (H + 1, S + 2), from the last step back."""
    horizon = followed.pooled_steps(counts.judged.schema)
    values, possible = np.zeros((horizon + 1, counts.judged.schema.count + 2)), occupancy.possible_range(counts.judged)
    for step in reversed(range(horizon)):
        values[step, :-1] = np.clip(reward + kernel @ values[step + 1], *possible)[counts.stands[step]]
    return values


def _forwards(counts: Counts, kernel: FloatArray, start: FloatArray) -> FloatArray:
    """The occupancy by step and place, (H + 1, S + 1), from the first step on to the one behind the last."""
    horizon = followed.pooled_steps(counts.judged.schema)
    found = np.empty((horizon + 1, counts.judged.schema.count + 1))
    found[0] = start
    for step in range(horizon):
        found[step + 1] = (found[step] @ kernel[counts.stands[step]])[:-1]
    return found


def _rewards(
    asker: Asker, counts: Counts, sizes: MeanSizes, live: IntArray, expected: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The mean reward of each cell and its variance, as far as noise lets it be told from what was expected."""
    idle, visits = asker.schema.idle, np.maximum(counts.cells, 1.0)
    either = counts.judged.potential is not None  # with it visits are paid above and below zero
    _, radius = occupancy.centred(asker, counts, sizes, None)
    paid = asker.ask(outcomes.Targets(counts.judged, None, 0.0, radius))
    mean = 2 * float(paid.values[-1]) * radius / max(float(counts.cells.sum()), 1.0)
    reward, unsure = np.full(len(visits), mean), np.zeros(len(visits))
    if len(live):
        sums, noise = paid.values[:-1][live] * radius - (visits * expected)[live], deviation(paid) * radius
        levels = _levels(noise, visits[live], below=either or idle > 0, above=either or idle < 1)
        found, unsure[live] = _shares(sums, visits[live], noise, levels)
        reward[live] = expected[live] + found
    return reward, unsure


def _levels(noise: float, visits: FloatArray, *, below: bool = False, above: bool = True) -> FloatArray:
    return denoising.levels(float(np.clip(noise / 2 / np.median(visits), 1e-3, 0.5)), below=below, above=above)


def _shares(
    sums: FloatArray, visits: FloatArray, noise: float, levels: FloatArray, columns: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Sums over visits as shares of them, of which most may be zero: mean and variance, given the noise."""
    group, variance = np.zeros(len(sums), dtype=np.int64), np.full(len(sums), noise**2)
    cells = denoising.Noised(sums, visits, variance, group, sampled=False)
    start = np.full(len(levels), 0.5 / (len(levels) - 1))
    start[0] = 0.5
    some = cells.only(denoising.sampled(len(cells), columns))
    return denoising.posterior(cells, denoising.fit(some, start, levels, mass=1 / columns if columns > 1 else None))


def _kernel(table: FloatArray, visits: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:  # (R, S + 2) each
    rows, columns = table.shape
    found = _shares(table.ravel(), np.repeat(visits, columns), noise, _levels(noise, visits), columns)
    mean, variance = (part.reshape(rows, columns) for part in found)
    return denoising.closed(mean, variance), variance


def _on_simplex(shares: FloatArray) -> FloatArray:
    """The closest shares that add up to 1, none below zero."""
    descending = -np.sort(-shares)
    drops = (np.cumsum(descending) - 1.0) / np.arange(1, len(shares) + 1)
    return np.maximum(shares - drops[max(int((descending > drops).sum()), 1) - 1], 0.0)
