"""What goes wrong around a running service: it says 503, loses nothing, and goes on by itself when it is over."""

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from typer import testing

from discretion import cli, database, hosting, ledger, logs, serving, settings, summing, tables, worker
from tests import clusters, dying, providers, services
from tests.test_serving import run

on_a_server = pytest.mark.parametrize("url", ["postgresql"], indirect=True)
_SOCKET = ".s.PGSQL.5432"


class Line:
    """A line to a PostgreSQL server that can be cut: a socket beside the real one, and what passes through it."""

    def __init__(self, folder: Path, url: str) -> None:
        there = sa.make_url(url)
        self._real, self._folder = str(Path(str(there.query["host"])) / _SOCKET), folder
        self.url = there.update_query_dict({"host": str(folder)}).render_as_string(False)
        self._server: socket.socket | None = None
        self._open: list[socket.socket] = []

    def join(self) -> None:
        path = self._folder / _SOCKET
        path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(100)
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._real)
                self._open += [near, far]
                threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), near, far:
            while True:
                ready, _, _ = select.select([near, far], [], [])
                for one in ready:
                    if not (data := one.recv(2**16)):
                        return
                    (far if one is near else near).sendall(data)

    def cut(self) -> None:
        assert self._server is not None
        (self._folder / _SOCKET).unlink()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()


@pytest.fixture
def line(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Line]:
    made = Line(tmp_path_factory.mktemp("l"), url)  # a short name: a socket's path is at most a hundred characters
    made.join()
    yield made
    with contextlib.suppress(OSError):
        made.cut()


@contextlib.contextmanager
def starting(folder: Path, url: str, command: str = "serve", **given: Any) -> Iterator[tuple[Any, str]]:
    """A service whose start may take as long as it likes."""
    folder.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "discretion", command],
            env=services.environment(folder, url, port=port, **given),
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]


def status(url: str, path: str = "/readyz") -> int:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}{path}", verify=False).status_code
    return 0


@on_a_server
class TestDatabaseAway:
    def test_at_the_start_everybody_is_told_503_until_it_is_there(self, tmp_path, line):
        line.cut()
        with starting(tmp_path, line.url) as (process, url):
            services.wait_until(lambda: status(url) == 503, 240)
            assert status(url, "/healthz") == 503  # the first token has not been printed yet
            refused = httpx.get(f"{url}/v1/datasets")
            assert services.refused(refused, 503, "database_unavailable")["request"] == refused.headers["x-request-id"]
            assert refused.headers["retry-after"] == "1"
            line.join()
            services.wait_until(lambda: status(url) == 200, 240)
            assert len(process.stdout.readline().strip()) >= 24
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0

    def test_a_wait_for_it_ends_when_it_is_told_to(self, tmp_path, line):
        line.cut()
        with starting(tmp_path, line.url) as (process, url):
            services.wait_until(lambda: status(url) == 503, 240)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0

    def test_in_the_middle_requests_get_503_and_the_training_goes_on_afterwards(self, tmp_path, line, url):
        with services.serve(tmp_path, line.url, lease_seconds=2) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian, schema=services.SLOW)
            services.grant(custodian, dataset, analyst)
            training = services.submit(analyst, dataset).json()["id"]
            services.wait_until(lambda: analyst.get(f"/v1/trainings/{training}").json()["state"] == "running")
            line.cut()
            services.refused(services.submit(analyst, dataset, "2"), 503, "database_unavailable")
            answer = service.client(None).get("/readyz")
            assert (answer.status_code, answer.json()["database"]) == (503, False)
            assert service.client(None).get("/healthz").status_code == 200
            line.join()
            services.wait_until(lambda: service.client(None).get("/readyz").status_code == 200)
            assert services.ended(analyst, training, 120)["state"] in ("released", "failed")
            assert services.submit(analyst, dataset, "2").status_code == 202
        check_once(url, training)

    def test_a_worker_waits_for_it(self, tmp_path, line, url):
        queue = dying.Queue(tmp_path, url)
        training = queue.training(queue.dataset())
        line.cut()
        with starting(tmp_path, line.url, "work"):
            services.wait_until(lambda: "does not answer" in queue.log, 240)
            line.join()
            assert queue.ended(training).state == "released"
        queue.check_charged_once(training)
        queue.close()

    def test_a_password_that_is_wrong_is_no_outage(self, tmp_path, url):
        wrong = sa.make_url(url).set(username="nobody_knows").render_as_string(False)
        done = run(tmp_path, "serve", url=wrong)
        assert done.returncode == 2
        assert "DISCRETION_DATABASE_URL" in done.stderr.splitlines()[-1]


