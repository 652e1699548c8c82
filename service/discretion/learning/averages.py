"""What the steps of patients with vector states earn and how many are their last: averages before anything is learned.

For replacing one unit, X and Y being the two contributions, whatever the number of its trajectories and steps:

* rewards in [0, 1]: X and Y lie in [0, 1]³, so ‖X − Y‖₂² ≤ 3.
* gains z in [−1, 1], of which the means of z/2 and of z² are taken: they lie in the convex hull of the points
  (z/2, z²), and no two points of a hull are further apart than two of those that span it. With d = |z − z′| and
  |z + z′| ≤ 2 − d the squared distance of these is d²/4 + d²(z + z′)² ≤ d²(¼ + (2 − d)²) < 1.287. The share of ends
  adds at most 1: ‖X − Y‖₂² ≤ 23/10, which leaves more than the grid rounds away.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discretion.learning import pooled
from discretion.learning.pooled_records import Seen, seen_of
from discretion.learning.pooled_values import StateValue
from discretion.learning.schemas import IntArray, Schema
from discretion.learning.trajectories import Bounded
from discretion.privacy import events


def add_means(partial: IntArray, seen: Seen, columns: tuple[NDArray[np.generic], ...]) -> None:  # (R,) each
    """Each unit's mean over its records; a bound that is on the grid holds for it too."""
    count = np.maximum(np.bincount(seen.units, minlength=seen.count), 1)
    for index, numbers in enumerate(columns):
        whole = np.trunc(numbers.astype(np.float64) * pooled.UNIT)
        total = np.bincount(seen.units, weights=whole, minlength=seen.count).astype(np.int64)
        partial[index] += int((total // count).sum())


@dataclass(frozen=True, eq=False)
class RewardsAndEnds:
    """Each unit's mean scaled reward, its mean square, and the share of its records that are its end, all in [0, 1]."""

    schema: Schema

    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None
    resolution = Fraction(1, pooled.UNIT)
    shape = (3,)
    squared_sensitivity = Fraction(3)
    name = "mean reward, mean squared reward and share of last steps of a patient"

    def largest(self, units: int) -> int:
        return units * pooled.UNIT

    def partial(self) -> IntArray:
        return np.zeros(3, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen = seen_of(block, self.schema, 1)
        add_means(partial, seen, (seen.rewards, seen.rewards * seen.rewards, seen.ended))

    def finish(self, partial: IntArray) -> IntArray:
        return partial


@dataclass(frozen=True, eq=False)
class GainsAndEnds(pooled.Pooled):
    """Half of each unit's mean gain, in [−½, ½], its mean square, and the share of its records that are its end, both
    in [0, 1]; a gain is a reward over its width and what a potential rises by, cut to [−1, 1]."""

    potential: StateValue | None = None

    symmetric = False
    resolution = Fraction(1, pooled.UNIT)
    shape = (3,)
    squared_sensitivity = Fraction(23, 10)
    name = "mean gain towards the outcome, mean squared gain and share of last steps of a patient"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_potential(self.potential)

    def largest(self, units: int) -> int:
        return units * pooled.UNIT

    def partial(self) -> IntArray:
        return np.zeros(3, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for seen in self.pieces(block):
            gains = np.clip(np.nan_to_num(self.gains(seen, self.potential)), -1.0, 1.0)
            add_means(partial, seen, (gains / 2, gains * gains, seen.ended))
