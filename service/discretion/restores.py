"""Restores: a backup in an empty place, unless that would forget a charge.

A backup knows nothing of what was charged after it. Signed heads of the ledgers do (`heads`): a ledger that ends before
a head that was given, or goes on otherwise, is refused with both numbers, and nothing has been written by then. Who
must go back all the same settles: the budget falls to what the head says was left, by a row that says why.

Two more things a backup cannot know. A run that was drawing when it was taken may have drawn the rest and released it:
it has failed now, and stays charged. And who was signed in, or uploading, is gone.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from discretion import (
    audit,
    backups,
    copies,
    database,
    dumps,
    durable,
    errors,
    heads,
    ledger,
    runs,
    shelves,
    signing,
    trainings,
)
from discretion import tables as schema
from discretion.backups import Backup
from discretion.heads import Head
from discretion.privacy.rho import Rho
from discretion.settings import Settings
from discretion.shelves import Shelf

_ACTOR: Final = "command line"


@dataclass(frozen=True)
class Lost:
    """A ledger of which a head tells more than the backup."""

    population: str
    had: int  # the backup's last row
    head: Head


@dataclass(frozen=True)
class Restored:
    backup: Backup
    populations: int
    failed: int  # runs that may not go on
    settled: tuple[Lost, ...]


def restore(
    found: Settings, folder: Path, *, kept: Sequence[Path], listed: str | None, settle: bool, unseen: bool = False
) -> Restored:
    """Into an empty database and store. `kept` are files and folders of heads beside DISCRETION_HEADS."""
    backup = backups.verify(folder, listed)
    places = [found.heads, *kept] if found.heads.is_dir() else kept
    told = heads.signed(places, listed or backup.keys())
    if not unseen:
        _refuse_unheard(backup, told)
    lost = compare(backup, told)
    if lost and not settle:
        raise errors.WouldForget(" ".join(map(_told, lost)))
    engine = database.engine(found.database_url)
    try:
        return _restored(engine, found, backup, lost)
    finally:
        engine.dispose()


def _refuse_unheard(backup: Backup, told: Sequence[Head]) -> None:
    """Each ledger has a head from its first row on, so that of one without, somebody has lost it."""
    ending = "so nobody can tell what was charged after this backup: give those that were kept by --head, or say"
    if not told:
        raise errors.WouldForget(f"No signed head of a ledger is known, {ending} --without-heads.")
    known = {head["population"] for head in told}
    if unheard := sorted(set(backup.heads) - known):
        raise errors.WouldForget(f"No signed head is known of {', '.join(unheard)}, {ending} --without-heads.")


def _told(lost: Lost) -> str:
    return (
        f"This backup would forget what was charged: of {lost.population} it has {lost.had} rows, and the signed head "
        f"of {lost.head['at']} is row {lost.head['sequence']}, with {lost.head['charged']} of {lost.head['total']} "
        "charged. Restore a newer backup, or settle for what is lost (--settle)."
    )


def compare(backup: Backup, told: Sequence[Head]) -> tuple[Lost, ...]:
    """Ledgers that end before their head; one that a head is no part of is refused, for nobody can add up both."""
    wanted: dict[tuple[str, int], set[str]] = {}
    for head in told:
        wanted.setdefault((head["population"], head["sequence"]), set()).add(head["hash"])
    for row in dumps.rows(backup.tables, "ledger"):
        place = row["population"], row["sequence"]
        if place in wanted:
            wanted[place].add(row["hash"])
    for (population, sequence), hashes in wanted.items():
        if len(hashes) > 1:
            raise errors.WouldForget(
                f"Row {sequence} of {population} is another one in this backup than in the signed head, or in two of "
                "them: they went apart before, and no restore can add them up."
            )
    known = heads.latest(told)
    had = {population: backup.heads.get(population, {"sequence": 0})["sequence"] for population in known}
    return tuple(
        Lost(population, had[population], head)
        for population, head in sorted(known.items())
        if head["sequence"] > had[population]
    )


def _restored(engine: sa.Engine, found: Settings, backup: Backup, lost: tuple[Lost, ...]) -> Restored:
    with contextlib.closing(shelves.opened(found)) as shelf:
        _refuse_filled(engine, found, shelf)
        brought: list[str] = []
        try:
            with database.transaction(engine) as connection:
                # Of two at once, the second waits here; what it may then clean up is its own alone.
                database.one_at_a_time(connection)
                _refuse_tables(connection)
                for folder in backup.datasets:
                    copies.put_back(shelf, backup.dataset(folder), folder)
                    brought.append(folder)
                failed, count = _loaded(connection, backup, lost)
        except BaseException:
            for folder in brought:
                with contextlib.suppress(errors.StorageFailed):
                    shelf.store.delete(folder)
            raise
    if backup.signing_key is not None and found.signing_key is None and not found.signing_key_file.exists():
        durable.write(found.signing_key_file, backup.signing_key.read_bytes())
    _tell(engine, found, lost)
    return Restored(backup, count, failed, lost)


def _refuse_filled(engine: sa.Engine, found: Settings, shelf: Shelf) -> None:
    found.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    copies.refuse_filled(shelf)
    try:
        with engine.connect() as connection:
            _refuse_tables(connection)
    except sa.exc.OperationalError as failure:
        raise database.unreachable(failure) from None


def _refuse_tables(connection: sa.Connection) -> None:
    if sa.inspect(connection).get_table_names():
        raise errors.NotEmpty("The database of DISCRETION_DATABASE_URL holds tables; restore into an empty one.")


def _loaded(connection: sa.Connection, backup: Backup, lost: tuple[Lost, ...]) -> tuple[int, int]:
    """All of the database, or nothing: how many runs may not go on, and how many ledgers add up."""
    now = datetime.now(UTC)
    database.upgrade(connection, backup.revision)
    dumps.load(connection, backup.tables)
    database.upgrade(connection)
    ledger.verify_all(connection)
    failed = runs.fail_undrawn(connection)
    for each in lost:
        _settle(connection, each, now)
    audit.record(connection, _ACTOR, "service.restore", backup.at, at=now)
    return failed, ledger.verify_all(connection)


def _settle(connection: sa.Connection, lost: Lost, at: datetime) -> None:
    """What waits is cancelled, for it may have been carried out; then no more is left than the head says."""
    if lost.had == 0:
        return  # a population that was opened after the backup is gone, and its datasets with it
    of_it = sa.select(schema.datasets.c.id).where(schema.datasets.c.population == lost.population)
    waiting = (schema.trainings.c.state == runs.QUEUED) & schema.trainings.c.dataset.in_(of_it)
    for training in connection.execute(sa.select(schema.trainings.c.id).where(waiting)).scalars().all():
        trainings.cancel(connection, training, actor=_ACTOR, at=at)
    had = ledger.balance(connection, lost.population)
    total, charged = (Rho.parse(lost.head[name]) if lost.head[name] != "0" else Rho(0) for name in ("total", "charged"))
    left = min((had.total - had.charged).nano, (total - charged).nano)
    # A budget is never nothing: one that is spent keeps the least there is.
    allowed = Rho(max(had.charged.nano + left, 1))
    reason = (
        f"Restored from a backup of row {lost.had}: row {lost.head['sequence']} had {lost.head['charged']} charged."
    )
    ledger.adjust(connection, lost.population, allowed, actor=_ACTOR, at=at, reason=reason)


def _tell(engine: sa.Engine, found: Settings, lost: tuple[Lost, ...]) -> None:
    """Heads of rows that were settled for would speak against the next restore, too. That of a ledger which is gone
    whole stays: another backup may have it."""
    key, now = signing.current(found), datetime.now(UTC)
    with database.transaction(engine) as connection:
        signing.publish(connection, key, at=now)
        for each in lost:
            if each.had:
                heads.supersede(found.heads, each.population)
        for population in connection.execute(sa.select(schema.populations.c.id)).scalars().all():
            heads.export(connection, found.heads, population, key, at=now)
