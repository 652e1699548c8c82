"""How much a record counts in a patient's score, from what was released about a judged policy.

A visit counts d·n/n(cell): how often the policy comes there (d), over the recorded visits that stand for it.
"""

import math
from dataclasses import dataclass

import numpy as np

from discretion.learning import occupancy
from discretion.learning.asking import Asker
from discretion.learning.occupancy import Counts, Estimate
from discretion.learning.potential import Potential
from discretion.learning.schemas import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Weights:
    """Of visits."""

    each: FloatArray  # (H, S + 1) or (S + 1,)
    total: FloatArray  # (S + 1,) by place
    occupancy: FloatArray  # (S + 1,)
    cells: IntArray | None
    alike: FloatArray  # (2, S + 1) times so much where everyone stands in: who did otherwise, who did alike
    together: float  # of the decisions that were not judged by themselves, those that were judged together


def _stand_in(counts: Counts, often: FloatArray) -> tuple[FloatArray, float]:
    """Where everyone stands in, a visit that followed the policy stands for as many as did otherwise; the less so, the
    less is known about how many followed."""
    each = np.where(counts.followers > 0, max(1 - 4 * counts.unsure**2, 0.0), 0.0)
    unjudged = np.where(counts.supported, 0.0, often)
    together = float((unjudged * each).sum()) / max(float(unjudged.sum()), 1e-9)
    alike = 1 - each + each * np.maximum(counts.places / np.maximum(counts.followers, 1e-9), 1.0)
    return np.array([1 - each, alike]), together


def of(units: int, counts: Counts, found: Estimate) -> Weights:
    total = found.occupancy if found.occupancy.ndim == 1 else found.occupancy.sum(axis=0)
    by_place = np.where(counts.places > 0, total * units / np.maximum(counts.places, 1.0), 0.0)
    stand_in = _stand_in(counts, total)
    if found.occupancy.ndim == 1:
        return Weights(by_place, by_place, total, None, *stand_in)
    stands = counts.stands[: len(found.occupancy)]
    visits = counts.cells[stands]
    each = np.where(visits > 0, found.occupancy * units / np.maximum(visits, 1.0), 0.0)
    return Weights(each, by_place, total, stands[:, :-1], *stand_in)


@dataclass(frozen=True, eq=False)
class Last:
    """The last step, where it is kept apart, by place."""

    occupancy: FloatArray  # (S + 1,)
    weights: FloatArray  # (S + 1,) how much a record there counts that stands for the policy's decision
    visits: FloatArray  # (S + 1,) how many such there are
    potential: FloatArray  # (S + 1,) by state, Φ
    unsure: float  # the deviation of what Φ earns the policy


def last(asker: Asker, counts: Counts, weights: Weights, found: Estimate, settled: Potential) -> Last:
    """As everywhere, how often the policy comes there, over the records that stand for it. Without an occupancy of that
    step, a record counts as the place's visits do."""
    assert counts.judged.place is not None
    visits, place = np.maximum(occupancy.settled(counts, settled) * counts.acted, 1.0), counts.judged.place
    if found.last is None:
        here = weights.each * visits / asker.units
        here = here / max(float(here.sum()), 1.0)  # no stay comes there twice
    else:
        here = found.last
    by_state = here[place] / np.bincount(place)[place]
    unsure = math.sqrt(float((by_state**2 * settled.variance[:-1]).sum()))
    return Last(here, here * asker.units / visits, visits, settled.values, unsure)
