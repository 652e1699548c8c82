"""Signing in and out: a browser exchanges a token for a cookie that no script can read."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute

from discretion import audit, bearer, database, errors, sessions
from discretion.api import auth, bearers, bodies, problems, schemas
from discretion.api.auth import Running
from discretion.api.service import Service

_LARGEST: Final = bearer.LONGEST + 2**8  # bytes of a stranger's body: a token, and what stands around it


class _Door(APIRoute):
    """A route for strangers: whatever is refused slows their address down."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        has_body = self.body_field is not None

        async def handler(request: Request) -> Response:
            service: Service = request.app.state.service
            try:
                if has_body:
                    await auth.read_json(request, service, _LARGEST)
                return await inner(request)
            except (errors.Refusal, RequestValidationError):
                auth.slow_down(request, service)
                raise

        return handler


router = APIRouter(tags=["session"], route_class=_Door)


@router.post(
    "/v1/session",
    status_code=201,
    response_model=schemas.Session,
    responses=problems.responses([401, 403, 408, 413, 422, 429, 503]),
)
def sign_in(body: bodies.NewSession, request: Request, response: Response, service: Running) -> Any:
    """A session of the token's key, as a cookie; a session that the browser had before ends."""
    auth.refuse_foreign(request)
    made = bearers.begin_session(service, body.token, request.cookies.get(auth.cookie(request)))
    age = int((made.latest_end - made.created_at).total_seconds())
    response.set_cookie(auth.cookie(request), made.secret, max_age=age, **_flags(request))
    return _document(made)


def _flags(request: Request) -> dict[str, Any]:
    return {"path": "/", "secure": request.url.scheme == "https", "httponly": True, "samesite": "strict"}


def _document(found: sessions.Session) -> dict[str, Any]:
    key = found.key
    expires = database.stamp(found.expires_at)
    return {"id": key.id, "name": key.name, "role": key.role, "csrf": found.csrf, "expires_at": expires}


@router.get("/v1/session", response_model=schemas.Session, responses=problems.responses([401, 403, 429, 503]))
def read_session(request: Request, service: Running) -> Any:
    """The browser's own session, so that a page that was loaded again knows who it is."""
    found = auth.session(request, service)
    service.pace.check(found.key.id)
    return _document(found)


@router.delete("/v1/session", status_code=204, responses=problems.responses([401, 403, 429, 503]))
def sign_out(request: Request, service: Running) -> Response:
    """The session ends, and its cookie is taken back."""
    found = auth.session(request, service)
    service.pace.check(found.key.id)
    with service.writing() as connection:
        sessions.end(connection, found.secret)
        audit.record(connection, found.key.id, "session.end", found.key.id, at=datetime.now(UTC))
    answer = Response(status_code=204)
    answer.delete_cookie(auth.cookie(request), **_flags(request))
    return answer
