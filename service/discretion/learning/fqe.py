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

Where data earn once, by an outcome, the horizon is where most of it is earned, and no end like others. What each state
earns at the last step (Φ: `potential`) is released first, and of the H − 1 steps before it visits are paid by how much
better the next state is (`followed`). The score has Φ(s₁) more, and d_H(s)/n_H(s)·(r − Φ(s)) of the last record: what
the last action does, and what Φ has wrong.

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
from typing import Final, Literal

import numpy as np

from discretion import errors
from discretion.learning import (
    asking,
    checks,
    followed,
    horizon,
    judgements,
    occupancy,
    outcomes,
    policy,
    potential,
    report,
    transition_table,
    weighing,
)
from discretion.learning import features as maps
from discretion.learning.asking import Asker
from discretion.learning.curator import Concentrated, Curator, Query, Share, check_budget
from discretion.learning.judgements import Evaluation, Received
from discretion.learning.occupancy import Counts, Estimate, MeanSizes
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema
from discretion.learning.sums import Statistic

NAME: Final = report.NAME
# How wrong an occupancy may be as a share of it, whatever its own noise says. Calibrated, like the allowances below, so
# that the interval holds on public problems.
DOUBT_OF_ROUNDS: Final = 0.35
DOUBT_OF_TABLE: Final = 0.6  # which has no estimate of its noise, so the least is all there is
CAUTION: Final = 0.03  # of the deviation of totals: the least that a decision not judged may be worth
TOGETHER: Final = 0.3  # of that allowance, for decisions that were judged together
MISSED: Final = 0.7  # of what was gained, which may be there as often again as decisions were not judged: `_missed`
UNSEEN_GAIN: Final = 0.25  # deviations of totals that count as gained though nothing was: noise may hide as much
MOVED_ALL: Final = 2.0  # times the share that a policy's first step moves: from one half on, all that is missed counts
FEW_STATES: Final = Fraction(1, 25)  # n√ρ/(S²·A) from which a table of transitions tells more than rounds
PLENTY: Final = 20  # n√ρ/S from which radii grow
LONGEST: Final = 4  # times the usual radius
MAX_CELLS: Final = 50_000_000
MAX_DRAWN: Final = 2**26  # entries of the table of transitions held at once, with what becomes of them 1.5 GiB
VALUE_ROUNDS: Final = 40
OCCUPANCY_ROUNDS: Final = 12
SETTLED_SHARE: Final = 10  # beside `shares`, for what is earned at the last step, where it is kept apart

Plan = list[tuple[Statistic, Fraction]]


@dataclass(frozen=True)
class Parameters:
    """Public constants."""

    value_rounds: int = VALUE_ROUNDS  # longer horizons are extrapolated
    occupancy_rounds: int = OCCUPANCY_ROUNDS
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


def check(schema: Schema, parameters: Parameters) -> None:
    """Refuse data that cannot be judged on."""
    if not isinstance(schema.states, Discrete):
        raise errors.InvalidParameter("Visits are counted of discrete states; vector states are regressed on.")
    sums = schema.count * (schema.actions + 1)
    if sums > MAX_CELLS:
        raise errors.ProblemTooLarge(
            f"dp-fqe keeps a sum for each state and action: {sums} of them, {MAX_CELLS} at most; use fewer states."
        )
    if parameters.way == "table":
        _check_rounds(parameters)
        _check_drawn(schema, schema.count)  # a policy takes one in each, at least


