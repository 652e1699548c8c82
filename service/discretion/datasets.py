"""Datasets on disk: accept an upload whole or not at all, hand it to the learners block by block, retire it.

Three rooms in a row: `formats` parses bytes (Parquet after a `first_reading`), `uploads` judges rows, and this one
stores them. Every *unit* gets a uniformly random position from the CSPRNG, never one by order or by hash: a replaced
patient must not move others across the halves that are split by position. Once positions are drawn no identifier of a
unit is left.

A dataset is a folder of Parquet files, each with the whole units of one public span of positions, and a manifest that
says nothing but what is public. It is built under a temporary name beside its place and renamed when every byte has
reached the disk, so a crash leaves all or nothing; `sweep` removes what it left. The temporary folder is locked while
its process lives, so that several services may share one store and sweep it.

Memory: rows are spooled in order of arrival, dealt out to the files of their spans once the number of units is known,
and sorted span by span; on top of that the positions take some 24 bytes a unit while they are drawn.
"""

import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from discretion import errors, formats, uploads
from discretion.formats import Limits
from discretion.learning.trajectories import (
    CUT,
    CUT_BEFORE,
    ENDED,
    Block,
    Discrete,
    IntArray,
    Schema,
    Trajectories,
    check_units,
)
from discretion.privacy import noise
from discretion.uploads import Records

Span = tuple[int, int]  # the first position, and the one after the last

_VERSION: Final = 1  # of the stored layout
_BLOCK: Final = 2**25  # bytes of the records of one span, if every unit has all the steps it may
_MOST_BLOCKS: Final = 4096
_MOST_BYTES: Final = 2**29  # of a block: learning takes a few times as much
_THREADS: Final = 2  # that write files
_CHUNK: Final = 2**23  # bytes of records dealt out at a time
_MANIFEST: Final = "manifest.json"
_INCOMING, _RETIRED = "incoming", "retired"
_GONE: Final = "There is no dataset that can be read here; it was retired or never stored."


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
    folder: Path,
    limits: Limits | None = None,
    then: Callable[[Accepted], None] = lambda accepted: None,
) -> Accepted:
    """Read, check and store an upload as the dataset `folder`, which must not hold anything yet.

    `then` says to the world that it is there; if it refuses, the folder does not stay.
    """
    formats.kinds(schema)
    with _workshop(folder) as place:
        said = uploads.Said()
        accepted = _spool(uploads.read(chunks, media_type, schema, place, limits or Limits(), said), place / "rows")
        accepted = replace(accepted, outcome=said.outcome)
        shutil.rmtree(place / "names")
        (place / "upload").unlink(missing_ok=True)
        check(schema, accepted.units)
        _publish(_written(place, accepted.units, schema), folder)
        try:
            then(accepted)
        except errors.Refusal:  # after any other failure it may be known all the same: `sweep` finds out
            shutil.rmtree(folder)
            raise
    return accepted


