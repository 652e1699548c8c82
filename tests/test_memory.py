"""How much memory trainings take: never more than they are said to, and no other's."""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from benchmarks import stays

from discretion import cli, cluster, datasets, memory, requests, runs, settings
from discretion.learning import learners
from discretion.learning.curator import Curator
from discretion.learning.schemas import Schema
from tests import clusters, hungry, services
from tests.dying import Queue


def measured(folder: Path, schema: Schema, which: str, case: str) -> tuple[int, int]:
    """Bytes that were taken, and those that were said."""
    stays.store(folder, schema, hungry.STORED)
    command = [sys.executable, "-m", "tests.hungry", which, str(folder), case]
    environment = os.environ | cli._RESERVED | {"PYTHONPATH": os.pathsep.join(sys.path)}
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


class TestSumming:
    @pytest.mark.parametrize("case", ["apvi", "pae"])
    def test_machines_that_have_no_more_make_the_sums(
        self, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two of them, of several blocks each, so that they hand each other what they made."""
        monkeypatch.setattr(datasets, "_BLOCK", 2**20)
        schema, algorithm, parameters = hungry.CASES[case]
        stays.store(tmp_path, schema, hungry.STORED)
        place, rho = stays.place(tmp_path), Fraction(1)
        request = {"algorithm": algorithm, "privacy": {"rho": "1"}, "parameters": parameters}
        asked = requests.of(schema, None, hungry.STORED, request)
        least = {"training_megabytes": -(-memory.summing(asked) // memory.MEGABYTE)}
        with clusters.cluster(tmp_path / "cluster", 2, store=f"file://{tmp_path / 'datasets'}", **least) as made:
            found = settings.read(services.environment(tmp_path, **made.settings))
            with cluster.engine(found, place.name) as engine:
                assert engine.blocks > 2
                curator = Curator(datasets.load(place, schema), rho, None, engine.totals)
                learners.learn(curator, asked.privacy, asked.parameters)


class TestTheFence:
    @pytest.mark.parametrize("whose", ["what is set", "what the machine has"])
    def test_who_asks_for_more_fails_charged_once_and_harms_nobody(self, whose: str, tmp_path: Path) -> None:
        limit = {"training_megabytes": hungry.LIMIT} if whose == "what is set" else {}
        machine = {} if whose == "what is set" else {"WHOLE": str(hungry.LIMIT)}
        queue = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
        before, hungry_one, after = (queue.training(queue.dataset(units=units)) for units in (20, hungry.UNITS, 21))
        with queue.running("tests.hungry", "work", environment=machine, **limit) as worker:
            for training in (before, after):
                assert queue.ended(training).state == runs.RELEASED
            failed = queue.ended(hungry_one)
            assert worker.poll() is None
        assert (failed.state, failed.code, failed.attempts) == (runs.FAILED, runs.FAILURE, 1)
        assert f"Training {hungry_one} breaks off because there is too little memory here." in queue.log
        for training in (before, hungry_one, after):
            queue.check_charged_once(training)
        queue.close()
