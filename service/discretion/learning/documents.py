"""Public requests as plain JSON documents, both ways: schema, privacy, parameters.

What a request, a plan and a certificate write is read by the same functions, so a certificate's own words are enough
to rebuild its training. Reading is strict: a key nobody knows is refused by name (a field `seed` must never look as if
it did something), nothing is converted from one type to another, and refusals do not repeat what was sent, which may
be a megabyte long. A document that is written has every default in it, so that later defaults change nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from discretion import errors
from discretion.learning import apvi, rewards, vapvi
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Pure, Share, check_budget
from discretion.learning.learners import Parameters
from discretion.learning.trajectories import Discrete, FloatArray, Schema, Vector, is_finite
from discretion.privacy import rho

Document = dict[str, Any]
Labels = tuple[str, ...] | None

_LONGEST: Final = 200  # characters of a name
_DIGITS: Final = 10**15  # whole numbers that every JSON reader keeps exactly
_PER_STEP: Final = "per_step"
_TIGHT: Final = "tight"
_COMMON: Final = ("dynamics", "calibration", "reward", "c", "delta", "shares")
_APVI: Final = (*_COMMON, "pessimism", "c1", "c2")
_VAPVI: Final = (*_COMMON, "features", "variance", "split", "ridge", "d", "e")


@dataclass(frozen=True)
class _Object:
    """One JSON object of a request, read key by key."""

    values: Document
    refusal: type[errors.Refusal]
    prefix: str = ""

    def refuse(self, key: str, needed: str) -> errors.Refusal:
        return self.refusal(f"{self.prefix}{key} must be {needed}.")

    def has(self, key: str) -> bool:
        """Whether the key says something; null stands for the default."""
        return self.values.get(key) is not None

    def inner(self, key: str, required: Iterable[str], optional: Iterable[str] = ()) -> "_Object":
        return _open(self.values[key], self.refusal, required, optional, f"{self.prefix}{key}")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if not is_finite(value):
            raise self.refuse(key, "a finite number")
        return float(value)  # type: ignore[arg-type]

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if type(value) is not int or abs(value) >= _DIGITS:
            raise self.refuse(key, "a whole number of at most 15 digits")
        return value

    def choice(self, key: str, default: str | None, *allowed: str) -> Any:
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.refuse(key, " or ".join(f'"{name}"' for name in allowed))
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values[key]
        if not isinstance(value, list) or not all(map(_is_name, value)):
            raise self.refuse(key, f"a list of texts of 1 to {_LONGEST} characters")
        return tuple(value)

    def array(self, key: str, *depths: int) -> FloatArray:
        """Numbers in nested lists of equal lengths, as deep as one of `depths`."""
        shape: list[int] = []
        level = [self.values[key]]
        while len(shape) < max(depths) and all(isinstance(item, list) for item in level):
            lengths = {len(item) for item in level}
            if len(lengths) != 1 or lengths == {0}:
                raise self.refuse(key, "a table whose rows are equally long and not empty")
            shape.append(lengths.pop())
            level = [number for item in level for number in item]
        if len(shape) not in depths or not all(map(is_finite, level)):
            raise self.refuse(key, f"finite numbers in lists, {' or '.join(map(str, depths))} deep")
        return np.array(level, dtype=np.float64).reshape(shape)

    def interval(self, key: str) -> tuple[float, float]:
        bounds = self.inner(key, ("low", "high"))
        return bounds.number("low"), bounds.number("high")


def _is_name(value: object) -> bool:
    """Half a surrogate pair has no UTF-8, and so no canonical bytes."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _open(
    value: object,
    refusal: type[errors.Refusal],
    required: Iterable[str],
    optional: Iterable[str] = (),
    name: str = "",
) -> _Object:
    where = name or "The request"
    required, known = tuple(required), {*required, *optional}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise refusal(f"{where} must be a JSON object.")
    for key in value:
        if key not in known:
            raise refusal(f"{where} has no key {key[:40]!r}; use {', '.join(sorted(known)[:20])}.")
    for key in required:
        if key not in value:
            raise refusal(f"{where} needs the key {key!r}.")
    return _Object(value, refusal, f"{name}." if name else "")


