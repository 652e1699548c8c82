"""API keys: who may come in, and as what. A token is shown once; only its hash is kept."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from discretion import database, errors
from discretion.privacy import tokens
from discretion.tables import keys

ROLES: Final = ("admin", "custodian", "analyst", "auditor")
_LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class Key:
    id: str
    name: str
    role: str
    created_at: str
    revoked_at: str | None


def checked_name(name: str) -> str:
    """What people call a key, and whatever else has a name: something that can be printed on one line."""
    if not 0 < len(name.strip()) <= _LONGEST_NAME or not name.isprintable():
        raise errors.InvalidParameter(f"A name must be 1 to {_LONGEST_NAME} printable characters.")
    return name.strip()


def create(connection: sa.Connection, name: str, role: str, *, at: datetime) -> tuple[Key, str]:
    """A new key and its token, which nobody can show again."""
    if role not in ROLES:
        raise errors.InvalidParameter(f"role must be one of {', '.join(ROLES)}, not {role!r}.")
    made = Key(tokens.identifier("key"), checked_name(name), role, database.stamp(at), None)
    token = tokens.token()
    values = {"id": made.id, "name": made.name, "role": role, "created_at": made.created_at}
    connection.execute(keys.insert().values(**values, token_hash=digest(token)))
    return made, token


def digest(token: str) -> str:
    """A fast hash is enough for 256 random bits: there is nothing to guess that salting or stretching would slow."""
    return hashlib.sha256(token.encode()).hexdigest()


def authenticate(connection: sa.Connection, token: str) -> Key | None:
    """Whose token this is, None for an unknown or revoked one."""
    return of_digest(connection, digest(token))


def of_digest(connection: sa.Connection, hashed: str, *, lock: bool = False) -> Key | None:
    valid = (keys.c.token_hash == hashed) & keys.c.revoked_at.is_(None)
    question = keys.select().where(valid)
    found = connection.execute(question.with_for_update(key_share=True) if lock else question).one_or_none()
    return None if found is None else _key(found)


def replace(connection: sa.Connection, key: str) -> str:
    """Another token for the same key, which opens again if it was revoked; the old one opens nothing."""
    token = tokens.token()
    renewed = {"token_hash": digest(token), "revoked_at": None}
    if connection.execute(keys.update().where(keys.c.id == key).values(**renewed)).rowcount != 1:
        raise errors.NoSuchKey("There is no such key.")
    return token


def revoke(connection: sa.Connection, key: str, *, at: datetime) -> None:
    """From now on the token opens nothing; the row stays, so that old rows of the ledger still name somebody."""
    alive = (keys.c.id == key) & keys.c.revoked_at.is_(None)
    if connection.execute(keys.update().where(alive).values(revoked_at=database.stamp(at))).rowcount != 1:
        raise errors.NoSuchKey("There is no such key, or it was revoked before.")


def get(connection: sa.Connection, key: str) -> Key:
    return _key(connection.execute(keys.select().where(keys.c.id == key)).one())


def listed(connection: sa.Connection, *, after: str | None, limit: int) -> tuple[list[Key], str | None]:
    rows, following = database.page(connection, keys, sa.true(), after=after, limit=limit)
    return [_key(row) for row in rows], following


def exist(connection: sa.Connection) -> bool:
    """Whether there ever was a key."""
    return connection.execute(sa.select(sa.exists().where(keys.c.id.is_not(None)))).scalar_one()


def _key(row: Any) -> Key:
    return Key(row.id, row.name, row.role, row.created_at, row.revoked_at)
