"""The worker and its child: on schedule, silent, and out of the way when they are told."""

import contextlib
import dataclasses
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import sqlalchemy as sa

from discretion import (
    catalogue,
    database,
    datasets,
    errors,
    heads,
    requests,
    runs,
    signing,
    summing,
    tables,
    trainings,
    worker,
)
from tests import clusters, dying, services

SOME_SECONDS = services.SLOW | {"max_trajectories_per_unit": 4_000}
CANARY = "lactate-of-Mrs-Canary-17.25"
LINE = re.compile(
    r"[-\d]+T[-+:.\d]+ (INFO|WARNING) discretion\.worker: (Waiting for trainings|Training tr_\w+ [a-z ]+)\."
)

embedded = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
on_a_server = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture
def queue(tmp_path: Path, url: str) -> Iterator[dying.Queue]:
    made = dying.Queue(tmp_path, url)
    yield made
    made.close()


def stored(queue: dying.Queue, dataset: str) -> Path:
    with database.snapshot(queue.engine) as connection:
        return queue.found.datasets / str(catalogue.stored(connection, dataset).folder)


def seconds(queue: dying.Queue, dataset: str) -> float:
    with database.snapshot(queue.engine) as connection:
        return requests.usual_seconds(requests.asked(catalogue.stored(connection, dataset), services.APVI))


def since_its_start(queue: dying.Queue, training: str, moment: datetime) -> float:
    return (moment - datetime.fromisoformat(queue.row(training).started_at)).total_seconds()


def spoil(queue: dying.Queue, dataset: str) -> None:
    (stored(queue, dataset) / "0000.parquet").write_text(CANARY)


def claim(queue: dying.Queue, at: datetime) -> Any:
    with database.transaction(queue.engine) as connection:
        return runs.claim(connection, actor="worker", at=at, lease=timedelta(seconds=2))


def all_drawn(queue: dying.Queue, training: str) -> bool:
    return sum(row.recorded for row in queue.rows(tables.draws, training)) == queue.row(training).stages - 1


class TestSchedule:
    @embedded
    def test_neither_a_policy_nor_a_failure_appears_before_its_time(self, queue):
        sound, spoilt = queue.dataset(), queue.dataset()
        spoil(queue, spoilt)
        released, failed = queue.training(sound), queue.training(spoilt)
        with queue.pool():
            assert queue.ended(failed).state == runs.FAILED
            seen = datetime.now(UTC)
            assert queue.ended(released).state == runs.RELEASED
        (policy,) = queue.rows(tables.releases, released)
        usual = seconds(queue, sound) - 0.1  # two clocks are compared
        assert since_its_start(queue, failed, seen) >= usual
        assert since_its_start(queue, released, datetime.fromisoformat(policy.created_at)) >= usual

    @embedded
    def test_nor_does_the_failure_of_a_request_that_nobody_can_read_any_more(self, queue, monkeypatch):
        monkeypatch.setattr(worker, "_LONGEST_PAUSE", 3.0)
        training = queue.training(queue.dataset())
        for second in range(runs.MOST_ATTEMPTS):
            assert claim(queue, datetime.now(UTC) - timedelta(minutes=2) + timedelta(seconds=3 * second)) is not None
        left = worker.Worker(queue.found)
        newer = json.loads(queue.row(training).request) | {"parameters": {"of": "another version"}}
        queue.change(training, request=json.dumps(newer), started_at=database.stamp(datetime.now(UTC)))
        held: Any = left._claim()
        assert held.exhausted
        left._attend(held)
        assert queue.row(training).state == runs.FAILED
        assert since_its_start(queue, training, datetime.now(UTC)) >= 2.9
        queue.check_charged_once(training)

    def test_a_start_that_a_clock_moved_far_away_does_not_hang_a_training(self, queue):
        dataset, now = queue.dataset(), datetime.now(UTC)
        moved = [queue.training(dataset) for _ in range(3)]
        for training, days in zip(moved, (-400, -1, 1), strict=True):
            assert claim(queue, now - timedelta(minutes=1)).training == training
            queue.change(training, started_at=database.stamp(now + timedelta(days=days)))
        with queue.pool():
            assert [queue.ended(training).state for training in moved] == [runs.RELEASED] * 3
        for training in moved:
            queue.check_charged_once(training)


