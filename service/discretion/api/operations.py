"""Health, readiness, metrics, the public keys, and documentation that needs no network."""

from importlib.resources import files
from typing import Any, Final

import fastapi_offline
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool

from discretion import errors, signing
from discretion.api import auth, metrics, problems, schemas
from discretion.api.auth import Running

router = APIRouter(tags=["operations"])

_ASSETS: Final = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_START: Final = """SwaggerUIBundle({url: "openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null});"""
# The page is not ours: it styles its parts one by one.
_ALLOWED: Final = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Discretion</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/swagger-ui.css"></head>
<body><div id="docs"></div><script src="docs/swagger-ui-bundle.js"></script><script src="docs/start.js"></script></body>
</html>"""


@router.get("/healthz", response_model=schemas.Health)
async def health() -> Any:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=schemas.Readiness, responses={503: {"model": schemas.Readiness}})
def readiness(service: Running) -> Any:
    """The database is the one this program knows, the store can be written, and every ledger adds up."""
    found = service.readiness()
    ready = all(found.values())
    return JSONResponse({"status": "ready" if ready else "not ready"} | found, 200 if ready else 503)


@router.get(
    "/v1/certificate-keys", tags=["policies"], response_model=schemas.KeyList, responses=problems.responses([503])
)
def list_certificate_keys(service: Running) -> Any:
    """Every public key that certificates were signed with, as a JWKS; needs no token."""
    with service.reading() as connection:
        return signing.published(connection)


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=problems.responses([401, 403, 429, 503]),
    openapi_extra={"security": [{"bearer": []}]},
)
async def read_metrics(request: Request, service: Running) -> str:
    """For Prometheus; needs DISCRETION_METRICS_TOKEN or an administrator's key."""
    if not auth.is_operator(request, service) and (await auth.caller(request, service)).role != "admin":
        raise errors.Forbidden("Metrics are for an administrator's key or the metrics token.")
    return await run_in_threadpool(metrics.written, service)


@router.get("/docs", include_in_schema=False)
async def docs() -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"content-security-policy": _ALLOWED})


@router.get("/docs/{asset}", include_in_schema=False)
def docs_asset(asset: str) -> Response:
    if asset == "start.js":
        return Response(_START, media_type="text/javascript")
    if asset not in _ASSETS:
        raise errors.NotFound
    return Response((files(fastapi_offline) / "static" / asset).read_bytes(), media_type=_ASSETS[asset])
