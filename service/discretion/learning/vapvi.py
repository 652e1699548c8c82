"""DP-VAPVI: Algorithm 2 of Qiao & Wang, *Offline Reinforcement Learning with Differential Privacy*.

Variance-aware pessimistic value iteration on noisy least-squares statistics of a linear MDP.

| paper                 | here                                                                            |
|-----------------------|---------------------------------------------------------------------------------|
| D′, D                 | the first and second half of the stored positions, or everyone for both         |
| Σ̃_h, β̃_h, θ̃_h         | "covariance", "square", "mean": what the variance is estimated from              |
| Λ̃_h, w̃_h              | "gram", "target", or "joint": the weighted regression                            |
| K₁, K₂                | symmetric noise plus E/2·I                                                       |
| λ, C, D, E, δ         | `Parameters.ridge`, `.c`, `.d`, `.e`, `.delta`                                   |
| σ̃_h, Γ_h, Q̂_h, Ṽ_h    | deviation, penalty, clipped pessimistic score, its maximum                       |

**Guarantee.** The released statistics are ρ-zCDP for replacing one patient; all else is computed from them.

**Differs from the paper in:**
* The covariance noise has off-diagonal variance v = Δ_F²/4ρ₀ with Δ_F² = 2, twice the printed one, which pays for
  adding a record only, not for replacing it. E is the printed number, √(2p/ρ₀)·(2 + (log(5HG/δ)/p)^⅔) = 2√(pv)·(…)
  unless given, for G blocks of width p (the paper has one block of width d, and two unnamed constants that are 1 here).
* `calibration="paper"` keeps ρ/5H for each of 5H statistics with sensitivities 2H², 2H, 2H. `calibration="tight"`
  releases nothing that needs no data (Ṽ_{H+1} = 0), lets each half spend the whole of ρ when the data is split, and by
  default sets σ̃ = 1: under privacy, an estimated variance costs more than its weights give.
* `tight` on tables and bins (`vapvi_finite`): features are whitened, targets are centred on and divided by the released
  range of Ṽ_{h+1}, Λ̃ and w̃ are one release (`joint`), ridge and penalty follow from the noise that was added, and in
  the end all steps are estimated together. A 25th of ρ pays for the number of trajectories that ended early: it says
  whether the end's value is in that range.
* `tight` on blocks: Ṽ_{h+1} ∈ [0, H−h] gives the sensitivities, and E = 12√(pv).
* Blocks of the Gram matrix that are zero for every dataset (other actions' features) get no noise.
* Noise is discrete, on integers; features are truncated to multiples of 2⁻¹⁶ and targets below 64 too (larger ones are
  coarser, 22 bits in all), record by record.
* Eigenvalues of Λ̃ below λ, which only noise can cause, are lifted to λ.
* Trajectories may end early (the end's value is known) and rewards may have any bounded range or be known. In `tight`,
  a known reward of (s, a) makes the last step exact, and nothing is released there (unless it is the only step).
* Where every score of a state is zero, the decision is the best-covered action, arg min φᵀΛ̃⁻¹φ, labelled `fallback`. In
  `tight` on blocks a score is zero where ‖φ‖²/φᵀΛ̃⁻¹φ does not pass what noise alone would make of it.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal

from discretion import errors
from discretion.learning import checks, policy, rewards, vapvi_finite, vapvi_printed, whitening
from discretion.learning import features as maps
from discretion.learning.curator import Curator, Pure, Query, Share, check_budget, event_of
from discretion.learning.joint import Endings, Joint
from discretion.learning.regressions import Deviation, Gram, Moment
from discretion.learning.schemas import Schema
from discretion.privacy import events

NAME: Final = "dp-vapvi"
_STATISTICS: Final = ("covariance", "square", "mean", "gram", "target")
DELTA: Final = 0.1
TIGHT_SHARES: Final = (1, 1, 1, 1, 2)  # of ρ, in the order of _STATISTICS
MOST_FEATURES: Final = math.isqrt(10 * maps.MAX_DIMENSION)  # of a table, with the constant
_COUNTING: Final = "dp-apvi or dp-pae"  # learners of discrete states
_ENDINGS_SHARE: Final = Fraction(1, 25)


@dataclass(frozen=True)
class Parameters:
    """The public feature map and constants; fixed before the data is seen."""

    features: maps.FeatureMap
    calibration: Literal["paper", "tight"] = "tight"
    variance: Literal["estimated", "one"] | None = None  # default: estimated in the paper's calibration, else one
    split: bool = False
    ridge: float = 1.0
    c: float = 0.1
    d: float = 0.0
    e: float | None = None
    delta: float = DELTA
    reward: rewards.Known | None = None
    shares: tuple[int, ...] | None = None  # of covariance, square, mean, gram, target; tight only

    def __post_init__(self) -> None:
        checks.choice(self.calibration, "calibration", "paper", "tight")
        if self.variance is not None:
            checks.choice(self.variance, "variance", "estimated", "one")
        if not isinstance(self.features, maps.FeatureMap):
            raise errors.InvalidParameter("features must be a feature map: Table, Blocks or Bins.")
        checks.number(self.ridge, "ridge (λ)", low=1e-6)
        checks.number(self.c, "c", low=0.0)
        checks.number(self.d, "d", low=0.0)
        if self.e is not None:
            checks.number(self.e, "e", low=0.0)
        checks.number(self.delta, "delta", low=0.0, high=1.0, strictly=True)
        if self.shares is not None:
            checks.shares(self.shares, *_STATISTICS)
        rewards.check_kind(self.reward)
        if self.split and not self.estimates_variance:
            raise errors.InvalidParameter(
                "split halves the data to estimate variances; set variance='estimated' or drop it."
            )
        if not self.estimates_variance and self.shares is not None and self.shares[:3] != TIGHT_SHARES[:3]:
            raise errors.InvalidParameter(
                "The first three shares are of estimated variances, and with variance 'one' nothing is asked for them: "
                "leave them at 1, 1, 1, or set variance='estimated'."
            )
        if self.delta != DELTA and (self.e is not None or self.normalises):
            raise errors.InvalidParameter(
                "delta is for the rule that finds e: leave it out where e is given, and in the tight calibration of "
                "tables and bins, which has no such rule."
            )
        if self.calibration == "paper" and (self.shares is not None or not self.estimates_variance):
            raise errors.InvalidParameter(
                "The paper's calibration has fixed shares and estimates variances; use 'tight'."
            )

    @property
    def estimates_variance(self) -> bool:
        return (self.variance or ("estimated" if self.calibration == "paper" else "one")) == "estimated"

    @property
    def normalises(self) -> bool:
        """Whether targets are divided by their released range, which needs finitely many states."""
        return self.calibration == "tight" and not isinstance(self.features, maps.Blocks)

    @property
    def knows_reward(self) -> bool:
        """Whether the reward of (s, a) is known; that of arriving still has to be averaged."""
        return self.reward is not None and self.reward.table.ndim > 1

    @property
    def parts(self) -> tuple[str, str]:
        """D′ and D."""
        return (events.FIRST_HALF, events.SECOND_HALF) if self.split else (events.EVERYONE, events.EVERYONE)

    @property
    def alpha(self) -> int:
        """α = √(w/2g) for shares g and w of Gram matrices and targets, in steps of the grid."""
        *_, gram, target = self.shares or TIGHT_SHARES
        return max(1, math.isqrt(maps.ONE**2 * target // (2 * gram)))

    def margin(self, units: int) -> float:
        return self.d / (units - units // 2 if self.split else units)

    def constants(self, units: int) -> vapvi_printed.Constants:
        tight = self.calibration == "tight"
        return vapvi_printed.Constants(self.ridge, self.c, self.margin(units), self.e, self.delta, tight)


_Plan = dict[str, Query]  # what one step asks, by name and in this order; what needs no data is not in it
_Sums = dict[str, Gram | Moment | Joint]


def check(schema: Schema, parameters: Parameters) -> None:
    maps.check(parameters.features, schema)
    if isinstance(parameters.features, maps.Table):
        check_width(parameters.features.width + (1 if parameters.normalises else 0))  # the constant is one more
    if parameters.reward is not None:
        if not isinstance(parameters.features, maps.Table):
            raise errors.InvalidParameter("A reward table needs discrete states with a feature table.")
        parameters.reward.check(schema)


def check_width(width: int) -> None:
    """Time is the limit: a step takes as long as width³, some seconds at the most that is allowed."""
    if width > MOST_FEATURES:
        raise errors.ProblemTooLarge(
            f"A feature table has {MOST_FEATURES - 1} features at most, and every step would take width³ operations. "
            f"With a feature for each state and action, leave the table out and use {_COUNTING}: they keep numbers "
            "for each instead of a matrix."
        )


def _statistics(schema: Schema, parameters: Parameters, step: int) -> _Sums:
    """The statistics of a step that need data, with the least bounds on their targets (for the paper: its own)."""
    if parameters.normalises:
        return _normalised(schema, parameters, step)
    paper = parameters.calibration == "paper"
    reach = schema.horizon if paper else schema.horizon - step - 1  # Ṽ_{h+1} ∈ [0, reach]
    first, second = parameters.parts
    common = (schema, parameters.features, step)
    wanted: _Sums = {}
    if parameters.estimates_variance and reach:
        wanted["covariance"] = Gram(*common, first)
        wanted["square"] = Moment(*common, first, bound=reach**2, label="squared next value", squared=True)
        wanted["mean"] = Moment(*common, first, bound=reach, label="next value")
    wanted["gram"] = Gram(*common, second, label="weighted Gram matrix")
    bound = reach if paper else reach + 1
    label = "next value, weighted" if parameters.knows_reward else "reward plus next value, weighted"
    observed = parameters.reward is None
    wanted["target"] = Moment(*common, second, bound=bound, label=label, reward=observed)
    return wanted


def _normalised(schema: Schema, parameters: Parameters, step: int) -> _Sums:
    """Targets come divided by their range: all bounds are 1. Var Ṽ ≤ 1 if Ṽ_{h+1} ∈ [0, 2] (Popoviciu): σ̃ = 1."""
    features = parameters.features
    assert not isinstance(features, maps.Blocks)
    if isinstance(features, maps.Table):
        features = whitening.whitened(features).features
    first, second = parameters.parts
    common = (schema, features, step)
    wanted: _Sums = {}
    if parameters.estimates_variance and schema.horizon - step - 1 > 2:
        wanted["covariance"] = Gram(*common, first)
        wanted["square"] = Moment(*common, first, label="squared next value", squared=True)
        wanted["mean"] = Moment(*common, first, label="next value")
    if not parameters.knows_reward or step + 1 < schema.horizon or schema.horizon == 1:
        label = "next value" if parameters.knows_reward else "reward plus next value"
        wanted["joint"] = Joint(*common, second, weight=parameters.alpha, label=f"{label}, scaled")
    return wanted


def _first(schema: Schema, privacy: Share, parameters: Parameters) -> Query | None:
    """What is asked before all steps: whether the end is among what may follow a step."""
    if not parameters.normalises or schema.horizon == 1:
        return None
    return Query(Endings(schema), privacy.part(_ENDINGS_SHARE))


def _steps(schema: Schema, privacy: Share, parameters: Parameters) -> list[_Plan]:
    check(schema, parameters)
    check_budget(privacy)
    if isinstance(privacy, Pure):
        raise errors.InvalidParameter(
            f"{NAME} can be had with zCDP only: give rho, or epsilon with delta. For pure ε-DP use dp-apvi."
        )
    statistics = [_statistics(schema, parameters, step) for step in range(schema.horizon)]
    weights = dict(zip(_STATISTICS, parameters.shares or TIGHT_SHARES, strict=True))
    weights["joint"] = weights["gram"] + weights["target"]
    rest = 1 - (_ENDINGS_SHARE if _first(schema, privacy, parameters) else 0)
    if parameters.calibration == "paper":
        weights = dict.fromkeys(_STATISTICS, 1)
    spent: dict[str, int] = dict.fromkeys(events.PARTS, 0)
    for wanted in statistics:
        for name, statistic in wanted.items():
            spent[statistic.part] += weights[name]
    if parameters.calibration == "paper":  # ρ₀ = ρ/5H, split or not
        spent = dict.fromkeys(events.PARTS, 5 * schema.horizon)
    return [
        {name: Query(s, privacy.part(rest * Fraction(weights[name], spent[s.part]))) for name, s in wanted.items()}
        for wanted in statistics
    ]


def queries(schema: Schema, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything a training asks, in the order it asks, a pure function of what is public."""
    steps = [query for plan in reversed(_steps(schema, privacy, parameters)) for query in plan.values()]
    first = _first(schema, privacy, parameters)
    return steps if first is None else [first, *steps]


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, privacy, parameters)]


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """How often, about, a direction of the features must be seen at a step before the data outweigh the noise: E."""
    if parameters.e is not None:
        return parameters.e
    released = mechanisms(schema, units, privacy, parameters)
    if parameters.normalises:  # τG = t
        variance = max(float(event.scale) for event in released if len(event.shape) == 3)
        return math.sqrt(vapvi_finite.PRECISION * parameters.ridge * variance) * maps.ONE / parameters.alpha
    constants = parameters.constants(units)
    symmetric = [event for event in released if event.mechanism == events.SYMMETRIC_GAUSSIAN]
    return max((constants.shift(event, schema) for event in symmetric), default=0.0)


