"""Who did what to what, in order. Append-only; ids and verbs, never a value.

An entry is written in the transaction of what it tells of. Nothing here depends on a patient's row: an upload that was
refused leaves no entry, and one that was accepted has the time at which it began.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from discretion import database
from discretion.tables import audit

PROGRAM: Final = "command line"  # the actor of what is done on the machine itself
_NUMBERING: Final = 2718281828  # any number that nobody else locks


@dataclass(frozen=True)
class Entry:
    sequence: int
    at: str
    actor: str
    action: str
    object: str


def record(connection: sa.Connection, actor: str, action: str, target: str, *, at: datetime) -> None:
    if connection.dialect.name == "postgresql":
        # Numbers are given before the commit: one at a time, or a reader who goes on from a number misses a later one.
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_NUMBERING)))
    entry = {"at": database.stamp(at), "actor": actor, "action": action, "object": target}
    connection.execute(audit.insert().values(entry))


def migrated(connection: sa.Connection, version: str) -> None:
    """Of the program, whoever has started it: an older database was brought up to date."""
    record(connection, PROGRAM, "database.migrate", version, at=datetime.now(UTC))


def published(connection: sa.Connection, kid: str) -> None:
    """Of the program: certificates are signed with a key that was not known before."""
    record(connection, PROGRAM, "signing-key.publish", kid, at=datetime.now(UTC))


def listed(connection: sa.Connection, *, after: int = 0, limit: int) -> list[Entry]:
    """The entries after a number, oldest first."""
    wanted = audit.select().where(audit.c.sequence > after).order_by(audit.c.sequence).limit(limit)
    return [Entry(**row._mapping) for row in connection.execute(wanted)]