def check_once(url: str, training: str) -> None:
    engine = database.engine(url)
    with database.snapshot(engine) as connection:
        ledger.verify_all(connection)
        moved = sa.select(tables.ledger.c.kind).where(tables.ledger.c.training == training)
        assert sorted(connection.execute(moved).scalars()) == ["charge", "reserve"]
    engine.dispose()


class TestMigrateElsewhere:
    def test_the_service_waits_until_somebody_has_migrated(self, tmp_path, url):
        with starting(tmp_path, url, migrate="false") as (process, address):
            services.wait_until(lambda: status(address) == 503, 240)
            assert run(tmp_path, "migrate", url=url).returncode == 0
            services.wait_until(lambda: status(address) == 200, 240)
            assert process.poll() is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a small disk")
class TestFullDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        """A disk of a few megabytes."""
        place = tmp_path / "disk"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", place], check=False).returncode:
            pytest.skip("this machine lets nobody mount")
        yield place
        subprocess.run(["umount", "--lazy", place], check=True)

    def test_nothing_is_lost_and_it_goes_on_when_there_is_room_again(self, disk):
        with services.serve(disk) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            empty = services.new_dataset(custodian)
            with (disk / "filler").open("wb") as filler, contextlib.suppress(OSError):
                while True:
                    filler.write(b"\0" * 2**16)
                    filler.flush()
            answer = services.upload(custodian, empty, services.csv(20_000))
            assert answer.status_code in (503, 507), answer.text
            assert services.submit(analyst, dataset).status_code in (202, 503)
            assert service.client(None).get("/healthz").status_code == 200
            (disk / "filler").unlink()
            services.wait_until(lambda: service.client(None).get("/readyz").status_code == 200)
            assert services.upload(custodian, empty, services.csv(20)).status_code == 201
            training = services.submit(analyst, dataset).json()["id"]
            assert services.ended(analyst, training)["state"] == "released"
        check_once(service.database, training)

    def test_a_backup_that_does_not_fit_leaves_nothing(self, tmp_path, disk):
        with services.serve(tmp_path, workers=0) as service:
            custodian = service.key("custodian")
            dataset = services.new_dataset(custodian)
            assert services.upload(custodian, dataset, services.csv(1000)).status_code == 201
            (disk / "filler").write_bytes(b"\0" * (12 * 2**20 - 2**13))
            done = run(tmp_path, "backup", str(disk / "b"))
        assert done.returncode == 1
        assert "nothing of it is left" in done.stderr
        assert [path.name for path in disk.iterdir()] == ["filler"]


# --- settings ----------------------------------------------------------------------------------------------------

