"""A real service for the tests: `discretion serve` in a process of its own, and clients for its roles."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

TABULAR = {
    "horizon": 3,
    "states": {"kind": "discrete", "count": 4},
    "actions": {"count": 2, "labels": ["wait", "treat"]},
    "reward": {"low": 0, "high": 1},
}
# The schedule is a function of public sizes: so many trajectories might be there, and so long ones, that a result of
# 200 units appears after eight seconds.
SLOW = TABULAR | {"horizon": 15, "max_trajectories_per_unit": 10_000}
VECTOR = {
    "horizon": 3,
    "states": {"kind": "vector", "columns": ["age", "lactate"], "bounds": [[0, 120], [0, 30]]},
    "actions": {"count": 2},
    "reward": {"low": 0, "high": 1},
}
APVI = {"algorithm": "dp-apvi", "privacy": {"rho": "0.5"}, "parameters": {"c1": 0.5, "c2": 0}}
VAPVI = {
    "algorithm": "dp-vapvi",
    "privacy": {"rho": "0.5"},
    "parameters": {"features": {"kind": "blocks", "terms": ["1", "age", "lactate"]}},
}
AUTO: dict[str, Any] = {"algorithm": "auto", "privacy": {"rho": "0.5"}, "parameters": {}}
ENDED = ("released", "failed", "cancelled")


def environment(folder: Path, url: str | None = None, **settings: object) -> dict[str, str]:
    """Nothing but what is said here: the tests' own environment must not leak into a service."""
    made = {"PATH": os.environ["PATH"], "HOME": str(folder), "DISCRETION_DATA": str(folder / "data")}
    made |= {"DISCRETION_PORT": "0", "PYTHONPATH": str(Path(__file__).parents[1])}
    made |= {} if url is None else {"DISCRETION_DATABASE_URL": url}
    return made | {f"DISCRETION_{name.upper()}": str(value) for name, value in settings.items()}


@dataclass
class Client:
    """A key and what it asks."""

    http: httpx.Client
    id: str
    role: str
    token: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.http, name)


@dataclass
class Service:
    url: str
    token: str
    process: subprocess.Popen[bytes]
    folder: Path
    database: str = ""
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def client(self, token: str | None, key: str = "", role: str = "admin") -> Client:
        # Every answer repeats the request's id: with the same one, answers that are alike are the same bytes.
        headers = {"X-Request-ID": "of-the-tests"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        # It speaks plain HTTP, and reading every authority's certificate takes longer than most requests.
        made = httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False)
        self.clients.append(made)
        return Client(made, key, role, token or "")

    @property
    def admin(self) -> Client:
        return self.client(self.token)

    def key(self, role: str) -> Client:
        """A new key of a role."""
        made = self.admin.post("/v1/keys", json={"name": role, "role": role}).json()
        return self.client(made["token"], made["id"], role)

    def stop(self, number: int = signal.SIGTERM) -> int:
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(30)


