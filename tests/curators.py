"""Curators for tests only: without noise, or with noise that is known beforehand.

They make a learner deterministic. None of them can be reached from the product, where a scale of zero is refused.
"""

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion.learning import apvi, vapvi
from discretion.learning import features as maps
from discretion.learning.curator import Answer, Curator, Query, Share
from discretion.learning.joint import Endings, Joint
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.sums import Statistic
from discretion.learning.trajectories import ENDED, Trajectories
from discretion.learning.values import LinearDeviation, LinearScore, TableDeviation, TableValue
from discretion.privacy import events
from tests import transcriptions
from tests.worlds import END, Record, State, World

TINY: Final = Fraction(1, 10**80)
PLENTY: Final = Fraction(10**300)
Noise = Mapping[str, IntArray]  # by the statistic's name: the whole table, on its integer grid
Sums = Gram | Moment | Joint | Endings


class ZeroNoise(Curator):
    """Answers exactly, and says so: the scale of its events is next to nothing, so learners' noise bounds vanish."""

    def __init__(self, trajectories: Trajectories) -> None:
        super().__init__(trajectories, PLENTY)

    def price(self, query: Query) -> events.Event:
        return replace(super().price(query), scale=TINY)

    def _noise(self, event: events.Event, shape: tuple[int, ...]) -> IntArray:
        return np.zeros(shape, dtype=np.int64)


class Coupled(Curator):
    """Adds prescribed noise at honest prices; a row asked for lazily gets what the whole table has there."""

    def __init__(self, trajectories: Trajectories, noise: Noise, allowance: Fraction = PLENTY) -> None:
        super().__init__(trajectories, allowance)
        self._prescribed = noise
        self._asked: list[Statistic] = []

    def ask(self, *queries: Query) -> list[Answer]:
        self._asked = [query.statistic for query in queries]
        return super().ask(*queries)

    def _noise(self, event: events.Event, shape: tuple[int, ...]) -> IntArray:
        statistic = self._asked.pop(0)
        rows = getattr(statistic, "rows", None)
        table = self._prescribed[statistic.name]
        return (table if rows is None else table[rows]).reshape(shape)


@dataclass(frozen=True)
class FloatAnswer(Answer):
    """An answer that never saw the integer grid; `grid` has the right shape and nothing in it."""

    sums: FloatArray

    @property
    def values(self) -> FloatArray:
        return self.sums


class FloatZeroNoise(ZeroNoise):
    """Gram matrices and moments as plain floating-point sums over plain episodes, by no code of the product."""

    def __init__(self, world: World) -> None:
        super().__init__(world.trajectories)
        self._world = world

    def ask(self, *queries: Query) -> list[Answer]:
        return [self._answer(query.statistic, self.price(query)) for query in queries]

    def _answer(self, statistic: Statistic, event: events.Event) -> Answer:
        assert isinstance(statistic, Sums)
        sums = self._sums(statistic) + self._added(statistic)
        return FloatAnswer(np.zeros(statistic.shape, dtype=np.int64), event, sums)

    def _added(self, statistic: Sums) -> FloatArray:
        return np.zeros(statistic.shape)

    def _sums(self, statistic: Sums) -> FloatArray:
        if isinstance(statistic, Endings):
            early = [e for e in self._world.episodes if len(e.states) < self._world.schema.horizon]
            return np.array([float(sum(e.ending == ENDED for e in early))])
        total = np.zeros(statistic.shape)
        for record in self._world.records(statistic.step, part_of(self._world.units, statistic.part)):
            group, psi = feature(statistic.features, record.state, record.action)
            deviation = _deviation(statistic, psi, record)
            if isinstance(statistic, Gram):
                total[group] += np.outer(psi, psi) / deviation**2
            elif isinstance(statistic, Joint):
                target = min(max(_target(statistic, record) / deviation, -1.0), 1.0) * statistic.weight / 2**16
                total[group] += np.outer(psi / deviation, [*(psi / deviation), target])
            else:
                target = min(max(_target(statistic, record), -statistic.bound), statistic.bound)
                total[group] += psi * target / deviation**2
        return total


class FloatCoupled(FloatZeroNoise):
    """The same with prescribed noise, at honest prices."""

    def __init__(self, world: World, noise: Noise) -> None:
        super().__init__(world)
        self._prescribed = noise

    def price(self, query: Query) -> events.Event:
        return Curator.price(self, query)

    def _added(self, statistic: Sums) -> FloatArray:
        return self._prescribed[statistic.name].astype(np.float64) * float(statistic.resolution)


