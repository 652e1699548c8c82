"""DP-VAPVI for vector states whose dynamics are taken to be the same at every step, or in a few groups of steps.

Pessimistic value iteration on noisy least squares, as in `vapvi` (Qiao & Wang, Algorithm 2), from statistics that pool
a patient's whole trajectory and bound it as a whole.

| paper                 | here                                                                                   |
|-----------------------|----------------------------------------------------------------------------------------|
| Λ̃_h                   | one Gram matrix for each group of steps and action, units weighted to a bounded norm   |
| w̃_h                   | the mean of the last half of N rounds w ← w + Λ̃^(−½)·(Σ Λ̃^(−½)φ·residual + noise)      |
| λ                     | `Parameters.ridge`                                                                     |
| Q̂_h, Ṽ_h              | score, its maximum over supported actions within its range over public states          |
| H                     | the discount γ: what follows is worth 1/(1 − γ) steps                                  |

**Guarantee.** The released statistics are ρ-zCDP for replacing one patient; all else is computed from them.

**Differs from the paper in:**
* One Gram matrix for all steps instead of H; a patient counts with weight min(1, clip/‖Σφφᵀ‖_F), so the sensitivity is
  √2·clip and not √2·H.
* The weights are not regressed at once but in rounds on what the value so far fails to predict. Residuals are small and
  a patient's cancel, so their sum can be shortened to a small norm; what shortening cost one round, the next finds.
  Each round has noise of its own: averaging the later ones removes most of it. Half of a round's change goes on in the
  next, and a record brings news of later steps as long as doctors did what the value is of (Watkins's λ), so that fewer
  rounds, each with a larger part of the budget, do.
* Residuals are shortened, and noise is added, after the released Λ̃^(−½): in directions that are rarely seen the noise
  is then smaller, and everywhere it is as small as what is known there.
* Λ̃ of an action is mostly its share of all actions' matrix, which has less noise. It only steers the rounds: where it
  is wrong they take longer, and end at the same weights. A round first moves all actions by what their residuals say
  together, so that an action of which little is known goes with what states are worth (`pooled_steps`).
* Features look at the part of the declared bounds where patients are, if `parts` says so: a fiftieth to a tenth of
  the budget then finds it (`whereabouts`).
* Values start at the mean reward's, which is released first with a fiftieth of the budget, with the rewards' spread
  (the scale of residuals) and the share of steps that end a stay. An action of which nothing is known stays there.
* Eigenvalues of Λ̃ below the size of its noise are lifted to it.
* Of actions that noise hardly tells apart, the one is preferred that is taken more often: scores are raised by an
  action's share, times a few of their standard deviations by noise and by chance.
* Pessimism is not a penalty but support: only actions count that the recorded doctors take often enough in that state.
  How often is regressed on the features from the Gram matrix alone (the constant is one of them), so it costs nothing.
  A penalty of the paper's form is dominated by known noise, alike for all actions, and kept nobody from actions that
  were never tried.
* A decision is the best score of a supported action. Where there is only one, or where the squares of the rounds'
  summed residuals do not pass 2.25 times what noise alone would make (more where they are few), it is the action taken
  most often, labelled `fallback`. Where n√ρ/A is below 30, nearly all of the budget goes to what is taken most often:
  there is too little to learn more from.
* Where a stay earns once, by its outcome, what stays earn at the horizon is first regressed on their state there, with
  a fifth of what residuals would have. Values are then of what that rises by from step to step (`horizon_vector`).
* No variances are estimated: under privacy they cost more than they give.
* Nothing is claimed about the value of the policy: shortening patients biases the regression.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion import errors
from discretion.learning import averages, checks, horizon_vector, policy, pooled, pooled_records, vapvi, whereabouts
from discretion.learning import features as maps
from discretion.learning.curator import Answer, Concentrated, Curator, Query, Share, check_budget, event_of
from discretion.learning.pooled_steps import Steps
from discretion.learning.pooled_values import Score, StateValue, Value
from discretion.learning.schemas import FloatArray, Schema, Vector
from discretion.privacy import events

NAME: Final = vapvi.NAME
# Of ρ, for averages, Gram matrix and residuals.
SHARES: Final = (1, 18, 31)
COPYING: Final = (1, 98, 1)  # where there is too little to learn from: the Gram matrix tells what is usually done
_REFERENCES: Final = 512  # public states over which the range of values is taken
_EDGE: Final = 0.02  # of them above and below that range
_HORIZON: Final = 1.2  # γ = 1 − 1.2/H: the steps that count, as a part of the horizon
_RESIDUAL: Final = 3.0  # standard deviations of the reward to which a residual is cut
_CLIP: Final = 0.1  # of the horizon: the norm of a patient's Gram matrix
_RADIUS: Final = 0.25  # of a patient's residuals, in what they typically are if each is as large as its cut
_FEW: Final = 30  # n√ρ/A below which nothing but what is usually done is asked for
_MOMENTUM: Final = 0.5  # of a round's change goes on in the next
_SMOOTH: Final = 0.5  # of the norm of the noise: the ridge of the shares' regression, to tell what is supported
_COPIED: Final = 0.2  # the same, to tell what is done most often: a frequent action is flattered by a larger one
# Standard deviations of a score by which an action that all take is preferred to one of nobody's: of its noise, and of
# what chance does to so many patients.
_CAUTION: Final = 6.0
_CHANCE: Final = 1.5
_SIGNAL: Final = 4.0  # standard deviations by which residuals must pass noise alone
_OUTCOMES: Final = Fraction(1, 5)  # of the residuals' part, where a stay earns by its outcome
_LIFT: Final = 0.5  # of the norm of the noise of outcomes' Gram matrix: the ridge of their regression
_EXCESS: Final = 1.25  # and by what part of it: below, most of what would decide is noise


@dataclass(frozen=True)
class Parameters:
    """The public feature map and constants, fixed before the data is seen; None: by a public rule."""

    features: maps.Blocks
    rounds: int = 14
    time_groups: int = 1
    discount: float | None = None
    clip: float | None = None
    radius: float | None = None
    support: float = 0.15  # the least share of an action, relative to the most frequent one in the same state
    ridge: float = 0.1
    trace: float = 0.8  # λ: how much of what follows counts at once, as long as it is what the value is of
    shares: tuple[int, ...] | None = None  # of averages, Gram matrix, residuals
    caution: float = 1.0  # how much more than its score an action has to its credit by being taken often
    parts: int = 1  # of the bounds in which patients are looked for first; 1: the features look everywhere

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
        checks.number(self.support, "support", low=0.0, high=1.0)
        checks.number(self.ridge, "ridge (λ)", low=1e-6)
        checks.number(self.trace, "trace", low=0.0, high=1.0)
        checks.number(self.caution, "caution", low=0.0, high=1000.0)
        checks.whole(self.parts, "parts", low=1, high=1000)
        if self.shares is not None:
            checks.shares(self.shares, "averages", "Gram matrix", "residuals")


def check(schema: Schema, parameters: Parameters) -> None:
    maps.check(parameters.features, schema)
    if parameters.time_groups > schema.horizon:
        raise errors.InvalidParameter(f"time_groups can be at most the {schema.horizon} steps of the horizon.")
    if pooled_records.apart(schema) and 2 * parameters.time_groups > max(schema.horizon, 2):
        raise errors.InvalidParameter(
            f"With outcomes, time_groups can be at most {max(schema.horizon // 2, 1)}: the last step has no dynamics, "
            "so its group needs another step."
        )


def _too_few(schema: Schema, units: int, privacy: Concentrated) -> bool:
    """n√ρ/A < _FEW, exactly."""
    return units**2 * privacy.rho < (_FEW * schema.actions) ** 2


def resolved(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> Parameters:
    """With the numbers that the rule gives, to three decimals, so that everybody finds the same."""
    if not isinstance(privacy, Concentrated):
        raise errors.InvalidParameter("Stationary dynamics of vector states need a budget of ρ, not of pure ε.")
    clip = round(max(1.0, _CLIP * schema.horizon), 3)
    discount = round(min(max(0.0, 1.0 - _HORIZON / schema.horizon), 0.999), 6)
    return replace(
        parameters,
        clip=clip if parameters.clip is None else parameters.clip,
        radius=_RADIUS if parameters.radius is None else parameters.radius,
        discount=discount if parameters.discount is None else parameters.discount,
        shares=parameters.shares or (COPYING if _too_few(schema, units, privacy) else SHARES),
    )


def queries(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything a training asks, in the order it asks, a pure function of what is public."""
    check(schema, parameters)
    check_budget(privacy)
    parameters = resolved(schema, units, privacy, parameters)
    clip, radius, discount, shares = parameters.clip, parameters.radius, parameters.discount, parameters.shares
    assert clip is not None
    assert radius is not None
    assert discount is not None
    assert shares is not None
    shared = (parameters.features, parameters.time_groups, Fraction(clip).limit_denominator(1000))
    finding: list[Query] = []
    if parameters.parts > 1:
        assert isinstance(schema.states, Vector)
        assert isinstance(privacy, Concentrated)
        looking = whereabouts.share(schema.states, units, privacy.rho, parameters.parts)
        finding = [Query(whereabouts.Whereabouts(schema, parameters.parts), privacy.part(looking))]
        privacy = privacy.part(1 - looking)
    averaging, gram, residuals = (privacy.part(Fraction(share, sum(shares))) for share in shares)
    first = [Query(averages.RewardsAndEnds(schema), averaging)]
    if pooled_records.apart(schema):
        first = [
            Query(horizon_vector.Outcomes(schema, parameters.features), residuals.part(_OUTCOMES)),
            Query(averages.GainsAndEnds(schema, *shared), averaging),
        ]
        residuals = residuals.part(1 - _OUTCOMES)
    return [
        *finding,
        *first,
        Query(pooled.Gram(schema, *shared), gram),
        *(
            Query(
                pooled.Residuals(schema, *shared, radius, discount, parameters.trace, turn),
                residuals.part(Fraction(1, parameters.rounds)),
            )
            for turn in range(parameters.rounds)
        ),
    ]


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, units, privacy, parameters)]


