"""The records of vector states as pooled statistics look at them: by patient and cell, each with what came next."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.learning import features as maps
from discretion.learning import walks
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded, Records


def apart(schema: Schema) -> bool:
    """Whether the horizon's records stand apart: what trajectories earn there, by their outcome, they earn at no other
    step, so pooled over steps it would be lost or be taken for what a state always pays (see `horizon_vector`)."""
    return schema.outcome and schema.horizon > 1


def group_of(schema: Schema, groups: int) -> IntArray:  # (H,)
    """The group of each step: as even as can be."""
    return np.arange(schema.horizon) * groups // schema.horizon


def _all_steps(steps: list[Records], name: str) -> NDArray[np.generic]:
    return np.concatenate([getattr(records, name) for records in steps])


def same_states(one: NDArray[np.generic], other: NDArray[np.generic]) -> BoolArray:  # (R, columns) each → (R,)
    """What is missing in both is no difference, though no NaN equals another."""
    return np.asarray(((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class Seen:
    """All records of some units, sorted by unit and then by cell (group of steps, action): with their states, or with
    the features of these."""

    units: IntArray  # (R,) 0 … U−1
    cells: IntArray  # (R,)
    here: NDArray[Any]  # (R, columns) states, or (R, p) features
    rewards: FloatArray  # (R,) of [0, 1]
    ended: BoolArray  # (R,)
    following: IntArray  # (R,) the group of the next step
    again: IntArray  # (R,) the record whose state the successor is, or −1
    beyond: NDArray[Any]  # (N, columns) or (N, p), the successors of records that have −1 there
    starts: IntArray  # (S,) where each run of one unit and cell begins
    owner: IntArray  # (S,) whose it is
    count: int  # U

    @cached_property
    def last(self) -> IntArray:  # (N,)
        """The records whose successor is no other record's state."""
        return np.flatnonzero(self.again < 0)

    def pieces(self, at_once: int) -> Iterator["Seen"]:
        """Whole units, not too many at a time."""
        for first in range(0, self.count, at_once):
            yield self._of(first, min(first + at_once, self.count))

    def _of(self, first: int, last: int) -> "Seen":
        low, high = np.searchsorted(self.units, (first, last))
        runs = slice(*np.searchsorted(self.owner, (first, last)))
        again = self.again[low:high]  # of the same unit
        beyond = slice(*np.searchsorted(self.last, (low, high)))
        return Seen(
            self.units[low:high] - first,
            self.cells[low:high],
            self.here[low:high],
            self.rewards[low:high],
            self.ended[low:high],
            self.following[low:high],
            np.where(again < 0, -1, again - low),
            self.beyond[beyond],
            self.starts[runs] - low,
            self.owner[runs] - first,
            last - first,
        )

    def mapped(self, features: maps.Blocks) -> "Seen":
        """With the features of the states."""
        psi, beyond = (np.ascontiguousarray(features.psi(states)) for states in (self.here, self.beyond))
        return replace(self, here=psi, beyond=beyond)


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """The same with features, in as few bytes as hold it exactly: how wide numbers are follows from public sizes."""

    here: tuple[NDArray[Any], ...]  # (R, p), in parts
    beyond: tuple[NDArray[Any], ...]  # (N, p), likewise
    rewards: FloatArray
    ended: BoolArray
    following: NDArray[Any]
    again: NDArray[Any]
    starts: NDArray[Any]
    owner: NDArray[Any]
    cells: NDArray[Any]  # (S,) of each run
    count: int

    @classmethod
    def of(cls, seen: Seen, features: maps.Blocks, cells: int, records: int) -> "Packed":
        """Of so many records at most."""
        cell, index = walks.kind(cells), walks.kind(records - 1)
        return cls(
            _parts(seen.here, features.largest),
            _parts(seen.beyond, features.largest),
            seen.rewards,
            seen.ended,
            seen.following.astype(cell),
            seen.again.astype(index),
            seen.starts.astype(index),
            seen.owner.astype(index),
            seen.cells[seen.starts].astype(cell),
            seen.count,
        )

    @staticmethod
    def size(seen: Seen, features: maps.Blocks, cells: int, records: int) -> int:
        """Bytes of records, as they are before they are mapped, when they are packed."""
        cell, index = (np.dtype(walks.kind(most)).itemsize for most in (cells, records - 1))
        states = (len(seen.here) + len(seen.beyond)) * features.width * _bytes(features.largest)
        return states + len(seen.units) * (9 + cell + index) + len(seen.starts) * (2 * index + cell)

    def opened(self) -> Seen:
        starts, owner = self.starts.astype(np.int64), self.owner.astype(np.int64)
        lengths = np.diff(np.append(starts, len(self.rewards)))
        return Seen(
            np.repeat(owner, lengths),
            np.repeat(self.cells.astype(np.int64), lengths),
            _whole(self.here),
            self.rewards,
            self.ended,
            self.following.astype(np.int64),
            self.again.astype(np.int64),
            _whole(self.beyond),
            starts,
            owner,
            self.count,
        )