class TestSilence:
    @embedded
    def test_a_dataset_that_cannot_be_read_is_one_code_and_ids_in_the_log(self, queue):
        def columns(folder: Path) -> None:
            pyarrow.parquet.write_table(pa.table({CANARY: [1]}), folder / "0000.parquet")

        damages = [
            lambda folder: (folder / "0000.parquet").write_text(CANARY),
            lambda folder: os.truncate(folder / "0000.parquet", 100),
            lambda folder: ((folder / "0000.parquet").unlink(), (folder / "0000.parquet").mkdir()),
            columns,
        ]
        spoilt = []
        for damage in damages:
            dataset = queue.dataset()
            damage(stored(queue, dataset))
            spoilt.append(queue.training(dataset))
        with queue.pool():
            for training in spoilt:
                ended = queue.ended(training)
                assert (ended.state, ended.code) == (runs.FAILED, runs.FAILURE)
        for training in spoilt:
            queue.check_charged_once(training)
            assert queue.rows(tables.releases, training) == []
        assert all(f"Training {training} failed." in queue.log for training in spoilt)
        # A file that cannot be had is the store's fault, and may be there the next time; what is in one is nobody's.
        tries = [queue.log.count(f"Training {training} breaks off because the store") for training in spoilt]
        assert tries == [0, 0, 10, 0]
        assert [line for line in queue.log.splitlines() if not LINE.fullmatch(line)] == []
        assert queue.exits == {0}

    @embedded
    def test_a_dataset_that_is_not_there_is_charged_for_when_it_is_back_and_others_go_on(self, queue):
        damages = [
            lambda folder: (folder / "manifest.json").write_text(f'{{"{CANARY}": '),
            lambda folder: (folder / "manifest.json").write_text(f'{{"{CANARY}": 1}}'),
            lambda folder: (folder / "0000.parquet").unlink(),
            lambda folder: folder.rename(folder.with_name("elsewhere")),
        ]
        waiting = []
        for damage in damages:
            dataset = queue.dataset()
            folder = stored(queue, dataset)
            damage(folder)
            waiting.append(queue.training(dataset))
        sound = queue.training(queue.dataset())
        with queue.pool():
            assert queue.ended(sound).state == runs.RELEASED
            for training in waiting:
                assert queue.row(training).state == runs.QUEUED
                assert [row.kind for row in queue.rows(tables.ledger, training)] == ["reserve"]
            folder.with_name("elsewhere").rename(folder)
            assert queue.ended(waiting[-1]).state == runs.RELEASED
        said = [line for line in queue.log.splitlines() if not LINE.fullmatch(line)]
        assert said
        assert all(" ERROR discretion.worker: A training is left waiting: " in line for line in said)
        assert "1 of 1 files of the dataset are missing from the store, 0000.parquet first" in queue.log
        assert CANARY not in queue.log
        assert queue.exits == {0}


class TestCancel:
    def test_of_a_running_training_ends_the_child_and_stores_nothing(self, queue):
        slow = queue.training(queue.dataset(services.SLOW, units=400))
        with queue.worker() as process:
            services.wait_until(lambda: all_drawn(queue, slow), 60)
            assert len(dying.processes(queue.folder)) == 2
            with database.transaction(queue.engine) as connection:
                trainings.cancel(connection, slow, actor="key_analyst", at=datetime.now(UTC))
            services.wait_until(lambda: dying.processes(queue.folder) == [process.pid], 60)
            # The worker is free again before the cancelled training's time would have come.
            next_one = queue.training(queue.dataset())
            assert queue.ended(next_one).state == runs.RELEASED
        assert queue.row(slow).state == runs.CANCELLED
        assert queue.rows(tables.releases, slow) == []
        queue.check_charged_once(slow)

    @embedded
    def test_between_the_claim_and_the_first_look_leaves_the_worker_standing(self, queue):
        dataset = queue.dataset()
        training = queue.training(dataset)
        held = claim(queue, datetime.now(UTC))
        with database.transaction(queue.engine) as connection:
            trainings.cancel(connection, training, actor="key_owner", at=datetime.now(UTC))
            catalogue.retire(connection, dataset)
        worker.Worker(queue.found)._attend(held)
        assert queue.row(training).state == runs.CANCELLED
        queue.check_charged_once(training)


