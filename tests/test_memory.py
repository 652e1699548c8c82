"""How much memory trainings take: never more than they are said to, and no other's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import stays

from discretion import cli, datasets, memory, runs
from discretion.learning.schemas import Schema
from tests import clusters, hungry, services
from tests.clusters import Cluster
from tests.dying import Queue


def measured(
    folder: Path, schema: Schema, which: str, case: str, settings: dict[str, str] | None = None
) -> tuple[int, int]:
    """Bytes that were taken, and those that were said."""
    stays.store(folder, schema, hungry.STORED)
    command = [sys.executable, "-m", "tests.hungry", which, str(folder), case]
    environment = os.environ | cli._RESERVED | (settings or {}) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    taken, said = map(int, done.stdout.split())
    return taken, said


class TestNeed:
    @pytest.mark.parametrize("case", hungry.CASES)
    def test_a_learner_takes_no_more_than_that_and_not_much_less(self, case: str, tmp_path: Path) -> None:
        taken, said = measured(tmp_path, hungry.CASES[case][0], "learn", case)
        assert taken <= said < 3 * taken

    @pytest.mark.parametrize("case", hungry.LARGE)
    def test_of_a_hundred_thousand_states_it_takes_no_more_either(self, case: str, tmp_path: Path) -> None:
        taken, said = measured(tmp_path, hungry.LARGE[case][0], "large", case)
        assert taken <= said


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each test brings its machines."""
    with clusters.cluster(tmp_path_factory.mktemp("cluster"), 0) as made:
        yield made


class TestSumming:
    @pytest.mark.parametrize("case", ["apvi", "apvi, a large table", "pae", "vapvi, a table"])
    def test_machines_that_have_no_more_make_the_sums_and_who_asks_takes_no_more_either(
        self, case: str, scheduler: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two of them, of several blocks each, so that they hand each other what they made."""
        monkeypatch.setattr(datasets, "_BLOCK", 2**20)
        asked = hungry.asked_of(hungry.ELSEWHERE[case])
        least = -(-memory.summing(asked) // memory.MEGABYTE)
        store, begun = f"file://{tmp_path / 'datasets'}", scheduler.log.count("Making sums")
        machines = [scheduler.start("work", store=store, training_megabytes=least) for _ in range(2)]
        scheduler.ready(begun + len(machines))
        taken, said = measured(
            tmp_path,
            asked.schema,
            "elsewhere",
            case,
            services.environment(tmp_path, **(scheduler.settings | {"store": store})),
        )
        for machine in machines:
            clusters.kill(machine)
        assert datasets.blocks(stays.place(tmp_path)) > 2
        assert taken <= said


class TestTheFence:
    def test_who_asks_for_more_fails_charged_once_and_harms_nobody(self, tmp_path: Path) -> None:
        queue = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
        before, hungry_one, after = (queue.training(queue.dataset(units=units)) for units in (20, hungry.UNITS, 21))
        with queue.running("tests.hungry", "work", training_megabytes=hungry.LIMIT) as worker:
            for training in (before, after):
                assert queue.ended(training).state == runs.RELEASED
            failed = queue.ended(hungry_one)
            assert worker.poll() is None
        assert (failed.state, failed.code, failed.attempts) == (runs.FAILED, runs.FAILURE, 1)
        assert f"Training {hungry_one} breaks off because there is too little memory here" in queue.log
        for training in (before, hungry_one, after):
            queue.check_charged_once(training)
        queue.close()
