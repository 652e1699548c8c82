"""`dp-fqe` by the kind of state: discrete states are counted (`fqe`), vector states regressed on (`fqe_vector`).

One name, one set of parameters, one form of result; which of the two it is follows from the schema, which is public.
"""

from types import ModuleType
from typing import Any, Final

from discretion import errors
from discretion.learning import fqe, fqe_vector, judgements, policy
from discretion.learning.curator import Curator, Share, event_of
from discretion.learning.schemas import Discrete, Schema
from discretion.privacy import events

NAME: Final = fqe.NAME
Parameters = fqe.Parameters
_USUAL: Final = fqe.Parameters()
_COUNTED: Final = ("support", "occupancy_rounds", "way", "reach")  # what only discrete states have


def _of(schema: Schema) -> Any:
    found: ModuleType = fqe if isinstance(schema.states, Discrete) else fqe_vector
    return found


def check(schema: Schema, parameters: fqe.Parameters) -> None:
    """Refuse data that cannot be judged on, and parameters that are for the other kind of state."""
    discrete = isinstance(schema.states, Discrete)
    if discrete and (parameters.features is not None or parameters.time_groups != 1):
        raise errors.InvalidParameter("features and time_groups are for vector states; leave them out.")
    if not discrete and any(getattr(parameters, name) != getattr(_USUAL, name) for name in _COUNTED):
        raise errors.InvalidParameter(
            "support, occupancy_rounds, way and reach are for discrete states; leave them out."
        )
    _of(schema).check(schema, parameters)


def check_policy(schema: Schema, parameters: fqe.Parameters, judged: policy.Policy) -> None:
    """Refuse a policy that was made for other data, or that cannot be judged with these parameters."""
    _of(schema).check_policy(schema, parameters, judged)


def resolved(schema: Schema, units: int, privacy: Share, parameters: fqe.Parameters) -> fqe.Parameters:
    """With the choices of the public rule written out, so that a later rule changes no certificate."""
    check(schema, parameters)
    found: fqe.Parameters = _of(schema).resolved(schema, units, privacy, parameters)
    return found


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: fqe.Parameters) -> list[events.Event]:
    check(schema, parameters)
    return [event_of(query, units) for query in _of(schema).queries(schema, units, privacy, parameters)]


def evaluate(
    curator: Curator, privacy: Share, parameters: fqe.Parameters, judging: policy.Policy
) -> judgements.Evaluation:
    check(curator.schema, parameters)
    found: judgements.Evaluation = _of(curator.schema).evaluate(curator, privacy, parameters, judging)
    return found