class TestClaims:
    def test_a_training_that_was_claimed_ten_times_has_failed_and_is_not_tried_again(self, queue):
        training, now = queue.training(queue.dataset()), datetime.now(UTC) - timedelta(minutes=1)
        for count in range(1, 11):
            assert claim(queue, now).fence == count
            now += timedelta(seconds=3)
        with queue.pool():
            ended = queue.ended(training)
        assert (ended.state, ended.code) == (runs.FAILED, runs.FAILURE)
        assert (queue.rows(tables.draws, training), queue.drawn(training)) == ([], [])
        queue.check_charged_once(training)

    @embedded
    def test_a_dataset_in_longer_blocks_than_plans_count_on_is_not_charged_and_the_log_says_what_to_do(
        self, queue, monkeypatch, caplog
    ):
        training, left = queue.training(queue.dataset()), worker.Worker(queue.found)
        monkeypatch.setattr(datasets, "_length", lambda count, schema: 1)
        assert left._claim() is None
        assert "A training is left waiting: An earlier version stored this dataset" in caplog.text
        assert "upload it again as a new dataset" in caplog.text
        assert [row.kind for row in queue.rows(tables.ledger, training)] == ["reserve"]

    def test_ten_attempts_at_what_lasts_take_forty_minutes_and_nothing_waits_after_the_last(self):
        pauses = [worker._pause_after(attempt).total_seconds() for attempt in range(1, 11)]
        assert pauses == [10, 20, 40, 80, 160, 320, 600, 600, 600, 0]

    def test_while_others_reserve_and_charge_the_ledger_is_not_taken_for_damaged(self, queue):
        dataset, now = queue.dataset(), datetime.now(UTC)
        for _ in range(8):
            queue.training(dataset)
        claimed: list[str] = []
        others = [threading.Thread(target=lambda: [queue.training(dataset) for _ in range(20)]) for _ in range(2)]
        for other in others:
            other.start()
        while any(other.is_alive() for other in others) or len(claimed) < 48:
            held = claim(queue, now)
            claimed += [] if held is None else [held.training]
        for other in others:
            other.join()
        assert len(set(claimed)) == 48


