"""Datasets in the store: accept an upload whole or not at all, hand it to the learners block by block, retire it.

Three rooms in a row: `formats` parses bytes (Parquet after a `first_reading`), `uploads` judges rows, and this one
stores them. Every *unit* gets a uniformly random position from the CSPRNG, never one by order or by hash: a replaced
patient must not move others across the halves that are split by position. Once positions are drawn no identifier of a
unit is left.

A dataset is some Parquet files, each with the whole units of one public span of positions, and a manifest that says
nothing but what is public. `shelves` says where it is and under which key, `stores` keeps it, all or nothing.

Memory: rows are spooled to `scratch` files in order of arrival, dealt out to the files of their spans once the number
of units is known, and sorted span by span; on top of that the positions take some 24 bytes a unit while they are drawn.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from discretion import errors, formats, scratch, sealing, shelves, stores, uploads
from discretion.formats import Limits
from discretion.learning.trajectories import (
    CUT,
    CUT_BEFORE,
    ENDED,
    Block,
    Discrete,
    FloatArray,
    IntArray,
    Schema,
    Stored,
    Trajectories,
    check_units,
)
from discretion.privacy import noise
from discretion.scratch import Scratch
from discretion.settings import Settings
from discretion.shelves import Manifest, Place, Shelf, Span
from discretion.uploads import Records

_log = logging.getLogger(__name__)

_BLOCK: Final = 2**25  # bytes of the records of one span, if every unit has all the steps it may
_MOST_BLOCKS: Final = 4096
_MOST_BYTES: Final = 2**29  # of a block: learning takes a few times as much
_THREADS: Final = 2  # that write files
_KEPT: Final = 5 * 2**28  # bytes of blocks that stay in memory between passes
_FEW: Final = 2**16  # different rewards in a block
_LOOKED_AT: Final = 2**14  # rewards at a time, of which the first show what is frequent
_SLOTS: Final = 20  # bits of their hash
_ODD: Final = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio, which spreads the bits
_CHUNK: Final = 2**23  # bytes of records dealt out at a time
_ROWS: Final = "rows"

Columns = dict[str, NDArray[Any]]

_NOT_STORED: Final = "The upload could not be stored, and nothing of it was kept."


@dataclass(frozen=True)
class Accepted:
    """For the custodian's eyes only, but for the number of units and whether there are outcomes."""

    units: int
    trajectories: int
    transitions: int
    outcome: bool = False  # as for `uploads.Said`, which is public too


def accept(
    chunks: Iterable[bytes],
    media_type: str,
    schema: Schema,
    place: Place,
    limits: Limits | None = None,
    then: Callable[[Accepted], None] = lambda accepted: None,
) -> Accepted:
    """Read, check and store an upload as the dataset in `place`, which must not hold anything yet.

    `then` says to the world that it is there; if it refuses, the dataset does not stay.
    """
    formats.kinds(schema)
    with _workshop(place) as (draft, rough):
        said = uploads.Said()
        accepted = _spool(uploads.read(chunks, media_type, schema, rough, limits or Limits(), said), rough)
        accepted = replace(accepted, outcome=said.outcome)
        uploads.forget(rough)
        check(schema, accepted.units)
        _write(draft, rough, accepted.units, schema, place)
        try:
            then(accepted)
        except errors.Refusal:  # after any other failure it may be known all the same: `sweep` finds out
            place.shelf.store.delete(place.name)
            raise
    return accepted


@contextmanager
def _workshop(place: Place) -> Iterator[tuple[stores.Draft, Scratch]]:
    """A draft, and a place for rough work beside it that is gone afterwards, whatever happened."""
    try:
        key = sealing.new_key() if place.shelf.master_keys() else None
        with place.shelf.store.draft(place.name) as draft, scratch.made(place.shelf.work, key) as rough:
            yield draft, rough
    except formats.Interrupted as interruption:
        raise interruption.__cause__ or interruption from None
    except errors.StorageFailed as failure:
        _log.error("An upload could not be stored: %s", failure)
        raise errors.StorageFailed(_NOT_STORED) from failure
    except OSError as failure:
        raise errors.StorageFailed(_NOT_STORED) from failure


