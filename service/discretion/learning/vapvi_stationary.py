"""DP-VAPVI for vector states whose dynamics are taken to be the same at every step, or in a few groups of steps.

Pessimistic value iteration on noisy least squares, as in `vapvi` (Qiao & Wang, Algorithm 2), from statistics that pool
a patient's whole trajectory and bound it as a whole.

| paper                 | here                                                                                   |
|-----------------------|----------------------------------------------------------------------------------------|
| Λ̃_h                   | one Gram matrix for each group of steps and action, units weighted to a bounded norm   |
| w̃_h                   | the mean of the last half of N rounds w ← w + Λ̃⁻¹·(Σ φ·residual + noise)               |
| λ, C                  | `Parameters.ridge`, `.c`                                                               |
| Γ_h, Q̂_h, Ṽ_h         | penalty, pessimistic score, its maximum within the range it has over public states     |
| H                     | the discount γ: what follows is worth 1/(1 − γ) steps                                  |

**Guarantee.** The released statistics are ρ-zCDP for replacing one patient; all else is computed from them.

**Differs from the paper in:**
* One Gram matrix for all steps instead of H; a patient counts with weight min(1, clip/‖Σφφᵀ‖_F), so the sensitivity is
  √2·clip and not √2·H.
* The weights are not regressed at once but in rounds on what the value so far fails to predict. Residuals are small and
  a patient's cancel, so their sum can be shortened to a small norm; what shortening cost one round, the next finds.
  Each round has noise of its own: averaging the later ones removes most of it.
* Values start at the mean reward's, which is released first with a fiftieth of the budget, with the rewards' spread
  (the scale of residuals) and the share of steps that end a stay. An action of which nothing is known stays there.
* Eigenvalues of Λ̃ below the size of its noise are lifted to it.
* The penalty is what is known to be unknown: noise in the last rounds, and directions that the data does not reach.
* A decision is the best pessimistic score where the action is covered and beats the best-covered one by more than
  noise; else the best-covered action, arg min ψᵀΛ̃⁻¹ψ, labelled `fallback`.
* No variances are estimated: under privacy they cost more than they give.
* Nothing is claimed about the value of the policy: shortening patients biases the regression.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion import errors
from discretion.learning import checks, policy, pooled, vapvi
from discretion.learning import features as maps
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget, event_of
from discretion.learning.scores import Score, Value
from discretion.learning.trajectories import FloatArray, Schema, Vector
from discretion.privacy import events

NAME: Final = vapvi.NAME
SHARES: Final = (1, 20, 29)
_REFERENCES: Final = 512  # public states over which the range of values is taken
_EDGE: Final = 0.02  # of them above and below that range
_HORIZON: Final = 1.6  # γ = 1 − 1.6/H: the steps that count, as a part of the horizon
_RESIDUAL: Final = 2.0  # standard deviations of the reward to which a residual is cut
_CLIP: Final = 0.1  # of the horizon: the norm of a patient's Gram matrix
_RADIUS: Final = 1.0  # of a patient's residuals, in residuals
_FLOOR: Final = 0.7  # of the norm of the Gram matrix's noise: where eigenvalues end
_CAUTION: Final = 0.5
_KNOWN: Final = 0.8


@dataclass(frozen=True)
class Parameters:
    """The public feature map and constants, fixed before the data is seen; None: by a public rule."""

    features: maps.Blocks
    rounds: int = 24
    time_groups: int = 1
    discount: float | None = None
    clip: float | None = None
    radius: float | None = None
    c: float = 0.5
    ridge: float = 0.1
    shares: tuple[int, ...] = SHARES  # of averages, Gram matrix, residuals

    def __post_init__(self) -> None:
        if not isinstance(self.features, maps.Blocks):
            raise errors.InvalidParameter("Stationary dynamics of vector states need features of kind blocks.")
        checks.whole(self.rounds, "rounds", low=1, high=100)
        checks.whole(self.time_groups, "time_groups", low=1, high=100)
        if self.discount is not None:
            checks.number(self.discount, "discount", low=0.0, high=0.999)
        if self.clip is not None:
            checks.number(self.clip, "clip", low=0.01, high=1e6)
        if self.radius is not None:
            checks.number(self.radius, "radius", low=1e-3, high=1e3)
        checks.number(self.c, "c", low=0.0)
        checks.number(self.ridge, "ridge (λ)", low=1e-6)
        checks.shares(self.shares, "averages", "Gram matrix", "residuals")


def check(schema: Schema, parameters: Parameters) -> None:
    maps.check(parameters.features, schema)
    if parameters.time_groups > schema.horizon:
        raise errors.InvalidParameter(f"time_groups can be at most the {schema.horizon} steps of the horizon.")


def _loosened(units: int, privacy: Concentrated) -> float:
    """Shortening patients buys less noise for some bias, and the more patients and budget the less noise there is."""
    return max(1.0, math.sqrt(units * math.sqrt(privacy.rho) / 30_000))


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything a training asks, in the order it asks, a pure function of what is public."""
    check(schema, parameters)
    check_budget(privacy)
    if not isinstance(privacy, Concentrated):
        raise errors.InvalidParameter("Stationary dynamics of vector states need a budget of ρ, not of pure ε.")
    loose = _loosened(units, privacy)
    clip = parameters.clip or min(float(schema.horizon), max(1.0, _CLIP * schema.horizon) * loose)
    radius = parameters.radius or _RADIUS * loose
    discount = max(0.0, 1.0 - _HORIZON / schema.horizon) if parameters.discount is None else parameters.discount
    shared = (parameters.features, parameters.time_groups, Fraction(clip).limit_denominator(1000))
    total, rounds = sum(parameters.shares), parameters.rounds
    averages, gram, residuals = (privacy.part(Fraction(share, total)) for share in parameters.shares)
    return [
        Query(pooled.Averages(schema), averages),
        Query(pooled.Gram(schema, *shared), gram),
        *(
            Query(
                pooled.Residuals(schema, *shared, radius=radius, discount=discount, round=turn),
                residuals.part(Fraction(1, rounds)),
            )
            for turn in range(rounds)
        ),
    ]


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, units, privacy, parameters)]


