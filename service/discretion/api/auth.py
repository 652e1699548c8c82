"""Who asks, what their role may do at all, and how often; before anything of the request's body is read.

A program sends its token. A browser sends a session's cookie, and every page it shows could make it do so: what changes
something also needs a header that only the service's own page knows.
"""

import asyncio
import functools
import hmac
import inspect
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NoReturn

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from discretion import bearer, errors, sessions
from discretion.api import bearers, problems
from discretion.api.service import Service
from discretion.keys import Key

_BEARER: Final = re.compile(rf"bearer +([A-Za-z0-9_\-.~+/=]{{8,{bearer.LONGEST}}})", re.IGNORECASE)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")  # what no database takes in a text
_DEEPEST: Final = 64
_SMALL: Final = 2**14  # bytes that are parsed on the spot
_MOST: Final = {b"{": 10_000, b"[": 2_000_000, b'"': 200_000}  # in a body: an empty object takes 60 bytes and more
_COOKIE: Final = "discretion_session"
_PLACEHOLDER: Final = re.compile(r"\{\w+\}")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def _token(request: Request) -> str:
    found = _BEARER.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        raise errors.Unauthenticated("Send your token in the header `Authorization: Bearer <token>`.")
    return found[1]


async def caller(request: Request, service: Service) -> Key:
    """The key of a request; strangers are slowed down by their address, keys by themselves."""
    try:
        found = await run_in_threadpool(known, request, service)
    except (errors.Unauthenticated, errors.ForeignRequest, errors.ProviderUnavailable):
        slow_down(request, service)
        raise
    service.pace.check(found.id)
    return found


def slow_down(request: Request, service: Service) -> None:
    service.pace.check(f"address {request.client.host if request.client else ''}")


def known(request: Request, service: Service) -> Key:
    """Whose token a request carries or, if it carries none, whose session."""
    if "authorization" not in request.headers:
        return session(request, service).key
    return bearers.find(service, _token(request)).key


def cookie(request: Request) -> str:
    """What the session's cookie is called. By the prefix, browsers know that no neighbouring host may have set it."""
    return f"__Host-{_COOKIE}" if request.url.scheme == "https" else _COOKIE


def session(request: Request, service: Service) -> sessions.Session:
    """The session of a request that the service's own page has made."""
    secret = request.cookies.get(cookie(request))
    if secret is None:
        raise errors.Unauthenticated("Sign in, or send your token in the header `Authorization: Bearer <token>`.")
    now = datetime.now(UTC)
    with service.reading() as connection:
        found = sessions.find(connection, secret, at=now)
    if found is None or not bearers.is_vouched_for(service, found.key):
        raise errors.Unauthenticated("Your session has ended; sign in again.")
    refuse_foreign(request)
    given = request.headers.get("x-csrf-token", "")
    if request.method not in ("GET", "HEAD") and not hmac.compare_digest(given.encode(), found.csrf.encode()):
        raise errors.ForeignRequest
    if found.is_due(now):
        with service.writing() as connection:
            found = sessions.prolong(connection, found, at=now)
    return found


def refuse_foreign(request: Request) -> None:
    """What a browser says that a page of somebody else's has asked; `none` is its user, in the address bar."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise errors.ForeignRequest


def is_operator(request: Request, service: Service) -> bool:
    """By its token; a session is none, nor is it asked for: a program reads the metrics."""
    token, expected = _token(request), service.settings.metrics_token
    return expected is not None and hmac.compare_digest(token.encode(), expected.encode())


class Guarded(APIRoute):
    """A route that says who may use it (`x-roles`); strict about JSON."""

    def get_route_handler(self) -> Handler:
        inner = super().get_route_handler()
        roles = (self.openapi_extra or {})["x-roles"]
        has_body = self.body_field is not None

        async def handler(request: Request) -> Response:
            service: Service = request.app.state.service
            asking = await caller(request, service)
            if asking.role not in roles:
                raise errors.Forbidden(f"This is for {' or '.join(roles)}; your role is {asking.role}.")
            if service.damaged and asking.role != "auditor":  # who looks for the damage needs to see it
                return problems.damaged()
            request.state.caller = asking
            if not all(value.isascii() and value.isprintable() for value in request.path_params.values()):
                raise errors.NotFound
            if has_body:
                await read_json(request, service, service.settings.max_body_megabytes * 2**20)
            return await inner(request)

        return handler


async def read_json(request: Request, service: Service, most: int) -> None:
    """Leave the body where the framework finds it, read as strictly as it was written."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise errors.InvalidRequest("Send JSON, with the header `Content-Type: application/json`.")
    too_large = errors.BodyTooLarge(
        f"The body is larger than {f'{most >> 20} MB' if most >> 20 else f'{most >> 10} kB'}."
    )
    if (request.headers.get("content-length") or "0").zfill(20) > str(most).zfill(20):
        raise too_large
    body = bytearray()
    async for chunk in received(request, service.settings.stall_seconds):
        body += chunk
        if len(body) > most:
            raise too_large
    request._body = bytes(body)
    if len(body) < _SMALL:
        request._json = parse_json(request._body)
        return
    async with service.parsing:  # one at a time: a large body takes many times its size
        request._json = await run_in_threadpool(parse_json, request._body)