def _write(draft: stores.Draft, rough: Scratch, units: int, schema: Schema, place: Place) -> None:
    """The spooled rows as blocks of whole units in an order of chance, and last what says how many there are."""
    spans = _spans(units, schema)
    _deal(rough, noise.permutation(units), spans, schema)
    manifest = Manifest(units, spans, None if rough.key is None else sealing.new_key())
    small = _length(units, schema) * _largest(schema) <= _BLOCK

    def store(index: int) -> None:
        draft.write(*manifest.block(place, index, _block_file(rough, str(index), schema)))

    with ThreadPoolExecutor(_THREADS if small else 1) as pool:  # of large ones, one fits into memory
        for stored in [pool.submit(store, index) for index in range(len(spans))]:
            stored.result()
    draft.write(*manifest.document(place))
    draft.publish()


def units(place: Place) -> int:
    """Refused if this machine cannot read the dataset: it is away, or under a key that is not here."""
    return shelves.manifest(place, once=True).units


def blocks(place: Place) -> int:
    """How many there are, which is public."""
    return len(shelves.manifest(place).spans)


def load(place: Place, schema: Schema, only: Sequence[int] | None = None) -> Trajectories:
    """The dataset under the schema it was accepted with; its blocks, or `only` some in ascending order, are read anew
    each time they are iterated."""
    manifest = shelves.manifest(place)
    return Trajectories(schema, manifest.units, _Stored(place, schema, manifest, only))


def retire(place: Place) -> None:
    """Delete the data and whatever an upload to it left behind; nothing happens if there is nothing."""
    place.shelf.store.delete(place.name)


def sweep(shelf: Shelf, broken: stores.Broken, end: stores.End) -> None:
    """Remove what a crash left behind of uploads, here and in the store; none that is under way is touched."""
    scratch.sweep(shelf.work)
    shelf.store.sweep(broken, end)


def probe(found: Settings) -> None:
    """Write a little to the store, read it back and delete it; refused if that, or the key, does not do."""
    with closing(shelves.opened(found)) as shelf:
        shelf.store.probe()


# --- from the order of arrival to the order of positions ---------------------------------------------------------


def _spool(batches: Iterator[Records], rough: Scratch) -> Accepted:
    last, trajectories, transitions = -1, 0, 0
    for records in formats.ahead(batches):
        _append(rough, _ROWS, records)
        last = int(records["unit"][-1])
        trajectories += int(np.count_nonzero(records["step"] == 1))
        transitions += len(records)
    check_units(last + 1)
    return Accepted(last + 1, trajectories, transitions)


def _append(rough: Scratch, name: str, records: Records) -> None:
    with rough.open(name, "ab") as file:
        file.write(np.ascontiguousarray(records).view(np.uint8).data)


def _largest(schema: Schema) -> int:
    """Bytes of a unit that has all the steps it may."""
    return schema.per_unit * schema.horizon * uploads.record(schema).itemsize


