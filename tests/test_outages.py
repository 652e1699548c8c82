"""What goes wrong around a running service: it says 503, loses nothing, and goes on by itself when it is over."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from discretion import database, errors, ledger, serving, settings, tables
from tests import dying, services
from tests.test_serving import SLOW, run

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
            dataset = services.ready_dataset(custodian, schema=SLOW)
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
    ("HEADS", lambda folder: str(folder / "file")),
    ("HOST", lambda folder: "no such host"),
    ("HOST", lambda folder: "203.0.113.7"),
    ("DATABASE_URL", lambda folder: "nonsense"),
    ("DATABASE_URL", lambda folder: "mysql://host/name"),
    ("DATABASE_URL", lambda folder: "postgresql://host:port/name"),
    ("DATABASE_URL", lambda folder: f"sqlite:///{folder / 'missing' / 'x.db'}"),
    ("DATABASE_URL", lambda folder: f"sqlite:///{folder / 'file'}"),
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
    ("STORE", lambda folder: "s3://bucket?endpoint=https://127.0.0.1:1"),  # without keys
    ("STORE_KEY_FILE", lambda folder: str(folder / "missing")),
    ("STORE_KEY_FILE", lambda folder: str(folder / "empty")),
    ("S3_ACCESS_KEY_FILE", lambda folder: str(folder / "missing")),
    ("S3_SECRET_KEY_FILE", lambda folder: str(folder / "empty")),
    ("CLUSTER", lambda folder: "tcp://127.0.0.1:8786"),
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
CLUSTER = {"CLUSTER": "tls://127.0.0.1:1"}  # which needs three files, and gets one
WRONG_BESIDE: list[tuple[dict[str, str], str, Callable[[Path], str]]] = [
    (BUCKET, "S3_ACCESS_KEY", lambda folder: "two words"),
    (BUCKET, "S3_SECRET_KEY", lambda folder: "ümlaut"),
    (BUCKET, "S3_CA_FILE", lambda folder: str(folder / "missing")),
    *[(CLUSTER, name, lambda folder: str(folder / "missing")) for name in settings._TLS],
    (PROVIDER, "OIDC_ISSUER", lambda folder: "http://id.hospital.example"),
    (PROVIDER, "OIDC_AUDIENCE", lambda folder: ""),
    (PROVIDER, "OIDC_ROLES", lambda folder: "clinic=director"),
    (PROVIDER, "OIDC_ROLE_CLAIM", lambda folder: "two\nlines"),
    (PROVIDER, "OIDC_NAME_CLAIM", lambda folder: "two\nlines"),
    (PROVIDER, "OIDC_ALGORITHMS", lambda folder: "none"),
    (PROVIDER, "OIDC_CLOCK_SKEW_SECONDS", lambda folder: "a lot"),
    (PROVIDER, "OIDC_CA_FILE", lambda folder: str(folder / "missing")),
]


class TestWrongSettings:
    def test_there_is_a_wrong_value_for_every_setting(self):
        tried = {name for name, _ in WRONG} | {name for _, name, _ in WRONG_BESIDE}
        assert {*settings._NAMES, *(f"{name}_FILE" for name in settings._SECRETS)} - {
            "WORK"
        } <= tried  # any path may be

    @pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda part: part if isinstance(part, str) else "")
    def test_the_start_ends_with_one_sentence_that_names_the_setting(self, tmp_path, name, value):
        (tmp_path / "file").write_text("a file that is no folder and no database")
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        (tmp_path / "empty").touch()
        _refused(tmp_path, {}, name, value)

    @pytest.mark.parametrize(
        ("beside", "name", "value"), WRONG_BESIDE, ids=lambda part: part if isinstance(part, str) else ""
    )
    def test_and_so_does_one_that_is_wrong_beside_others(self, tmp_path, beside, name, value):
        _refused(tmp_path, beside, name, value)


def _refused(folder: Path, beside: dict[str, str], name: str, value: Callable[[Path], str]) -> None:
    given = services.environment(folder) | {f"DISCRETION_{other}": text for other, text in beside.items()}
    given[f"DISCRETION_{name}"] = value(folder)
    # What `discretion serve` does; that it ends with code 2 and this sentence is tried in `test_serving`.
    with pytest.raises(errors.InvalidSetting) as refusal:
        serving.opened(settings.read(given), lambda token: None)
    assert f"DISCRETION_{name.removesuffix('_FILE')}" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1
    assert KEY.splitlines()[1] not in str(refusal.value)


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


class TestClock:
    def test_a_clock_that_is_put_back_or_forward_costs_nothing(self, tmp_path, url):
        """Leases are compared as the database's times: however they jump, a training is charged and drawn once."""
        queue = dying.Queue(tmp_path, url)
        dataset = queue.dataset(SLOW)
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
