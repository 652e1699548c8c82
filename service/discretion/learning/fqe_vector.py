"""DP-FQE for vector states: what a policy would be worth, judged on other patients' data (see `fqe` for discrete ones).

The kernel is assumed to be the same at every step, states to tell all that matters about what follows, and values to be
linear in public features ψ of the state. The policy may decide by the step, in equal groups of steps.

1. How often doctors act as the policy would, regressed on the features; each followed visit counts the inverse.
2. V_h(x) = clip(base + ψᵀw_h), from the last step back: a round of sums of ψ·(r + V_{h+1}(x′) − prediction) each.
3. Where the policy leads to, μ_h, from how features change: only to weigh the next.
4. A score of each patient, V₁(x₁) + Σ ω·ψᵀG⁻¹μ_h·(r + V_{h+1}(x′) − V_h(x)) over followed visits. Its mean is the
   value; errors of V count only as far as μ is wrong too.

Where stays earn once, by their outcome, the horizon stands apart (`horizon_vector`): V_H is what they earn there, by
their state, and the scores correct it where the policy was followed, by the features' Gram matrix at that step alone.

**Guarantee.** Everything released is ρ-zCDP together for replacing one patient.

**The interval** has, at 90 %, the sampling and privacy noise of the mean score, both measured; the share `DOUBT` of the
noise of V and of what the scores corrected; what cutting large scores may hide; and two allowances in deviations of
what stays earned: for values that are not linear, smaller the more features there are; and for decisions that are rare
in the data, because there values are extrapolated. These are conventions, no theorems.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from discretion import errors
from discretion.learning import (
    asking,
    followed,
    fqe,
    horizon_vector,
    judgements,
    outcomes,
    policy,
    transit_outcomes,
    transits,
)
from discretion.learning import features as maps
from discretion.learning.asking import Asker
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget
from discretion.learning.fqe import Parameters
from discretion.learning.judgements import Evaluation, Received
from discretion.learning.pooled_records import apart, group_of
from discretion.learning.schemas import FloatArray, Schema, Vector
from discretion.learning.transits import Behaviour, Judged, Value

LIMIT: Final = 1.5  # of the sizes of a patient's visits, in their mean
MOVED: Final = 0.5  # of the limit: the radius of how features change
EARNED: Final = 2.0  # deviations of a reward and roots of the limit: the radius of what values fail to predict
BOUND: Final = 6.0  # deviations of a reward to which one failure is cut
# Added to a matrix before it is inverted, besides RIDGE, of the norm of its noise.
VALUE_LIFT: Final = 0.2  # for values, whose errors the scores correct
STEADY_LIFT: Final = 0.5  # for shares and for where the policy leads to, by which the scores are weighed
OUTCOMES: Final = Fraction(1, 5)  # of the values' part, where stays earn by their outcome
RIDGE: Final = 0.1  # visits: where there is no noise to speak of
DOUBT: Final = 0.5  # how wrong μ may be
COARSE: Final = 1.1  # deviations of totals that a value linear in the columns alone may be wrong by
# Where nobody follows the policy, times `allowance`. Calibrated on the two policies farthest from the data.
ALONE: Final = 28.0  # deviations of totals
ALONE_GAIN: Final = 30.0  # of what it seems to gain or lose: values are extrapolated there, and go on as they rose
WIDTH: Final = Fraction(20, 10_000)  # of units·actions: what `features.usual` may take for units
_TINY: Final = 1e-300


def check(schema: Schema, parameters: Parameters) -> None:
    assert isinstance(schema.states, Vector)
    if parameters.features is not None:
        maps.check(parameters.features, schema)
        _check_sizes(schema, parameters, parameters.features.width)
    if parameters.time_groups > schema.horizon:
        raise errors.InvalidParameter(f"time_groups can be at most the {schema.horizon} steps of the horizon.")


def _check_sizes(schema: Schema, parameters: Parameters, width: int) -> None:
    """What is held in memory is bounded by public numbers."""
    entries, numbers = parameters.time_groups * width**2, schema.horizon * schema.per_unit * width
    if entries > transits.MAX_ENTRIES:
        raise errors.ProblemTooLarge(
            f"dp-fqe sums a matrix of {width} × {width} features for each of {parameters.time_groups} groups of steps: "
            f"{entries} numbers, {transits.MAX_ENTRIES} at most; use fewer terms or fewer time_groups."
        )
    if numbers > transits.MAX_NUMBERS:
        raise errors.ProblemTooLarge(
            f"A patient may have {schema.horizon * schema.per_unit} records of {width} features each: {numbers} "
            f"numbers, {transits.MAX_NUMBERS} at most; use fewer terms or a shorter horizon."
        )


def check_policy(schema: Schema, parameters: Parameters, judged: policy.Policy) -> None:
    """Refuse a policy of other data, or one that decides by the step more finely than it is judged."""
    if (judged.horizon, judged.states, judged.actions) != (schema.horizon, schema.states, schema.actions):
        raise errors.InvalidParameter(
            "The policy was made for another horizon, other states or other actions than the data's."
        )
    groups = group_of(schema, parameters.time_groups)
    for step in range(1, schema.horizon):
        if groups[step] == groups[step - 1] and not _decides_alike(judged.rule, step - 1, step):
            raise errors.InvalidParameter(
                "The policy's decisions depend on the step more finely than time_groups says; raise time_groups "
                "to its own groups of steps, or train one with stationary dynamics."
            )


def _decides_alike(rule: policy.Table | policy.Linear | policy.Pooled, one: int, other: int) -> bool:
    if isinstance(rule, policy.Table):
        return bool((rule.decisions[one] == rule.decisions[other]).all())
    if isinstance(rule, policy.Pooled):
        return one * len(rule.groups) // rule.horizon == other * len(rule.groups) // rule.horizon
    return False


def resolved(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> Parameters:
    """With the features that the public rule gives."""
    check(schema, parameters)
    check_budget(privacy)
    if not isinstance(privacy, Concentrated):
        raise errors.InvalidParameter("dp-fqe needs a zCDP budget: its statistics have no pure ε-DP form.")
    if parameters.features is not None:
        return parameters
    assert isinstance(schema.states, Vector)
    few = max(math.floor(units * schema.actions * WIDTH), 1)  # judging has no blocks of actions, but matrices
    usual = maps.usual(schema.states, schema.actions, few, privacy.rho)
    _check_sizes(schema, parameters, usual.width)
    return replace(parameters, features=usual)


def _judged(schema: Schema, parameters: Parameters, judging: policy.Policy | None = None) -> Judged:
    assert parameters.features is not None
    return Judged(schema, parameters.features, judging, parameters.time_groups)


def _rounds(schema: Schema, parameters: Parameters) -> int:
    return min(parameters.value_rounds, schema.horizon - apart(schema))


def _values_plan(judged: Judged, rounds: int) -> fqe.Plan:
    outcome = OUTCOMES if apart(judged.schema) else Fraction(0)
    first: fqe.Plan = [(horizon_vector.Outcomes(judged.schema, judged.features), outcome)] if outcome else []
    turns = [transit_outcomes.Targets(judged, round=turn) for turn in range(rounds)]
    return [
        *first,
        (transit_outcomes.Moves(judged), (1 - outcome) / 2),
        *((turn, (1 - outcome) / (2 * rounds)) for turn in turns),
    ]


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything an evaluation asks, a pure function of what is public."""
    parameters = resolved(schema, units, privacy, parameters)
    judged, one = _judged(schema, parameters), Fraction(1)
    score = transit_outcomes.Scores(judged)
    plan: list[fqe.Plan] = [
        [(transits.UnitSizes(judged), one)],
        [(followed.Received(schema, *asking.total_range(schema)), one)],
        [(transits.Followed(judged), one)],
        [(transits.Everyone(judged), Fraction(1, 3)), (transits.Actions(judged), Fraction(2, 3))],
        [(transit_outcomes.Starts(judged), one)],
        _values_plan(judged, _rounds(schema, parameters)),
        [(outcomes.ScoreSizes(score), one)],
        [(score, one)],
    ]
    return fqe.shared_out(privacy, parameters.shares, plan)