def noise_norm(event: events.Event) -> float:
    """About the norm of a p × p symmetric noise of variance v."""
    return 2 * math.sqrt(event.shape[-1] * float(event.scale))


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """How often, about, a direction of the features must be seen before the data outweigh the noise."""
    learning = replace(parameters, shares=parameters.shares or SHARES)
    planned = mechanisms(schema, units, privacy, learning)
    return noise_norm(next(event for event in planned if event.statistic == pooled.Gram.name))


def hopeless(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> str | None:
    """So few patients are asked only for what is usually done."""
    if not isinstance(privacy, Concentrated) or resolved(schema, units, privacy, parameters).shares != COPYING:
        return None
    told = "Every decision will be a fallback, what is usually done:"
    if not _too_few(schema, units, privacy):
        return f"{told} these shares ask for nothing else. Leave shares out."
    needed = math.ceil(_FEW * schema.actions / math.sqrt(privacy.rho))
    return (
        f"{told} {units} patients are too few for {schema.actions} actions at this ρ, so nearly all of it goes to "
        f"telling that from the features, and what actions are worth is not learned. It is from {needed} patients on, "
        "or with fewer actions or more ρ."
    )


def learn(curator: Curator, privacy: Share, parameters: Parameters) -> policy.Policy:
    parameters = resolved(curator.schema, curator.units, privacy, parameters)
    planned = queries(curator.schema, curator.units, privacy, parameters)
    if parameters.parts > 1:
        found = _narrowed(curator, planned.pop(0), parameters.features)
        parameters = replace(parameters, features=found)
        planned = [_with(query, features=found) if hasattr(query.statistic, "features") else query for query in planned]
    potential = _potential(curator, planned.pop(0), parameters) if pooled_records.apart(curator.schema) else None
    averaging, covering, *rounds = planned
    if potential is not None:
        averaging = _with(averaging, potential=potential)
    averaged, gram = curator.ask(averaging, covering)
    learner = _Learner(curator.schema, curator.units, parameters, averaged, gram, rounds[0].statistic, potential)
    for query in rounds:
        (answer,) = curator.ask(learner.asking(query))
        learner.improve(answer)
    return learner.policy()


def _with(query: Query, **released: Any) -> Query:
    statistic: Any = query.statistic
    return replace(query, statistic=replace(statistic, **released))


def _narrowed(curator: Curator, query: Query, features: maps.Blocks) -> maps.Blocks:
    """The same map, looking where patients are."""
    (answer,) = curator.ask(query)
    return whereabouts.narrowed(features, answer.values, math.sqrt(float(answer.event.scale)), curator.units)


def _potential(curator: Curator, query: Query, parameters: Parameters) -> StateValue:
    """What stays earn at the horizon, by their state there."""
    (answer,) = curator.ask(query)
    found = horizon_vector.Released.of(answer.values, answer.event.scale)
    assert isinstance(curator.schema.states, Vector)
    psi = parameters.features.psi(maps.reference(curator.schema.states, _REFERENCES)) / maps.ONE
    return found.value(curator.schema, _one(psi), parameters.ridge + _LIFT * found.noise)


def _one(psi: FloatArray) -> FloatArray:  # (R, p) of public states → (p,)
    """ψᵀone is nearly 1."""
    return np.asarray(np.linalg.solve(psi.T @ psi + 1e-6 * len(psi) * np.eye(psi.shape[1]), psi.sum(axis=0)))


class _Learner:
    """Holds released numbers only; g groups of steps, A actions, p features."""

    def __init__(
        self,
        schema: Schema,
        units: int,
        parameters: Parameters,
        averaged: Answer,
        gram: Answer,
        first: Any,
        potential: StateValue | None,
    ) -> None:
        self.schema, self.units, self.parameters, self.potential = schema, units, parameters, potential
        self.copying = parameters.shares == COPYING
        self.discount, self.radius = first.discount, first.radius
        self.shape = (parameters.time_groups, schema.actions, parameters.features.width)
        mean, square, ended = np.clip(averaged.values / units, 0.0 if potential is None else -0.5, 1.0)
        mean, idle = (mean, schema.idle) if potential is None else (2 * mean, 0.0)  # of gains, half was released
        least = math.sqrt(float(averaged.event.scale)) / units  # a variance below its noise is not to be told from it
        self.deviation = math.sqrt(min(max(square - mean**2, least, 1e-4), 0.25))
        self.bound = min(1.0, _RESIDUAL * self.deviation)
        self.base = float((mean - idle) / (1.0 - self.discount * (1.0 - max(ended, 0.0))))
        assert isinstance(schema.states, Vector)
        self.reference = parameters.features.psi(maps.reference(schema.states, _REFERENCES))
        noise = noise_norm(gram.event)
        matrices = gram.values.reshape(*self.shape, self.shape[-1])
        self.frequencies, self.shares, self.copied = self._behaviour(matrices, noise)
        self.steps = Steps.of(matrices, self.frequencies, noise, parameters.ridge, units)
        self.weights, self.speed = np.zeros(self.shape), np.zeros(self.shape)
        self.history: list[FloatArray] = []
        self.total, self.noise, self.informed = np.zeros(self.shape), 0.0, False
        self.values = self._within(-math.inf, math.inf)

    def _behaviour(self, gram: FloatArray, noise: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Each action's frequency (g, A), and its share regressed on the features (g, A, p), for either purpose: ψᵀu is
        nearly 1, so Λ̃_a·u counts a."""
        one = _one(self.reference / maps.ONE)
        total = gram.sum(axis=1)
        counts = np.maximum(gram @ one @ one, 1.0)  # (g, A)
        frequencies = counts / counts.sum(axis=1, keepdims=True)
        excess = (gram - frequencies[:, :, None, None] * total[:, None]) @ one  # (g, A, p)
        eigenvalues, vectors = np.linalg.eigh(total)

        def regressed(smooth: float) -> FloatArray:
            ridge = self.parameters.ridge + smooth * noise * math.sqrt(self.schema.actions)
            inverse = np.einsum("gij,gj,gkj->gik", vectors, 1.0 / (np.maximum(eigenvalues, 0.0) + ridge), vectors)
            return np.einsum("gij,gaj->gai", inverse, excess)

        return frequencies, regressed(_SMOOTH), regressed(_COPIED)

    def asking(self, query: Query) -> Query:
        maps_of_cells = self.steps.maps.reshape(-1, *self.steps.maps.shape[2:])
        return _with(query, bound=self.bound, values=self.values, roots=maps_of_cells, potential=self.potential)

    def improve(self, answer: Answer) -> None:
        found = answer.values.reshape(self.shape)
        self.noise = float(answer.event.scale)
        self.speed = self.steps.change(found * (self.bound * self.radius)) + _MOMENTUM * self.speed
        self.weights = self.weights + self.speed
        self.history.append(self.weights)
        self.total += found
        stands_out = _stands_out(self.total, len(self.history) * self.noise)
        self.informed = self.informed or (stands_out and not self.copying)
        reached = np.sort(np.concatenate([value.of(self.reference) for value in self._within(-math.inf, math.inf)]))
        outside = int(_EDGE * len(reached))
        low, high = np.clip((reached[outside], reached[-1 - outside]), *_possible(self.schema))
        self.values = self._within(float(low), float(high))

    def _within(self, low: float, high: float) -> tuple[Value, ...]:
        return tuple(Value(score, low, high) for score in self._scores(self.weights, self.shares))

    def _scores(self, weights: FloatArray, shares: FloatArray) -> list[Score]:
        groups = zip(weights, shares, self.frequencies, strict=True)
        return [Score(self.base, self.parameters.support, self.informed, *group) for group in groups]

    def policy(self) -> policy.Policy:
        schema, last = self.schema, self.history[len(self.history) // 2 :]
        shares = self.shares if self.informed else self.copied
        scores = self._scores(np.asarray(sum(last) / len(last)) + self._caution(len(last)), shares)
        if self.potential is not None:
            scores = [_lifted(score, self.potential) for score in scores]
        rule = policy.Pooled(self.parameters.features, tuple(scores), schema.horizon, schema.width)
        return policy.Policy(NAME, schema.horizon, schema.states, schema.actions, rule)

    def _caution(self, rounds: int) -> FloatArray:  # (g, A, p)
        """What is added to an action's weights for how often it is taken: as much as noise and chance may mislead in
        the middle one of the public states. Noise is new in each round that is averaged over, chance is not. A unit's
        residuals are about as long as what they are cut to, or 1 if that is less, in all numbers together."""
        psi, length = self.reference / maps.ONE, min(self.radius, 1.0)
        noise, chance = self.radius**2 * self.noise / rounds, length**2 * self.units / self.total.size
        misled = self.bound * math.sqrt(_CAUTION**2 * noise + _CHANCE**2 * chance)
        spread = np.linalg.norm(psi @ self.steps.back, axis=-1)
        taken = self.shares + self.frequencies[:, :, None] * _one(psi)
        return np.asarray(self.parameters.caution * misled * float(np.median(spread)) * taken)


def _lifted(score: Score, potential: StateValue) -> Score:
    """What the rest of a stay earns, and not only what it rises by. That is alike for all actions of a state."""
    return replace(score, base=score.base + potential.base, weights=score.weights + potential.weights)


def _stands_out(total: FloatArray, variance: float) -> bool:
    """Whether a sum is larger than noise of that variance alone would be, and not by little: χ² of its squares."""
    excess = float((total**2).sum() / variance / total.size - 1.0)
    return excess > max(_EXCESS, _SIGNAL * math.sqrt(2 / total.size))


def _possible(schema: Schema) -> tuple[float, float]:
    """Between what the rest of a stay can earn, over the width of the rewards' range: a reward at every step, and by no
    more than what totals may differ by."""
    if pooled_records.apart(schema):  # what the outcome can differ from what was expected by
        return -1.0, 1.0
    low, high = schema.horizon * schema.low, schema.horizon * (schema.low + schema.width)
    apart = high - low if schema.total is None else schema.total[1] - schema.total[0]
    return max(low, -apart) / schema.width, min(high, apart) / schema.width
