"""DP-FQE: what a policy would be worth, judged on other patients' data by fitted-Q evaluation on private statistics.

The kernel is assumed to be the same at every step, and states to tell all that matters about what follows. The policy
may decide by the step. With discrete states:

1. Counts of the visits that followed the policy, and of all visits. A decision with too few followed visits is not
   judged: what clinicians did there stands in for it, and states with too few visits at all are pooled.
2. Occupancy: d = start + Pᵀd, how often the policy comes to each place, from the recorded one by rounds of corrections.
3. Values: V_h = V_{h+1} + P(V_{h+1} − V_{h+2}), one round a step, each for what the round before added.
4. A score of each patient, V₁(s₁) + Σ d(s)/n(s)·(r + V_{h+1}(s′) − V_h(s)), whose mean is the value: a single number, so
   its noise is next to nothing, and errors of V count only as far as d is wrong too (they multiply).

| here        | is                                                                                           |
|-------------|----------------------------------------------------------------------------------------------|
| place       | a state, or the pool of rare states (number S)                                               |
| cell        | a decision (s, a) with enough followed visits, or a place where everyone's visits stand in    |
| weight      | d·n/n(cell): how much a visit counts                                                         |

**Guarantee.** Everything released is ρ-zCDP together for replacing one patient.

**The interval** adds, at 90 %: sampling and privacy noise of the mean score (both measured), what noise of the values
remains where the occupancy is wrong, and an allowance for decisions that could not be judged: each may be better or
worse than what clinicians did by a share of the spread of the states' values. The last is a convention, no theorem; it
is zero where every decision is supported.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion import errors
from discretion.learning import checks, denoising, followed, policy
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget, event_of
from discretion.learning.sums import Statistic
from discretion.learning.trajectories import BoolArray, Discrete, FloatArray, IntArray, Schema
from discretion.privacy import events

NAME: Final = "dp-fqe"
LEVEL: Final = 0.9
_REACH: Final = 1.6
_FEW: Final = 1.5
_FEWEST: Final = 8.0  # visits without which nothing is said of a cell
_QUANTILE: Final = 1.645  # of the normal distribution, for LEVEL
MAX_CELLS: Final = 50_000_000


@dataclass(frozen=True)
class Parameters:
    """The policy to be judged, and public constants."""

    judged: policy.Policy
    value_rounds: int = 40  # of step 3; a longer horizon is extrapolated
    occupancy_rounds: int = 12  # of step 2
    support: float = 2.5  # a count is enough at so many standard deviations of its noise
    allowance: float = 0.25  # of the spread of values, for each decision that cannot be judged
    shares: tuple[int, ...] = (3, 5, 20, 6, 2, 47, 4, 13)

    def __post_init__(self) -> None:
        if not isinstance(self.judged, policy.Policy):
            raise errors.InvalidParameter("judged must be the policy that is to be evaluated.")
        checks.whole(self.value_rounds, "value_rounds", low=2, high=1000)
        checks.whole(self.occupancy_rounds, "occupancy_rounds", low=2, high=100)
        checks.number(self.support, "support", low=1.0, high=100.0)
        checks.number(self.allowance, "allowance", low=0.0, high=100.0)
        names = ("sizes", "received", "followed", "visited", "taken", "leads", "histogram", "scores")
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
            "algorithm": NAME,
            "level": self.level,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "behaviour": {"value": self.behaviour, "low": self.behaviour_low, "high": self.behaviour_high},
            "supported_share": self.supported_share,
        }


def check(schema: Schema, parameters: Parameters) -> None:
    """Refuse a policy that was not made for this schema."""
    judged = parameters.judged
    if (judged.horizon, judged.states, judged.actions) != (schema.horizon, schema.states, schema.actions):
        raise errors.InvalidParameter("The policy was made for another horizon, other states or other actions.")
    if not isinstance(schema.states, Discrete) or not isinstance(judged.rule, policy.Table):
        raise errors.InvalidParameter("dp-fqe judges policies of discrete states.")
    if schema.count * (schema.actions + 1) > MAX_CELLS:
        raise errors.ProblemTooLarge(f"dp-fqe keeps a sum for each state and action: {MAX_CELLS} at most.")


def _decisions(parameters: Parameters) -> IntArray:  # (H, S)
    rule = parameters.judged.rule
    assert isinstance(rule, policy.Table)
    return np.asarray(rule.decisions, dtype=np.int64)


def _by_model(schema: Schema, units: int, privacy: Share) -> bool:
    """Whether a table of transitions tells more than rounds of sums: with few states for that many patients and that
    budget. Noise of the table reaches a value by √S, of the rounds by their number."""
    assert isinstance(privacy, Concentrated)
    cells = schema.count * (schema.actions + 1) * (schema.count + 2)
    return cells <= MAX_CELLS and units * math.sqrt(float(privacy.rho)) >= _FEW * schema.count**1.5


def _plan(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[list[tuple[Statistic, Share]]]:
    """The statistics of each share, as far as they are public, and what each may cost."""
    judged = followed.Judged(schema, _decisions(parameters))
    zeros = np.zeros(schema.count + 1)
    score = followed.Scores(judged, np.zeros((schema.horizon + 1, schema.count + 1)), zeros)
    leads = _model_plan if _by_model(schema, units, privacy) else _rounds_plan
    one = Fraction(1)
    plan: list[list[tuple[Statistic, Fraction]]] = [
        [(followed.Sizes(judged), one)],
        [(followed.Received(judged, *_range(schema)), one)],
        [(followed.Followed(judged), one)],
        [(followed.Visited(judged), one)],
        [(followed.Taken(judged), one)],
        leads(judged, parameters),
        [(followed.ScoreSizes(judged, score), one)],
        [(score, one)],
    ]
    whole = sum(parameters.shares)
    return [
        [(statistic, privacy.part(Fraction(share, whole) * part)) for statistic, part in statistics]
        for share, statistics in zip(parameters.shares, plan, strict=True)
    ]


def _model_plan(judged: followed.Judged, parameters: Parameters) -> list[tuple[Statistic, Fraction]]:
    zeros = np.zeros(judged.schema.count + 1)
    return [
        (followed.Transitions(judged), Fraction(6, 10)),
        (followed.Targets(judged, None, 0.0, 1.0), Fraction(3, 10)),
        (followed.Arrivals(judged, zeros, 1.0), Fraction(1, 10)),
    ]


def _rounds_plan(judged: followed.Judged, parameters: Parameters) -> list[tuple[Statistic, Fraction]]:
    """A round's noise adds to the value like every other's, so its share follows the size of what it measures: the
    reward first, then what falls by a tenth each round; likewise the first correction of the occupancy."""
    zeros = np.zeros(judged.schema.count + 1)
    later = [max(1, round(100 * 0.9**k)) for k in range(min(parameters.value_rounds, judged.schema.horizon) - 1)]
    targets = [Fraction(2, 5) if later else Fraction(1)] + [Fraction(3 * weight, 5 * sum(later)) for weight in later]
    more = parameters.occupancy_rounds - 1
    arrivals = [Fraction(1, 2)] + [Fraction(1, 2 * more)] * more
    plan: list[tuple[Statistic, Fraction]] = [
        (followed.Arrivals(judged, zeros, 1.0, index), part / 4) for index, part in enumerate(arrivals)
    ]
    return plan + [
        (followed.Targets(judged, None, 0.0, 1.0, index), part * 3 / 4) for index, part in enumerate(targets)
    ]


def _checked(schema: Schema, privacy: Share, parameters: Parameters) -> None:
    check(schema, parameters)
    check_budget(privacy)
    if not isinstance(privacy, Concentrated):
        raise errors.InvalidParameter("dp-fqe needs a zCDP budget: its statistics have no pure ε-DP form.")


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    _checked(schema, privacy, parameters)
    plan = _plan(schema, units, privacy, parameters)
    return [event_of(Query(statistic, share), units) for statistics in plan for statistic, share in statistics]


def _range(schema: Schema) -> tuple[float, float]:
    """What a trajectory's total can be, in rewards' widths."""
    if schema.total is not None:
        return schema.total[0] / schema.width, schema.total[1] / schema.width
    return schema.low * schema.horizon / schema.width, (schema.low + schema.width) * schema.horizon / schema.width


def _deviation(answer: Answer) -> float:
    """The standard deviation of the noise, in radii."""
    return math.sqrt(float(answer.event.scale))


def evaluate(curator: Curator, privacy: Share, parameters: Parameters) -> Evaluation:
    schema = curator.schema
    _checked(schema, privacy, parameters)
    return _Run(curator, privacy, parameters).evaluation()


@dataclass(frozen=True, eq=False)
class _Counts:
    """What was counted, by cell and by place; `trusted` and `place` say what stands for the policy."""

    judged: followed.Judged
    cells: FloatArray  # (S·A + S + 1,) visits, 0 where nothing stands for anything
    places: FloatArray  # (S + 1,) visits at steps at which the policy decides so
    recorded: FloatArray  # (S + 1,) how often a recorded trajectory is there
    policy_cells: IntArray  # (H, S) the cell that stands for the policy's decision
    supported: BoolArray  # (S + 1,) the decision itself is judged there


class _Run:
    """One evaluation; each method asks one share's statistics."""

    def __init__(self, curator: Curator, privacy: Share, parameters: Parameters) -> None:
        self.curator, self.schema, self.units = curator, curator.schema, curator.units
        self.parameters = parameters
        self.by_model = _by_model(curator.schema, curator.units, privacy)
        self.parts = [[share for _, share in part] for part in _plan(curator.schema, curator.units, privacy, parameters)]
        self.decisions = _decisions(parameters)

    def ask(self, statistic: Statistic, share: int, index: int = 0) -> Answer:
        return self.curator.ask(Query(statistic, self.parts[share][index]))[0]

    def evaluation(self) -> Evaluation:
        judged = followed.Judged(self.schema, self.decisions)
        self.sizes(judged)
        behaviour = self.received(judged)
        counts = self.counts()
        if self.by_model:
            occupancy, doubt, values, noise = self.modelled(counts)
        else:
            occupancy, doubt = self.occupancy(counts)
            values, noise = self.values(counts)
        return self.judgement(counts, occupancy, doubt, values, noise, behaviour)

    def sizes(self, judged: followed.Judged) -> None:
        """A unit's mean followed visits, visits and squared rewards; never below what their noise could hide."""
        answer = self.ask(followed.Sizes(judged), 0)
        scale = self.schema.horizon * self.schema.per_unit / self.units
        floor = 2 * _deviation(answer) * scale
        found = answer.values * scale
        self.followed = max(float(found[0]), floor, 0.5)
        self.length = max(float(found[1]), floor, 1.0)
        self.squares = max(float(found[2]), floor / 2, 1e-3)
        self.sharpness = min(max(float(found[3]), floor / 2, 1e-6) / self.squares, 1.0)

    def received(self, judged: followed.Judged) -> tuple[float, float]:
        """The recorded mean total and its standard error."""
        low, high = _range(self.schema)
        answer = self.ask(followed.Received(judged, low, high), 1)
        mean, error = _moments(answer, self.units)
        half = (high - low) / 2
        self.deviation = half * math.sqrt(max(float(answer.values[1]) / self.units - mean**2, 0.0))
        return (high + low) / 2 + half * mean, half * error

    def counts(self) -> _Counts:
        limits = (math.ceil(2.25 * self.followed), math.ceil(2.5 * self.length))
        judged = followed.Judged(self.schema, self.decisions, limits)
        follow, visit = self.ask(followed.Followed(judged), 2), self.ask(followed.Visited(judged), 3)
        radii = [math.sqrt(limit) for limit in limits]
        table, visited = follow.values * radii[0], visit.values * radii[1]
        return self._trusted(limits, table, visited, _deviation(follow) * radii[0], _deviation(visit) * radii[1])

    def _trusted(
        self, limits: tuple[int, int], table: FloatArray, visited: FloatArray, noise: float, other: float
    ) -> _Counts:
        schema, support = self.schema, self.parameters.support
        states, actions = schema.count, schema.actions
        ever = followed.Judged(schema, self.decisions).ever()
        always = ever & (ever.sum(axis=1) == 1)[:, None]  # no other steps to count
        table = np.where(ever, table, 0.0)
        table[1][always] = 0.0
        total, now = table.sum(axis=0), table[0]
        trusted = ever & (total > np.maximum(support * noise * np.where(always, 1.0, math.sqrt(2)), _FEWEST))
        own = np.where(trusted, now, 0.0).sum(axis=1)
        trusted &= (own > support * noise * np.sqrt(np.maximum(trusted.sum(axis=1), 1)))[:, None]
        known = trusted.any(axis=1)
        place = np.where(known | (visited > max(support * other, _FEWEST)), np.arange(states), states)
        judged = followed.Judged(schema, self.decisions, limits, trusted, place)
        taken = np.maximum(self.ask(followed.Taken(judged), 4).values * sum(limits), 1.0)
        cells = np.concatenate([np.where(trusted, total, 0.0).ravel(), np.where(known, 0.0, visited), [0.0]])
        cells[states * actions : -1][place == states] = 0.0
        pool = min(taken[1], taken[0]) if (place == states).any() else 0.0
        # Counts that passed the threshold are too large on average; their sum is known better.
        cells *= (taken[0] - pool) / max(cells.sum(), 1.0)
        cells[-1] = pool
        ratio = (taken[0] - pool) / max(cells[:-1].sum(), 1.0)
        places = np.append(np.where(known, np.where(trusted, now, 0.0).sum(axis=1) * ratio, cells[states * actions : -1]), pool)
        recorded = np.append(np.where(place == states, 0.0, np.maximum(visited, 0.0)), pool)
        recorded *= self.length / max(recorded.sum(), 1.0)
        best = np.where(trusted, total, -np.inf).argmax(axis=1)
        index = np.arange(states)
        action = np.where(trusted[index, self.decisions], self.decisions, best)
        stands = np.where(known, index * actions + action, states * actions + place)
        return _Counts(judged, cells, np.maximum(places, 0.0), recorded, stands, np.append(known, False))

    def occupancy(self, counts: _Counts) -> tuple[FloatArray, float]:
        """How often the policy comes to each place, and by what share that is unsure."""
        found, change = counts.recorded.copy(), counts.recorded
        scale = np.maximum(found, np.sqrt(found * found.mean()))
        live = counts.places > 0
        for index in range(self.parameters.occupancy_rounds):
            weights = np.where(live, change * self.units / np.maximum(counts.places, 1.0), 0.0)
            radius = self._length(weights, counts.places, float(index == 0))
            answer = self.ask(followed.Arrivals(counts.judged, weights, radius, index), 5, index)
            raw, noise = answer.values * radius / self.units, _deviation(answer) * radius / self.units
            change = _shrunk(raw - (counts.recorded if index == 0 else 0.0), noise, scale)
            found = np.maximum(found + change, 0.0)
        return found, 0.35

    def modelled(self, counts: _Counts) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        """Occupancy, values and their noise from a table of transitions."""
        schema, cells = self.schema, counts.cells
        horizon, states = schema.horizon, schema.count
        limits, standing = counts.judged.limits, float(cells[states * schema.actions :].sum()) / self.units
        table = followed.Transitions(counts.judged, math.sqrt(limits[0] + 2.5 * standing))
        moved = self.ask(table, 5, 0)
        live, visits = np.flatnonzero(cells > 0), np.maximum(cells, 1.0)
        kernel, doubt = np.zeros((len(cells), states + 2)), np.zeros((len(cells), states + 2))
        kernel[live], doubt[live] = _kernel(moved.values[live] * table.radius, visits[live], _deviation(moved) * table.radius)
        _, radius = self._spread(counts, None)
        paid = self.ask(followed.Targets(counts.judged, None, 0.0, radius), 5, 1)
        mean = 2 * paid.values[-1] * radius / max(cells.sum(), 1.0)
        reward, unsure = np.full(len(cells), mean), np.zeros(len(cells))
        reward[live], unsure[live] = _shares(
            paid.values[:-1][live] * radius, visits[live], _deviation(paid) * radius, schema.idle > 0, schema.idle < 1
        )
        starts = self.ask(followed.Arrivals(counts.judged, np.zeros(states + 1), float(schema.per_unit)), 5, 2)
        start = _on_simplex(starts.values[None] / max(starts.values.sum(), 1.0))[0]
        own = np.append(counts.policy_cells, np.full((horizon, 1), len(cells) - 1), axis=1)  # (H, S + 1) by place
        values, spread = np.zeros((horizon + 1, states + 2)), np.zeros(states + 1)
        for step in reversed(range(horizon)):
            values[step, :-1] = np.clip((reward + kernel @ values[step + 1])[own[step]], *_range(schema))
        occupancy = np.empty((horizon, states + 1))
        occupancy[0] = start
        for step in range(horizon - 1):
            occupancy[step + 1] = (occupancy[step] @ kernel[own[step]])[:-1]
        used = np.append(counts.judged.place, states + 1)
        variance = unsure + (doubt * (values[0] - kernel @ values[0][:, None]) ** 2).sum(axis=1)
        return occupancy, 0.35, values[:, used], variance

    def _length(self, sizes: FloatArray, visits: FloatArray, more: float = 0.0) -> float:
        """A radius that few units' vectors pass, from what a visit of each place adds to it: the expected square of a
        unit, and of a visit seen by its weight in that; without the latter, few large entries would be cut."""
        square, fourth = (float((visits * sizes**power).sum()) for power in (2, 4))
        return max(_REACH * math.sqrt(square / self.units + fourth / max(square, 1e-300) + more), 1e-6)

    def values(self, counts: _Counts) -> tuple[FloatArray, FloatArray]:
        """V_h by state, (H + 1, S + 1), and the variance of the noise in each cell."""
        schema, cells = self.schema, counts.cells
        live, visits = cells > 0, np.maximum(cells, 1.0)
        rounds = len(self.parts[5]) - self.parameters.occupancy_rounds
        values = np.zeros((schema.horizon + 1, schema.count + 1))
        q, variance = np.zeros(len(cells)), np.zeros(len(cells))
        for index in range(rounds):
            step = schema.horizon - 1 - index
            added = None if index == 0 else values[step + 1] - values[step + 2]
            centre, radius = self._spread(counts, added)
            answer = self.ask(followed.Targets(counts.judged, added, centre, radius, index), 5, self.parameters.occupancy_rounds + index)
            sums, noise = answer.values * radius, _deviation(answer) * radius
            mean = 2 * sums[-1] / max(cells.sum(), 1.0)
            deviation = np.where(live, sums[:-1] / visits - mean, 0.0)
            factor = _factor(deviation, noise / visits, cells)
            rest = factor * deviation
            q += centre + mean + rest - (cells * rest).sum() / max(cells.sum(), 1.0)
            variance += (factor * noise / visits) ** 2
            values[step, :-1] = q[counts.policy_cells[step]]
        self._extrapolate(values, counts, rounds)
        return values, variance

    def _by_state(self, counts: _Counts) -> FloatArray:
        """Visits of each state; the pool's are spread over its states."""
        pooled = counts.judged.place == self.schema.count
        return np.where(pooled, counts.places[-1] / max(int(pooled.sum()), 1), counts.places[:-1])

    def _spread(self, counts: _Counts, added: FloatArray | None) -> tuple[float, float]:
        """The mean of what a visit adds, and a radius for a unit's sums around it (and for half of their total)."""
        if added is None:
            return 0.0, max(1.118 * math.sqrt(self.squares + self.sharpness), 1e-6)
        weights, end = self._by_state(counts), 1 / self.length
        total = max(weights.sum(), 1.0)
        centre = (1 - end) * float((weights * added[:-1]).sum()) / total
        visits = np.append((1 - end) * weights, end * total) * (counts.cells.sum() / total)
        return centre, 1.118 * self._length(added - centre, visits)

    def _extrapolate(self, values: FloatArray, counts: _Counts, rounds: int) -> None:
        horizon = self.schema.horizon
        if rounds >= horizon:
            return
        step = horizon - rounds
        last, before = values[step] - values[step + 1], values[step + 1] - values[step + 2]
        weights = np.append(self._by_state(counts), 0.0)
        ratio = float((weights * last * before).sum() / max((weights * before**2).sum(), 1e-300))
        for index in range(step - 1, -1, -1):
            last = last * min(max(ratio, 0.0), 1.0)
            values[index] = values[index + 1] + last

    def judgement(
        self,
        counts: _Counts,
        occupancy: FloatArray,
        doubt: float,
        values: FloatArray,
        noise: FloatArray,
        behaviour: tuple[float, float],
    ) -> Evaluation:
        cells = None
        if occupancy.ndim == 2:
            cells = counts.policy_cells
            own = np.append(cells, np.full((self.schema.horizon, 1), len(counts.cells) - 1), axis=1)
            visits = counts.cells[own]
            weights = np.where(visits > 0, occupancy * self.units / np.maximum(visits, 1.0), 0.0)
            each = np.where(counts.places > 0, occupancy.sum(axis=0) * self.units / np.maximum(counts.places, 1.0), 0.0)
            occupancy = occupancy.sum(axis=0)
        else:
            weights = np.where(counts.places > 0, occupancy * self.units / np.maximum(counts.places, 1.0), 0.0)
            each = weights
        by_state = self._by_state(counts)
        by_state = by_state / max(by_state.sum(), 1.0)
        centre = float((by_state * values[0, :-1]).sum())
        score = followed.Scores(counts.judged, values, weights, cells, centre, 1024.0)
        histogram = self.ask(followed.ScoreSizes(counts.judged, score), 6)
        radius, tail = self._radius(histogram, each, counts.places)
        answer = self.ask(followed.Scores(counts.judged, values, weights, cells, centre, radius), 7)
        visits = np.maximum(counts.places, 2.0)
        fitted = float((each**2 * visits**2 / (visits - 1)).sum() / max((each**2 * visits).sum(), 1e-300))
        mean, error = _moments(answer, self.units, max(fitted, 1.0))
        corrected = abs(mean - 4 * float(answer.values[2]) / self.units) - 4 * _deviation(answer) / self.units
        spread = math.sqrt(float((by_state * (values[0, :-1] - centre) ** 2).sum()))
        first = np.append(counts.policy_cells[0], self.schema.count * (self.schema.actions + 1))
        places = np.append(np.where(counts.judged.place == self.schema.count, 0.0, occupancy[:-1]), occupancy[-1])
        remaining = doubt * math.sqrt(float((places**2 * noise[first]).sum()))
        unjudged = float(occupancy[~counts.supported].sum())
        half = _QUANTILE * 1.1 * math.hypot(radius * error, remaining)
        half += tail + doubt * radius * max(corrected, 0.0) + max(self.parameters.allowance * spread, 0.03 * self.deviation) * unjudged
        self.trace = dict(radius=radius, tail=tail, error=radius * error, remaining=remaining, spread=spread, unjudged=unjudged, total=occupancy.sum(), plug=centre, large=self.large, corrected=radius*corrected, fitted=fitted)
        share = 1 - unjudged / max(float(occupancy.sum()), 1e-9)
        return self._scaled(centre + radius * mean, half, behaviour, share)

    def _radius(self, histogram: Answer, weights: FloatArray, visits: FloatArray) -> tuple[float, float]:
        """The radius at which noise and what is cut off are least together, and the latter.

        Beyond what the histogram shows, some units may be hidden in its noise. How large their scores can be follows
        from the weights: a visit adds its weight times a change of value, taken as twice the deviation of a total."""
        share = self.parts[7][0]
        assert isinstance(share, Concentrated)
        low, high = _range(self.schema)
        size = min(2 * self.deviation, high - low)
        counts, noise = histogram.values, _deviation(histogram)
        doubt = noise * np.sqrt(np.arange(len(counts), 0, -1))
        real = np.logical_and.accumulate(np.cumsum(counts[::-1])[::-1] > 3 * doubt)
        sizes = np.append(followed.EDGES * 2**-0.25, followed.EDGES[-1])
        many = np.where(real, np.maximum(counts, 0.0), 0.0)
        square, fourth = (float((visits * weights**power).sum()) for power in (2, 4))
        large = 1.5 * size * math.sqrt(fourth / max(square, 1e-300))
        rare = 2 * square / self.units * self.deviation**2 / self.length
        best = (math.inf, 1.0, 0.0)
        for edge in followed.EDGES:
            cut = float((many * np.maximum(sizes - edge, 0.0)).sum()) / self.units
            cut += min(2 * noise * math.sqrt(8) / self.units, rare / edge**2) * max(large - edge, 0.0)
            cost = 2 * edge / math.sqrt(2 * float(share.rho)) / self.units
            best = min(best, (cost + cut, float(edge), cut))
        self.large=large
        return best[1], best[2]

    def _scaled(self, value: float, half: float, behaviour: tuple[float, float], share: float) -> Evaluation:
        low, high = _range(self.schema)

        def unit(number: float) -> float:
            return round(min(max(number, low), high) * self.schema.width, 6) + 0.0

        mean, error = behaviour[0], _QUANTILE * behaviour[1]
        intervals = (unit(value), unit(value - half), unit(value + half), unit(mean), unit(mean - error), unit(mean + error))
        return Evaluation(*intervals, supported_share=round(min(max(share, 0.0), 1.0), 4))


