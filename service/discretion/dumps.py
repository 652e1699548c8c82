"""The tables as text, the same for both databases: a compressed file of JSON lines for each table.

The first line names the columns, every further one is a row, in the order of the primary key. Numbers, texts, truth
values and null are JSON's own; bytes are `{"base64": "…"}`. Nothing else occurs. A dump is read into a schema of the
revision that it was written from, whatever the database, and migrated from there.
"""

import base64
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from discretion import errors

# Who was signed in, and which uploads were under way: neither outlives the service that they belong to. The revision
# is the backup's to say.
LEFT_OUT: Final = ("sessions", "uploads", "alembic_version")
_SUFFIX: Final = ".jsonl.gz"


def write(connection: sa.Connection, folder: Path) -> None:
    """Every table, as one snapshot sees it."""
    folder.mkdir(mode=0o700)
    for table in _tables(connection).sorted_tables:
        if table.name not in LEFT_OUT:
            _write(connection, table, folder / (table.name + _SUFFIX))


def _tables(connection: sa.Connection) -> sa.MetaData:
    """As they are in this database, whatever its revision."""
    reflected = sa.MetaData()
    reflected.reflect(connection)
    return reflected


def _write(connection: sa.Connection, table: sa.Table, path: Path) -> None:
    question = table.select().order_by(*table.primary_key.columns)
    found = connection.execution_options(yield_per=_at_once(table)).execute(question)
    with path.open("xb") as raw:
        # Without a name or a time: the same rows are the same bytes.
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            file.write(_line([column.name for column in table.columns]))
            for row in found:
                file.write(_line([_said(value) for value in row]))
        raw.flush()
        os.fsync(raw.fileno())


def _at_once(table: sa.Table) -> int:
    """Rows in memory at a time: a drawn value may take megabytes, and so may a document."""
    kinds = [column.type for column in table.columns]
    if any(isinstance(kind, sa.LargeBinary) for kind in kinds):
        return 1
    return 10 if any(isinstance(kind, sa.Text) for kind in kinds) else 1000


def _line(values: list[Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _said(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes | memoryview) else value


def _meant(value: Any) -> Any:
    return base64.b64decode(value["base64"], validate=True) if isinstance(value, dict) else value


def rows(folder: Path, table: str) -> Iterator[dict[str, Any]]:
    """What a dump holds of a table."""
    path = folder / (table + _SUFFIX)
    try:
        with gzip.open(path, "rb") as file:
            names = json.loads(file.readline())
            for line in file:
                yield dict(zip(names, map(_meant, json.loads(line)), strict=True))
    except (ValueError, KeyError, TypeError, EOFError, OSError, zlib.error):
        raise errors.InvalidBackup(f"The table {table} of this backup cannot be read.") from None


def load(connection: sa.Connection, folder: Path) -> None:
    """Into empty tables of the dump's own revision. A table that this revision does not have is refused."""
    reflected = _tables(connection)
    dumped = {path.name.removesuffix(_SUFFIX) for path in folder.iterdir()}
    if unknown := dumped - set(reflected.tables):
        raise errors.InvalidBackup(f"This backup has tables that its revision does not know: {', '.join(unknown)}.")
    for table in reflected.sorted_tables:
        if table.name in dumped:
            for some in _batches(rows(folder, table.name), _at_once(table)):
                connection.execute(table.insert(), some)
    if connection.dialect.name == "postgresql":
        _go_on_counting(connection, reflected)


def _batches(found: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for row in found:
        some.append(row)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def _go_on_counting(connection: sa.Connection, reflected: sa.MetaData) -> None:
    """PostgreSQL counts apart from the rows: the next number must be a new one."""
    for table in reflected.sorted_tables:
        for column in table.primary_key.columns:
            counted = sa.func.pg_get_serial_sequence(table.name, column.name)
            if connection.execute(sa.select(counted)).scalar() is not None:
                last = sa.select(sa.func.max(column)).scalar_subquery()
                connection.execute(sa.select(sa.func.setval(counted, sa.func.coalesce(last, 1), last.is_not(None))))