def _length(count: int, schema: Schema) -> int:
    """Of a span, in units."""
    return max(_BLOCK // _largest(schema), -(-count // _MOST_BLOCKS), 1)


def _spans(count: int, schema: Schema) -> list[Span]:
    """Equal spans whose length is a function of public sizes alone."""
    length = _length(count, schema)
    return [(start, min(start + length, count)) for start in range(0, count, length)]


def block_rows(schema: Schema, count: int) -> tuple[int, int]:
    """How many records a block holds at most, and the bytes of each."""
    kind = uploads.record(schema)
    return min(_length(count, schema), count) * schema.per_unit * schema.horizon, kind.itemsize


def check(schema: Schema, count: int = 1) -> None:
    """Refuse what could not be held in memory if every unit had all it may: no content must decide about that."""
    if _length(count, schema) * _largest(schema) > _MOST_BYTES:
        raise errors.ProblemTooLarge(
            f"{count} units of {schema.per_unit} trajectories of {schema.horizon} steps cannot be read block by block; "
            "lower max_trajectories_per_unit, the horizon or the number of columns."
        )


def _read(file: IO[bytes], kind: np.dtype[np.void], most: int) -> Records:
    content = np.empty(most * kind.itemsize, np.uint8)
    return content[: file.readinto(content.data)].view(kind)  # type: ignore[attr-defined]


def _deal(rough: Scratch, positions: IntArray, spans: list[Span], schema: Schema) -> None:
    """Put each unit's rows, with its position for its ordinal, into the file of its span."""
    kind = uploads.record(schema)
    with rough.open(_ROWS, "rb") as rows:
        for parts in formats.ahead(_parts(rows, kind, positions, spans[0][1])):
            for span, records in parts:
                _append(rough, str(span), records)
    rough.delete(_ROWS)


def _parts(
    rows: IO[bytes], kind: np.dtype[np.void], positions: IntArray, length: int
) -> Iterator[list[tuple[int, Records]]]:
    """The rows chunk by chunk, each by span, in the order of arrival."""
    while len(records := _read(rows, kind, max(1, _CHUNK // kind.itemsize))):
        records["unit"] = positions[records["unit"]]
        index = (records["unit"] // length).astype(np.uint16)  # sorted by its digits, which is fastest
        ordered = records[np.argsort(index, kind="stable")]
        ends = np.cumsum(np.bincount(index))
        yield [(int(span), ordered[ends[span - 1] if span else 0 : ends[span]]) for span in np.unique(index)]


def _block_file(rough: Scratch, name: str, schema: Schema) -> memoryview:
    """One row a record, by position; how a trajectory ended stands in its last row."""
    kind = uploads.record(schema)
    with rough.open(name, "rb") as dealt:
        records = _read(dealt, kind, (rough.folder / name).stat().st_size // kind.itemsize)
    rough.delete(name)
    return _as_parquet(records[_by_unit(records["unit"])], schema)


def _as_parquet(records: Records, schema: Schema) -> memoryview:
    full, said = records["step"] == schema.horizon, records["terminated"]
    ended = np.where(full, said == 1, said != 0)
    last = np.append(records["step"][1:] == 1, True)
    ending = np.where(ended, ENDED, np.where(records["known"], CUT_BEFORE, CUT))
    columns = {name: pa.array(records[name]) for name in ("unit", "step", "action", "reward")}
    columns |= _flat("state", records["state"]) | _flat("final", records["next"])
    columns["ending"] = pa.array(np.where(last, ending, ENDED).astype(np.int8))
    file = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), file, compression="snappy")
    return memoryview(file.getvalue()).cast("B")


def _by_unit(units: IntArray) -> IntArray:
    """The order that sorts rows of which each unit's stand together: whole units are moved."""
    starts = np.flatnonzero(np.append(True, units[1:] != units[:-1]))
    order = np.argsort(units[starts])
    lengths = np.diff(np.append(starts, len(units)))[order]
    shifts = starts[order] - (np.cumsum(lengths) - lengths)
    return np.arange(len(units)) + np.repeat(shifts, lengths)


def _flat(name: str, values: NDArray[Any]) -> dict[str, pa.Array]:
    flat = values.reshape(len(values), -1)
    return {f"{name}{index}": pa.array(flat[:, index]) for index in range(flat.shape[1])}


# --- reading -----------------------------------------------------------------------------------------------------


def _small(columns: Columns) -> tuple[Columns, FloatArray | None]:
    """Columns of discrete states in as few bytes as hold them exactly: rewards by number and what the numbers stand
    for, if few of them differ."""
    numbers, prices = _numbered(columns["reward"])
    if len(prices) > _FEW:
        return columns, None
    small = {name: _narrow(columns[name]) for name in ("step", "state0", "final0", "action")}
    return columns | small | {"reward": numbers.astype(np.uint16)}, prices


def _numbered(values: FloatArray) -> tuple[NDArray[np.int32], FloatArray]:
    """Each value's number, and the values by number. What occurs among the first is found by a hash of its bits, four
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


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest type that holds the largest and the least of them."""
    low, high = values.min(initial=0), values.max(initial=0)
    return values.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)), copy=False)


class _Kept:
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
class _Stored:
    place: Place
    schema: Schema
    manifest: Manifest
    only: Sequence[int] | None = None
    kept: _Kept = field(default_factory=lambda: _Kept(_KEPT), compare=False, repr=False)

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def _wanted(self) -> Sequence[int]:
        return range(len(self.manifest.spans)) if self.only is None else self.only

    def __iter__(self) -> Iterator[Block]:
        return (block.read() for block in self.stored())

    def stored(self) -> Iterator[Stored]:
        for index in self._wanted:
            span = self.manifest.spans[index]
            yield Stored(span, partial(self._read, index, span))

    def _read(self, index: int, span: Span) -> Block:
        if (known := self.kept.get(index)) is not None:
            return known
        block = self._opened(index, span)
        self.kept.keep(index, block)
        return block

    def _opened(self, index: int, span: Span) -> Block:
        with pyarrow.parquet.ParquetFile(pa.BufferReader(self.manifest.read(self.place, index))) as file:
            table = file.read(use_threads=False)  # several blocks are read at once instead
        columns, prices = {name: table.column(name).to_numpy() for name in table.column_names}, None
        if self.kept.room and isinstance(self.schema.states, Discrete):
            columns, prices = _small(columns)
        return self._block(columns, span, prices)

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
            rewards=padded(columns["reward"]),
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
