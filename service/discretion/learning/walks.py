"""Where the trajectories of a block went, for discrete states: one number for each step and trajectory.

What the tables of counts and sums need of a record is its cell (state, action) and what came next, so these are laid
out by step and trajectory once a block, and a pass is a few operations over them. A record that does not count has the
cell `nowhere`, one more than there are. Everything is elementwise, or compares a trajectory with itself.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discretion.learning.trajectories import BoolArray, Bounded, FloatArray, Schema

Cells = NDArray[np.signedinteger[Any]]

_COMPARED: Final = 256  # steps up to which comparing each with those before it is faster than sorting


@dataclass(frozen=True, eq=False, repr=False)
class Walk:
    cells: Cells  # (H, B)
    successors: Cells  # (H, B) the next state; the number of states for the end, and where nobody recorded it
    known: BoolArray  # (H, B) the successor is a state or the end


def nowhere(schema: Schema) -> int:
    return schema.count * schema.actions


def walk(block: Bounded) -> Walk:
    return block.once(("walk",), lambda: _walk(block))


def _walk(block: Bounded) -> Walk:
    schema, shape = block.schema, (block.schema.horizon, len(block.positions))
    kind = np.int32 if nowhere(schema) < 2**31 - 1 else np.int64
    found = Walk(np.empty(shape, kind), np.empty(shape, kind), np.empty(shape, np.bool_))
    for step in range(schema.horizon):
        states, actions, counts = block.seen(step)
        following, ended, known = block.successor(step)
        cells = found.cells[step]
        np.copyto(cells, states, casting="unsafe")
        cells *= schema.actions
        np.add(cells, actions, out=cells, casting="unsafe")
        np.copyto(cells, nowhere(schema), where=~counts)
        found.successors[step] = following
        np.copyto(found.successors[step], schema.count, where=ended | ~known)
        found.known[step] = known
    return found


def known(block: Bounded) -> Cells:  # (H, B)
    """The cells of records whose successor is known."""
    found = walk(block)
    return block.once(("known",), lambda: np.where(found.known, found.cells, nowhere(block.schema)))


def first(cells: Cells) -> NDArray[np.int16]:  # (H, B) → (H, B)
    """The first step at which each trajectory had the same number."""
    if len(cells) > _COMPARED:
        return _first_by_sorting(cells)
    steps = np.empty(cells.shape, np.int16)
    for step, here in enumerate(cells):
        steps[step] = step
        for before in reversed(range(step)):
            np.copyto(steps[step], before, where=cells[before] == here)
    return steps


def _first_by_sorting(cells: Cells) -> NDArray[np.int16]:
    columns = np.ascontiguousarray(cells.T)  # (B, H)
    order = np.argsort(columns, axis=1, kind="stable")
    ordered, begins = np.take_along_axis(columns, order, axis=1), np.zeros(columns.shape, np.int64)
    np.copyto(begins[:, 1:], np.arange(1, len(cells)), where=ordered[:, 1:] != ordered[:, :-1])
    steps = np.empty(columns.shape, np.int16)
    earliest = np.take_along_axis(order, np.maximum.accumulate(begins, axis=1), axis=1)
    np.put_along_axis(steps, order, earliest.astype(np.int16), axis=1)
    return np.ascontiguousarray(steps.T)


def first_only(cells: Cells, none: int) -> Cells:  # (H, B) → (H, B)
    """The same with `none` for whatever the trajectory had before."""
    return np.where(first(cells) == np.arange(len(cells))[:, None], cells, none)


def first_visits(block: Bounded) -> Cells:  # (H, B)
    """Each cell at most once a trajectory, with its one successor, which is known: pooled over steps, the horizon is
    not like everyone's end."""
    return block.once(("first visits",), lambda: first_only(known(block), nowhere(block.schema)))


def first_arrivals(block: Bounded) -> Cells:  # (H, B)
    """Of the first visits, those that first reached their successor; the others are nowhere."""
    return block.once(("first arrivals",), lambda: _first_arrivals(block))


def _first_arrivals(block: Bounded) -> Cells:
    visits, outside = first_visits(block), nowhere(block.schema)
    reached = np.where(visits == outside, -1, walk(block).successors)
    return np.where(first_only(reached, -1) == -1, outside, visits)


def merged(steps: NDArray[np.int16], values: FloatArray) -> FloatArray:  # (H, B) each → (H, B)
    """What each trajectory has in one place added up where it first was; of whole numbers, so in any order."""
    size = values.shape[1]
    keys = steps.astype(np.int64) * size + np.arange(size)
    summed = np.bincount(keys.ravel(), weights=values.ravel(), minlength=values.size)
    return np.asarray(summed, dtype=np.float64).reshape(values.shape)