def learn(curator: Curator, privacy: Share, parameters: Parameters) -> policy.Policy:
    """Alg. 2, lines 3 to 15."""
    steps = _steps(curator.schema, privacy, parameters)
    if parameters.normalises:
        return _learn_normalised(curator, privacy, parameters, steps)
    learner = vapvi_printed.of(
        curator.schema, parameters.features, parameters.reward, parameters.constants(curator.units)
    )
    for step, plan in reversed(list(enumerate(steps))):
        deviation = None
        if "covariance" in plan:
            asked = [plan["covariance"], *(_with(plan[name], value=learner.value) for name in ("square", "mean"))]
            deviation = learner.deviation(step, *curator.ask(*asked))
        target = _with(plan["target"], deviation=deviation, value=learner.following())
        learner.improve(step, *curator.ask(_with(plan["gram"], deviation=deviation), target))
    return learner.policy(NAME)


def _learn_normalised(curator: Curator, privacy: Share, parameters: Parameters, steps: list[_Plan]) -> policy.Policy:
    schema, features = curator.schema, parameters.features
    assert not isinstance(features, maps.Blocks)
    half = curator.units // 2 if parameters.split else 0
    most = ((half or curator.units) * schema.per_unit, (curator.units - half) * schema.per_unit)
    margin, shift = parameters.margin(curator.units), parameters.e or 0.0
    constants = vapvi_finite.Constants(parameters.ridge, parameters.c, margin, shift, most)
    learner = vapvi_finite.Backward(schema, features, parameters.reward, constants)
    if (first := _first(schema, privacy, parameters)) is not None:
        learner.hear_of_endings(*curator.ask(first))
    for step, plan in reversed(list(enumerate(steps))):
        deviation: Deviation | None = None
        if "covariance" in plan:
            value, found = learner.next_value(step)
            asked = [plan["covariance"], *(_with(plan[name], value=value) for name in ("square", "mean"))]
            deviation = learner.deviation(found, *curator.ask(*asked))
        if "joint" not in plan:
            learner.know(step)
            continue
        value, found, share = learner.target(step)
        (answer,) = curator.ask(_with(plan["joint"], deviation=deviation, value=value, share=share))
        learner.improve(step, vapvi_finite.Noisy.of_joint(answer, parameters.alpha), found)
    learner.look_again()
    return learner.policy(NAME)


def _with(query: Query, **fields: Any) -> Query:
    statistic: Any = query.statistic
    return replace(query, statistic=replace(statistic, **fields))
