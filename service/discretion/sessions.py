"""Sessions: a token exchanged for a secret that a browser keeps out of every page's reach.

A session belongs to the token that it was begun with, and ends with it: when the key is revoked, when its token is
replaced, twelve hours after it began, or an hour after it was last used. An identity's ends when the token expires or
the role changes, if that is earlier. Only the hash of its secret is stored.
"""

import hashlib
import hmac
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from discretion import database, keys
from discretion.keys import Key
from discretion.privacy import tokens
from discretion.tables import keys as rows
from discretion.tables import sessions

LIFE: Final = timedelta(hours=12)
_IDLE: Final = timedelta(hours=1)
_NOTED: Final = timedelta(minutes=1)  # a use so soon after the last is not written down
_MOST: Final = 20  # of one key
_CSRF: Final = b"discretion csrf 1"


@dataclass(frozen=True)
class Session:
    key: Key
    secret: str = field(repr=False)
    created_at: datetime
    used_at: datetime
    until: datetime | None = None  # an identity's token expires

    @property
    def csrf(self) -> str:
        """What the service's own page is told, and no other page can read; it does not give the secret away."""
        return hmac.new(self.secret.encode(), _CSRF, hashlib.sha256).hexdigest()

    @property
    def expires_at(self) -> datetime:
        """If it is not used again."""
        return min(self.latest_end, self.used_at + _IDLE)

    @property
    def latest_end(self) -> datetime:
        """However often it is used."""
        return min(self.created_at + LIFE, self.until or self.created_at + LIFE)

    def is_due(self, at: datetime) -> bool:
        return at - self.used_at >= _NOTED


def begin(connection: sa.Connection, token: str, *, at: datetime) -> Session | None:
    """A session of the key whose token this is, None for an unknown or revoked one."""
    return _begin(connection, keys.digest(token), at, None)


def begin_for(connection: sa.Connection, identity: Key, *, at: datetime, until: datetime) -> Session | None:
    """A session of an identity that has shown its token, None for one that was revoked, or got another role, since."""
    held = sa.select(rows.c.token_hash).where(rows.c.id == identity.id, rows.c.role == identity.role)
    hashed = connection.execute(held.with_for_update(key_share=True)).scalar_one_or_none()
    return None if hashed is None else _begin(connection, hashed, at, until)


def _begin(connection: sa.Connection, hashed: str, at: datetime, until: datetime | None) -> Session | None:
    # Locked, so that of several who sign in at once each sees the others.
    key = keys.of_digest(connection, hashed, lock=True)
    if key is None:
        return None
    forget(connection, at=at)
    _make_room(connection, hashed)
    made = Session(key, tokens.token("ses"), at, at, until)
    values = {"created_at": database.stamp(at), "used_at": database.stamp(at)}
    values |= {} if until is None else {"expires_at": database.stamp(until)}
    connection.execute(sessions.insert().values(hash=keys.digest(made.secret), token_hash=hashed, **values))
    return made


def forget(connection: sa.Connection, *, at: datetime) -> int:
    """How many have ended, and are gone now."""
    return connection.execute(sessions.delete().where(~_alive(at))).rowcount


def _alive(at: datetime) -> sa.ColumnElement[bool]:
    since, used = database.stamp(at - LIFE), database.stamp(at - _IDLE)
    unexpired = sessions.c.expires_at.is_(None) | (sessions.c.expires_at > database.stamp(at))
    return (sessions.c.created_at > since) & (sessions.c.used_at > used) & unexpired


def _make_room(connection: sa.Connection, token_hash: str) -> None:
    """The oldest go, so that one more is not too many."""
    newest_first = sessions.c.created_at.desc(), sessions.c.hash
    mine = sa.select(sessions.c.hash).where(sessions.c.token_hash == token_hash).order_by(*newest_first)
    too_many = connection.execute(mine).scalars().all()[_MOST - 1 :]
    connection.execute(sessions.delete().where(sessions.c.hash.in_(too_many)))


def find(connection: sa.Connection, secret: str, *, at: datetime) -> Session | None:
    """Whose secret this is, None for one that is unknown or has ended."""
    wanted = sessions.select().where(sessions.c.hash == keys.digest(secret), _alive(at))
    row = connection.execute(wanted).one_or_none()
    key = None if row is None else keys.of_digest(connection, row.token_hash)
    if row is None or key is None:
        return None
    until = None if row.expires_at is None else datetime.fromisoformat(row.expires_at)
    return Session(key, secret, datetime.fromisoformat(row.created_at), datetime.fromisoformat(row.used_at), until)


def prolong(connection: sa.Connection, found: Session, *, at: datetime) -> Session:
    """It was used; one that has been ended meanwhile stays ended."""
    here = sessions.c.hash == keys.digest(found.secret)
    connection.execute(sessions.update().where(here).values(used_at=database.stamp(at)))
    return replace(found, used_at=at)


def end(connection: sa.Connection, secret: str) -> None:
    connection.execute(sessions.delete().where(sessions.c.hash == keys.digest(secret)))
