"""Every statistic that a learner or an evaluator can ask for, found by planning each mode that its parameters have.

A statistic is known by its name, without the number of a step or round, by its noise, and, where it is of features, by
their kind, since each kind is summed in its own way. What is not found here cannot be in a plan, nor in a release.
"""

import itertools
import re
import typing
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import learners, rewards
from discretion.learning.curator import Concentrated, Pure, Share
from discretion.learning.learners import Parameters
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.privacy import events


class Asked(NamedTuple):
    statistic: str
    mechanism: str
    features: str  # their kind, "" where the statistic is of none


_VECTOR: Final = Vector(("x", "y"), ((-1.0, 1.0), (0.0, 10.0)))
_REWARDS: Final[tuple[dict[str, Any], ...]] = (  # signs, bounded returns and outcomes decide how they are summed
    {"reward": (-1.0, 2.0)},
    {"reward": (0.0, 1.0)},
    {"reward": (0.0, 1.0), "total": (0.0, 1.0)},
    {"reward": (0.0, 1.0), "outcome": True},
)
_BUDGETS: Final[tuple[Share, ...]] = (Concentrated(Fraction(1)), Pure(Fraction(1)))
_UNITS: Final = (4, 10**6)  # every public switch goes by n·√ρ
_TABLE: Final = np.array([[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.5, 0.5]], [[-1.0, 0.0], [0.0, -0.7]]])
_MAPS: Final = (maps.Table(_TABLE), maps.Bins.of(_VECTOR, 2, {"x": [0.0]}), maps.Blocks(_VECTOR, 2, ("1", "x")))
_KNOWN: Final = tuple(rewards.Known(np.zeros(shape)) for shape in ((3, 2), (4, 3, 2), (3,)))


def everything() -> set[Asked]:
    found: set[Asked] = set()
    modes = [mode for form in typing.get_args(learners.Parameters) for mode in _modes(form)]
    for states, paid, units, privacy in itertools.product((Discrete(3), _VECTOR), _REWARDS, _UNITS, _BUDGETS):
        schema = Schema(4, states, 2, **paid)
        for parameters in modes:
            try:
                found.update(of(schema, units, privacy, parameters).values())
            except errors.Refusal:
                continue  # these states or this noise have no such mode
    return found


def of(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> dict[str, Asked]:
    """What one training or evaluation asks, by the names that it has in a plan."""
    parameters = learners.resolved(schema, units, privacy, parameters)
    algorithm, features = learners.algorithm_of(parameters), getattr(parameters, "features", None)
    planned = learners.mechanisms(algorithm, schema, units, privacy, parameters)
    return {event.statistic: named(event, features) for event in planned}


def named(event: events.Event, features: object) -> Asked:
    stem = re.sub(r", (step|round) [0-9]+$", "", event.statistic)
    return Asked(stem, event.mechanism, type(features).__name__.lower() if "features" in stem else "")


def _modes(form: Any) -> Iterator[Parameters]:
    """Every combination of what can be chosen, and a 2 where one is 1 by default: there is a switch."""
    kinds = typing.get_type_hints(form)
    choices = {field.name: _choices(kinds[field.name], field.default) for field in fields(form)}
    for chosen in itertools.product(*choices.values()):
        try:
            yield form(**dict(zip(choices, chosen, strict=True)))
        except errors.Refusal:
            continue


def _choices(kind: Any, default: Any) -> list[Any]:
    kinds = typing.get_args(kind) if type(None) in typing.get_args(kind) else (kind,)
    found: list[Any] = [None] if type(None) in kinds else []
    for one in kinds:
        if typing.get_origin(one) is Literal:
            found += typing.get_args(one)
        elif one is rewards.Known:
            found += _KNOWN
        elif one is bool:
            found += [False, True]
        elif one is int:
            found += [1, 2] if default == 1 else []
        elif one == maps.FeatureMap or one in typing.get_args(maps.FeatureMap):
            found += [each for each in _MAPS if isinstance(each, one)]
    return found or [default]
