"""Processes whose memory is looked at: a worker with one training that asks for more than it may have, and a learner
that says how much it took.

`python -m tests.hungry work` is the worker; of its trainings, those of `UNITS` units take `TOO_MUCH` on top of what
learning takes; WHOLE in the environment says how many megabytes its machine has. `python -m tests.hungry cluster work`
is a machine of a cluster that takes `TOO_MUCH` for every share. `python -m tests.hungry learn FOLDER CASE` learns one
of `CASES` from stored stays, and `large` one of `LARGE`, within a fence of what `memory.need` says, and prints the
bytes that were needed at most, by the kernel's count, and those that it says; `elsewhere` is `learn` with sums from the
cluster that the settings name. `python -m tests.hungry bare FOLDER LEARNER` learns by one thread with nothing kept from
one pass to the next, and prints the bytes alone. `python -m tests.hungry draw FOLDER DATABASE` learns the one training
of a queue, as far as its release, as if it were killed there; `resume` does it again from what was drawn, and releases;
`derive` makes a further policy of that.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from benchmarks import scale, stays
from benchmarks.rows import peak_megabytes

from discretion import (
    certificates,
    cli,
    cluster,
    database,
    datasets,
    memory,
    processes,
    requests,
    runs,
    settings,
    tables,
    trainings,
)
from discretion.journals import Journal
from discretion.learning import evaluators, learners, sums
from discretion.learning.curator import Curator, Summing
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import Trajectories

UNITS = 37
LIMIT = 700  # megabytes
TOO_MUCH = 2 * LIMIT * memory.MEGABYTE

_COLUMNS = tuple(f"x{index}" for index in range(12))


def _vector(columns: int) -> Vector:
    return Vector(_COLUMNS[:columns], ((-1.0, 1.0),) * columns)


def _blocks(columns: int) -> dict[str, Any]:
    return {"features": {"kind": "blocks", "terms": ["1", *_COLUMNS[:columns]]}}


def _hinges(columns: int, each: int) -> dict[str, Any]:
    named, places = _COLUMNS[:columns], np.linspace(-0.9, 0.9, each).tolist()
    hinges = [{"hinge": name, "at": place, "side": "above"} for name in named for place in places]
    return {"features": {"kind": "blocks", "terms": ["1", *named, *hinges]}}


def _cut(*cells: int) -> dict[str, Any]:
    """Bins of so many cells along each column."""
    edges = (np.linspace(-1, 1, number + 1)[1:-1].tolist() for number in cells)
    return {"features": {"kind": "bins", "edges": dict(zip(_COLUMNS, edges, strict=False))}}


def _table(states: int, actions: int, width: int) -> dict[str, Any]:
    """In as many digits as there can be, as sent."""
    values = np.random.default_rng(1).random((states, actions, width)) / np.sqrt(width)
    return {"features": {"kind": "table", "values": values.tolist()}}


_Case = tuple[Schema, str, dict[str, Any] | Callable[[], dict[str, Any]]]

# So much ρ that no row is left undrawn: schema, algorithm and parameters of each, or how these are made.
CASES: dict[str, _Case] = {
    "apvi": (Schema(4, Discrete(150), 20), "dp-apvi", {}),
    "apvi, two steps": (Schema(2, Discrete(250), 20), "dp-apvi", {}),
    "apvi, first visits": (Schema(4, Discrete(400), 20), "dp-apvi", {"dynamics": "stationary"}),
    "pae": (Schema(10, Discrete(20_000), 20), "dp-pae", {}),
    "vapvi, pooled": (Schema(10, _vector(3), 4), "dp-vapvi", _blocks(3) | {"dynamics": "stationary"}),
    "vapvi, blocks": (Schema(10, _vector(3), 4), "dp-vapvi", _blocks(3)),
    "vapvi, blocks of many columns": (Schema(20, _vector(12), 20), "dp-vapvi", _blocks(12)),
    "vapvi, blocks of many terms": (Schema(20, _vector(3), 4), "dp-vapvi", _hinges(3, 20)),
    "vapvi, bins": (Schema(20, _vector(3), 20), "dp-vapvi", _cut(10, 20, 25)),
    "vapvi, a table": (Schema(10, Discrete(5000), 4), "dp-vapvi", lambda: _table(5000, 4, 30)),
    "vapvi, a table, as printed": (
        Schema(20, Discrete(5000), 4),
        "dp-vapvi",
        lambda: _table(5000, 4, 30) | {"calibration": "paper"},
    ),
    "fqe, a table": (Schema(30, Discrete(1500), 4), "dp-fqe", {"way": "table"}),
    "fqe, rounds": (Schema(30, Discrete(20_000), 20), "dp-fqe", {"way": "rounds"}),
    "fqe, vectors": (Schema(10, _vector(12), 4), "dp-fqe", _blocks(12)),
}
# As many states as there may be, of which these units fill only some rows.
LARGE: dict[str, _Case] = {
    "apvi": (Schema(4, Discrete(100_000), 4), "dp-apvi", {}),
    "apvi, as many decisions": (Schema(20, Discrete(100_000), 25), "dp-apvi", {}),
    "pae": (Schema(4, Discrete(100_000), 4), "dp-pae", {}),
    "apvi, first visits": (Schema(4, Discrete(100_000), 4), "dp-apvi", {"dynamics": "stationary"}),
    "fqe": (Schema(4, Discrete(100_000), 4), "dp-fqe", {}),
    "vapvi, a table": (Schema(2, Discrete(100_000), 2), "dp-vapvi", lambda: _table(100_000, 2, 3)),
}
# Schema, number of units, algorithm and parameters of rehearsals: of many stays, several of each unit, a clinic that is
# large, many actions, and vector states.
REHEARSED: dict[str, tuple[Schema, int, str, dict[str, Any]]] = {
    "stays": (Schema(20, Discrete(100), 4), 10**7, "dp-apvi", {}),
    "several stays of each": (Schema(20, Discrete(100), 4, per_unit=2), 10**7, "dp-pae", {}),
    "a clinic": (Schema(2, Discrete(200_000), 5), 10**4, "dp-pae", {}),
    "many actions": (Schema(1, Discrete(100), 50), 10**6, "dp-apvi", {"dynamics": "stationary"}),
    "vectors": (Schema(20, _vector(12), 4), 15_000, "dp-vapvi", _blocks(12) | {"dynamics": "stationary"}),
    "vectors, by step": (Schema(2, _vector(3), 4), 200_000, "dp-vapvi", _hinges(3, 10)),
    "vectors, bins": (Schema(20, _vector(3), 20), 150_000, "dp-vapvi", _cut(10, 20)),
    "vectors, many actions": (Schema(2, _vector(3), 50), 100_000, "dp-vapvi", _blocks(3)),
}
# Of which what dp-apvi draws is most of the memory.
KEPT = Schema(20, Discrete(1000), 2)
# The first so large that a machine makes only one share; of the other, fewer steps, which are summed one by one.
ELSEWHERE: dict[str, _Case] = CASES | {
    "apvi, a large table": (Schema(20, Discrete(1600), 2), "dp-apvi", {}),
    "vapvi, a table": (Schema(4, Discrete(5000), 4), "dp-vapvi", lambda: _table(5000, 4, 30)),
}
STORED = 20_000  # units of each
RHO = "1000000"


def _work() -> None:
    learn = learners.learn

    def hungry(curator: Curator, *rest: Any) -> Any:
        if curator.units == UNITS:
            np.ones(TOO_MUCH, np.uint8)
        return learn(curator, *rest)

    vars(learners)["learn"] = hungry
    if "WHOLE" in os.environ:
        vars(memory)["machine"] = lambda: int(os.environ["WHOLE"]) * memory.MEGABYTE
    cli.app(["work"])


def _machine() -> None:
    partials = sums.partials

    def hungry(*arguments: Any, **named: Any) -> Any:
        np.ones(TOO_MUCH, np.uint8)
        return partials(*arguments, **named)

    vars(sums)["partials"] = hungry
    cli.app()


def request(algorithm: str, parameters: dict[str, Any]) -> dict[str, Any]:
    asked = {"algorithm": algorithm, "privacy": {"rho": RHO}, "parameters": parameters}
    return asked | ({"policy": "pol_1"} if algorithm == evaluators.NAME else {})


def asked_of(case: _Case) -> requests.Asked:
    schema, algorithm, given = case
    return requests.of(schema, None, STORED, request(algorithm, given if isinstance(given, dict) else given()))


def _fenced(asked: requests.Asked, folder: Path) -> Trajectories:
    """The stays, for a process that takes no more from here on than what is said."""
    processes.fence(memory.need(asked))
    memory.reuse()
    return datasets.load(stays.place(folder), asked.schema, room=memory.room(asked), whole=memory.keeps_blocks(asked))


def _learn(case: _Case, folder: Path, *, elsewhere: bool = False) -> None:
    asked = asked_of(case)
    trajectories = _fenced(asked, folder)
    with contextlib.ExitStack() as stack:
        totals: Summing = sums.totals
        if elsewhere:
            totals = stack.enter_context(summed_elsewhere(asked, folder)).totals
        _make(asked, Curator(trajectories, Fraction(RHO), None, totals))
    _say(memory.need(asked))


def summed_elsewhere(asked: requests.Asked, folder: Path) -> contextlib.AbstractContextManager[cluster.Engine]:
    need, whole = memory.summing(asked), memory.keeps_blocks(asked)
    return cluster.engine(settings.read(), stays.place(folder).name, need, whole=whole)


def bare(name: str) -> Schema:
    """Whose tables are small, so that blocks are most of what is taken."""
    return scale.vector(4, 3, 10) if name in scale.VECTOR else scale.discrete(30, 3, 10)


def _bare(folder: Path, name: str) -> None:
    sums.processors = lambda: 1  # how many threads happen to hold their most at once is luck
    place = stays.place(folder)
    asked = scale.asked(name, bare(name), datasets.units(place))
    memory.reuse()
    trajectories = datasets.load(place, asked.schema, room=0, whole=memory.keeps_blocks(asked))
    _make(asked, Curator(trajectories, scale.RHO))
    print(round(peak_megabytes() * memory.MEGABYTE))


def _make(asked: requests.Asked, curator: Curator) -> None:
    if isinstance(asked.parameters, evaluators.Parameters):
        evaluators.evaluate(curator, asked.privacy, asked.parameters, stays.judged(asked.schema))
    else:
        made = learners.learn(curator, asked.privacy, asked.parameters)
        row = certificates.LedgerRow("pop_1", 1, "ab" * 32, asked.cost)
        json.dumps(certificates.certify(made, requests.certified(asked), curator.log, row, certificates.generate_key()))


def _go_on(folder: Path, url: str, *, release: bool) -> None:
    """As a worker does with what it or another left."""
    engine, now = database.engine(url), datetime.now(UTC)
    with database.transaction(engine) as connection:
        held = runs.claim(connection, actor="worker", at=now, lease=timedelta(0))
        assert held is not None
        _, asked, paid = runs.work(connection, held)
    journal = Journal(engine, held, folder / "heads", lambda: None)
    curator = Curator(_fenced(asked, folder), Fraction(RHO), journal)
    learned = learners.learn(curator, asked.privacy, asked.parameters)
    made, certificate = trainings.certify(learned, asked, curator.log, paid, certificates.generate_key())
    if release:
        with database.transaction(engine) as connection:
            runs.release(connection, held, made, certificate, at=now)
    _say(memory.need(asked))


def _derive(url: str) -> None:
    engine = database.engine(url)
    with database.snapshot(engine) as connection:
        (training,) = connection.execute(sa.select(tables.trainings.c.id)).scalars()
        wanted = trainings.derivation(connection, training, {})
        said = memory.deriving(wanted.before) + memory.PROGRAM
        processes.fence(said)
        trainings.derive(connection, training, wanted, certificates.generate_key())
    _say(said)


def _say(said: int) -> None:
    print(round(peak_megabytes() * memory.MEGABYTE), said)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["work"]:
            _work()
        case ["cluster", *_]:
            _machine()
        case ["learn", folder, name]:
            _learn(CASES[name], Path(folder))
        case ["large", folder, name]:
            _learn(LARGE[name], Path(folder))
        case ["elsewhere", folder, name]:
            _learn(ELSEWHERE[name], Path(folder), elsewhere=True)
        case ["bare", folder, name]:
            _bare(Path(folder), name)
        case ["draw" | "resume" as how, folder, url]:
            _go_on(Path(folder), url, release=how == "resume")
        case ["derive", _, url]:
            _derive(url)
