"""Where a judged policy goes and what it earns there, estimated from private sums (see `followed` and `outcomes`).

Two ways, by a public rule: *rounds* of sums, each for what the one before changed, whose noise grows with their number;
or a *table* of transitions, whose noise reaches a value by the root of the number of states. The first tells more with
many states for the patients and the budget, the second (`transition_table`) with few.

| here        | is                                                                                           |
|-------------|----------------------------------------------------------------------------------------------|
| place       | a state, or the pool of rare states (number S)                                               |
| cell        | a decision (s, a) with enough followed visits, or a place where everyone's visits stand in    |
| stands      | for each step and state the cell whose visits stand for the policy's decision                 |

Rewards and values are in widths of the declared reward, so that the end earns 0. Noise is shrunk, sampling is not: the
score of `fqe` uses the same patients, and then sampling errors of values cancel, noise does not.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discretion.learning import followed, outcomes, potential
from discretion.learning.asking import Asker, deviation, total_range
from discretion.learning.schemas import BoolArray, FloatArray, IntArray

REACH: Final = 1.6  # a radius, in the expected length of a unit's vector
# A unit's visits are taken up to a squared length L of their counts. Noise grows with √L, and what is left out of long
# stays shrinks with it; these are the compromise, in a unit's mean number of such visits.
FOLLOWED_LIMIT: Final = 2.25  # of visits that followed the policy
VISITED_LIMIT: Final = 2.5  # of all visits
FEWEST: Final = 8.0  # visits without which nothing is said about a cell, whatever the noise
PRIOR: Final = 0.15  # how wrong a total may be that rests on a prior
WITH_TOTAL: Final = math.sqrt(1.25)  # sums are released beside half their total
_TINY: Final = 1e-300


@dataclass(frozen=True)
class MeanSizes:
    """Means over units; never below what their noise could hide."""

    followed: float  # visits whose action the policy takes at some step
    visits: float
    length: float  # visits of a trajectory
    squares: float  # Σ r²
    sharpness: float  # Σ r⁴ / Σ r²: the square of a reward that matters


def mean_sizes(asker: Asker, judged: followed.Judged) -> MeanSizes:
    answer = asker.ask(followed.UnitSizes(judged))
    scale = asker.schema.horizon * asker.schema.per_unit / asker.units
    floor, found = deviation(answer) * scale, [float(value) * scale for value in answer.values]
    squares = max(found[2], floor, 1e-3)
    sharpness = min(max(found[3], floor, 1e-6) / squares, 1.0)
    visits = max(found[1], 2 * floor, 1.0)
    # Over m, not H·m; a unit has one at least, or counts nowhere.
    several = [min(max(value / asker.schema.horizon, 1.0), visits) for value in found[4:]]
    return MeanSizes(max(found[0], 2 * floor, 0.5), visits, visits / math.prod(several), squares, sharpness)


@dataclass(frozen=True, eq=False)
class Counts:
    """How many visits stand for the policy."""

    judged: followed.Judged
    cells: FloatArray  # (S·A + S + 1,) 0 where nothing stands for anything
    places: FloatArray  # (S + 1,) visits at steps at which the policy decides so
    recorded: FloatArray  # (S + 1,) how often a recorded trajectory is there
    stands: IntArray  # (H, S + 1) by state, and for the pool
    supported: BoolArray  # (S + 1,) the decision itself is judged there
    by_state: FloatArray  # (S,) shares of the visits, the pool's spread over its states
    acted: FloatArray  # (S + 1,) the share of a place's visits that stand for the decision of the last step
    followers: FloatArray  # (S + 1,) how many of a place's visits followed the policy, where everyone stands in
    unsure: float  # how wrong these may be together, as a share of them


def count(asker: Asker, sizes: MeanSizes, policy: followed.Judged, support: float) -> Counts:
    """A decision with too few followed visits is not judged: what everyone did there stands in for it."""
    limits = followed.Limits(math.ceil(FOLLOWED_LIMIT * sizes.followed), math.ceil(VISITED_LIMIT * sizes.visits))
    judged = replace(policy, limits=limits)
    follow, visit = asker.ask(followed.Followed(judged)), asker.ask(followed.Visited(judged))
    radius = math.sqrt(limits.visited)
    table, visited = follow.values * math.sqrt(limits.followed), visit.values * radius
    noise = deviation(follow) * math.sqrt(limits.followed)
    trusted, table = _trusted(judged, table, support, noise)
    enough = visited > max(support * deviation(visit) * radius, FEWEST)
    states = asker.schema.count
    place = np.where(trusted.any(axis=1) | enough, np.arange(states), states)
    chosen = replace(judged, trusted=trusted, place=place)
    taken = asker.ask(followed.Standing(chosen))
    most = limits.followed + limits.visited
    exact, error = taken.values * most, deviation(taken) * most
    followers = _together(*_followers(chosen, table[0].sum(axis=1), visited, noise), float(exact[2]), error)
    return _counts(chosen, table, visited, exact, sizes.length, followers)


def _followers(
    judged: followed.Judged, own: FloatArray, visited: FloatArray, noise: float
) -> tuple[FloatArray, float]:  # (S + 1,)
    """How many visits followed the policy, in states where everyone stands in for it (0 elsewhere, and where noise
    hides it all), and how wrong these may be together, as a share of them. Not in the pool: its states are worth more
    and less than it, and where clinicians follow more often may be just where they are worth more.

    Posterior means under an exponential prior, whose mean is the share in all states. A state is here because few
    seemed to follow; unlike the counts themselves, a posterior mean is not too small because of that."""
    assert judged.trusted is not None
    assert judged.place is not None
    visits, noises = np.maximum(visited, FEWEST), noise * np.sqrt(judged.ever().sum(axis=1))
    total, usual = float(visits.sum()), max(float(own.sum()), 0.0) / float(visits.sum())
    error = math.sqrt(float((noises**2).sum())) / total
    here = ~np.asarray(judged.trusted.any(axis=1)) & (judged.place < len(visits))
    if usual <= 2 * error or not here.any():
        return np.zeros(len(visits) + 1), 1.0
    mean, variance = _above_zero(own / np.maximum(noises, _TINY) - noises / (usual * visits))
    found = np.append(np.where(here, mean * noises, 0.0), 0.0)
    spread = math.sqrt(float((variance * noises**2)[here].sum())) / max(float(found.sum()), _TINY)
    return found, math.hypot(error / usual, spread, PRIOR)


def _together(counts: FloatArray, unsure: float, total: float, error: float) -> tuple[FloatArray, float]:
    """The same with their total, which is known by itself: the mean of both, by what either is worth."""
    guess = float(counts.sum())
    if guess <= 0.0:
        return counts, 1.0
    weights = np.array([1 / (unsure * guess) ** 2, 1 / max(error, 1.0) ** 2])
    best = max(float((weights * [guess, total]).sum() / weights.sum()), 0.1 * guess)
    return counts * (best / guess), 1 / math.sqrt(float(weights.sum())) / best


def _above_zero(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of a normal variable with mean z and variance 1, given that it is above zero; far below zero
    that is nearly exponential."""
    near, far = np.maximum(z, -8.0), np.minimum(z, -8.0)
    above = np.array([math.erfc(-one / math.sqrt(2)) / 2 for one in near])
    ratio = np.exp(-(near**2) / 2) / math.sqrt(2 * math.pi) / above
    return np.where(z > far, near + ratio, -1 / far), np.where(z > far, 1 - ratio * (near + ratio), 1 / far**2)