def noise_norm(event: events.Event) -> float:
    """About the norm of a p × p symmetric noise of variance v."""
    return 2 * math.sqrt(event.shape[-1] * float(event.scale))


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """How often, about, a direction of the features must be seen before the data outweigh the noise."""
    return noise_norm(mechanisms(schema, units, privacy, parameters)[1])


def learn(curator: Curator, privacy: Share, parameters: Parameters) -> policy.Policy:
    averaging, covering, *rounds = queries(curator.schema, curator.units, privacy, parameters)
    averages, gram = curator.ask(averaging, covering)
    learner = _Learner(curator.schema, curator.units, parameters, averages, gram, rounds[0].statistic)
    for query in rounds:
        (answer,) = curator.ask(learner.asking(query))
        learner.improve(answer)
    return learner.policy()


class _Learner:
    """Holds released numbers only; g groups of steps, A actions, p features."""

    def __init__(
        self, schema: Schema, units: int, parameters: Parameters, averages: Answer, gram: Answer, first: Any
    ) -> None:
        self.schema, self.parameters = schema, parameters
        self.discount, self.radius = first.discount, first.radius
        self.shape = (parameters.time_groups, schema.actions, parameters.features.width)
        mean, square, ended = np.clip(averages.values / units, 0.0, 1.0)
        least = math.sqrt(float(averages.event.scale)) / units  # a variance below its noise is not to be told from it
        self.deviation = math.sqrt(min(max(square - mean**2, least, 1e-4), 0.25))
        self.bound = min(1.0, _RESIDUAL * self.deviation)
        self.base = float((mean - schema.idle) / (1.0 - self.discount * (1.0 - ended)))
        self.floor = parameters.ridge + _FLOOR * noise_norm(gram.event)
        eigenvalues, vectors = np.linalg.eigh(gram.values)
        self.eigenvalues = np.maximum(eigenvalues + parameters.ridge, self.floor).reshape(self.shape)
        self.directions = vectors.transpose(0, 2, 1).reshape(*self.shape, self.shape[-1])  # rows
        assert isinstance(schema.states, Vector)
        self.reference = parameters.features.psi(maps.reference(schema.states, _REFERENCES))
        self.weights = np.zeros(self.shape)
        self.history: list[FloatArray] = []
        self.noise = 0.0  # standard deviation of a round's answer
        self.values = tuple(Value(score, -math.inf, math.inf) for score in self.scores(self.weights, 0.0))

    def asking(self, query: Query) -> Query:
        statistic: Any = query.statistic
        return replace(query, statistic=replace(statistic, bound=self.bound, values=self.values))

    def improve(self, answer: Answer) -> None:
        unit = self.bound * self.radius
        self.noise = math.sqrt(float(answer.event.scale)) * unit
        found = np.einsum("gaij,gaj->gai", self.directions, answer.values.reshape(self.shape) * unit)
        self.weights = self.weights + np.einsum("gaij,gai->gaj", self.directions, found / self.eigenvalues)
        self.history.append(self.weights)
        scores = self.scores(self.weights, self.noise)
        reached = np.sort(np.concatenate([Value(score, -math.inf, math.inf).of(self.reference) for score in scores]))
        outside = int(_EDGE * len(reached))
        low, high = float(reached[outside]), float(reached[-1 - outside])
        self.values = tuple(Value(score, low, high) for score in scores)

    def scores(self, weights: FloatArray, noise: float) -> list[Score]:
        unseen = self.deviation**2 * self.floor / self.eigenvalues
        penalties = self.parameters.c**2 * (unseen + noise**2 / self.eigenvalues**2)
        return [
            Score(self.base, _CAUTION, _KNOWN / self.floor, *group)
            for group in zip(weights, 1.0 / self.eigenvalues, penalties, self.directions, strict=True)
        ]

    def policy(self) -> policy.Policy:
        schema, last = self.schema, self.history[len(self.history) // 2 :]
        scores = self.scores(np.asarray(sum(last) / len(last)), self.noise / math.sqrt(len(last)))
        rule = policy.Pooled(self.parameters.features, tuple(scores), schema.horizon, schema.width)
        return policy.Policy(NAME, schema.horizon, schema.states, schema.actions, rule)
