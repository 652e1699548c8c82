"""`algorithm: "auto"`: which learner, by a rule in public quantities only.

The rule looks at the kind of state, at what the request says itself (features, dynamics, pure ε), at the number of
units n and at ρ. It never looks at a record, so choosing costs nothing and tells nothing; anybody can choose again and
compare, and a certificate's reader does.

The switch between the two learners of discrete states was measured on public problems (docs/utility.md): counting
transitions needs a number for each (s, a, s′) and wins where states are few for the data: n√ρ ≥ ½·S^1.5·A, so that they
stand out of the noise, and n ≥ S²·A/60, so that chance leaves enough of each however little noise there is. Else
advantages, one number for each (s, a), tell more. They also do where a stay earns once, by its outcome: a table of
transitions would have to know at which step the outcome is settled, and on clinics of 16 and 48 states it fell behind
up to n√ρ = 12·S^1.5·A (docs/decisions/0014).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Final

from discretion import errors
from discretion.learning import apvi, features, learners, pae, terms, vapvi, whereabouts
from discretion.learning.curator import Pure, Share
from discretion.learning.reader import Document
from discretion.learning.schemas import Schema, Vector
from discretion.privacy import rho as amounts

NAME: Final = "auto"
RULE: Final = 1  # a later rule gets another number, so that this one can be checked for ever
_ENOUGH: Final = Fraction(1, 2)  # n√ρ/(S^1.5·A) from which transitions are counted,
_SPARSE: Final = 60  # if there are no more than so many of them, S²·A in all, for each unit

_TAKEN: Final = "dp-pae is taken, which asks for one number for each state and action."


@dataclass(frozen=True)
class Choice:
    """A learner, the request in its own words, why, and what was given."""

    algorithm: str
    parameters: Document
    reason: str
    given: Document

    def document(self) -> Document:
        return {"by": NAME, "rule": RULE, "parameters": self.given, "reason": self.reason}


def choose(schema: Schema, units: int, privacy: Share, given: object) -> Choice:
    if not isinstance(given, dict):
        raise errors.InvalidParameter("The request must be a JSON object.")
    given = {key: value for key, value in given.items() if value is not None}  # null stands for the default
    if given.get("dynamics", learners.STATIONARY) not in (learners.STATIONARY, learners.PER_STEP):
        raise errors.InvalidParameter('dynamics must be "per_step" or "stationary".')
    return Choice(*_chosen(schema, units, privacy, given), given)


_Found = tuple[str, Document, str]


def _chosen(schema: Schema, units: int, privacy: Share, given: Document) -> _Found:
    if isinstance(schema.states, Vector):
        return _of_vectors(schema.states, schema.actions, units, privacy, given)
    if "features" in given:
        return vapvi.NAME, given, "Features were given for discrete states, so a linear model is learned."
    if given.get("dynamics") == learners.PER_STEP:
        return apvi.NAME, given, "The dynamics of each step were asked for, so each step is counted by itself."
    stationary = given | {"dynamics": learners.STATIONARY}
    if isinstance(privacy, Pure):
        return apvi.NAME, stationary, "Pure ε was asked for, which only counts offer."
    return _of_states(schema, units, privacy.rho, stationary)


def _of_states(schema: Schema, units: int, rho: Fraction, given: Document) -> _Found:
    """Compared exactly; the figure is for the reader."""
    if schema.outcome:
        return pae.NAME, given, f"A stay earns once, by its outcome, so {_TAKEN}"
    states, actions = schema.count, schema.actions
    figure = units * sqrt(rho) / (states * sqrt(states) * actions)
    told = f"n√ρ/(S^1.5·A) = {figure:.3g}, with n = {units}, S = {states}, A = {actions}"
    if units**2 * rho < _ENOUGH**2 * states**3 * actions**2:
        return pae.NAME, given, f"{told}, is below 1/2: too little for every transition, so {_TAKEN}"
    if _SPARSE * units < states**2 * actions:
        sparse = f"S²·A/n is above {_SPARSE}: by chance most transitions are rare, so {_TAKEN}"
        return pae.NAME, given, f"{told}, is at least 1/2, but {sparse}"
    return apvi.NAME, given, f"{told}, is at least 1/2: enough to count transitions."


def _of_vectors(vector: Vector, actions: int, units: int, privacy: Share, given: Document) -> _Found:
    if isinstance(privacy, Pure):
        raise errors.InvalidPrivacy("Vector states need Gaussian noise: give rho, or epsilon with delta.")
    named = given.get("features")
    if isinstance(named, dict) and named.get("kind") == "bins":
        return vapvi.NAME, given, "Bins were given, so the value of each cell is learned at each step."
    stationary = {"dynamics": learners.STATIONARY} | given
    pooled = stationary["dynamics"] == learners.STATIONARY
    told = "all steps are pooled" if pooled else "each step is learned by itself, as asked"
    if named is not None:
        return vapvi.NAME, stationary, f"Vector states with given features: {told}."
    rho = amounts.Rho.floor(privacy.rho)
    usual = features.usual(vector, actions, units, privacy.rho)
    reason = (
        f"Vector states without given features: {told}, and n = {units} at ρ = {rho} carries "
        f"{usual.width} features of the declared columns."
    )
    looked = {"parts": whereabouts.parts(vector, units, privacy.rho)} if pooled and "parts" not in given else {}
    blocks = {"kind": "blocks", "terms": list(map(terms.document, usual.terms))}
    return vapvi.NAME, stationary | {"features": blocks} | looked, reason
