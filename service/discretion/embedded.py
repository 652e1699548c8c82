"""A whole service on this machine for as long as a block lasts: its own process, folder and free port.

    with embedded.service(folder) as (url, token):
        admin = Client(url, token)

It takes nothing from the environment's settings, so that it can never meet a real hospital's database.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from discretion import processes

_PATIENCE: Final = 60.0  # seconds to answer, and to leave
_LISTENING: Final = re.compile(r"Listening on (http://\S+)")


class ServiceFailed(Exception):
    """It did not start, or did not leave."""


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, str]]:
    """Its address and the administrator's token; it is gone after the block, and also if this process is killed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISCRETION_")}
    environment |= {"DISCRETION_DATA": str(folder / "data"), "DISCRETION_PORT": "0"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "discretion", "serve"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=partial(processes.die_with_parent, os.getpid()),
        )
    assert process.stdout is not None
    with process.stdout as announced:
        try:
            token = announced.readline().strip()
            yield _address(process, folder / "log"), token
        finally:
            _stop(process)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        found = _LISTENING.search(log.read_text(encoding="utf-8"))
        with suppress(httpx.TransportError):
            if found and httpx.get(f"{found[1]}/healthz", trust_env=False).is_success:
                return found[1]
        time.sleep(0.05)
    raise ServiceFailed(f"The service does not answer. It said:\n{log.read_text(encoding='utf-8')[-2000:]}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise ServiceFailed("The service did not leave when it was told to.") from None
