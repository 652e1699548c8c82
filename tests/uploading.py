"""Uploads for tests: rows in each of the three formats, what is said about a bad one, and what is read back."""

import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from discretion import datasets, errors, shelves, stores
from discretion.formats import Limits
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Trajectories

CSV, NDJSON, PARQUET = "text/csv", "application/x-ndjson", "application/vnd.apache.parquet"
TYPES = (CSV, NDJSON, PARQUET)
SCHEMA = Schema(3, Discrete(5), 2, per_unit=2)
PLANE = Schema(3, Vector(("age", "dose"), ((0.0, 100.0), (-1.0, 1.0))), 2, per_unit=2)
HEADER = b"unit,step,state,action,reward\n"
Row = dict[str, Any]
# Everything about a unit but where it is stored: for each trajectory its records, how it ended, and what came last.
Unit = tuple[tuple[tuple[tuple[Any, ...], ...], int, Any], ...]


def names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, names(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows([{k: str(v).lower() if isinstance(v, bool) else v for k, v in row.items()} for row in rows])
    return text.getvalue().encode()


def as_ndjson(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[Row], **options: Any) -> bytes:
    sink = io.BytesIO()
    table = pa.table({name: [row.get(name) for row in rows] for name in names(rows)})
    pyarrow.parquet.write_table(table, sink, **options)
    return sink.getvalue()


def written(rows: list[Row], media_type: str) -> bytes:
    return {CSV: as_csv, NDJSON: as_ndjson, PARQUET: as_parquet}[media_type](rows)


def place(folder: Path) -> shelves.Place:
    """A dataset's place in a store that is nothing but a folder."""
    return shelf(folder.parent).place(folder.name)


def shelf(folder: Path) -> shelves.Shelf:
    return shelves.Shelf(stores.Folder(folder), folder.with_name(f"{folder.name}-work"))


def pieces(data: bytes, size: int = 7) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def stored(folder: Path, schema: Schema) -> dict[int, Unit]:
    return units_of(datasets.load(place(folder), schema))


def units_of(data: Trajectories) -> dict[int, Unit]:
    """The units by position."""
    units: dict[int, list[Any]] = {}
    for block in data.blocks:
        rewards = block.rewards if block.prices is None else block.prices[block.rewards]
        assert block.span is not None
        for index, unit in enumerate(block.units.tolist()):
            assert block.span[0] <= unit < block.span[1]
            steps = range(int(block.lengths[index]))
            columns = (block.states[:, index], block.actions[:, index], rewards[:, index])
            records = tuple(tuple(_plain(column[step]) for column in columns) for step in steps)
            ending = int(block.endings[index])
            units.setdefault(unit, []).append(
                (records, ending, _plain(block.final[index]) if ending == CUT_BEFORE else None)
            )
    return {unit: tuple(trajectories) for unit, trajectories in units.items()}


def _plain(value: Any) -> Any:
    return tuple(value.tolist()) if value.ndim else value.item()


def row(unit: object = "a", step: object = 1, **changed: Any) -> Row:
    return {"unit": unit, "step": step, "state": 0, "action": 0, "reward": 0.5} | changed


def at(step: object = 1, **changed: Any) -> Row:
    return {"unit": "a", "step": step, "age": 50.5, "dose": 0.25, "action": 0, "reward": 0.5} | changed


def refused(
    data: bytes, media_type: str, folder: Path, schema: Schema = SCHEMA, limits: Limits | None = None
) -> list[tuple[int, str]]:
    with pytest.raises(errors.InvalidUpload) as refusal:
        datasets.accept(pieces(data, 4096), media_type, schema, place(folder / "set"), limits)
    assert list(folder.iterdir()) == []
    return [(problem.row, problem.column) for problem in refusal.value.problems]


def reasons(data: bytes, media_type: str, folder: Path, limits: Limits | None = None) -> list[str]:
    with pytest.raises(errors.InvalidUpload) as refusal:
        datasets.accept([data], media_type, SCHEMA, place(folder / "set"), limits)
    assert list(folder.iterdir()) == []
    return [problem.reason for problem in refusal.value.problems]


def trajectory(unit: str, length: int, schema: Schema = SCHEMA, salt: int = 0, **last: Any) -> list[Row]:
    rows = []
    for step in range(1, length + 1):
        number = 7 * salt + 3 * step + sum(unit.encode())
        state = {"state": number % 5} if schema is SCHEMA else {"age": number % 97 + 0.1, "dose": number % 3 / 3}
        rows.append({"unit": unit, "step": step} | state | {"action": number % 2, "reward": number % 11 / 11})
    return [*rows[:-1], rows[-1] | last]


def some_rows(units: int = 4, schema: Schema = SCHEMA) -> list[Row]:
    """Ragged: full and short, ended and cut, one or two trajectories."""
    rows = []
    for index in range(units):
        unit = f"unit-{index}"
        rows += trajectory(unit, 1 + index % 3, schema, terminated=index % 4 != 1)
        if index % 2:
            rows += trajectory(unit, 3, schema, salt=1)
    return rows


def expected(rows: Iterable[Row], schema: Schema = SCHEMA) -> list[Unit]:
    """The units as the rules of the upload have it, row by row; their trajectories restart at step 1."""
    names = ("state",) if schema is SCHEMA else ("age", "dose")

    def plain(row: Row, prefix: str) -> Any:
        values = tuple(row.get(prefix + name) for name in names)
        return None if None in values else values[0] if len(values) == 1 else values

    units = []
    for _, mine in itertools.groupby(rows, key=lambda row: row["unit"]):
        trajectories: list[list[Row]] = []
        for row in mine:
            if row["step"] == 1:
                trajectories.append([])
            trajectories[-1].append(row)
        unit = []
        for steps in trajectories:
            said = steps[-1].get("terminated")
            ended = said is True if len(steps) == schema.horizon else said is not False
            final = None if ended else plain(steps[-1], "next_")
            ending = ENDED if ended else CUT if final is None else CUT_BEFORE
            unit.append((tuple((plain(row, ""), row["action"], row["reward"]) for row in steps), ending, final))
        units.append(tuple(unit))
    return units


def same(stored: dict[int, Unit], units: list[Unit]) -> bool:
    return sorted(stored) == list(range(len(units))) and Counter(stored.values()) == Counter(units)


def endings(rows: list[Row], media_type: str, folder: Path, schema: Schema = SCHEMA) -> list[tuple[int, Any]]:
    datasets.accept([written(rows, media_type)], media_type, schema, place(folder / "set"))
    units = stored(folder / "set", schema)
    return [(ending, final) for unit in units.values() for _, ending, final in unit]