def settled(counts: Counts, found: potential.Potential) -> FloatArray:  # (S + 1,)
    """How many stays are at each place at the last step: as recorded at all steps, as far as noise hides how the last
    one differs."""
    assert counts.judged.place is not None
    total = max(float(found.reached.sum()), found.noise, 1.0)
    usual = counts.recorded * (total / max(float(counts.recorded.sum()), _TINY))
    reached = np.bincount(counts.judged.place, weights=found.reached, minlength=len(usual))
    change, _, _ = _shrunk(reached - usual, found.noise, np.maximum(usual, np.sqrt(usual * usual.mean())))
    return np.maximum(usual + change, np.maximum(0.1 * usual, 1.0))


def _trusted(
    judged: followed.Judged, table: FloatArray, support: float, noise: float
) -> tuple[BoolArray, FloatArray]:  # (S, A), (2, S, A)
    """Decisions with enough followed visits, and the counts without what cannot be there."""
    ever = judged.ever()
    always = ever & (ever.sum(axis=1) == 1)[:, None]  # no other steps at which it could have been followed
    table = np.where(ever, table, 0.0)
    table[1][always] = 0.0
    deviations = noise * np.where(always, 1.0, math.sqrt(2))
    trusted = ever & (table.sum(axis=0) > np.maximum(support * deviations, FEWEST))
    own = np.where(trusted, table[0], 0.0).sum(axis=1)
    trusted &= (own > np.maximum(support * noise * np.sqrt(trusted.sum(axis=1)), FEWEST))[:, None]
    return trusted, table


