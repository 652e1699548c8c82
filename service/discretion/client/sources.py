"""Whatever a hospital or a researcher keeps trajectories in, read as Arrow tables of so many rows.

Files, dataframes, Arrow tables, arrays, Minari and d3rlpy datasets. Nothing is held a second time: what is in memory is
cut before it is converted, and what is on disk is read piece by piece. No library of dataframes is imported; what an
object can do decides what it is. `frames` gives the columns the service's names.
"""

import csv
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.interchange
import pyarrow.json
import pyarrow.parquet
from numpy.typing import NDArray

from discretion import errors

ROWS: Final = 2**16  # of one slice
MEDIA_TYPES: Final = {
    ".csv": "text/csv",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".jsonl": "application/x-ndjson",
}
_BLOCK: Final = 2**23  # bytes of text read at a time
_BRACKETS: Final = 2000  # that open in one line
_D4RL: Final = {"observations", "actions", "rewards", "terminals"}


@dataclass(frozen=True)
class Source:
    """The columns there are, and, for those that are wanted, their rows."""

    names: tuple[str, ...]
    slices: Callable[[Collection[str]], Iterator[pa.Table]]
    again: bool = True  # it can be read a second time
    parts: int | None = None  # how many slices it has, or nearly so; a stream does not say


def of(given: Any) -> Source:
    if isinstance(given, str | os.PathLike):
        return _file(Path(given))
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return _cut(tuple(given.column_names), given.num_rows, lambda low, names: given.select(names).slice(low, ROWS))
    if isinstance(given, Mapping):
        return _transitions(given) if given.keys() >= _D4RL else _arrays(given)
    if hasattr(given, "iterate_episodes"):
        return _episodes(lambda: given.iterate_episodes())
    if hasattr(given, "episodes"):
        return _episodes(lambda: given.episodes)
    return _frame(given)


def media_type(path: Path) -> str:
    if (ending := path.suffix.lower()) not in MEDIA_TYPES:
        raise errors.InvalidSource(f"The name of a file must end with {', '.join(MEDIA_TYPES)}; {path.name} does not.")
    return MEDIA_TYPES[ending]


