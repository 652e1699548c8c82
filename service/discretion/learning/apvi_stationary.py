"""DP-APVI for dynamics that are the same at every step: Algorithm 1 of Qiao & Wang with first-visit counts.

Pessimistic value iteration on noisy counts of a tabular MDP, one kernel for all steps.

| paper           | here                                                                                         |
|-----------------|----------------------------------------------------------------------------------------------|
| n′_sa, n′_sas′  | `Release.visits`, `Release.transitions`: noised first-visit counts, the latter of drawn rows   |
| P̃               | `_Model.kernel`: the mean of each share given its noised count, closed to sum 1                |
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
* Lazy noise: the successors of a row with too few noised visits are never drawn.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from discretion import errors
from discretion.learning import apvi, checks, counts, denoising, policy, rewards
from discretion.learning.curator import Answer, Curator, Query, Share, check_budget, event_of
from discretion.learning.denoising import Noised
from discretion.learning.sums import Statistic
from discretion.learning.trajectories import FloatArray, IntArray, Schema
from discretion.privacy import events

NAME: Final = apvi.NAME
DYNAMICS: Final = "stationary"
MAX_DRAWN: Final = 2**26  # transition counts held at once, with what becomes of them 1 GiB

# Of the rewards' share: sums by (s, a), sums by arrival, and counts of arrivals.
_REWARD_SHARES: Final = {"either": (3, 2, 1), "action": (1, 0, 0), "arrival": (0, 2, 1)}
_LIKELY: Final = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.4)  # shares of a successor after other actions, grouped
_SMALLEST: Final = (1e-3, 0.02)  # where the levels of shares begin: half the noise of a usual row, within these
_SMALLEST_REWARD: Final = 3e-3  # of the declared width
_NO_REWARD: Final = 50.0  # cells known to pay nothing, before the data is seen
_CELLS: Final = 2**18  # denoised at once
_LEAST_MASS: Final = 0.0  # of a row's denoised shares

Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class Parameters:
    """Public constants, fixed before the data is seen."""

    pessimism: float = 0.5
    reward_pessimism: float = 1.0
    trust: float = 2.0  # deviations of its noise that a row's visits must pass
    reward: rewards.Known | None = None
    reward_on: Literal["either", "action", "arrival"] = "either"
    shares: tuple[int, int, int] = (15, 73, 12)  # of visits, transitions, and rewards where these are unknown

    def __post_init__(self) -> None:
        checks.number(self.pessimism, "pessimism", low=0.0)
        checks.number(self.reward_pessimism, "reward_pessimism", low=0.0)
        checks.number(self.trust, "trust", low=0.0)
        checks.choice(self.reward_on, "reward_on", *_REWARD_SHARES)
        checks.shares(self.shares, "visits", "transitions", "rewards")
        rewards.check_kind(self.reward)


@dataclass(frozen=True, eq=False)
class Release:
    """What was drawn, and all that any derived policy may use."""

    visits: IntArray  # (S, A), noised, not clipped
    rows: IntArray  # (R,) flat (s, a) of the rows drawn, ascending
    transitions: IntArray  # (R, S+1), noised, not clipped
    counted: tuple[events.Event, events.Event]  # how visits and transitions were noised
    by_action: Answer | None = None  # (S, A) noised sums of rewards, centred or not
    by_arrival: Answer | None = None  # (S + SA,)
    arrivals: Answer | None = None  # (S,)


def check(schema: Schema, parameters: Parameters) -> int:
    """The number of states, once everything fits; refusals name what does not."""
    cells = schema.count * schema.actions
    if cells > apvi.MAX_CELLS or schema.count + 1 > MAX_DRAWN:
        raise errors.ProblemTooLarge(
            f"dp-apvi keeps a count for each state and action: {cells} of them, {apvi.MAX_CELLS} at most."
        )
    if parameters.reward is not None:
        parameters.reward.check(schema)
        if parameters.reward.table.ndim == 3:
            raise errors.InvalidParameter(
                "A reward that differs from step to step has no place in stationary dynamics, where a state is the same "
                "at every step; give one table for all steps, or use dynamics per step."
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
    return parameters.trust * _deviation(mechanisms(schema, units, privacy, parameters)[0])


def _deviation(event: events.Event) -> float:
    return math.sqrt(_variance(event))


def _variance(event: events.Event) -> float:
    """Of the noise in the statistic's own unit; that of the discrete distributions is no larger."""
    return 2 * float(event.scale) ** 2 if event.mechanism == events.LAPLACE else float(event.scale)


def learn(curator: Curator, privacy: Share, parameters: Parameters, *, lazy: bool = True) -> policy.Policy:
    return derive(draw(curator, privacy, parameters, lazy=lazy), curator.schema, parameters)


def draw(curator: Curator, privacy: Share, parameters: Parameters, *, lazy: bool = True) -> Release:
    """Ask the curator for everything; which rows of transitions, the noised visits tell."""
    schema = curator.schema
    visiting, moving, *rewarding = queries(schema, privacy, parameters)
    visits, *paid = curator.ask(visiting, *rewarding)
    least = parameters.trust * _deviation(visits.event) if lazy else -math.inf
    rows = _eligible(visits.grid, least)
    (transitions,) = curator.ask(Query(counts.TransitionCounts(schema, DYNAMICS, rows), moving.share))
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