def _counts(
    judged: followed.Judged,
    table: FloatArray,
    visited: FloatArray,
    taken: FloatArray,
    length: float,
    followers: tuple[FloatArray, float],
) -> Counts:
    schema, trusted, place = judged.schema, judged.trusted, judged.place
    assert trusted is not None
    assert place is not None
    states, actions, known, pooled = schema.count, schema.actions, trusted.any(axis=1), place == schema.count
    pool = float(np.clip(taken[1], 1.0, max(taken[0], 1.0))) if pooled.any() else 0.0
    stand_in = np.where(known | pooled, 0.0, visited)
    total = np.where(trusted, table.sum(axis=0), 0.0)
    # Counts that passed a threshold are too large on average; their sum is known better.
    ratio = max(float(taken[0]) - pool, 1.0) / max(float(total.sum() + stand_in.sum()), 1.0)
    cells = np.concatenate([total.ravel() * ratio, stand_in * ratio, [pool]])
    own = np.where(trusted, table[0], 0.0).sum(axis=1)
    places = np.append(np.maximum(np.where(known, own, stand_in) * ratio, 0.0), pool)
    recorded = np.append(np.where(pooled, 0.0, np.maximum(visited, 0.0)), pool)
    recorded *= length / max(float(recorded.sum()), 1.0)
    by_state = np.where(pooled, pool / max(int(pooled.sum()), 1), places[:-1])
    stands = np.append(_stands(judged, total), np.full((schema.horizon, 1), states * (actions + 1)), axis=1)
    supported = np.append(known, False)
    shares = by_state / max(float(by_state.sum()), 1.0)
    acted = np.where(supported, np.clip(cells[stands[-1]] / np.maximum(np.append(visited, 1.0), 1.0), 0.01, 1.0), 1.0)
    return Counts(judged, cells, places, recorded, stands, supported, shares, acted, *followers)


def _stands(judged: followed.Judged, visits: FloatArray) -> IntArray:  # (H, S)
    """The decision if it is trusted, else the state's most followed one that is, else the place."""
    schema, trusted, place = judged.schema, judged.trusted, judged.place
    assert trusted is not None
    assert place is not None
    index = np.arange(schema.count)
    best = np.where(trusted, visits, -np.inf).argmax(axis=1)
    action = np.where(trusted[index, judged.decisions], judged.decisions, best)
    return np.where(trusted.any(axis=1), index * schema.actions + action, schema.count * schema.actions + place)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What `fqe` scores patients with; H counts the steps that are pooled."""

    occupancy: FloatArray  # (H, S + 1) by step and place, or (S + 1,) by place
    values: FloatArray  # (H + 1, S + 1) by step and state, the last the end's; without Φ, where there is one
    noise: FloatArray  # (S·A + S + 1,) the variance of the values' noise by cell
    unsure: FloatArray  # (S·A + S + 1,) that of the values, with what was not believed
    doubt: float = 0.0  # how wrong the occupancy may be by noise, as a share of it
    moved: float = 1.0  # how much a single decision for the policy's moves it, at most, as a share of it
    last: FloatArray | None = None  # (S + 1,) the occupancy of the step behind the pooled ones, if found by step


def _length(asker: Asker, sizes: FloatArray, visits: FloatArray, more: float = 0.0) -> float:
    """A radius that few units' vectors pass, from what a visit of each place adds to them: the expected square of a
    unit's, and that of a visit seen by its weight in it. Without the latter, rare large entries would be cut."""
    square, fourth = (float((visits * sizes**power).sum()) for power in (2, 4))
    return max(asker.reach * REACH * math.sqrt(square / asker.units + fourth / max(square, _TINY) + more), 1e-6)


