"""The three formats of an upload: bytes in, tables of so many rows out, whatever stands in them.

`uploads` holds their rows against the schema. Here is decided what can be parsed at all, and what parsing may cost: a
sender chooses every byte, so sizes are checked before memory is given. A row that cannot be parsed ends the reading.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from discretion import errors, first_reading
from discretion.errors import InvalidUpload, Problem
from discretion.learning.schemas import Discrete, Schema
from discretion.scratch import Scratch

Parsed = Iterator[tuple[int, pa.Table]]  # the number of the first data row, and some rows

_T = TypeVar("_T")
UPLOAD: Final = "upload"  # a whole Parquet file, while it is read
_BOM: Final = b"\xef\xbb\xbf"  # spreadsheets put it before UTF-8


@dataclass(frozen=True)
class Limits:
    """What an upload may cost before it is known to be honest."""

    bytes: int = 2**36
    rows: int = 2 * 10**9
    line: int = 2**20  # bytes
    text: int = 512  # bytes of one unit's or trajectory's name
    group: int = 2**30  # bytes of one Parquet row group, unpacked
    block: int = 2**23  # bytes of text parsed at a time; together with `line` this bounds the memory
    batch: int = 2**17  # rows of Parquet parsed at a time


class Interrupted(Exception):
    """Whoever sent the chunks stopped; its cause is what they raised."""


@dataclass
class Problems:
    found: list[Problem] = field(default_factory=list)

    def add(self, rows: Iterable[int], column: str, reason: str) -> None:
        self.found += [
            Problem(int(row), column, reason) for row, _ in zip(rows, range(InvalidUpload.most), strict=False)
        ]

    def stop(self, row: int, column: str, reason: str) -> InvalidUpload:
        return InvalidUpload([*self.found, Problem(row, column, reason)])

    @property
    def enough(self) -> bool:
        return len(self.found) >= InvalidUpload.most


# --- columns -----------------------------------------------------------------------------------------------------


def state_columns(schema: Schema) -> tuple[str, ...]:
    return ("state",) if isinstance(schema.states, Discrete) else schema.states.columns


def kinds(schema: Schema) -> dict[str, str]:
    """Every column an upload may have, and whether it holds names, whole numbers, numbers or flags."""
    kind = "whole" if isinstance(schema.states, Discrete) else "number"
    states = state_columns(schema)
    others = {"unit": "name", "step": "whole", "action": "whole", "reward": "number"}
    others |= {"trajectory": "label", "terminated": "flag", "outcome": "number"}
    found = others | dict.fromkeys([*states, *(f"next_{name}" for name in states)], kind)
    if len(found) != len(others) + 2 * len(states):
        raise errors.InvalidSchema("A state column is named like another column of an upload; give it another name.")
    return found


def _check_header(names: Sequence[str], schema: Schema, problems: Problems) -> None:
    states = state_columns(schema)
    required = ["unit", "step", *states, "action"]
    if schema.outcome or "outcome" in names:
        required.append("outcome")
    else:
        required.append("reward")
    if "outcome" in required and "reward" in names:
        problems.add([0], "reward", "An upload has rewards or outcomes, not both.")
    following = [f"next_{name}" for name in states]
    if any(name in names for name in following):
        required += following
    for name in required:
        if name not in names:
            problems.add([0], name, "This column is missing.")
    known = kinds(schema)
    for name in dict.fromkeys(names):
        if name not in known:
            problems.add([0], name[:100], "This column is not one of an upload's.")
        elif names.count(name) > 1:
            problems.add([0], name, "This column occurs more than once.")
    if problems.found:
        raise InvalidUpload(problems.found)


# --- lines of text -----------------------------------------------------------------------------------------------


def _received(chunks: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    total, sender = 0, iter(chunks)
    while True:
        try:
            chunk = next(sender)
        except StopIteration:
            return
        except Exception as failure:
            # Told apart from our own failures: a connection that broke is an OSError like a full disk.
            raise Interrupted from failure
        total += len(chunk)
        if total > limits.bytes:
            raise errors.UploadTooLarge(f"An upload has at most {limits.bytes} bytes; send less at a time.")
        yield chunk


def _blocks(chunks: Iterable[bytes], first: int, limits: Limits, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """Whole lines of clean text, some `limits.block` bytes at a time, with the number of the first line."""
    rest = bytearray()
    for chunk in _received(chunks, limits):
        for start in range(0, len(chunk), limits.block):
            rest += chunk[start : start + limits.block]
            if len(rest) < limits.block:
                continue
            if end := rest.rfind(b"\n") + 1:
                block = bytes(rest[:end])
                del rest[:end]
                _check_text(block, first, limits, problems)
                yield first, block
                first += block.count(b"\n")
            if len(rest) > limits.line:
                _check_text(bytes(rest), first, limits, problems)
    if rest:
        block = bytes(rest) if rest.endswith(b"\n") else bytes(rest) + b"\n"
        _check_text(block, first, limits, problems)
        yield first, block


def _check_text(block: bytes, first: int, limits: Limits, problems: Problems) -> None:
    ends = np.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")), len(block))
    lengths = np.diff(ends, prepend=-1) - 1
    faults = [
        (int(ends[long]), f"The line is longer than {limits.line} bytes.") for long in _first(lengths > limits.line)
    ]
    if (place := block.find(b"\0")) >= 0:
        faults.append((place, "There is a NUL byte; the text must be UTF-8."))
    if block.count(b"\r") != block.count(b"\r\n") and (lone := re.search(rb"\r(?!\n)", block)):
        faults.append((lone.start(), "There is a carriage return without a line feed; lines end with a line feed."))
    try:
        block.decode()
    except UnicodeDecodeError as failure:
        faults.append((failure.start, "The text is not UTF-8."))
    if faults:
        place, reason = min(faults)
        raise problems.stop(first + block.count(b"\n", 0, place), "", reason)


def _first(mask: Any) -> Any:
    return np.flatnonzero(mask)[:1]


# --- CSV ---------------------------------------------------------------------------------------------------------


def _csv(chunks: Iterable[bytes], schema: Schema, limits: Limits, problems: Problems) -> Parsed:
    names: list[str] = []
    for row, block in _blocks(chunks, 0, limits, problems):
        if row == 0:
            head, _, block = block.partition(b"\n")
            names = _header(head, problems)
            _check_header(names, schema, problems)
        if block:
            yield max(row, 1), _csv_table(block, max(row, 1), names, problems)


def _header(line: bytes, problems: Problems) -> list[str]:
    try:
        return next(csv.reader([line.removeprefix(_BOM).removesuffix(b"\r").decode()]), [])
    except csv.Error:
        raise problems.stop(0, "", "The header cannot be read as CSV.") from None


def _csv_table(block: bytes, first: int, names: list[str], problems: Problems) -> pa.Table:
    def skip(row: Any) -> str:
        reason = f"The row has {row.actual_columns} values, the header {row.expected_columns} columns."
        skipped.append(Problem(first + row.number - 1, "", reason))
        return "skip"

    read = pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1)
    # Every line is a row, or the numbers of the rows would not be those that the sender counts.
    parse = pyarrow.csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip)
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    skipped: list[Problem] = []
    try:
        table = pyarrow.csv.read_csv(pa.BufferReader(block), read, parse, convert)
    except pa.ArrowException:
        table = None
    if skipped:
        raise InvalidUpload([*problems.found, *skipped])
    if table is None or table.num_rows != block.count(b"\n"):
        odd = [index for index, line in enumerate(block.split(b"\n")) if line.count(b'"') % 2]
        raise problems.stop(first + (odd or [0])[0], "", "A quoted value does not end on its line.")
    return table


# --- NDJSON ------------------------------------------------------------------------------------------------------


def _ndjson(chunks: Iterable[bytes], schema: Schema, limits: Limits, problems: Problems) -> Parsed:
    known = kinds(schema)
    types = pa.schema([])
    for row, block in _blocks(chunks, 1, limits, problems):
        if row == 1:
            block = block.removeprefix(_BOM)
            line = block.partition(b"\n")[0]
            del known["reward" if re.search(rb'"outcome"\s*:', line) else "outcome"]  # the first object chooses
            types = _json_types(line, known)
        table = _json_table(block, types)
        yield row, _json_by_line(block, row, known, problems) if table is None else table


def _json_types(line: bytes, known: dict[str, str]) -> pa.Schema:
    """The types of the columns; what may be written in two ways is expected as the first line has it."""
    types = {"name": pa.string(), "whole": pa.int64(), "number": pa.float64(), "label": pa.string(), "flag": pa.bool_()}
    if re.search(rb'"trajectory"\s*:\s*[-0-9]', line):
        types["label"] = pa.int64()
    if re.search(rb'"terminated"\s*:\s*[01]', line):
        types["flag"] = pa.int64()
    return pa.schema([(name, types[kind]) for name, kind in known.items()])


def _json_table(block: bytes, types: pa.Schema) -> pa.Table | None:
    """The rows if each line is one flat object of these types, else None."""
    lines = block.count(b"\n")
    # Arrow's parser crashes the process on lines such as `null`: it is shown flat objects only.
    if not block.startswith(b"{") or {block.count(b"\n{") + 1, block.count(b"{")} != {lines} or b"[" in block:
        return None
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    parse = pyarrow.json.ParseOptions(types, unexpected_field_behavior="error")
    try:
        table = pyarrow.json.read_json(pa.BufferReader(block), read, parse)
    except pa.ArrowException:
        return None
    return table if table.num_rows == lines else None


def _json_by_line(block: bytes, first: int, known: dict[str, str], problems: Problems) -> pa.Table:
    """The same as texts, for rows that mix 1 and true, hold brackets in their texts, or are wrong."""
    columns: dict[str, list[str]] = {name: [] for name in known}
    for row, line in enumerate(block.decode().removesuffix("\n").split("\n"), first):
        try:
            values = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise problems.stop(row, "", "The line is not a JSON object with each name once.")
        for name in values.keys() - known.keys():
            problems.add([row], _printable(name)[:100], "This column is not one of an upload's.")
        for name, kind in known.items():
            text = _text(values.get(name), kind)
            if text is None and kind in ("name", "label"):
                problems.add([row], name, "The value is not text.")
            columns[name].append("?" if text is None else text)  # no number or flag either: named when it is read
    return pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _text(value: Any, kind: str) -> str | None:
    """A JSON value as CSV would have it; None if it is of another type than its column."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if kind in ("name", "label") and _printable(value) == value else None
    if isinstance(value, bool):
        return str(value).lower() if kind == "flag" else None
    if isinstance(value, int):
        return str(value) if kind != "name" else None
    return repr(value) if isinstance(value, float) and kind in ("whole", "number") else None


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # JSON can write halves of surrogate pairs, UTF-8 cannot