def _bytes(largest: int) -> int:
    return 3 if 2**15 <= largest < 2**23 else np.dtype(walks.kind(largest)).itemsize


def _parts(numbers: FloatArray, largest: int) -> tuple[NDArray[Any], ...]:
    """Integers of at most that size. Where two bytes do not hold them and three do, the lower two and the upper one."""
    whole = numbers.astype(walks.kind(largest))
    return (whole,) if _bytes(largest) != 3 else ((whole & 0xFFFF).astype(np.uint16), (whole >> 16).astype(np.int8))


def _whole(parts: tuple[NDArray[Any], ...]) -> FloatArray:
    if len(parts) == 1:
        return parts[0].astype(np.float64)
    whole = parts[1].astype(np.float64)
    whole *= 2.0**16
    whole += parts[0]
    return whole


def seen_of(block: Bounded, schema: Schema, groups: int) -> Seen:
    """Records without a known successor are left out: pooled over steps, the horizon is not like everyone's end."""
    steps: list[Records] = []
    for step in range(schema.horizon - apart(schema)):
        records = block.records(step)
        steps.append(records.only(records.known))
    group, sizes = group_of(schema, groups), [len(records.rows) for records in steps]
    group, later = group[: len(steps)], np.append(group[1:], group[-1])[: len(steps)]
    rows = np.concatenate([records.rows for records in steps])
    units, count = _numbered(block.positions, rows)
    cells = np.repeat(group, sizes) * schema.actions + np.concatenate([records.actions for records in steps])
    order = np.argsort(units * (groups * schema.actions) + cells, kind="stable")
    units, cells = units[order], cells[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (units[1:] != units[:-1]) | (cells[1:] != cells[:-1])
    starts = np.flatnonzero(new)

    again, beyond = _again(steps, len(block.positions), order)
    return Seen(
        units,
        cells,
        _all_steps(steps, "states")[order],
        _all_steps(steps, "rewards")[order].astype(np.float64),
        _all_steps(steps, "ended")[order].astype(np.bool_),
        np.repeat(later, sizes)[order],
        again,
        beyond,
        starts,
        units[starts],
        count,
    )


def _numbered(positions: IntArray, rows: IntArray) -> tuple[IntArray, int]:  # (B,), (R,) → (R,)
    """The unit of each record, by position and without gaps, and how many there are."""
    owner = np.unique(positions, return_inverse=True)[1]
    present = np.zeros(len(positions), dtype=np.bool_)
    present[owner[rows]] = True
    return (np.cumsum(present) - 1)[owner[rows]], int(np.count_nonzero(present))


def _again(steps: list[Records], trajectories: int, order: IntArray) -> tuple[IntArray, NDArray[np.generic]]:
    """Most successors are the state of the trajectory's next record: their features need not be computed twice. Where
    a trajectory has a record at the next step, it was not cut before, and what followed is the state of that record,
    bit for bit (`Bounded.successor`). Then the successors of all others, in the same order."""
    place, found, before = np.full(trajectories, -1), [], len(order)
    for records in reversed(steps):
        before -= len(records.rows)
        found.append(place[records.rows])
        place = np.full(trajectories, -1)
        place[records.rows] = before + np.arange(len(records.rows))
    found.reverse()
    beyond = np.concatenate([records.successors[after < 0] for records, after in zip(steps, found, strict=True)])
    following, rank = np.concatenate(found), np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    again = np.append(rank, -1)[following[order]]  # the last entry is nobody's
    number = np.cumsum(following < 0) - 1
    return again, beyond[number[order[again < 0]]]
