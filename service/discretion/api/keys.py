"""API keys, identities, and the audit log."""

from datetime import UTC, datetime
from typing import Any

from discretion import audit, keys
from discretion.api import bodies, paging, schemas
from discretion.api.auth import Caller, Room, Running

room = Room("administration")


@room.route("POST", "/v1/keys", "admin", status=201, response_model=schemas.MadeKey)
def create_key(body: bodies.NewKey, caller: Caller, service: Running) -> Any:
    """A key; its token is in this answer and nowhere else, ever."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        made, token = keys.create(connection, body.name, body.role, at=now)
        audit.record(connection, caller.id, "key.create", made.id, at=now)
    return {"id": made.id, "name": made.name, "role": made.role, "token": token}


@room.route("GET", "/v1/keys", "admin", refusals=(422,), response_model=schemas.Page[schemas.KeyName])
def list_keys(caller: Caller, service: Running, page: paging.Page) -> Any:
    """Every key, and every identity that the provider has vouched for here."""
    with service.reading() as connection:
        found, following = keys.listed(connection, **vars(page))
    return {"items": [_document(key) for key in found], "next": following}


def _document(key: keys.Key) -> dict[str, Any]:
    return vars(key) | {"kind": key.kind}


@room.route("DELETE", "/v1/keys/{key}", "admin", response_model=schemas.KeyName)
def revoke_key(key: str, caller: Caller, service: Running) -> Any:
    """From now on the token, or whatever token the identity bears, opens nothing."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        revoked = keys.revoke(connection, key, at=now)
        audit.record(connection, caller.id, f"{revoked.kind}.revoke", key, at=now)
    return _document(revoked)


@room.route("GET", "/v1/audit", "admin", "auditor", refusals=(422,), response_model=schemas.AuditPage)
def read_audit(caller: Caller, service: Running, page: paging.NumberedPage) -> Any:
    """Who did what to what, oldest first; append-only."""
    with service.reading() as connection:
        found = audit.listed(connection, after=page.after, limit=page.limit + 1)
    following = found[page.limit - 1].sequence if len(found) > page.limit else None
    return {"items": [vars(entry) for entry in found[: page.limit]], "next": following}
