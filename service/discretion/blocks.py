"""Stored blocks as the learners read them: rows of Parquet to arrays by step, and small enough to stay in memory.

A training asks a dataset several times. Blocks of discrete states stay in memory from one pass to the next, as many as
fit a fixed size, in as few bytes as hold them exactly.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from discretion.learning import walks
from discretion.learning.trajectories import Block, Discrete, FloatArray, IntArray, Schema, Stored
from discretion.shelves import Manifest, Place, Span

KEPT: Final = 5 * 2**28  # bytes of blocks that stay in memory between passes
_FEW: Final = 2**16  # different rewards in a block
_LOOKED_AT: Final = 2**14  # rewards at a time, of which the first show what is frequent
_SLOTS: Final = 20  # bits of their hash
_ODD: Final = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio, which spreads the bits

Columns = dict[str, NDArray[Any]]


class Kept:
    """Blocks that stay in memory from one pass to the next, as many as fit a fixed size."""

    def __init__(self, room: int) -> None:
        self._room, self._turn, self._blocks = room, threading.Lock(), dict[int, Block]()

    def get(self, index: int) -> Block | None:
        return self._blocks.get(index)

    @property
    def room(self) -> bool:
        return self._room > 0

    def keep(self, index: int, block: Block) -> None:
        """The first one for which there is no room is the last that is tried."""
        with self._turn:
            self._room = 0 if block.prices is None else max(0, self._room - _bytes(block))
            if self._room:
                self._blocks[index] = block


@dataclass(frozen=True)
class StoredBlocks:
    """Those of one dataset, or `only` some of them in ascending order."""

    place: Place
    schema: Schema
    manifest: Manifest
    only: Sequence[int] | None
    kept: Kept

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def _wanted(self) -> Sequence[int]:
        return range(len(self.manifest.spans)) if self.only is None else self.only

    def __iter__(self) -> Iterator[Block]:
        return (block.read(True) for block in self.stored())

    def stored(self) -> Iterator[Stored]:
        for index in self._wanted:
            span = self.manifest.spans[index]
            yield Stored(span, partial(self._read, index, span))

    def _read(self, index: int, span: Span, rewards: bool) -> Block:
        if (known := self.kept.get(index)) is not None:
            return known
        if not self.kept.room:
            return self._block(self._opened(index, rewards), span, None)
        columns, prices = self._opened(index, rewards=True), None
        if isinstance(self.schema.states, Discrete):
            columns, prices = _small(columns, self.schema)
        block = self._block(columns, span, prices)
        self.kept.keep(index, block)
        return block

    def _opened(self, index: int, rewards: bool) -> Columns:
        with pyarrow.parquet.ParquetFile(pa.BufferReader(self.manifest.read(self.place, index))) as file:
            wanted = [name for name in file.schema_arrow.names if rewards or name != "reward"]
            table = file.read(wanted, use_threads=False)  # several blocks are read at once instead
        return {name: table.column(name).to_numpy() for name in wanted}

    def _block(self, columns: Columns, span: Span, prices: FloatArray | None) -> Block:
        step, horizon = columns["step"], self.schema.horizon
        begins = step == 1
        last = np.append(begins[1:], True)
        size = int(np.count_nonzero(begins))
        place = None if len(step) == size * horizon else (step - 1, np.cumsum(begins) - 1)

        def padded(values: NDArray[Any]) -> NDArray[Any]:
            if place is None:  # all stays are as long as can be
                return np.ascontiguousarray(values.reshape(size, horizon, *values.shape[1:]).swapaxes(0, 1))
            array = np.zeros((horizon, size, *values.shape[1:]), values.dtype)
            array[place] = values
            return array

        states, final = self._states(columns, "state"), self._states(columns, "final", last)
        return Block(
            units=columns["unit"][begins],
            lengths=step[last],
            states=padded(states),
            actions=padded(columns["action"]),
            rewards=padded(columns["reward"]) if "reward" in columns else np.broadcast_to(0.0, (horizon, size)),
            endings=columns["ending"][last],
            final=final,
            span=span,
            prices=prices,
        )

    def _states(
        self, columns: Columns, name: str, which: NDArray[np.bool_] | slice = slice(None)
    ) -> NDArray[Any]:  # (R,) or (R, p)
        if isinstance(self.schema.states, Discrete):
            return columns[f"{name}0"][which]
        names = [f"{name}{index}" for index in range(len(self.schema.states.columns))]
        return np.stack([columns[each][which] for each in names], axis=1)


def _small(columns: Columns, schema: Schema) -> tuple[Columns, FloatArray | None]:
    """Columns of discrete states in as few bytes as the schema allows: rewards by number and what the numbers stand
    for, if few of them differ.

    How wide a number is must never follow from the numbers: one patient's largest state would change how everybody's
    are computed with.
    """
    numbers, prices = _numbered(columns["reward"])
    if len(prices) > _FEW:
        return columns, None
    most = {"step": schema.horizon, "state0": schema.count, "final0": schema.count, "action": schema.actions}
    small = {name: columns[name].astype(walks.kind(largest)) for name, largest in most.items()}
    return columns | small | {"reward": numbers.astype(np.uint16)}, prices


def _numbered(values: FloatArray) -> tuple[NDArray[np.int32], FloatArray]:
    """Each value's number, and the values by number. What occurs among the first is found by a hash of its bits, three
    times as fast as by Arrow's dictionary; what does not, or shares its place with another, is sorted."""
    prices = np.unique(values[:_LOOKED_AT])
    slots = np.zeros(1 << _SLOTS, np.int32)
    slots[_slot(prices)] = np.arange(len(prices))
    numbers, missed = np.empty(len(values), np.int32), np.empty(len(values), np.bool_)
    for start in range(0, len(values), _LOOKED_AT):
        which = slice(start, start + _LOOKED_AT)
        slots.take(_slot(values[which]), out=numbers[which], mode="clip")  # nothing is clipped: the fast way
        np.not_equal(prices.take(numbers[which]), values[which], out=missed[which])
    more, places = np.unique(values[missed], return_inverse=True)
    numbers[missed] = len(prices) + places
    return numbers, np.append(prices, more)


def _slot(values: FloatArray) -> IntArray:
    hashed = values.view(np.uint64) * np.uint64(_ODD)
    hashed >>= np.uint64(64 - _SLOTS)
    return hashed.view(np.int64)


def _bytes(block: Block) -> int:
    return sum(array.nbytes for array in vars(block).values() if isinstance(array, np.ndarray))
