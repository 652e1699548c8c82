"""DP-VAPVI pooled."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion.learning import features as maps
from discretion.learning import policy, pooled, vapvi
from discretion.learning.curator import Curator, Query, Share, event_of
from discretion.learning.scores import Score
from discretion.learning.trajectories import Schema
from discretion.privacy import events

NAME: Final = vapvi.NAME
T = dict(floor=1.0, s0=0.1, B=1.0, R=1.5, cM=.15, cb=1.0, caution=.3, C=1.0, known=.5, q=.02, ridge=1.0)


@dataclass(frozen=True)
class Parameters:
    features: maps.Blocks
    rounds: int = 6
    time_groups: int = 1
    discount: float | None = None
    clip: float | None = None
    radius: float | None = None
    c: float = 1.0
    ridge: float = 1.0
    shares: tuple[int, int, int] = (1, 24, 25)


def check(schema: Schema, parameters: Parameters) -> None:
    maps.check(parameters.features, schema)


def _clips(schema, units, privacy, parameters):
    return Fraction(T["cM"] * schema.horizon).limit_denominator(1000), T["cb"], .9


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    clip, radius, discount = _clips(schema, units, privacy, parameters)
    shared: Any = (schema, parameters.features, parameters.time_groups, clip)
    averages, gram, residuals = (Fraction(share, sum(parameters.shares)) for share in parameters.shares)
    rounds = parameters.rounds
    return [
        Query(pooled.Averages(schema), privacy.part(averages)),
        Query(pooled.Gram(*shared), privacy.part(gram)),
        *(
            Query(pooled.Residuals(*shared, radius, discount, turn), privacy.part(residuals / rounds))
            for turn in range(rounds)
        ),
    ]


def mechanisms(schema, units, privacy, parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, units, privacy, parameters)]


def learn(curator: Curator, privacy: Share, parameters: Parameters) -> policy.Policy:
    schema = curator.schema
    averaging, covering, *rounds = queries(schema, curator.units, privacy, parameters)
    averages, gram = curator.ask(averaging, covering)
    learner = Learner(schema, curator.units, parameters, averages, gram, rounds[0])
    for query in rounds:
        statistic: Any = query.statistic
        asked = replace(query, statistic=replace(statistic, bound=learner.bound, scores=learner.scores))
        (answer,) = curator.ask(asked)
        learner.improve(answer, statistic.radius)
    return learner.policy()


class Learner:
    def __init__(self, schema, units, parameters, averages, gram, first):
        self.schema, self.parameters, self.features = schema, parameters, parameters.features
        A, p, g = schema.actions, self.features.width, parameters.time_groups
        self.shape = (g, A, p)
        mean, square, ended = np.clip(averages.values / units, 0, 1)
        sd = math.sqrt(max(square - mean**2, (3*float(averages.event.scale))**.5/units, 1e-3))
        self.bound = min(1.0, T["R"] * sd)
        self.sd = sd
        gamma = first.statistic.discount
        self.base = (mean - schema.idle) / (1 - gamma * (1 - ended))
        noise = 2 * math.sqrt(p * float(gram.event.scale))
        values, vectors = np.linalg.eigh(gram.values)
        self.l = np.maximum(values + T["ridge"], T["floor"] * noise + T["ridge"]).reshape(self.shape)
        self.floor = T["floor"] * noise + T["ridge"]
        self.u = vectors.transpose(0, 2, 1).reshape(g, A, p, p)
        self.w = np.zeros(self.shape)
        self.t = 0.0
        self.reference = self.features.psi(maps.reference(schema.states, 512))
        self.gain = 1 / (1 - gamma)
        self.scores = self.released((-math.inf, math.inf))

    def improve(self, answer, radius):
        b = answer.values.reshape(self.shape) * (self.bound * radius)
        self.t = math.sqrt(float(answer.event.scale)) * self.bound * radius
        step = np.einsum("gaij,gai,gaik,gak->gaj", self.u, 1 / self.l, self.u, b)
        self.w = self.w + step
        wide = self.released((-math.inf, math.inf))
        values = np.concatenate([s.value(self.reference) for s in wide])
        self.scores = self.released(tuple(np.quantile(values, [T["q"], 1 - T["q"]])))

    def released(self, rng):
        q = T["C"]**2 * ((T["s0"] * self.sd**2 + (T["B"] * self.sd)**2 * self.floor) / self.l + self.t**2 / self.l**2)
        return tuple(
            Score(self.base, w, u, 1 / l, qq, float(rng[0]), float(rng[1]), T["caution"], T["known"] / self.floor)
            for w, u, l, qq in zip(self.w, self.u, self.l, q, strict=True)
        )

    def policy(self):
        rule = policy.Pooled(self.features, self.scores, self.schema.width)
        return policy.Policy(NAME, self.schema.horizon, self.schema.states, self.schema.actions, rule)