def by_rounds(asker: Asker, counts: Counts, sizes: MeanSizes, *, occupancy_rounds: int, value_rounds: int) -> Estimate:
    occupancy, doubt, moved = _occupancy(asker, counts, occupancy_rounds)
    values, noise, unsure = _values(asker, counts, sizes, value_rounds)
    return Estimate(occupancy, values, noise, unsure, doubt, moved)


def _occupancy(asker: Asker, counts: Counts, rounds: int) -> tuple[FloatArray, float, float]:  # (S + 1,)
    """d = start + Pᵀd, from the recorded occupancy on: what a round changes is what the next one moves on."""
    found, change, visits = counts.recorded, counts.recorded, np.maximum(counts.places, 1.0)
    scale, variance, moves = np.maximum(found, np.sqrt(found * found.mean())), 0.0, []
    for index in range(rounds):
        weights = np.where(counts.places > 0, change * asker.units / visits, 0.0)
        radius = _length(asker, weights, counts.places, float(index == 0))
        answer = asker.ask(outcomes.Arrivals(counts.judged, weights, radius, index))
        raw, noise = answer.values * radius / asker.units, deviation(answer) * radius / asker.units
        change, unsure, most = _moved(raw - (counts.recorded if index == 0 else 0.0), noise, scale, counts.judged)
        found, variance = np.maximum(found + change, 0.0), variance + unsure
        moves.append(most / max(float((counts.recorded**2).sum()), _TINY))
    return found, math.sqrt(variance / max(float((found**2).sum()), _TINY)), math.sqrt(moves[0])


def _moved(
    raw: FloatArray, noise: float, scale: FloatArray, judged: followed.Judged
) -> tuple[FloatArray, float, float]:
    """As `_shrunk`; what Φ explains of it is no noise, for that is seen in all places together."""
    if judged.potential is None:
        return _shrunk(raw, noise, scale)
    explained, variance = _explained(raw, phi_by_place(judged), scale, np.full(len(raw), noise**2))
    rest, unsure, most = _shrunk(raw - explained, noise, scale)
    return explained + rest, unsure + float(variance.sum()), most + float((explained**2).sum())


