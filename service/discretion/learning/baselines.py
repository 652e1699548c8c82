"""The same learners without privacy, for public data only: what privacy costs is measured against these.

Nothing here adds noise or spends a budget, so nothing here may ever see a patient: the service does not import this
module; simulations and benchmarks do.

* `apvi`: Yin & Wang (2021), Γ = C₁√(Var·ι/n) + C₂Hι/n with C₂ = 7/3 as in the empirical Bernstein inequality. Without
  noise DP-APVI becomes this with C₂ = 0 (its own C₂ term is proportional to E) where rewards are known.
* `value_iteration`: the same without a penalty, on what was seen.
* `behaviour_cloning`: the most frequent action of each step and state.
* `vapvi`: Yin et al. (2022), Γ = C√d·‖φ‖_Λ⁻¹ + D/K with variance weights, which DP-VAPVI becomes.
* `pevi`: Jin et al. (2021), unweighted, Γ = C·d·H·‖φ‖_Λ⁻¹.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from discretion.learning import features as maps
from discretion.learning import policy, rewards
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Records, Trajectories
from discretion.learning.values import LinearScore, linear_score


@dataclass(frozen=True)
class _Counts:
    """Exact counts of one step, of the transitions that occurred."""

    visits: IntArray  # (S, A)
    cells: IntArray  # (T,) flat (s, a)
    successors: IntArray  # (T,) S for the end
    shares: FloatArray  # (T,) of its cell's visits
    rewards: FloatArray  # (S, A) mean scaled reward, 0 where never visited

    def mean(self, values: FloatArray) -> FloatArray:  # (T,) → (S, A)
        """Of what follows each (s, a), 0 where it was never visited."""
        found = np.bincount(self.cells, weights=self.shares * values, minlength=self.visits.size)
        return found.astype(np.float64).reshape(self.visits.shape)  # of none: integers


def _records(trajectories: Trajectories, step: int, low: int = 0, high: int | None = None) -> Records:
    """All records of a step whose successor is known, or all at the horizon, of the units at positions low … high−1."""
    parts = [
        block.records(step, block.part(low, trajectories.units if high is None else high))
        for block in trajectories.bounded()
    ]
    joined = Records(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Records)))
    return joined.only(joined.known | (step + 1 == trajectories.schema.horizon))


def _visited(records: Records, schema: Schema) -> IntArray:  # (R,) flat (s, a)
    return records.states.astype(np.int64) * schema.actions + records.actions


def _visits(trajectories: Trajectories, step: int) -> IntArray:  # (S, A)
    schema = trajectories.schema
    shape = (schema.count, schema.actions)
    return np.bincount(_visited(_records(trajectories, step), schema), minlength=math.prod(shape)).reshape(shape)


def _counts(trajectories: Trajectories, step: int) -> _Counts:
    schema, columns = trajectories.schema, trajectories.schema.count + 1
    records, shape = _records(trajectories, step), (schema.count, schema.actions)
    cells = _visited(records, schema)
    successors = np.where(records.known, records.successors, schema.count).astype(np.int64)
    keys, counts = np.unique(cells * columns + successors, return_counts=True)
    visits = np.bincount(cells, minlength=math.prod(shape))
    total = np.zeros(len(visits))
    np.add.at(total, cells, records.rewards)
    left, entered = np.divmod(keys, columns)
    mean = (total / np.maximum(visits, 1)).reshape(shape)
    return _Counts(visits.reshape(shape), left, entered, counts / visits[left], mean)


def apvi(
    trajectories: Trajectories,
    *,
    c1: float = math.sqrt(2.0),
    c2: float = 7 / 3,
    delta: float = 0.1,
    pessimism: Literal["bernstein", "hoeffding"] = "bernstein",
    reward: rewards.Known | None = None,
    name: str = "apvi",
) -> policy.Policy:
    schema, states = trajectories.schema, trajectories.schema.count
    horizon = schema.horizon
    iota = math.log(horizon * states * schema.actions / delta)
    scores = np.zeros((horizon, states, schema.actions))
    frequent = np.zeros((horizon, states), dtype=np.int64)
    value = np.zeros(states + 1)
    for step in reversed(range(horizon)):
        counts = _counts(trajectories, step)
        n = np.maximum(counts.visits, 1)
        following = (value + (0.0 if reward is None else reward.on_arrival(schema)))[counts.successors]
        mean = counts.mean(following)
        variance = counts.mean((following - mean.ravel()[counts.cells]) ** 2)
        spread = np.sqrt(variance) if pessimism == "bernstein" else float(horizon)
        penalty = c1 * spread * np.sqrt(iota / n) + c2 * horizon * iota / n
        raw = (counts.rewards if reward is None else reward.at(schema, step)) + mean - penalty
        scores[step] = np.where(counts.visits > 0, np.clip(raw, 0.0, horizon - step), 0.0)
        frequent[step] = counts.visits.argmax(axis=1)
        value = np.append(scores[step].max(axis=1), schema.idle * (horizon - step))
    return policy.tabular(name, schema, scores, frequent)


def value_iteration(trajectories: Trajectories, *, reward: rewards.Known | None = None) -> policy.Policy:
    return apvi(trajectories, c1=0.0, c2=0.0, reward=reward, name="value-iteration")


def behaviour_cloning(trajectories: Trajectories) -> policy.Policy:
    """Copies; `learned` where the state was seen at that step. It estimates no values: scores are zero."""
    schema = trajectories.schema
    visits = np.stack([_visits(trajectories, step) for step in range(schema.horizon)])
    scores = np.zeros(visits.shape[:2])
    rule = policy.Table(visits.argmax(axis=2), visits.sum(axis=2) > 0, scores)
    return policy.Policy("behaviour-cloning", schema.horizon, schema.states, schema.actions, rule)


def vapvi(
    trajectories: Trajectories,
    features: maps.FeatureMap,
    *,
    ridge: float = 1.0,
    c: float = 0.1,
    d: float = 0.0,
    split: bool = False,
    reward: rewards.Known | None = None,
) -> policy.Policy:
    middle = trajectories.units // 2 if split else 0
    penalty = _Penalty(c * math.sqrt(maps.dimension(features)), d / (trajectories.units - middle))
    return _LeastSquares("vapvi", trajectories, features, ridge, penalty, reward, True, middle).learn()


def pevi(
    trajectories: Trajectories,
    features: maps.FeatureMap,
    *,
    ridge: float = 1.0,
    c: float = 0.1,
    reward: rewards.Known | None = None,
) -> policy.Policy:
    penalty = _Penalty(c * maps.dimension(features) * trajectories.schema.horizon, 0.0)
    return _LeastSquares("pevi", trajectories, features, ridge, penalty, reward, False, 0).learn()


@dataclass(frozen=True)
class _Penalty:
    """Γ = bonus·‖φ‖_Λ⁻¹ + margin."""

    bonus: float
    margin: float


@dataclass(frozen=True, eq=False)
class _LeastSquares:
    """The backward pass of both, in floating point, each group of features by itself."""

    name: str
    trajectories: Trajectories
    features: maps.FeatureMap
    ridge: float
    penalty: _Penalty
    reward: rewards.Known | None
    weighted: bool
    middle: int  # variances come from the units before it, values from the others; 0: both from everyone

    def learn(self) -> policy.Policy:
        schema, features = self.trajectories.schema, self.features
        maps.check(features, schema)
        scores: list[LinearScore] = []  # last step first
        tables: list[FloatArray] = []
        covered: list[IntArray] = []
        for step in reversed(range(schema.horizon)):
            weights, inverse = self._fit(step, scores, tables)
            ceiling = schema.horizon - step
            if isinstance(features, maps.Blocks):
                scores.append(linear_score(weights, inverse, self.penalty.bonus, self.penalty.margin, float(ceiling)))
                continue
            spread = _spread(features, inverse)
            known = 0.0 if self.reward is None else self.reward.at(schema, step)
            raw = _linear(features, weights) + known - self.penalty.bonus * np.sqrt(spread) - self.penalty.margin
            tables.append(np.clip(raw, 0.0, ceiling))
            covered.append(spread.argmin(axis=1))
        if not isinstance(features, maps.Blocks):
            bins = features if isinstance(features, maps.Bins) else None
            return policy.tabular(self.name, schema, np.array(tables[::-1]), np.array(covered[::-1]), bins)
        rule = policy.Linear(features, tuple(scores[::-1]), schema.low, schema.width)
        return policy.Policy(self.name, schema.horizon, schema.states, schema.actions, rule)

    def _fit(self, step: int, scores: list[LinearScore], tables: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        schema, middle = self.trajectories.schema, self.middle
        end = schema.idle * (schema.horizon - step - 1)
        data = _Regression(self.features, _records(self.trajectories, step, middle), self.ridge)
        value = _next_value(self.features, data.records, scores, tables, end)
        if self.weighted:
            prior, before = data, value
            if middle:
                prior = _Regression(self.features, _records(self.trajectories, step, 0, middle), self.ridge)
                before = _next_value(self.features, prior.records, scores, tables, end)
            data = data.weigh(prior.fit(before**2)[0], prior.fit(before)[0], schema.horizon - step)
        target = value + (data.records.rewards if self.reward is None else 0.0)
        if self.reward is not None and self.reward.table.ndim == 1:
            cells = np.where(data.records.known, data.records.successors, -1).astype(np.int64)
            target = target + np.asarray(self.reward.on_arrival(schema))[cells]
        return data.fit(target)


def _next_value(
    features: maps.FeatureMap, records: Records, scores: list[LinearScore], tables: list[FloatArray], end: float
) -> FloatArray:
    """V_{h+1} of each record's successor."""
    inside = records.known & ~records.ended
    if not scores and not tables:
        return np.zeros(len(inside))
    if isinstance(features, maps.Blocks):
        return np.where(inside, scores[-1].of(features.psi(records.successors)).max(axis=0), end)
    cells = np.where(inside, features.cells(records.successors), 0)
    return np.where(inside, tables[-1].max(axis=1)[cells], end)


