"""DP-FQE: what a policy would be worth, judged on other patients' data by fitted-Q evaluation on private statistics.

The kernel is assumed to be the same at every step, and states to tell all that matters about what follows. The policy
may decide by the step. With discrete states:

1. Counts of the visits that followed the policy, and of all visits. A decision with too few followed visits is not
   judged: what clinicians did there stands in for it, and states with too few visits of any kind are pooled.
2. How often the policy comes to each place (d), and what the rest of a trajectory is worth there (V): `occupancy`.
3. A score of each patient, V₁(s₁) + Σ d(s)/n(s)·(r + V_{h+1}(s′) − V_h(s)) over the visits that stand for the policy.
   Its mean is the value: one number, so its noise is next to nothing; and errors of V count only as far as d is wrong
   too, because they multiply.

**Guarantee.** Everything released is ρ-zCDP together for replacing one patient.

**The interval** has, at 90 %, the sampling and the privacy noise of the mean score, both measured; the share `DOUBT` of
the noise of V and of what the scores corrected, for the occupancy may be wrong by as much; what cutting large scores
may hide; and an allowance for decisions that could not be judged: each may be better or worse than what clinicians did
by a share of the spread of the states' values. The last is a convention, no theorem; it is zero where every decision
is supported. Importance sampling is not offered: weighted, it overstates by far more than these.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion import errors
from discretion.learning import checks, followed, occupancy, policy, report, scored
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget, event_of
from discretion.learning.occupancy import Asker, Counts, Estimate, Sizes
from discretion.learning.sums import Statistic
from discretion.learning.trajectories import Discrete, FloatArray, IntArray, Schema
from discretion.privacy import events

NAME: Final = report.NAME
LEVEL: Final = 0.9
QUANTILE: Final = 1.645  # of the normal distribution, for LEVEL
INFLATION: Final = 1.1  # of deviations that were estimated with noise
DOUBT: Final = (0.35, 0.6)  # how wrong an occupancy may be, from rounds and from a table
CAUTION: Final = 0.03  # of the deviation of totals: the least that a decision not judged may be worth
FEW_STATES: Final = 0.35  # n√ρ/(S^1.5·A) from which a table of transitions tells more than rounds
PLENTY: Final = 20.0  # n√ρ/S from which radii grow
MAX_CELLS: Final = 50_000_000

_Plan = list[tuple[Statistic, Fraction]]


@dataclass(frozen=True)
class Parameters:
    """Public constants."""

    value_rounds: int = 40  # longer horizons are extrapolated
    occupancy_rounds: int = 12
    support: float = 2.0  # a count is enough at so many standard deviations of its noise
    allowance: float = 0.25  # of the spread of values, for each decision that cannot be judged
    shares: tuple[int, ...] = (3, 5, 20, 6, 2, 47, 4, 13)

    def __post_init__(self) -> None:
        checks.whole(self.value_rounds, "value_rounds", low=2, high=1000)
        checks.whole(self.occupancy_rounds, "occupancy_rounds", low=2, high=100)
        checks.number(self.support, "support", low=1.0, high=100.0)
        checks.number(self.allowance, "allowance", low=0.0, high=100.0)
        names = ("sizes", "totals", "followed visits", "visits", "taken visits", "values", "histogram", "scores")
        checks.shares(self.shares, *names)


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
        raise errors.InvalidParameter("dp-fqe judges policies of discrete states.")
    if schema.count * (schema.actions + 1) > MAX_CELLS:
        raise errors.ProblemTooLarge(f"dp-fqe keeps a sum for each state and action: {MAX_CELLS} at most.")


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


def _by_table(schema: Schema, units: int, privacy: Share) -> bool:
    cells = schema.count * (schema.actions + 1) * (schema.count + 2)
    enough = FEW_STATES * schema.count**1.5 * schema.actions
    return cells <= MAX_CELLS and isinstance(privacy, Concentrated) and units**2 * privacy.rho >= enough**2


def _reach(schema: Schema, units: int, privacy: Share) -> float:
    """How much longer than usual radii are: noise falls with n√ρ/S, and what cutting distorts should fall with it."""
    rho = float(privacy.rho) if isinstance(privacy, Concentrated) else 0.0
    return min(max((units * math.sqrt(rho) / (PLENTY * schema.count)) ** 0.25, 1.0), 4.0)


def _rounds(schema: Schema, parameters: Parameters) -> tuple[int, int]:
    return parameters.occupancy_rounds, min(parameters.value_rounds, schema.horizon)


def _table_plan(judged: followed.Judged) -> _Plan:
    return [
        (scored.Transitions(judged), Fraction(6, 10)),
        (scored.Targets(judged, None, 0.0, 1.0), Fraction(3, 10)),
        (scored.Arrivals(judged, np.zeros(judged.schema.count + 1), 1.0), Fraction(1, 10)),
    ]


def _rounds_plan(judged: followed.Judged, rounds: tuple[int, int]) -> _Plan:
    """A quarter for the occupancy. A round's noise reaches the value like every other's, so its share follows the size
    of what it measures: rewards first, then what falls by about a tenth a round; and the occupancy's first change."""
    zeros = np.zeros(judged.schema.count + 1)
    later = [max(1, round(100 * 0.9**index)) for index in range(rounds[1] - 1)]
    targets = [Fraction(2, 5) if later else Fraction(1)] + [Fraction(3 * each, 5 * sum(later)) for each in later]
    arrivals = [Fraction(1, 2)] + [Fraction(1, 2 * (rounds[0] - 1))] * (rounds[0] - 1)
    moves: _Plan = [(scored.Arrivals(judged, zeros, 1.0, index), part / 4) for index, part in enumerate(arrivals)]
    earned: _Plan = [
        (scored.Targets(judged, None, 0.0, 1.0, index), part * 3 / 4) for index, part in enumerate(targets)
    ]
    return moves + earned


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything an evaluation asks, a pure function of what is public: the policy, and what is released on the way,
    are left blank."""
    _checked(schema, privacy, parameters)
    nothing = np.zeros(1, dtype=np.int64)  # stretched, so that a plan of any size takes no memory
    judged = followed.Judged(schema, np.broadcast_to(nothing, (schema.horizon, schema.count)))
    values = np.broadcast_to(nothing.astype(np.float64), (schema.horizon + 1, schema.count + 1))
    score = scored.Scores(judged, values, values[0])
    by_table = _by_table(schema, units, privacy)
    leads = _table_plan(judged) if by_table else _rounds_plan(judged, _rounds(schema, parameters))
    one = Fraction(1)
    plan: list[_Plan] = [
        [(followed.Sizes(judged), one)],
        [(followed.Received(judged, *occupancy.total_range(schema)), one)],
        [(followed.Followed(judged), one)],
        [(followed.Visited(judged), one)],
        [(followed.Taken(judged), one)],
        leads,
        [(scored.ScoreSizes(judged, score), one)],
        [(score, one)],
    ]
    whole = sum(parameters.shares)
    return [
        Query(statistic, privacy.part(Fraction(share, whole) * part))
        for share, statistics in zip(parameters.shares, plan, strict=True)
        for statistic, part in statistics
    ]


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, units, privacy, parameters)]


@dataclass(frozen=True)
class Received:
    """What the patients in the data received."""

    mean: float
    error: float
    deviation: float


def evaluate(curator: Curator, privacy: Share, parameters: Parameters, judging: policy.Policy) -> Evaluation:
    schema, units = curator.schema, curator.units
    asked = queries(schema, units, privacy, parameters)
    asker = Asker(curator, {query.statistic.name: query.share for query in asked}, _reach(schema, units, privacy))
    chosen = decisions(schema, judging)
    judged = followed.Judged(schema, chosen)
    sizes = occupancy.sizes(asker, judged)
    received = _received(asker, judged)
    counts = occupancy.count(asker, sizes, chosen, parameters.support)
    if _by_table(schema, units, privacy):
        found = occupancy.by_table(asker, counts, sizes)
    else:
        found = occupancy.by_rounds(asker, counts, sizes, _rounds(schema, parameters))
    return _judgement(asker, sizes, received, counts, found, parameters)


def _received(asker: Asker, judged: followed.Judged) -> Received:
    low, high = occupancy.total_range(asker.schema)
    answer = asker.ask(followed.Received(judged, low, high))
    mean, error, deviation = _moments(answer, asker.units)
    half = (high - low) / 2
    return Received((high + low) / 2 + half * mean, half * error, half * deviation)


def _moments(answer: Answer, units: int, fitted: float = 1.0) -> tuple[float, float, float]:
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


def _weights(units: int, counts: Counts, found: Estimate) -> _Weights:
    total = found.occupancy if found.occupancy.ndim == 1 else found.occupancy.sum(axis=0)
    by_place = np.where(counts.places > 0, total * units / np.maximum(counts.places, 1.0), 0.0)
    if found.occupancy.ndim == 1:
        return _Weights(by_place, by_place, total, None)
    visits = counts.cells[counts.stands]
    each = np.where(visits > 0, found.occupancy * units / np.maximum(visits, 1.0), 0.0)
    return _Weights(each, by_place, total, counts.stands[:, :-1])


def _judgement(
    asker: Asker, sizes: Sizes, received: Received, counts: Counts, found: Estimate, parameters: Parameters
) -> Evaluation:
    weights = _weights(asker.units, counts, found)
    first = found.values[0, :-1]
    centre = float((counts.by_state * first).sum())
    score = scored.Scores(counts.judged, found.values, weights.each, weights.cells, centre, 1024.0)
    histogram = asker.ask(scored.ScoreSizes(counts.judged, score))
    radius, hidden = _radius(asker, histogram, score, _sizes_of_scores(asker, sizes, received, counts, weights))
    score = scored.Scores(counts.judged, found.values, weights.each, weights.cells, centre, radius)
    answer = asker.ask(score)
    mean, error, _ = _moments(answer, asker.units, _fitted(weights.total, counts.places))
    corrected = abs(mean - 4 * float(answer.values[2]) / asker.units) - 4 * occupancy.deviation(answer) / asker.units
    share = float(weights.occupancy[counts.supported].sum()) / max(float(weights.occupancy.sum()), 1e-9)
    noisy = (first - centre) ** 2 - found.noise[counts.stands[0, :-1]]
    spread = math.sqrt(max(float((counts.by_state * noisy).sum()), 0.0))
    unjudged = (1 - share) * max(float(weights.occupancy.sum()), sizes.length)
    doubt = DOUBT[weights.cells is not None]
    noise = doubt * math.sqrt(float((weights.occupancy**2 * found.noise[counts.stands[0]]).sum()))
    half = QUANTILE * INFLATION * math.hypot(radius * error, noise)
    half += hidden + doubt * radius * max(corrected, 0.0)
    half += unjudged * max(parameters.allowance * spread, CAUTION * received.deviation)
    return _scaled(asker.schema, centre + radius * mean, half, received, share)


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
    square, fourth = (float((counts.places * weights.total**power).sum()) for power in (2, 4))
    large = 1.5 * min(2 * received.deviation, high - low) * math.sqrt(fourth / max(square, 1e-300))
    return large, 2 * square / asker.units * received.deviation**2 / sizes.length


def _radius(asker: Asker, histogram: Answer, score: Statistic, expected: tuple[float, float]) -> tuple[float, float]:
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


def _scaled(schema: Schema, value: float, half: float, received: Received, share: float) -> Evaluation:
    """In the declared unit, within what is possible. A value beyond it is off by at least as much; where noise left no
    number at all, everything is possible."""
    low, high = occupancy.total_range(schema)
    if not math.isfinite(value) or not math.isfinite(half):
        value, half = (low + high) / 2, high - low

    def unit(number: float) -> float:
        return round(min(max(number, low), high) * schema.width, 6) + 0.0

    def interval(centre: float, reach: float) -> tuple[float, float, float]:
        inside = min(max(centre, low), high)
        reach += abs(centre - inside)
        return unit(inside), unit(inside - reach), unit(inside + reach)

    behaviour = interval(received.mean, QUANTILE * INFLATION * received.error)
    return Evaluation(*interval(value, half), *behaviour, round(min(max(share, 0.0), 1.0), 4))
