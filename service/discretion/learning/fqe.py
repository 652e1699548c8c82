"""DP-FQE: what a policy would be worth, judged on other patients' data by fitted-Q evaluation on private statistics.

The kernel is assumed to be the same at every step, and states to tell all that matters about what follows. The policy
may decide by the step. With discrete states:

1. Counts of the visits that followed the policy, and of all visits. A decision with too few followed visits is not
   judged by itself: what clinicians did there stands in for it, and states with too few visits of any kind are pooled.
2. How often the policy comes to each place (d), and what the rest of a trajectory is worth there (V): `occupancy`.
3. A score of each patient, V₁(s₁) + Σ d(s)/n(s)·(r + V_{h+1}(s′) − V_h(s)) over the visits that stand for the policy.
   Its mean is the value: one number, so its noise is next to nothing; and errors of V count only as far as d is wrong
   too, because they multiply. Where clinicians stand in (but not in the pool) only those visits count that followed
   the policy, each for as many as its state has: too few to tell about one decision, but together they tell.

**Guarantee.** Everything released is ρ-zCDP together for replacing one patient.

**The interval** has, at 90 %, the sampling and the privacy noise of the mean score, both measured; of the noise of V
and of what the scores corrected the share by which the occupancy may be wrong; what cutting large scores may hide; and
the larger of two allowances for decisions that were not judged by themselves: each may be better or worse by a share
of the spread of the states' values; and what the policy gained over the clinicians may be a part of what it gains, the
smaller the fewer of its decisions were judged and the more it moves patients to other states (`_missed`). The
allowances are conventions, no theorems; they are zero where every decision is supported. Importance sampling is not
offered: weighted, it overstates by far more than these.
"""

import bisect
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np

from discretion import errors
from discretion.learning import checks, followed, occupancy, policy, report, scored
from discretion.learning import features as maps
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget
from discretion.learning.occupancy import Asker, Counts, Estimate, Sizes
from discretion.learning.sums import Statistic
from discretion.learning.trajectories import Discrete, FloatArray, IntArray, Schema

NAME: Final = report.NAME
LEVEL: Final = 0.9
QUANTILE: Final = 1.645  # of the normal distribution, for LEVEL
INFLATION: Final = 1.1  # of deviations that were estimated with noise
DOUBT: Final = (0.35, 0.6)  # how wrong an occupancy may be at least, from rounds and from a table
CAUTION: Final = 0.03  # of the deviation of totals: the least that a decision not judged may be worth
TOGETHER: Final = 0.3  # of that allowance, for decisions that were judged together
MISSED: Final = (0.5, 0.25, 2.0)  # see `_missed`: of what was gained; of the deviation of totals; of what is moved
FEW_STATES: Final = Fraction(1, 25)  # n√ρ/(S²·A) from which a table of transitions tells more than rounds
PLENTY: Final = 20  # n√ρ/S from which radii grow
LONGEST: Final = 4  # times the usual radius
MAX_CELLS: Final = 50_000_000

Plan = list[tuple[Statistic, Fraction]]


@dataclass(frozen=True)
class Parameters:
    """Public constants."""

    value_rounds: int = 40  # longer horizons are extrapolated
    occupancy_rounds: int = 12
    support: float = 2.0  # a count is enough at so many standard deviations of its noise
    allowance: float = 0.25  # of the spread of values, for each decision that cannot be judged
    shares: tuple[int, ...] = (3, 5, 20, 6, 2, 47, 4, 13)
    way: Literal["rounds", "table"] | None = None  # to occupancies and values; None: by the public rule
    reach: float | None = None  # of radii, in the usual ones; None: by the public rule
    features: maps.Blocks | None = None  # of vector states; None: by the public rule
    time_groups: int = 1  # with vector states: parts of the horizon in which the policy decides alike

    def __post_init__(self) -> None:
        checks.whole(self.value_rounds, "value_rounds", low=2, high=1000)
        checks.whole(self.occupancy_rounds, "occupancy_rounds", low=2, high=100)
        checks.number(self.support, "support", low=1.0, high=100.0)
        checks.number(self.allowance, "allowance", low=0.0, high=100.0)
        names = ("sizes", "totals", "followed visits", "visits", "taken visits", "values", "histogram", "scores")
        checks.shares(self.shares, *names)
        if self.way is not None:
            checks.choice(self.way, "way", "rounds", "table")
        if self.reach is not None:
            checks.number(self.reach, "reach", low=1.0, high=100.0)
        if self.features is not None and not isinstance(self.features, maps.Blocks):
            raise errors.InvalidParameter("dp-fqe needs features of kind blocks.")
        checks.whole(self.time_groups, "time_groups", low=1, high=100)