class TestWaiting:
    """What was charged, and that this worker cannot go on with, waits: half a day of it is an attempt."""

    @embedded
    @pytest.mark.parametrize(
        "lacking", ["the signing key", "the dataset", "memory", "a request it can read", "a whole request"]
    )
    def test_for_what_a_worker_lacks_ends_with_the_last_attempt(self, lacking, queue, caplog, monkeypatch):
        monkeypatch.setattr(worker, "_LONGEST_PAUSE", 1.0)
        dataset = queue.dataset()
        training, found = queue.training(dataset), queue.found
        assert claim(queue, datetime.now(UTC)).training == training
        signing.current(found)
        if lacking == "the signing key":
            found.signing_key_file.chmod(0o644)
        elif lacking == "the dataset":
            stored(queue, dataset).rename(queue.folder / "elsewhere")
        elif lacking == "a request it can read":
            newer = json.loads(queue.row(training).request) | {"parameters": {"of": "another version"}}
            queue.change(training, request=json.dumps(newer))
        elif lacking == "a whole request":
            queue.change(training, request=json.dumps({"algorithm": "dp-apvi"}))
        else:
            found = dataclasses.replace(found, training_megabytes=1)
        left = worker.Worker(found)
        for attempts in range(1, runs.MOST_ATTEMPTS):
            self.left_for(queue, training, hours=11)
            assert self.claimed(left) is None
            assert queue.row(training).attempts == attempts
            self.left_for(queue, training, hours=13)
            assert self.claimed(left) is None
            assert (queue.row(training).attempts, queue.row(training).state) == (attempts + 1, runs.RUNNING)
        held = self.claimed(left)
        assert held.exhausted
        left._attend(held)
        assert (queue.row(training).state, queue.row(training).code) == (runs.FAILED, runs.FAILURE)
        assert "A training is left waiting" in caplog.text
        assert queue.rows(tables.draws, training) == []
        queue.check_charged_once(training)

    @embedded
    def test_of_one_that_is_not_charged_or_that_somebody_has_is_not_counted(self, queue):
        queued, running = queue.training(queue.dataset()), queue.training(queue.dataset())
        queue.change(running, state=runs.RUNNING, attempts=1, lease_until=database.stamp(datetime.now(UTC)))
        with database.transaction(queue.engine) as connection:
            runs.count_wait(connection, [queued, running], at=datetime.now(UTC))
        assert [queue.row(each).attempts for each in (queued, running)] == [0, 1]

    @embedded
    def test_for_a_head_that_cannot_be_put_on_record_ends_as_well(self, queue, monkeypatch):
        def full(*given: object, **named: object) -> None:
            raise errors.HeadsUnavailable("A ledger's head cannot be put into DISCRETION_HEADS: No space left.")

        monkeypatch.setattr(heads, "export", full)
        training, left = queue.training(queue.dataset()), worker.Worker(queue.found)
        for attempts in range(1, runs.MOST_ATTEMPTS + 1):
            assert self.claimed(left) is None
            assert queue.row(training).attempts == attempts
            paused = datetime.fromisoformat(queue.row(training).lease_until) - datetime.now(UTC)
            assert paused <= worker._pause_after(attempts) <= paused + timedelta(minutes=1)
            self.left_for(queue, training, hours=1)
        held = self.claimed(left)
        assert held.exhausted
        left._attend(held)
        assert queue.row(training).state == runs.FAILED
        queue.check_charged_once(training)

    def left_for(self, queue: dying.Queue, training: str, *, hours: int) -> None:
        """As if its last worker had let go of it so long ago."""
        queue.change(training, lease_until=database.stamp(datetime.now(UTC) - timedelta(hours=hours)))

    def claimed(self, left: worker.Worker) -> Any:
        """What it takes when it looks again at what it could not carry out."""
        left._unfit.clear()
        return left._claim()


class TestUnsaid:
    @embedded
    def test_a_check_of_the_cluster_that_comes_to_no_end_says_what_to_do(self, queue, monkeypatch, caplog):
        training = queue.training(queue.dataset())
        monkeypatch.setattr(summing, "check", lambda *given: time.sleep(60))
        monkeypatch.setattr(summing, "patience", lambda: 0.5)
        left = worker.Worker(queue.found)
        assert left._suited() is None
        assert "The check of the cluster came to no end; look whether its scheduler or a machine hangs" in caplog.text
        assert queue.row(training).state == runs.QUEUED