KEY = "-----BEGIN PRIVATE KEY-----\nno key\n-----END PRIVATE KEY-----"
WRONG: list[tuple[str, Callable[[Path], str]]] = [
    ("DATA", lambda folder: str(folder / "file")),
    ("DATA", lambda folder: str(folder / "file" / "below")),
    ("WORK", lambda folder: str(folder / "file")),
    ("WORK", lambda folder: str(folder / "file" / "below")),
    ("WORK", lambda folder: "/proc/work"),
    ("HEADS", lambda folder: str(folder / "file")),
    ("HEADS", lambda folder: str(folder / "file" / "below")),
    ("HEADS", lambda folder: "/proc/heads"),
    ("HOST", lambda folder: "no such host"),
    ("HOST", lambda folder: "203.0.113.7"),
    ("DATABASE_URL", lambda folder: "nonsense"),
    ("DATABASE_URL", lambda folder: "mysql://host/name"),
    ("DATABASE_URL", lambda folder: "postgresql://host:port/name"),
    ("DATABASE_URL", lambda folder: f"sqlite:///{folder / 'missing' / 'x.db'}"),
    ("DATABASE_URL", lambda folder: f"sqlite:///{folder / 'file'}"),
    ("DATABASE_URL", lambda folder: "postgresql://127.0.0.1:1/name?sslmode=bogus"),
    ("DATABASE_URL", lambda folder: "postgresql://127.0.0.1:99999/name"),
    ("DATABASE_URL", lambda folder: "postgresql:///name?host=/nowhere&nonsense=1"),
    ("DATABASE_URL_FILE", lambda folder: str(folder / "missing")),
    ("DATABASE_URL_FILE", lambda folder: str(folder)),
    ("SIGNING_KEY", lambda folder: KEY),
    ("SIGNING_KEY_FILE", lambda folder: str(folder / "missing")),
    ("SIGNING_KEY_FILE", lambda folder: str(folder / "binary")),
    ("METRICS_TOKEN", lambda folder: "short"),
    ("METRICS_TOKEN_FILE", lambda folder: str(folder / "empty")),
    *[(name, lambda folder: "many") for name in settings._NUMBERS],
    *[(name, lambda folder: "-1") for name in settings._NUMBERS],
    *[(name, lambda folder: "maybe") for name in settings._CHOICES],
    ("STORE", lambda folder: "ftp://host/place"),
    ("STORE", lambda folder: f"file://{folder / 'file'}"),
    ("STORE", lambda folder: f"file://{folder / 'file' / 'below'}"),
    ("STORE", lambda folder: "s3://bucket?endpoint=https://127.0.0.1:1"),  # without keys
    ("STORE_KEY_FILE", lambda folder: str(folder / "missing")),
    ("STORE_KEY_FILE", lambda folder: str(folder / "empty")),
    ("S3_ACCESS_KEY_FILE", lambda folder: str(folder / "missing")),
    ("S3_SECRET_KEY_FILE", lambda folder: str(folder / "empty")),
    ("CLUSTER", lambda folder: "tcp://127.0.0.1:8786"),
    ("CLUSTER", lambda folder: "tls://127.0.0.1:8786"),  # without certificates
    ("NO_SUCH_SETTING", lambda folder: "1"),
]
# What means something only beside another setting.
BUCKET = {
    "STORE": "s3://bucket?endpoint=https://127.0.0.1:1",
    "S3_ACCESS_KEY": "access",
    "S3_SECRET_KEY": "secret",
}
PROVIDER = {
    "OIDC_ISSUER": "https://id.hospital.example",
    "OIDC_AUDIENCE": "discretion",
    "OIDC_ROLES": "clinic=custodian",
}
CLUSTER = {"CLUSTER": "tls://127.0.0.1:1"}  # and certificates, which `_given` makes
WRONG_BESIDE: list[tuple[dict[str, str], str, Callable[[Path], str]]] = [
    (BUCKET, "S3_ACCESS_KEY", lambda folder: "two words"),
    (BUCKET, "S3_SECRET_KEY", lambda folder: "ümlaut"),
    (BUCKET, "S3_CA_FILE", lambda folder: str(folder / "missing")),
    (BUCKET, "STORE", lambda folder: "s3://bucket?endpoint=https://127.0.0.1:99999"),
    (CLUSTER, "CLUSTER", lambda folder: "tls://127.0.0.1:99999"),
    *[(CLUSTER, name, lambda folder: "") for name in settings._TLS],
    *[(CLUSTER, name, lambda folder: str(folder / "missing")) for name in settings._TLS],
    *[(CLUSTER, name, lambda folder: str(folder)) for name in settings._TLS],
    *[(CLUSTER, name, lambda folder: str(folder / "file")) for name in settings._TLS],
    (CLUSTER, "CLUSTER_KEY_FILE", lambda folder: str(clusters.certificates(folder / "other")["cluster_key_file"])),
    (PROVIDER, "OIDC_ISSUER", lambda folder: "http://id.hospital.example"),
    (PROVIDER, "OIDC_ISSUER", lambda folder: "https://id.hospital.example:99999"),
    (PROVIDER, "OIDC_AUDIENCE", lambda folder: ""),
    (PROVIDER, "OIDC_ROLES", lambda folder: "clinic=director"),
    (PROVIDER, "OIDC_ROLE_CLAIM", lambda folder: "two\nlines"),
    (PROVIDER, "OIDC_NAME_CLAIM", lambda folder: "two\nlines"),
    (PROVIDER, "OIDC_ALGORITHMS", lambda folder: "none"),
    (PROVIDER, "OIDC_CLOCK_SKEW_SECONDS", lambda folder: "a lot"),
    (PROVIDER, "OIDC_CA_FILE", lambda folder: str(folder / "missing")),
]
NOTHING: dict[str, str] = {}
EVERY_WRONG = [(NOTHING, name, value) for name, value in WRONG] + WRONG_BESIDE
STORE = {"STORE", "STORE_KEY_FILE", *(name for name in settings._NAMES if name.startswith("S3_"))}
# What a command has no use for. A name in it may still be refused: nobody sets what cannot be read at all.
UNUSED: dict[str, set[str]] = {
    "serve": set(),
    "work": {"HOST", "WORK"},
    "migrate": {"HOST", "WORK", "HEADS", "SIGNING_KEY", *STORE, *settings._TLS},
    "cluster schedule": {"DATA", "HOST", "WORK", "HEADS", "SIGNING_KEY", "DATABASE_URL", *STORE},
    "cluster work": {"HOST", "WORK", "HEADS", "SIGNING_KEY", "DATABASE_URL"},
    "cluster check": {"DATA", "HOST", "WORK", "HEADS", "SIGNING_KEY", "DATABASE_URL", *STORE},
}
EACH = [
    pytest.param(command, *wrong, id=f"{command}-{wrong[1]}")
    for command, unused in UNUSED.items()
    for wrong in EVERY_WRONG
    if wrong[1] not in unused
]


