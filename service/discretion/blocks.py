"""Stored blocks as the learners read them: rows of Parquet to arrays by step, and small enough to stay in memory.

A training asks a dataset several times. Blocks stay in memory from one pass to the next, as many as fit a fixed size,
in as few bytes as the schema allows; of vector states that are pooled over steps, what statistics compute of them.
"""

import mmap
import pickle
import threading
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from discretion.learning import walks
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Block, Stored
from discretion.shelves import Manifest, Place, Span

KEPT: Final = 23 * 2**26  # bytes of blocks that stay in memory between passes
_FEW: Final = 2**16  # different rewards in a block
_LOOKED_AT: Final = 2**14  # rewards at a time, of which the first show what is frequent
_SLOTS: Final = 20  # bits of their hash
_ALIGNED: Final = 64  # bytes, as numpy has it
_ODD: Final = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio, which spreads the bits

_T = TypeVar("_T")
Columns = dict[str, NDArray[Any]]
_Which = NDArray[np.bool_] | slice


class Kept:
    """Blocks that stay in memory from one pass to the next, or what was computed of them, as far as it fits a fixed
    size; not `whole`: only what was computed, for which blocks would leave no room. `apart`: where nothing else lies,
    in a process that goes on when they are gone."""

    def __init__(self, room: int, *, whole: bool = True, apart: bool = False) -> None:
        self._whole = self._room = room
        self._takes_blocks, self._apart = whole, apart
        self._turn, self._blocks = threading.Lock(), dict[int, Block]()
        self._computed = dict[tuple[int, Hashable], object]()

    def get(self, index: int) -> Block | None:
        return self._blocks.get(index)

    @property
    def is_empty(self) -> bool:
        return not self._blocks and not self._computed

    def remember(self, key: tuple[int, Hashable], value: object) -> None:
        self._computed[key] = _apart(value) if self._apart else value

    def recall(self, key: tuple[int, Hashable]) -> object | None:
        return self._computed.get(key)

    @property
    def room(self) -> bool:
        """For blocks."""
        return self._takes_blocks and self._room > 0

    def keep(self, index: int, block: Block) -> None:
        """The first one for which there is no room is the last that is tried."""
        with self._turn:
            self._room = max(0, self._room - _bytes(block))
            if self._room:
                self._blocks[index] = _apart(block) if self._apart else block

    def give_way(self, size: int | None) -> None:
        """Forget blocks, the last ones first, until the rest leaves so much of the room; None: all of it."""
        with self._turn:
            held = sum(map(_bytes, self._blocks.values()))
            while self._blocks and (size is None or held + size > self._whole):
                held -= _bytes(self._blocks.popitem()[1])
            if size:
                self._room = max(0, min(self._room, self._whole - held - size))

    def reserve(self, size: int) -> bool:
        with self._turn:
            fits = size <= self._room
            self._room -= size if fits else 0
        return fits


