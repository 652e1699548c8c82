"""What a deployment weighs: how much is installed, how soon it is ready, what it holds while nobody asks. Beside it, a
FastAPI application that says one word, from the same machine and packages."""

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from packaging.requirements import Requirement
from tests import services

from benchmarks.rows import Row, row

_BARE = "a FastAPI application that says one word"
_ROUNDS = 5
_IMAGE, _BASE = "discretion", "python:3.11-slim-bookworm"
_WORD = """
import sys, uvicorn, fastapi
app = fastapi.FastAPI()
@app.get("/readyz")
def ready() -> dict[str, str]:
    return {}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", http="httptools")
"""


def measure() -> Iterator[Row]:
    yield from _sizes()
    with tempfile.TemporaryDirectory() as folder:
        yield from _starts(Path(folder))


# --- size --------------------------------------------------------------------------------------------------------


def _sizes() -> Iterator[Row]:
    ours, theirs = _installed("discretion"), _installed("fastapi", "uvicorn", "httptools")
    yield row(
        "packages of the image, as installed", "MB", ours, "fastapi, uvicorn and httptools", theirs, "value < 400"
    )
    image, base = _image_size(_IMAGE), _image_size(_BASE)
    if (
        image is not None and base is not None
    ):  # else no engine here has built it, and its packages are what can be weighed
        name = "the image, Debian and Python included"
        yield row(name, "MB", image, "its base image, with these three", base + theirs, "value < 600")


def _installed(*names: str) -> float:
    """Megabytes of packages and of everything they need, counted where they are installed; no engine is needed."""
    needed: set[str] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        if wanted.name.lower() not in needed:
            needed.add(wanted.name.lower())
            waiting += _required(wanted)
    return sum(_bytes(name) for name in needed) / 1e6


def _required(wanted: Requirement) -> Iterator[Requirement]:
    for line in importlib.metadata.requires(wanted.name) or ():
        found = Requirement(line)
        if found.marker is None or any(found.marker.evaluate({"extra": each}) for each in ("", *wanted.extras)):
            yield found


def _bytes(name: str) -> int:
    found = importlib.metadata.distribution(name)
    if name == "discretion":  # installed as a link to these folders
        root = Path(__file__).parents[1]
        return sum(path.stat().st_size for place in ("service", "migrations") for path in (root / place).rglob("*.*"))
    paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _image_size(name: str) -> float | None:
    """Megabytes of the image, base included, if an engine on this machine has it."""
    for engine, field in (("docker", "{{.Size}}"), ("podman", "{{.Size}}")):
        if shutil.which(engine):
            command = [engine, "image", "inspect", "--format", field, name]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip().isdigit():
                return int(done.stdout) / 1e6
    return _built_size(name)


def _built_size(name: str) -> float | None:
    """By buildah, which has no daemon and tells no size without counting."""
    if not shutil.which("buildah"):
        return None
    environment = os.environ | {"STORAGE_DRIVER": "vfs"}
    done = subprocess.run(["buildah", "images", "--json", name], capture_output=True, text=True, env=environment)
    with contextlib.suppress(ValueError, KeyError, IndexError):
        number, unit = re.fullmatch(r"([\d.]+) ([KMG])B", json.loads(done.stdout)[0]["size"]).groups()  # type: ignore[union-attr]
        return float(number) * {"K": 1e-3, "M": 1, "G": 1e3}[unit]
    return None


# --- start and rest ----------------------------------------------------------------------------------------------


def _starts(folder: Path) -> Iterator[Row]:
    began, ours, workers, theirs, bare = [], [], [], [], []
    for turn in range(_ROUNDS):
        seconds, api, worker = _service(folder / "service", turn)
        if turn:  # the first start also makes the database
            began.append(seconds)
        ours.append(api)
        workers.append(worker)
        seconds, memory = _word()
        theirs.append(seconds)
        bare.append(memory)
    middle = statistics.median
    yield row("start, until ready", "s", middle(began), _BARE, middle(theirs), "ratio ≤ 5")
    yield row("memory of the API at rest", "MB", middle(ours), _BARE, middle(bare), "value < 250")
    yield row("memory of a worker at rest", "MB", middle(workers), _BARE, middle(bare), "value < 250")


def _service(folder: Path, turn: int) -> tuple[float, float, float]:
    """Seconds until the API and its worker are ready, and the memory of each a moment later."""
    began = time.perf_counter()
    with services.serve(folder, token="known" if turn else None) as service:
        services.wait_until(lambda: httpx.get(f"{service.url}/readyz").status_code == 200, 120)
        seconds = time.perf_counter() - began
        services.wait_until(lambda: service.log.count("Waiting for trainings") > turn, 120)  # one for each start
        time.sleep(1)
        (worker,) = services.children(service.process.pid)
        return seconds, _resident(service.process.pid), _resident(worker)


def _word() -> tuple[float, float]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", _WORD, str(port)]) as process:
        services.wait_until(lambda: _ready(port))
        seconds = time.perf_counter() - began
        time.sleep(1)
        memory = _resident(process.pid)
        process.terminate()
    return seconds, memory


def _ready(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    return False


def _resident(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    for each in measure():
        print(each)