@contextlib.contextmanager
def serve(folder: Path, url: str | None = None, token: str | None = None, **settings: object) -> Iterator[Service]:
    """`discretion serve`, until the block ends; `token` if the folder was served before."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings.setdefault("port", port)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "discretion", "serve"],
            env=environment(folder, url, **settings),
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    first = token or process.stdout.readline().decode().strip()
    database = url or f"sqlite:///{folder / 'data' / 'discretion.db'}"
    service = Service(f"http://127.0.0.1:{settings['port']}", first, process, folder, database)
    try:
        wait_until(lambda: process.poll() is not None or _answers(service.url), 240)
        assert process.poll() is None, service.log
        yield service
    finally:
        service.stop()
        process.stdout.close()


def _answers(url: str) -> bool:
    # Unverified, as above: it is asked twenty times a second.
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/healthz", verify=False).status_code == 200
    return False


def wait_until(true: Any, seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def children(process: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def csv(units: int = 200, *, schema: dict[str, Any] = TABULAR, seed: int = 0) -> bytes:
    """Made-up patients, each with the whole horizon."""
    draw = np.random.default_rng(seed)
    vector = schema["states"]["kind"] == "vector"
    columns = schema["states"]["columns"] if vector else ["state"]
    lines = [",".join(["unit", "step", *columns, "action", "reward"])]
    for unit in range(units):
        for step in range(1, schema["horizon"] + 1):
            if vector:
                state = [f"{low + draw.random() * (high - low):.3f}" for low, high in schema["states"]["bounds"]]
            else:
                state = [str(draw.integers(schema["states"]["count"]))]
            action = str(draw.integers(schema["actions"]["count"]))
            lines.append(",".join([f"p{unit}", str(step), *state, action, f"{draw.random():.3f}"]))
    return "\n".join(lines).encode()


def new_dataset(custodian: Client, *, schema: dict[str, Any] = TABULAR, rho: str = "100", **more: Any) -> str:
    body = {"name": "icu", "budget": {"rho": rho}} | schema | more
    answer = custodian.post("/v1/datasets", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def upload(
    custodian: Client, dataset: str, content: bytes | Iterator[bytes], media_type: str = "text/csv"
) -> httpx.Response:
    return custodian.put(f"/v1/datasets/{dataset}/trajectories", content=content, headers={"Content-Type": media_type})


def ready_dataset(custodian: Client, *, schema: dict[str, Any] = TABULAR, rho: str = "100", units: int = 200) -> str:
    dataset = new_dataset(custodian, schema=schema, rho=rho)
    answer = upload(custodian, dataset, csv(units, schema=schema))
    assert answer.status_code == 201, answer.text
    return dataset


def grant(custodian: Client, dataset: str, analyst: Client, rho: str = "100") -> str:
    answer = custodian.post(f"/v1/datasets/{dataset}/grants", json={"key": analyst.id, "rho": rho})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def remaining(client: Client, dataset: str) -> str:
    """What is neither charged nor reserved: it stays the same while what was asked before is carried out."""
    return str(client.get(f"/v1/datasets/{dataset}/budget").json()["remaining"])


def submit(analyst: Client, dataset: str, key: str = "1", body: dict[str, Any] = APVI) -> httpx.Response:
    return analyst.post("/v1/trainings", json={"dataset": dataset} | body, headers={"Idempotency-Key": key})


def ended(analyst: Client, training: str, seconds: float = 240, kind: str = "trainings") -> dict[str, Any]:
    """The training, or the evaluation, once it has come to its end."""

    def look() -> dict[str, Any] | None:
        found = analyst.get(f"/v1/{kind}/{training}").json()
        return found if found["state"] in ENDED else None

    return wait_until(look, seconds)


def events(analyst: Client, training: str) -> list[dict[str, Any]]:
    """Every event of a training until its end."""
    with analyst.stream("GET", f"/v1/trainings/{training}/events") as stream:
        return [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem details of a refusal, which are as every refusal's are."""
    assert answer.status_code == status, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:discretion:{code}")
    assert body["title"]
    assert body["detail"]
    return dict(body)


def pages(client: Client, path: str, limit: int = 1) -> list[dict[str, Any]]:
    """Every item of a list, a few at a time."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = client.get(f"{path}?limit={limit}{after}").json()
        items = page.get("items", page.get("rows"))
        assert len(items) <= limit
        found += items
        if page["next"] is None:
            return found
        assert len(items) == limit
        after = f"&after={page['next']}"


def stored(service: Service) -> set[str]:
    """What lies in the store, temporary folders included."""
    return {path.name for path in (service.folder / "data" / "datasets").iterdir()}


@contextlib.contextmanager
def sending(
    service: Service, custodian: Client, dataset: str, first: bytes, announced: int = 1000
) -> Iterator[socket.socket]:
    """An upload of which the headers and the first bytes have arrived."""
    address = urlsplit(service.url)
    before = stored(service)
    with socket.create_connection((address.hostname or "", address.port or 0), 60) as connection:
        head = f"PUT /v1/datasets/{dataset}/trajectories HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
        head += f"Authorization: Bearer {custodian.token}\r\nContent-Length: {announced}\r\n\r\n"
        connection.sendall(head.encode() + first)
        wait_until(lambda: stored(service) - before)
        yield connection


def in_background(act: Callable[[], object]) -> threading.Thread:
    """Do something meanwhile, whatever becomes of it."""

    def run() -> None:
        with contextlib.suppress(httpx.TransportError):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
