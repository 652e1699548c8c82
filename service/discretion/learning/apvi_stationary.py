"""DP-APVI for dynamics that are the same at every step: Algorithm 1 of Qiao & Wang with first-visit counts.

Pessimistic value iteration on noisy counts of a tabular MDP, one kernel for all steps.

| paper           | here                                                                                         |
|-----------------|----------------------------------------------------------------------------------------------|
| n′_sa, n′_sas′  | `Release.visits`, `Release.transitions`: noised first-visit counts, the latter of drawn rows   |
| P̃               | `kernels.Model`: the mean of each share given its noised count, closed to sum 1                |
| Γ               | penalty: `pessimism` deviations of P̃·Ṽ and `reward_pessimism` of the reward                    |
| Q̄, Ṽ            | penalised score within the possible returns; its maximum                                       |

**Guarantee.** The counts are ρ-zCDP (Gaussian) or ε-DP (Laplace) for replacing one patient; all else is computed from
them. No finite-sample bound on the policy's value is claimed.

**Differs from the paper in:**
* Each (s, a) counts once a trajectory, at its first visit, with its one successor. Whether a visit counts is decided
  before its successor is known, so shares are unbiased; the sensitivity is what the paper has for a kernel per step.
* Instead of the count programme, each count is replaced by its mean under the distribution of all of them
  (`denoising`). Cells of one state's actions lend each other what they know: a successor that other actions lead to is
  likelier. How much that tells is learned as well.
* The penalty is made of the deviations that this leaves, not of a bound on the largest noise.
* Values are bounded by the declared returns, not by H. A state without a trusted row is worth what the worst other is.
* Rewards: a public table, or noisy sums. These come by (s, a), and by the state arrived at, which needs fewer numbers;
  sums by (s, a) then correct what arrivals do not explain, where they differ by more than noise. `reward_on` leaves one
  of them out. Where rewards have one sign and a bounded total, their sums are not centred and far less sensitive.
* A row is trusted where its noised visits pass `trust` deviations of their noise and a twentieth of S (or 40), and more
  where noise alone would let too many rows pass. The successors of the others are never drawn (lazy noise); of more
  rows than memory is set aside for, those with the most noised visits are.
* A state without a trusted row, or without a score above the least possible, gets its most frequent action by noised
  visits, labelled `fallback`.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from discretion import errors
from discretion.learning import apvi, checks, counts, denoising, kernels, policy, rewards
from discretion.learning.curator import Answer, Curator, Query, Share, check_budget, event_of, is_narrow
from discretion.learning.denoising import Noised
from discretion.learning.schemas import FloatArray, Schema
from discretion.learning.sums import Statistic
from discretion.privacy import events

NAME: Final = apvi.NAME
DYNAMICS: Final = "stationary"
MAX_DRAWN: Final = 2**26  # transition counts held at once, with what becomes of them 1 GiB

# Of the rewards' share: sums by (s, a), sums by arrival, and counts of arrivals.
_REWARD_SHARES: Final = {"either": (3, 2, 1), "action": (1, 0, 0), "arrival": (0, 2, 1)}
_SMALLEST_REWARD: Final = 3e-3  # of the declared width
_TOLD: Final = 2.5  # deviations of its noise at which a sum of rewards is expected to be told from it
_PAID: Final = 0.25  # of what a step may pay, where it is expected to pay
_RARELY: Final = 1e-6  # of trainings
_NO_REWARD: Final = 50.0  # cells known to pay nothing, before the data is seen


@dataclass(frozen=True)
class Parameters:
    """Public constants, fixed before the data is seen."""

    pessimism: float = 0.5
    reward_pessimism: float = 1.0
    trust: float | None = None  # deviations of its noise that a row's visits must pass, at least; None: by S
    reward: rewards.Known | None = None
    reward_on: Literal["either", "action", "arrival"] = "either"
    shares: tuple[int, int, int] = (15, 73, 12)  # of visits, transitions, and rewards where these are unknown

    def __post_init__(self) -> None:
        checks.number(self.pessimism, "pessimism", low=0.0)
        checks.number(self.reward_pessimism, "reward_pessimism", low=0.0)
        if self.trust is not None:
            checks.number(self.trust, "trust", low=0.0)
        checks.choice(self.reward_on, "reward_on", *_REWARD_SHARES)
        checks.shares(self.shares, "visits", "transitions", "rewards")
        rewards.check_kind(self.reward)
        estimating = (self.reward_on, self.reward_pessimism) != ("either", 1.0)
        if self.reward is not None and estimating:
            raise errors.InvalidParameter(
                "reward_on and reward_pessimism are about rewards that are estimated, and these are known: leave them "
                "out, or leave out reward."
            )

    def trusted(self, states: int) -> float:
        """A row's successors are as noisy together as there are many: the square root of S + 1, over 6, at least 2."""
        return max(2.0, math.sqrt(states + 1) / 6) if self.trust is None else self.trust


