"""What answers while the database is not there yet: 503 to everybody, and no word about why.

It is not healthy either: a first start prints its administrator's token before it says so.
"""

from typing import Any, Final

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from discretion.api import around, problems

_NOT_READY: Final = {"status": "not ready", "database": False, "store": False, "ledger": False}
_AGAIN: Final = {"Retry-After": "1"}


def create() -> ASGIApp:
    return around.Around(_answer)


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    said: Any = JSONResponse(_NOT_READY, 503, _AGAIN)
    if scope["path"] != "/readyz":
        detail = "The database does not answer, or is being upgraded; try again in a moment."
        said = problems.answer(503, "database_unavailable", detail, _AGAIN)
    await said(scope, receive, send)
