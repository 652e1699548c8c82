"""Which process runs which tests: what belongs together stays together, and one begins at the other end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import rota

TESTS = [
    *(f"tests/api/test_keys.py::TestKeys::test_{number}[sqlite]" for number in range(4)),
    *(f"tests/api/test_keys.py::TestKeys::test_{number}[postgresql-a]" for number in range(4)),
    *(f"tests/test_rho.py::test_{number}" for number in range(4)),
    *(f"tests/test_noise.py::test_{number}" for number in range(4)),
]


class Process:
    """What a scheduler sees of one: tests are given to it by their numbers."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(many: int) -> tuple[rota.Rota, list[Any]]:
    options = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(option=options, getvalue=lambda name: ["popen"] * many)
    made = rota.Rota(config)
    processes: list[Any] = [Process(f"gw{number}") for number in range(many)]
    for process in processes:
        made.add_node(process)
        made.add_node_collection(process, TESTS)
    made.schedule()
    return made, processes


class TestRota:
    def test_the_first_begins_at_the_end_and_a_file_is_divided_by_databases_alone(self):
        _, (first, second, third) = scheduled(3)
        assert [first.given, second.given, third.given] == [[12, 13, 14, 15], [0, 1, 2, 3], [4, 5, 6, 7]]

    def test_who_is_nearly_done_takes_the_next(self):
        made, (first, second) = scheduled(2)
        for number in (12, 13):
            made.mark_test_complete(first, number)
        assert first.given == [12, 13, 14, 15, 8, 9, 10, 11]
        for number in (0, 1):
            made.mark_test_complete(second, number)
        assert second.given == [0, 1, 2, 3, 4, 5, 6, 7]
        assert not made.workqueue

    def test_one_alone_begins_at_the_beginning(self):
        _, (alone,) = scheduled(1)
        assert alone.given == [0, 1, 2, 3]


class TestTurn:
    def test_whatever_is_named_exists(self):
        root = Path(__file__).parents[1]
        assert [name for name in (*rota._TRIALS, *rota._SUMS) if not (root / name).exists()] == []

    def test_what_waits_stands_before_what_computes(self):
        def place(nodeid: str, *used: str) -> tuple[int, int]:
            item: Any = SimpleNamespace(nodeid=nodeid, fixturenames=used)
            return rota.turn(item)

        line = [
            place("tests/test_crashes.py::TestKilledChild::test_it[postgresql]", "url"),
            place("tests/test_crashes.py::TestKilledChild::test_it[sqlite]", "url"),
            place("tests/test_backups.py::TestUnderLoad::test_it[sqlite]"),
            place("tests/web/test_weight.py::TestWeight::test_it", "service"),
            place("tests/api/test_keys.py::TestKeys::test_it[sqlite]", "service"),
            place("tests/api/test_keys.py::TestKeys::test_it[postgresql]", "service"),
            place("tests/test_formats.py::TestFormats::test_it"),
            place("tests/privacy/test_rho.py::TestParse::test_it"),
        ]
        assert line == sorted(line)
        assert len(set(line)) == 7


class TestIsLong:
    def test_a_trial_on_either_database_is_long_on_the_one_that_is_not_embedded(self):
        def is_long(nodeid: str) -> bool:
            item: Any = SimpleNamespace(nodeid=nodeid)
            return rota.is_long(item)

        assert is_long("tests/test_crashes.py::TestKilledChild::test_it[postgresql]")
        assert not is_long("tests/test_crashes.py::TestKilledChild::test_it[sqlite]")
        assert not is_long("tests/test_ledger.py::TestRace::test_it[postgresql]")