@dataclass(frozen=True)
class _MeanSizes:
    """Means over units; never below what their noise could hide."""

    length: float  # visits of a trajectory
    features: float  # Σ‖ψ‖²
    reward: float  # the mean of a step
    deviation: float  # of a step's reward


def evaluate(curator: Curator, privacy: Share, parameters: Parameters, judging: policy.Policy) -> Evaluation:
    schema, units = curator.schema, curator.units
    check_policy(schema, parameters, judging)
    parameters = resolved(schema, units, privacy, parameters)
    asked = queries(schema, units, privacy, parameters)
    asker = Asker(curator, {query.statistic.name: query.share for query in asked})
    judged = _judged(schema, parameters, judging)
    earned = _outcomes(asker, judged)
    if earned is not None:
        one = _one(judged.features)
        judged = replace(judged, potential=earned.value(schema, one, RIDGE + VALUE_LIFT * earned.noise))
    sizing = asker.ask(transits.UnitSizes(judged))
    received = judgements.received_of(asker)
    sizes = _mean_sizes(asker, sizing, received)
    judged = replace(judged, limit=LIMIT * sizes.features)
    judged = replace(judged, behaviour=_behaviour(asker, judged))
    return _Estimator(asker, judged, sizes, received, parameters, earned).judgement()


