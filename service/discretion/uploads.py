"""What a custodian sends, read and checked while it streams: bytes in, records of whole numbers and floats out.

`formats` parses, this room judges, `datasets` stores. Only here is a patient's value ever named as wrong, for
the custodian alone; the reasons name rows and columns, never values.

Each batch of rows that `formats` has parsed is converted column by column (`_Columns`), then held against the rows
before it (`_Sequence`). All of it is vectorised; Python looks at single rows only where something is wrong with them.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from numpy.typing import NDArray

from discretion import errors, formats
from discretion.errors import InvalidUpload
from discretion.formats import Limits, Problems
from discretion.learning.schemas import BoolArray, Discrete, IntArray, Schema
from discretion.scratch import Scratch

Records = NDArray[np.void]  # (R,) of `record(schema)`

_PARTS: Final = 32  # files that the names of units are spread over to look for repetitions, one in memory at a time
_NAMES: Final = "names"
_UNKNOWN: Final = "; give what is not known a state of its own, or declare its column as one that may be missing"
_FLAGS: Final = ("", "false", "true", "0", "1")
_FLAG_VALUES: Final = np.array([-1, 0, 1, 0, 1, -2], np.int8)  # −1: nothing said, −2: something else was


def record(schema: Schema) -> np.dtype[np.void]:
    state = "<i4" if isinstance(schema.states, Discrete) else ("<f8", (len(schema.states.columns),))
    fields = [("unit", "<i8"), ("step", "<i4"), ("state", state), ("action", "<i4"), ("reward", "<f8")]
    return np.dtype([*fields, ("next", state), ("known", "?"), ("terminated", "i1")])


class _Columns:
    """One batch, column by column: every value of the declared kind and in its range, or a problem."""

    def __init__(self, table: pa.Table, first: int, schema: Schema, limits: Limits, problems: Problems) -> None:
        self._table, self._limits, self._problems = table, limits, problems
        self.rows = first + np.arange(table.num_rows)  # (R,)
        self.records: Records = np.zeros(table.num_rows, record(schema))
        self.unit = self._names("unit", required=True)
        self.trajectory = self._names("trajectory", required=False)
        self.records["step"], _ = self._numbers("step", 1, schema.horizon)
        self.records["action"], _ = self._numbers("action", 0, schema.actions - 1)
        self.outcomes: BoolArray | None = None  # where there is one, if this upload has outcomes
        if "outcome" in table.column_names:
            self.records["reward"], self.outcomes = self._numbers(
                "outcome", *schema.reward, required=False, whole=False
            )
        else:
            self.records["reward"], _ = self._numbers("reward", *schema.reward, whole=False)
        self.sound = self._states(schema, "state", "", required=True)
        self.records["known"] = self._states(schema, "next", "next_", required=False)
        self.records["terminated"] = self._flags()

    def _states(self, schema: Schema, target: str, prefix: str, required: bool) -> BoolArray:
        if isinstance(schema.states, Discrete):
            self.records[target], sound = self._numbers(f"{prefix}state", 0, schema.states.count - 1, required=required)
            return sound
        columns, missing = schema.states.columns, schema.states.missing
        sounds = np.empty((len(columns), len(self.rows)), bool)
        for index, (name, bounds) in enumerate(zip(columns, schema.states.bounds, strict=True)):
            needed = required and name not in missing
            values, sounds[index] = self._numbers(prefix + name, *bounds, required=needed, whole=False)
            self.records[target][:, index] = np.where(sounds[index], values, np.nan) if name in missing else values
        sounds = sounds[schema.states.complete]  # what may be missing says nothing about whether a state is there
        partly = sounds.any(axis=0) & ~sounds.all(axis=0)
        if not required and partly.any():
            self._problems.add(self.rows[partly], prefix + columns[0], "The next state is given in part only.")
        return np.asarray(sounds.all(axis=0))

    def _column(self, name: str) -> pa.Array | None:
        if name not in self._table.column_names:
            return None
        column = self._table.column(name)
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)

    def _report(self, wrong: BoolArray, column: str, reason: str) -> None:
        if wrong.any():
            self._problems.add(self.rows[wrong], column, reason)

    def _names(self, name: str, required: bool) -> pa.Array:
        """Texts, empty where there is none; what is too long is cut, so that rows of one name still look alike."""
        column = self._column(name)
        if column is None and not required:
            return pa.repeat("", len(self.rows))
        if column is None:
            column = pa.nulls(len(self.rows))
        packed = pa.types.is_dictionary(column.type)
        texts = pc.fill_null(pc.cast(column.dictionary if packed else column, pa.string()), "")
        # Of a dictionary, the entries are measured and cut before they are written out once a row.
        lengths = pc.binary_length(texts)
        texts = pc.utf8_slice_codeunits(texts, 0, self._limits.text)
        if packed:
            lengths, texts = lengths.take(column.indices), pc.fill_null(texts.take(column.indices), "")
        long = _bools(pc.fill_null(pc.greater(lengths, self._limits.text), False))
        self._report(long, name, f"The text is longer than {self._limits.text} bytes.")
        if required:
            self._report(_bools(pc.equal(texts, "")), name, "A value is missing.")
        return texts

    def _numbers(
        self, name: str, low: float, high: float, required: bool = True, whole: bool = True
    ) -> tuple[NDArray[Any], BoolArray]:
        """The values with 0 in place of what is missing or wrong, and where neither is so."""
        column = self._column(name)
        target = pa.int64() if whole else pa.float64()
        if column is None and not required:
            return np.zeros(len(self.rows), np.int64), np.zeros(len(self.rows), bool)
        if column is None:
            column = pa.nulls(len(self.rows), target)
        if pa.types.is_string(column.type) and (empty := pc.equal(column, "")).true_count:
            column = pc.if_else(empty, pa.scalar(None, pa.string()), column)
        cast = _cast(column, target)
        if not cast.null_count:
            values = cast.to_numpy(zero_copy_only=False)
            if len(values) and low <= values.min() and values.max() <= high:  # almost always, and never with a NaN
                return values, np.ones(len(values), bool)
        missing = _bools(pc.is_null(column))
        if required:
            hint = _UNKNOWN if name == "state" or (not whole and name != "reward") else ""
            self._report(missing, name, f"A value is missing{hint}.")
        kind = "a whole number" if whole else "a finite number"
        values = pc.fill_null(cast, 0).to_numpy(zero_copy_only=False)
        wrong = _bools(pc.is_null(cast)) & ~missing
        wrong |= ~np.isfinite(values)
        self._report(wrong, name, f"The value is not {kind}.")
        outside = ~wrong & ~missing & ~((values >= low) & (values <= high))
        hint = "; if yours count from 1, subtract 1" if whole and low == 0 else ""
        self._report(outside, name, f"The value is not from {low} to {high}{hint}.")
        sound = ~(wrong | missing | outside)
        return np.where(sound, values, 0), sound

    def _flags(self) -> NDArray[np.int8]:
        column = self._column("terminated")
        if column is None:
            return np.full(len(self.rows), -1, np.int8)
        texts = pc.utf8_lower(pc.fill_null(pc.cast(column, pa.string()), ""))
        flags = _FLAG_VALUES[pc.fill_null(pc.index_in(texts, value_set=pa.array(_FLAGS)), len(_FLAGS)).to_numpy()]
        self._report(flags == -2, "terminated", "The value is not true, false, 1 or 0.")
        return flags


def _bools(array: pa.Array) -> BoolArray:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    """As numbers, null where a value is none; a whole column at once unless it has such a value."""
    safe = target == pa.int64()
    # Arrow reads 0x10 as a whole number; nobody means that.
    if safe and pa.types.is_string(column.type) and re.search(rb"[xX]", column.buffers()[2] or b""):
        column = pc.if_else(pc.match_substring(column, "x", ignore_case=True), pa.scalar("?"), column)
    try:
        return pc.cast(column, target, safe=safe)
    except pa.ArrowInvalid:
        return pa.array([_cast_one(value, target, safe) for value in column], target)


def _cast_one(value: pa.Scalar, target: pa.DataType, safe: bool) -> Any:
    try:
        return value.cast(target, safe=safe).as_py()
    except pa.ArrowInvalid:
        return None


# --- rows in their order -----------------------------------------------------------------------------------------


class _Sequence:
    """What the rows so far say about the next: who is being read, at which step, and what they were named."""

    def __init__(self, schema: Schema, names: "_Names", problems: Problems) -> None:
        self._schema, self._names, self._problems = schema, names, problems
        self.units = 0
        self._in_unit = 0  # trajectories of the unit being read
        self._unit = self._trajectory = pa.nulls(1, pa.string())
        self._last: Records = np.zeros(1, record(schema))
        self._labels = pa.array([], pa.string())  # of the trajectories of the unit being read
        self._outcomes = _Outcomes(problems)

    def follow(self, batch: _Columns) -> Records:
        """The batch's records, with the ordinal of their unit; what is out of order becomes a problem."""
        records, rows = batch.records, batch.rows
        opens = _changes(self._unit, batch.unit)
        begins = opens | _changes(self._trajectory, batch.trajectory)
        begins |= _bools(pc.equal(batch.trajectory, "")) & (records["step"] == 1)
        self._check_steps(rows, records["step"], self._before(records, "step"), begins)
        early = ~begins & (self._before(records, "terminated") == 1)
        self._problems.add(rows[early] - 1, "terminated", "Only the last row of a trajectory can say true.")
        self._check_next(batch, begins)
        records["unit"] = self.units - 1 + np.cumsum(opens)
        self._check_trajectories(batch, opens, begins)
        self._names.add(batch.unit.filter(pa.array(opens)), rows[opens])
        self.units += int(opens.sum())
        self._unit, self._trajectory, self._last = batch.unit[-1:], batch.trajectory[-1:], records[-1:].copy()
        return records if batch.outcomes is None else self._outcomes.settle(records, rows, batch.outcomes, begins)

    def rest(self) -> Records:
        """What could not be handed out before the end was known."""
        return self._outcomes.rest()

    def _before(self, records: Records, name: str) -> NDArray[Any]:
        """What the row before says; a column at a time, for most are not asked for."""
        return np.concatenate([self._last[name], records[name][:-1]])

    def _check_next(self, batch: _Columns, begins: BoolArray) -> None:
        said = self._before(batch.records, "known") & batch.sound & ~begins
        if not said.any():
            return
        said_next, states = self._before(batch.records, "next"), batch.records["state"]
        differs = (said_next != states) & ~((said_next != said_next) & (states != states))  # missing twice is the same
        wrong = said & (differs if differs.ndim == 1 else differs.any(axis=1))
        name = "next_" + formats.state_columns(self._schema)[0]
        self._problems.add(batch.rows[wrong] - 1, name, "The next state is not the state of the next row.")

    def _check_steps(self, rows: IntArray, step: IntArray, before: IntArray, begins: BoolArray) -> None:
        sound = (step > 0) & (begins | (before > 0))  # a step that is wrong in itself was named already
        wrong = sound & (step != np.where(begins, 1, before + 1))
        twice = wrong & ~begins & (step == before)
        together = "A trajectory starts with step 1; its rows stand together: sort the file by unit and step."
        self._problems.add(rows[wrong & begins], "step", together)
        self._problems.add(rows[twice], "step", "This step of the trajectory occurs twice.")
        self._problems.add(rows[wrong & ~begins & ~twice], "step", "The steps of a trajectory count up by one.")

    def _check_trajectories(self, batch: _Columns, opens: BoolArray, begins: BoolArray) -> None:
        begun = np.cumsum(begins) + self._in_unit
        earlier = np.maximum.accumulate(np.where(opens, begun - 1, 0))  # trajectories of the units before
        place = begun - earlier
        many = begins & (place > self._schema.per_unit)
        self._problems.add(batch.rows[many], "unit", f"A unit has at most {self._schema.per_unit} trajectories.")
        self._in_unit = int(place[-1])
        if self._schema.per_unit > 1:
            self._check_labels(batch, opens, begins)

    def _check_labels(self, batch: _Columns, opens: BoolArray, begins: BoolArray) -> None:
        named = begins & _bools(pc.not_equal(batch.trajectory, ""))
        earlier = len(self._labels)
        labels = pa.concat_arrays([self._labels, batch.trajectory.filter(pa.array(named))])
        units = np.concatenate([np.full(earlier, self.units - 1), batch.records["unit"][named]])
        codes = labels.dictionary_encode().indices.to_numpy()
        _, firsts = np.unique(units * (len(labels) + 1) + codes, return_index=True)
        again = np.setdiff1d(np.arange(earlier, len(labels)), firsts) - earlier
        self._problems.add(batch.rows[named][again], "trajectory", "The rows of one trajectory stand together.")
        self._labels = labels.filter(pa.array(units == batch.records["unit"][-1]))


