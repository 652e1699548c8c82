"""Identities: people whom the hospital's provider vouches for, as rows among the keys.

The first good token of a subject makes the row, and its id stands wherever a key's does: in what it owns and was
granted, in the ledger and in the audit log. The role is what the newest token says. An older token that says otherwise
is refused, so that a role that was taken away is gone as soon as anything newer was seen.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from discretion import audit, database, errors, keys
from discretion.bearer import Claims
from discretion.keys import Key
from discretion.privacy import tokens
from discretion.tables import keys as rows


def find(connection: sa.Connection, claims: Claims) -> Key | None:
    """Whose token this is; None if it says something new, which `admit` writes down."""
    row = connection.execute(rows.select().where(_is(claims))).one_or_none()
    if row is None:
        return None
    _check(row, claims)
    return None if _is_newer(claims, row) else keys.of_row(row)


def admit(connection: sa.Connection, claims: Claims, *, at: datetime) -> Key:
    """Whose token this is, made or brought up to date."""
    # Whoever comes first makes the row; whoever comes at the same time waits here, and then finds it.
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    made = _made(claims, at)
    connection.execute(insert(rows).values(made).on_conflict_do_nothing())
    row = connection.execute(rows.select().where(_is(claims)).with_for_update(key_share=True)).one()
    if row.id == made["id"]:
        audit.record(connection, row.id, "identity.create", row.id, at=at)
    _check(row, claims)
    if _is_newer(claims, row):
        _update(connection, row, claims, at)
        row = connection.execute(rows.select().where(_is(claims))).one()
    return keys.of_row(row)


def _made(claims: Claims, at: datetime) -> dict[str, Any]:
    said = {"issuer": claims.issuer, "subject": claims.subject, "name": claims.name, "role": claims.role}
    times = {"created_at": database.stamp(at), "asserted_at": database.stamp(claims.issued_at)}
    return {"id": tokens.identifier("key"), "token_hash": keys.no_token()} | said | times


def _is(claims: Claims) -> sa.ColumnElement[bool]:
    return (rows.c.issuer == claims.issuer) & (rows.c.subject == claims.subject)


def _is_newer(claims: Claims, row: Any) -> bool:
    return database.stamp(claims.issued_at) > row.asserted_at


def _check(row: Any, claims: Claims) -> None:
    if row.revoked_at is not None:
        raise errors.Unauthenticated("Your identity was revoked here; ask an administrator.")
    if claims.role != row.role and not _is_newer(claims, row):
        raise errors.Unauthenticated("Your role has changed since this token was issued; get a new one.")


def _update(connection: sa.Connection, row: Any, claims: Claims, at: datetime) -> None:
    values = {"name": claims.name, "role": claims.role, "asserted_at": database.stamp(claims.issued_at)}
    if claims.role != row.role:
        values["token_hash"] = keys.no_token()  # sessions in the other role end
        audit.record(connection, row.id, f"identity.become-{claims.role}", row.id, at=at)
    connection.execute(rows.update().where(rows.c.id == row.id).values(**values))


def reopen(connection: sa.Connection, key: str) -> None:
    """Let an identity in again that was revoked; sessions that it had before stay ended.

    Whatever token comes first counts as the newest: once, the provider's clock may have been a year ahead.
    """
    revoked = (rows.c.id == key) & rows.c.issuer.is_not(None) & rows.c.revoked_at.is_not(None)
    values = {"revoked_at": None, "token_hash": keys.no_token(), "asserted_at": ""}
    if connection.execute(rows.update().where(revoked).values(**values)).rowcount != 1:
        raise errors.NoSuchKey("There is no such identity that was revoked; a key gets a new token by `keys replace`.")