def _check_rounds(parameters: Parameters) -> None:
    if (parameters.value_rounds, parameters.occupancy_rounds) != (VALUE_ROUNDS, OCCUPANCY_ROUNDS):
        raise errors.InvalidParameter(
            "value_rounds and occupancy_rounds are of way 'rounds', and this evaluation's is 'table': leave them out, "
            "or set way to 'rounds'."
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


def check_policy(schema: Schema, parameters: Parameters, judged: policy.Policy) -> None:
    """Refuse a policy that was made for other data, or whose decisions are too many for a table."""
    found = decisions(schema, judged)
    if parameters.way == "table":
        _check_drawn(schema, int(followed.Judged(schema, found).ever().sum()))


def _check_drawn(schema: Schema, taken: int) -> None:
    if _drawn(schema, taken) > MAX_DRAWN:
        raise errors.ProblemTooLarge(
            f"For a policy of {taken} decisions a table of transitions keeps {_drawn(schema, taken)} sums, "
            f'{MAX_DRAWN} at most; use way: "rounds" or fewer states.'
        )


def _drawn(schema: Schema, taken: int) -> int:
    """Entries of the table of transitions for a policy that takes so many decisions (s, a): each has a row, or all of
    its state share one; and one row is the pool's."""
    return (taken + 1) * (schema.count + 2)


def most_drawn(schema: Schema) -> int:
    """The same for any policy: at each step it takes one decision in each state."""
    return _drawn(schema, schema.count * min(schema.actions, schema.horizon))


def _way(schema: Schema, units: int, rho: Fraction) -> Literal["rounds", "table"]:
    enough = FEW_STATES * schema.count**2 * schema.actions
    few = units**2 * rho >= enough**2  # exactly: alike on every machine
    return "table" if few and most_drawn(schema) <= MAX_DRAWN else "rounds"


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
    if way == "table":
        _check_rounds(parameters)
    return replace(parameters, way=way, reach=reach)


def _value_rounds(schema: Schema, parameters: Parameters) -> int:
    return min(parameters.value_rounds, followed.pooled_steps(schema))


def _table_plan(judged: followed.Judged) -> Plan:
    return [
        (outcomes.Transitions(judged), Fraction(6, 10)),
        (outcomes.Targets(judged, None, 0.0, 1.0), Fraction(3, 10)),
        (outcomes.Arrivals(judged, np.zeros(judged.schema.count + 1), 1.0), Fraction(1, 10)),
    ]


def _rounds_plan(judged: followed.Judged, occupancy_rounds: int, value_rounds: int) -> Plan:
    """A quarter for the occupancy. A round's noise reaches the value like every other's, so its share follows the size
    of what it measures: rewards first, then what falls by about a tenth a round; and the occupancy's first change."""
    zeros = np.zeros(judged.schema.count + 1)
    later = [max(1, round(100 * 0.9**index)) for index in range(value_rounds - 1)]
    targets = [Fraction(2, 5) if later else Fraction(1)] + [Fraction(3 * each, 5 * sum(later)) for each in later]
    arrivals = [Fraction(1, 2)] + [Fraction(1, 2 * (occupancy_rounds - 1))] * (occupancy_rounds - 1)
    moves: Plan = [(outcomes.Arrivals(judged, zeros, 1.0, index), part / 4) for index, part in enumerate(arrivals)]
    earned: Plan = [
        (outcomes.Targets(judged, None, 0.0, 1.0, index), part * 3 / 4) for index, part in enumerate(targets)
    ]
    return moves + earned


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything an evaluation asks, a pure function of what is public: the policy, and what is released on the way,
    are left blank."""
    parameters = resolved(schema, units, privacy, parameters)
    nothing = np.zeros(1, dtype=np.int64)  # stretched, so that a plan of any size takes no memory
    judged = followed.Judged(schema, np.broadcast_to(nothing, (schema.horizon, schema.count)))
    values = np.broadcast_to(nothing.astype(np.float64), (schema.horizon + 1, schema.count + 1))
    score = outcomes.Scores(judged, values, values[0])
    if parameters.way == "table":
        leads = _table_plan(judged)
    else:
        leads = _rounds_plan(judged, parameters.occupancy_rounds, _value_rounds(schema, parameters))
    one = Fraction(1)
    plan: list[Plan] = [
        [(followed.UnitSizes(judged), one)],
        [(followed.Received(schema, *asking.total_range(schema)), one)],
        [(followed.Followed(judged), one)],
        [(followed.Visited(judged), one)],
        [(followed.Standing(judged), one)],
        leads,
        [(outcomes.ScoreSizes(score), one)],
        [(score, one)],
    ]
    if not followed.settles(schema):
        return shared_out(privacy, parameters.shares, plan)
    return shared_out(privacy, (SETTLED_SHARE, *parameters.shares), [[(horizon.Settled(schema), one)], *plan])


def shared_out(privacy: Share, shares: tuple[int, ...], plan: list[Plan]) -> list[Query]:
    """Each kind of release gets its share, and within it each statistic its part."""
    return [
        Query(statistic, privacy.part(Fraction(share, sum(shares)) * part))
        for share, statistics in zip(shares, plan, strict=True)
        for statistic, part in statistics
    ]


def evaluate(curator: Curator, privacy: Share, parameters: Parameters, judging: policy.Policy) -> Evaluation:
    schema, units = curator.schema, curator.units
    parameters = resolved(schema, units, privacy, parameters)
    check_policy(schema, parameters, judging)
    assert parameters.reach is not None
    asked = queries(schema, units, privacy, parameters)
    asker = Asker(curator, {query.statistic.name: query.share for query in asked}, parameters.reach)
    settled = potential.of(asker) if followed.settles(schema) else None
    judged = followed.Judged(schema, decisions(schema, judging), potential=None if settled is None else settled.values)
    sizes = occupancy.mean_sizes(asker, judged)
    received = judgements.received_of(asker)
    counts = occupancy.count(asker, sizes, judged, parameters.support)
    if parameters.way == "table":
        found = transition_table.estimate(asker, counts, sizes, settled)
    else:
        rounds = {"occupancy_rounds": parameters.occupancy_rounds, "value_rounds": _value_rounds(schema, parameters)}
        found = occupancy.by_rounds(asker, counts, sizes, **rounds)
    weights = weighing.of(units, counts, found)
    last = None if settled is None else weighing.last(asker, counts, weights, found, settled)
    return _judgement(asker, _Released(sizes, received, counts, found, weights, last), parameters)


@dataclass(frozen=True, eq=False)
class _Released:
    """What is known before patients are scored."""

    sizes: MeanSizes
    received: Received
    counts: Counts
    found: Estimate
    weights: weighing.Weights
    last: weighing.Last | None  # where the last step is kept apart

    @property
    def occupancy(self) -> FloatArray:  # (S + 1,)
        """How often the policy comes to each place, at any step."""
        return self.weights.occupancy if self.last is None else self.weights.occupancy + self.last.occupancy

    @property
    def length(self) -> float:
        """Decisions of a stay under the policy."""
        return float(self.occupancy.sum())

    @property
    def share(self) -> float:
        """Of these, those that are judged by themselves."""
        return float(self.occupancy[self.counts.supported].sum()) / max(self.length, 1e-9)

    @property
    def first(self) -> FloatArray:  # (S,)
        """What a stay is worth, by the state it starts in."""
        found = self.found.values[0, :-1]
        return found if self.last is None else found + self.last.potential[:-1]

    @property
    def centre(self) -> float:
        return float((self.counts.by_state * self.first).sum())

    @property
    def doubt(self) -> float:
        """By what share the occupancy may be wrong."""
        return max(self.found.doubt, DOUBT_OF_ROUNDS if self.weights.cells is None else DOUBT_OF_TABLE)


def _judgement(asker: Asker, known: _Released, parameters: Parameters) -> Evaluation:
    """The mean score; around it what noise and doubt make of it, and what was not judged."""
    score = _mean_score(asker, known)
    half = score.spread(_noise(known)) + score.doubted(known.doubt)
    gained = abs(score.value - known.received.mean) + score.radius * score.error  # or may have been
    gained += UNSEEN_GAIN * known.received.deviation
    half += max(_allowed(known, parameters), _missed(asker.schema, gained, known.share, known.found.moved))
    return judgements.scaled(asker.schema, score.value, half, known.received, known.share)


def _mean_score(asker: Asker, known: _Released) -> judgements.MeanScore:
    counts, values, weights = known.counts, known.found.values, known.weights
    score = outcomes.Scores(counts.judged, values, weights.each, weights.cells, known.centre, alike=weights.alike)
    if known.last is not None:
        score = replace(score, settling=known.last.weights)
    return judgements.mean_score(asker, score, _scale(asker, known), _fitted(weights.total, counts.places))


def _noise(known: _Released) -> float:
    """Of the values, as far as the scores do not correct it."""
    unsure = known.found.unsure[known.counts.stands[0]]
    found = math.sqrt(float((known.weights.occupancy**2 * unsure).sum()))
    return known.doubt * (found if known.last is None else math.hypot(found, known.last.unsure))


def _allowed(known: _Released, parameters: Parameters) -> float:
    """For decisions that were not judged by themselves: each may be better or worse by a share of the spread of the
    states' values, less where they were judged together."""
    counts, together = known.counts, known.weights.together
    noisy = (known.first - known.centre) ** 2 - known.found.noise[counts.stands[0, :-1]]
    spread = math.sqrt(max(float((counts.by_state * noisy).sum()), 0.0))
    unjudged = (1 - known.share) * max(known.length, known.sizes.length) * (1 - together * (1 - TOGETHER))
    return unjudged * max(parameters.allowance * spread, CAUTION * known.received.deviation)


def _missed(schema: Schema, gained: float, share: float, moved: float) -> float:
    """What a policy may be worth beyond what was seen of it. A decision's worth is seen as far as it is judged, and
    those before and after it, which bring patients there and make use of it: as the fourth power of the share, which
    was calibrated. It matters as far as the policy moves patients to other states, which its first step shows."""
    low, high = asking.total_range(schema)
    part = MISSED * min((MOVED_ALL * moved) ** 3, 1.0)
    return min(part * gained * (1 / max(share, 0.01) ** 4 - 1), high - low)


def _fitted(weights: FloatArray, visits: FloatArray) -> float:
    """By how much the variance of means exceeds what is seen around them: n/(n − 1) of each, by their weight."""
    square, many = weights**2, np.maximum(visits, 2.0)
    return max(float((square * many**2 / (many - 1)).sum()) / max(float((square * many).sum()), 1e-300), 1.0)


def _scale(asker: Asker, known: _Released) -> judgements.ScoreScale:
    """A visit adds its weight times a change of value; over a trajectory these add up to its total, and are rarely more
    than twice the deviation of totals."""
    counts, weights, deviation = known.counts, known.weights, known.received.deviation
    low, high = asking.total_range(asker.schema)
    often = np.where(counts.supported, 1.0, 1 / np.maximum(weights.alike[1], 1.0))
    square, fourth = (float((counts.places * often * (weights.total / often) ** power).sum()) for power in (2, 4))
    change, mean = min(2 * deviation, high - low), 2 * square / asker.units * deviation**2 / known.sizes.length
    if known.last is not None:
        # Most is settled by the last record; before it changes are as large as what visits are paid.
        within = min(2 * math.sqrt(known.sizes.sharpness) / change, 1.0)
        records, each = known.last.visits * often, known.last.weights / often
        settled = float((records * each**2).sum())
        square, fourth = square * within**2 + settled, fourth * within**4 + float((records * each**4).sum())
        mean += 2 * settled / asker.units * deviation**2
    return judgements.ScoreScale(1.5 * change * math.sqrt(fourth / max(square, 1e-300)), mean)
