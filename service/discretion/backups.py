"""Backups: the database and the store of one moment, in a folder that says itself whether it is whole.

    manifest.json        signed: size and SHA-256 of every other file, the revision, every ledger's head
    tables/NAME.jsonl.gz the database, as one snapshot sees it (`dumps`)
    datasets/FOLDER/…    the files of every dataset that is ready in that snapshot, byte for byte
    signing-key.pem      only if it was asked for

Nobody is locked out meanwhile. Files are copied after the snapshot: a dataset's never change, so they are the
snapshot's, unless it was retired since; then everything begins again. The folder is built under another name beside its
place, read back, and renamed when every byte has reached the disk.

A manifest holds digests of patients' rows. It is for operators, like everything else here, and never for an analyst.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

import discretion
from discretion import (
    audit,
    catalogue,
    copies,
    database,
    dumps,
    durable,
    errors,
    ledger,
    shelves,
    signatures,
    signing,
)
from discretion import tables as schema
from discretion.settings import Settings
from discretion.shelves import Shelf

Head = dict[str, Any]

_KIND: Final = "discretion-backup+jws"
_VERSION: Final = 1
_MANIFEST, _TABLES, _DATASETS, _KEY = "manifest.json", "tables", "datasets", "signing-key.pem"
_ATTEMPTS: Final = 5  # a dataset that is retired meanwhile is rare
_ACTOR: Final = "command line"
_FOLDER: Final = re.compile(r"[A-Za-z0-9_]+")  # of a dataset, in the store and here


@dataclass(frozen=True)
class Part:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Backup:
    """A backup that was found whole."""

    folder: Path
    at: str
    software: str
    revision: str
    heads: dict[str, Head]  # by population
    datasets: tuple[str, ...]  # the folders of those that are ready
    parts: tuple[Part, ...]

    @property
    def tables(self) -> Path:
        return self.folder / _TABLES

    @property
    def signing_key(self) -> Path | None:
        path = self.folder / _KEY
        return path if path.exists() else None

    @property
    def size(self) -> int:
        return sum(part.bytes for part in self.parts)

    def dataset(self, folder: str) -> Path:
        return self.folder / _DATASETS / folder

    def keys(self) -> str:
        """The public keys that it holds."""
        return json.dumps({"keys": [json.loads(row["jwk"]) for row in dumps.rows(self.tables, "signing_keys")]})


@dataclass(frozen=True)
class _Moment:
    at: str
    revision: str
    heads: dict[str, Head]
    datasets: tuple[str, ...]


# --- making one --------------------------------------------------------------------------------------------------


def create(found: Settings, target: Path, *, with_signing_key: bool = False) -> Backup:
    """A new folder `target` with everything of one moment, taken while the service works."""
    target = target.absolute()
    if target.is_relative_to(found.datasets):
        raise errors.NotEmpty("A backup does not belong among the datasets; name a folder elsewhere.")
    if os.path.lexists(target):
        raise errors.NotEmpty(f"{target.name} is there already; name a folder that is not.")
    engine = database.engine(found.database_url)
    try:
        database.check(engine)
        key = signing.current(found)
        with database.transaction(engine) as connection:
            signing.publish(connection, key, at=datetime.now(UTC))
        with _workshop(target) as place:
            moment = _taken(engine, found, place)
            if with_signing_key:
                durable.write(place / _KEY, key.pem())
            _seal(place, moment, key)
            verify(place, json.dumps(signatures.jwks([key])))
            os.rename(place, target)
            durable.sync(target.parent)
        with database.transaction(engine) as connection:
            audit.record(connection, _ACTOR, "service.backup", moment.at, at=datetime.now(UTC))
    finally:
        engine.dispose()
    return _read(target, None)


@contextlib.contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    try:
        place = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as trouble:
        raise errors.InvalidBackup(f"Nothing can be written beside {target.name}: {trouble.strerror}.") from None
    try:
        yield place
    except OSError as trouble:
        raise errors.InvalidBackup(f"The backup could not be written, and nothing of it is left: {trouble}.") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _taken(engine: sa.Engine, found: Settings, place: Path) -> _Moment:
    with contextlib.closing(shelves.opened(found)) as shelf:
        return _copied(engine, shelf, place)


def _copied(engine: sa.Engine, shelf: Shelf, place: Path) -> _Moment:
    for _ in range(_ATTEMPTS):
        try:
            moment = _snapshot(engine, place)
            (place / _DATASETS).mkdir(mode=0o700)
            for folder in moment.datasets:
                copies.take(shelf, folder, place / _DATASETS / folder)
            return moment
        except copies.Gone as gone:
            _refuse_lost(engine, str(gone))
            for part in (_TABLES, _DATASETS):
                shutil.rmtree(place / part, ignore_errors=True)
    raise errors.InvalidBackup("Datasets were retired again and again while they were copied; try once more.")


def _snapshot(engine: sa.Engine, place: Path) -> _Moment:
    with database.snapshot(engine) as connection:
        ledger.verify_all(connection)  # what does not add up is not worth keeping, and must be known
        names = connection.execute(sa.select(schema.populations.c.id)).scalars().all()
        heads = {name: ledger.newest_document(connection, name) for name in names}
        ready = schema.datasets.select().where(schema.datasets.c.state == catalogue.READY)
        folders = tuple(sorted(row.folder for row in connection.execute(ready)))
        now = database.stamp(database.clock(connection))
        moment = _Moment(now, str(database.revision(connection)), heads, folders)
        dumps.write(connection, place / _TABLES)
    return moment


def _refuse_lost(engine: sa.Engine, folder: str) -> None:
    """Unless it was retired, a dataset whose files are gone is a damage that a backup must not hide."""
    with database.snapshot(engine) as connection:
        here = schema.datasets.select().where(schema.datasets.c.folder == folder)
        row = connection.execute(here).one()
    if row.state == catalogue.READY:
        raise errors.InvalidBackup(f"The files of dataset {row.id} are not in the store; retire it, or restore them.")


def _seal(place: Path, moment: _Moment, key: signatures.SigningKey) -> None:
    document = vars(moment) | {"version": _VERSION, "software": discretion.__version__}
    document |= {"datasets": list(moment.datasets), "parts": [vars(part) for part in _parts(place)]}
    durable.write(place / _MANIFEST, json.dumps(signatures.sign(document, key, _KIND)).encode())


def _parts(folder: Path) -> list[Part]:
    """All files but the manifest itself; a link leads elsewhere, and is none."""
    inside = [path for path in sorted(folder.rglob("*")) if not path.is_dir() and path != folder / _MANIFEST]
    if any(path.is_symlink() or not (path.is_file() or path.is_dir()) for path in folder.rglob("*")):
        raise errors.InvalidBackup("This backup holds something that is neither a file nor a folder.")
    return [_part(path, folder) for path in inside]


def _part(path: Path, folder: Path) -> Part:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Part(path.relative_to(folder).as_posix(), file.tell(), digest)


# --- checking one ------------------------------------------------------------------------------------------------


def verify(folder: Path, listed: str | None = None) -> Backup:
    """Every byte is what was written, by who signed it, and every ledger comes to the head that was signed.

    `listed` are public keys that are known from elsewhere. Without them those in the backup have to do: they find
    accidents, and nobody who changed the backup and signed it anew.
    """
    found = _read(folder, listed)
    actual = {part.name: part for part in _parts(folder)}
    expected = {part.name: part for part in found.parts}
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            kind = "is missing" if name not in actual else "was added" if name not in expected else "was changed"
            raise errors.InvalidBackup(f"This backup is not what was written: {name} {kind}.")
    if {name: _reckoned(name, rows) for name, rows in _ledgers(found)} != found.heads:
        raise errors.InvalidBackup("The ledgers in this backup do not come to the heads that were signed with it.")
    return found


def _ledgers(found: Backup) -> Iterator[tuple[str, Iterator[ledger.Row]]]:
    rows = (ledger.Row(**row) for row in dumps.rows(found.tables, "ledger"))
    yield from groupby(rows, attrgetter("population"))


def _reckoned(population: str, rows: Iterator[ledger.Row]) -> Head:
    return ledger.head_document(population, ledger.reckon(population, rows))


def _read(folder: Path, listed: str | None) -> Backup:
    try:
        text = (folder / _MANIFEST).read_bytes()
        own = Backup(folder, "", "", "", {}, (), ()).keys() if listed is None else listed
        document, _ = signatures.read(text, own, _KIND)
    except (OSError, errors.InvalidCertificate, errors.InvalidBackup) as trouble:
        raise errors.InvalidBackup(f"{folder.name} is no backup whose manifest can be believed: {trouble}") from None
    if document.get("version") != _VERSION:
        raise errors.InvalidBackup("This backup was written by another version of the service.")
    if not all(isinstance(name, str) and _FOLDER.fullmatch(name) for name in document["datasets"]):
        raise errors.InvalidBackup("The datasets of this backup have names that lead elsewhere.")
    parts = tuple(Part(**part) for part in document["parts"])
    says = {name: document[name] for name in ("at", "software", "revision", "heads")}
    return Backup(folder, datasets=tuple(document["datasets"]), parts=parts, **says)
