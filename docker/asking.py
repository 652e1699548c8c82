"""How docker/check asks: the service through TLS, containers by Compose. What is not as it should be ends the check."""

import http.client
import json
import os
import shlex
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMPOSE = shlex.split(os.environ.get("DC") or f"docker compose --file {HERE / 'compose.yaml'}")
GENTLY = "--gently" in sys.argv
GIVEN = [argument for argument in sys.argv[1:] if argument != "--gently"]
URL = GIVEN[0] if GIVEN else f"https://localhost:{(os.environ.get('HTTPS_PORT') or '443').rpartition(':')[2]}"
SECRETS = Path(os.environ.get("SECRETS") or HERE / "secrets")
CA = os.environ.get("CA") or str(SECRETS / "tls-certificate")
PATIENCE = 180.0  # seconds for whatever should happen


def hold(true: object, otherwise: str) -> None:
    if not true:
        sys.exit(f"check: {otherwise}")


def say(text: str) -> None:
    print(f"check: {text}", flush=True)


def opener() -> urllib.request.OpenerDirector:
    """Trusts the named authority and nobody else, and asks no proxy of the environment's."""
    try:
        trusted = ssl.create_default_context(cafile=CA)
    except OSError as trouble:
        sys.exit(f"check: {CA} cannot be read ({trouble.strerror}); name the authority's certificate in CA.")
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))


DIRECT = opener()


def request(token: str | None, method: str, path: str, body: Any = None, **more: str) -> urllib.request.Request:
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    return urllib.request.Request(URL + path, body, headers, method=method)


def tried(*arguments: Any, **more: Any) -> tuple[int, Message, str]:
    """Status, headers and text of the answer, whatever it is."""
    try:
        with DIRECT.open(request(*arguments, **more), timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers, refusal.read().decode()
    except (OSError, http.client.HTTPException) as trouble:
        sys.exit(f"check: {URL} does not answer: {trouble}")


def ask(token: str | None, method: str, path: str, body: Any = None, expect: int = 200, **headers: str) -> str:
    """The answer's text; any other status than the expected one ends the check."""
    status, _, text = tried(token, method, path, body, **headers)
    hold(status == expect, f"{method} {path} → {status}, not {expect}: {text}")
    return text


def asked(*arguments: Any, **more: Any) -> Any:
    return json.loads(ask(*arguments, **more))


def until(true: Callable[[], Any], otherwise: str, seconds: float = PATIENCE) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.5)
    sys.exit(f"check: {otherwise}")


def compose(*command: str, given: str | None = None) -> tuple[int, str]:
    """Its exit code and what it said."""
    done = subprocess.run([*COMPOSE, *command], input=given, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def inside(service: str, *command: str, given: str = "", index: int = 1) -> tuple[int, str]:
    """A command in a container: its exit code and what it said."""
    return compose("exec", "-T", "--index", str(index), service, *command, given=given)


def program(service: str, text: str, index: int = 1) -> str:
    code, said = inside(service, "python", "-c", text, index=index)
    hold(code == 0, f"in {service} {index}: {said}")
    return said.strip()
