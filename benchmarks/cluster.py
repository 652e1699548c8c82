"""Beyond one process: sums on a cluster beside sums in process, and two workers beside one.

The data is written block by block as an upload would have stored it, so that 2·10⁸ transitions take minutes to make and
no row of them is ever held twice.
"""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from tests import clusters, dying, services

from benchmarks import scale
from benchmarks.rows import Row, row
from benchmarks.service import _postgres
from discretion import cluster, datasets, memory, requests, sealing, settings, shelves, tables, uploads, worker
from discretion.learning import learners, sums
from discretion.learning.counts import RewardSums, VisitCounts
from discretion.learning.curator import Curator, Summing
from discretion.learning.schemas import Discrete, Schema
from discretion.learning.trajectories import ENDED, Trajectories

HORIZON = 20
SCHEMA = Schema(HORIZON, Discrete(716), 25)
TRANSITIONS = int(os.environ.get("TRANSITIONS", 2 * 10**8))
_NAME = "up_bench"
_ROUNDS = 3
_WHOLE = ("DP-APVI", "DP-PAE")  # the largest tables, and the most passes
_TRAININGS = 8  # that two workers share
_UNITS = 40_000
_HEAVY = {"algorithm": "dp-vapvi", "privacy": {"rho": "0.5"}}


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _sums(Path(folder))
    yield from _workers()


# --- sums --------------------------------------------------------------------------------------------------------


def _written(shelf: shelves.Shelf) -> int:
    """A dataset of made-up stays, sealed if there is a key; how many units."""
    units, draw, place = TRANSITIONS // HORIZON, np.random.default_rng(0), shelf.place(_NAME)
    spans = datasets._spans(units, SCHEMA)
    key = sealing.new_key() if shelf.master_keys() else None
    manifest = shelves.Manifest(units, spans, key)
    with shelf.store.draft(_NAME) as draft:
        for index, span in enumerate(spans):
            draft.write(*manifest.block(place, index, _block(draw, *span)))
        draft.write(*manifest.document(place))
        draft.publish()
    return units


def _block(draw: np.random.Generator, first: int, end: int) -> memoryview:
    rows, kind = (end - first) * HORIZON, uploads.record(SCHEMA)
    columns: dict[str, Any] = {
        "unit": np.repeat(np.arange(first, end), HORIZON),
        "step": np.tile(np.arange(1, HORIZON + 1, dtype=kind["step"]), end - first),
        "action": draw.integers(SCHEMA.actions, size=rows, dtype=np.int32),
        "reward": np.round(draw.random(rows), 3),
        "state0": draw.integers(SCHEMA.count, size=rows, dtype=np.int32),
        "final0": np.zeros(rows, np.int32),
        "ending": np.full(rows, ENDED, np.int8),
    }
    file = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), file, compression="snappy")
    return memoryview(file.getvalue()).cast("B")


def _statistics() -> list[sums.Statistic]:
    return [VisitCounts(SCHEMA), RewardSums(SCHEMA)]


def _digest(totals: list[Any]) -> str:
    return hashlib.sha256(b"".join(total.tobytes() for total in totals)).hexdigest()


def _timed(make: Summing, data: Trajectories) -> tuple[float, str]:
    began = time.perf_counter()
    totals = make(_statistics(), data)
    return time.perf_counter() - began, _digest(totals)


def _trained(name: str, place: shelves.Place, found: settings.Settings | None = None) -> float:
    """Seconds of a whole training in process, or on a cluster: both keep what they have read."""
    asked = scale.asked(name, SCHEMA, datasets.units(place))
    began = time.perf_counter()
    data = datasets.load(place, SCHEMA, room=memory.room(asked))
    with ExitStack() as stack:
        totals: Summing = sums.totals
        if found is not None:
            totals = stack.enter_context(cluster.engine(found, _NAME, memory.summing(asked))).totals
        learners.learn(Curator(data, scale.RHO, None, totals), asked.privacy, asked.parameters)
    return time.perf_counter() - began


def _summed_elsewhere(found: settings.Settings, data: Trajectories) -> tuple[float, str]:
    """By machines that have read nothing yet, as in process."""
    with cluster.engine(found, _NAME, 0) as engine:
        return _timed(engine.totals, data)