def resolved(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> Parameters:
    return replace(parameters, trust=parameters.trusted(schema.count))


@dataclass(frozen=True, eq=False)
class Release(kernels.Counted):
    """What was drawn, and all that any derived policy may use."""

    by_action: Answer | None = None  # (S, A) noised sums of rewards, centred or not
    by_arrival: Answer | None = None  # (S + SA,)
    arrivals: Answer | None = None  # (S,)


def check(schema: Schema, parameters: Parameters) -> int:
    """The number of states, once everything fits; refusals name what does not."""
    cells = schema.count * max(schema.actions, schema.horizon)
    if cells > apvi.MAX_CELLS:
        raise errors.ProblemTooLarge(
            f"dp-apvi keeps a count for each state and action and a decision for each state and step: "
            f"{cells} of one of them, {apvi.MAX_CELLS} at most."
        )
    if parameters.reward is not None:
        parameters.reward.check(schema)
        if parameters.reward.table.ndim == 3:
            raise errors.InvalidParameter(
                "A reward that differs from step to step has no place in stationary dynamics, where a state is the "
                "same at every step; give one table for all steps, or use dynamics per step."
            )
    return schema.count


def _action_sums(schema: Schema) -> Statistic:
    """Centred or not, whichever one patient moves less."""
    centred, paid = counts.RewardSums(schema, DYNAMICS), counts.PaidSums(schema)
    return paid if paid.squared_sensitivity < centred.squared_sensitivity else centred


def queries(schema: Schema, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything a training asks, a pure function of what is public: visits, transitions, and rewards if unknown."""
    check(schema, parameters)
    check_budget(privacy)
    asked: list[Statistic] = [counts.VisitCounts(schema, DYNAMICS), counts.TransitionCounts(schema, DYNAMICS)]
    known = parameters.reward is not None
    weights = [Fraction(share) for share in (parameters.shares[:2] if known else parameters.shares)]
    if not known:
        parts = _REWARD_SHARES[parameters.reward_on]
        asked += [_action_sums(schema), counts.ArrivalSums(schema), counts.ArrivalCounts(schema)]
        weights[2:] = [weights[2] * part / sum(parts) for part in parts]
    return [
        Query(statistic, privacy.part(weight / sum(weights)))
        for statistic, weight in zip(asked, weights, strict=True)
        if weight
    ]


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, privacy, parameters)]


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """How many trajectories must have visited a state and action, about, before its successors are trusted."""
    noise = kernels.deviation(mechanisms(schema, units, privacy, parameters)[0])
    return max(parameters.trusted(schema.count) * noise, kernels.fewest(schema.count))


def narrow(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> bool:
    """Whether transitions need half the memory, as in `apvi`."""
    return is_narrow(queries(schema, privacy, parameters)[1], units)


def likely_rows(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> int:
    """How many rows may have enough visits to be drawn, at most: those that have half of them, where noise hardly ever
    adds the other half, and else all."""
    half, whole = visits_needed(schema, units, privacy, parameters) / 2, schema.count * schema.actions
    event = mechanisms(schema, units, privacy, parameters)[0]
    if whole * float(kernels.tail(np.array([half]), event)[0]) > _RARELY:
        return whole
    return min(whole, math.floor(units * schema.per_unit * schema.horizon / half))


def most_rows(schema: Schema) -> int:
    """That are drawn, as in `apvi`."""
    return MAX_DRAWN // (schema.count + 1)


def reward_shortfall(
    schema: Schema, units: int, privacy: Share, parameters: Parameters, seen: FloatArray
) -> float:  # (S, A) expected visits
    """How many times too few visits there are to tell from noise what is paid even in the most frequent place; below 1
    where there are enough. Assumed is a quarter of what a step may pay, or half of an even part of a bounded return."""
    if parameters.reward is not None:
        return 0.0
    low, high = _returns(schema, schema.horizon)
    each = _PAID if schema.total is None else (high - low) / (2 * schema.horizon)
    counted = {counts.ArrivalSums: float(seen.sum(axis=1).max()), type(_action_sums(schema)): float(seen.max())}
    told = [
        each * counted[type(query.statistic)] / kernels.deviation(event_of(query, units))
        for query in queries(schema, privacy, parameters)
        if type(query.statistic) in counted
    ]
    return _TOLD / max(told) if max(told) > 0 else math.inf


def learn(curator: Curator, privacy: Share, parameters: Parameters, *, lazy: bool = True) -> policy.Policy:
    return derive(draw(curator, privacy, parameters, lazy=lazy), curator.schema, parameters)


def draw(curator: Curator, privacy: Share, parameters: Parameters, *, lazy: bool = True) -> Release:
    """Ask the curator for everything; which rows of transitions, the noised visits tell."""
    schema = curator.schema
    visiting, moving, *rewarding = queries(schema, privacy, parameters)
    visits, *paid = curator.ask(visiting, *rewarding)
    least = kernels.least_visits(visits.grid, visits.event, parameters.trusted(schema.count)) if lazy else -math.inf
    rows = apvi.most_visited(visits.grid, np.flatnonzero(visits.grid > least), most_rows(schema))
    chosen = counts.TransitionCounts(schema, DYNAMICS, rows, narrow(schema, curator.units, privacy, parameters))
    (transitions,) = curator.ask(Query(chosen, moving.share))
    curator.done()
    names = [type(query.statistic) for query in rewarding]
    sums = dict(zip(names, paid, strict=True))
    return Release(
        visits=visits.grid,
        rows=rows,
        transitions=transitions.grid,
        counted=(visits.event, transitions.event),
        by_action=sums.get(type(_action_sums(schema))),
        by_arrival=sums.get(counts.ArrivalSums),
        arrivals=sums.get(counts.ArrivalCounts),
    )


@dataclass(frozen=True, eq=False)
class _Reward:
    """In units of the declared width, zero being no reward."""

    rows: FloatArray  # (R,) of the trusted rows
    variance: FloatArray  # (R,)
    arrival: FloatArray  # (S+1,)
    arrival_variance: FloatArray  # (S+1,)


def _known_reward(reward: rewards.Known, model: kernels.Model, schema: Schema) -> _Reward:
    nothing, nowhere = np.zeros(len(model.rows)), np.zeros(schema.count + 1)
    table = reward.at(schema, 0)
    if isinstance(table, float):
        return _Reward(nothing, nothing, nowhere + reward.on_arrival(schema) - schema.idle, nowhere)
    return _Reward(table.ravel()[model.rows] - schema.idle, nothing, nowhere, nowhere)


def _noised_reward(release: Release, model: kernels.Model, schema: Schema, parameters: Parameters) -> _Reward:
    nothing, nowhere = np.zeros(len(model.rows)), np.zeros(schema.count + 1)
    found = _Reward(nothing, nothing, nowhere, nowhere)
    if parameters.reward_on != "action":
        found = _by_arrival(release, model, schema)
    if parameters.reward_on != "arrival":
        found = _by_action(found, release, model, schema)
    return found


def _missing() -> errors.InvalidParameter:
    return errors.InvalidParameter("This release does not hold these reward sums; give a reward table.")


def _denoised(
    sums: FloatArray,
    visits: FloatArray,
    variance: FloatArray | float,
    event: events.Event,
    schema: Schema,
    *,
    sampled: bool,
    both: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Mean rewards and their variances, given that many pay nothing."""
    levels = denoising.levels(_SMALLEST_REWARD, below=both or schema.idle > 0, above=both or schema.idle < 1)
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), sums.shape)
    group = np.zeros(len(sums), dtype=np.int64)
    cells = Noised(sums, visits, noise, group, event.mechanism == events.LAPLACE, sampled)
    if not len(cells):
        return sums, sums
    some = cells.only(denoising.sampled(len(cells), 1))
    mixture = denoising.fit(some, np.full(len(levels), 1 / len(levels)), levels, zeros=_NO_REWARD)
    return denoising.posterior(cells, mixture)