# --- Parquet -----------------------------------------------------------------------------------------------------

_PARQUET_TYPES: Final = {
    "name": ("text", (pa.types.is_string, pa.types.is_large_string)),
    "label": ("text or whole numbers", (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)),
    "whole": ("whole numbers", (pa.types.is_integer,)),
    "number": ("numbers", (pa.types.is_floating, pa.types.is_integer)),
    "flag": ("true and false, or 1 and 0", (pa.types.is_boolean, pa.types.is_integer)),
}


def _parquet(chunks: Iterable[bytes], schema: Schema, limits: Limits, problems: Problems, rough: Scratch) -> Parsed:
    with rough.open(UPLOAD, "wb") as copy:  # the footer, at the end, says where everything is
        for chunk in _received(chunks, limits):
            copy.write(chunk)
    row, path, key = 1, rough.folder / UPLOAD, rough.key_of(UPLOAD)
    if not first_reading.survived(path, key, limits.batch, limits.group, limits.rows):
        raise problems.stop(0, "", "The file cannot be read as Parquet.")
    try:
        with first_reading.opened(path, key, []) as file:
            _check_parquet(file, schema, limits, problems)
            names = [name for name in ("unit", "trajectory") if name in file.schema_arrow.names]
        # As dictionaries, names that are short in the file stay so in memory until they have been measured.
        with first_reading.opened(path, key, names) as file:
            for batch in file.iter_batches(limits.batch, use_threads=False):
                batch.validate(full=True)
                yield row, pa.Table.from_batches([batch])
                row += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, KeyError) as failure:
        if isinstance(failure, OSError) and failure.errno is not None:
            raise
        raise problems.stop(row, "", "From this row on the file cannot be read as Parquet.") from None


