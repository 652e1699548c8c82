"""A real cluster: what it refuses before the charge, what it gives, and what happens when parts of it die."""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import pytest

from discretion import (
    catalogue,
    cli,
    cluster,
    database,
    datasets,
    doctor,
    endings,
    errors,
    machines,
    memory,
    requests,
    runs,
    sealing,
    settings,
    shares,
    shelves,
    summing,
    tables,
)
from discretion.learning import documents, learners, sums
from discretion.learning.counts import VisitCounts
from discretion.learning.curator import Curator
from discretion.learning.trajectories import Trajectories
from discretion.privacy.rho import Rho
from tests import clusters, hungry, services
from tests.clusters import Cluster
from tests.dying import Queue

SMALL = 2**10  # bytes of a block, so that a small dataset has several
ENGINE = cluster.Engine(Any, "line", 0, True, "d", 1)


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
        with cluster.engine(queue.found, place.name, 0) as engine:

            def both(statistics: Any, trajectories: Any) -> Any:
                theirs, ours = engine.totals(statistics, trajectories), sums.totals(statistics, trajectories)
                made.extend((one == other).all() for one, other in zip(theirs, ours, strict=True))
                return theirs

            learn(Curator(datasets.load(place, asked.schema), Rho.parse("0.5").exact, None, both), asked)
        assert made == [True] * len(made)
        assert len(made) > 1

    @pytest.mark.parametrize("large", [False, True])
    def test_every_machine_makes_its_part(self, large: bool, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        """Though all shares need the same that one machine is told first; of a large sum each makes one."""
        if large:
            monkeypatch.setattr(shares, "LARGE", 0)
        dataset = queue.dataset(units=500)
        schema, place = requests_of(queue, dataset).schema, shelves.opened(queue.found).place(folder_of(queue, dataset))
        with cluster.engine(queue.found, place.name, 0) as engine:
            before = self.tasks(engine)
            engine.totals([VisitCounts(schema)], datasets.load(place, schema))
            made = {machine: count - before[machine] for machine, count in self.tasks(engine).items()}
        assert len(made) == 2
        assert min(made.values()) >= (1 if large else 2), made

    def test_machines_keep_what_they_have_read_until_the_training_takes_its_leave(self, queue: Queue) -> None:
        dataset = queue.dataset(units=500)
        schema, place = requests_of(queue, dataset).schema, shelves.opened(queue.found).place(folder_of(queue, dataset))
        data, statistics = datasets.load(place, schema), [VisitCounts(schema)]
        with cluster.engine(queue.found, place.name, 0) as engine, cluster.engine(queue.found, place.name, 0) as other:
            found = [engine.totals(statistics, data)]
            kept = self.kept(engine)
            assert sorted(set().union(*kept)) == list(range(datasets.blocks(place)))
            assert all(kept)
            found.append(engine.totals(statistics, data))
            assert [each <= more for each, more in zip(kept, self.kept(engine), strict=True)] == [True, True]
            found.append(other.totals(statistics, data))  # of two at a time nothing is kept
            assert self.kept(other) == [set(), set()]
            found.append(engine.totals(statistics, data))
        ours = sums.totals(statistics, data)
        assert all((made == whole).all() for each in found for made, whole in zip(each, ours, strict=True))
        with cluster.engine(queue.found, place.name, 0) as engine:
            assert self.kept(engine) == [set(), set()]

    def test_of_a_dataset_that_was_retired_nothing_is_summed_whatever_is_kept(self, queue: Queue) -> None:
        dataset = queue.dataset(units=500)
        schema, place = requests_of(queue, dataset).schema, shelves.opened(queue.found).place(folder_of(queue, dataset))
        data, statistics = datasets.load(place, schema), [VisitCounts(schema)]
        with cluster.engine(queue.found, place.name, 0) as engine:
            engine.totals(statistics, data)
            assert all(self.kept(engine))
            datasets.retire(place)
            with pytest.raises(errors.StoreUnavailable):
                engine.totals(statistics, data)

    def kept(self, engine: cluster.Engine) -> list[set[int]]:
        """The blocks that each machine keeps."""

        def here() -> set[int]:
            found = shares.HERE._kept
            return set() if found is None else set(found._blocks)

        return list(engine.client.run(here).values())

    def tasks(self, engine: cluster.Engine) -> dict[str, int]:
        """How many each machine has carried out."""
        return dict(engine.client.run(lambda dask_worker: dask_worker.state.executed_count))

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


class TestBetweenSums:
    """The scheduler is lost while nothing is asked of it, and the next sum finds out."""

    @pytest.fixture
    def made(self, places: dict[str, Any], tmp_path: Path) -> Iterator[Cluster]:
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made:
            yield made

    @pytest.fixture
    def asking(self, made: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[cluster.Engine]:
        for owner, name in ((machines, "PATIENCE"), (cluster, "_AWAY")):
            monkeypatch.setattr(owner, name, 2.0)
        queue = queue_of(tmp_path / "queue", made.settings, monkeypatch)
        with cluster.engine(queue.found, folder_of(queue, queue.dataset()), 0) as engine:
            yield engine
        queue.close()

    def test_a_scheduler_that_was_away_until_dask_gave_it_up_does_not_answer(
        self, made: Cluster, asking: cluster.Engine
    ) -> None:
        clusters.kill(made.running[0])
        port = int(made.settings["cluster"].rpartition(":")[2])
        with socket.socket() as kept:  # or whoever connects may be given it for its own end, and reach itself
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(("127.0.0.1", port))
            services.wait_until(lambda: asking.client.status == "closed", 60)
            self.check_unavailable(asking)

    def test_one_that_hangs_does_not_either(self, made: Cluster, asking: cluster.Engine) -> None:
        with self.hanging(made.running[0]):
            self.check_unavailable(asking)

    def test_nor_does_it_say_whether_machines_reach_each_other(self, made: Cluster, asking: cluster.Engine) -> None:
        assert not cluster._are_apart(asking.client)
        with self.hanging(made.running[0]):
            assert cluster._are_apart(asking.client)

    def check_unavailable(self, asking: cluster.Engine) -> None:
        schema, _ = documents.schema_of(services.TABULAR)
        with pytest.raises(errors.ClusterUnavailable) as refused:
            asking.totals([VisitCounts(schema)], Trajectories(schema, 1, ()))
        assert "the cluster does not answer" in str(endings.words(endings.of(refused.value)))

    @contextlib.contextmanager
    def hanging(self, scheduler: Any) -> Iterator[None]:
        """Until the block ends; but for a while only, so that whoever would wait for ever is found out."""
        scheduler.send_signal(signal.SIGSTOP)
        later = threading.Timer(20, scheduler.send_signal, [signal.SIGCONT])
        later.start()
        try:
            yield
            assert later.is_alive(), "it was waited for"
        finally:
            later.cancel()
            scheduler.send_signal(signal.SIGCONT)


class Sum:
    """A future that ends with an error of its own, after so many looks."""

    def __init__(self, own: Exception, looks: int) -> None:
        self.own, self.looks, self.status = own, looks, "pending"

    def exception(self, timeout: float) -> Exception:
        self.looks -= 1
        if self.looks >= 0:
            raise TimeoutError
        self.status = "error"
        return self.own

    def result(self, timeout: float) -> Any:
        raise self.own


def never(timeout: float) -> Any:
    raise TimeoutError


class TestAwaited:
    def test_a_sum_that_has_timed_out_itself_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looks = iter([False] * 5)  # no more: a sixth would be for nothing
        monkeypatch.setattr(cluster, "_are_apart", lambda client: next(looks))
        timed_out: Any = Sum(TimeoutError("the sum's"), 5)
        with pytest.raises(TimeoutError, match="the sum's"):
            ENGINE._awaited(timed_out)

    def test_what_has_timed_out_is_the_clusters_fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        timed_out: Any = Sum(TimeoutError(), 0)
        monkeypatch.setattr(cluster.Engine, "_made", lambda engine, *_: engine._awaited(timed_out))
        schema: Any = None
        with pytest.raises(errors.ClusterUnavailable, match="lost in the middle"):
            ENGINE.totals([], Trajectories(schema, 1, ()))

    def test_one_that_is_made_and_never_comes_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "_are_apart", lambda client: False)
        stuck: Any = SimpleNamespace(status="finished", exception=lambda timeout: None, result=never)
        with pytest.raises(errors.ClusterUnavailable, match="no longer reach each other, or this one"):
            ENGINE._awaited(stuck)

    @pytest.mark.parametrize(("status", "kind"), [("error", errors.ClusterFull), ("finished", MemoryError)])
    def test_too_little_memory_is_whose_it_is(self, status: str, kind: type[Exception]) -> None:
        full: Any = Sum(MemoryError(), 0)
        full.exception = lambda timeout: setattr(full, "status", status)
        with pytest.raises(kind):
            ENGINE._awaited(full)


class TestMachines:
    """What a machine says that is not the one that was checked."""

    @pytest.mark.parametrize("changed", [{"numpy": "1.0"}, {"discretion": "0"}, {"further": "1"}])
    def test_for_who_has_other_versions_nothing_is_summed(self, changed: dict[str, str]) -> None:
        theirs = shares.versions() | changed
        with dask.config.set(machines.QUIET):
            assert machines.add(theirs, b"nonsense", (0,)) == shares.OTHER
            assert machines.together(theirs, [np.ones(1, np.int64)]) == shares.OTHER

    @pytest.mark.parametrize("setting", machines.QUIET)
    def test_nor_where_dask_was_started_by_itself(self, setting: str) -> None:
        with dask.config.set(machines.QUIET | {setting: "other"}):
            assert machines.add(shares.versions(), b"nonsense", (0,)) == shares.OTHER
            assert machines.together(shares.versions(), [np.ones(1, np.int64)]) == shares.OTHER

    def test_and_else_it_is(self) -> None:
        with dask.config.set(machines.QUIET):
            assert machines.add(shares.versions(), b"nonsense", (0,)) == shares.FAILED
            one = [np.ones(1, np.int64)]
            assert np.array_equal(machines.together(shares.versions(), one, one), [[2]])


class TestBeforeTheCharge:
    def asked(self, running: Cluster, **changed: object) -> str:
        return cluster.check(settings.read(services.environment(running.folder, **(running.settings | changed))))

    def test_what_is_well_is_said(self, running: Cluster) -> None:
        assert self.asked(running).startswith("2 machines")

    def test_each_listens_at_one_port_that_wants_a_certificate(self, running: Cluster) -> None:
        """Dask would open one more, in plain HTTP."""
        places = [clusters.ports(process) for process in running.running]
        assert [len(each) for each in places] == [1, 1, 1]
        assert places[0] == {int(str(running.settings["cluster"]).rpartition(":")[2])}
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        for (port,) in places:
            with (
                pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"),
                socket.create_connection(("127.0.0.1", port), 10) as plain,
                trusting.wrap_socket(plain) as line,
            ):
                line.recv(1)

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

    def test_each_stage_has_an_end_and_all_of_them_have_less_than_a_worker_waits_for(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[float] = []

        def watched(client: Any, *rest: Any) -> str:
            sync = client.sync

            def noted(asked: Any, *more: Any, callback_timeout: float, **named: Any) -> Any:
                given.append(callback_timeout)
                return sync(asked, *more, callback_timeout=callback_timeout, **named)

            client.sync = noted
            return examined(client, *rest)

        examined = cluster._examined
        monkeypatch.setattr(cluster, "_examined", watched)
        cluster.check(queue.found, passing=cluster.Passing(1, memory.machine))
        assert len(given) > 5
        assert (3 + 1) * machines.PATIENCE + sum(given) <= machines.CHECK < summing.patience()

    def test_a_scheduler_through_which_a_sum_would_not_fit(
        self, running: Cluster, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with database.snapshot(queue.engine) as connection:
            dataset = catalogue.stored(connection, queue.dataset())
        request, whole = json.dumps(services.APVI), memory.machine()
        monkeypatch.setattr(memory, "scheduling", lambda asked: whole)
        assert summing.check(queue.found, dataset, request).startswith("2 machines")
        monkeypatch.setattr(memory, "scheduling", lambda asked: whole + 1)
        has = whole // memory.MEGABYTE
        with pytest.raises(errors.ClusterUnfit, match=f"scheduler has {has} MB and needs {has + 1}, because .* give"):
            summing.check(queue.found, dataset, request)
        there = cluster.Passing(2**60, lambda: os.getpid() * 2**20)
        with pytest.raises(errors.ClusterUnfit, match=f"scheduler has {running.running[0].pid} MB"):
            cluster.check(queue.found, passing=there)

    def test_the_command_and_the_doctor_say_the_same(self, running: Cluster) -> None:
        code, words = running.check()
        assert (code, words[:10]) == (0, "2 machines")
        found = settings.read(services.environment(running.folder, **running.settings))
        (told,) = [each for each in doctor.examine(found) if each.check == "cluster"]
        assert (told.state, told.words[:10]) == (doctor.OK, "2 machines")

    @pytest.mark.long
    def test_machines_that_are_not_as_they_must_be(
        self, places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No machine, another library, a store that is away, too little memory; and one that is well, of the same."""
        unfit: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
            "has numpy 1.0": ({}, other_numpy(tmp_path)),
            "cannot read the store: The store does not answer": (away(), {}),
            "has 100 MB and needs 257": ({"training_megabytes": 100}, {}),
        }
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made:
            queue = queue_of(tmp_path / "queue", made.settings, monkeypatch)
            dataset, found, need = folder_of(queue, queue.dataset()), queue.found, 257 * 2**20
            queue.close()
            with pytest.raises(errors.ClusterUnfit, match="has no machine"):
                cluster.check(found)
            for count, (words, (changed, environment)) in enumerate(unfit.items(), 1):
                machine = made.start("work", environment=environment, **changed)
                made.ready(count)
                with pytest.raises(errors.ClusterUnfit, match=words):
                    cluster.check(found, dataset, need)
                clusters.kill(machine)
            well = made.start("work", training_megabytes=257)
            made.ready(len(unfit) + 1)
            assert cluster.check(found, dataset, need) == "1 machine with 257 MB or more can make sums."
            self.hanging(made, found, well, monkeypatch)
            with pytest.raises(errors.ClusterUnfit, match="cannot read the store: There is no dataset"):
                cluster.check(found, "up_none", need)

    def hanging(self, made: Cluster, found: Any, well: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A machine whose store hangs answers all else, and one that hangs answers nothing: each is named."""
        with monkeypatch.context() as hasty:
            hasty.setattr(machines, "STORE", 1.0)
            hasty.setattr(machines, "PATIENCE", 2.0)
            begun = made.log.count("Making sums")
            stuck = made.start("work", module="tests.wanting", environment={"WANTING": "store"})
            made.ready(begun + 1)
            for _ in range(2):  # the second time it still answers
                with pytest.raises(errors.ClusterUnavailable, match=r"machine tls://.* comes to no end with the store"):
                    cluster.check(found)
            clusters.kill(stuck)
            well.send_signal(signal.SIGSTOP)
            with pytest.raises(errors.ClusterUnavailable, match=r"machine tls://.* of the cluster does not answer"):
                cluster.check(found)
            well.send_signal(signal.SIGCONT)

    def test_a_machine_whose_certificate_is_of_another_authority_says_so(
        self, running: Cluster, tmp_path: Path
    ) -> None:
        other = Cluster(tmp_path, running.settings | clusters.certificates(tmp_path / "tls"))
        other.start("work")
        try:
            services.wait_until(lambda: "do not accept each other's certificates" in other.log)
        finally:
            other.stop()
        (said,) = other.log.splitlines()  # once, however often it tries
        assert "DISCRETION_CLUSTER_CA_FILE" in said

    @pytest.mark.long
    def test_a_store_that_a_machine_does_not_reach_is_found_without_any_dataset(
        self, places: dict[str, Any], tmp_path: Path
    ) -> None:
        unreached = {
            "The store does not answer": away(),
            "The store's folder is not there": {"store": f"file://{tmp_path / 'nowhere'}"},
        }
        with clusters.cluster(tmp_path / "cluster", 1, **places) as made:
            assert made.check()[0] == 0
            for count, (words, changed) in enumerate(unreached.items(), 2):
                machine = made.start("work", **changed)
                made.ready(count)
                code, said = made.check()
                assert code == 2
                assert words in re.sub(r"\s+", " ", said)
                clusters.kill(machine)
                services.wait_until(lambda: made.check()[0] == 0)

    def test_a_host_is_shared_out_among_as_many_machines_as_it_has_processors(self, running: Cluster) -> None:
        share = memory.machine() // sums.processors() // memory.MEGABYTE
        assert self.asked(running) == f"2 machines with {share} MB or more can make sums."


def other_numpy(folder: Path) -> dict[str, str]:
    """An environment whose Python says that it has another."""
    (folder / "other").mkdir()
    (folder / "other" / "sitecustomize.py").write_text(
        "import importlib.metadata as found\nasked = found.version\n"
        "found.version = lambda name: '1.0' if name == 'numpy' else asked(name)\n"
    )
    return {"PYTHONPATH": str(folder / "other")}


def away() -> dict[str, Any]:
    """Settings of a store at which nobody listens."""
    named = f"s3://bucket/prefix?endpoint=http://127.0.0.1:{clusters.free_port()}"
    return {"store": named, "s3_access_key": "access", "s3_secret_key": "secret"}


@dataclass(frozen=True)
class Trouble:
    """What is wrong: on the side of who trains, or with the machine; and what is said of it."""

    words: str
    ours: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def trouble(kind: str, folder: Path, need: int) -> Trouble:
    if kind == "no scheduler":
        return Trouble("No scheduler answers at", ours={"cluster": f"tls://127.0.0.1:{clusters.free_port()}"})
    if kind == "a certificate of another authority":
        return Trouble("do not accept each other's certificates", ours=clusters.certificates(folder / "others"))
    if kind == "another library":
        return Trouble("A machine of the cluster has numpy 1.0", environment=other_numpy(folder))
    if kind == "a store that a machine does not reach":
        return Trouble("A machine of the cluster cannot read the store: The store does not answer", machine=away())
    needed = -(-need // memory.MEGABYTE)
    return Trouble(f"has {needed - 1} MB and needs {needed};", machine={"training_megabytes": needed - 1})


@pytest.mark.long
class TestUncharged:
    """What a worker finds out about its cluster costs nothing, and the operator is told which it is."""

    @pytest.mark.parametrize(
        "kind",
        [
            "no scheduler",
            "a certificate of another authority",
            "another library",
            "a store that a machine does not reach",
            "a megabyte too little of memory",
        ],
    )
    def test_a_training_waits_and_is_not_charged(self, kind: str, places: dict[str, Any], tmp_path: Path) -> None:
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made, self.queue(made) as queue:
            training, need = self.training(queue)
            found = trouble(kind, tmp_path, need)
            made.start("work", environment=found.environment, **found.machine)
            made.ready(1)
            with queue.worker(**(made.settings | found.ours)):
                services.wait_until(lambda: left_waiting(queue))
            assert all(found.words in line for line in left_waiting(queue))
            assert [row.kind for row in queue.rows(tables.ledger, training)] == ["reserve"]
            assert (queue.row(training).state, queue.row(training).attempts) == (runs.QUEUED, 0)

    def test_with_the_megabyte_it_is_released(self, places: dict[str, Any], tmp_path: Path) -> None:
        """The control: nothing else was wrong there."""
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made, self.queue(made) as queue:
            training, need = self.training(queue)
            made.start("work", training_megabytes=-(-need // memory.MEGABYTE))
            made.ready(1)
            with queue.worker(**made.settings):
                assert queue.ended(training).state == runs.RELEASED
            assert left_waiting(queue) == []
            queue.check_charged_once(training)

    @contextlib.contextmanager
    def queue(self, made: Cluster) -> Iterator[Queue]:
        folder = made.folder / "queue"
        folder.mkdir()
        queue = Queue(folder, f"sqlite:///{folder / 'discretion.db'}")
        queue.found = settings.read(queue.environment(**made.settings))
        yield queue
        queue.close()

    def training(self, queue: Queue) -> tuple[str, int]:
        """One that waits, and the bytes that a machine needs for its sums."""
        dataset = queue.dataset(units=300)
        return queue.training(dataset), memory.summing(requests_of(queue, dataset))


def left_waiting(queue: Queue) -> list[str]:
    return [line for line in queue.log.splitlines() if "A training is left waiting" in line]


@pytest.mark.long
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

    def test_a_machine_that_takes_too_much_says_so_and_lives(self, places: dict[str, Any], tmp_path: Path) -> None:
        with clusters.cluster(tmp_path / "cluster", 0, **places) as made:
            queue = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
            queue.found = settings.read(queue.environment(**made.settings))
            training = queue.training(queue.dataset(units=20))
            reserved = cli._RESERVED  # of which `tests.hungry` loads the allocator too early
            machine = made.start("work", module="tests.hungry", environment=reserved, training_megabytes=hungry.LIMIT)
            made.ready(1)
            with queue.running("tests.summed", "work", **made.settings, environment={"SUMMED": str(tmp_path)}):
                named = f"Training {training} breaks off because a machine of the cluster has too little memory for now"
                services.wait_until(lambda: queue.log.count(named) > 1)  # another training's sums might have ended
                queue.change(training, attempts=9)
                failed = queue.ended(training)
            assert (failed.state, failed.code, failed.attempts) == (runs.FAILED, runs.FAILURE, 11)
            assert machine.poll() is None
            queue.check_charged_once(training)
            queue.close()