def _moments(answer: Answer, units: int, fitted: float = 1.0) -> tuple[float, float]:
    """The mean of z and its standard error: sampling (more, if z was fitted to the same patients) and noise."""
    mean, square = (float(number) / units for number in answer.values[:2])
    noise = _deviation(answer) / units
    variance = max(square - mean**2, noise, 0.0)  # a squared mean that noise made negative is no certainty
    return mean, math.sqrt(fitted * variance / units + noise**2)


def _shrunk(raw: FloatArray, noise: float, scale: FloatArray) -> FloatArray:
    """The posterior mean under a prior whose deviation is proportional to `scale`, by the method of moments."""
    prior = max(float((raw**2 - noise**2).sum()) / max(float((scale**2).sum()), 1e-300), 0.0) * scale**2
    return raw * prior / np.maximum(prior + noise**2, 1e-300)


def _factor(deviation: FloatArray, noise: FloatArray, weights: FloatArray) -> FloatArray:
    """How much of each deviation to believe."""
    prior = float((weights * (deviation**2 - noise**2)).sum()) / max(float(weights.sum()), 1.0)
    return np.where(weights > 0, max(prior, 0.0) / np.maximum(max(prior, 0.0) + noise**2, 1e-300), 0.0)


def _on_simplex(rows: FloatArray) -> FloatArray:
    """The closest shares that add up to 1, none below zero."""
    descending = -np.sort(-rows, axis=1)
    drops = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, rows.shape[1] + 1)
    kept = np.maximum((descending > drops).sum(axis=1), 1)
    return np.asarray(np.maximum(rows - drops[np.arange(len(rows)), kept - 1][:, None], 0.0))


def _shares(
    sums: FloatArray, visits: FloatArray, noise: float, below: bool = False, above: bool = True, mass: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Sums over visits as shares of them, most of which may be zero: mean and variance given the noise."""
    cells = denoising.Noised(sums, visits, np.full(len(sums), noise**2), np.zeros(len(sums), dtype=np.int64), sampled=False)
    smallest = float(np.clip(noise / 2 / np.median(visits), 1e-3, 0.5))
    levels = denoising.levels(smallest, below=below, above=above)
    start = np.full(len(levels), 0.5 / (len(levels) - 1))
    start[0] = 0.5
    some = denoising.sampled(len(cells), 1) if mass is None else denoising.sampled(len(cells), round(1 / mass))
    return denoising.posterior(cells, denoising.fit(cells.only(some), start, levels, mass=mass))


def _kernel(table: FloatArray, visits: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    rows, columns = table.shape
    found = _shares(table.ravel(), np.repeat(visits, columns), noise, mass=1 / columns)
    mean, variance = (part.reshape(rows, columns) for part in found)
    return denoising.closed(mean, variance), variance