def _outcomes(asker: Asker, judged: Judged) -> horizon_vector.Released | None:
    """What stays earn at a horizon that stands apart."""
    if not apart(asker.schema):
        return None
    answer = asker.ask(horizon_vector.Outcomes(asker.schema, judged.features))
    return horizon_vector.Released.of(answer.values, answer.event.scale)


def _mean_sizes(asker: Asker, answer: Answer, received: Received) -> _MeanSizes:
    scale = asker.schema.horizon * asker.schema.per_unit / asker.units
    floor, found = asking.deviation(answer) * scale, [float(value) * scale for value in answer.values]
    visits = max(found[0], 2 * floor, 1.0)
    several = [min(max(value / asker.schema.horizon, 1.0), visits) for value in found[3:]]
    length = visits / math.prod(several)
    # Gains towards an outcome are of either sign, and next to nothing on average.
    reward = 0.0 if apart(asker.schema) else min(max(received.mean / length, -1.0), 1.0)
    variance = max(max(found[2], floor) / visits - reward**2, 1e-4)
    return _MeanSizes(length, min(max(found[1], 2 * floor, 0.05), visits), reward, math.sqrt(min(variance, 0.25)))


def noise_norm(answer: Answer) -> float:
    """About the norm of a p × p noise."""
    return 2 * math.sqrt(answer.event.shape[-1]) * asking.deviation(answer)


def _inverse(matrix: FloatArray, lift: float) -> FloatArray:
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / (np.maximum(eigenvalues, 0.0) + lift)) @ vectors.T)


def _one(features: maps.Blocks) -> FloatArray:
    """ψᵀone is nearly 1."""
    psi = features.psi(maps.reference(features.vector, 512)) / maps.ONE
    return np.asarray(np.linalg.solve(psi.T @ psi + 1e-6 * len(psi) * np.eye(features.width), psi.sum(axis=0)))


def _bounded(mean: FloatArray) -> FloatArray:
    """A mean of features is no longer than they are, 1; what noise made longer would grow from step to step."""
    return mean / max(float(np.linalg.norm(mean)), 1.0)


