"""Processes whose memory is looked at: a worker with one training that asks for more than it may have, and a learner
that says how much it took.

`python -m tests.hungry work` is the worker; of its trainings, those of `UNITS` units take `TOO_MUCH` on top of what
learning takes. `python -m tests.hungry cluster work` is a machine of a cluster that takes `TOO_MUCH` for every share.
`python -m tests.hungry learn FOLDER CASE` learns from stored stays, within a fence of what
`memory.need` says, and prints the bytes that were needed at most, by the kernel's count, and those that it says.
"""

import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import stays

from discretion import cli, datasets, memory, requests
from discretion.learning import evaluators, learners, policy, sums
from discretion.learning.curator import Curator
from discretion.learning.schemas import Discrete, Schema, Vector

UNITS = 37
LIMIT = 700  # megabytes
TOO_MUCH = 2 * LIMIT * memory.MEGABYTE

_COLUMNS = ("x0", "x1", "x2")
_MAP = {"features": {"kind": "blocks", "terms": ["1", *_COLUMNS]}}
# So much ρ that no row is left undrawn: schema, algorithm and parameters of each.
CASES: dict[str, tuple[Schema, str, dict[str, Any]]] = {
    "apvi": (Schema(4, Discrete(150), 20), "dp-apvi", {}),
    "apvi, two steps": (Schema(2, Discrete(250), 20), "dp-apvi", {}),
    "apvi, first visits": (Schema(4, Discrete(400), 20), "dp-apvi", {"dynamics": "stationary"}),
    "pae": (Schema(10, Discrete(20_000), 20), "dp-pae", {}),
    "vapvi, pooled": (
        Schema(10, Vector(_COLUMNS, ((-1.0, 1.0),) * 3), 4),
        "dp-vapvi",
        _MAP | {"dynamics": "stationary"},
    ),
    "fqe, a table": (Schema(30, Discrete(1500), 4), "dp-fqe", {"way": "table"}),
    "fqe, rounds": (Schema(30, Discrete(20_000), 20), "dp-fqe", {"way": "rounds"}),
}
STORED = 20_000  # units of each
_RHO = "1000000"


def _work() -> None:
    learn = learners.learn

    def hungry(curator: Curator, *rest: Any) -> Any:
        if curator.units == UNITS:
            np.ones(TOO_MUCH, np.uint8)
        return learn(curator, *rest)

    vars(learners)["learn"] = hungry
    cli.app(["work"])


def _machine() -> None:
    partials = sums.partials

    def hungry(*arguments: Any, **named: Any) -> Any:
        np.ones(TOO_MUCH, np.uint8)
        return partials(*arguments, **named)

    vars(sums)["partials"] = hungry
    cli.app()


def _judged(schema: Schema) -> policy.Policy:
    """Another decision at every step, so that a table has as many rows as it can have."""
    shape = (schema.horizon, schema.count)
    decisions = np.add.outer(np.arange(schema.horizon), np.arange(schema.count)) % schema.actions
    return policy.of_table("any", schema, decisions, np.ones(shape, dtype=bool), np.zeros(shape))


def _learn(folder: str, case: str) -> None:
    schema, algorithm, parameters = CASES[case]
    request = {"algorithm": algorithm, "privacy": {"rho": _RHO}, "parameters": parameters}
    if algorithm == evaluators.NAME:
        request |= {"policy": "pol_1"}
    asked = requests.of(schema, None, STORED, request)
    memory.fence(memory.need(asked))
    memory.reuse()
    data = datasets.load(stays.place(Path(folder)), schema, room=memory.room(asked))
    curator = Curator(data, Fraction(_RHO))
    if isinstance(asked.parameters, evaluators.Parameters):
        evaluators.evaluate(curator, asked.privacy, asked.parameters, _judged(schema))
    else:
        learners.learn(curator, asked.privacy, asked.parameters).canonical()
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    print(int(found[1]) * 1024, memory.need(asked))


if __name__ == "__main__":
    {"work": _work, "cluster": _machine, "learn": lambda: _learn(*sys.argv[2:])}[sys.argv[1]]()