@dataclass(frozen=True)
class OfBlock:
    """What is kept of one block."""

    kept: Kept
    index: int

    def reserve(self, size: int) -> bool:
        return self.kept.reserve(size)

    def remember(self, key: Hashable, value: object) -> None:
        self.kept.remember((self.index, key), value)

    def recall(self, key: Hashable) -> object | None:
        return self.kept.recall((self.index, key))


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
            yield Stored(span, partial(self._read, index, span), OfBlock(self.kept, index))

    def give_way(self, size: int | None) -> None:
        self.kept.give_way(size)

    def _read(self, index: int, span: Span, rewards: bool) -> Block:
        if (known := self.kept.get(index)) is not None:
            return known
        keep, discrete = self.kept.room, isinstance(self.schema.states, Discrete)
        columns = _small(self._opened(index, rewards or keep), self.schema)
        if not keep:
            return self._block(columns, None, span)
        # Beside the numbers of vectors those of rewards are few.
        columns, prices = _priced(columns) if discrete else (columns, None)
        if prices is None:
            columns = columns | {"reward": self.schema.rounded(columns["reward"])}
        block = self._block(columns, prices, span)
        self.kept.keep(index, block)
        return block

    def _opened(self, index: int, rewards: bool) -> Columns:
        with pyarrow.parquet.ParquetFile(pa.BufferReader(self.manifest.read(self.place, index))) as file:
            wanted = [name for name in file.schema_arrow.names if rewards or name != "reward"]
            table = file.read(wanted, use_threads=False)  # several blocks are read at once instead
        columns = {name: table.column(name).to_numpy() for name in wanted}
        step = columns["step"]  # of an upload all are within, and follow each other from 1 on
        if len(step) and step[0] == 1 and step.min() >= 1 and step.max() <= self.schema.horizon:
            return columns
        inside = (step >= 1) & (step <= self.schema.horizon) & (np.cumsum(step == 1) > 0)
        return {name: values[inside] for name, values in columns.items()}

    def _block(self, columns: Columns, prices: FloatArray | None, span: Span) -> Block:
        step, horizon = columns["step"], self.schema.horizon
        starts = step == 1
        size, place = int(np.count_nonzero(starts)), None
        begins: _Which = slice(None, None, horizon)
        last: _Which = slice(horizon - 1, None, horizon)
        if len(step) != size * horizon or not starts[::horizon].all():  # else all stays are as long as can be
            begins, last, place = starts, np.append(starts[1:], True), (step - 1, np.cumsum(starts) - 1)

        def padded(values: NDArray[Any]) -> NDArray[Any]:
            if place is None:
                return np.ascontiguousarray(values.reshape(size, horizon, *values.shape[1:]).swapaxes(0, 1))
            array = np.zeros((horizon, size, *values.shape[1:]), values.dtype)
            array[place] = values
            return array

        states, final = self._states(columns, "state"), self._states(columns, "final", last)
        return Block(
            units=_within(columns["unit"][begins], self.manifest.units),
            lengths=_chosen(step, last),
            states=padded(states),
            actions=padded(columns["action"]),
            rewards=padded(columns["reward"]) if "reward" in columns else np.broadcast_to(0.0, (horizon, size)),
            endings=_chosen(columns["ending"], last),
            final=final,
            span=span,
            prices=prices,
        )

    def _states(self, columns: Columns, name: str, which: _Which = slice(None)) -> NDArray[Any]:  # (R,) or (R, p)
        if isinstance(self.schema.states, Discrete):
            return _chosen(columns[f"{name}0"], which)
        names = [f"{name}{index}" for index in range(len(self.schema.states.columns))]
        return np.stack([columns[each][which] for each in names], axis=1)


def _chosen(values: NDArray[Any], which: _Which) -> NDArray[Any]:
    """Without the rest, which a view would hold on to."""
    return np.ascontiguousarray(values[which])


def _small(columns: Columns, schema: Schema) -> Columns:
    """Columns of whole numbers in as few bytes as the schema allows.

    How wide a number is must never follow from the numbers: one patient's largest state would change how everybody's
    are computed with. A state or action outside the schema is brought to its edge first, where it still counts nowhere:
    as it is, it would wrap around into the schema. Steps are inside.
    """
    most = {"step": schema.horizon, "action": schema.actions}
    if isinstance(schema.states, Discrete):
        most |= {"state0": schema.count, "final0": schema.count}
    return columns | {name: _within(columns[name], largest) for name, largest in most.items()}


def _within(values: IntArray, most: int) -> NDArray[np.signedinteger[Any]]:
    return np.clip(values, -1, most).astype(walks.kind(most))


def _priced(columns: Columns) -> tuple[Columns, FloatArray | None]:
    """Rewards by number and what the numbers stand for, if few of them differ."""
    if _many(columns["reward"]):
        return columns, None
    numbers, prices = _numbered(columns["reward"])
    if len(prices) > _FEW:
        return columns, None
    return columns | {"reward": numbers.astype(np.uint16)}, prices


def _many(values: FloatArray) -> bool:
    """Whether more than a few differ, as far as the first ones show: numbering a block of them would take longer than
    reading it. The answer is that of the whole block, or no."""
    return len(np.unique(values[:_LOOKED_AT])) > _LOOKED_AT // 2 and len(np.unique(values[: 4 * _FEW])) > _FEW


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


def _apart(value: _T) -> _T:
    """The same with its arrays on pages of their own. Between others they would hold on to memory when they are gone,
    and a fence would count it."""
    found = list[pickle.PickleBuffer]()
    rest = pickle.dumps(value, protocol=5, buffer_callback=found.append)
    contents = [each.raw() for each in found]
    ends = list(accumulate((-(-content.nbytes // _ALIGNED) * _ALIGNED for content in contents), initial=0))
    pages = memoryview(mmap.mmap(-1, ends[-1] or 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    places = [pages[start : start + content.nbytes] for start, content in zip(ends, contents, strict=False)]
    for place, content in zip(places, contents, strict=True):
        place[:] = content
    made: _T = pickle.loads(rest, buffers=places)
    return made


def _bytes(block: Block) -> int:
    return sum(array.nbytes for array in vars(block).values() if isinstance(array, np.ndarray))