@dataclass(frozen=True)
class Evaluation:
    """In the unit of the declared rewards: a trajectory's expected total over the horizon."""

    value: float
    low: float
    high: float
    behaviour: float  # what the patients in the data received
    behaviour_low: float
    behaviour_high: float
    supported_share: float  # of the policy's expected decisions: those the data says anything about
    level: float = LEVEL

    def document(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "behaviour": {"value": self.behaviour, "low": self.behaviour_low, "high": self.behaviour_high},
            "supported_share": self.supported_share,
        }


def check(schema: Schema, parameters: Parameters) -> None:
    """Refuse data that cannot be judged on."""
    if not isinstance(schema.states, Discrete):
        raise errors.InvalidParameter("Visits are counted of discrete states; vector states are regressed on.")
    sums = schema.count * (schema.actions + 1)
    if sums > MAX_CELLS:
        raise errors.ProblemTooLarge(
            f"dp-fqe keeps a sum for each state and action: {sums} of them, {MAX_CELLS} at most; use fewer states."
        )
    if parameters.way == "table" and _cells(schema) > MAX_CELLS:
        raise errors.ProblemTooLarge(
            f"A table of transitions keeps a sum for each state, action and next state: {_cells(schema)} of them, "
            f'{MAX_CELLS} at most; use way: "rounds" or fewer states.'
        )


def _checked(schema: Schema, privacy: Share, parameters: Parameters) -> None:
    check(schema, parameters)
    check_budget(privacy)
    if not isinstance(privacy, Concentrated):
        raise errors.InvalidParameter("dp-fqe needs a zCDP budget: its statistics have no pure ε-DP form.")


def decisions(schema: Schema, judged: policy.Policy) -> IntArray:  # (H, S)
    """What a policy does, if it was made for this schema."""
    if (judged.horizon, judged.states, judged.actions) != (schema.horizon, schema.states, schema.actions):
        raise errors.InvalidParameter(
            "The policy was made for another horizon, other states or other actions than the data's."
        )
    assert isinstance(judged.rule, policy.Table)  # as every policy of discrete states
    return np.asarray(judged.rule.decisions, dtype=np.int64)


def _cells(schema: Schema) -> int:
    """Of the table of transitions."""
    return schema.count * (schema.actions + 1) * (schema.count + 2)


def _way(schema: Schema, units: int, rho: Fraction) -> Literal["rounds", "table"]:
    enough = FEW_STATES * schema.count**2 * schema.actions
    few = units**2 * rho >= enough**2  # exactly: alike on every machine
    return "table" if few and _cells(schema) <= MAX_CELLS else "rounds"


def _reach(schema: Schema, units: int, rho: Fraction) -> float:
    """How much longer than usual radii are, in whole hundredths: noise falls with n√ρ/S, and what cutting distorts
    should fall with it; so the fourth root of that, from 1 to LONGEST."""
    eighth = units**2 * rho / (PLENTY * schema.count) ** 2
    hundredths = bisect.bisect_right(range(100 * LONGEST + 1), eighth, key=lambda k: Fraction(k, 100) ** 8) - 1
    return max(hundredths, 100) / 100