def _by_arrival(release: Release, model: kernels.Model, schema: Schema) -> _Reward:
    """The reward of arriving at a state, and of ending after (s, a) times how often that happens."""
    if release.by_arrival is None or release.arrivals is None:
        raise _missing()
    states, sums, event = schema.count, release.by_arrival.values, release.by_arrival.event
    noise = kernels.variance_of(event)
    least = max(1.0, 2 * kernels.deviation(release.arrivals.event))  # fewer arrivals than that are none
    arrived = np.maximum(release.arrivals.values, least)
    arrival, around = _denoised(sums[:states], arrived, noise, event, schema, sampled=False)
    ending, beside = _ending(sums[states:][model.rows], event, model, schema)
    return _Reward(ending, beside, np.append(arrival, 0.0), np.append(around, 0.0))


def _ending(
    sums: FloatArray, event: events.Event, model: kernels.Model, schema: Schema
) -> tuple[FloatArray, FloatArray]:
    """What ending after (s, a) pays, times how often it happens: as after the state's other actions, and the rest."""
    states, noise = model.rows // schema.actions, kernels.variance_of(event)
    ends = model.kernel[:, -1].astype(np.float64)
    pooled, ended = np.zeros(schema.count), np.zeros(schema.count)
    np.add.at(pooled, states, sums)
    np.add.at(ended, states, model.visits * ends)
    rows = np.maximum(np.bincount(states, minlength=schema.count), 1)
    share, around = _denoised(pooled, np.maximum(ended, 1.0), noise * rows, event, schema, sampled=True)
    usual, unsure = ends * share[states], ends**2 * around[states]
    unlike = noise + model.visits**2 * unsure
    rest, beside = _denoised(sums - model.visits * usual, model.visits, unlike, event, schema, sampled=False, both=True)
    return usual + rest, unsure + beside


