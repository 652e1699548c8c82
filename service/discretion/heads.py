"""Signed heads of the ledgers, put where a restore cannot take them back.

A backup does not know what was charged after it. What does is the newest head of each ledger: the number and the hash
of its last row, with the balance, signed. The service puts one into a folder (`DISCRETION_HEADS`) when a population is
opened, and workers do after each charge and before the first patient's row is opened, so that nothing can be released
that no head tells of; a restore compares, and so does a worker before it charges: a database may be put back by other
means than a restore.

A head never takes another's place: its name holds the row's number, and only lower numbers are cleared away. So
workers on several hosts need no lock between them, and an older one that comes late does no harm.

A head does not change while a training draws. So each number that is drawn leaves a mark of its own here, which can be
made once: a database that was put back to a moment between the charge and a draw would have it drawn a second time.
"""

import contextlib
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from discretion import database, durable, errors, ledger, signatures
from discretion.tables import populations

Head = dict[str, Any]

_NAME: Final = re.compile(r"(pop_\w+)\.(\d{12})\.json")
_SUPERSEDED: Final = ".superseded"
_DRAWS: Final = "draws"


def check(folder: Path) -> None:
    """Refuse to begin what could not be put on record."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as trouble:
        raise errors.HeadsUnavailable(f"Nothing can be written to DISCRETION_HEADS: {trouble.strerror}.") from None


def export(
    connection: sa.Connection, folder: Path, population: str, key: signatures.SigningKey, *, at: datetime
) -> None:
    """The newest head of a ledger, on disk before this returns."""
    check(folder)
    document = ledger.newest_document(connection, population) | {"at": database.stamp(at)}
    sequence = document["sequence"]
    signed = json.dumps(signatures.sign(document, key, signatures.LEDGER_HEAD))
    try:
        durable.write(folder / f"{population}.{sequence:012}.json", signed.encode())
    except OSError as trouble:
        raise errors.HeadsUnavailable(
            f"A ledger's head cannot be put into DISCRETION_HEADS: {trouble.strerror}."
        ) from None
    for path, other, number in _files(folder):
        if other == population and number < sequence:
            with contextlib.suppress(OSError):
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[Path, str, int]]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if named := _NAME.fullmatch(path.name):
            yield path, named[1], int(named[2])


def missing(connection: sa.Connection, folder: Path) -> list[str]:
    """Populations that no head here tells of: they are older than this folder, or it has lost one."""
    told = {population for _, population, _ in _files(folder)}
    return [name for name in connection.execute(sa.select(populations.c.id)).scalars() if name not in told]


def mark(folder: Path, training: str, numbers: Iterable[int]) -> None:
    """That a training draws these numbers now: on disk before this returns, and refused if it ever was before.

    To be called once the database has the intent, so that a mark without an intent has one meaning alone: the database
    has forgotten it. Nothing here is taken away again, because nobody knows how far back a database may be put.
    """
    place = folder / _DRAWS / training
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        for number in numbers:
            os.close(os.open(place / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise errors.DrawInterrupted("This was drawn before, and the database has forgotten it.") from None
    for each in (place, place.parent, folder):
        durable.sync(each)


def signed(places: Iterable[Path], listed: str) -> list[Head]:
    """Every head in some files and folders; one that no listed key has signed is refused."""
    paths = [[path for path, _, _ in _files(place)] if place.is_dir() else [place] for place in places]
    return [_read(path, listed) for path in itertools.chain.from_iterable(paths)]


def latest(found: Iterable[Head]) -> dict[str, Head]:
    """The newest of each population."""
    return {head["population"]: head for head in sorted(found, key=lambda head: head["sequence"])}


def newest(places: Iterable[Path], listed: str) -> dict[str, Head]:
    return latest(signed(places, listed))


def _read(path: Path, listed: str | None) -> Head:
    """`listed` is None where it does not matter who has signed it."""
    try:
        head, _ = signatures.read(path.read_bytes(), listed, signatures.LEDGER_HEAD)
    except errors.InvalidCertificate as refusal:
        raise errors.InvalidCertificate(
            f"{path.name} is no ledger head that can be believed ({refusal} With a key that is newer than the backup, "
            "give the service's public keys by --keys.)"
        ) from None
    expected = {"version", "population", "sequence", "hash", "total", "reserved", "charged", "at"}
    if set(head) != expected or head["version"] != 1 or not isinstance(head["sequence"], int):
        raise errors.InvalidCertificate(f"{path.name} is a ledger head of another version.")
    return head


def refuse_rolled_back(engine: sa.Engine, folder: Path) -> None:
    """A ledger that lacks a row which a head here tells of has forgotten it: a copy or a dump was put back.

    Heads first, for whoever wrote one had seen its row committed. Who signed them is not asked: a head that the ledger
    contains does no harm, and one that it does not is a reason to stop, whoever put it there.
    """
    told = _here(folder)
    with database.snapshot(engine) as connection:
        known = set(connection.execute(sa.select(populations.c.id)).scalars())
        for head in told:
            population, sequence = head["population"], head["sequence"]
            rows = ledger.statement(connection, population, after=sequence - 1, limit=1)
            if population in known and [(row.sequence, row.hash) for row in rows] != [(sequence, head["hash"])]:
                raise errors.LedgerDamaged(
                    f"The ledger of {population} does not hold row {sequence} of its signed head in DISCRETION_HEADS: "
                    "the database was put back, or is a copy; restore a backup by `discretion restore`."
                )


def _here(folder: Path) -> list[Head]:
    found = []
    try:
        for path, _, _ in _files(folder):
            with contextlib.suppress(FileNotFoundError):  # a newer one has just taken its place
                found.append(_read(path, None))
    except OSError as trouble:
        raise errors.HeadsUnavailable(f"DISCRETION_HEADS cannot be read: {trouble.strerror}.") from None
    return found


def supersede(folder: Path, population: str) -> None:
    """Heads of rows that were lost, and settled for: they stay, under a name that is not read again."""
    for path, other, _ in _files(folder):
        if other == population:
            path.rename(path.with_name(path.name + _SUPERSEDED))
