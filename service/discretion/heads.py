"""Signed heads of the ledgers, put where a restore cannot take them back.

A backup does not know what was charged after it. What does is the newest head of each ledger: the number and the hash
of its last row, with the balance, signed. Workers put it into a folder (`DISCRETION_HEADS`) after each charge and
before the first patient's row is opened, so that nothing can be released that no head tells of; a restore compares.

A head never takes another's place: its name holds the row's number, and only lower numbers are cleared away. So
workers on several hosts need no lock between them, and an older one that comes late does no harm.
"""

import contextlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from discretion import database, durable, errors, ledger, signatures

Head = dict[str, Any]

_NAME: Final = re.compile(r"(pop_\w+)\.(\d{12})\.json")
_SUPERSEDED: Final = ".superseded"


def check(folder: Path) -> None:
    """Refuse to begin what could not be put on record."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as trouble:
        raise errors.InvalidSetting(f"Nothing can be written to DISCRETION_HEADS: {trouble.strerror}.") from None


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
        raise errors.InvalidSetting(
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


def newest(places: Iterable[Path], listed: str) -> dict[str, Head]:
    """Of every population the newest head in some files and folders; one that no listed key has signed is refused."""
    found: dict[str, Head] = {}
    for place in places:
        paths = [path for path, _, _ in _files(place)] if place.is_dir() else [place]
        for path in paths:
            head = _read(path, listed)
            if head["sequence"] > found.get(head["population"], {"sequence": 0})["sequence"]:
                found[head["population"]] = head
    return found


def _read(path: Path, listed: str) -> Head:
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


def supersede(folder: Path, population: str) -> None:
    """Heads of rows that were lost, and settled for: they stay, under a name that is not read again."""
    for path, other, _ in _files(folder):
        if other == population:
            path.rename(path.with_name(path.name + _SUPERSEDED))