class Begun(Exception):
    """A command has come past its settings."""


def begin(*given: Any) -> NoReturn:
    for each in given:
        if isinstance(each, worker.Worker):
            each._engine.dispose()
        if isinstance(each, FastAPI):
            each.state.service.engine.dispose()
        if isinstance(each, socket.socket):
            each.close()
    raise Begun


class TestWrongSettings:
    @pytest.fixture(autouse=True)
    def nothing_begins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The commands run in this process, up to where they would begin, or wait."""
        for owner, name in ((serving, "serve"), (hosting, "schedule"), (hosting, "work"), (summing, "check")):
            monkeypatch.setattr(owner, name, begin)
        monkeypatch.setattr(serving, "_wait", begin)
        monkeypatch.setattr(worker.Worker, "_claim", begin)
        monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=begin))
        for owner, name in ((serving, "harden"), (logs, "configure"), (signal, "signal")):  # of the whole process
            monkeypatch.setattr(owner, name, lambda *_: None)

    def test_there_is_a_wrong_value_for_every_setting(self):
        tried = {name for _, name, _ in EVERY_WRONG}
        assert {*settings._NAMES, *(f"{name}_FILE" for name in settings._SECRETS)} <= tried

    @pytest.mark.parametrize(("command", "beside", "name", "value"), EACH)
    def test_the_start_ends_with_one_sentence_that_names_the_setting(self, tmp_path, command, beside, name, value):
        done = started(tmp_path, command, beside, **{name: value})
        assert done.exit_code == 2, done.exception
        assert f"DISCRETION_{name.removesuffix('_FILE')}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert KEY.splitlines()[1] not in done.output

    @pytest.mark.parametrize("command", UNUSED)
    def test_and_what_is_right_begins(self, tmp_path, command):
        """The control: nothing but the setting has ended a start above."""
        assert started(tmp_path, "migrate").exit_code == 0
        done = started(tmp_path, command, CLUSTER)
        assert isinstance(done.exception, Begun) or (command, done.exit_code) == ("migrate", 0)

    def test_a_disk_that_is_full_is_waited_for(self, tmp_path, monkeypatch):
        def full(dir: Path) -> NoReturn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(tempfile, "TemporaryFile", full)
        assert isinstance(started(tmp_path, "serve").exception, Begun)

    @pytest.mark.parametrize("command", ["work", "cluster work"])
    def test_a_store_that_is_not_mounted_is_waited_for(self, tmp_path, command):
        assert started(tmp_path, "migrate").exit_code == 0
        done = started(tmp_path, command, CLUSTER, STORE=lambda folder: f"file://{folder / 'missing'}")
        assert isinstance(done.exception, Begun)


def started(
    folder: Path, command: str, beside: dict[str, str] = NOTHING, **given: Callable[[Path], str]
) -> testing.Result:
    (folder / "file").write_text("a file that is no folder, no database and no certificate")
    (folder / "binary").write_bytes(b"\xff\xfe")
    (folder / "empty").touch()
    found = beside | {}
    if beside is CLUSTER:
        made = clusters.certificates(folder / "tls")
        found |= {name.upper(): str(path) for name, path in made.items()}
    found |= {name: value(folder) for name, value in given.items()}
    environment = services.environment(folder) | {f"DISCRETION_{name}": value for name, value in found.items()}
    return testing.CliRunner().invoke(cli.app, command.split(), env=environment)


class TestUnreadableSecret:
    def test_a_key_that_vanishes_stops_what_needs_it_and_nothing_else(self, tmp_path):
        with services.serve(tmp_path) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            key = tmp_path / "data" / "signing-key.pem"
            kept = key.read_bytes()
            key.write_bytes(b"nonsense")
            services.refused(custodian.get(f"/v1/datasets/{dataset}/ledger/head"), 503, "invalid_setting")
            training = services.submit(analyst, dataset).json()["id"]
            services.wait_until(lambda: "left waiting" in service.log)
            assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0"
            key.write_bytes(kept)
            assert services.ended(analyst, training)["state"] == "released"


@pytest.mark.long
class TestClock:
    def test_a_clock_that_is_put_back_or_forward_costs_nothing(self, tmp_path, url):
        """Leases are compared as the database's times: however they jump, a training is charged and drawn once."""
        queue = dying.Queue(tmp_path, url)
        dataset = queue.dataset(services.SLOW)
        training = queue.training(dataset)
        with queue.worker():
            services.wait_until(lambda: queue.row(training).state == "running")
            for jump in ("1999-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"):
                queue.change(training, lease_until=jump, started_at=jump)
                with queue.worker():
                    pass
            assert queue.ended(training).state in ("released", "failed")
        queue.check_charged_once(training)
        queue.close()

    def test_that_jumps_an_hour_forward_and_back_loses_no_training_and_charges_none_twice(self, tmp_path, url):
        """Everybody's at once: of API, two workers and the database. What ends by the time of day ends by that one."""
        queue, clock = dying.Queue(tmp_path, url), tmp_path / "clock"
        with providers.provider() as provider, jumping_service(queue, clock, provider) as service:
            custodian, analyst, browser = service.key("custodian"), service.key("analyst"), service.client(None)
            assert browser.post("/v1/session", json={"token": analyst.token}).status_code == 201
            identity = service.client(provider.token())

            def let_in() -> list[int]:
                """Whom a key, a session and a token of the provider open for, now."""
                return [one.get("/v1/datasets").status_code for one in (analyst, browser, identity)]

            dataset = services.ready_dataset(custodian, schema=services.SLOW)
            services.grant(custodian, dataset, analyst)
            training = services.submit(analyst, dataset).json()["id"]
            with jumping(queue, clock, "work"), jumping(queue, clock, "work"):
                services.wait_until(lambda: [row.recorded for row in queue.rows(tables.draws, training)][-1:] == [True])
                assert let_in() == [200, 200, 200]
                # An hour after it was last used a session has ended, and a token that lasted five minutes as well;
                # before it was issued, a token is not good yet.
                for hours, expected in ((1, [200, 401, 401]), (0, [200, 200, 200]), (-1, [200, 200, 401])):
                    put(clock, hours)
                    assert let_in() == expected
                    services.wait_until(lambda: is_kept(queue.row(training), hours))  # noqa: B023 (at once)
                put(clock, 0)
                assert services.ended(analyst, training)["state"] == "released"
            assert let_in() == [200, 200, 200]
            again = services.submit(analyst, dataset).json()
            assert (again["id"], again["state"]) == (training, "released")
            assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0.5"
        queue.check_charged_once(training)
        queue.close()


