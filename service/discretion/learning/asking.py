"""How an evaluator asks: each statistic at the price that its plan gave it by name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from discretion.learning.curator import Answer, Curator, Query, Share
from discretion.learning.schemas import Schema
from discretion.learning.sums import Statistic


@dataclass(frozen=True, eq=False)
class Asker:
    """The curator, and what each statistic may cost."""

    curator: Curator
    shares: Mapping[str, Share]
    reach: float = 1.0  # of radii: with more patients and budget less is cut

    @property
    def schema(self) -> Schema:
        return self.curator.schema

    @property
    def units(self) -> int:
        return self.curator.units

    def ask(self, statistic: Statistic) -> Answer:
        return self.curator.ask(Query(statistic, self.shares[statistic.name]))[0]


def deviation(answer: Answer) -> float:
    """Of the noise, in radii."""
    return math.sqrt(float(answer.event.scale))


def total_range(schema: Schema) -> tuple[float, float]:
    """What a trajectory's total can be, in rewards' widths."""
    if schema.total is not None:
        return schema.total[0] / schema.width, schema.total[1] / schema.width
    if schema.outcome:  # one reward
        return schema.low / schema.width, (schema.low + schema.width) / schema.width
    return schema.low * schema.horizon / schema.width, (schema.low + schema.width) * schema.horizon / schema.width
