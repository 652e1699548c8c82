"""Where the trajectories of a block went, for discrete states: one number for each step and trajectory.

What the tables of counts and sums need of a record is its cell (state, action) and what came next, so these are laid
out by step and trajectory once a block, and a pass is a few operations over them. A record that does not count has the
cell `nowhere`, one more than there are. Everything is elementwise, or compares a trajectory with itself.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discretion.learning.schemas import BoolArray, FloatArray, Schema
from discretion.learning.trajectories import EVERY, Bounded

Cells = NDArray[np.signedinteger[Any]]
Steps = NDArray[np.unsignedinteger[Any]]

_COMPARED: Final = 256  # steps up to which comparing each with those before it is faster than sorting


@dataclass(frozen=True, eq=False, repr=False)
class Following:
    states: Cells  # (H, B) the next state; the number of states for the end, and where nobody recorded it
    known: BoolArray  # (H, B) the successor is a state or the end


def nowhere(schema: Schema) -> int:
    return schema.count * schema.actions


def cells(block: Bounded) -> Cells:  # (H, B)
    return block.once(("cells",), lambda: _cells(block))


def _cells(block: Bounded) -> Cells:
    schema, outside = block.schema, nowhere(block.schema)
    states, actions, counts = block.seen(EVERY)
    found = states.astype(kind(outside))
    found *= found.dtype.type(schema.actions)
    np.add(found, actions, out=found, casting="unsafe")
    np.copyto(found, outside, where=~counts)
    return found


def kind(largest: int) -> type[np.signedinteger[Any]]:
    """Of whole numbers up to that, which is public: small ones are compared faster. What lies outside the schema may
    overflow, and is nowhere."""
    return next(one for one in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(one).max)


def following(block: Bounded) -> Following:
    return block.once(("following",), lambda: _following(block))


def _following(block: Bounded) -> Following:
    successors, ended, known = block.successors()
    states = successors.astype(kind(block.schema.count))
    np.copyto(states, block.schema.count, where=ended | ~known)
    return Following(states, known)


def known(block: Bounded) -> Cells:  # (H, B)
    """The cells of records whose successor is known."""
    return block.once(("known",), lambda: _known(block))


def _known(block: Bounded) -> Cells:
    found = cells(block).copy()
    np.copyto(found, nowhere(block.schema), where=~following(block).known)
    return found


def back(numbers: Cells) -> Steps:  # (H, B) → (H, B)
    """How many steps before each one the trajectory first had the same number; 0 where it had it never before.

    Products and maxima of whole arrays are several times as fast as a choice by a mask; and few large steps leave the
    interpreter to other threads, which many small ones do not.
    """
    if len(numbers) > _COMPARED:
        return _back_by_sorting(numbers)
    found, away = np.zeros(numbers.shape, np.uint8), np.arange(len(numbers), 0, -1).astype(np.uint8)[:, None]
    for step in range(1, len(numbers)):
        same = (numbers[:step] == numbers[step]).view(np.uint8)
        same *= away[len(numbers) - step :]
        np.max(same, axis=0, out=found[step])
    return found


def _back_by_sorting(numbers: Cells) -> Steps:
    columns = np.ascontiguousarray(numbers.T)  # (B, H)
    order = np.argsort(columns, axis=1, kind="stable")
    ordered, begins = np.take_along_axis(columns, order, axis=1), np.zeros(columns.shape, np.int64)
    np.copyto(begins[:, 1:], np.arange(1, len(numbers)), where=ordered[:, 1:] != ordered[:, :-1])
    earliest = np.take_along_axis(order, np.maximum.accumulate(begins, axis=1), axis=1)
    found = np.empty(columns.shape, np.uint16)
    np.put_along_axis(found, order, (order - earliest).astype(np.uint16), axis=1)
    return np.ascontiguousarray(found.T)


def first_only(numbers: Cells, none: int) -> Cells:  # (H, B) → (H, B)
    """The same with `none` for whatever the trajectory had before."""
    found = numbers.copy()
    np.copyto(found, none, where=back(numbers) > 0)
    return found


def first_visits(block: Bounded) -> Cells:  # (H, B)
    """Each cell at most once a trajectory, with its one successor, which is known: pooled over steps, the horizon is
    not like everyone's end."""
    return block.once(("first visits",), lambda: first_only(known(block), nowhere(block.schema)))


def first_arrivals(block: Bounded) -> Cells:  # (H, B)
    """Of the first visits, those that first reached their successor; the others are nowhere."""
    return block.once(("first arrivals",), lambda: _first_arrivals(block))


def _first_arrivals(block: Bounded) -> Cells:
    visits, outside = first_visits(block), nowhere(block.schema)
    reached = following(block).states.copy()
    np.copyto(reached, -1, where=visits == outside)
    arrivals = visits.copy()
    np.copyto(arrivals, outside, where=back(reached) > 0)
    return arrivals


def merge(numbers: Cells, values: FloatArray) -> None:  # (H, B) each
    """What each trajectory has under one number added up where it first was, in place; of whole numbers, so in any
    order."""
    if not values.flags.c_contiguous:
        raise ValueError("What is merged in place must lie step by step.")
    steps = back(numbers).reshape(-1)
    again, flat = np.flatnonzero(steps != 0), values.reshape(-1)
    np.add.at(flat, again - steps[again].astype(np.int64) * numbers.shape[1], flat[again])
    flat[again] = 0.0
