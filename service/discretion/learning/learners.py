"""The learners by name: what a request, a plan and a certificate have in common."""

from types import ModuleType
from typing import Any, Final

from discretion import errors
from discretion.learning import apvi, apvi_stationary, evaluators, pae, vapvi, vapvi_stationary
from discretion.learning.curator import Curator, Share
from discretion.learning.policy import Policy
from discretion.learning.schemas import Schema
from discretion.privacy import events

Parameters = (
    apvi.Parameters
    | apvi_stationary.Parameters
    | vapvi.Parameters
    | vapvi_stationary.Parameters
    | pae.Parameters
    | evaluators.Parameters
)

Derivable = apvi.Parameters | apvi_stationary.Parameters  # what they release is good for further policies

PER_STEP: Final = "per_step"
STATIONARY: Final = "stationary"
# An algorithm's first line here is what a request means that does not say which dynamics it assumes.
_LEARNERS: Final[dict[tuple[str, str], ModuleType]] = {
    (apvi.NAME, PER_STEP): apvi,
    (apvi.NAME, STATIONARY): apvi_stationary,
    (vapvi.NAME, PER_STEP): vapvi,
    (vapvi.NAME, STATIONARY): vapvi_stationary,
    (pae.NAME, STATIONARY): pae,
}
# Asked alike, but learns nothing.
_EVALUATOR: Final[dict[tuple[str, str], ModuleType]] = {(evaluators.NAME, STATIONARY): evaluators}
_FORMS: Final = {learner.Parameters: (learner, key) for key, learner in (_LEARNERS | _EVALUATOR).items()}


def named(algorithm: object, dynamics: object) -> Any:
    """The module of a learner."""
    offered = {kept: learner for (name, kept), learner in (_LEARNERS | _EVALUATOR).items() if name == algorithm}
    if not offered:
        names = ['"auto"', *dict.fromkeys(f'"{name}"' for name, _ in _LEARNERS)]
        raise errors.InvalidParameter(f"algorithm must be {' or '.join(names)}.")
    if dynamics is None:
        return next(iter(offered.values()))
    if not isinstance(dynamics, str) or dynamics not in offered:
        kept = " or ".join(f'"{one}"' for one in offered)
        raise errors.InvalidParameter(f"dynamics must be {kept} for {algorithm}.")
    return offered[dynamics]


def _of(parameters: Parameters) -> Any:
    return _FORMS[type(parameters)][0]


def algorithm_of(parameters: Parameters) -> str:
    return _FORMS[type(parameters)][1][0]


def dynamics_of(parameters: Parameters) -> str:
    return _FORMS[type(parameters)][1][1]


def resolved(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> Parameters:
    """With numbers in place of what was left to a public rule, so that a later rule changes no certificate."""
    rule = getattr(_of(parameters), "resolved", None)
    found: Parameters = parameters if rule is None else rule(schema, units, privacy, parameters)
    return found


def mechanisms(
    algorithm: str, schema: Schema, units: int, privacy: Share, parameters: Parameters
) -> list[events.Event]:
    """Every release of a training, from public quantities alone: anybody can rebuild it and add up the cost."""
    if type(parameters) not in _FORMS or algorithm_of(parameters) != algorithm:
        raise errors.InvalidParameter(f"There is no algorithm {algorithm!r} with such parameters.")
    asked: list[events.Event] = _of(parameters).mechanisms(schema, units, privacy, parameters)
    return asked


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """What a plan says about how much data a decision takes; public."""
    return float(_of(parameters).visits_needed(schema, units, privacy, parameters))


def hopeless(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> str | None:
    """Why every decision will be a fallback, whatever the patients did, and what would help; None if that is open."""
    found = getattr(_of(parameters), "hopeless", None)
    return None if found is None else found(schema, units, privacy, parameters)


def derive(curator: Curator, privacy: Share, drawn: Derivable, parameters: Derivable) -> Policy:
    """A further policy from what a training with the parameters `drawn` was told."""
    learner = _of(drawn)
    derived: Policy = learner.derive(learner.draw(curator, privacy, drawn), curator.schema, parameters)
    return derived


def learn(curator: Curator, privacy: Share, parameters: Parameters) -> Policy:
    learned: Policy = _of(parameters).learn(curator, privacy, parameters)
    return learned
