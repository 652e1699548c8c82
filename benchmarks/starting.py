"""How soon a service is ready, and what it holds while nobody asks: measured beside it, in a container as well.

    python -c "$(cat benchmarks/starting.py)" ROUNDS

The standard library is all it needs, so that the image's own Python can run it there. It prints JSON: of each start the
seconds until it was ready and the megabytes of each of its processes a moment later, of the service and of a FastAPI
application that says one word.
"""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_WORD = """
import sys, uvicorn, fastapi
app = fastapi.FastAPI()
@app.get("/readyz")
def ready() -> dict[str, str]:
    return {}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", http="httptools")
"""


def service(folder: Path) -> list[float]:
    """The API, and the worker beside it."""
    port, log = _free_port(), folder / "log"
    log.write_text("")
    here = {"DISCRETION_DATA": str(folder / "data"), "DISCRETION_HOST": "127.0.0.1", "DISCRETION_PORT": str(port)}
    command = [sys.executable, "-m", "discretion", "serve"]
    return _started(command, port, lambda: "Waiting for trainings" in log.read_text(), os.environ | here, log)


def word() -> list[float]:
    port = _free_port()
    return _started([sys.executable, "-c", _WORD, str(port)], port, lambda: True)


def _started(
    command: Sequence[str],
    port: int,
    settled: Callable[[], bool],
    environment: dict[str, str] | None = None,
    log: Path = Path(os.devnull),
) -> list[float]:
    began = time.perf_counter()
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=said)
    try:
        _wait_until(lambda: _ready(port))
        seconds = time.perf_counter() - began
        _wait_until(settled)
        time.sleep(1)
        return [seconds, _resident(process.pid), *map(_resident, _children(process.pid))]
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        if time.monotonic() > end:
            sys.exit("What was started does not get ready.")
        time.sleep(0.01)


def _ready(port: int) -> bool:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(asked), contextlib.suppress(OSError, http.client.HTTPException):
        asked.request("GET", "/readyz")
        return asked.getresponse().status == 200
    return False


def _children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def _resident(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    if found is None:
        sys.exit("What was started has ended.")
    return int(found[1]) / 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        service(Path(folder))  # the first start also makes the database
        rounds = [(service(Path(folder)), word()) for _ in range(int(sys.argv[1]))]
    print(json.dumps({"service": [ours for ours, _ in rounds], "word": [bare for _, bare in rounds]}))
