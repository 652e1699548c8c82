"""The parameters of every learner as JSON documents, both ways.

Each learner declares its parameters once, as a dataclass with annotated fields and defaults; a request has the same
names. `dynamics` chooses between the learners that share an algorithm's name. A document that is written has every
default in it, so that later defaults change nothing.
"""

import typing
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from discretion import errors
from discretion.learning import apvi, learners, rewards, terms, vapvi
from discretion.learning import features as maps
from discretion.learning.learners import Parameters
from discretion.learning.reader import Document, Object, open_object
from discretion.learning.schemas import CONSTANT, Schema, Vector

_TIGHT: Final = "tight"  # what a learner without a choice of calibration has


@cache
def _annotated(form: type[Parameters]) -> dict[str, Any]:
    return typing.get_type_hints(form)


def read(algorithm: object, document: object, schema: Schema) -> Parameters:
    """The parameters of a training, which fit the schema."""
    learner = learners.named(algorithm, _dynamics(document))
    annotated = _annotated(learner.Parameters)
    required = [name for name, kind in annotated.items() if kind in (maps.FeatureMap, maps.Blocks)]
    top = open_object(document, errors.InvalidParameter, required, (*annotated, "dynamics", "calibration"))
    if "calibration" not in annotated:
        _check_calibration(top)
    said = {
        name: _value(top, name, kind, schema)
        for name, kind in annotated.items()
        if name in top.values and (top.has(name) or not _optional(kind))
    }
    found: Parameters = learner.Parameters(**said)
    learner.check(schema, found)
    return found


def _check_calibration(top: Object) -> None:
    if top.values.get("calibration") == "paper":
        raise errors.InvalidParameter(
            f'The paper\'s calibration is for dynamics "per_step" of {apvi.NAME} and {vapvi.NAME}; '
            "leave calibration out."
        )
    top.choice("calibration", _TIGHT, _TIGHT)


def _dynamics(document: object) -> object:
    return document.get("dynamics") if isinstance(document, dict) else None


def _optional(kind: Any) -> bool:
    return type(None) in typing.get_args(kind)


def _value(top: Object, name: str, kind: Any, schema: Schema) -> Any:
    """One field, read as its annotation says."""
    if _optional(kind):
        kind = typing.Union[tuple(one for one in typing.get_args(kind) if one is not type(None))]  # noqa: UP007
    if kind in (maps.FeatureMap, maps.Blocks):
        return _features(top, schema)
    if kind is rewards.Known:
        return _reward(top)
    if typing.get_origin(kind) is Literal:
        return top.choice(name, None, *typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return _shares(top)
    readers: dict[Any, Callable[[str], Any]] = {float: top.number, int: top.whole, bool: top.flag}
    return readers[kind](name)


def _shares(top: Object) -> tuple[int, ...]:
    value = top.values["shares"]
    if not isinstance(value, list) or not all(type(share) is int for share in value):
        raise top.refuse("shares", "a list of positive whole numbers")
    return tuple(value)


def _reward(top: Object) -> rewards.Known:
    reward = top.inner("reward", (), ("table", "next_state"))
    if len(reward.values) != 1:
        raise top.refuse("reward", 'one of {"table": …} and {"next_state": …}')
    if "table" in reward.values:
        return rewards.Known(reward.array("table", 2, 3))
    return rewards.Known(reward.array("next_state", 1))


def _features(top: Object, schema: Schema) -> maps.FeatureMap:
    named = top.inner("features", ("kind",), ("values", "terms", "edges"))
    kind = named.choice("kind", None, "table", "blocks", "bins")
    _check_kind(kind, schema, stationary=top.values.get("dynamics") == "stationary")
    if kind == "table":
        values = top.inner("features", ("kind", "values")).array("values", 3)
        vapvi.check_width(values.shape[2])
        if values.shape[0] * values.shape[1] > 1 and (values == values[0, 0]).all():
            raise errors.InvalidFeatures("Every state and action has the same features, so none can be preferred.")
        if values.shape[1] > 1 and (values == values[:, :1]).all():
            raise errors.InvalidFeatures(
                "In each state all actions have the same features, so none can be preferred; let them differ by action."
            )
        return maps.Table(values)
    assert isinstance(schema.states, Vector)
    if kind == "blocks":
        named = top.inner("features", ("kind", "terms"))
        if not isinstance(named.values["terms"], list):
            raise named.refuse("terms", "a list of terms")
        if named.values["terms"] == [CONSTANT]:
            raise errors.InvalidFeatures(
                "Every state has the same features, so all would be treated alike; add a column."
            )
        return maps.Blocks(schema.states, schema.actions, tuple(map(terms.of, named.values["terms"])))
    named = top.inner("features", ("kind", "edges"))
    edges = named.inner("edges", (), schema.states.columns)
    for column, cuts_of in edges.values.items():
        if cuts_of == []:
            raise errors.InvalidFeatures(
                f"The edges of column {column!r} are empty; give the numbers at which it is cut, or leave it out."
            )
    cuts = {column: edges.array(column, 1).tolist() for column in edges.values}
    return maps.Bins.of(schema.states, schema.actions, cuts)


def _check_kind(kind: str, schema: Schema, *, stationary: bool) -> None:
    """Whether such features can be meant for these states and dynamics at all."""
    vector = isinstance(schema.states, Vector)
    if stationary and not vector:
        raise errors.InvalidParameter(
            f'dynamics "stationary" of {vapvi.NAME} is for vector states, and these are discrete: leave dynamics out, '
            f"or use {apvi.NAME}, which has it for them."
        )
    if stationary and kind != "blocks":
        raise errors.InvalidParameter(
            f'dynamics "stationary" needs features of kind "blocks", not "{kind}"; change one of the two.'
        )
    if vector and kind == "table":
        raise errors.InvalidParameter(
            'features of kind "table" need discrete states; use "blocks" or "bins" for vectors.'
        )
    if not vector and kind != "table":
        raise errors.InvalidParameter(f'features of kind "{kind}" need vector states; use a "table" for discrete ones.')


def write(parameters: Parameters) -> Document:
    """Everything a training was given, every default written out; null: computed from the noise, or estimated."""
    written = {field.name: _written(getattr(parameters, field.name)) for field in fields(parameters)}
    if isinstance(parameters, vapvi.Parameters):
        fixed = parameters.calibration == "paper"  # then there is nothing to choose
        written["variance"] = "estimated" if parameters.estimates_variance else "one"
        written["shares"] = None if fixed else list(parameters.shares or vapvi.TIGHT_SHARES)
    return {"dynamics": learners.dynamics_of(parameters), "calibration": _TIGHT} | written


def _written(value: Any) -> Any:
    if isinstance(value, rewards.Known):
        return {"next_state" if value.table.ndim == 1 else "table": value.table.astype(np.float64).tolist()}
    if isinstance(value, maps.Table | maps.Blocks | maps.Bins):
        return _features_document(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _features_document(features: maps.FeatureMap) -> Document:
    if isinstance(features, maps.Table):
        return {"kind": "table", "values": features.values.tolist()}
    if isinstance(features, maps.Blocks):
        return {"kind": "blocks", "terms": list(map(terms.document, features.terms))}
    return {"kind": "bins", "edges": {column: list(cuts) for column, cuts in features.edges}}
