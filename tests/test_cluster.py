"""A real cluster: what it refuses before the charge, what it gives, and what happens when parts of it die."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discretion import catalogue, cluster, datasets, doctor, errors, requests, runs, sealing, settings, shelves, tables
from discretion.learning import learners, sums
from discretion.learning.curator import Curator
from discretion.privacy.rho import Rho
from tests import clusters, services
from tests.clusters import Cluster
from tests.dying import Queue

SMALL = 2**10  # bytes of a block, so that a small dataset has several


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of the store and its key: a folder that all machines see."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "store").mkdir(mode=0o700)
    (folder / "keys").write_text(sealing.new_key().hex())
    return {"store": f"file://{folder / 'store'}", "store_key_file": folder / "keys"}


@pytest.fixture(scope="module")
def running(places: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with clusters.cluster(tmp_path_factory.mktemp("cluster"), **places) as made:
        yield made


def queue_of(folder: Path, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Queue:
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
    with queue.engine.connect() as connection:
        return requests.asked(catalogue.stored(connection, dataset), services.APVI)


def learn(curator: Curator, asked: Any) -> None:
    learners.learn(curator, asked.privacy, asked.parameters)


class TestBeforeTheCharge:
    def asked(self, running: Cluster, **changed: object) -> str:
        return cluster.check(settings.read(services.environment(running.folder, **(running.settings | changed))))

    def test_what_is_well_is_said(self, running: Cluster) -> None:
        assert self.asked(running).startswith("2 machines")

    def test_no_scheduler(self, running: Cluster) -> None:
        with pytest.raises(errors.ClusterUnavailable, match="start it: discretion cluster schedule"):
            self.asked(running, cluster=f"tls://127.0.0.1:{clusters.free_port()}")

    @pytest.mark.parametrize("ended", [False, True])
    def test_a_certificate_of_another_authority_or_one_that_has_ended(
        self, running: Cluster, tmp_path: Path, ended: bool
    ) -> None:
        with pytest.raises(errors.ClusterUnavailable, match="do not accept each other's certificates"):
            self.asked(running, **clusters.certificates(tmp_path, ended=ended))

    def test_files_that_hold_no_certificate(self, running: Cluster, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("no key")
        with pytest.raises(errors.InvalidSetting, match="cannot be used"):
            self.asked(running, cluster_key_file=tmp_path / "key")

    def test_the_command_and_the_doctor_say_the_same(self, running: Cluster) -> None:
        code, words = running.check()
        assert (code, words[:10]) == (0, "2 machines")
        found = settings.read(services.environment(running.folder, **running.settings))
        (told,) = [each for each in doctor.examine(found) if each.check == "cluster"]
        assert (told.state, told.words[:10]) == (doctor.OK, "2 machines")

    def test_machines_that_are_not_as_they_must_be(self, places: dict[str, Any], tmp_path: Path) -> None:
        """No machine, another library, another store, too little memory."""
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "sitecustomize.py").write_text(
            "import importlib.metadata as found\nasked = found.version\n"
            "found.version = lambda name: '1.0' if name == 'numpy' else asked(name)\n"
        )
        unfit: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
            "has numpy 1.0": ({}, {"PYTHONPATH": str(tmp_path / "other")}),
            "cannot read the store": ({"store": f"file://{tmp_path / 'nowhere'}"}, {}),
            "has 100 MB and needs 257": ({"training_megabytes": 100}, {}),
        }
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made:
            found = settings.read(services.environment(made.folder, **made.settings))
            with pytest.raises(errors.ClusterUnfit, match="has no machine"):
                cluster.check(found)
            for count, (words, (changed, environment)) in enumerate(unfit.items(), 1):
                machine = made.start("work", environment=environment, **changed)
                made.ready(count)
                with pytest.raises(errors.ClusterUnfit, match=words):
                    cluster.check(found, "up_none" if "store" in words else None, 257 * 2**20)
                clusters.kill(machine)


class TestAfterTheCharge:
    def test_a_training_loses_a_machine_and_the_scheduler_and_is_what_it_would_have_been(
        self, places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It waits without a charge until there are machines; longer races are in `benchmarks/evidence/cluster.py`."""
        watched = {"SUMMED": str(tmp_path)}
        slowly = watched | {"SLOWLY": "0.5"}
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made:
            queue = queue_of(tmp_path / "queue", made.settings, monkeypatch)
            training = queue.training(queue.dataset(units=300))
            with queue.running("tests.summed", "work", **made.settings, environment=watched):
                services.wait_until(lambda: "has no machine" in queue.log)
                assert [row.kind for row in queue.rows(tables.ledger, training)] == ["reserve"]
                first, second = (made.start("work", module="tests.summed", environment=slowly) for _ in range(2))
                at_once = self.killed(tmp_path, second, second.pid)
                services.wait_until(lambda: len(clusters.sums(tmp_path)) > 1)  # the next has begun
                assert "breaks off" not in queue.log
                later = self.killed(tmp_path, made.running[0], first.pid)
                services.wait_until(lambda: "because the cluster does not answer" in queue.log)
                made.start("schedule")
                assert queue.ended(training).state == runs.RELEASED
            queue.check_charged_once(training)
            queue.close()
        assert second.pid in clusters.summing(tmp_path, at_once)
        assert first.pid in clusters.summing(tmp_path, later)
        found = clusters.sums(tmp_path)
        assert [each.number for each in found if each.ended is not None] == sorted({each.number for each in found})
        assert clusters.same(found)
        assert first.poll() is not None

    def killed(self, folder: Path, process: Any, reading: int) -> float:
        """In the middle of a sum, while a machine is in the middle of a block; when."""
        services.wait_until(lambda: reading in clusters.summing(folder, time.monotonic()))
        at = time.monotonic()
        clusters.kill(process)
        return at
