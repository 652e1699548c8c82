"""One machine at 10⁷ stays: the learners beside reading the same columns once, and beside bare products; how their time
grows.

Everything that is timed runs in a process of its own, on datasets as an upload stores them, so that its peak of memory
is its own as well.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet

from benchmarks import stays
from benchmarks.rows import Row, in_turns, peak_megabytes, quickest_and_largest, row
from discretion import cli, datasets, memory, requests
from discretion.learning import apvi, apvi_stationary, evaluators, learners, pae, sums, vapvi, vapvi_stationary
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.features import Blocks
from discretion.learning.schemas import Discrete, Schema, Vector

UNITS, VECTOR_UNITS = 10**7, 10**6
HORIZON, STATES, ACTIONS = 20, 716, 25
RHO = Fraction(1)
ROUNDS = 14  # of the pooled learner: as many products with the features
_READING = "pyarrow reading the same columns once, and numpy.bincount"
_PRODUCTS = "the bare BLAS products on the same floats, in memory"
COUNTING = ("DP-APVI", "DP-APVI, first visits", "DP-PAE")
POOLED, BY_STEP = "DP-VAPVI, pooled", "DP-VAPVI, by step"
ROUND_BY_ROUND, BY_TABLE, REGRESSING = "DP-FQE, rounds", "DP-FQE, table", "DP-FQE, vector states"
VECTOR = (POOLED, BY_STEP, REGRESSING)
PARAMETERS: dict[str, Callable[[Schema], learners.Parameters]] = {
    "DP-APVI": lambda schema: apvi.Parameters(),
    "DP-APVI, first visits": lambda schema: apvi_stationary.Parameters(),
    "DP-PAE": lambda schema: pae.Parameters(),
    POOLED: lambda schema: vapvi_stationary.Parameters(_columns(schema), rounds=ROUNDS),
    BY_STEP: lambda schema: vapvi.Parameters(_columns(schema)),
    ROUND_BY_ROUND: lambda schema: evaluators.Parameters(way="rounds"),
    BY_TABLE: lambda schema: evaluators.Parameters(way="table"),
    REGRESSING: lambda schema: evaluators.Parameters(features=_columns(schema)),
}


def measure() -> Iterator[Row]:
    for part in (_counting, _paying, _regressing):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            yield from part(Path(folder))


def discrete(states: int = STATES, actions: int = ACTIONS, horizon: int = HORIZON) -> Schema:
    return Schema(horizon, Discrete(states), actions)


def vector(columns: int, actions: int = 5, horizon: int = HORIZON) -> Schema:
    """States of so many columns; with the constant and five actions that is 5·(columns + 1) features."""
    return Schema(horizon, Vector(tuple(f"x{i}" for i in range(columns)), ((-1.0, 1.0),) * columns), actions)


def _columns(schema: Schema) -> Blocks:
    """The constant and every column, of each action."""
    assert isinstance(schema.states, Vector)
    return Blocks(schema.states, schema.actions, ("1", *schema.states.columns))


def asked(name: str, schema: Schema, units: int) -> requests.Asked:
    parameters = PARAMETERS[name](schema)
    return requests.Asked(schema, None, units, learners.algorithm_of(parameters), Concentrated(RHO), parameters)


def _counting(folder: Path) -> Iterator[Row]:
    stays.store(folder, discrete(), UNITS)
    yield from _beside_reading(COUNTING, folder, "")


def _paying(folder: Path) -> Iterator[Row]:
    """No two rewards are the same: of the learners that count, the one that asks for them most often."""
    stays.store(folder, discrete(), UNITS, digits=None)
    yield from _beside_reading(("DP-PAE",), folder, ", continuous rewards")


def _beside_reading(names: Sequence[str], folder: Path, of: str) -> Iterator[Row]:
    found = _measured(("read", *names), folder, discrete())
    peer, memory = found.pop("read")
    for name, (seconds, megabytes) in found.items():
        where = f"{name}{of}, 2·10⁸ transitions, S=716 A=25"
        yield row(where, "s", seconds, _READING, peer, "<= 3")
        yield row(f"{where}: peak memory", "MB", megabytes, _READING, memory, "value <= 2048")


def _regressing(folder: Path) -> Iterator[Row]:
    """By step, more blocks than stay in memory are read again for each step."""
    stays.store(folder, vector(16), VECTOR_UNITS)
    found = _measured(("read", "products", "block products", POOLED, BY_STEP), folder, vector(16))
    (reading, least), (peer, _), (narrow, _), (seconds, megabytes), (by_step, most) = found.values()
    size = "K=10⁶ H=20 d=85 in 5 blocks"
    where = f"{POOLED}, {size}"
    yield row(where, "s", seconds, _PRODUCTS, peer, "<= 5")
    yield row(where, "s", seconds, "the same without the zeros of other actions' blocks", narrow, "none: for scale")
    floats = VECTOR_UNITS * HORIZON * 85 * 8 / 2**20
    yield row(f"{where}: peak memory", "MB", megabytes, "the floats", floats, "value <= 2048")
    where = f"{BY_STEP}, {size}"
    yield row(where, "s", by_step, _READING, reading, "none: for scale")
    yield row(where, "s", by_step, POOLED, seconds, "none: for scale")
    yield row(f"{where}: peak memory", "MB", most, _READING, least, "value <= 2048")


def _measured(jobs: Sequence[str], folder: Path, schema: Schema) -> dict[str, tuple[float, float]]:
    """Seconds of the quickest of three rounds in which all take turns, and megabytes of the largest."""
    works = {job: functools.partial(isolated, job, folder, schema) for job in jobs}
    return {job: quickest_and_largest(rounds) for job, rounds in in_turns(works).items()}


# --- in processes of their own -----------------------------------------------------------------------------------


def isolated(job: str, folder: Path, schema: Schema, threads: int = 0) -> tuple[float, float]:
    """Seconds and peak megabytes of a job on the dataset in the folder."""
    states = schema.states.count if isinstance(schema.states, Discrete) else -len(schema.states.columns)
    shape = json.dumps([states, schema.actions, schema.horizon])
    command = [sys.executable, "-m", "benchmarks.scale", job, str(folder), shape, str(threads)]
    environment = os.environ | cli._RESERVED  # as a worker has it
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def _job(name: str, folder: Path, schema: Schema) -> Callable[[], object]:
    if name == "read":
        return lambda: _read(folder, schema)
    if name in ("products", "block products"):
        return _products(VECTOR_UNITS * HORIZON, 85 if name == "products" else 17)
    place = stays.place(folder)
    wanted = asked(name, schema, datasets.units(place))
    privacy, parameters = wanted.privacy, wanted.parameters
    data = datasets.load(place, schema, room=memory.room(wanted), whole=memory.keeps_blocks(wanted))
    if isinstance(parameters, evaluators.Parameters):
        judged = stays.judged(schema)
        return lambda: evaluators.evaluate(Curator(data, RHO), privacy, parameters, judged)
    return lambda: learners.learn(Curator(data, RHO), privacy, parameters)


def _read(folder: Path, schema: Schema) -> None:
    """What nobody can do without: every column once, and one table of counts, of vector states by action alone."""
    numbered = isinstance(schema.states, Discrete)
    states, actions = schema.count if numbered else 1, schema.actions
    total = np.zeros(schema.horizon * states * actions, dtype=np.int64)
    for file in stays.files(folder):
        table = pyarrow.parquet.read_table(file)
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        place = columns["state0"] if numbered else 0
        keys = ((columns["step"] - 1) * states + place) * actions + columns["action"]
        total += np.bincount(keys, minlength=len(total))


def _products(rows: int, width: int) -> Callable[[], object]:
    """One Gram matrix, and a product with the residuals for each round; a fifth of the rows in memory, five times."""
    draw = np.random.default_rng(0)
    phi, residuals = draw.random((rows // 5, width)), draw.random(rows // 5)

    def work() -> None:
        for _ in range(5):
            phi.T @ phi
            for _ in range(ROUNDS):
                phi.T @ residuals

    return work


def _main(name: str, folder: str, shape: str, threads: str) -> None:
    states, actions, horizon = json.loads(shape)
    schema = vector(-states, actions, horizon) if states < 0 else discrete(states, actions, horizon)
    if int(threads):
        sums.processors = lambda: int(threads)
    memory.reuse()
    work = _job(name, Path(folder), schema)
    began = time.perf_counter()
    work()
    print(time.perf_counter() - began, peak_megabytes())


if __name__ == "__main__":
    _main(*sys.argv[1:])