class TestStop:
    def test_in_the_middle_of_a_training_another_worker_goes_on_at_once(self, queue):
        training = queue.training(queue.dataset(SOME_SECONDS))
        with queue.worker(lease_seconds=3600) as first:
            services.wait_until(lambda: all_drawn(queue, training), 60)
        assert first.returncode == 0
        assert dying.processes(queue.folder) == []
        drawn = queue.rows(tables.drawn, training)
        with queue.worker(lease_seconds=3600):  # nobody waits an hour for the first one's lease
            assert queue.ended(training).state == runs.RELEASED
        assert queue.rows(tables.drawn, training) == drawn
        queue.check_charged_once(training)

    @embedded
    def test_while_a_failure_waits_for_its_time_is_heard_as_well(self, queue):
        dataset = queue.dataset(services.SLOW, units=400)
        spoil(queue, dataset)
        training = queue.training(dataset)
        with queue.worker(lease_seconds=3600) as first:
            services.wait_until(lambda: queue.row(training).state == runs.RUNNING, 60)
            time.sleep(1)  # the child is started, finds that it cannot read, and ends
            services.wait_until(lambda: dying.processes(queue.folder) == [first.pid], 60)
            first.terminate()
            assert first.wait(10) == 0  # as promised to operators, and long before the failure was to appear
        assert queue.row(training).state == runs.RUNNING
        with queue.worker(lease_seconds=3600):
            assert queue.ended(training).state == runs.FAILED
        queue.check_charged_once(training)

    @embedded
    def test_at_any_step_nothing_is_lost_charged_or_drawn_twice(self, queue):
        """A worker that is told while sums are taken, while noise is drawn, and while a result waits for its time."""
        dataset = queue.dataset()
        steps = ["before the data is opened", "after the sums", "after intend 0 commits", "while noise is drawn 0"]
        steps += ["between draw and record 0", "after record 2 commits", "while it waits for the schedule"]
        told = [queue.training(dataset, plan={step: "worker, told"}) for step in steps]
        with queue.pool():
            assert [queue.ended(training).state for training in told] == [runs.RELEASED] * len(told)
        for training in told:
            assert queue.killed(training) == set(queue.plans[training])
            assert sorted(queue.drawn(training)) == list(range(queue.row(training).stages - 1))
            assert queue.row(training).fence == 2  # handed back once, and not waited for
            queue.check_charged_once(training)
        assert queue.exits == {0}

    def test_before_the_child_listens_is_heard_all_the_same(self, queue):
        training = queue.training(queue.dataset(), plan={"before the child listens": "child, told"})
        with queue.pool():
            ended = queue.ended(training)
        assert queue.killed(training) == {"before the child listens"}
        assert (ended.state, ended.fence) == (runs.RELEASED, 2)  # the first run stopped before it drew anything


@contextlib.contextmanager
def outage(engine: sa.Engine) -> Iterator[None]:
    """A database that drops everybody and lets nobody in, until the block ends."""
    name = engine.url.database
    server = database.engine(engine.url.set(database="postgres").render_as_string(False))
    engine.dispose()
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(
            sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"), {"name": name}
        )
        try:
            yield
        finally:
            connection.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    server.dispose()


class TestOutage:
    @on_a_server
    def test_a_training_whose_time_came_while_the_database_was_away_is_released_later(self, queue):
        dataset = queue.dataset(SOME_SECONDS)
        training, usual = queue.training(dataset), seconds(queue, dataset)
        with queue.worker() as process:
            services.wait_until(lambda: all_drawn(queue, training), 60)
            with outage(queue.engine):
                time.sleep(2 * usual)
                assert process.poll() is None
            assert queue.ended(training).state == runs.RELEASED
        assert process.returncode == 0
        queue.check_charged_once(training)

    @embedded
    def test_a_training_whose_store_is_away_between_two_sums_goes_on_when_it_is_back(self, queue):
        dataset = queue.dataset()
        training, store = queue.training(dataset), queue.found.datasets
        watched = {"SUMMED": str(queue.folder), "KEPT": "0", "PAUSE": "1"}
        with queue.running("tests.summed", "work", environment=watched):
            services.wait_until(lambda: [each for each in clusters.sums(queue.folder) if each.ended], 60)
            store.rename(store.with_name("elsewhere"))
            named = f"Training {training} breaks off because the store does not answer or does not have the dataset"
            services.wait_until(lambda: named in queue.log, 60)
            services.wait_until(lambda: "A training is left waiting: There is no dataset" in queue.log, 60)
            drawn = queue.rows(tables.drawn, training)
            assert (queue.row(training).state, len(drawn) > 0) == (runs.RUNNING, True)
            store.with_name("elsewhere").rename(store)
            assert queue.ended(training).state == runs.RELEASED
        assert [row for row in queue.rows(tables.drawn, training) if row in drawn] == drawn
        assert queue.row(training).attempts == 2
        queue.check_charged_once(training)