@dataclass(frozen=True)
class _Regression:
    """Ridge regression on the features of some records."""

    features: maps.FeatureMap
    records: Records
    ridge: float
    deviation: FloatArray | None = None  # (R,)

    def _rows(self) -> tuple[IntArray, FloatArray]:  # groups (R,), ψ (R, p)
        if isinstance(self.features, maps.Blocks):
            return self.records.actions, self.features.psi(self.records.states) / maps.ONE
        cells = self.features.cells(self.records.states), self.records.actions
        return self.features.group[cells], self.features.psi[cells] / maps.ONE

    def weigh(self, square: FloatArray, mean: FloatArray, ceiling: int) -> "_Regression":
        groups, psi = self._rows()
        variance = np.clip((psi * square[groups]).sum(axis=1), 0.0, ceiling**2)
        variance = variance - np.clip((psi * mean[groups]).sum(axis=1), 0.0, ceiling) ** 2
        return _Regression(self.features, self.records, self.ridge, np.sqrt(np.maximum(1.0, variance)))

    def fit(self, target: FloatArray) -> tuple[FloatArray, FloatArray]:  # w (G, p), Λ⁻¹ (G, p, p)
        groups, psi = self._rows()
        if self.deviation is not None:
            psi, target = psi / self.deviation[:, None], target / self.deviation
        width = self.features.width
        inverse = np.tile(np.eye(width) / self.ridge, (self.features.groups, 1, 1))
        weights = np.zeros((self.features.groups, width))
        for group in np.unique(groups):
            rows = psi[groups == group]
            inverse[group] = np.linalg.inv(rows.T @ rows + self.ridge * np.eye(width))
            weights[group] = inverse[group] @ (rows.T @ target[groups == group])
        return weights, inverse


def _linear(features: maps.FiniteMap, weights: FloatArray) -> FloatArray:  # (S, A)
    return (features.psi / maps.ONE * weights[features.group]).sum(axis=-1)


def _spread(features: maps.FiniteMap, inverse: FloatArray) -> FloatArray:  # (S, A)
    psi = features.psi / maps.ONE
    return np.einsum("sai,saij,saj->sa", psi, inverse[features.group], psi)
