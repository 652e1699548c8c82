"""The learners by name: what a request, a plan and a certificate have in common."""

from fractions import Fraction

from discretion import errors
from discretion.learning import apvi, vapvi
from discretion.learning.curator import Curator, Share
from discretion.learning.policy import Policy
from discretion.learning.trajectories import Schema
from discretion.privacy import events

Parameters = apvi.Parameters | vapvi.Parameters


def mechanisms(
    algorithm: str, schema: Schema, units: int, privacy: Share, parameters: Parameters
) -> list[events.Event]:
    """Every release of a training, from public quantities alone: anybody can rebuild it and add up the cost."""
    if algorithm == apvi.NAME and isinstance(parameters, apvi.Parameters):
        return apvi.mechanisms(schema, units, privacy, parameters)
    if algorithm == vapvi.NAME and isinstance(parameters, vapvi.Parameters):
        return vapvi.mechanisms(schema, units, privacy, parameters)
    raise errors.InvalidParameter(
        f"There is no algorithm {algorithm!r} with such parameters; use {apvi.NAME!r} or {vapvi.NAME!r}."
    )


def cost(algorithm: str, schema: Schema, units: int, privacy: Share, parameters: Parameters) -> Fraction:
    """ρ of a training, before anything is computed or charged."""
    return events.compose(mechanisms(algorithm, schema, units, privacy, parameters))


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """What a plan says about how much data a decision takes; public."""
    if isinstance(parameters, apvi.Parameters):
        return apvi.visits_needed(schema, units, privacy, parameters)
    return vapvi.visits_needed(schema, units, privacy, parameters)


def learn(curator: Curator, privacy: Share, parameters: Parameters) -> Policy:
    if isinstance(parameters, apvi.Parameters):
        return apvi.learn(curator, privacy, parameters)
    return vapvi.learn(curator, privacy, parameters)