async def received(request: Request, stall: float) -> AsyncIterator[bytes]:
    """What the sender sends, as long as they keep sending."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(stall):  # which, unlike `wait_for`, makes no task of every chunk
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except (TimeoutError, ClientDisconnect):
            raise errors.UploadInterrupted("What was sent stopped half-way; nothing was kept. Send it again.") from None
        if chunk:
            yield chunk


def parse_json(body: bytes) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise errors.InvalidRequest("A key stands twice in the same JSON object.")
        return made

    def refuse(constant: str) -> NoReturn:
        raise errors.InvalidRequest(f"{constant} is no JSON number.")

    if any(body.count(sign) > most for sign, most in _MOST.items()):
        raise errors.InvalidRequest("The body has too many parts; give tables as lists of numbers.")
    try:
        parsed = json.loads(body.decode("utf-8"), object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise errors.InvalidRequest("The body is not JSON in UTF-8, or is nested too deeply.") from None
    _check(parsed, 0)
    return parsed


def _check(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise errors.InvalidRequest("The body is nested too deeply.")
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise errors.InvalidRequest("A text in the body holds a character that cannot be stored.")
    if isinstance(value, dict):
        for key in value:
            _check(key, depth + 1)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            if not isinstance(item, int | float):  # most of a large table
                _check(item, depth + 1)


async def _service(request: Request) -> Service:
    return request.app.state.service


async def _caller(request: Request) -> Key:
    return request.state.caller


Running = Annotated[Service, Depends(_service)]
Caller = Annotated[Key, Depends(_caller)]


def _written(endpoint: Callable[..., Any], model: Any, status: int) -> Callable[..., Any]:
    """The endpoint with its answer held against its model and written where it was made. The framework would hand it
    to one thread more for that, and a crowd waits for threads longer than for answers."""
    awaited = inspect.iscoroutinefunction(endpoint)
    if model is None or awaited or "response" in inspect.signature(endpoint).parameters:
        return endpoint
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    @functools.wraps(endpoint)
    def answer(*arguments: Any, **named: Any) -> Any:
        made = endpoint(*arguments, **named)
        if isinstance(made, Response):
            return made
        checked = adapter.validate_python(made, from_attributes=True)
        return Response(adapter.dump_json(checked, by_alias=True), status, media_type="application/json")

    return answer


class Room:
    """The routes of one noun; each names its roles, and documents every refusal it can give."""

    def __init__(self, tag: str) -> None:
        self.router = APIRouter(tags=[tag], route_class=Guarded)

    def route(
        self, method: str, path: str, *roles: str, refusals: tuple[int, ...] = (), status: int = 200, **more: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        always = (401, 403, 429, 503) + ((404,) if _PLACEHOLDER.search(path) else ())
        always += (408, 413, 422) if method in ("POST", "PATCH") else ()
        extra = more.pop("openapi_extra", {}) | {"x-roles": list(roles), "security": [{"bearer": []}]}

        def add(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            self.router.add_api_route(
                path,
                _written(endpoint, more.get("response_model"), status),
                methods=[method],
                status_code=status,
                responses=problems.responses((*always, *refusals)) | more.pop("responses", {}),
                openapi_extra=extra,
                **more,
            )
            return endpoint

        return add