def resolved(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> Parameters:
    """With the choices of the public rule written out, so that a later rule changes no certificate."""
    _checked(schema, privacy, parameters)
    assert isinstance(privacy, Concentrated)
    way = parameters.way or _way(schema, units, privacy.rho)
    reach = _reach(schema, units, privacy.rho) if parameters.reach is None else parameters.reach
    return replace(parameters, way=way, reach=reach)


def _rounds(schema: Schema, parameters: Parameters) -> tuple[int, int]:
    return parameters.occupancy_rounds, min(parameters.value_rounds, schema.horizon)


def _table_plan(judged: followed.Judged) -> Plan:
    return [
        (scored.Transitions(judged), Fraction(6, 10)),
        (scored.Targets(judged, None, 0.0, 1.0), Fraction(3, 10)),
        (scored.Arrivals(judged, np.zeros(judged.schema.count + 1), 1.0), Fraction(1, 10)),
    ]


def _rounds_plan(judged: followed.Judged, rounds: tuple[int, int]) -> Plan:
    """A quarter for the occupancy. A round's noise reaches the value like every other's, so its share follows the size
    of what it measures: rewards first, then what falls by about a tenth a round; and the occupancy's first change."""
    zeros = np.zeros(judged.schema.count + 1)
    later = [max(1, round(100 * 0.9**index)) for index in range(rounds[1] - 1)]
    targets = [Fraction(2, 5) if later else Fraction(1)] + [Fraction(3 * each, 5 * sum(later)) for each in later]
    arrivals = [Fraction(1, 2)] + [Fraction(1, 2 * (rounds[0] - 1))] * (rounds[0] - 1)
    moves: Plan = [(scored.Arrivals(judged, zeros, 1.0, index), part / 4) for index, part in enumerate(arrivals)]
    earned: Plan = [(scored.Targets(judged, None, 0.0, 1.0, index), part * 3 / 4) for index, part in enumerate(targets)]
    return moves + earned


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything an evaluation asks, a pure function of what is public: the policy, and what is released on the way,
    are left blank."""
    parameters = resolved(schema, units, privacy, parameters)
    nothing = np.zeros(1, dtype=np.int64)  # stretched, so that a plan of any size takes no memory
    judged = followed.Judged(schema, np.broadcast_to(nothing, (schema.horizon, schema.count)))
    values = np.broadcast_to(nothing.astype(np.float64), (schema.horizon + 1, schema.count + 1))
    score = scored.Scores(judged, values, values[0])
    leads = _table_plan(judged) if parameters.way == "table" else _rounds_plan(judged, _rounds(schema, parameters))
    one = Fraction(1)
    plan: list[Plan] = [
        [(followed.Sizes(judged), one)],
        [(followed.Received(schema, *occupancy.total_range(schema)), one)],
        [(followed.Followed(judged), one)],
        [(followed.Visited(judged), one)],
        [(followed.Taken(judged), one)],
        leads,
        [(scored.ScoreSizes(judged, score), one)],
        [(score, one)],
    ]
    return shared_out(privacy, parameters.shares, plan)


def shared_out(privacy: Share, shares: tuple[int, ...], plan: list[Plan]) -> list[Query]:
    """Each kind of release gets its share, and within it each statistic its part."""
    return [
        Query(statistic, privacy.part(Fraction(share, sum(shares)) * part))
        for share, statistics in zip(shares, plan, strict=True)
        for statistic, part in statistics
    ]


@dataclass(frozen=True)
class Received:
    """What the patients in the data received."""

    mean: float
    error: float
    deviation: float


def evaluate(curator: Curator, privacy: Share, parameters: Parameters, judging: policy.Policy) -> Evaluation:
    schema, units = curator.schema, curator.units
    parameters = resolved(schema, units, privacy, parameters)
    assert parameters.reach is not None
    asked = queries(schema, units, privacy, parameters)
    asker = Asker(curator, {query.statistic.name: query.share for query in asked}, parameters.reach)
    chosen = decisions(schema, judging)
    judged = followed.Judged(schema, chosen)
    sizes = occupancy.sizes(asker, judged)
    received = received_of(asker)
    counts = occupancy.count(asker, sizes, chosen, parameters.support)
    if parameters.way == "table":
        found = occupancy.by_table(asker, counts, sizes)
    else:
        found = occupancy.by_rounds(asker, counts, sizes, _rounds(schema, parameters))
    return _judgement(asker, sizes, received, counts, found, parameters)


def received_of(asker: Asker) -> Received:
    low, high = occupancy.total_range(asker.schema)
    answer = asker.ask(followed.Received(asker.schema, low, high))
    mean, error, deviation = moments(answer, asker.units)
    half = (high - low) / 2
    return Received((high + low) / 2 + half * mean, half * error, half * deviation)


def moments(answer: Answer, units: int, fitted: float = 1.0) -> tuple[float, float, float]:
    """The mean of z, its standard error from sampling (more, if z was fitted to the same patients) and noise, and the
    deviation of z; one that noise made too small is taken for what noise could hide."""
    mean, square = (float(number) / units for number in answer.values[:2])
    noise = occupancy.deviation(answer) / units
    variance = min(max(square - mean**2, noise), 1.0)
    return mean, math.sqrt(fitted * variance / units + noise**2), math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class _Weights:
    """How much a visit counts: d·n/n(cell)."""

    each: FloatArray  # (H, S + 1) or (S + 1,)
    total: FloatArray  # (S + 1,) by place
    occupancy: FloatArray  # (S + 1,)
    cells: IntArray | None
    alike: FloatArray  # (2, S + 1) times so much where everyone stands in: who did otherwise, who did alike
    together: float  # of the decisions that were not judged by themselves, those that were judged together


def _alike(counts: Counts, occupancy: FloatArray) -> tuple[FloatArray, float]:
    """Where everyone stands in, a visit that followed the policy stands for as many as did otherwise; the less so, the
    less is known about how many followed."""
    each = np.where(counts.alike > 0, max(1 - 4 * counts.unsure**2, 0.0), 0.0)
    unjudged = np.where(counts.supported, 0.0, occupancy)
    together = float((unjudged * each).sum()) / max(float(unjudged.sum()), 1e-9)
    return np.array(
        [1 - each, 1 - each + each * np.maximum(counts.places / np.maximum(counts.alike, 1e-9), 1.0)]
    ), together


def _weights(units: int, counts: Counts, found: Estimate) -> _Weights:
    total = found.occupancy if found.occupancy.ndim == 1 else found.occupancy.sum(axis=0)
    by_place = np.where(counts.places > 0, total * units / np.maximum(counts.places, 1.0), 0.0)
    alike = _alike(counts, total)
    if found.occupancy.ndim == 1:
        return _Weights(by_place, by_place, total, None, *alike)
    visits = counts.cells[counts.stands]
    each = np.where(visits > 0, found.occupancy * units / np.maximum(visits, 1.0), 0.0)
    return _Weights(each, by_place, total, counts.stands[:, :-1], *alike)


def _judgement(
    asker: Asker, sizes: Sizes, received: Received, counts: Counts, found: Estimate, parameters: Parameters
) -> Evaluation:
    weights = _weights(asker.units, counts, found)
    first = found.values[0, :-1]
    centre = float((counts.by_state * first).sum())
    score = scored.Scores(counts.judged, found.values, weights.each, weights.cells, centre, 1024.0, weights.alike)
    histogram = asker.ask(scored.ScoreSizes(counts.judged, score))
    radius, hidden = radius_of(asker, histogram, score, _sizes_of_scores(asker, sizes, received, counts, weights))
    score = scored.Scores(counts.judged, found.values, weights.each, weights.cells, centre, radius, weights.alike)
    answer = asker.ask(score)
    mean, error, _ = moments(answer, asker.units, _fitted(weights.total, counts.places))
    corrected = abs(mean - 4 * float(answer.values[2]) / asker.units) - 4 * occupancy.deviation(answer) / asker.units
    doubt = max(found.doubt, DOUBT[weights.cells is not None])
    noise = doubt * math.sqrt(float((weights.occupancy**2 * found.unsure[counts.stands[0]]).sum()))
    half = QUANTILE * INFLATION * math.hypot(radius * error, noise) + hidden + doubt * radius * max(corrected, 0.0)
    value, length = centre + radius * mean, float(weights.occupancy.sum())
    share = float(weights.occupancy[counts.supported].sum()) / max(length, 1e-9)
    noisy = (first - centre) ** 2 - found.noise[counts.stands[0, :-1]]
    spread = math.sqrt(max(float((counts.by_state * noisy).sum()), 0.0))
    allowed = (1 - share) * max(length, sizes.length) * (1 - weights.together * (1 - TOGETHER))
    allowed *= max(parameters.allowance * spread, CAUTION * received.deviation)
    gained = abs(value - received.mean) + radius * error + MISSED[1] * received.deviation  # or may have been
    half += max(allowed, _missed(asker.schema, gained, share, found.moved))
    return scaled(asker.schema, value, half, received, share)


def _missed(schema: Schema, gained: float, share: float, moved: float) -> float:
    """What a policy may be worth beyond what was seen of it. A decision's worth is seen as far as it is judged, and
    those before and after it, which bring patients there and make use of it: as the fourth power of the share, which
    was calibrated. It matters as far as the policy moves patients to other states, which its first step shows."""
    low, high = occupancy.total_range(schema)
    part = MISSED[0] * min((MISSED[2] * moved) ** 3, 1.0)
    return min(part * gained * (1 / max(share, 0.01) ** 4 - 1), high - low)


def _fitted(weights: FloatArray, visits: FloatArray) -> float:
    """By how much the variance of means exceeds what is seen around them: n/(n − 1) of each, by their weight."""
    square, many = weights**2, np.maximum(visits, 2.0)
    return max(float((square * many**2 / (many - 1)).sum()) / max(float((square * many).sum()), 1e-300), 1.0)


def _sizes_of_scores(
    asker: Asker, sizes: Sizes, received: Received, counts: Counts, weights: _Weights
) -> tuple[float, float]:
    """A large score, and the mean square of scores, about: a visit adds its weight times a change of value, which over
    a trajectory add up to its total, and are rarely more than twice the deviation of totals."""
    low, high = occupancy.total_range(asker.schema)
    often = np.where(counts.supported, 1.0, 1 / np.maximum(weights.alike[1], 1.0))
    square, fourth = (float((counts.places * often * (weights.total / often) ** power).sum()) for power in (2, 4))
    large = 1.5 * min(2 * received.deviation, high - low) * math.sqrt(fourth / max(square, 1e-300))
    return large, 2 * square / asker.units * received.deviation**2 / sizes.length


def radius_of(asker: Asker, histogram: Answer, score: Statistic, expected: tuple[float, float]) -> tuple[float, float]:
    """The radius at which noise and what is cut off are least together, and the latter: what the histogram shows, and
    what its noise may hide."""
    share = asker.shares[score.name]
    assert isinstance(share, Concentrated)
    counts, noise, units = histogram.values, occupancy.deviation(histogram), asker.units
    above = np.cumsum(counts[::-1])[::-1]
    real = np.logical_and.accumulate(above > 3 * noise * np.sqrt(np.arange(len(counts), 0, -1)))
    middle = np.append(scored.EDGES * 2**-0.25, scored.EDGES[-1])
    seen = np.where(real, np.maximum(counts, 0.0), 0.0)
    best = (math.inf, 1.0, 0.0)
    for edge in map(float, scored.EDGES):
        rare = min(2 * math.sqrt(8) * noise / units, expected[1] / edge**2)
        cut = float((seen * np.maximum(middle - edge, 0.0)).sum()) / units + rare * max(expected[0] - edge, 0.0)
        cost = edge * math.sqrt(float(scored.Scores.squared_sensitivity) / (2 * float(share.rho))) / units
        best = min(best, (cost + cut, edge, cut))
    return best[1], best[2]


def scaled(schema: Schema, value: float, half: float, received: Received, share: float) -> Evaluation:
    """In the declared unit, within what is possible. A value beyond it is off by at least as much; where noise left no
    number at all, everything is possible and nothing supported."""
    low, high = occupancy.total_range(schema)
    if not all(map(math.isfinite, (value, half, share))):
        value, half, share = (low + high) / 2, high - low, 0.0

    def unit(number: float) -> float:
        return round(min(max(number, low), high) * schema.width, 6) + 0.0

    def interval(centre: float, reach: float) -> tuple[float, float, float]:
        inside = min(max(centre, low), high)
        reach += abs(centre - inside)
        return unit(inside), unit(inside - reach), unit(inside + reach)

    behaviour = interval(received.mean, QUANTILE * INFLATION * received.error)
    return Evaluation(*interval(value, half), *behaviour, round(min(max(share, 0.0), 1.0), 4))