def _by_action(found: _Reward, release: Release, model: kernels.Model, schema: Schema) -> _Reward:
    """What (s, a) pays beyond what is explained already."""
    if release.by_action is None:
        raise _missing()
    event, visits = release.by_action.event, model.visits
    sums, noise = release.by_action.values.ravel()[model.rows], kernels.variance_of(event)
    if isinstance(_action_sums(schema), counts.RewardSums):  # of x − ½: back to x − idle, with the error of n
        sums = sums + (0.5 - schema.idle) * visits
        noise += (0.5 - schema.idle) ** 2 * kernels.variance_of(release.counted[0])
    arriving = model.mean(found.arrival)
    unsure = found.variance + model.squared(found.arrival_variance)
    unsure += np.maximum(model.spread(found.arrival, arriving) - model.sampling(found.arrival, arriving), 0.0)
    explained = bool(found.arrival.any() or found.rows.any())
    rest, around = _denoised(
        sums - visits * (found.rows + arriving),
        visits,
        noise + visits**2 * unsure,
        event,
        schema,
        sampled=not explained,
        both=explained,
    )
    return _Reward(found.rows + rest, found.variance + around, found.arrival, found.arrival_variance)


def _returns(schema: Schema, steps: int) -> tuple[float, float]:
    """The least and the most that so many steps can still pay."""
    low, high = -schema.idle * steps, (1 - schema.idle) * steps
    if schema.total is None:
        return low, high
    span = (schema.total[1] - schema.total[0]) / schema.width
    return max(low, -span), min(high, span)


def derive(release: Release, schema: Schema, parameters: Parameters) -> policy.Policy:
    """Value iteration on the noised counts alone: costs nothing, and may be done again with other constants."""
    states, actions, horizon = check(schema, parameters), schema.actions, schema.horizon
    model = kernels.model(release, parameters.trusted(states))
    known = parameters.reward
    paid = _known_reward(known, model, schema) if known else _noised_reward(release, model, schema, parameters)
    unsure = parameters.reward_pessimism**2 * paid.variance
    unsure += parameters.pessimism**2 * model.squared(paid.arrival_variance)
    fallback = release.visits.argmax(axis=1)
    decisions, learned = np.tile(fallback, (horizon, 1)), np.zeros((horizon, states), dtype=bool)
    values = np.zeros((horizon + 1, states + 1))  # the last column is the end's, which pays nothing
    for step in reversed(range(horizon)):
        lowest, highest = _returns(schema, horizon - step)
        following = values[step + 1] + paid.arrival
        mean = model.mean(following)
        penalty = np.sqrt(parameters.pessimism**2 * model.spread(following, mean) + unsure)
        scores = np.full((states, actions), -np.inf)
        scores.reshape(-1)[model.rows] = np.clip(paid.rows + mean - penalty, lowest, highest)
        best = scores.max(axis=1)
        worst = best[np.isfinite(best)].min(initial=highest) if len(model.rows) else lowest
        values[step, :states] = np.where(np.isfinite(best), best, worst)
        learned[step] = best > lowest
        decisions[step] = np.where(learned[step], scores.argmax(axis=1), fallback)
    return policy.of_table(NAME, schema, decisions, learned, values[:-1, :states] * schema.width)