def _sums(folder: Path) -> Iterator[Row]:
    (folder / "store").mkdir(mode=0o700)
    (folder / "keys").write_text(sealing.new_key().hex())
    places: dict[str, Any] = {"store": f"file://{folder / 'store'}", "store_key_file": folder / "keys"}
    with clusters.cluster(folder / "cluster", 2, **places) as running:
        found = settings.read(services.environment(folder, **running.settings))
        with closing(shelves.opened(found)) as shelf:
            _written(shelf)
            place = shelf.place(_NAME)
            data = datasets.load(place, SCHEMA)
            memory.reuse()  # as a training does
            rounds = [(_timed(sums.totals, data), _summed_elsewhere(found, data)) for _ in range(_ROUNDS)]
            whole = {name: [(_trained(name, place), _trained(name, place, found)) for _ in range(2)] for name in _WHOLE}
    assert len({digest for each in rounds for _, digest in each}) == 1, "the cluster's integers are others"
    here, there = (min(seconds for seconds, _ in each) for each in zip(*rounds, strict=True))
    name, peer = f"{TRANSITIONS:.0e} transitions on a cluster of two", "in process, two threads"
    rates = (TRANSITIONS / there, peer, TRANSITIONS / here)
    yield row(f"sums of {name}, bit-identical", "transitions/s", *rates, "ratio ≥ 0.7")
    for learner, timed in whole.items():
        here, there = (min(seconds) for seconds in zip(*timed, strict=True))
        yield row(f"{learner} of {name}", "s", there, f"{peer}, which keeps what it has read", here, "none: for scale")


# --- many trainings ----------------------------------------------------------------------------------------------


def _workers() -> Iterator[Row]:
    """With DISCRETION_TRAINING_PROCESSORS=1, and as shipped: one worker has all, two a half each. Without the wait for
    the public schedule, which would leave processors idle and flatter two workers."""
    with tempfile.TemporaryDirectory() as folder, _postgres() as url:
        queue = dying.Queue(Path(folder), url)
        made = [queue.dataset(_WIDE, units=_UNITS) for _ in range(2)]
        rounds = [[_rate(queue, made, *each) for each in ((1, 1), (2, 1), (1, 0), (2, 0))] for _ in range(2)]
        queue.close()
    alone, together, shipped, both = (max(rates) for rates in zip(*rounds, strict=True))
    name = "two workers, each on a core of its own, trainings bound by the processor"
    yield row(name, "trainings/h", together, "one worker", alone, "ratio ≥ 1.7")
    name = "two workers, as shipped, trainings bound by the processor"
    yield row(name, "trainings/h", both, "one worker, which has both cores", shipped, "ratio > 1")


def _rate(queue: dying.Queue, made: list[str], workers: int, processors: int) -> float:
    """Trainings an hour, from the first claim to the last end, of a queue that is full from the start."""
    request = _HEAVY | {"parameters": {"features": {"kind": "blocks", "terms": ["1", *_COLUMNS]}}}
    trainings = [queue.training(made[index % 2], request) for index in range(_TRAININGS)]
    with ExitStack() as running:
        for _ in range(workers):
            command = ("benchmarks.cluster", "unscheduled")
            running.enter_context(queue.running(*command, workers=workers, training_processors=processors))
        services.wait_until(lambda: any(queue.row(training).started_at for training in trainings))
        began = time.perf_counter()
        for training in trainings:
            assert queue.ended(training, 3600).state == "released"
        seconds = time.perf_counter() - began
    for training in trainings:
        assert [each.kind for each in queue.rows(tables.ledger, training)].count("charge") == 1
    return 3600 * _TRAININGS / seconds


def _unscheduled() -> None:
    """A worker whose results appear when they are ready, for this measurement alone."""
    requests.due = lambda usual, elapsed: elapsed
    worker.Worker(settings.read()).run()


_COLUMNS = [f"x{index}" for index in range(12)]
_WIDE = {
    "horizon": 12,
    "states": {"kind": "vector", "columns": _COLUMNS, "bounds": [[0, 1]] * len(_COLUMNS)},
    "actions": {"count": 3},
    "reward": {"low": 0, "high": 1},
}

if __name__ == "__main__":
    if sys.argv[1:] == ["unscheduled"]:
        _unscheduled()
    else:
        for measured in measure():
            print(measured)