def schema_of(document: object) -> tuple[Schema, Labels]:
    """The schema, and what its actions are called, if that is said."""
    top = _open(
        document,
        errors.InvalidSchema,
        ("horizon", "states", "actions", "reward"),
        ("return", "max_trajectories_per_unit"),
    )
    actions = top.inner("actions", ("count",), ("labels",))
    labels = actions.texts("labels") if actions.has("labels") else None
    schema = Schema(
        top.whole("horizon"),
        _states(top),
        actions.whole("count"),
        top.interval("reward"),
        top.interval("return") if top.has("return") else None,
        top.whole("max_trajectories_per_unit", 1),
    )
    if labels is not None and len(labels) != schema.actions:
        raise actions.refuse("labels", f"one text for each of the {schema.actions} actions")
    return schema, labels


def _states(top: _Object) -> Discrete | Vector:
    states = top.inner("states", ("kind",), ("count", "columns", "bounds"))
    if states.choice("kind", None, "discrete", "vector") == "discrete":
        return Discrete(top.inner("states", ("kind", "count")).whole("count"))
    states = top.inner("states", ("kind", "columns", "bounds"))
    columns, bounds = states.texts("columns"), states.array("bounds", 2)
    if bounds.shape[1] != 2:
        raise states.refuse("bounds", "a pair of numbers for each column, the lower first")
    return Vector(columns, tuple((low, high) for low, high in bounds.tolist()))


def schema_document(schema: Schema, labels: Labels = None) -> Document:
    actions: Document = {"count": schema.actions}
    if labels is not None:
        actions["labels"] = list(labels)
    document = {
        "horizon": schema.horizon,
        "states": _states_document(schema.states),
        "actions": actions,
        "reward": _interval_document(schema.reward),
        "max_trajectories_per_unit": schema.per_unit,
    }
    if schema.total is not None:
        document["return"] = _interval_document(schema.total)
    return document


def _states_document(states: Discrete | Vector) -> Document:
    if isinstance(states, Discrete):
        return {"kind": "discrete", "count": states.count}
    return {"kind": "vector", "columns": list(states.columns), "bounds": [list(pair) for pair in states.bounds]}


def _interval_document(bounds: tuple[float, float]) -> Document:
    return {"low": float(bounds[0]), "high": float(bounds[1])}


def privacy_of(document: object) -> Share:
    """The budget a request names in one of three ways; (ε, δ) becomes the largest ρ that implies it."""
    top = _open(document, errors.InvalidPrivacy, (), ("rho", "epsilon", "delta", "pure_epsilon"))
    kinds = tuple(sorted(top.values))
    share: Share
    if kinds == ("rho",):
        share = Concentrated(rho.Rho.parse(top.values["rho"]).exact)
    elif kinds == ("delta", "epsilon"):
        epsilon, delta = (rho.exact(top.values[key], key) for key in ("epsilon", "delta"))
        share = Concentrated(rho.largest_rho(epsilon, delta).exact)
    elif kinds == ("pure_epsilon",):
        share = Pure(_above_zero(rho.exact(top.values["pure_epsilon"], "pure_epsilon")))
    else:
        raise errors.InvalidPrivacy("Give exactly one of rho, epsilon with delta, or pure_epsilon.")
    check_budget(share)
    return share


def _above_zero(epsilon: Fraction) -> Fraction:
    if epsilon <= 0:
        raise errors.InvalidPrivacy("pure_epsilon must be above zero.")
    return epsilon


def privacy_document(privacy: Share) -> Document:
    """The exact budget, as one that a ledger can hold: a whole number of billionths."""
    check_budget(privacy)
    if isinstance(privacy, Pure):
        return {"pure_epsilon": str(rho.Rho.floor(privacy.epsilon))}
    return {"rho": str(rho.Rho.floor(privacy.rho))}


def parameters_of(algorithm: object, document: object, schema: Schema) -> Parameters:
    """The parameters of a training, which fit the schema."""
    if algorithm == apvi.NAME:
        counted = _apvi(_open(document, errors.InvalidParameter, (), _APVI))
        apvi.check(schema, counted)
        return counted
    if algorithm == vapvi.NAME:
        regressed = _vapvi(_open(document, errors.InvalidParameter, ("features",), _VAPVI), schema)
        vapvi.check(schema, regressed)
        return regressed
    raise errors.InvalidParameter(f'algorithm must be "{apvi.NAME}" or "{vapvi.NAME}".')


