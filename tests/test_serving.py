"""`discretion serve` and `discretion work` as an operator meets them: starting, stopping, refusing, sharing a queue."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from discretion import certificates, database, errors, ledger, runs, settings, signing, tables
from tests import dying, services

# So many trajectories might be there that a result takes eight seconds to appear, whatever the data are.

embedded = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
on_a_server = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


def run(folder: Path, *arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "discretion", *arguments]
    environment = services.environment(folder, **given)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def refusal(folder: Path, **given: Any) -> tuple[int, str]:
    """The exit code of a service that does not start, and its last words."""
    done = run(folder, "serve", **given)
    assert dying.processes(folder) == []
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def damage(url: str) -> None:
    """Somebody who owns the database takes its guards away and changes the first row of a ledger."""
    engine = database.engine(url)
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            guards = (
                connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
            )
            for guard in guards:
                connection.execute(sa.text(f"DROP TRIGGER {guard}"))
        else:
            connection.execute(sa.text("SET session_replication_role = replica"))
        connection.execute(tables.ledger.update().where(tables.ledger.c.sequence == 1).values(actor="key_somebody"))
    engine.dispose()


def movements(url: str) -> Counter[tuple[str, str]]:
    """How often each training was set aside for and charged, once everything adds up."""
    engine = database.engine(url)
    with database.snapshot(engine) as connection:
        ledger.verify_all(connection)
        rows = connection.execute(sa.select(tables.ledger.c.training, tables.ledger.c.kind)).all()
    engine.dispose()
    return Counter((training, kind) for training, kind in rows if training is not None)


class TestFirstStart:
    def test_prints_a_token_alone_before_it_answers_and_the_second_prints_nothing(self, tmp_path):
        said: list[str] = []
        for attempt in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            output = tmp_path / f"output-{attempt}"
            with output.open("wb") as stdout, (tmp_path / "log").open("ab") as log:
                environment = services.environment(tmp_path, port=port)
                command = [sys.executable, "-m", "discretion", "serve"]
                process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=log)
            try:
                services.wait_until(lambda port=port: services._answers(f"http://127.0.0.1:{port}"), 60)
                when_it_answered = output.read_text()
                token = when_it_answered.strip() or said[0].strip()
                key = httpx.get(f"http://127.0.0.1:{port}/v1/keys", headers={"Authorization": f"Bearer {token}"})
                assert key.status_code == 200
            finally:
                process.terminate()
                assert process.wait(10) == 0
            assert output.read_text() == when_it_answered
            said.append(when_it_answered)
        assert re.fullmatch(r"[A-Za-z0-9_]{24,}\n", said[0])
        assert said[1] == ""
        assert said[0].strip() not in (tmp_path / "log").read_text()

    def test_waits_for_nothing_that_only_migrations_and_buckets_need(self, tmp_path: Path) -> None:
        program = (
            "import sys, discretion.worker, discretion.api.app; print({'alembic', 'httpx', 'rich'} & set(sys.modules))"
        )
        environment = services.environment(tmp_path)
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout == "set()\n", done.stderr


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *[("PORT", text) for text in ("-1", "65536", "80a", "8e1", "8.0", " 80", "٨٠", "0" * 12 + "8", "true")],
            ("WORKERS", "65"),
            ("LEASE_SECONDS", "1"),
            ("REQUESTS_PER_SECOND", "0"),
            ("MAX_UPLOAD_MEGABYTES", "0"),
            ("UPLOADS", "0"),
            ("STALL_SECONDS", "inf"),
            ("METRICS_TOKEN", "x" * 23),
        ],
    )
    def test_an_unsafe_one_is_refused_by_its_name(self, name, value):
        with pytest.raises(errors.InvalidSetting, match=f"DISCRETION_{name}"):
            settings.read({f"DISCRETION_{name}": value})

    def test_what_is_just_right_is_taken(self):
        found = settings.read(
            {"DISCRETION_PORT": "65535", "DISCRETION_WORKERS": "0", "DISCRETION_METRICS_TOKEN": "x" * 24}
        )
        assert (found.port, found.workers, found.metrics_token) == (65535, 0, "x" * 24)


class TestRefusals:
    @pytest.mark.parametrize("given", [{"workers": "many"}, {"metrics_token": "short"}, {"wrokers": 1}])
    def test_a_setting_that_cannot_be_meant_is_named_and_nothing_is_made(self, tmp_path, given):
        code, words = refusal(tmp_path, **given)
        assert code == 2
        assert f"DISCRETION_{next(iter(given)).upper()}" in words
        assert not (tmp_path / "data").exists()

    def test_a_port_in_use_is_named(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, words = refusal(tmp_path, port=port)
        assert (code, f"Cannot listen on 127.0.0.1:{port}" in words) == (2, True)

    def test_a_signing_key_that_others_can_read_is_not_used(self, tmp_path):
        found = settings.read(services.environment(tmp_path))
        found.data.mkdir()
        signing.ensure(found.signing_key_file)
        found.signing_key_file.chmod(0o640)
        code, words = refusal(tmp_path)
        assert (code, "signing key can be read by others" in words) == (2, True)

    @pytest.mark.parametrize("command", ["serve", "work"])
    def test_a_database_of_a_newer_version_is_left_alone(self, tmp_path, url, command):
        engine = database.engine(url)
        database.migrate(engine)
        with database.transaction(engine) as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        done = run(tmp_path, command, url=url)
        with database.snapshot(engine) as connection:
            assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"
            assert connection.execute(tables.keys.select()).all() == []
        engine.dispose()
        assert done.returncode == 2
        assert "version" in done.stderr.splitlines()[-1]


class TestDamage:
    def test_stops_a_running_service_and_keeps_it_from_starting(self, tmp_path, url):
        with services.serve(tmp_path, url, workers=0) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            assert service.admin.get("/readyz").status_code == 200
            damage(url)
            # A check that took long is not repeated at once.
            services.wait_until(lambda: service.admin.get("/readyz").status_code == 503, 60)
            assert service.admin.get("/readyz").json()["ledger"] is False
            answers = [
                custodian.get("/v1/datasets"),
                services.submit(analyst, dataset),
                service.admin.post("/v1/keys", json={"name": "x", "role": "auditor"}),
            ]
            assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(503, "ledger_damaged")] * 3
            assert service.admin.get("/healthz").status_code == 200
        for command in ("serve", "work"):
            done = run(tmp_path, command, url=url)
            assert done.returncode == 1
            assert "broken at row 1" in done.stderr.splitlines()[-1]
            assert dying.processes(tmp_path) == []

    def test_a_worker_at_work_stops_rather_than_charge(self, tmp_path, url):
        queue = dying.Queue(tmp_path, url)
        dataset = queue.dataset()
        first = queue.training(dataset)
        with queue.worker() as process:
            assert queue.ended(first).state == runs.RELEASED
            damage(url)
            second = queue.training(dataset)
            assert process.wait(60) == 1
        assert (queue.row(second).state, queue.row(second).fence) == (runs.QUEUED, 0)
        assert [row.kind for row in queue.rows(tables.ledger, second)] == ["reserve"]
        assert "broken at row 1" in queue.log
        queue.close()

    @embedded
    def test_that_a_worker_of_the_service_finds_ends_the_service_with_nothing_charged(self, tmp_path, url):
        with services.serve(tmp_path, url) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            damage(url)
            training = services.submit(analyst, dataset)
            assert service.process.wait(60) == 1
        assert dying.processes(tmp_path) == []
        engine = database.engine(url)
        with database.snapshot(engine) as connection:
            rows = connection.execute(sa.select(tables.ledger.c.training, tables.ledger.c.kind)).all()
        engine.dispose()
        assert rows == [(None, "open"), (training.json()["id"], "reserve")]


def stalled(begun: threading.Event, over: threading.Event) -> Iterator[bytes]:
    yield services.csv(2000)
    begun.set()
    over.wait()


class TestSigterm:
    def test_ends_everything_and_the_next_start_finishes_the_training(self, tmp_path, url):
        with services.serve(tmp_path, url, lease_seconds=3600) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset, empty = services.ready_dataset(custodian, schema=services.SLOW), services.new_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            training = services.submit(analyst, dataset).json()["id"]
            begun, over, seen = threading.Event(), threading.Event(), threading.Event()

            def upload() -> None:  # broken off or refused, whichever comes first
                with contextlib.suppress(httpx.TransportError):
                    answers.append(services.upload(custodian, empty, stalled(begun, over)))

            def listen() -> None:
                with (
                    contextlib.suppress(httpx.TransportError),
                    analyst.stream("GET", f"/v1/trainings/{training}/events") as stream,
                ):
                    for _ in stream.iter_lines():
                        seen.set()

            answers: list[httpx.Response] = []
            threads = [threading.Thread(target=act) for act in (upload, listen)]
            for thread in threads:
                thread.start()
            assert begun.wait(60)
            assert seen.wait(60)
            services.wait_until(lambda: analyst.get(f"/v1/trainings/{training}").json()["state"] == "running", 60)
            assert len(dying.processes(tmp_path)) >= 2
            told = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(10) == 0
            assert dying.processes(tmp_path) == []
            assert time.monotonic() - told < 10  # the one time that is promised
            over.set()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
            assert all(answer.status_code >= 400 for answer in answers)

        # Nobody waits an hour for the lease: the worker has let go of the training.
        with services.serve(tmp_path, url, token=service.token, lease_seconds=3600) as service:
            analyst = service.client(analyst.token, analyst.id, "analyst")
            custodian = service.client(custodian.token, custodian.id, "custodian")
            assert services.ended(analyst, training, 120)["state"] == "released"
            assert custodian.get(f"/v1/datasets/{empty}").json()["state"] == "empty"
            assert list((tmp_path / "data" / "datasets").glob(".up*")) == []
        assert movements(url) == {(training, "reserve"): 1, (training, "charge"): 1}

    def test_a_start_that_is_told_to_stop_leaves_nobody_behind(self, tmp_path):
        command = [sys.executable, "-m", "discretion", "serve"]
        process = subprocess.Popen(
            command, env=services.environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        services.wait_until(lambda: len(dying.processes(tmp_path)) == 2, 60)
        process.terminate()
        assert process.wait(10) == 0
        assert dying.processes(tmp_path) == []


class TestManyWorkers:
    @on_a_server
    def test_share_one_queue_and_release_each_training_once(self, tmp_path, url):
        queue = dying.Queue(tmp_path, url)
        dataset = queue.dataset()
        trainings = [queue.training(dataset) for _ in range(6)]
        with queue.worker() as one, queue.worker() as other:
            assert [queue.ended(training).state for training in trainings] == [runs.RELEASED] * 6
        assert (one.returncode, other.returncode) == (0, 0)
        for training in trainings:
            queue.check_charged_once(training)
            assert len(queue.rows(tables.releases, training)) == 1
            assert queue.row(training).fence == 1
            assert queue.log.count(f"Training {training} begins.") == 1
        assert queue.log.count("Waiting for trainings.") == 2
        queue.close()


class TestRotation:
    @embedded
    def test_old_certificates_still_verify_and_new_ones_are_signed_with_another_key(self, tmp_path, url):
        with services.serve(tmp_path, url) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            released = []
            for number in range(2):
                training = services.submit(analyst, dataset, str(number)).json()["id"]
                policy = services.ended(analyst, training)["policy"]
                paths = (f"/v1/policies/{policy}", f"/v1/policies/{policy}/certificate")
                released.append([analyst.get(path).text for path in paths])
                if number == 0:
                    assert run(tmp_path, "keys", "rotate", url=url).returncode == 0
            derived = analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": {}}).json()["id"]
            paths = (f"/v1/policies/{derived}", f"/v1/policies/{derived}/certificate")
            released.append([analyst.get(path).text for path in paths])
            keys = httpx.get(f"{service.url}/v1/certificate-keys").text
        kids = [certificates.verify(document, certificate, keys).kid for document, certificate in released]
        assert kids[0] != kids[1] == kids[2]
        assert set(kids) == {key["kid"] for key in json.loads(keys)["keys"]}
