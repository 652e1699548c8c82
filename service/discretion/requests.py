"""What is asked of a training, and everything that follows from that before any patient is read.

Mechanisms, cost, the stages progress counts and the time at which a result appears are functions of the schema, the
number of units and the request: the same for every content of the dataset.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from discretion import catalogue, certificates, errors
from discretion.catalogue import Dataset
from discretion.learning import (
    apvi,
    apvi_stationary,
    auto,
    documents,
    evaluators,
    features,
    forms,
    learners,
    report,
    transits,
    vapvi,
    vapvi_stationary,
)
from discretion.learning.curator import Concentrated, Pure, Share
from discretion.learning.learners import Parameters
from discretion.learning.schemas import Schema
from discretion.learning.trajectories import Trajectories
from discretion.privacy import events
from discretion.privacy.rho import Rho

MAX_NUMBERS: Final = 2_000_000  # in a policy: its document takes 20 to 60 bytes for each
MOST_ROWS: Final = 4_000_000  # more than that is rehearsed with fewer units and as much more ρ
SUCCESSORS: Final = 5  # of a state and action in the clinic behind a twin, at most
LARGEST: Final = {Concentrated: Fraction(10**6), Pure: Fraction(1000)}  # budgets that a training may have
_DRAWN_FROM: Final = 50  # visits, about, below which no row of transitions is drawn
_OF_A_GROUP: Final = 2  # base and support, besides weights, shares and frequencies
_OF_A_STEP: Final = 4  # bonus, margin, ceiling and noise, besides weights and roots


@dataclass(frozen=True)
class Asked:
    """A training as it was asked for: everything it will do, from public quantities alone."""

    schema: Schema
    labels: tuple[str, ...] | None
    units: int
    algorithm: str
    privacy: Share
    parameters: Parameters
    chosen: auto.Choice | None = None  # by `auto`, and why
    half: str | None = None  # of the dataset's units; then `units` is how many that are
    judged: str | None = None  # the policy that an evaluation is about

    @cached_property
    def mechanisms(self) -> list[events.Event]:
        return learners.mechanisms(self.algorithm, self.schema, self.units, self.privacy, self.parameters)

    @property
    def cost(self) -> Rho:
        return Rho.ceiling(events.compose(self.mechanisms))

    @property
    def stages(self) -> int:
        """Every release, and the policy."""
        return len(self.mechanisms) + 1

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "algorithm": self.algorithm,
            "privacy": documents.privacy_document(self.privacy),
            "parameters": forms.write(self.parameters),
            "half": self.half,
        }
        if self.judged is not None:
            document["policy"] = self.judged
        return document if self.chosen is None else document | {"chosen": self.chosen.document()}

    def read(self, trajectories: Trajectories) -> Trajectories:
        """The units that are asked about: all, or a half of the stored positions, which are random."""
        if self.half is None:
            return trajectories
        before = trajectories.units // 2
        return trajectories.part(0, before) if self.half == "first" else trajectories.part(before, self.units)


def asked(dataset: Dataset, request: dict[str, Any], *, ready: bool = True) -> Asked:
    """Read a request against its dataset; whatever would not fit is refused here, before anything is charged."""
    if dataset.units is None or (ready and dataset.state != catalogue.READY):
        raise errors.DatasetNotReady
    return of(dataset.schema, dataset.labels, _units(dataset.units, request.get("half")), request)


def _units(units: int, half: object) -> int:
    if half is None:
        return units
    if half not in certificates.HALVES:
        raise errors.InvalidRequest('half must be "first" or "second", or left out to use everyone.')
    if units < 2:
        raise errors.InvalidRequest("One unit has no halves; leave half out.")
    return units // 2 if half == "first" else units - units // 2


def of(schema: Schema, labels: tuple[str, ...] | None, units: int, request: dict[str, Any]) -> Asked:
    """The same for what is public of a dataset. A request that was accepted before says itself what `auto` chose."""
    privacy = documents.privacy_of(_named(request, "privacy"))
    algorithm, parameters, chosen = _named(request, "algorithm"), _named(request, "parameters"), None
    if algorithm == auto.NAME:
        chosen = auto.choose(schema, units, privacy, parameters)
        algorithm, parameters = chosen.algorithm, chosen.parameters
        _check_chosen(chosen, schema)
    elif request.get("chosen") is not None:
        chosen = auto.choose(schema, units, privacy, _named(request["chosen"], "parameters"))
    read = learners.resolved(schema, units, privacy, forms.read(algorithm, parameters, schema))
    found = Asked(schema, labels, units, algorithm, privacy, read, chosen)
    found = replace(found, half=request.get("half"), judged=request.get("policy"))
    if (algorithm == report.NAME) != (found.judged is not None):
        raise errors.InvalidParameter(f"{report.NAME} judges a policy; ask for it with POST /v1/evaluations.")
    held = numbers(found)
    if held > MAX_NUMBERS:
        raise errors.ProblemTooLarge(
            f"The policy would hold {held} numbers; {MAX_NUMBERS} is the most. Use fewer steps, states, cells or terms."
        )
    if found.cost.nano == 0:
        raise errors.InvalidParameter("This training would read no patient at all; it needs no budget and is not run.")
    return found


def _named(document: object, key: str) -> Any:
    """One that another version stored may lack it, or be something else."""
    if not isinstance(document, dict) or key not in document:
        raise errors.InvalidRequest(f"This request has no {key}; another version of the service may have stored it.")
    return document[key]


def _check_chosen(chosen: auto.Choice, schema: Schema) -> None:
    """A parameter that the chosen learner does not have is refused with its name: `auto` has none of its own."""
    try:
        forms.read(chosen.algorithm, chosen.parameters, schema)
    except errors.Refusal as refusal:
        raise type(refusal)(f"auto chose {chosen.algorithm} here. {refusal}") from None


def rehearsed(found: Asked) -> Asked:
    """As many units as can be rehearsed, and as much more ρ as keeps the noise the same share of their sum.

    The learner and what a rule made of the true size stay as they are; so does D/K.
    """
    most = max(1, MOST_ROWS // found.schema.horizon)
    if found.units <= most:
        return found
    more, parameters = Fraction(found.units, most), found.parameters
    if isinstance(parameters, vapvi.Parameters):
        parameters = replace(parameters, d=parameters.d / float(more))
    budget = min(enough(found.privacy, more), LARGEST[type(found.privacy)])
    return replace(found, units=most, privacy=type(found.privacy)(Rho.floor(budget).exact), parameters=parameters)


def enough(privacy: Share, more: Fraction) -> Fraction:
    """So much budget that the noise stays the same share of a sum over so many times fewer units."""
    return privacy.epsilon * more if isinstance(privacy, Pure) else privacy.rho * more**2


def certified(found: Asked, origin: certificates.Origin | None = None) -> certificates.Request:
    """What a certificate says of it."""
    return certificates.Request(
        found.algorithm,
        found.schema,
        found.labels,
        found.units,
        found.privacy,
        found.parameters,
        origin,
        found.chosen,
        found.half,
    )


def numbers(found: Asked) -> int:
    """In a policy's document; a table's decision counts with its label and score as one."""
    if found.algorithm == report.NAME:  # which is short, whatever it is computed with
        return 0
    schema, chosen = found.schema, getattr(found.parameters, "features", None)
    if isinstance(found.parameters, vapvi_stationary.Parameters):
        weights = schema.actions * found.parameters.features.width
        return found.parameters.time_groups * (2 * weights + schema.actions + _OF_A_GROUP)
    if isinstance(chosen, features.Blocks):
        roots, weights = schema.actions * chosen.width**2, schema.actions * chosen.width
        return schema.horizon * (roots + weights + _OF_A_STEP)
    return schema.horizon * int(schema.count if chosen is None else chosen.states)


def usual_seconds(found: Asked) -> float:
    """How long after its start a result appears: a public function of the sizes, rounded up to a power of two.

    It is an estimate: what takes longer appears at the next doubling.
    """
    return float(2 ** max(1, math.ceil(math.log2(1 + _work(found)))))


def _work(found: Asked) -> float:
    """About how many seconds the passes over the rows take, and what is made of a cell or of an entry of a matrix."""
    schema, parameters = found.schema, found.parameters
    rows = found.units * schema.per_unit * schema.horizon
    if isinstance(parameters, vapvi.Parameters):
        entries = getattr(parameters.features, "width", 1) ** 2
        return rows * (1e-6 + schema.horizon * 1.5e-7 + entries * 3e-9)
    if isinstance(parameters, vapvi_stationary.Parameters):
        width = parameters.features.width
        return rows * (4e-7 + width * 3e-9 * schema.actions) * parameters.rounds + rows * width**2 * 1e-9
    if isinstance(parameters, evaluators.Parameters) and parameters.features is not None:
        return _regressed(schema, found.units, parameters, parameters.features.width)
    cells = schema.count * schema.actions
    visited = rows / _DRAWN_FROM
    if isinstance(parameters, apvi.Parameters):
        drawn = min(schema.horizon * cells, visited, apvi.most_rows(schema)) * schema.count
        return rows * 2e-7 + schema.horizon * cells * 1e-7 + drawn * 6e-8
    if isinstance(parameters, apvi_stationary.Parameters):
        drawn = min(cells, visited, apvi_stationary.most_rows(schema)) * schema.count
        return rows * 2e-7 + cells * 1e-5 + drawn * 4e-7
    if isinstance(parameters, evaluators.Parameters):
        return rows * (min(parameters.value_rounds, schema.horizon) + 10) * 7e-7 + cells * 1e-4
    return rows * 3e-7 + cells * 1e-5


def _regressed(schema: Schema, units: int, parameters: evaluators.Parameters, width: int) -> float:
    """Of an evaluation with vector states. Every pass goes over the steps of all stored blocks, then over pieces of
    units; the two passes for scores look at each visit once for every step of its group; matrices are made once."""
    rows, groups = units * schema.per_unit * schema.horizon, parameters.time_groups
    passes = min(parameters.value_rounds, schema.horizon) + 10
    blocks = 1 + rows * (width + 3) * 8 / 2**25
    pieces = 1 + units / transits.together(schema, width)
    walking = passes * (rows * (6e-7 + width * 3e-8) + schema.horizon * blocks * 1.2e-4 + pieces * (1 + groups) * 1e-3)
    scoring = 2 * rows * schema.horizon / groups * (4e-8 + width * 6e-9) + 2 * schema.horizon * pieces * 5e-5
    return walking + scoring + (rows + units * groups) * width**2 * 3e-8 + groups * width**3 * 1e-7


def due(usual: float, elapsed: float) -> float:
    """When, in seconds after the start, something that is ready now may appear."""
    while usual < elapsed:
        usual *= 2
    return usual