def _eligible(visits: IntArray, least: float) -> IntArray:
    """Rows that may be trusted; if memory is short, those with the most noisy visits, which were released."""
    rows = np.flatnonzero(visits > least)
    most = MAX_DRAWN // (len(visits) + 1)
    if len(rows) <= most:
        return rows
    return np.sort(rows[np.argsort(-visits.ravel()[rows], kind="stable")[:most]])


@dataclass(frozen=True, eq=False)
class _Model:
    """What is known of the trusted rows."""

    rows: IntArray  # (R,) flat (s, a)
    visits: FloatArray  # (R,) at least 1
    kernel: Float32Array  # (R, S+1)
    variance: Float32Array  # (R, S+1) of the kernel

    def spread(self, following: FloatArray, mean: FloatArray) -> FloatArray:
        """The variance of kernel @ following: Σ variance·(following − mean)²."""
        centre = following.mean()
        around, aside = (following - centre).astype(np.float32), mean - centre
        square = self.variance @ around**2 - 2 * aside * (self.variance @ around) + aside**2 * self.variance.sum(axis=1)
        return np.maximum(square, 0.0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The noised transitions of the trusted rows, cell by cell: their own, and those of the state's other actions."""

    rows: IntArray  # (R,)
    states: IntArray  # (R,)
    visits: FloatArray  # (R,) at least 1
    transitions: IntArray  # (R, S+1)
    variance: float
    laplace: bool

    @property
    def columns(self) -> int:
        return self.transitions.shape[1]

    def own(self, cells: IntArray, group: IntArray) -> Noised:
        of_row = cells // self.columns
        noise = np.full(len(cells), self.variance)
        return Noised(
            self.transitions.ravel()[cells].astype(np.float64), self.visits[of_row], noise, group, self.laplace
        )

    @cached_property
    def _pooled(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of each state: transitions (S, S+1), visits and rows, added up."""
        states = self.columns - 1
        sums = np.zeros((states, self.columns))
        np.add.at(sums, self.states, self.transitions)
        visits = np.bincount(self.states, self.visits, minlength=states)
        return sums, visits, np.bincount(self.states, minlength=states).astype(np.float64)

    def others(self, cells: IntArray) -> tuple[Noised, IntArray]:
        """What followed the other actions of the state, and how many of these there are; noise adds up."""
        of_row, column = np.divmod(cells, self.columns)
        state = self.states[of_row]
        sums, visits, rows = self._pooled
        others = rows[state].astype(np.int64) - 1
        pooled = sums[state, column] - self.transitions.ravel()[cells]
        size = np.maximum(visits[state] - self.visits[of_row], 1.0)
        noise = self.variance * np.maximum(others, 1)
        return Noised(pooled, size, noise, np.zeros(len(cells), dtype=np.int64), self.laplace), others


def _trusted(release: Release, parameters: Parameters) -> _Rows:
    """Rows that enough noised visits speak for; n from these and the sum of the transitions by least squares."""
    visiting, moving = (_variance(event) for event in release.counted)
    counted = release.visits.ravel()[release.rows]
    trusted = counted > parameters.trust * math.sqrt(visiting)
    rows, transitions = release.rows[trusted], release.transitions[trusted]
    columns = release.transitions.shape[1]
    weight = visiting / (visiting + columns * moving)
    visits = counted[trusted] + weight * (transitions.sum(axis=1) - counted[trusted])
    laplace = release.counted[1].mechanism == events.LAPLACE
    states = rows // release.visits.shape[1]
    return _Rows(rows, states, np.maximum(visits, 1.0), transitions, moving, laplace)


def _likely(table: _Rows, levels: FloatArray) -> NDArray[np.int8]:  # (R·(S+1),)
    """The group of each cell: how likely its successor is after the other actions; 0 where there are none."""
    size, columns = table.transitions.size, table.columns
    some, others = table.others(np.arange(size)[denoising.sampled(size, columns)])
    some = some.only(others > 0)
    group = np.zeros(size, dtype=np.int8)
    if not len(some):
        return group
    mixture = denoising.fit(some, denoising.sparse_start(levels, columns), levels, mass=1 / columns)
    for cells in _chunks(size, columns):
        pooled, others = table.others(cells)
        share, _ = denoising.posterior(pooled, mixture)
        group[cells] = np.where(others > 0, 1 + np.searchsorted(_LIKELY, share), 0)
    return group


def _chunks(size: int, columns: int) -> Iterator[IntArray]:
    """All cells, some whole rows at a time."""
    step = max(1, _CELLS // columns) * columns
    for start in range(0, size, step):
        yield np.arange(start, min(start + step, size))


def _model(release: Release, parameters: Parameters) -> _Model:
    table = _trusted(release, parameters)
    size, columns = table.transitions.size, table.columns
    kernel, variance = (np.zeros((len(table.rows), columns), dtype=np.float32) for _ in range(2))
    if not size:
        return _Model(table.rows, table.visits, kernel, variance)
    levels = denoising.levels(float(np.clip(math.sqrt(table.variance) / 2 / np.median(table.visits), *_SMALLEST)))
    group = _likely(table, levels)
    learned = np.arange(size)[denoising.sampled(size, columns)]
    start = denoising.sparse_start(levels, columns)
    mixture = denoising.fit(
        table.own(learned, group[learned]), start, levels, groups=len(_LIKELY) + 2, mass=1 / columns
    )
    mass = np.zeros(len(table.rows))
    for cells in _chunks(size, columns):
        mean, spread = (
            part.reshape(-1, columns) for part in denoising.posterior(table.own(cells, group[cells]), mixture)
        )
        rows = slice(cells[0] // columns, cells[-1] // columns + 1)
        kernel[rows], variance[rows], mass[rows] = denoising.closed(mean, spread), spread, mean.sum(axis=1)
    sound = mass > _LEAST_MASS
    return _Model(table.rows[sound], table.visits[sound], kernel[sound], variance[sound])


@dataclass(frozen=True, eq=False)
class _Reward:
    """In units of the declared width, zero being no reward."""

    rows: FloatArray  # (R,) of the trusted rows
    variance: FloatArray  # (R,)
    arrival: FloatArray  # (S+1,)
    arrival_variance: FloatArray  # (S+1,)


def _known_reward(reward: rewards.Known, model: _Model, schema: Schema) -> _Reward:
    nothing, nowhere = np.zeros(len(model.rows)), np.zeros(schema.count + 1)
    table = reward.at(schema, 0)
    if isinstance(table, float):
        return _Reward(nothing, nothing, reward.on_arrival(schema) - schema.idle, nowhere)
    return _Reward(table.ravel()[model.rows] - schema.idle, nothing, nowhere, nowhere)


def _noised_reward(release: Release, model: _Model, schema: Schema, parameters: Parameters) -> _Reward:
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
    mixture = denoising.fit(cells, np.full(len(levels), 1 / len(levels)), levels, zeros=_NO_REWARD)
    return denoising.posterior(cells, mixture)


def _by_arrival(release: Release, model: _Model, schema: Schema) -> _Reward:
    """The reward of arriving at a state, and of ending after (s, a) times how often that happens."""
    if release.by_arrival is None or release.arrivals is None:
        raise _missing()
    states, sums, event = schema.count, release.by_arrival.values, release.by_arrival.event
    noise = _variance(event)
    least = max(1.0, 2 * _deviation(release.arrivals.event))  # fewer arrivals than that are none
    arrived = np.maximum(release.arrivals.values, least)
    arrival, around = _denoised(sums[:states], arrived, noise, event, schema, sampled=False)
    ending, beside = _denoised(sums[states:][model.rows], model.visits, noise, event, schema, sampled=True)
    return _Reward(ending, beside, np.append(arrival, 0.0), np.append(around, 0.0))


def _by_action(found: _Reward, release: Release, model: _Model, schema: Schema) -> _Reward:
    """What (s, a) pays beyond what is explained already."""
    if release.by_action is None:
        raise _missing()
    event, visits = release.by_action.event, model.visits
    sums, noise = release.by_action.values.ravel()[model.rows], _variance(event)
    if isinstance(_action_sums(schema), counts.RewardSums):  # of x − ½: back to x − idle, with the error of n
        sums = sums + (0.5 - schema.idle) * visits
        noise += (0.5 - schema.idle) ** 2 * _variance(release.counted[0])
    arriving = model.kernel @ found.arrival
    unsure = found.variance + model.spread(found.arrival, arriving) + model.kernel**2 @ found.arrival_variance
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
    model = _model(release, parameters)
    known = parameters.reward
    paid = _known_reward(known, model, schema) if known else _noised_reward(release, model, schema, parameters)
    unsure = parameters.reward_pessimism**2 * paid.variance
    unsure += parameters.pessimism**2 * (model.kernel**2 @ paid.arrival_variance)
    fallback = release.visits.argmax(axis=1)
    decisions, learned = np.tile(fallback, (horizon, 1)), np.zeros((horizon, states), dtype=bool)
    values = np.zeros((horizon + 1, states + 1))  # the last column is the end's, which pays nothing
    for step in reversed(range(horizon)):
        lowest, highest = _returns(schema, horizon - step)
        following = values[step + 1] + paid.arrival
        mean = (model.kernel @ following.astype(np.float32)).astype(np.float64)
        penalty = np.sqrt(parameters.pessimism**2 * model.spread(following, mean) + unsure)
        scores = np.full(states * actions, -np.inf)
        scores[model.rows] = np.clip(paid.rows + mean - penalty, lowest, highest)
        scores = scores.reshape(states, actions)
        best = scores.max(axis=1)
        worst = best[np.isfinite(best)].min(initial=highest) if len(model.rows) else lowest
        values[step, :states] = np.where(np.isfinite(best), best, worst)
        learned[step] = best > lowest
        decisions[step] = np.where(learned[step], scores.argmax(axis=1), fallback)
    return policy.of_table(NAME, schema, decisions, learned, values[:-1, :states] * schema.width)
