"""Made-up stays as stored datasets: blocks of Parquet as an upload writes them, in a folder that is thrown away.

Public and seeded; each block has a generator of its own, so that a larger dataset begins with the same stays.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discretion import datasets, stores, uploads
from discretion.learning import policy
from discretion.learning.features import Bins
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.shelves import Manifest, Place, Shelf, Span
from discretion.uploads import Records

_NAME = "stays"


def place(folder: Path) -> Place:
    return Shelf(stores.Folder(folder / "datasets"), folder / "work").place(_NAME)


def store(folder: Path, schema: Schema, units: int, digits: int | None = 3) -> None:
    """Stays of full length that crowd into common states and actions. Rewards have so many digits; None: all that a
    number has, so that hardly any two are the same."""
    where, spans = place(folder), datasets._spans(units, schema)
    manifest = Manifest(units, spans)
    with where.shelf.store.draft(where.name) as draft, ThreadPoolExecutor(os.cpu_count()) as pool:

        def write(index: int) -> None:
            content = datasets._as_parquet(_records(schema, spans[index], index, digits), schema)
            draft.write(*manifest.block(where, index, content))

        list(pool.map(write, range(len(spans))))
        draft.write(*manifest.document(where))
        draft.publish()


def files(folder: Path) -> list[Path]:
    where = place(folder)
    return sorted((folder / "datasets" / where.name).glob("*.parquet"))


def judged(schema: Schema) -> policy.Policy:
    """Another decision at every step, so that a table has as many rows as it can have; of vector states, the same."""
    if isinstance(schema.states, Vector):
        halves = Bins.of(schema.states, schema.actions, {schema.states.columns[0]: [0.0]})
        decided, known = np.array([0, 1]), np.ones(2, dtype=bool)
        return policy.of_table("any", schema, decided, known, np.zeros((schema.horizon, 2)), halves)
    shape = (schema.horizon, schema.count)
    decisions = np.add.outer(np.arange(schema.horizon), np.arange(schema.count)) % schema.actions
    return policy.of_table("any", schema, decisions, np.ones(shape, dtype=bool), np.zeros(shape))


def _records(schema: Schema, span: Span, seed: int, digits: int | None) -> Records:
    draw, (first, last), steps = np.random.default_rng((7, seed)), span, schema.horizon
    units, rows = last - first, (last - first) * steps
    records = np.zeros(rows, uploads.record(schema))
    records["unit"] = np.repeat(np.arange(first, last), steps)
    records["step"] = np.tile(np.arange(1, steps + 1), units)
    visited = _states(schema, draw, (units, steps + 1))
    records["state"] = visited[:, :-1].reshape(rows, *visited.shape[2:])
    records["next"] = visited[:, 1:].reshape(rows, *visited.shape[2:])
    records["known"] = True
    records["action"] = _crowded(draw, schema.actions, 1.5)(rows)
    rewards = draw.random(rows)
    records["reward"] = rewards if digits is None else np.round(rewards, digits)
    return records


def _states(schema: Schema, draw: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.generic]:
    if isinstance(schema.states, Discrete):
        return _crowded(draw, schema.states.count, 1.0)(shape[0] * shape[1]).reshape(shape)
    places = draw.random((*shape, len(schema.states.columns)))
    return np.round(schema.states.low + places * (schema.states.high - schema.states.low), 2)  # as instruments do


def _crowded(draw: np.random.Generator, count: int, power: float) -> Callable[[int], NDArray[np.int64]]:
    """Zipf's law by a table of its quantiles: fast, and near enough."""
    weights = 1.0 / np.arange(1, count + 1) ** power
    size = max(2**16, 4 * count)
    quantiles = np.searchsorted(np.cumsum(weights) / weights.sum(), (np.arange(size) + 0.5) / size)
    return lambda number: quantiles[draw.integers(size, size=number)]
