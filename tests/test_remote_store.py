"""A whole service on a bucket: the story, and everything that can happen to the store meanwhile."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from discretion import database, ledger, sealing, tables
from tests import buckets, services
from tests.services import Client, Service

CANARY = 0.123456789012345


@pytest.fixture
def bucket(s3_server: buckets.Server) -> str:
    return s3_server.bucket()


@pytest.fixture
def way(s3_server: buckets.Server) -> Iterator[buckets.Gate]:
    """To the store, for a while."""
    made = buckets.gate(s3_server.port)
    yield made
    made.shut()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "store-keys"
    path.write_text(sealing.new_key().hex())
    return path


def granted(service: Service, **more: Any) -> tuple[Client, Client, str]:
    custodian, analyst = service.key("custodian"), service.key("analyst")
    dataset = services.ready_dataset(custodian, **more)
    services.grant(custodian, dataset, analyst)
    return custodian, analyst, dataset


def charges(service: Service, training: str) -> list[str]:
    """The rows of the ledger that a training has, by kind."""
    engine = database.engine(service.database)
    with database.snapshot(engine) as connection:
        ledger.verify_all(connection)
        wanted = sa.select(tables.ledger.c.kind).where(tables.ledger.c.training == training)
        found = list(connection.execute(wanted.order_by(tables.ledger.c.sequence)).scalars())
    engine.dispose()
    return found


def ready(service: Service) -> bool:
    return bool(service.client(None).get("/readyz").status_code == 200)


class TestStory:
    def test_upload_train_and_retire_leave_nothing_readable_and_then_nothing(
        self, s3_server: buckets.Server, bucket: str, keys: Path, tmp_path: Path
    ) -> None:
        with services.serve(tmp_path / "service", **s3_server.settings(bucket), store_key_file=keys) as service:
            assert ready(service)
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.new_dataset(custodian)
            rows = services.csv(200).decode().splitlines()
            planted = [rows[0], *(f"{row.rsplit(',', 1)[0]},{CANARY}" for row in rows[1:])]
            assert services.upload(custodian, dataset, "\n".join(planted).encode()).status_code == 201
            services.grant(custodian, dataset, analyst)
            training = services.submit(analyst, dataset).json()["id"]
            assert services.ended(analyst, training)["state"] == "released"
            assert charges(service, training) == ["reserve", "charge"]
            stored = s3_server.content(bucket)
            assert sorted(key.rsplit("/", 1)[1] for key in stored) == ["0000.parquet.sealed", "manifest.json"]
            signs = [repr(CANARY).encode(), np.float64(CANARY).tobytes()]
            left = [path.read_bytes() for path in (tmp_path / "service").rglob("*") if path.is_file()]
            assert not any(sign in content for content in [*stored.values(), *left] for sign in signs)
            assert os.listdir(tmp_path / "service" / "data" / "work") == []
            assert not (tmp_path / "service" / "data" / "datasets").exists()
            assert custodian.delete(f"/v1/datasets/{dataset}").json()["state"] == "retired"
            assert s3_server.keys(bucket) == set()
            assert s3_server.secret_key not in service.log

    def test_rotating_the_key_disturbs_nobody(
        self, s3_server: buckets.Server, bucket: str, keys: Path, tmp_path: Path
    ) -> None:
        named = s3_server.settings(bucket) | {"store_key_file": keys}
        with services.serve(tmp_path / "service", **named) as service:
            _, analyst, dataset = granted(service)
            environment = services.environment(tmp_path / "service", **named)

            def run(*command: str) -> str:
                whole = [sys.executable, "-m", "discretion", "store", *command]
                return subprocess.run(whole, env=environment, check=True, capture_output=True, text=True).stdout

            assert "can be written" in run("check")
            old, new = keys.read_text(), run("key").strip()
            keys.write_text(f"{new}\n{old}\n")
            assert run("rotate") == f"{dataset}\n"
            assert run("rotate") == ""
            keys.write_text(new)
            training = services.submit(analyst, dataset).json()["id"]
            assert services.ended(analyst, training)["state"] == "released"
            keys.write_text(old)
            refused = services.submit(analyst, dataset, "2").json()["id"]
            services.wait_until(lambda: "left waiting" in service.log)
            assert analyst.get(f"/v1/trainings/{refused}").json()["state"] == "queued"
            assert charges(service, refused) == ["reserve"]
            keys.write_text(new)
            assert services.ended(analyst, refused)["state"] == "released"
            assert new not in service.log


class TestAtTheStart:
    def test_a_store_that_is_away_is_told_and_waited_for(
        self, s3_server: buckets.Server, bucket: str, way: buckets.Gate, tmp_path: Path
    ) -> None:
        way.shut()
        with services.serve(tmp_path, **s3_server.settings(bucket, way.url)) as service:
            answer = service.client(None).get("/readyz")
            assert (answer.status_code, answer.json()["store"]) == (503, False)
            assert "The store does not answer" in service.log
            custodian = service.key("custodian")
            dataset = services.new_dataset(custodian)
            services.refused(services.upload(custodian, dataset, services.csv()), 507, "storage_failed")
            way.open()
            services.wait_until(lambda: ready(service))
            assert services.upload(custodian, dataset, services.csv()).status_code == 201

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"s3_secret_key": "wrong-secret"}, "refuses the credentials"),
            ({"store": "s3://nowhere-to-be-found?endpoint="}, "no such bucket"),
        ],
    )
    def test_what_is_wrong_is_said_in_the_log_and_nowhere_else(
        self, changed: dict[str, str], said: str, s3_server: buckets.Server, bucket: str, tmp_path: Path
    ) -> None:
        if "store" in changed:
            changed = {"store": changed["store"] + s3_server.url}
        with services.serve(tmp_path, **s3_server.settings(bucket) | changed, workers=0) as service:
            answer = service.client(None).get("/readyz")
            assert (answer.status_code, answer.json()["store"]) == (503, False)
            assert said in service.log
            assert said not in answer.text
            assert "wrong-secret" not in service.log

    @pytest.mark.parametrize(
        ("command", "named", "setting"),
        [
            ("serve", {"store": "s3://clinic?endpoint=http://127.0.0.1:9"}, "DISCRETION_S3_ACCESS_KEY"),
            ("work", {"store_key_file": "/nowhere/at/all"}, "DISCRETION_STORE_KEY_FILE"),
        ],
    )
    def test_a_setting_that_cannot_be_meant_stops_it(
        self, command: str, named: dict[str, str], setting: str, tmp_path: Path
    ) -> None:
        environment = services.environment(tmp_path, **named)
        whole = [sys.executable, "-m", "discretion", command]
        done = subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        assert setting in done.stderr
        assert "Traceback" not in done.stderr


def at(way: buckets.Gate, wanted: Callable[[bytes], bool], act: Callable[[], object]) -> None:
    """Do something when the store is first asked for what is wanted."""
    done: list[bytes] = []

    def look(asked: bytes) -> None:
        if wanted(asked) and not done:
            done.append(asked)
            act()

    way.look = look


def is_manifest(asked: bytes) -> bool:
    return asked.startswith(b"PUT ") and b"/manifest.json" in asked[:200]


def is_block(asked: bytes) -> bool:
    return asked.startswith(b"GET ") and b"/0000.parquet" in asked[:200]


@pytest.mark.long
class TestInTheMiddle:
    @pytest.mark.parametrize("mishap", ["the store is lost", "the service is killed"])
    def test_of_an_upload_nothing_stays_and_it_can_be_sent_again(
        self, mishap: str, s3_server: buckets.Server, bucket: str, way: buckets.Gate, tmp_path: Path
    ) -> None:
        named = s3_server.settings(bucket, way.url) | {"stall_seconds": 1, "workers": 0}
        with services.serve(tmp_path, **named) as service:
            custodian = service.key("custodian")
            dataset = services.new_dataset(custodian)
            if mishap == "the store is lost":
                at(way, is_manifest, way.shut)
                answer = services.upload(custodian, dataset, services.csv())
                services.refused(answer, 507, "storage_failed")
            else:

                def cut_off() -> None:
                    way.shut()
                    service.process.send_signal(signal.SIGKILL)

                at(way, is_manifest, cut_off)
                services.in_background(lambda: services.upload(custodian, dataset, services.csv())).join()
                service.stop()
        assert len(s3_server.keys(bucket)) == 1  # the block that was written before
        way.open()
        with services.serve(tmp_path, token=service.token, **named) as service:
            custodian = service.client(custodian.token)
            services.wait_until(lambda: not s3_server.keys(bucket), 60)
            assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"
            assert services.upload(custodian, dataset, services.csv()).status_code == 201
            assert len(s3_server.keys(bucket)) == 2

    def test_of_a_training_it_is_charged_once_and_goes_on_by_itself(
        self, s3_server: buckets.Server, bucket: str, way: buckets.Gate, tmp_path: Path
    ) -> None:
        with services.serve(tmp_path, **s3_server.settings(bucket, way.url)) as service:
            _, analyst, dataset = granted(service)
            at(way, is_block, way.shut)
            training = services.submit(analyst, dataset).json()["id"]
            services.wait_until(lambda: "left waiting" in service.log)
            assert "The store does not answer" in service.log
            assert charges(service, training) == ["reserve", "charge"]
            assert analyst.get(f"/v1/trainings/{training}").json()["state"] == "running"
            way.open()
            assert services.ended(analyst, training)["state"] == "released"
            assert charges(service, training) == ["reserve", "charge"]
            assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0.5"

    def test_before_a_training_begins_nothing_is_charged(
        self, s3_server: buckets.Server, bucket: str, way: buckets.Gate, tmp_path: Path
    ) -> None:
        with services.serve(tmp_path, **s3_server.settings(bucket, way.url)) as service:
            custodian, analyst, dataset = granted(service)
            way.shut()
            training = services.submit(analyst, dataset).json()["id"]
            services.wait_until(lambda: "left waiting" in service.log)
            assert charges(service, training) == ["reserve"]
            services.refused(custodian.delete(f"/v1/datasets/{dataset}"), 507, "storage_failed")
            assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "retired"
            way.open()
            assert custodian.delete(f"/v1/datasets/{dataset}").status_code == 200
            assert s3_server.keys(bucket) == set()


class TestAnotherHost:
    @pytest.fixture
    def host(self) -> Iterator["Host"]:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            pytest.skip("a network namespace needs root and iproute2")
        made = Host()
        try:
            made.prepare()
            yield made
        finally:
            made.remove()

    @pytest.mark.parametrize("url", ["postgresql"], indirect=True)
    def test_a_worker_reads_the_same_store_and_nobody_else_is_asked(
        self, url: str, host: "Host", s3_server: buckets.Server, bucket: str, keys: Path, tmp_path: Path
    ) -> None:
        server = sa.make_url(url)
        folder = str(server.query["host"])

        def connect() -> socket.socket:
            made = socket.socket(socket.AF_UNIX)
            made.connect(f"{folder}/.s.PGSQL.{server.port or 5432}")
            return made

        base, store = buckets.Gate(connect, host.near), buckets.gate(s3_server.port, host.near)
        with services.serve(
            tmp_path / "api", url, **s3_server.settings(bucket), store_key_file=keys, workers=0
        ) as service:
            _, analyst, dataset = granted(service)
            remote = server.set(host=host.near, port=base.port, query={}).render_as_string(False)
            named = s3_server.settings(bucket, store.url) | {"store_key_file": keys}
            named |= {"signing_key_file": tmp_path / "api" / "data" / "signing-key.pem"}
            environment = services.environment(tmp_path / "there", remote, **named)
            (tmp_path / "there").mkdir()
            with host.running(environment, tmp_path / "there" / "log") as worker:
                training = services.submit(analyst, dataset).json()["id"]
                assert services.ended(analyst, training)["state"] == "released"
                asked = host.addresses(worker.pid)
            assert asked <= {host.near}, (tmp_path / "there" / "log").read_text()
            assert any(line.startswith(b"GET /") and b".parquet" in line for line in store.seen)
            assert charges(service, training) == ["reserve", "charge"]
        base.shut()
        store.shut()


class Host:
    """A network of its own, in which nobody is but us at the other end of a cable."""

    def __init__(self) -> None:
        number = os.getpid() % 250 + 1
        self.name, self._cable = f"discretion{os.getpid()}", f"dsc{os.getpid()}"
        self.near, self._far = f"10.213.{number}.1", f"10.213.{number}.2"

    def prepare(self) -> None:
        _ip("netns", "add", self.name)
        _ip("link", "add", f"{self._cable}a", "type", "veth", "peer", "name", "far", "netns", self.name)
        _ip("address", "add", f"{self.near}/30", "dev", f"{self._cable}a")
        _ip("link", "set", f"{self._cable}a", "up")
        inside = ("-netns", self.name)
        _ip(*inside, "address", "add", f"{self._far}/30", "dev", "far")
        _ip(*inside, "link", "set", "far", "up")
        _ip(*inside, "link", "set", "lo", "up")

    def remove(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.name)  # the cable goes with it

    @contextlib.contextmanager
    def running(self, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        command = ["ip", "netns", "exec", self.name, sys.executable, "-m", "discretion", "work"]
        with log.open("wb") as words:
            process = subprocess.Popen(command, env=environment, stdout=words, stderr=words)
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(30) == 0

    def addresses(self, process: int) -> set[str]:
        """To whom its connections lead, those that were closed lately included."""
        found = set()
        for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]:
            there = line.split()[2].partition(":")[0]
            found.add(socket.inet_ntoa(bytes.fromhex(there)[::-1]))
        return found


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
