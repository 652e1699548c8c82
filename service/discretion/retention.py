"""What grows and may be forgotten, and what never is.

Never: rows of a ledger, certificates and what they certify, public keys, keys, trainings (their rows keep idempotency
keys from being used again, and draws make further policies possible). Those are the record that patients are owed.

May: entries of the audit log that are older than a custodian's rules ask for; sessions that have ended; folders that
broken uploads left behind. The audit log is append-only by a trigger, which is set aside for that one statement, in one
transaction with an entry that says so.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from discretion import audit, catalogue, database, datasets, errors, sessions, shelves
from discretion import tables as schema
from discretion.settings import Settings

_LEAST: Final = timedelta(days=90)  # a log that can be emptied at once protects nobody
_KEPT: Final = ("population.create",)  # `ledger.verify_all` finds by them a population that is missing


@dataclass(frozen=True)
class Pruned:
    entries: int
    sessions: int


def prune(engine: sa.Engine, found: Settings, age: timedelta, *, actor: str, at: datetime) -> Pruned:
    """Forget what is older than `age`, and sweep the store."""
    if age < _LEAST:
        raise errors.InvalidParameter(f"Nothing younger than {_LEAST.days} days is forgotten; give more days.")
    with database.transaction(engine) as connection:
        ended = sessions.forget(connection, at=at)
        gone = _prune_audit(connection, database.stamp(at - age))
        if gone:
            audit.record(connection, actor, "audit.prune", f"{gone} entries", at=at)

    def broken() -> list[str]:
        with database.snapshot(engine) as connection:
            return catalogue.broken_uploads(connection)

    def end(folder: str, clean_up: Callable[[], None]) -> None:
        with database.transaction(engine) as connection:
            if catalogue.end_upload(connection, folder):
                clean_up()

    with contextlib.closing(shelves.opened(found)) as shelf:
        datasets.sweep(shelf, broken, end)
    return Pruned(gone, ended)


def _prune_audit(connection: sa.Connection, before: str) -> int:
    """The trigger comes back before anybody else can write: both databases change their schema in a transaction."""
    old = (schema.audit.c.at < before) & schema.audit.c.action.not_in(_KEPT)
    question = sa.select(sa.func.count()).select_from(schema.audit).where(old)
    if connection.execute(question).scalar_one() == 0:
        return 0
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("ALTER TABLE audit DISABLE TRIGGER audit_append_only"))
        gone = connection.execute(schema.audit.delete().where(old)).rowcount
        connection.execute(sa.text("ALTER TABLE audit ENABLE TRIGGER audit_append_only"))
        return gone
    named = sa.text("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'audit_no_delete'")
    trigger = connection.execute(named).scalar_one()
    connection.execute(sa.text("DROP TRIGGER audit_no_delete"))
    gone = connection.execute(schema.audit.delete().where(old)).rowcount
    connection.exec_driver_sql(trigger)
    return gone