class _Outcomes:
    """The one outcome of each trajectory, in whichever of its rows it stands, becomes the reward of the last.

    Which row is the last shows when the next one begins another trajectory, so one row is held back.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._held: tuple[Records, IntArray, BoolArray] | None = None  # a record, its row, whether it has an outcome

    def settle(self, records: Records, rows: IntArray, given: BoolArray, begins: BoolArray) -> Records:
        if self._held is not None:
            held = zip(self._held, (records, rows, given), strict=True)
            records, rows, given = (np.concatenate(pair) for pair in held)
            begins = np.append(True, begins)
        records = records.copy()
        records["reward"], given = _filled(records["reward"], given, begins)
        other = given[1:] & given[:-1] & (records["reward"][1:] != records["reward"][:-1])
        self._problems.add(rows[1:][~begins[1:] & other], "outcome", "A trajectory has one outcome, not two.")
        self._held = records[-1:].copy(), rows[-1:], given[-1:]
        return self._paid(records[:-1], rows[:-1], given[:-1], begins[1:])

    def _paid(self, records: Records, rows: IntArray, given: BoolArray, last: BoolArray) -> Records:
        self._problems.add(rows[last & ~given], "outcome", "The trajectory that ends here has no outcome.")
        paid = records.copy()
        paid["reward"][~last] = 0.0
        return paid

    def rest(self) -> Records:
        if self._held is None:
            return np.zeros(0, np.uint8)
        return self._paid(*self._held, np.ones(1, bool))


def _filled(values: NDArray[Any], given: BoolArray, begins: BoolArray) -> tuple[NDArray[Any], BoolArray]:
    """Each row with the last value that its trajectory had so far."""
    row = np.arange(len(values))
    latest = np.maximum.accumulate(np.where(given, row, -1))
    known = latest >= np.maximum.accumulate(np.where(begins, row, 0))
    return np.where(known, values[latest], values), known


def _changes(before: pa.Array, texts: pa.Array) -> BoolArray:
    """Where a text differs from the one before it; the very first does."""
    return _bools(pc.fill_null(pc.not_equal(texts, pa.concat_arrays([before, texts[:-1]])), True))


class _Names:
    """The names of the units so far, on disk: the only way to know, in bounded memory, that none comes again."""

    def __init__(self, rough: Scratch) -> None:
        self._rough = rough
        (rough.folder / _NAMES).mkdir()
        self._schema = pa.schema([("name", pa.string()), ("row", pa.int64())])
        self._files: dict[int, IO[bytes]] = {}
        self._writers: dict[int, Any] = {}

    def add(self, names: pa.Array, rows: IntArray) -> None:
        if not len(names):
            return
        batch = pa.record_batch([names, pa.array(rows)], schema=self._schema)
        parts = _spread(names)
        for part in np.unique(parts).tolist():
            if part not in self._writers:
                self._files[part] = self._rough.open(self._name(part), "wb")
                self._writers[part] = pa.ipc.new_stream(self._files[part], self._schema)
            self._writers[part].write_batch(batch.filter(pa.array(parts == part)))

    def again(self) -> list[int]:
        """The first rows of units that had occurred before, elsewhere."""
        self.close()
        found: list[int] = []
        for part in self._writers:
            with self._rough.open(self._name(part), "rb") as file, pa.ipc.open_stream(file) as stream:
                table = stream.read_all()
            names = pc.dictionary_encode(table.column("name")).combine_chunks()
            _, firsts = np.unique(names.indices.to_numpy(), return_index=True)
            found += np.delete(table.column("row").to_numpy(), firsts).tolist()
        return sorted(found)

    def close(self) -> None:
        for part, file in self._files.items():
            if not file.closed:
                self._writers[part].close()
                file.close()

    def _name(self, part: int) -> str:
        return f"{_NAMES}/{part}"


def forget(rough: Scratch) -> None:
    """Remove what was written to judge the rows by: they are judged."""
    shutil.rmtree(rough.folder / _NAMES)
    rough.delete(formats.UPLOAD)


def _spread(names: pa.Array) -> IntArray:
    """A part for each name, the same for equal names; an uneven spread costs memory, nothing else."""
    _, offsets, data = names.buffers()
    ends = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1].astype(np.int64)
    sums = np.zeros(ends[-1] + 1, np.int64)
    characters = np.frombuffer(data or b"", np.uint8)[: ends[-1]].astype(np.int64)
    np.cumsum(characters * characters, out=sums[1:])
    return np.asarray((sums[ends[1:]] - sums[ends[:-1]]) % 1009 % _PARTS)


@dataclass
class Said:
    """What an upload says by its columns, whoever is in its rows."""

    outcome: bool = False  # each trajectory earns once, in its last row


def read(
    chunks: Iterable[bytes], media_type: str, schema: Schema, rough: Scratch, limits: Limits, said: Said
) -> Iterator[Records]:
    """The records in the order of arrival; all problems of an upload come as one refusal, at its end at the latest."""
    problems = Problems()
    names = _Names(rough)
    sequence = _Sequence(schema, names, problems)
    try:
        for first, table in formats.ahead(formats.parse(chunks, media_type, schema, limits, problems, rough)):
            if first + table.num_rows - 1 > limits.rows:
                raise errors.UploadTooLarge(f"An upload has at most {limits.rows} rows.")
            said.outcome |= "outcome" in table.column_names
            if table.num_rows and len(records := sequence.follow(_Columns(table, first, schema, limits, problems))):
                yield records
            if problems.enough:
                break
        if len(rest := sequence.rest()):
            yield rest
        problems.add(
            names.again(),
            "unit",
            "The rows of one unit stand together; this one has occurred before: sort the file by unit and step.",
        )
    except InvalidUpload as refusal:  # raised while the rows before were still being judged
        raise InvalidUpload(dict.fromkeys([*problems.found, *refusal.problems])) from None
    finally:
        names.close()
    if not sequence.units:
        problems.add([0], "", "There are no rows.")
    if problems.found:
        raise InvalidUpload(problems.found)
