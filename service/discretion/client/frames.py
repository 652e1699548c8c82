"""From a table's own columns to those of an upload, slice by slice, as Parquet that is sent while it is written.

    named = {"step": "bloc", "state": "cluster", "action": ("iv_input", "vaso_input")}
    rows = frames.converted(sources.of(table), dataset, named, Outcome("died_in_hosp", good=0), levels=(5, 5))
    body = frames.parquet(rows)

A value that cannot be meant ends the upload as soon as it is seen, and the service keeps nothing of it. Bounds and
counts come from the dataset's public schema and are never read off the rows.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from discretion import errors
from discretion.client import sources
from discretion.client.calls import Document
from discretion.client.columns import Arrangement, Column, Names, Outcome, listed

_NAMELESS: Final = "a name that the dataset's schema has among its labels; it has none"


class _Rows:
    """Slices in, batches of the upload's columns out, with what must be remembered from one to the next."""

    def __init__(
        self, columns: Sequence[Column], dataset: Document, outcome: Outcome | None, levels: Sequence[int] | None
    ) -> None:
        self._columns, self._outcome, self._levels = columns, outcome, levels
        bounds = [dataset["reward"], *([dataset["return"]] if dataset.get("return") else [])]
        self._actions: list[str] = dataset["actions"].get("labels") or []
        self._worst, self._best = max(each["low"] for each in bounds), min(each["high"] for each in bounds)
        self._before = 0  # rows of the slices before
        self._first: int | None = None  # the step that stays begin with
        self._last: int | None = None  # the step of the row before
        self._stays = 0
        self._bad: Any = None  # the value that is not the good end
        self._good_seen = False

    def convert(self, table: pa.Table) -> pa.RecordBatch:
        self._table = table
        steps = self._steps(next(column for column in self._columns if column.name == "step"))
        made = {column.name: self._made(column, steps) for column in self._columns}
        self._before += table.num_rows
        return pa.record_batch(made)

    def _made(self, column: Column, steps: pa.Array) -> pa.Array:
        match column.kind:
            case "step":
                return steps
            case "stays":
                return self._counted(steps, column)
            case "action":
                return self._acted(column)
            case "doses":
                return self._dosed(column)
            case "outcome":
                return self._ended(column)
            case "name":
                return self._texts(column)
            case "label":
                values = self._values(column)
                return values if pa.types.is_integer(values.type) else self._texts(column)
            case "flag":
                return self._flags(column)
            case "whole":
                return self._whole(column)
        return self._numbers(column)

    def _values(self, column: Column) -> pa.Array:
        """The table's own values, plainly: no dictionaries, no lists of one, nothing in place of NaN."""
        found = self._table.column(column.made_from[0])
        values = found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
        if _is_list(values.type):
            values = self._elements(values, column)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_floating(values.type):
            values = pc.cast(values, pa.float64())
            if pc.any(pc.is_nan(values)).as_py():
                values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
        return values

    def _elements(self, values: pa.Array, column: Column) -> pa.Array:
        lengths = pc.unique(pc.drop_null(pc.list_value_length(values))).to_pylist()
        if column.element is None and lengths not in ([], [1]):
            raise errors.InvalidSource(f"{column.name!r} needs one value a row; {column.made_from[0]!r} holds lists.")
        if len(lengths) > 1 or (lengths and lengths[0] <= (column.element or 0)):
            raise errors.InvalidSource(f"The lists in {column.made_from[0]!r} are not all as long as a state.")
        return pc.list_element(values, column.element or 0)

    def _cast(self, values: pa.Array, kind: pa.DataType, column: Column, meant: str) -> pa.Array:
        try:
            return pc.cast(values, kind)
        except pa.ArrowNotImplementedError:
            raise errors.InvalidSource(
                f"{column.name!r} must be {meant}, and {column.made_from[0]!r} holds {values.type}."
            ) from None
        except pa.ArrowInvalid:
            raise self._wrong(_first_misfit(values, kind), column, f"is not {meant}") from None

    def _wrong(self, index: int, column: Column, what: str) -> errors.InvalidSource:
        from_ = " and ".join(map(repr, column.made_from))
        return errors.InvalidSource(f"Row {self._before + index + 1}: {from_}, for {column.name!r}, {what}.")

    def _whole(self, column: Column) -> pa.Array:
        values = self._values(column)
        if _is_text(values.type):
            values = self._cast(values, pa.float64(), column, "a whole number")
        return self._cast(values, pa.int64(), column, "a whole number")

    def _acted(self, column: Column) -> pa.Array:
        """Whole numbers, or what the schema calls the actions; a text that is a whole number is that number."""
        values = self._values(column)
        if not _is_text(values.type):
            return self._whole(column)
        named = pc.index_in(pc.utf8_trim_whitespace(values), pa.array(self._actions, values.type))
        number = pc.match_substring_regex(values, r"^\s*[+-]?[0-9]+(\.0*)?\s*$")
        values = pc.if_else(pc.or_(number, pc.is_null(named)), values, pc.cast(named, values.type))
        names = f"the name of an action, which are {listed(self._actions)}" if self._actions else _NAMELESS
        values = self._cast(values, pa.float64(), column, f"a whole number, or {names}")
        return self._cast(values, pa.int64(), column, "a whole number")

    def _numbers(self, column: Column) -> pa.Array:
        return self._cast(self._values(column), pa.float64(), column, "a number")

    def _texts(self, column: Column) -> pa.Array:
        values = self._values(column)
        if pa.types.is_floating(values.type):  # whole numbers, if the table has them so because some are missing
            values = self._cast(values, pa.int64(), column, "a text or a whole number")
        return self._cast(values, pa.string(), column, "a text")

    def _flags(self, column: Column) -> pa.Array:
        values = self._values(column)
        if pa.types.is_floating(values.type):
            values = self._cast(values, pa.int64(), column, "true or false")
        if pa.types.is_integer(values.type) and pc.any(pc.greater(pc.abs(values), 1)).as_py():
            raise self._wrong(_index(pc.greater(pc.abs(values), 1)), column, "is not true or false")
        return self._cast(values, pa.bool_(), column, "true or false")

    def _steps(self, column: Column) -> pa.Array:
        """From 1; a table's steps may begin with 0."""
        steps = self._whole(column)
        if self._first is None and len(steps):
            self._first = steps[0].as_py()
            if self._first not in (0, 1):
                raise self._wrong(0, column, "is where the first stay begins, so it must be 0 or 1")
        return pc.add(steps, 1 - (self._first or 0))

    def _counted(self, steps: pa.Array, column: Column) -> pa.Array:
        """Without a name for them, a stay begins wherever the step falls back to its first value."""
        if steps.null_count:
            raise self._wrong(_index(pc.is_null(steps)), column, "is missing, so nobody knows whose row this is")
        now = steps.to_numpy()
        before = np.append(self._last or 0, now[:-1])
        wrong = (now != 1) & (now <= before)
        if wrong.any():
            raise self._wrong(
                int(wrong.argmax()), column, "falls, but not to the first step; sort the rows, or name 'unit'"
            )
        units = self._stays + np.cumsum(now == 1)
        self._stays, self._last = int(units[-1]), int(now[-1])
        return pc.cast(pa.array(units), pa.string())

    def _dosed(self, column: Column) -> pa.Array:
        """Several doses as one number: the last one counts fastest."""
        code: NDArray[np.int64] = np.zeros(self._table.num_rows, np.int64)
        missing = np.zeros(self._table.num_rows, bool)
        lists = len(set(column.made_from)) < len(column.made_from)
        for index, (name, levels) in enumerate(zip(column.made_from, self._levels or (), strict=True)):
            part = Column(column.name, "whole", (name,), index if lists else None)
            doses = self._whole(part)
            values = pc.fill_null(doses, 0).to_numpy()
            wrong = (values < 0) | (values >= levels)
            if wrong.any():
                told = f"is not one of its {levels} levels, which count from 0 to {levels - 1}"
                raise self._wrong(int(wrong.argmax()), part, told)
            code = code * levels + values
            missing |= pc.is_null(doses).to_numpy(zero_copy_only=False)
        return pa.array(code, mask=missing)

    def _ended(self, column: Column) -> pa.Array:
        assert self._outcome is not None
        values, good = self._values(column), self._outcome.good
        if _is_text(values.type) and isinstance(good, bool):
            values = pc.utf8_lower(values)  # True, as Python writes it, and TRUE, as a spreadsheet does
        elif _is_text(values.type) and isinstance(good, int | float):
            values = self._cast(values, pa.float64(), column, "a number like the good end")
        try:
            fine = pc.equal(values, pc.cast(pa.scalar(good), values.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            told = (
                f"{self._outcome.column!r} holds {values.type}; give the good end as it stands there, not as {good!r}."
            )
            raise errors.InvalidSource(told) from None
        others = pc.unique(values.filter(pc.invert(fine)))
        self._good_seen = self._good_seen or bool(pc.any(fine).as_py())
        if self._bad is None and len(others):
            self._bad = others[0]
        if any(other != self._bad for other in others):
            third = pc.and_(pc.invert(fine), pc.not_equal(values, self._bad))
            told = f"is a third way to end, besides {good!r} and another; make it two, or send numbers as 'outcome'"
            if not self._good_seen:
                told = f"is a second way to end, and no row so far has {good!r}; give the good end as it is written"
            raise self._wrong(_index(third), column, told)
        return pc.if_else(fine, pa.scalar(float(self._best)), pa.scalar(float(self._worst)))


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _index(mask: pa.Array) -> int:
    return int(pc.index(pc.fill_null(mask, False), True).as_py())


def _first_misfit(values: pa.Array, kind: pa.DataType) -> int:
    for index, value in enumerate(values):
        try:
            value.cast(kind)
        except pa.ArrowInvalid:
            return index
    return 0


# --- all of it ---------------------------------------------------------------------------------------------------


def converted(
    given: sources.Source,
    dataset: Document,
    columns: Names | None = None,
    outcome: Outcome | None = None,
    levels: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of an upload's columns; the arrangement and the first slice are seen to before this returns."""
    wanted = Arrangement(given.names, dataset, columns or {}, outcome, levels).columns
    rows = _Rows(wanted, dataset, outcome, levels)
    chosen = {name for column in wanted for name in column.made_from}
    made = (rows.convert(table) for table in given.slices(chosen) if table.num_rows)
    first = next(made, None)
    if first is None:
        raise errors.InvalidSource("There are no rows to send.")
    return itertools.chain([first], made)


class _Sink:
    """A file that gives away what was written to it."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def taken(self) -> bytes:
        taken, self._written = b"".join(self._written), []
        return taken


def parquet(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """The file's bytes as they come into being: a row group for each batch, and the footer at the end."""
    sink = _Sink()
    first = next(batches)
    with pyarrow.parquet.ParquetWriter(pa.PythonFile(sink, "w"), first.schema) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)
            yield sink.taken()
    yield sink.taken()
