"""DP-PAE: private advantage estimation, for discrete states whose dynamics are the same at every step.

A policy needs one number for each state and action, how much better that action is than what was usually done there,
and not the whole table of transitions. So each patient's surprises are summed by state and action: what was earned
plus how the value changed, r + γV(s′) − V(s), with a value V that was released before. Within one stay surprises are
nearly uncorrelated and add up to the outcome minus the first value, so a patient's vector of them is far shorter than
its worst case; it is cut to a length that is typical, and the noise is calibrated to that (`clipped`).

| letter     | here                                                                                          |
|------------|-----------------------------------------------------------------------------------------------|
| n, ρ, k    | units; budget; k = n·min(√ρ, 1)/SA, how much is known of a cell: all switches go by it          |
| γ          | `discount`: 1 − 0.6/H, so that a value looks about a horizon ahead                             |
| c, T       | mean earnings from a visit on, mean number of visits: `EarningsAndSteps`                       |
| n_sa       | `Coverage`: who went through (s, a), each patient cut to length 1; then scaled to all visits    |
| D_s → V    | `Returns`: earnings from s on minus c                                                           |
| G_sa → A   | `Surprises` around V                                                                            |
| ΔV, K_sa   | where k is large, V + ΔV is the improved policy's value, about; its surprises are G + K          |
| C          | the lengths patients are cut to: quantiles of noisy histograms of lengths, `Lengths`           |

**Guarantee.** Every statistic is a sum over patients of vectors of bounded length, released with Gaussian noise; what
it is computed with was released before it, so the costs add up to ρ-zCDP for replacing one patient. All else, priors
and policy, is computed from what was released.

This algorithm is ours and in no paper. Cutting biases advantages (toward zero, long stays most), and no bound on the
value of its policy is claimed: `pessimistic_score` is an estimate. An action is chosen where it is well enough
supported, and if it is not the most frequent one, where it is better than that by more than what is unsure about both;
elsewhere, and wherever the released numbers do not tell the actions apart, the decision is the most frequent action by
noisy count, labelled `fallback`. Where k is very small, that is all that is asked for.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from discretion import errors
from discretion.learning import checks, clipped, policy, rewards, shrinkage
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget, event_of
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.sums import Statistic
from discretion.privacy import events

NAME: Final = "dp-pae"
MAX_CELLS: Final = 10_000_000

# Switches in k, and what they decide.
_FREQUENT: Final = Fraction(1, 20)  # below: only the most frequent actions
_COUNTING: Final = Fraction(7, 10)  # below: counting gets a larger share
_POOLING: Final = Fraction(2)  # below: actions are taken to have effects in common over states, and rare ones avoided
_IMPROVING: Final = Fraction(6)  # from here on: a second round around the improved value

# Quantiles of lengths that are cut at: the higher, the less is distorted and the more noise there is.
_RETURNS_AT: Final = 0.75
_SURPRISES_AT: Final = 0.4
_LATER_AT: Final = 0.7  # of surprises where there is an improvement, since noise matters less there
_IMPROVEMENT_AT: Final = 0.6
PER_VISIT: Final = 0.6  # of a patient's squared length that is spread over visits, the rest being the mean's
ANYTHING: Final = 4.0  # deviations by which all counts together must exceed noise before any is believed
_SHRUNK: Final = 1.25  # of a count near `support`, what it was over what denoising leaves of it, about
# Deviations by which another action must be better than the most frequent one. Choices that are little more than noise
# undo each other from state to state, where doing as is usually done leads somewhere.
_DEPARTING: Final = 0.35
_STEP: Final = 0.2  # the most that an improvement moves a value, of the range of returns


@dataclass(frozen=True)
class Parameters:
    """Public constants, fixed before the data is seen."""

    pessimism: float = 0.5  # deviations subtracted from an estimated advantage
    support: float = 0.5  # deviations of noise that an action's estimated count must exceed
    floor: float = 0.03  # the least share of a state's visits of an action that may be chosen; twice that for small k
    reward: rewards.Known | None = None

    def __post_init__(self) -> None:
        checks.number(self.pessimism, "pessimism", low=0.0)
        checks.number(self.support, "support", low=0.0)
        checks.number(self.floor, "floor", low=0.0, high=0.5)
        rewards.check_kind(self.reward)


def check(schema: Schema, parameters: Parameters) -> int:
    """The number of states, once everything fits; refusals name what does not."""
    cells = schema.count * schema.actions
    if cells > MAX_CELLS:
        raise errors.ProblemTooLarge(
            f"dp-pae keeps a number for each state and action: {cells} of them, {MAX_CELLS} at most."
        )
    if parameters.reward is not None:
        parameters.reward.check(schema)
        if parameters.reward.table.ndim == 3:
            raise errors.InvalidParameter(
                "dp-pae takes rewards to be the same at every step; give a table for (state, action) or the next state."
            )
    return schema.count


# --- what is asked -----------------------------------------------------------------------------------------------


def _above(threshold: Fraction, schema: Schema, units: int, privacy: Concentrated) -> bool:
    """k ≥ threshold, in exact arithmetic."""
    return min(privacy.rho, Fraction(1)) * units**2 >= (threshold * schema.count * schema.actions) ** 2


def discount(schema: Schema) -> float:
    return 1.0 - 0.6 / schema.horizon


def returns_range(schema: Schema) -> tuple[float, float]:
    """The lowest and highest return, in widths of the reward range."""
    if schema.total is not None:
        return schema.total[0] / schema.width, schema.total[1] / schema.width
    return -schema.idle * schema.horizon, (1.0 - schema.idle) * schema.horizon


def _statistics(schema: Schema, reward: rewards.Known | None) -> dict[str, Statistic]:
    """As they are in plans: what they are computed with changes neither name, shape nor sensitivity."""
    gamma, (low, high), nothing = discount(schema), returns_range(schema), np.zeros(schema.count)
    returns = clipped.Returns(schema, gamma, 0.0, 1.0, reward)
    surprises = clipped.Surprises(schema, gamma, nothing, 1.0, reward=reward)
    improvement = clipped.Surprises(schema, gamma, nothing, 1.0, rewarded=False)
    return {
        "averages": clipped.EarningsAndSteps(schema, gamma, low, high, reward),
        "coverage": clipped.Coverage(schema),
        "return sizes": clipped.Lengths(returns),
        "returns": returns,
        "surprise sizes": clipped.Lengths(surprises),
        "surprises": surprises,
        "improvement sizes": clipped.Lengths(improvement),
        "improvement": improvement,
    }


def _percents(schema: Schema, units: int, privacy: Concentrated) -> Mapping[str, int]:
    """Each statistic's share of the budget, in hundredths."""
    if not _above(_FREQUENT, schema, units, privacy):
        return {"coverage": 100}
    sizes = {"averages": 1, "return sizes": 1, "surprise sizes": 1, "returns": 10}
    if not _above(_COUNTING, schema, units, privacy):
        return sizes | {"coverage": 42, "surprises": 45}
    if not _above(_IMPROVING, schema, units, privacy):
        return sizes | {"coverage": 27, "surprises": 60}
    return sizes | {"coverage": 21, "surprises": 50, "improvement sizes": 1, "improvement": 15}


