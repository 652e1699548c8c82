"""What is public about a training as plain JSON documents, both ways: its schema and its privacy.

What a request, a plan and a certificate write is read by the same functions (those of its parameters are in
`forms`), so a certificate's own words are enough to rebuild its training.
"""

from fractions import Fraction

from discretion import errors
from discretion.learning.curator import Concentrated, Pure, Share, check_budget
from discretion.learning.reader import Document, Object, open_object
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.privacy import rho

Labels = tuple[str, ...] | None


def schema_of(document: object) -> tuple[Schema, Labels]:
    """The schema, and what its actions are called, if that is said."""
    top = open_object(
        document,
        errors.InvalidSchema,
        ("horizon", "states", "actions", "reward"),
        ("return", "max_trajectories_per_unit"),
    )
    actions = top.inner("actions", ("count",), ("labels",))
    labels = actions.texts("labels") if actions.has("labels") else None
    reward = top.inner("reward", ("low", "high"), ("outcome",))
    schema = Schema(
        top.whole("horizon"),
        _states(top),
        actions.whole("count"),
        (reward.number("low"), reward.number("high")),
        top.interval("return") if top.has("return") else None,
        top.whole("max_trajectories_per_unit", 1),
        reward.has("outcome") and reward.flag("outcome"),
    )
    if labels is not None and len(labels) != schema.actions:
        raise actions.refuse("labels", f"one text for each of the {schema.actions} actions")
    return schema, labels


def _states(top: Object) -> Discrete | Vector:
    states = top.inner("states", ("kind",), ("count", "columns", "bounds", "missing"))
    if states.choice("kind", None, "discrete", "vector") == "discrete":
        return Discrete(top.inner("states", ("kind", "count")).whole("count"))
    states = top.inner("states", ("kind", "columns", "bounds"), ("missing",))
    columns, bounds = states.texts("columns"), states.array("bounds", 2)
    if bounds.shape[1] != 2:
        raise states.refuse("bounds", "a pair of numbers for each column, the lower first")
    missing = states.texts("missing") if states.has("missing") else ()
    return Vector(columns, tuple((low, high) for low, high in bounds.tolist()), missing)


def schema_document(schema: Schema, labels: Labels = None) -> Document:
    actions: Document = {"count": schema.actions}
    if labels is not None:
        actions["labels"] = list(labels)
    document = {
        "horizon": schema.horizon,
        "states": _states_document(schema.states),
        "actions": actions,
        "reward": _interval_document(schema.reward) | ({"outcome": True} if schema.outcome else {}),
        "max_trajectories_per_unit": schema.per_unit,
    }
    if schema.total is not None:
        document["return"] = _interval_document(schema.total)
    return document


def _states_document(states: Discrete | Vector) -> Document:
    if isinstance(states, Discrete):
        return {"kind": "discrete", "count": states.count}
    document: Document = {"kind": "vector", "columns": list(states.columns)}
    document["bounds"] = [list(pair) for pair in states.bounds]
    return document | ({"missing": list(states.missing)} if states.missing else {})


def _interval_document(bounds: tuple[float, float]) -> Document:
    return {"low": float(bounds[0]), "high": float(bounds[1])}


def privacy_of(document: object) -> Share:
    """The budget a request names in one of three ways; (ε, δ) becomes the largest ρ that implies it."""
    top = open_object(document, errors.InvalidPrivacy, (), ("rho", "epsilon", "delta", "pure_epsilon"))
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
