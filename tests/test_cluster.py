"""A real cluster: what it refuses before the charge, what it gives, and what happens when parts of it die."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discretion import cluster, datasets, runs, sealing, settings, shelves, tables
from discretion.learning import sums
from discretion.learning.curator import Curator
from discretion.privacy.rho import Rho
from tests import clusters, services
from tests.clusters import Cluster
from tests.dying import Queue

SMALL = 2**10  # bytes of a block, so that a small dataset has several


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Of the store and its key: a folder that all machines see."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "store").mkdir(mode=0o700)
    (folder / "keys").write_text(sealing.new_key().hex())
    return {"store": f"file://{folder / 'store'}", "store_key_file": folder / "keys"}


@pytest.fixture(scope="module")
def running(places: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with clusters.cluster(tmp_path_factory.mktemp("cluster"), **places) as made:
        yield made


def queue_of(folder: Path, named: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue whose datasets lie in the shared store, in several blocks each."""
    monkeypatch.setattr(datasets, "_BLOCK", SMALL)
    folder.mkdir(exist_ok=True)
    made = Queue(folder, f"sqlite:///{folder / 'discretion.db'}")
    made.found = settings.read(made.environment(**named))
    return made


@pytest.fixture
def queue(running: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    made = queue_of(tmp_path / "queue", running.settings, monkeypatch)
    yield made
    made.close()


def folder_of(queue: Queue, dataset: str) -> str:
    with queue.engine.connect() as connection:
        wanted = tables.datasets.select().where(tables.datasets.c.id == dataset)
        return str(connection.execute(wanted).one().folder)


class TestSums:
    def test_what_a_cluster_gives_is_what_this_process_gives(self, queue: Queue) -> None:
        made: list[bool] = []
        dataset = queue.dataset(units=500)
        asked = requests_of(queue, dataset)
        place = shelves.opened(queue.found).place(folder_of(queue, dataset))
        assert datasets.blocks(place) > 8
        with cluster.engine(queue.found, place.name) as engine:

            def both(statistics: Any, trajectories: Any) -> Any:
                theirs, ours = engine.totals(statistics, trajectories), sums.totals(statistics, trajectories)
                made.extend((one == other).all() for one, other in zip(theirs, ours, strict=True))
                return theirs

            learn(Curator(datasets.load(place, asked.schema), Rho.parse("0.5").exact, None, both), asked)
        assert made == [True] * len(made)
        assert len(made) > 1

    def test_a_training_is_released_and_charged_once_and_no_value_is_written(
        self, queue: Queue, running: Cluster
    ) -> None:
        trainings = [queue.training(queue.dataset()), queue.training(queue.dataset(services.VECTOR), services.VAPVI)]
        with queue.worker(**running.settings):
            for training in trainings:
                assert queue.ended(training).state == runs.RELEASED
        for training in trainings:
            queue.check_charged_once(training)
        said = [line for line in running.log.splitlines() if "sums" not in line]
        assert said == []
        left = [path.name for path in running.folder.rglob("*") if path.is_file()]
        assert sorted(left) == ["ca", "certificate", "key", "log"]


def requests_of(queue: Queue, dataset: str) -> Any:
    from discretion import catalogue, requests

    with queue.engine.connect() as connection:
        return requests.asked(catalogue.stored(connection, dataset), services.APVI)


def learn(curator: Curator, asked: Any) -> None:
    from discretion.learning import learners

    learners.learn(curator, asked.privacy, asked.parameters)


class TestBeforeTheCharge:
    def test_what_is_well_is_said(self, running: Cluster) -> None:
        code, words = running.check()
        assert (code, words[:10]) == (0, "2 machines")

    def test_no_scheduler(self, running: Cluster) -> None:
        code, words = running.check(cluster=f"tls://127.0.0.1:{clusters.free_port()}")
        assert code == 2
        assert "start it: discretion cluster schedule" in words

    @pytest.mark.parametrize("ended", [False, True])
    def test_a_certificate_of_another_authority_or_one_that_has_ended(
        self, running: Cluster, tmp_path: Path, ended: bool
    ) -> None:
        code, words = running.check(**clusters.certificates(tmp_path, ended=ended))
        assert code == 2
        assert "do not accept each other's certificates" in words

    def test_files_that_hold_no_certificate(self, running: Cluster, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("no key")
        code, words = running.check(cluster_key_file=tmp_path / "key")
        assert code == 2
        assert "cannot be used" in words

    def test_a_training_waits_and_costs_nothing_until_the_cluster_is_well(
        self, places: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One after the other: no machine, another library, no store, too little memory; and at last a good one."""
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "sitecustomize.py").write_text(
            "import importlib.metadata as found\nasked = found.version\n"
            "found.version = lambda name: '1.0' if name == 'numpy' else asked(name)\n"
        )
        unfit: dict[str, tuple[dict[str, object], dict[str, str]]] = {
            "has numpy 1.0": ({}, {"PYTHONPATH": str(tmp_path / "other")}),
            "cannot read the store": ({"store": f"file://{tmp_path / 'nowhere'}"}, {}),
            "needs 256": ({"training_megabytes": 100}, {}),
        }
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made:
            queue = queue_of(tmp_path / "queue", made.settings, monkeypatch)
            training = queue.training(queue.dataset())
            with queue.worker(**made.settings):
                services.wait_until(lambda: "has no machine" in queue.log)
                for words, (changed, environment) in unfit.items():
                    machine = made.start("work", environment=environment, **changed)
                    services.wait_until(lambda words=words: words in queue.log)
                    clusters.kill(machine)
                    assert [row.kind for row in queue.rows(tables.ledger, training)] == ["reserve"]
                made.start("work")
                assert queue.ended(training).state == runs.RELEASED
            queue.check_charged_once(training)
            queue.close()


class TestAfterTheCharge:
    @contextlib.contextmanager
    def race(
        self, places: dict[str, object], folder: Path, monkeypatch: pytest.MonkeyPatch, **slow: str
    ) -> Iterator[tuple[Cluster, Queue, str]]:
        """A training whose sums take a while, begun."""
        with clusters.cluster(folder / "cluster", 0, **places) as made:
            queue = queue_of(folder / "queue", made.settings, monkeypatch)
            for _ in range(2):
                made.start("work", module="tests.summed", environment={"SLOWLY": "0.3", "SUMMED": str(folder)})
            made.ready(2)
            training = queue.training(queue.dataset(units=400))
            with queue.running("tests.summed", "work", **made.settings, environment={"SUMMED": str(folder), **slow}):
                services.wait_until(lambda: (folder / "sums").exists())
                yield made, queue, training
            queue.close()

    def sums(self, folder: Path) -> dict[str, set[str]]:
        """What each sum came to, as often as it was made."""
        found: dict[str, set[str]] = {}
        for number, made in (line.split() for line in (folder / "sums").read_text().splitlines()):
            if made != "begins":
                found.setdefault(number, set()).add(made)
        return found

    def test_a_machine_that_dies_is_replaced(self, places, tmp_path, monkeypatch) -> None:
        with self.race(places, tmp_path, monkeypatch) as (made, queue, training):
            time.sleep(0.5)
            clusters.kill(made.running[-1])
            assert queue.ended(training).state == runs.RELEASED
            queue.check_charged_once(training)
            assert "breaks off" not in queue.log

    def test_a_scheduler_that_dies_is_waited_for_and_the_sums_are_the_same(self, places, tmp_path, monkeypatch) -> None:
        with self.race(places, tmp_path, monkeypatch) as (made, queue, training):
            time.sleep(0.5)
            clusters.kill(made.running[0])
            services.wait_until(lambda: "because the cluster does not answer" in queue.log)
            made.start("schedule")
            assert queue.ended(training).state == runs.RELEASED
            queue.check_charged_once(training)
        assert all(len(each) == 1 for each in self.sums(tmp_path).values())

    def test_a_cluster_that_stays_away_ends_a_training_with_the_one_code(self, places, tmp_path, monkeypatch) -> None:
        with self.race(places, tmp_path, monkeypatch) as (made, queue, training):
            made.stop()
            services.wait_until(lambda: "because the cluster does not answer" in queue.log)
            queue.change(training, attempts=10)  # as if it had been tried as often as it may
            ended = queue.ended(training)
            assert (ended.state, ended.code) == (runs.FAILED, runs.FAILURE)
            queue.check_charged_once(training)