Size = tuple[int, Share]  # units and budget, by which all switches go


def queries(
    schema: Schema, units: int, privacy: Share, parameters: Parameters, like: Size | None = None
) -> dict[str, Query]:
    """Everything a training asks, in the order it is asked; a pure function of what is public.

    With `like`, in the shares that a training of that size has: a rehearsal may be smaller than what it is for.
    """
    check(schema, parameters)
    check_budget(privacy)
    units, budget = like or (units, privacy)
    if not isinstance(budget, Concentrated):
        raise errors.InvalidParameter("dp-pae cuts lengths in ℓ2, which only zCDP rewards; use dp-apvi for pure ε-DP.")
    percents = _percents(schema, units, budget)
    return {
        name: Query(statistic, privacy.part(Fraction(percents[name], 100)))
        for name, statistic in _statistics(schema, parameters.reward).items()
        if name in percents
    }


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, units, privacy, parameters).values()]


def visits_needed(
    schema: Schema, units: int, privacy: Share, parameters: Parameters, steps: float | None = None
) -> float:
    """How many patients must have gone through a state and action, about, before it counts as supported.

    A stay through t different cells counts 1/√t in each, and t is `steps`, or the horizon if nothing is known of that.
    """
    noise = deviation(schema, units, privacy, parameters)
    return _SHRUNK * parameters.support * noise * math.sqrt(different(schema, steps))