@contextlib.contextmanager
def jumping_service(queue: dying.Queue, clock: Path, provider: providers.Provider) -> Iterator[services.Service]:
    put(clock, 0)
    port = clusters.free_port()
    with jumping(queue, clock, "serve", port=port, workers=0, **provider.environment()) as process:
        service = services.Service(f"http://127.0.0.1:{port}", "", process, queue.folder, queue.url)
        services.wait_until(lambda: status(service.url) == 200, 240)
        service.token = run(queue.folder, "keys", "create", "--role", "admin", url=queue.url).stdout.strip()
        yield service
        service.stop()


def put(clock: Path, hours: int) -> None:
    """At once: a process that asks meanwhile is told the old time or the new one."""
    new = clock.with_suffix(".new")
    new.write_text(str(3600 * hours))
    new.replace(clock)


def jumping(
    queue: dying.Queue, clock: Path, command: str, **given: Any
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    return queue.running("tests.jumping", command, environment={"JUMP": str(clock)}, **given)


def is_kept(row: Any, hours: int) -> bool:
    """Whether its worker has noticed what time it is now."""
    until = datetime.fromisoformat(row.lease_until) - datetime.now(UTC) - timedelta(hours=hours)
    return row.state == "released" or abs(until) < timedelta(minutes=5)
