"""Which of xdist's processes runs which tests: `--dist loadscope`, by files and with an order.

The tests of a file on one database stay together, so that what they share is built once. Long ones begin first, or
everybody would wait for them in the end, and what shares a service or a browser stands side by side. One process begins
at the other end, with tests that only compute: the others' tests wait for services half of their time, and two
processors are kept busy by both kinds at once. Where they meet, files are short, so all end nearly together.
"""

import re
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_DATABASES: Final = ("sqlite", "", "postgresql")
_DATABASE: Final = re.compile(rf"[\[-]({'|'.join(filter(None, _DATABASES))})[\]-]")
# They start, kill and wait for programs of their own; the longest first, as measured. What these try on either database
# `make test` tries on the embedded one, and `make test-long` on PostgreSQL.
_TRIALS: Final = (
    "tests/test_documentation.py",
    "tests/test_hosts.py",
    "tests/test_cluster.py",
    "tests/test_crashes.py",
    "tests/test_remote_store.py",
    "tests/api/test_schemathesis.py",
    "tests/test_backups.py",
    "tests/test_memory.py",
    "tests/test_worker.py",
    "tests/test_mishaps.py",
    "tests/test_remote.py",
    "tests/test_outages.py",
    "tests/test_reasons.py",
    "tests/test_upgrades.py",
    "tests/test_serving.py",
    "tests/test_demo.py",
    "tests/api/test_leaks.py",
    "tests/test_no_way_out.py",
    "tests/test_turns.py",
    "tests/web/test_custodian.py",
    "tests/web/test_analyst.py",
    "tests/web/test_states.py",
    "tests/web/test_looks.py",
    "tests/web/test_mishaps.py",
    "tests/web/test_auditor.py",
    "tests/web/test_pictures.py",
)
_SUMS: Final = ("tests/learning/", "tests/privacy/")


def _database(nodeid: str) -> str:
    found = _DATABASE.search(nodeid)
    return found[1] if found else ""


def is_long(item: pytest.Item) -> bool:
    return item.nodeid.partition("::")[0] in _TRIALS and _database(item.nodeid) == "postgresql"


def turn(item: pytest.Item) -> tuple[int, int]:
    """The place of a test in the line, from those that begin it to those that begin at its other end."""
    file = item.nodeid.partition("::")[0]
    used = getattr(item, "fixturenames", ())
    if file in _TRIALS:
        return 0, _TRIALS.index(file)
    if file.startswith("tests/web/"):
        return 1, 0
    if "service" in used or "unattended" in used:
        return 2, _DATABASES.index(_database(item.nodeid))
    return (4 if file.startswith(_SUMS) else 3), 0


class Rota(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return f"{nodeid.partition('::')[0]} {_database(nodeid)}"

    def _assign_work_unit(self, node: WorkerController) -> None:
        if len(self.nodes) > 1 and node is self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
