"""Rewards that are known beforehand, as a public table.

A reward on arrival needs the next state, also of the last step: where that was not recorded, the step counts as one
that reached the end.
"""

from dataclasses import dataclass

import numpy as np

from discretion import errors
from discretion.learning.schemas import Discrete, FloatArray, Schema


@dataclass(frozen=True, eq=False)
class Known:
    """r(s, a) as (S, A), r_h(s, a) as (H, S, A), or r(s′) as (S,) or (S + 1,), the last entry being the end's."""

    table: FloatArray

    def __post_init__(self) -> None:
        if not isinstance(self.table, np.ndarray) or self.table.dtype.kind not in "fiu":
            raise errors.InvalidParameter("A reward table must be an array of numbers.")

    def check(self, schema: Schema) -> None:
        if not isinstance(schema.states, Discrete):
            raise errors.InvalidParameter("A reward table needs discrete states; leave it out for vector states.")
        states, actions = schema.states.count, schema.actions
        shapes = [(states, actions), (schema.horizon, states, actions), (states,), (states + 1,)]
        if self.table.shape not in shapes:
            raise errors.InvalidParameter(
                f"The reward table has shape {self.table.shape}; use {shapes[0]} for (state, action), {shapes[1]} "
                f"for (step, state, action), or {shapes[2]} for the next state."
            )
        low, high = schema.low, schema.low + schema.width
        outside = ~((self.table >= low) & (self.table <= high))  # NaN is outside too
        if outside.any():
            where = ", ".join(str(int(index)) for index in np.argwhere(outside)[0])
            raise errors.InvalidParameter(
                f"The reward table must stay within the declared range {low:g} to {high:g}; entry [{where}] does not."
            )

    def at(self, schema: Schema, step: int) -> FloatArray | float:
        """The scaled reward of (s, a) at a step, (S, A); nothing if it is paid on arrival."""
        if self.table.ndim == 1:
            return 0.0
        return schema.scaled(self.table if self.table.ndim == 2 else self.table[step])

    def on_arrival(self, schema: Schema) -> FloatArray | float:
        """The scaled reward of reaching s′, (S + 1,); nothing if it is paid for (s, a)."""
        if self.table.ndim != 1:
            return 0.0
        ends = np.append(self.table, 0.0)[: schema.states.count + 1]  # type: ignore[union-attr]
        return schema.scaled(ends)


def check_kind(reward: object) -> None:
    if reward is not None and not isinstance(reward, Known):
        raise errors.InvalidParameter("reward must be a table of known rewards, or left out to estimate them.")
