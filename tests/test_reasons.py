"""After the charge the world hears one code, and the operator's log says why: on a real cluster that lacks it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from discretion import database, runs, sealing, settings, tables
from tests import clusters, services
from tests.clusters import Cluster
from tests.dying import Queue

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler; each test brings its machine."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "store").mkdir(mode=0o700)
    (folder / "keys").write_text(sealing.new_key().hex())
    places = {"store": f"file://{folder / 'store'}", "store_key_file": folder / "keys"}
    with clusters.cluster(folder / "cluster", 0, **places) as made:
        yield made


@pytest.fixture
def queue(running: Cluster, tmp_path: Path) -> Iterator[Queue]:
    made = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
    made.found = settings.read(made.environment(**running.settings))
    yield made
    made.close()


def charged(queue: Queue) -> str:
    """A training whose first worker has died: it was found fit and charged, so nobody asks the cluster again."""
    training = queue.training(queue.dataset())
    with database.transaction(queue.engine) as connection:
        then = datetime.now(UTC) - timedelta(minutes=1)
        held = runs.claim(connection, actor="worker", at=then, lease=timedelta(seconds=2))
    assert held is not None
    assert held.training == training
    return training


def said(queue: Queue, training: str) -> str:
    """Of a training that breaks off: the reason."""
    found = services.wait_until(lambda: re.search(f"Training {training} breaks off because (.*)", queue.log))
    return str(found[1])


class TestMachines:
    @pytest.fixture(autouse=True)
    def alone(self, running: Cluster) -> Iterator[None]:
        before = len(running.running)
        yield
        for machine in running.running[before:]:
            if machine.poll() is None:
                clusters.kill(machine)

    def machine(self, running: Cluster, wanting: str = "", **changed: Any) -> None:
        begun = running.log.count("Making sums")
        module = "tests.wanting" if wanting else "discretion"
        running.start("work", module=module, environment={"WANTING": wanting}, **changed)
        running.ready(begun + 1)

    @pytest.mark.parametrize(
        ("wanting", "changed", "reason"),
        [
            ("", {"store": "file:///nowhere"}, "the store does not answer or does not have the dataset"),
            ("memory", {}, "a machine of the cluster has too little memory for now."),
            ("software", {}, "the cluster is not what it was when it was checked."),
            ("library", {}, "the cluster is not what it was when it was checked."),
        ],
    )
    def test_that_have_lost_the_store_or_memory_or_have_other_versions_are_named_and_it_goes_on_with_others(
        self, queue, running, wanting, changed, reason
    ):
        training = charged(queue)
        self.machine(running, wanting, **changed)
        with queue.running("tests.summed", "work", **running.settings, environment={"SUMMED": str(queue.folder)}):
            assert said(queue, training).startswith(reason)
            assert queue.rows(tables.draws, training) == []
            clusters.kill(running.running[-1])
            self.machine(running)
            assert queue.ended(training).state == runs.RELEASED
        queue.check_charged_once(training)

    def test_a_certificate_that_is_no_longer_accepted_is_named_and_nobody_waits_in_vain(self, queue, running, tmp_path):
        """Ten times it is not, and then the world hears the one code."""
        training = charged(queue)
        others = clusters.certificates(tmp_path / "others")
        watched = {"SUMMED": str(queue.folder), "AWAY": "0"}
        with queue.running("tests.summed", "work", **(running.settings | others), environment=watched):
            assert said(queue, training).startswith("the cluster's scheduler and this machine do not accept")
            ended = queue.ended(training)
        assert (ended.state, ended.code) == (runs.FAILED, runs.FAILURE)
        assert queue.rows(tables.draws, training) == []
        queue.check_charged_once(training)

    def test_a_file_that_has_become_useless_is_named_and_the_training_goes_on_when_it_is_mended(self, queue, running):
        self.machine(running)
        files = {name: Path(running.settings[name]) for name in ("cluster_key_file", "store_key_file")}
        kept = {path: path.read_bytes() for path in files.values()}
        with queue.worker(**running.settings):
            services.wait_until(lambda: "Waiting for trainings" in queue.log)
            files["cluster_key_file"].write_text("no key")
            training = charged(queue)
            assert said(queue, training).startswith(
                "of a setting: The file named by DISCRETION_CLUSTER_KEY_FILE must hold"
            )
            assert queue.row(training).state == runs.RUNNING
            files["store_key_file"].write_text("no key")
            waiting = "A training is left waiting: The file named by DISCRETION_STORE_KEY_FILE cannot be read"
            services.wait_until(lambda: waiting in queue.log)
            for path, content in kept.items():
                path.write_bytes(content)
            assert queue.ended(training).state == runs.RELEASED
        queue.check_charged_once(training)
