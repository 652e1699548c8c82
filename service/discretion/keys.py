"""API keys: who may come in, and as what. A token is shown once; only its hash is kept.

Identities of a provider are rows here, too (`identities`), so that whatever names a key can name either.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from discretion import database, errors, roles
from discretion.privacy import tokens
from discretion.tables import keys

ROLES: Final = roles.ROLES
_LONGEST_NAME: Final = 200
# Written once: every request asks it, and to write it takes as long as to ask it.
_LIVING: Final = keys.select().where(keys.c.token_hash == sa.bindparam("hashed"), keys.c.revoked_at.is_(None))


@dataclass(frozen=True)
class Key:
    id: str
    name: str
    role: str
    created_at: str
    revoked_at: str | None
    issuer: str | None = None
    subject: str | None = None

    @property
    def kind(self) -> str:
        return "key" if self.issuer is None else "identity"


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


def no_token() -> str:
    """What stands where the hash would, if there is no token: the hash of nothing, for sessions to hang on."""
    return tokens.identifier("none")


def authenticate(connection: sa.Connection, token: str) -> Key | None:
    """Whose token this is, None for an unknown or revoked one."""
    return of_digest(connection, digest(token))


def of_digest(connection: sa.Connection, hashed: str, *, lock: bool = False) -> Key | None:
    question = _LIVING.with_for_update(key_share=True) if lock else _LIVING
    found = connection.execute(question, {"hashed": hashed}).one_or_none()
    return None if found is None else of_row(found)


def replace(connection: sa.Connection, key: str) -> str:
    """Another token for the same key, which opens again if it was revoked; the old one opens nothing."""
    token = tokens.token()
    renewed = {"token_hash": digest(token), "revoked_at": None}
    here = (keys.c.id == key) & keys.c.issuer.is_(None)  # an identity with a token could pass for its person
    if connection.execute(keys.update().where(here).values(**renewed)).rowcount != 1:
        raise errors.NoSuchKey("There is no such key; identities have no token here, see `keys reopen`.")
    return token


def revoke(connection: sa.Connection, key: str, *, at: datetime) -> Key:
    """From now on it opens nothing; the row stays, so that old rows of the ledger still name somebody."""
    alive = (keys.c.id == key) & keys.c.revoked_at.is_(None)
    if connection.execute(keys.update().where(alive).values(revoked_at=database.stamp(at))).rowcount != 1:
        raise errors.NoSuchKey("There is no such key, or it was revoked before.")
    return get(connection, key)


def get(connection: sa.Connection, key: str) -> Key:
    return of_row(connection.execute(keys.select().where(keys.c.id == key)).one())


def listed(connection: sa.Connection, *, after: str | None, limit: int) -> tuple[list[Key], str | None]:
    rows, following = database.page(connection, keys, sa.true(), after=after, limit=limit)
    return [of_row(row) for row in rows], following


def exist(connection: sa.Connection) -> bool:
    """Whether there ever was a key."""
    return connection.execute(sa.select(sa.exists().where(keys.c.id.is_not(None)))).scalar_one()


def of_row(row: Any) -> Key:
    return Key(row.id, row.name, row.role, row.created_at, row.revoked_at, row.issuer, row.subject)