def part_of(units: int, part: str) -> range:
    halves = {events.FIRST_HALF: range(units // 2), events.SECOND_HALF: range(units // 2, units)}
    return halves.get(part, range(units))


def cell(features: maps.FeatureMap, state: State) -> int:
    if isinstance(features, maps.Table):
        return int(state)
    assert isinstance(features, maps.Bins)
    number = 0
    for column, edges in features.edges:
        number = number * (len(edges) + 1) + bisect.bisect_right(edges, state[features.vector.columns.index(column)])
    return number


def feature(features: maps.FeatureMap, state: State, action: int) -> tuple[int, FloatArray]:
    """The group of (state, action) and its ψ as numbers."""
    if isinstance(features, maps.Blocks):
        return action, features.psi(np.array([state]))[0] / 2**16
    number = cell(features, state)
    return int(features.group[number, action]), features.psi[number, action] / 2**16


def _deviation(statistic: Gram | Moment | Joint, psi: FloatArray, record: Record) -> float:
    deviation = statistic.deviation
    if deviation is None:
        return 1.0
    if isinstance(deviation, TableDeviation):
        return float(deviation.values[cell(statistic.features, record.state), record.action])
    assert isinstance(deviation, LinearDeviation)
    square = min(max(float(psi @ deviation.square[record.action]), 0.0), deviation.ceiling**2)
    mean = min(max(float(psi @ deviation.mean[record.action]), 0.0), deviation.ceiling)
    return math.sqrt(max(1.0, square - mean**2))


def _target(statistic: Moment | Joint, record: Record) -> float:
    paid = statistic.share if isinstance(statistic, Joint) else float(statistic.reward)
    target, value = paid * record.reward, statistic.value
    if value is None:
        return target
    outside = record.successor is None or record.successor == END
    if isinstance(value, TableValue):
        following = value.values[-1 if outside else cell(statistic.features, record.successor)]
    else:
        following = value.end if outside else best(value.score, feature(statistic.features, record.successor, 0)[1])
    return target + float(following) ** (2 if isinstance(statistic, Moment) and statistic.squared else 1)


def best(score: LinearScore, psi: FloatArray) -> float:
    """max over actions of the clipped pessimistic score."""
    scores = [
        float(psi @ weights) - score.bonus * math.hypot(*(root @ psi)) - score.margin
        for weights, root in zip(score.weights, score.roots, strict=True)
    ]
    return min(max(0.0, *scores), score.ceiling)


class Attentive(ZeroNoise):
    """Keeps the deviations that it was asked to weigh with, one a step."""

    def __init__(self, trajectories: Trajectories) -> None:
        super().__init__(trajectories)
        self.deviations: list[Any] = []

    def ask(self, *queries: Query) -> list[Answer]:
        statistics: list[Any] = [query.statistic for query in queries]
        self.deviations += [s.deviation for s in statistics if isinstance(s, Gram) and s.deviation is not None]
        return super().ask(*queries)


def flat(features: maps.FeatureMap) -> transcriptions.Phi:
    """φ(s, a) as one long vector."""

    def phi(state: State, action: int) -> FloatArray:
        group, psi = feature(features, state, action)
        vector = np.zeros((features.groups, features.width))
        vector[group] = psi
        return vector.ravel()

    return phi


def as_in_the_paper(noise: Noise, features: maps.FeatureMap, horizon: int, shift: float) -> transcriptions.LinearNoise:
    """K₁ and K₂ with their E/2·I, φ₁, φ₂ and φ₃ of every step; nothing where nothing was asked."""
    groups, p = features.groups, features.width

    def matrices(label: str) -> list[FloatArray]:
        found = []
        for step in range(horizon):
            drawn = noise.get(f"{label} of the features, step {step + 1}")
            matrix = np.zeros((groups * p, groups * p))
            for group in range(groups if drawn is not None else 0):
                block = slice(group * p, (group + 1) * p)
                matrix[block, block] = noise_of(drawn)[group] + shift / 2 * np.eye(p)
            found.append(matrix)
        return found

    def vectors(*labels: str) -> list[FloatArray]:
        names = [[f"features times {label}, step {step + 1}" for label in labels] for step in range(horizon)]
        drawn = [next((noise[name] for name in step if name in noise), None) for step in names]
        return [noise_of(vector).reshape(-1) if vector is not None else np.zeros(groups * p) for vector in drawn]

    def noise_of(drawn: IntArray | None) -> FloatArray:
        assert drawn is not None
        return drawn / 2.0**32

    return transcriptions.LinearNoise(
        matrices("Gram matrix"),
        matrices("weighted Gram matrix"),
        vectors("squared next value"),
        vectors("next value"),
        vectors("reward plus next value, weighted", "next value, weighted"),
    )


def _symmetric(noise: IntArray) -> IntArray:
    return np.triu(noise) + np.swapaxes(np.triu(noise, 1), -1, -2)


def count_noise(rng: np.random.Generator, schema: Schema, privacy: Share, parameters: apvi.Parameters) -> Noise:
    """Seeded noise of about the right size for everything DP-APVI asks."""
    drawn: dict[str, Any] = {}
    for event in apvi.mechanisms(schema, 1, privacy, parameters):
        scale = float(event.grid_scale)
        if event.mechanism == events.LAPLACE:
            table = rng.laplace(scale=scale, size=event.shape)
        else:
            table = rng.normal(scale=math.sqrt(scale), size=event.shape)
        drawn[event.statistic] = np.round(table).astype(np.int64)
    return {
        name: table.reshape(-1, table.shape[-1]) if table.ndim == 4 else table  # transitions: a row for each (h, s, a)
        for name, table in drawn.items()
    }


def regression_noise(rng: np.random.Generator, schema: Schema, privacy: Share, parameters: vapvi.Parameters) -> Noise:
    """Seeded noise of about the right size for everything DP-VAPVI asks."""
    drawn: dict[str, IntArray] = {}
    for event in vapvi.mechanisms(schema, 1, privacy, parameters):
        noise = np.round(rng.normal(scale=math.sqrt(event.grid_scale), size=event.shape)).astype(np.int64)
        drawn[event.statistic] = _symmetric(noise) if event.mechanism == events.SYMMETRIC_GAUSSIAN else noise
    return drawn
