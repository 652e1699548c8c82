"""Datasets in the store: accept an upload whole or not at all, hand it to the learners block by block, retire it.

Three rooms in a row: `formats` parses bytes (Parquet after a `first_reading`), `uploads` judges rows, and this one
stores them. Every *unit* gets a uniformly random position from the CSPRNG, never one by order or by hash: a replaced
patient must not move others across the halves that are split by position. Once positions are drawn no identifier of a
unit is left.

A dataset is some Parquet files, each with the whole units of one public span of positions, and a manifest that says
nothing but what is public. `shelves` says where it is and under which key, `stores` keeps it, all or nothing.

Memory: rows are spooled to `scratch` files in order of arrival, dealt out to the files of their spans once the number
of units is known, and sorted span by span; on top of that the positions take 17 bytes a unit while they are drawn, and
8 of these until all rows are dealt out.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from discretion import errors, formats, scratch, sealing, shelves, stores, uploads
from discretion.blocks import Kept, StoredBlocks
from discretion.formats import Limits
from discretion.learning.schemas import IntArray, Schema, check_units
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Trajectories
from discretion.privacy import noise
from discretion.scratch import Scratch
from discretion.settings import Settings
from discretion.shelves import Manifest, Place, Shelf, Span
from discretion.uploads import Records

_log = logging.getLogger(__name__)

_BLOCK: Final = 2**25  # bytes of the records of one span, if every unit has all the steps it may
_NUMBER: Final = np.uint16  # of a block: the widest that numpy sorts by its digits, which is fastest
_MOST_BLOCKS: Final = int(np.iinfo(_NUMBER).max) + 1  # 65 536: the number of one more would be that of the first
_AT_ONCE: Final = 4096  # files that rows are dealt out to: each chunk has some for all of them
_MOST_BYTES: Final = 2**29  # of a block: learning takes a few times as much
_THREADS: Final = 2  # that write files
_CHUNK: Final = 2**23  # bytes of records dealt out at a time
_ROWS: Final = "rows"

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
        for _ in pool.map(store, range(len(spans))):  # which cancels what is queued once one has failed
            pass
    draft.write(*manifest.document(place))
    draft.publish()


def units(place: Place) -> int:
    """Refused if this machine cannot read the dataset: it is away, or lacks files, or is under a key that is not here.
    A charge waits for the answer: the store is asked for the manifest, and for the names of its files, a bucket by the
    thousand."""
    found = shelves.manifest(place, once=True)
    found.check_whole(place)
    return found.units


def check_blocks(place: Place, schema: Schema) -> None:
    """Refuse blocks that are longer than those of an upload of today, for which plans count the memory: an earlier
    version stored them."""
    found = shelves.manifest(place, once=True)
    if max(end - start for start, end in found.spans) > _length(found.units, schema):
        raise errors.ProblemTooLarge(
            "An earlier version stored this dataset in larger blocks than plans count on; upload it again as a new "
            "dataset."
        )


def blocks(place: Place) -> int:
    """How many there are, which is public."""
    return len(shelves.manifest(place).spans)


def load(
    place: Place, schema: Schema, only: Sequence[int] | None = None, *, room: int = 0, whole: bool = True
) -> Trajectories:
    """The dataset under the schema it was accepted with; its blocks, or `only` some in ascending order, are read anew
    each time they are iterated, but for those that find room, in bytes, to stay in memory. Not `whole`: the room is for
    what is computed of them."""
    manifest = shelves.manifest(place)
    return Trajectories(schema, manifest.units, StoredBlocks(place, schema, manifest, only, Kept(room, whole=whole)))


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
    """Put each unit's rows, with its position for its ordinal, into the file of its span; where there are very many,
    first into those of some spans together."""
    kind, length = uploads.record(schema), spans[0][1]
    several = -(-len(spans) // _AT_ONCE)
    if several == 1:
        _deal_out(rough, _ROWS, "", kind, length, positions)
        return
    _deal_out(rough, _ROWS, f"{_ROWS}-", kind, several * length, positions)
    for first in range(0, len(spans), several):
        _deal_out(rough, f"{_ROWS}-{first // several}", "", kind, length)


def _deal_out(
    rough: Scratch, name: str, prefix: str, kind: np.dtype[np.void], length: int, positions: IntArray | None = None
) -> None:
    with rough.open(name, "rb") as rows:
        for parts in formats.ahead(_parts(rows, kind, positions, length)):
            for span, records in parts:
                _append(rough, f"{prefix}{span}", records)
    rough.delete(name)


def _parts(
    rows: IO[bytes], kind: np.dtype[np.void], positions: IntArray | None, length: int
) -> Iterator[list[tuple[int, Records]]]:
    """The rows chunk by chunk, each by span, in the order of arrival."""
    while len(records := _read(rows, kind, max(1, _CHUNK // kind.itemsize))):
        if positions is not None:
            records["unit"] = positions[records["unit"]]
        index = (records["unit"] // length).astype(_NUMBER)
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