def _explained(
    found: FloatArray, phi: FloatArray, scale: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The quadratic function of Φ, times the scale, that is closest to what was found; the variance of its noise."""
    terms = np.stack([np.ones(len(phi)), phi, phi**2], axis=1) * scale[:, None]
    solve = np.linalg.pinv(terms, rcond=1e-6)
    return terms @ (solve @ found), np.einsum("ri,ij,rj->r", terms, (solve * noise) @ solve.T, terms)


def _shrunk(raw: FloatArray, noise: float, scale: FloatArray) -> tuple[FloatArray, float, float]:
    """The posterior mean under a prior whose deviation is proportional to `scale`, by the method of moments; its
    variance, summed, where the prior is as wide as noise could hide (two standard errors of a sum of squares); and the
    sum of squares that this would be."""
    seen, hidden = float((raw**2 - noise**2).sum()), 2 * noise**2 * math.sqrt(2 * len(raw))
    prior, wide = (max(size, 0.0) / max(float((scale**2).sum()), _TINY) * scale**2 for size in (seen, seen + hidden))
    unsure = float((wide * noise**2 / np.maximum(wide + noise**2, _TINY)).sum())
    return raw * prior / np.maximum(prior + noise**2, _TINY), unsure, max(seen + hidden, 0.0)


def _values(asker: Asker, counts: Counts, sizes: MeanSizes, rounds: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """V_h = V_{h+1} + P(V_{h+1} − V_{h+2}), a round for each step from the last; then by extrapolation."""
    horizon, cells = followed.pooled_steps(asker.schema), counts.cells
    total, visits = max(float(cells.sum()), 1.0), np.maximum(cells, 1.0)
    values, possible = np.zeros((horizon + 1, asker.schema.count + 1)), possible_range(counts.judged)
    q, variance, unsure = np.zeros((3, len(cells)))
    for index in range(rounds):
        step = horizon - 1 - index
        added = None if index == 0 else values[step + 1] - values[step + 2]
        centre, radius = centred(asker, counts, sizes, added)
        answer = asker.ask(outcomes.Targets(counts.judged, added, centre, radius, index))
        sums, noise = answer.values * radius, deviation(answer) * radius
        mean = 2 * float(sums[-1]) / total
        rest = np.where(cells > 0, sums[:-1] / visits - mean, 0.0)
        explained, doubt = _by_potential(counts, rest, noise / visits)
        factor = _belief(rest - explained, noise / visits, cells)
        rest = explained + factor * (rest - explained)
        q = np.clip(q + centre + mean + rest - float((cells * rest).sum()) / total, *possible)
        variance += (factor * noise / visits) ** 2 + doubt
        unsure += (
            factor * (noise / visits) ** 2 + doubt
        )  # of the posterior: noise that was believed, signal that was not
        values[step, :-1] = q[counts.stands[step, :-1]]
    _extrapolate(values, counts.by_state, horizon - rounds)
    return values, variance, unsure


def _by_potential(counts: Counts, rest: FloatArray, noises: FloatArray) -> tuple[FloatArray, FloatArray]:  # (cells,)
    """What Φ explains of the cells' means, which all cells tell together, and the variance of its noise. Believing each
    cell by itself would take all states to improve alike, and good ones improve less."""
    if counts.judged.potential is None:
        return np.zeros(len(rest)), np.zeros(len(rest))
    root = np.sqrt(np.maximum(counts.cells, 0.0))
    found, variance = _explained(rest * root, phi_by_cell(counts.judged), root, (noises * root) ** 2)
    return found / np.maximum(root, 1.0), variance / np.maximum(root, 1.0) ** 2


def centred(asker: Asker, counts: Counts, sizes: MeanSizes, added: FloatArray | None) -> tuple[float, float]:
    """The mean of what a visit adds, and a radius for a unit's sums around it."""
    if added is None:
        return 0.0, max(WITH_TOTAL * math.sqrt(asker.reach**2 * sizes.squares + sizes.sharpness), 1e-6)
    end = 1 / sizes.length  # of the visits, about
    centre = (1 - end) * float((counts.by_state * added[:-1]).sum())
    visits = np.append((1 - end) * counts.by_state, end) * counts.cells.sum()
    return centre, WITH_TOTAL * _length(asker, added - centre, visits)


def _belief(rest: FloatArray, noise: FloatArray, weights: FloatArray) -> FloatArray:
    """How much of each cell's own mean to believe, by the method of moments."""
    prior = max(float((weights * (rest**2 - noise**2)).sum()), 0.0) / max(float(weights.sum()), 1.0)
    return np.where(weights > 0, prior / np.maximum(prior + noise**2, _TINY), 0.0)


def _extrapolate(values: FloatArray, weights: FloatArray, step: int) -> None:
    """What a round adds, shrinking on as it did last."""
    if step <= 0:
        return
    last, before = values[step] - values[step + 1], values[step + 1] - values[step + 2]
    ratio = float((weights * last[:-1] * before[:-1]).sum() / max(float((weights * before[:-1] ** 2).sum()), _TINY))
    for index in range(step - 1, -1, -1):
        last = last * min(max(ratio, 0.0), 1.0)
        values[index] = values[index + 1] + last


def phi_by_place(judged: followed.Judged) -> FloatArray:  # (S + 1,)
    """Φ; that of the pool is the mean of its states'."""
    assert judged.place is not None
    phi, pooled = judged.phi[:-1], judged.place == judged.schema.count
    return np.append(phi, float(phi[pooled].sum()) / max(int(pooled.sum()), 1))


def phi_by_cell(judged: followed.Judged) -> FloatArray:  # (cells,)
    places = phi_by_place(judged)
    return np.append(np.repeat(places[:-1], judged.schema.actions), places)


def possible_range(judged: followed.Judged) -> tuple[FloatArray, FloatArray]:  # (cells,) each
    """What a value can be, without Φ."""
    (low, high), phi = total_range(judged.schema), phi_by_cell(judged)
    return low - phi, high - phi