def _written(place: Path, units: int, schema: Schema) -> Path:
    """The spooled rows as blocks of whole units in an order of chance, and what says how many there are."""
    spans, data = _spans(units, schema), place / "data"
    _deal(place, noise.permutation(units), spans, schema)
    data.mkdir(mode=0o700)
    small = _length(units, schema) * _largest(schema) <= _BLOCK
    with ThreadPoolExecutor(_THREADS if small else 1) as pool:  # of large ones, one fits into memory
        for stored in [pool.submit(_store, place / str(i), data / _name(i), schema) for i in range(len(spans))]:
            stored.result()
    manifest = {"version": _VERSION, "units": units, "spans": spans}
    (data / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    _sync(data / _MANIFEST)
    _sync(data)
    return data


def units(folder: Path) -> int:
    return int(_manifest(folder)["units"])


def load(folder: Path, schema: Schema) -> Trajectories:
    """The dataset under the schema it was accepted with; its blocks are read anew each time they are iterated."""
    manifest = _manifest(folder)
    spans = [(int(start), int(end)) for start, end in manifest["spans"]]
    return Trajectories(schema, int(manifest["units"]), _Stored(folder, schema, spans))


def retire(folder: Path) -> None:
    """Delete the data and whatever an upload to it left behind; nothing happens if there is nothing."""
    if not folder.parent.is_dir():
        return
    try:
        if folder.exists():
            # One rename takes it out of sight whole; deleting takes a while and may be interrupted.
            os.rename(folder, _temporary(folder, _RETIRED) / "data")
        _remove(folder.parent, glob.escape(folder.name))
    except OSError as failure:
        raise errors.StorageFailed("The dataset could not be deleted whole; try again.") from failure


def sweep(parent: Path, broken: Callable[[], Collection[str]]) -> None:
    """Remove what a crash left behind: temporary folders that nobody holds, and whole ones of uploads that broke off.

    Which ones broke off is asked last: a folder that lay there with nobody at work on it has been made known by then,
    or never will be. A folder that nobody has heard of stays: it may be another database's.
    """
    if not parent.is_dir():
        return
    whole = [path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    _remove(parent, "*", held=False)
    orphans = [path for path in whole if not list(parent.glob(f".{glob.escape(path.name)}.{_INCOMING}-*"))]
    for orphan in {path.name for path in orphans} & set(broken()):
        shutil.rmtree(parent / orphan)


# --- the place of work -------------------------------------------------------------------------------------------


@contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder` that is gone afterwards, whatever happened."""
    place, lock = None, -1
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = _temporary(folder, _INCOMING)
        lock = os.open(place, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place
    except formats.Interrupted as interruption:
        raise interruption.__cause__ or interruption from None
    except OSError as failure:
        raise errors.StorageFailed("The upload could not be stored, and nothing of it was kept.") from failure
    finally:
        try:
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
        finally:
            if lock >= 0:
                os.close(lock)


def _temporary(folder: Path, purpose: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{folder.name}.{purpose}-", dir=folder.parent))


def _remove(parent: Path, name: str, *, held: bool = True) -> None:
    for purpose in (_INCOMING, _RETIRED):
        for leftover in parent.glob(f".{name}.{purpose}-*"):
            if held or not _is_held(leftover):
                shutil.rmtree(leftover)
    if parent.is_dir():
        _sync(parent)


def _is_held(place: Path) -> bool:
    lock = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _publish(data: Path, folder: Path) -> None:
    os.rename(data, folder)
    try:
        _sync(folder.parent)
    except OSError:
        shutil.rmtree(folder)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- from the order of arrival to the order of positions ---------------------------------------------------------


def _spool(batches: Iterator[Records], path: Path) -> Accepted:
    last, trajectories, transitions = -1, 0, 0
    for records in formats.ahead(batches):
        _append(path, records)
        last = int(records["unit"][-1])
        trajectories += int(np.count_nonzero(records["step"] == 1))
        transitions += len(records)
    check_units(last + 1)
    return Accepted(last + 1, trajectories, transitions)


def _append(path: Path, records: Records) -> None:
    with path.open("ab") as file:
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


def check(schema: Schema, count: int = 1) -> None:
    """Refuse what could not be held in memory if every unit had all it may: no content must decide about that."""
    if _length(count, schema) * _largest(schema) > _MOST_BYTES:
        raise errors.ProblemTooLarge(
            f"{count} units of {schema.per_unit} trajectories of {schema.horizon} steps cannot be read block by block; "
            "lower max_trajectories_per_unit, the horizon or the number of columns."
        )


def _deal(place: Path, positions: IntArray, spans: list[Span], schema: Schema) -> None:
    """Put each unit's rows, with its position for its ordinal, into the file of its span."""
    kind = uploads.record(schema)
    with (place / "rows").open("rb") as rows:
        for parts in formats.ahead(_parts(rows, kind, positions, spans[0][1])):
            for span, records in parts:
                _append(place / str(span), records)
    (place / "rows").unlink()


def _parts(
    rows: BinaryIO, kind: np.dtype[np.void], positions: IntArray, length: int
) -> Iterator[list[tuple[int, Records]]]:
    """The rows chunk by chunk, each by span, in the order of arrival."""
    while len(records := np.fromfile(rows, kind, max(1, _CHUNK // kind.itemsize))):
        records["unit"] = positions[records["unit"]]
        index = (records["unit"] // length).astype(np.uint16)  # sorted by its digits, which is fastest
        ordered = records[np.argsort(index, kind="stable")]
        ends = np.cumsum(np.bincount(index))
        yield [(int(span), ordered[ends[span - 1] if span else 0 : ends[span]]) for span in np.unique(index)]


def _store(dealt: Path, path: Path, schema: Schema) -> None:
    """One row a record, by position; how a trajectory ended stands in its last row."""
    records = np.fromfile(dealt, uploads.record(schema))
    dealt.unlink()
    records = records[_by_unit(records["unit"])]
    full, said = records["step"] == schema.horizon, records["terminated"]
    ended = np.where(full, said == 1, said != 0)
    last = np.append(records["step"][1:] == 1, True)
    ending = np.where(ended, ENDED, np.where(records["known"], CUT_BEFORE, CUT))
    columns = {name: pa.array(records[name]) for name in ("unit", "step", "action", "reward")}
    columns |= _flat("state", records["state"]) | _flat("final", records["next"])
    columns["ending"] = pa.array(np.where(last, ending, ENDED).astype(np.int8))
    pyarrow.parquet.write_table(pa.table(columns), path, compression="snappy")
    _sync(path)


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


def _name(index: int) -> str:
    return f"{index:04}.parquet"


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as failure:
        raise errors.StorageFailed(_GONE) from failure
    if not isinstance(manifest, dict) or manifest.get("version") != _VERSION:
        raise errors.StorageFailed("The dataset was stored by another version of the service.")
    return manifest


@dataclass(frozen=True)
class _Stored:
    folder: Path
    schema: Schema
    spans: list[Span]

    def __iter__(self) -> Iterator[Block]:
        for index, span in enumerate(self.spans):
            with pyarrow.parquet.ParquetFile(self.folder / _name(index)) as file:
                table = file.read(use_threads=False)
            yield self._block({name: table.column(name).to_numpy() for name in table.column_names}, span)

    def _block(self, columns: dict[str, NDArray[Any]], span: Span) -> Block:
        step = columns["step"] - 1
        begins = step == 0
        last = np.append(begins[1:], True)
        place = (step, np.cumsum(begins) - 1)
        shape = (self.schema.horizon, int(begins.sum()))

        def padded(values: NDArray[Any], kind: type) -> NDArray[Any]:
            array = np.zeros((*shape, *values.shape[1:]), kind)
            array[place] = values
            return array

        states, final = (self._states(columns, name) for name in ("state", "final"))
        return Block(
            units=columns["unit"][begins],
            lengths=step[last] + 1,
            states=padded(states, states.dtype.type),
            actions=padded(columns["action"], np.int64),
            rewards=padded(columns["reward"], np.float64),
            endings=columns["ending"][last],
            final=final[last],
            span=span,
        )

    def _states(self, columns: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:  # (R,) or (R, p)
        if isinstance(self.schema.states, Discrete):
            return columns[f"{name}0"].astype(np.int64)
        return np.stack([columns[f"{name}{index}"] for index in range(len(self.schema.states.columns))], axis=1)
