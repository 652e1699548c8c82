"""What is asked of a training, and everything that follows from that before any patient is read.

Mechanisms, cost, the stages progress counts and the time at which a result appears are functions of the schema, the
number of units and the request: the same for every content of the dataset.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from discretion import catalogue, errors
from discretion.catalogue import Dataset
from discretion.learning import apvi, documents, features, learners, vapvi
from discretion.learning.curator import Share
from discretion.learning.learners import Parameters
from discretion.learning.trajectories import Schema
from discretion.privacy import events
from discretion.privacy.rho import Rho

MAX_NUMBERS: Final = 2_000_000  # in a policy: its document takes some 60 bytes for each


@dataclass(frozen=True)
class Asked:
    """A training as it was asked for: everything it will do, from public quantities alone."""

    schema: Schema
    labels: tuple[str, ...] | None
    units: int
    algorithm: str
    privacy: Share
    parameters: Parameters

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
        return {
            "algorithm": self.algorithm,
            "privacy": documents.privacy_document(self.privacy),
            "parameters": documents.parameters_document(self.parameters),
        }


def asked(dataset: Dataset, request: dict[str, Any], *, ready: bool = True) -> Asked:
    """Read a request against its dataset; whatever would not fit is refused here, before anything is charged."""
    if dataset.units is None or (ready and dataset.state != catalogue.READY):
        raise errors.DatasetNotReady
    schema, algorithm = dataset.schema, request["algorithm"]
    parameters = documents.parameters_of(algorithm, request["parameters"], schema)
    found = Asked(
        schema, dataset.labels, dataset.units, algorithm, documents.privacy_of(request["privacy"]), parameters
    )
    numbers = schema.horizon * _numbers(found)
    if numbers > MAX_NUMBERS:
        raise errors.ProblemTooLarge(f"The policy would hold {numbers} numbers; {MAX_NUMBERS} is the most.")
    if found.cost.nano == 0:
        raise errors.InvalidParameter("This training would read no patient at all; it needs no budget and is not run.")
    return found


def _numbers(found: Asked) -> int:
    """In a policy, at each step."""
    if isinstance(found.parameters, apvi.Parameters):
        return found.schema.count
    chosen = found.parameters.features
    return found.schema.actions * chosen.width**2 if isinstance(chosen, features.Blocks) else chosen.states


def usual_seconds(found: Asked) -> float:
    """How long after its start a result appears: a public function of the sizes, rounded up to a power of two.

    Rows pass through at some 10⁶ a second, once for counts and twice for each step of a regression; a count takes
    some 10⁻⁷ s and an entry of a Gram matrix 10⁻⁹ s a row. It is an estimate: what takes longer appears at the next
    doubling.
    """
    schema, parameters = found.schema, found.parameters
    rows = found.units * schema.per_unit * schema.horizon
    if isinstance(parameters, vapvi.Parameters):
        entries = getattr(parameters.features, "width", 1) ** 2
        work = rows * (2e-6 * schema.horizon / 4 + entries * 1e-9)
    else:
        work = rows * 1e-6 + schema.horizon * schema.count * schema.actions * 1e-7
    return float(2 ** max(1, math.ceil(math.log2(1 + work))))


def due(usual: float, elapsed: float) -> float:
    """When, in seconds after the start, something that is ready now may appear."""
    while usual < elapsed:
        usual *= 2
    return usual