def ahead(items: Iterator[_T]) -> Iterator[_T]:
    """The next item is made, in a thread, while this one is used."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item


def _check_parquet(file: Any, schema: Schema, limits: Limits, problems: Problems) -> None:
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        columns = [group.column(column) for column in range(group.num_columns)]
        unpacked = sum(column.total_uncompressed_size for column in columns)
        if max(unpacked, group.total_byte_size) > limits.group:
            raise errors.UploadTooLarge(f"A row group has at most {limits.group} bytes unpacked; write smaller ones.")
        for column in columns:
            if "DELTA_BYTE_ARRAY" in column.encodings:  # a few bytes a row, each as long a text as the first
                raise problems.stop(0, column.path_in_schema[:100], "Write the texts plainly or as a dictionary.")
    fields = file.schema_arrow
    _check_header(fields.names, schema, problems)
    for name, kind in kinds(schema).items():
        if name not in fields.names:
            continue
        found = fields.field(name).type
        found = found.value_type if pa.types.is_dictionary(found) else found
        wanted, accepted = _PARQUET_TYPES[kind]
        empty = pa.types.is_null(found) and (kind in ("label", "flag") or name.startswith("next_"))
        if not empty and not any(fits(found) for fits in accepted):
            problems.add([0], name, f"The column does not hold {wanted}.")
    if problems.found:
        raise InvalidUpload(problems.found)


def parse(
    chunks: Iterable[bytes], media_type: str, schema: Schema, limits: Limits, problems: Problems, rough: Scratch
) -> Parsed:
    match media_type.partition(";")[0].strip().lower():
        case "text/csv":
            return _csv(chunks, schema, limits, problems)
        case "application/x-ndjson":
            return _ndjson(chunks, schema, limits, problems)
        case "application/vnd.apache.parquet":
            return _parquet(chunks, schema, limits, problems, rough)
    raise problems.stop(0, "", "Send text/csv, application/x-ndjson or application/vnd.apache.parquet.")