def _apvi(top: _Object) -> apvi.Parameters:
    default = apvi.Parameters()
    top.choice("dynamics", _PER_STEP, _PER_STEP)
    top.choice("calibration", _TIGHT, _TIGHT)  # counts have no other, but a request may say so
    return apvi.Parameters(
        c1=top.number("c1", default.c1),
        c2=top.number("c2", default.c2),
        c=top.number("c", default.c),
        delta=top.number("delta", default.delta),
        pessimism=top.choice("pessimism", default.pessimism, "bernstein", "hoeffding"),
        reward=_reward(top),
        shares=_shares(top, default.shares),  # type: ignore[arg-type]
    )


def _vapvi(top: _Object, schema: Schema) -> vapvi.Parameters:
    default = vapvi.Parameters
    top.choice("dynamics", _PER_STEP, _PER_STEP)
    return vapvi.Parameters(
        features=_features(top, schema),
        calibration=top.choice("calibration", default.calibration, "paper", "tight"),
        variance=top.choice("variance", None, "estimated", "one") if top.has("variance") else None,
        split=top.flag("split", default.split),
        ridge=top.number("ridge", default.ridge),
        c=top.number("c", default.c),
        d=top.number("d", default.d),
        e=top.number("e") if top.has("e") else None,
        delta=top.number("delta", default.delta),
        reward=_reward(top),
        shares=_shares(top, None),
    )


def _shares(top: _Object, default: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if not top.has("shares"):
        return default
    value = top.values["shares"]
    if not isinstance(value, list) or not all(type(share) is int for share in value):
        raise top.refuse("shares", "a list of positive whole numbers")
    return tuple(value)


def _reward(top: _Object) -> rewards.Known | None:
    if not top.has("reward"):
        return None
    reward = top.inner("reward", (), ("table", "next_state"))
    if len(reward.values) != 1:
        raise top.refuse("reward", 'one of {"table": …} and {"next_state": …}')
    if "table" in reward.values:
        return rewards.Known(reward.array("table", 2, 3))
    return rewards.Known(reward.array("next_state", 1))


def _features(top: _Object, schema: Schema) -> maps.FeatureMap:
    named = top.inner("features", ("kind",), ("values", "terms", "edges"))
    kind = named.choice("kind", None, "table", "blocks", "bins")
    if kind == "table":
        return maps.Table(top.inner("features", ("kind", "values")).array("values", 3))
    if not isinstance(schema.states, Vector):
        raise errors.InvalidParameter(f'features of kind "{kind}" need vector states; use a "table" for discrete ones.')
    if kind == "blocks":
        return maps.Blocks(schema.states, schema.actions, top.inner("features", ("kind", "terms")).texts("terms"))
    named = top.inner("features", ("kind", "edges"))
    edges = named.inner("edges", (), schema.states.columns)
    cuts = {column: edges.array(column, 1).tolist() for column in edges.values}
    return maps.Bins.of(schema.states, schema.actions, cuts)


def parameters_document(parameters: Parameters) -> Document:
    """Everything a training was given, every default written out; null: computed from the noise, or estimated."""
    common = {
        "dynamics": _PER_STEP,
        "reward": _reward_document(parameters.reward),
        "c": float(parameters.c),
        "delta": float(parameters.delta),
    }
    if isinstance(parameters, apvi.Parameters):
        return common | {
            "calibration": _TIGHT,
            "pessimism": parameters.pessimism,
            "c1": float(parameters.c1),
            "c2": float(parameters.c2),
            "shares": list(parameters.shares),
        }
    fixed = parameters.calibration == "paper"  # then there is nothing to choose
    return common | {
        "features": _features_document(parameters.features),
        "calibration": parameters.calibration,
        "variance": "estimated" if parameters.estimates_variance else "one",
        "split": parameters.split,
        "ridge": float(parameters.ridge),
        "d": float(parameters.d),
        "e": None if parameters.e is None else float(parameters.e),
        "shares": None if fixed else list(parameters.shares or vapvi.TIGHT_SHARES),
    }


def _reward_document(reward: rewards.Known | None) -> Document | None:
    if reward is None:
        return None
    return {"next_state" if reward.table.ndim == 1 else "table": reward.table.astype(np.float64).tolist()}


def _features_document(features: maps.FeatureMap) -> Document:
    if isinstance(features, maps.Table):
        return {"kind": "table", "values": features.values.tolist()}
    if isinstance(features, maps.Blocks):
        return {"kind": "blocks", "terms": list(features.terms)}
    return {"kind": "bins", "edges": {column: list(cuts) for column, cuts in features.edges}}