def _behaviour(asker: Asker, judged: Judged) -> Behaviour:
    """Each action's frequency, and how its share differs by the features."""
    gram, taken = asker.ask(transits.Everyone(judged)), asker.ask(transits.Actions(judged))
    one, sums = _one(judged.features), taken.values * judged.limit
    counts = np.maximum(sums @ one, 1.0)
    frequencies = counts / counts.sum()
    excess = sums - frequencies[:, None] * sums.sum(axis=0)
    ridge = RIDGE + STEADY_LIFT * noise_norm(gram) * judged.limit
    return Behaviour(frequencies, excess @ _inverse(gram.values * judged.limit, ridge))


class _Estimator:
    """Holds released numbers only; g groups of steps, p features."""

    def __init__(
        self,
        asker: Asker,
        judged: Judged,
        sizes: _MeanSizes,
        received: Received,
        parameters: Parameters,
        earned: horizon_vector.Released | None,
    ) -> None:
        self.asker, self.judged, self.sizes, self.received, self.parameters = asker, judged, sizes, received, parameters
        self.groups, self.horizon, self.earned = judged.step_groups, asker.schema.horizon, earned
        self.rounds = _rounds(asker.schema, parameters)
        gram = asker.ask(transits.Followed(judged))
        self.gram, self.noise = gram.values * judged.limit, noise_norm(gram) * judged.limit
        self.inverse = np.stack([_inverse(each, RIDGE + VALUE_LIFT * self.noise) for each in self.gram])
        self.values, self.unsure = self._values()
        self.occupancy, self.steady = self._occupancy()
        if earned is not None:  # of the last group, the horizon
            last = _inverse(earned.gram, RIDGE + STEADY_LIFT * earned.noise)
            self.gram, self.steady = np.concatenate([self.gram, earned.gram[None]]), np.append(self.steady, [last], 0)

    def _range(self, steps: int) -> tuple[float, float]:
        low, high = asking.total_range(self.asker.schema)
        least = self.asker.schema.low / self.asker.schema.width
        return max(low, steps * least), min(high, steps * (least + 1.0))

    def _values(self) -> tuple[tuple[Value, ...], float]:
        """V of each step and of the end, and the deviation of the noise in the last round's sums."""
        weights = np.zeros((self.horizon + 1, self.judged.features.width))
        found, unsure = [Value(0.0, weights[-1], 0.0, 0.0)], 0.0
        if self.judged.potential is not None:
            found.append(self.judged.potential)
            weights[-2] = self.judged.potential.weights
        radius = EARNED * self.sizes.deviation * math.sqrt(self.judged.limit)
        shared = {"centre": self.sizes.reward, "bound": BOUND * self.sizes.deviation, "radius": radius}
        for turn in range(self.rounds):
            step = self.horizon - len(found)
            group = int(self.groups[step])
            asked = transit_outcomes.Targets(self.judged, found[-1], group, round=turn, **shared)
            answer = self.asker.ask(asked)
            unsure = asking.deviation(answer) * radius
            weights[step] = weights[step + 1] + self.inverse[group] @ (answer.values * radius)
            found.append(Value(found[-1].base + self.sizes.reward, weights[step], *self._range(self.horizon - step)))
        return (*reversed(self._extrapolated(weights, found[-1])), *reversed(found)), unsure

    def _extrapolated(self, weights: FloatArray, first: Value) -> list[Value]:
        """Beyond the rounds, whose weights (H + 1, p) are given: what one adds, shrinking on as it did last."""
        step, found = self.horizon - self.rounds - apart(self.asker.schema), [first]
        if step <= 0:
            return []
        last, before = weights[step] - weights[step + 1], weights[step + 1] - weights[step + 2]
        ratio = min(max(float(last @ before) / max(float(before @ before), _TINY), 0.0), 1.0)
        added, weight = self.sizes.reward, weights[step]
        for index in range(step - 1, -1, -1):
            last, added = last * ratio, added * ratio
            weight = weight + last
            found.append(Value(found[-1].base + added, weight, *self._range(self.horizon - index)))
        return found[1:]

    def _occupancy(self) -> tuple[FloatArray, FloatArray]:  # (H, p), (g, p, p)
        """μ, and the inverse Gram matrices it was found with, which weigh the scores too."""
        starts = self.asker.ask(transit_outcomes.Starts(self.judged))
        radius = MOVED * self.judged.limit
        moves = self.asker.ask(transit_outcomes.Moves(self.judged, radius))
        lift = RIDGE + STEADY_LIFT * max(self.noise, noise_norm(moves) * radius)
        steady = np.stack([_inverse(each, lift) for each in self.gram])
        change = [inverse @ (m * radius) for inverse, m in zip(steady, moves.values, strict=True)]
        found = np.empty((self.horizon, len(starts.values)))
        found[0] = _bounded(starts.values / self.asker.units)
        for step in range(1, self.horizon):
            before = found[step - 1]
            found[step] = _bounded(before + change[self.groups[step - 1]].T @ before)
        return found, steady

    def _times(self, matrices: FloatArray, vectors: FloatArray) -> FloatArray:  # (g, p, p), (H, p) → (H, p)
        """Each step's vector by the symmetric matrix of its group."""
        found = np.empty_like(vectors)
        for group, matrix in enumerate(matrices):
            found[self.groups == group] = vectors[self.groups == group] @ matrix
        return found

    def judgement(self) -> Evaluation:
        units, weights = self.asker.units, self._times(self.steady, self.occupancy)
        scores = transit_outcomes.Scores(self.judged, self.values, weights * units, self._expected())
        score = judgements.mean_score(self.asker, scores, self._scale(weights * units))
        share = self._supported(weights, score.quarters[1] - score.unsure)
        noise = DOUBT * self._noise(weights)
        half = score.spread(noise)
        half += score.doubted(DOUBT) + self._allowance(share, score.value)
        return judgements.scaled(self.asker.schema, score.value, half, self.received, share)

    def _noise(self, weights: FloatArray) -> float:
        """Of the values, on the way from the first step to the end."""
        if self.earned is None or self.judged.potential is None:
            return self.unsure * math.sqrt(float((weights**2).sum()))
        slopes = float((self.judged.potential.weights**2).sum())
        last = self.earned.deviation**2 * (1 + slopes) * float((weights[-1] ** 2).sum())
        return math.sqrt(self.unsure**2 * float((weights[:-1] ** 2).sum()) + last)

    def _expected(self) -> float:
        """What the values say of the patients' start."""
        low, high = self._range(self.horizon)
        first = self.values[0]
        return min(max(float(first.base + self.occupancy[0] @ first.weights), low), high)

    def _supported(self, weights: FloatArray, known: float) -> float:
        """The share of the policy's decisions that doctors take as often as by chance, one less frequent counting in
        proportion. Weights that add up to less than a stay were lost in noise, and with them what they stood for."""
        one = _one(self.judged.features)
        total = float((self._times(self.gram, weights) @ one).sum())
        return min(max(known * self.horizon / max(total, self.sizes.length), 0.0), 1.0)

    def _allowance(self, share: float, value: float) -> float:
        """For what a linear value may get wrong: everywhere with few features, and where the policy is on its own, the
        more so if it seems to be worth much more or less than what clinicians did."""
        finer = self.judged.features.width / (len(self.judged.features.vector.columns) + 1)
        gained = abs(value - self.received.mean)
        alone = ALONE * self.received.deviation + ALONE_GAIN * gained
        return self.received.deviation * COARSE / finer + self.parameters.allowance * (1 - share) ** 3 * alone

    def _scale(self, weights: FloatArray) -> judgements.ScoreScale:
        low, high = asking.total_range(self.asker.schema)
        square = float((self._times(self.gram, weights) * weights).sum()) / self.asker.units
        size = math.sqrt(max(square, 0.0))
        large = min(4 * size * self.received.deviation, 16 * (high - low))
        return judgements.ScoreScale(large, size**2 * self.received.deviation**2)
