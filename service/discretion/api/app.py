"""The application: rooms put together, and what surrounds every request."""

import threading
import time
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.telemetry import TelemetryConfig

import discretion
from discretion import database, ledger
from discretion.api import (
    around,
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
from discretion.api import datasets as dataset_routes
from discretion.api.service import Service
from discretion.settings import Settings

_ROOMS: Final = (populations, dataset_routes, uploads, trainings, rehearsals, policies, evaluations, keys)
_SWEEP: Final = 5  # times as long as an upload may pause
# The framework's own would take exceptions' texts along, to wherever a variable of the environment says.
_NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
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
    service.export_missing_heads()
    service.sweep()
    threading.Thread(target=_keep_sweeping, args=(service,), daemon=True).start()
    app = bare()
    app.state.service = service
    return app


def _keep_sweeping(service: Service) -> None:
    """What a bucket holds of an upload that broke off shows only when nothing has been added for a while."""
    while True:
        time.sleep(_SWEEP * service.settings.stall_seconds)
        service.sweep()


def bare() -> FastAPI:
    """The routes without anything behind them: what the OpenAPI document is made of."""
    version = discretion.__version__
    # A redirect would be to whatever host the request names.
    app = FastAPI(
        title="Discretion",
        version=version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    # Side by side, not one router in another: the framework tries every router's routes at each request, at four times
    # the price of a route of its own.
    for router in (*(room.room.router for room in _ROOMS), session.router, operations.router, web.router):
        app.router.routes.extend(router.routes)
    problems.install(app)
    app.add_middleware(around.Around)
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
