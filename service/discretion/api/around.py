"""What surrounds every request: its id, the headers of its answer, a count, a line in the log, and the last net.

A request is known by an id that its sender chose (`X-Request-ID`, if it is a plain word) or that it is given here. The
answer carries it, problem details too, and every line that was logged meanwhile.
"""

import logging
import re
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discretion import logs
from discretion.api import problems
from discretion.privacy import tokens

_log = logging.getLogger("discretion.api")

_ID: Final = re.compile(rb"[A-Za-z0-9_-]{8,64}")
_HEADER: Final = b"x-request-id"
_QUIET: Final = ("/healthz", "/readyz", "/metrics")  # asked every few seconds, by nobody in particular
_UNUSED: Final = (  # what browsers can do and no page here needs
    b"accelerometer",
    b"autoplay",
    b"camera",
    b"display-capture",
    b"fullscreen",
    b"geolocation",
    b"gyroscope",
    b"hid",
    b"idle-detection",
    b"magnetometer",
    b"microphone",
    b"midi",
    b"payment",
    b"publickey-credentials-get",
    b"screen-wake-lock",
    b"serial",
    b"usb",
    b"xr-spatial-tracking",
)
# On every answer that does not say something else itself.
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b", ".join(b"%s=()" % name for name in _UNUSED)),
)


_AT_ONCE: Final = 256
_fresh: list[str] = []  # ids that nobody bears yet: asking the random source each time takes longer than all else here


def told(route: str, status: int) -> str:
    """Whether an upload's rows were good is for its custodian alone."""
    return "any" if is_upload(route) else str(status)


def is_upload(route: str) -> bool:
    return route.endswith("/trajectories")


class Around:
    """No failure's text leaves, not even to a log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        known = _named(scope)
        token = logs.request_id.set(known)
        began, started = time.perf_counter(), False
        if is_upload(scope["path"]):  # how long it takes depends on its rows, so its end is in no log
            _log.info("An upload begins", extra={"method": scope["method"]})

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                said = [header for header in message.get("headers", []) if header[0].lower() != _HEADER]
                names = {name.lower() for name, _ in said}
                message["headers"] = [*said, *(header for header in _HEADERS if header[0] not in names)]
                message["headers"].append((_HEADER, known.encode()))
                _note(scope, message["status"], time.perf_counter() - began)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as failure:
            answer = problems.broken(failure)
            if not started:
                await answer(scope, receive, sending)
        finally:
            logs.request_id.reset(token)


def _named(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == _HEADER]
    if len(given) == 1 and _ID.fullmatch(given[0]):
        return str(given[0].decode("ascii"))
    if not _fresh:
        _fresh.extend(tokens.identifiers("req", _AT_ONCE))
    return _fresh.pop()


def _note(scope: Scope, status: int, seconds: float) -> None:
    state: Any = getattr(scope.get("app"), "state", None)
    service = getattr(state, "service", None)
    route = getattr(scope.get("route"), "path", "other")
    if service is not None:
        service.measured.answered(scope["method"], route, told(route, status), seconds)
    if is_upload(scope["path"]) or (route in _QUIET and status < 400):
        return
    caller = scope.get("state", {}).get("caller")
    fields = {"method": scope["method"], "route": route, "status": status, "key": getattr(caller, "id", None)}
    _log.info("Answered", extra=fields)
