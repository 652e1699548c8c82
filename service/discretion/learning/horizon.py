"""What trajectories earn at the horizon, where data earn once, by an outcome: a sum by state.

Such data are often windows: every stay is watched for H steps, and its last record has the outcome. Whatever that
record says about an end, it was the calendar that ended the stay; pooled with the other steps it would teach that
patients end after one visit in H. So the records of step H are kept apart (`followed.pooled_steps`), and what they earn
is summed here, by state.

For replacing one unit: a record of step H is the point p(s, c) = (e_s, c·e_s), c = 2x − 1 being its scaled reward,
centred, in [−1, 1]. A unit adds the mean of m such points, those it lacks being 0: a point of their convex hull. Over a
convex hull a distance is largest between corners, which are 0 and the p(s, ±1). ‖p‖² = 2. In one state the counts
cancel: ‖p − p′‖² = (c − c′)² ≤ 4; in two states nothing does: 2 + c² + c′² ≤ 4. So 4, however many trajectories. On the
grid a point is ⌊ONE/m⌋ times that, c being truncated toward zero, which leaves it in [−1, 1].
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discretion.learning import followed
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded


@dataclass(frozen=True, eq=False)
class Settled(followed.OnGrid):
    """How many trajectories were in each state at the last step, and Σ of 2x − 1 over them, each over m."""

    schema: Schema

    squared_sensitivity = Fraction(4)
    name = "numbers of stays that reach the last step, and what they earn there, by state"

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, self.schema.count)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        records, states = block.records(self.schema.horizon - 1), self.schema.count
        share = followed.ONE // self.schema.per_unit
        found = np.asarray(records.states, dtype=np.int64)
        earned = np.trunc((2 * records.rewards - 1) * share)
        partial[:states] += np.bincount(found, minlength=states) * share
        partial[states:] += np.bincount(found, weights=earned, minlength=states).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Last:
    """The records of step H of units that have visits before it, one for each trajectory."""

    units: IntArray  # (R,) as for `followed.Visits`
    states: IntArray  # (R,)
    actions: IntArray  # (R,)
    rewards: FloatArray  # (R,) over their width


def last(block: Bounded) -> Last:
    return block.once(("records of the last step",), lambda: _last(block))


def _last(block: Bounded) -> Last:
    records, present = block.records(block.schema.horizon - 1), followed.visits(block).positions
    positions = block.positions[records.rows]
    index = np.searchsorted(present, positions)
    known = np.append(present, -1)[index] == positions
    earned = records.rewards - block.schema.idle
    columns = (index, np.asarray(records.states, dtype=np.int64), records.actions, earned)
    return Last(*(column[known] for column in columns))