def _cut(names: tuple[str, ...], rows: int, cut: Callable[[int, list[str]], pa.Table]) -> Source:
    def slices(wanted: Collection[str]) -> Iterator[pa.Table]:
        chosen = [name for name in names if name in wanted]
        for low in range(0, rows, ROWS):
            yield cut(low, chosen)

    return Source(names, slices, parts=-(-rows // ROWS))


# --- files -------------------------------------------------------------------------------------------------------


def _file(path: Path) -> Source:
    read = {".csv": _csv, ".ndjson": _ndjson, ".parquet": _parquet, ".jsonl": _ndjson}
    media_type(path)
    try:
        return read[path.suffix.lower()](path)
    except OSError as trouble:
        raise errors.InvalidSource(f"Cannot read {path}: {trouble.strerror or 'it is damaged'}.") from None
    except (pa.ArrowException, UnicodeDecodeError, csv.Error):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> errors.InvalidSource:
    return errors.InvalidSource(f"{path.name} cannot be read as {path.suffix[1:]}; write it anew.")


def _csv(path: Path) -> Source:
    with path.open(encoding="utf-8-sig", newline="") as text:
        between = max(",;\t", key=text.readline().count)  # spreadsheets of many languages write semicolons
        text.seek(0)
        names = tuple(next(csv.reader(text, delimiter=between), []))

    def slices(wanted: Collection[str]) -> Iterator[pa.Table]:
        chosen = [name for name in names if name in wanted]
        # As texts: a name such as 007 is no number, and what is one is decided where the column's use is known.
        convert = pyarrow.csv.ConvertOptions(
            include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()), strings_can_be_null=True
        )
        read = pyarrow.csv.ReadOptions(block_size=_BLOCK, use_threads=False)
        try:
            with pyarrow.csv.open_csv(path, read, pyarrow.csv.ParseOptions(delimiter=between), convert) as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException:
            raise _unreadable(path) from None

    return Source(names, slices, parts=_blocks(path))


def _blocks(path: Path) -> int:
    return -(-path.stat().st_size // _BLOCK)


def _parquet(path: Path) -> Source:
    with pyarrow.parquet.ParquetFile(path) as file:
        names, rows = tuple(file.schema_arrow.names), file.metadata.num_rows

    def slices(wanted: Collection[str]) -> Iterator[pa.Table]:
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(ROWS, columns=[name for name in names if name in wanted]):
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError):  # damaged pages are the one or the other
            raise _unreadable(path) from None

    return Source(names, slices, parts=-(-rows // ROWS))


def _ndjson(path: Path) -> Source:
    def tables() -> Iterator[pa.Table]:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield _objects(block + file.readline(), path)

    names: tuple[str, ...] = ()
    for table in tables():
        names = tuple(table.column_names)
        break

    def slices(wanted: Collection[str]) -> Iterator[pa.Table]:
        chosen = [name for name in names if name in wanted]
        for table in tables():
            absent = {name: pa.nulls(table.num_rows) for name in chosen if name not in table.column_names}
            for name, column in absent.items():
                table = table.append_column(name, column)
            yield table.select(chosen)

    return Source(names, slices, parts=_blocks(path))


def _objects(block: bytes, path: Path) -> pa.Table:
    # Arrow's parser ends the process on lines such as `null`, and on those that are nested as deeply as its stack.
    for line in block.splitlines():
        if not line.startswith(b"{"):
            raise errors.InvalidSource(f"Every line of {path.name} must be a JSON object.")
        if line.count(b"[") + line.count(b"{") > _BRACKETS:
            raise errors.InvalidSource(
                f"A line of {path.name} has too many parts; give numbers, texts and short lists."
            )
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        return pyarrow.json.read_json(pa.BufferReader(block), read)
    except pa.ArrowException:
        raise _unreadable(path) from None


# --- dataframes --------------------------------------------------------------------------------------------------


def _frame(given: Any) -> Source:
    if isinstance(given, pa.RecordBatchReader):
        return _stream(given)
    if hasattr(given, "__arrow_c_stream__") and hasattr(given, "iloc"):
        return _cut(
            tuple(_pandas(given, 0, 0, None).column_names),
            len(given),
            lambda low, names: _pandas(given, low, ROWS, names),
        )
    if hasattr(given, "__arrow_c_stream__") and hasattr(given, "slice") and hasattr(given, "select"):
        names = tuple(pa.table(given.slice(0, 0)).column_names)
        return _cut(names, len(given), lambda low, chosen: pa.table(given.slice(low, ROWS).select(chosen)))
    if hasattr(given, "__arrow_c_stream__"):
        return _stream(pa.RecordBatchReader.from_stream(given))
    if hasattr(given, "__dataframe__"):
        return _exchanged(given.__dataframe__())
    raise errors.InvalidSource(
        f"Rows cannot be read from {type(given).__name__}; give a path, a dataframe, an Arrow table, "
        "arrays by name, or a Minari or d3rlpy dataset."
    )


def _pandas(given: Any, low: int, rows: int, names: list[str] | None) -> pa.Table:
    """Cut first, for a frame of pandas is converted, not lent; a named index comes along as a column."""
    part = given.iloc[low : low + rows]
    if names is not None:
        part = part[[column for column in part.columns if str(column) in names]]
    return pa.table(part)


def _stream(reader: pa.RecordBatchReader) -> Source:
    """Read once: who gives rows in this way need not be able to give them again."""
    names = tuple(reader.schema.names)

    def slices(wanted: Collection[str]) -> Iterator[pa.Table]:
        for batch in reader:
            table = pa.Table.from_batches([batch]).select([name for name in names if name in wanted])
            yield from (table.slice(low, ROWS) for low in range(0, table.num_rows, ROWS))

    return Source(names, slices, again=False)


def _exchanged(frame: Any) -> Source:
    names = tuple(frame.column_names())

    def slices(wanted: Collection[str]) -> Iterator[pa.Table]:
        chosen = frame.select_columns_by_name([name for name in names if name in wanted])
        chunks = chosen.num_chunks()
        parts = chunks * max(1, -(-(chosen.num_rows() or 0) // (ROWS * chunks)))
        for chunk in chosen.get_chunks(parts):
            yield pyarrow.interchange.from_dataframe(chunk)

    return Source(names, slices)


# --- arrays ------------------------------------------------------------------------------------------------------


def _arrays(given: Mapping[str, Any]) -> Source:
    columns = {str(name): np.asarray(values) for name, values in given.items()}
    rows = _same_length(columns)
    return _cut(
        tuple(columns),
        rows,
        lambda low, names: pa.table({name: _column(columns[name][low : low + ROWS]) for name in names}),
    )


def _same_length(columns: Mapping[str, NDArray[Any]]) -> int:
    lengths = {name: len(values) if values.ndim in (1, 2) else -1 for name, values in columns.items()}
    if len(set(lengths.values())) != 1 or -1 in lengths.values():
        raise errors.InvalidSource("Arrays must have one or two dimensions and as many rows as each other.")
    return next(iter(lengths.values()))


def _column(values: NDArray[Any], known: NDArray[np.bool_] | None = None) -> pa.Array:
    """One value a row, or a list of them; nothing where it is not `known`."""
    mask = None if known is None else ~known
    if values.ndim == 1:
        return pa.array(values, mask=mask)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1], mask=None if mask is None else pa.array(mask))


def _transitions(given: Mapping[str, Any]) -> Source:
    """The four arrays of D4RL, and its `timeouts` and `next_observations` if they are there: an episode is a unit."""
    arrays = {name: np.asarray(given[name]) for name in (*_D4RL, "timeouts", "next_observations") if name in given}
    rows = _same_length(arrays)
    ended = arrays["terminals"].reshape(rows).astype(bool)
    over = ended | arrays["timeouts"].reshape(rows).astype(bool) if "timeouts" in arrays else ended
    begins = np.append(True, over[:-1])

    def tables(_: Collection[str]) -> Iterator[pa.Table]:
        unit = start = 0
        for low in range(0, rows, ROWS):
            part = slice(low, low + ROWS)
            rank = np.arange(low, min(low + ROWS, rows))
            units = unit + np.cumsum(begins[part])
            starts = np.maximum.accumulate(np.where(begins[part], rank, start))
            unit, start = int(units[-1]), int(starts[-1])
            columns = {"unit": units, "step": rank - starts + 1, "state": arrays["observations"][part]}
            columns |= {"action": arrays["actions"][part], "reward": arrays["rewards"][part], "terminated": ended[part]}
            made = {name: _column(values) for name, values in columns.items()}
            if "next_observations" in arrays:
                made["next_state"] = _column(arrays["next_observations"][part], (over & ~ended)[part])
            yield pa.table(made)

    names = ("unit", "step", "state", "action", "reward", "terminated")
    named = (*names, "next_state") if "next_observations" in arrays else names
    return Source(named, tables, parts=-(-rows // ROWS))


# --- episodes ----------------------------------------------------------------------------------------------------


@dataclass
class _Gathered:
    """Episodes whose arrays are not yet one table."""

    columns: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    known: list[NDArray[np.bool_]] = field(default_factory=list)  # rows that say what came after them
    rows: int = 0

    def add(self, number: int, episode: Any) -> None:
        actions = np.asarray(episode.actions)
        steps = len(actions)
        if not steps:
            raise errors.InvalidSource(f"Episode {number} has no steps; leave it out.")
        ended = _ended(episode)
        columns = {"unit": np.full(steps, number), "step": np.arange(1, steps + 1), "action": actions}
        columns |= {"reward": np.asarray(episode.rewards), "terminated": np.arange(1, steps + 1) == steps * ended}
        followed = False
        for name, seen in _observed(episode.observations).items():
            followed = len(seen) == steps + 1
            columns[name] = seen[:steps]
            columns[f"next_{name}"] = seen[1:] if followed else seen
        for name, values in columns.items():
            self.columns.setdefault(name, []).append(values)
        self.known.append(np.arange(1, steps + 1) == steps * (followed and not ended))
        self.rows += steps

    def table(self) -> pa.Table:
        known = np.concatenate(self.known)
        columns = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        return pa.table(
            {name: _column(values, known if name.startswith("next_") else None) for name, values in columns.items()}
        )


def _ended(episode: Any) -> bool:
    """Whether it came to its end; otherwise it was cut. Minari says it of each step, d3rlpy of the episode."""
    said = episode.terminations if hasattr(episode, "terminations") else episode.terminated
    return bool(np.asarray(said).reshape(-1)[-1])


def _observed(observations: Any) -> dict[str, NDArray[Any]]:
    """One column of states, or, of a dictionary, one for each of its names."""
    named = observations if isinstance(observations, Mapping) else {"state": observations}
    found = {str(name): np.asarray(values) for name, values in named.items()}
    if isinstance(observations, tuple | list) or any(values.ndim not in (1, 2) for values in found.values()):
        raise errors.InvalidSource("Observations must be numbers, rows of numbers, or a dictionary of these.")
    return found


def _episodes(episodes: Callable[[], Iterable[Any]]) -> Source:
    def tables(_: Collection[str] = ()) -> Iterator[pa.Table]:
        gathered = _Gathered()
        for number, episode in enumerate(episodes(), 1):
            gathered.add(number, episode)
            if gathered.rows >= ROWS:
                yield gathered.table()
                gathered = _Gathered()
        if gathered.rows:
            yield gathered.table()

    first = _Gathered()
    for episode in episodes():
        first.add(1, episode)
        break
    return Source(tuple(first.columns), tables)
