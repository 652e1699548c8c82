"""Refusals as problem details (RFC 9457): the one place where a refusal meets a status code.

A refusal's sentence was written for whoever asked. Anything else that goes wrong is answered with fixed words, and the
log gets the kind of error and nothing of its text, which may quote what a patient's row said.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from discretion import errors, logs

_log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"

_STATUS: Final[dict[type[errors.Refusal], int]] = {
    errors.NoIdempotencyKey: 400,
    errors.Unauthenticated: 401,
    errors.BudgetExhausted: 402,
    errors.GrantExhausted: 402,
    errors.Forbidden: 403,
    errors.ForeignRequest: 403,
    errors.NotFound: 404,
    errors.NoSuchKey: 404,
    errors.UploadInterrupted: 408,
    errors.BudgetInUse: 409,
    errors.DatasetNotEmpty: 409,
    errors.DatasetNotReady: 409,
    errors.GrantExists: 409,
    errors.IdempotencyConflict: 409,
    errors.NotDerivable: 409,
    errors.NothingReleased: 409,
    errors.TrainingEnded: 409,
    errors.BodyTooLarge: 413,
    errors.UploadTooLarge: 413,
    errors.TooManyRequests: 429,
    errors.InvalidSetting: 503,
    errors.ProviderUnavailable: 503,
    errors.StorageFailed: 507,
}
_UNREADABLE: Final = 422  # every other refusal

_TITLES: Final = {
    400: "A header is missing",
    401: "No valid token",
    402: "Not enough budget",
    403: "Not allowed",
    404: "Not found",
    405: "No such method here",
    408: "The upload stopped",
    409: "Not in this state",
    413: "Too large",
    422: "Cannot be carried out as asked",
    429: "Too many requests",
    500: "A fault of the service",
    503: "Not available",
    507: "Could not be stored",
}


def answer(status: int, code: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    body = {"type": f"urn:discretion:{code}", "title": _TITLES.get(status, "Refused"), "status": status, "code": code}
    body |= {"detail": detail, "request": logs.request_id.get()}
    return JSONResponse(body | more, status, headers, MEDIA_TYPE)


def refused(refusal: errors.Refusal) -> JSONResponse:
    if isinstance(refusal, errors.InvalidSetting):  # its sentence is for whoever runs the service
        _log.error("%s", refusal)
        return answer(503, refusal.code, "The service is not set up as it must be; tell its operator.")
    status = next((_STATUS[kind] for kind in type(refusal).__mro__ if kind in _STATUS), _UNREADABLE)
    more: dict[str, Any] = {}
    headers: dict[str, str] = {}
    if isinstance(refusal, errors.BudgetExhausted | errors.GrantExhausted):
        more["remaining"] = str(refusal.remaining)
    if isinstance(refusal, errors.InvalidUpload):
        more["problems"] = [vars(problem) for problem in refusal.problems]
    if isinstance(refusal, errors.TooManyRequests | errors.ProviderUnavailable):
        headers["Retry-After"] = str(refusal.seconds)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return answer(status, refusal.code, str(refusal), headers, **more)


def responses(statuses: Iterable[int]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says about the refusals of a route."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _TITLES[status], "content": content} for status in sorted(set(statuses))}


def install(app: FastAPI) -> None:
    @app.exception_handler(errors.Refusal)
    async def on_refusal(_: Request, refusal: errors.Refusal) -> Response:
        return refused(refusal)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(_: Request, invalid: RequestValidationError) -> Response:
        found = [{"field": _field(error["loc"]), "reason": error["msg"]} for error in invalid.errors()[:20]]
        detail = "; ".join(f"{problem['field']}: {problem['reason']}" for problem in found[:3])
        return answer(_UNREADABLE, errors.InvalidRequest.code, detail, fields=found)

    @app.exception_handler(HTTPException)
    async def on_http(_: Request, failure: HTTPException) -> Response:
        code = {404: "not_found", 405: "method_not_allowed"}.get(failure.status_code, "refused")
        words = {404: str(errors.NotFound()), 405: "This address does not take this method; see /docs."}
        detail = words.get(failure.status_code, "The request cannot be read.")
        return answer(failure.status_code, code, detail, dict(failure.headers or {}))

    @app.exception_handler(errors.LedgerDamaged)
    async def on_damage(request: Request, damage: errors.LedgerDamaged) -> Response:
        request.app.state.service.damaged = True
        _log.error("%s", damage)
        return damaged()

    @app.exception_handler(sa.exc.OperationalError)
    @app.exception_handler(sa.exc.TimeoutError)
    async def on_database(_: Request, failure: Exception) -> Response:
        _log.error("The database did not answer: %s.", type(failure).__name__)
        return answer(503, "database_unavailable", "The database does not answer; try again in a moment.")


def damaged() -> JSONResponse:
    detail = "The budget ledger does not add up, so nothing is done until an operator has restored it."
    return answer(503, "ledger_damaged", detail)


def broken(failure: Exception) -> JSONResponse:
    where = failure.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = "" if where is None else f" at {where.tb_frame.f_code.co_qualname}:{where.tb_lineno}"
    _log.error("A request failed: %s%s.", type(failure).__name__, place)
    return answer(500, "internal_error", "The service failed to answer; nothing was released. Tell its operator.")


def _field(location: Iterable[Any]) -> str:
    """Where in the request, without repeating what was sent: an unknown key may be a megabyte long."""
    return ".".join(str(part)[:40] for part in location)
