"""What DP-PAE may be expected to learn, by public arithmetic, from visits that are supposed.

A state's decision is called learned if an action counts as supported there, and if the released sums speak against all
actions being alike. The second cannot be known beforehand, so it is supposed by how much actions differ.

| letter | here                                                                                  |
|--------|---------------------------------------------------------------------------------------|
| n      | `visits`, (S, A): how many patients go through each state and action                   |
| T      | `steps`: how many visits a stay has                                                    |
| τ      | `DIFFERENCE` of actions in a state, in deviations of one visit                         |
| v      | the variance with which an advantage is measured: (σ²T/0.6 + n)/n², σ² that of the noise |

A patient's surprises are about as long as what they are cut to, which is why the noise is worth σ²T/0.6 visits. With
x = τ²/v, twice the logarithm of the odds is x − log(1 + x) on average.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discretion.learning import pae, shrinkage
from discretion.learning.curator import Share, event_of
from discretion.learning.schemas import BoolArray, FloatArray, Schema

DIFFERENCE: Final = 0.25
_LIKELY: Final = 4  # times the evidence that is asked for: on average, so that chance rarely takes too much of it
_MOST: Final = 10**9  # units that are thought of
_LARGE: Final = 10**6  # cells above which the size that would do is not looked for


@dataclass(frozen=True, eq=False)
class Prospect:
    schema: Schema
    units: int
    privacy: Share
    parameters: pae.Parameters
    steps: float
    visits: FloatArray  # (S, A)

    @property
    def needed(self) -> float:
        return pae.visits_needed(self.schema, self.units, self.privacy, self.parameters, self.steps)

    def learned(self) -> BoolArray:  # (S,)
        """The states whose decision should be called learned."""
        least = pae.floor(self.schema, self.units, self.privacy, self.parameters)
        common = self.visits >= least * self.visits.sum(axis=1, keepdims=True)
        enough = ((self.visits >= self.needed) & common).any(axis=1)
        return np.asarray(enough & self.stands_out() & self.told_apart())

    def stands_out(self) -> bool:
        """Whether all counts together do."""
        noise = pae.deviation(self.schema, self.units, self.privacy, self.parameters) * np.sqrt(self.visits.size)
        return bool(self.units * np.sqrt(pae.different(self.schema, self.steps)) > pae.ANYTHING * noise)

    def told_apart(self) -> bool:
        asked = pae.queries(self.schema, self.units, self.privacy, self.parameters)
        if "surprises" not in asked:
            return False
        noise = float(event_of(asked["surprises"], self.units).scale) * self.steps / pae.PER_VISIT
        ratio = DIFFERENCE**2 * self.visits**2 / (noise + np.maximum(self.visits, 1e-9))
        free = 1 - 1 / self.schema.actions  # what all actions of a state have in common tells nothing
        return bool(free * (ratio - np.log1p(ratio)).sum() > _LIKELY * shrinkage.EVIDENCE)

    def paying(self, privacy: Share) -> "Prospect":
        return replace(self, privacy=privacy)

    def times(self, factor: int) -> "Prospect":
        visits = factor * self.visits
        return Prospect(self.schema, factor * self.units, self.privacy, self.parameters, self.steps, visits)

    def enough(self) -> int | None:
        """How many units would do, by doublings, for anything to be learned; None: no number of them."""
        if self.visits.size > _LARGE:
            return None
        larger = self.times(2)
        while larger.units <= _MOST:
            if larger.learned().any():
                return larger.units
            larger = larger.times(2)
        return None
