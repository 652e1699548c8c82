"""The application: rooms put together, and what surrounds every request."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import discretion
from discretion import catalogue, database, datasets, ledger
from discretion.api import datasets as dataset_routes
from discretion.api import (
    evaluations,
    keys,
    operations,
    policies,
    populations,
    problems,
    rehearsals,
    schemas,
    session,
    trainings,
    uploads,
    web,
)
from discretion.api.service import Service
from discretion.settings import Settings

_ROOMS: Final = (populations, dataset_routes, uploads, trainings, rehearsals, policies, evaluations, keys)
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
_DESCRIPTION: Final = (
    "Policies learned from treatment histories, with a privacy promise that can be checked. Every ρ is a decimal text; "
    "errors are problem details (RFC 9457) with a stable `code`."
)


def create(found: Settings) -> FastAPI:
    """The service on a database and a store that are known to be sound; what is not is refused here."""
    engine = database.engine(found.database_url)
    database.check(engine)
    service = Service(found, engine)
    with service.reading() as connection:
        ledger.verify_all(connection)
    service.signing_key()
    found.datasets.mkdir(mode=0o700, parents=True, exist_ok=True)
    datasets.sweep(found.datasets, lambda: _broken_uploads(service))
    app = bare()
    app.state.service = service
    return app


def _broken_uploads(service: Service) -> list[str]:
    with service.reading() as connection:
        return catalogue.broken_uploads(connection)


def bare() -> FastAPI:
    """The routes without anything behind them: what the OpenAPI document is made of."""
    version = discretion.__version__
    # A redirect would be to whatever host the request names.
    app = FastAPI(title="Discretion", version=version, docs_url=None, redoc_url=None, redirect_slashes=False)
    for room in _ROOMS:
        app.include_router(room.room.router)
    for router in (session.router, operations.router, web.router):
        app.include_router(router)
    problems.install(app)
    app.add_middleware(_Around)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
        )
        components = document["components"]
        components["schemas"]["Problem"] = schemas.Problem.model_json_schema(
            ref_template="#/components/schemas/{model}"
        )
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        for operations_of in document["paths"].values():
            for operation in operations_of.values():
                # The framework's own, which a path of texts never gives; ours are problem details.
                if "application/json" in operation["responses"].get("422", {}).get("content", {}):
                    del operation["responses"]["422"]
                if roles := operation.get("x-roles"):
                    said = operation.get("description", "")
                    operation["description"] = f"For {', '.join(roles)}.{' ' if said else ''}{said}"
        app.openapi_schema = document
    return app.openapi_schema


class _Around:
    """Headers on every answer, a count of them, and the last net: no failure's text leaves, not even to a log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                said = message.get("headers", [])
                names = {name.lower() for name, _ in said}
                message["headers"] = [*said, *(header for header in _HEADERS if header[0] not in names)]
                self._count(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as failure:
            answer = problems.broken(failure)
            if not started:
                await answer(scope, receive, sending)

    def _count(self, scope: Scope, status: int) -> None:
        service = getattr(scope["app"].state, "service", None)
        if service is not None:
            route = getattr(scope.get("route"), "path", "other")
            # Whether an upload's rows were good is for its custodian alone.
            shown = "any" if route.endswith("/trajectories") else str(status)
            service.answered[(route, shown)] += 1