def deviation(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """Of the noise in a count."""
    return math.sqrt(float(event_of(queries(schema, units, privacy, parameters)["coverage"], units).scale))


def different(schema: Schema, steps: float | None) -> float:
    """How many states and actions a patient goes through at most."""
    cells = schema.count * schema.actions
    return float(min(schema.horizon * schema.per_unit if steps is None else steps, cells))


def _pools(schema: Schema, units: int, privacy: Share) -> bool:
    return isinstance(privacy, Concentrated) and not _above(_POOLING, schema, units, privacy)


def floor(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """The least share of a state's visits: where little is known, rare actions are avoided."""
    return parameters.floor * (2 if _pools(schema, units, privacy) else 1)


def hopeless(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> str | None:
    """So few patients for so many places are asked for their most frequent actions only."""
    if not isinstance(privacy, Concentrated) or _above(_FREQUENT, schema, units, privacy):
        return None
    needed = math.ceil(_FREQUENT * schema.count * schema.actions / math.sqrt(min(privacy.rho, Fraction(1))))
    return (
        f"Every decision will be a fallback, the most frequent action: {schema.count} states and {schema.actions} "
        f"actions are too many for {units} patients at this ρ, so all of it goes to counting what is done, and no "
        f"advantages are estimated. They are from {needed} patients on, or with fewer states or actions."
    )


# --- what is learned ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Counted:
    """Who went where, denoised."""

    visits: FloatArray  # (S, A) of all visits
    supported: BoolArray  # (S, A)

    @property
    def frequent(self) -> IntArray:  # (S,)
        return self.visits.argmax(axis=1)


@dataclass(frozen=True, eq=False)
class _Summed:
    """A noisy table of shortened sums, scaled back."""

    sums: FloatArray
    noise: float  # variance
    spread: float  # variance of one visit


def _noise_of(answer: Answer) -> float:
    return math.sqrt(float(answer.event.scale))


class _Asking:
    """The curator and what may still be asked of it."""

    def __init__(self, curator: Curator, privacy: Share, parameters: Parameters, like: Size | None) -> None:
        self.curator = curator
        self.schema = curator.schema
        self.parameters = parameters
        self.queries = queries(curator.schema, curator.units, privacy, parameters, like)
        size = like or (curator.units, privacy)
        self.pooled = _pools(curator.schema, *size)
        self.floor = floor(curator.schema, *size, parameters)
        self.span = float(np.subtract(*returns_range(self.schema)[::-1]))
        self.unit = self.span / 64  # that lengths are measured in, so that short ones are on the grid
        self.per_unit = 1.0  # visits

    def ask(self, name: str, statistic: Statistic) -> tuple[FloatArray, float]:
        """A noised statistic and the deviation of its noise."""
        (answer,) = self.curator.ask(Query(statistic, self.queries[name].share))
        return answer.values, _noise_of(answer)

    def visiting(self) -> tuple[float, _Counted]:
        """c, with T on the way, and who went where: neither needs the other, so one pass is enough."""
        averages, coverage = self.curator.ask(self.queries["averages"], self.queries["coverage"])
        earned, visits = averages.values
        units, most = self.curator.units, self.schema.horizon * self.schema.per_unit
        self.per_unit = float(np.clip(visits / units * most, 1.0, most))
        low, high = returns_range(self.schema)
        return low + float(np.clip(earned / units, 0.0, 1.0)) * (high - low), self._counted(coverage)

    def coverage(self) -> _Counted:
        (answer,) = self.curator.ask(self.queries["coverage"])
        return self._counted(answer)

    def _counted(self, answer: Answer) -> _Counted:
        noisy, noise = answer.values, _noise_of(answer)
        denoised = shrinkage.counts(noisy, noise)
        supported = denoised > self.parameters.support * noise
        supported &= denoised >= self.floor * denoised.sum(axis=1, keepdims=True)
        supported &= noisy.sum() > ANYTHING * noise * math.sqrt(noisy.size)
        scale = self.per_unit * self.curator.units / max(float(denoised.sum()), 1.0)
        return _Counted(denoised * scale, supported)

    def returns(self, centre: float) -> _Summed:
        gamma, reward = discount(self.schema), self.parameters.reward
        cut = self._cut("return sizes", clipped.Returns(self.schema, gamma, centre, self.unit, reward), _RETURNS_AT)
        return self._sums("returns", clipped.Returns(self.schema, gamma, centre, cut.radius, reward), cut)

    def surprises(self, values: FloatArray, *, rewarded: bool = True) -> _Summed:
        name, quantile = "improvement", _IMPROVEMENT_AT
        if rewarded:
            name, quantile = "surprise", _LATER_AT if "improvement" in self.queries else _SURPRISES_AT
        gamma, reward = discount(self.schema), self.parameters.reward if rewarded else None
        uncut = clipped.Surprises(self.schema, gamma, values, self.unit, rewarded, reward)
        cut = self._cut(f"{name} sizes", uncut, quantile)
        short = clipped.Surprises(self.schema, gamma, values, cut.radius, rewarded, reward)
        return self._sums("surprises" if rewarded else name, short, cut)

    def _cut(self, name: str, uncut: clipped.Returns | clipped.Surprises, quantile: float) -> shrinkage.Cut:
        histogram, deviation = self.ask(name, clipped.Lengths(uncut))
        return shrinkage.cut(histogram, deviation, quantile).times(self.unit)

    def _sums(self, name: str, statistic: clipped.Returns | clipped.Surprises, cut: shrinkage.Cut) -> _Summed:
        """Shortened by the mean factor `kept`, so scaled back by it."""
        radii, deviation = self.ask(name, statistic)
        scale = cut.radius / cut.kept
        return _Summed(radii * scale, (deviation * scale) ** 2, cut.energy / cut.kept**2 / self.per_unit)


def learn(curator: Curator, privacy: Share, parameters: Parameters, *, like: Size | None = None) -> policy.Policy:
    """Shares and switches go by units and budget; those of `like` where a rehearsal is smaller than what it is for."""
    asking = _Asking(curator, privacy, parameters, like)
    if "surprises" not in asking.queries:
        return _frequent(asking)
    centre, counted = asking.visiting()
    value = _valued(asking, counted, centre)
    surprises = asking.surprises(value.mean)
    found = _advantages(asking, counted, surprises, value.mean)
    if "improvement" in asking.queries:
        gain = _gain(asking, counted, found)
        change = asking.surprises(gain, rewarded=False)
        value = shrinkage.Estimates(value.mean + gain, value.deviation)
        both = _Summed(surprises.sums + change.sums, surprises.noise + change.noise, surprises.spread)
        found = _advantages(asking, counted, both, value.mean)
    return _decided(asking, counted, value, found)


def _frequent(asking: _Asking) -> policy.Policy:
    """All that is known is what is usually done; what that is worth is not."""
    counted, schema = asking.coverage(), asking.schema
    scores = _in_range(schema, np.full(schema.count, -np.inf))
    return policy.of_table(NAME, schema, counted.frequent, np.zeros(schema.count, dtype=bool), scores)


def _valued(asking: _Asking, counted: _Counted, centre: float) -> shrinkage.Estimates:
    returns = asking.returns(centre)
    states = counted.visits.sum(axis=1)
    features = shrinkage.components(counted.visits)
    found = shrinkage.values(returns.sums, returns.noise, states, returns.spread, features)
    return shrinkage.Estimates(np.clip(centre + found.mean, *returns_range(asking.schema)), found.deviation)


def _advantages(asking: _Asking, counted: _Counted, summed: _Summed, value: FloatArray) -> shrinkage.Estimates:
    """Action effects in common only where little is known of each cell: elsewhere they would pull cells together."""
    pooled = asking.pooled and asking.schema.actions <= shrinkage.MANY
    return shrinkage.advantages(
        summed.sums, summed.noise, counted.visits, PER_VISIT * summed.spread, value if pooled else None
    )


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Of each state, (S,) each."""

    actions: IntArray
    advantages: FloatArray
    scores: FloatArray  # pessimistic advantages, −∞ where nothing is supported
    learned: BoolArray  # actions that are supported were compared


def _chosen(asking: _Asking, counted: _Counted, found: shrinkage.Estimates) -> _Chosen:
    pessimistic = found.mean - asking.parameters.pessimism * found.deviation
    scores = np.where(counted.supported, pessimistic, -np.inf)
    states, best, usual = np.arange(len(scores)), scores.argmax(axis=1), counted.frequent
    better = found.mean[states, best] - found.mean[states, usual]
    unsure = np.hypot(found.deviation[states, best], found.deviation[states, usual])
    learned = np.logical_and(counted.supported.any(axis=1), found.informed)
    actions = np.where(learned & (better > _DEPARTING * unsure), best, usual)
    return _Chosen(actions, found.mean[states, actions], scores[states, actions], learned)


def _gain(asking: _Asking, counted: _Counted, found: shrinkage.Estimates) -> FloatArray:  # (S,)
    """How much more a state is worth if the chosen action is taken there."""
    chosen = _chosen(asking, counted, found)
    return np.where(chosen.learned, np.clip(chosen.advantages, -_STEP * asking.span, _STEP * asking.span), 0.0)


def _decided(
    asking: _Asking, counted: _Counted, value: shrinkage.Estimates, found: shrinkage.Estimates
) -> policy.Policy:
    chosen = _chosen(asking, counted, found)
    worth = value.mean - asking.parameters.pessimism * value.deviation
    worth = worth + np.where(chosen.learned, chosen.scores, 0.0)
    return policy.of_table(NAME, asking.schema, chosen.actions, chosen.learned, _in_range(asking.schema, worth))


def _in_range(schema: Schema, worth: FloatArray) -> FloatArray:  # (S,) → (H, S)
    """In the unit of the rewards, and within what the remaining steps can earn."""
    steps = np.arange(schema.horizon, 0, -1)[:, None]
    low, high = returns_range(schema)
    least, most = np.maximum(low, -schema.idle * steps), np.minimum(high, (1.0 - schema.idle) * steps)
    return np.asarray(np.clip(worth, least, most) * schema.width)
