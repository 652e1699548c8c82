"""Who may see and use which population, dataset and grant.

A reader is a key. What a reader may not see is not found, with the same words as what was never there: every question
here takes the reader, so that no caller can forget to ask. Custodians see what they own, analysts what they were
granted, auditors and administrators the names of everything.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final

import rfc8785
import sqlalchemy as sa

from discretion import database, errors, ledger
from discretion.keys import Key, checked_name
from discretion.learning import documents
from discretion.learning.schemas import Schema
from discretion.privacy import tokens
from discretion.privacy.rho import Rho
from discretion.tables import datasets, grants, keys, populations, trainings, uploads

EMPTY: Final = "empty"
READY: Final = "ready"
RETIRED: Final = "retired"

CUSTODIAN: Final = "custodian"
ANALYST: Final = "analyst"


@dataclass(frozen=True)
class Population:
    id: str
    name: str
    owner: str


@dataclass(frozen=True)
class Dataset:
    id: str
    name: str
    population: str
    owner: str
    state: str
    schema: Schema
    labels: tuple[str, ...] | None
    units: int | None
    folder: str | None
    created_at: str


@dataclass(frozen=True)
class Grant:
    id: str
    dataset: str
    key: str
    cap: Rho
    used: Rho
    revoked: bool

    @property
    def remaining(self) -> Rho:
        return self.cap - self.used


# --- populations -------------------------------------------------------------------------------------------------


def add_population(connection: sa.Connection, name: str, total: Rho, *, owner: Key, at: datetime) -> str:
    population = tokens.identifier("pop")
    ledger.open_account(connection, population, total, name=checked_name(name), actor=owner.id, at=at)
    return population


def _visible_populations(reader: Key) -> sa.ColumnElement[bool]:
    return populations.c.owner == reader.id if reader.role == CUSTODIAN else sa.true()


def population(connection: sa.Connection, reader: Key, wanted: str) -> Population:
    visible = (populations.c.id == wanted) & _visible_populations(reader)
    found = connection.execute(populations.select().where(visible)).one_or_none()
    if found is None:
        raise errors.NotFound
    return Population(found.id, found.name, found.owner)


def list_populations(
    connection: sa.Connection, reader: Key, *, after: str | None, limit: int
) -> tuple[list[Population], str | None]:
    rows, following = database.page(connection, populations, _visible_populations(reader), after=after, limit=limit)
    return [Population(row.id, row.name, row.owner) for row in rows], following


# --- datasets ----------------------------------------------------------------------------------------------------


def add_dataset(
    connection: sa.Connection,
    name: str,
    population: str,
    schema: Schema,
    labels: tuple[str, ...] | None,
    *,
    owner: Key,
    at: datetime,
) -> str:
    dataset = tokens.identifier("ds")
    values = {"id": dataset, "population": population, "owner": owner.id, "name": checked_name(name), "state": EMPTY}
    document = _document(schema, labels)
    connection.execute(datasets.insert().values(**values, schema=document, created_at=database.stamp(at)))
    return dataset


def _document(schema: Schema, labels: documents.Labels) -> str:
    return rfc8785.dumps(documents.schema_document(schema, labels)).decode()


def _granted(reader: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    mine = sa.select(grants.c.dataset).where(grants.c.holder == reader, ~grants.c.revoked)
    return datasets.c.id.in_(mine)


def _visible_datasets(reader: Key) -> sa.ColumnElement[bool]:
    return _visible_to(reader.role, sa.literal(reader.id))


def _visible_to(role: str, reader: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    if role == CUSTODIAN:
        return datasets.c.owner == reader
    return _granted(reader) if role == ANALYST else sa.true()


def dataset(connection: sa.Connection, reader: Key, wanted: str, *, lock: bool = False) -> Dataset:
    question = _one_dataset(reader.role)
    asked = question.with_for_update(key_share=True) if lock else question
    found = connection.execute(asked, {"wanted": wanted, "reader": reader.id}).one_or_none()
    if found is None:
        raise errors.NotFound
    return _dataset(found)


@cache
def _one_dataset(role: str) -> sa.Select[Any]:
    """Written once for each role: nearly every request asks it."""
    return datasets.select().where(datasets.c.id == sa.bindparam("wanted"), _visible_to(role, sa.bindparam("reader")))


def stored(connection: sa.Connection, wanted: str) -> Dataset:
    """For the service's own work, on behalf of nobody in particular."""
    return _dataset(connection.execute(datasets.select().where(datasets.c.id == wanted)).one())


@lru_cache(1024)
def _schema(text: str) -> tuple[Schema, documents.Labels]:
    return documents.schema_of(json.loads(text))


def _dataset(row: Any) -> Dataset:
    schema, labels = _schema(row.schema)
    return Dataset(
        row.id, row.name, row.population, row.owner, row.state, schema, labels, row.units, row.folder, row.created_at
    )


def list_datasets(
    connection: sa.Connection, reader: Key, *, after: str | None, limit: int
) -> tuple[list[Dataset], str | None]:
    rows, following = database.page(connection, datasets, _visible_datasets(reader), after=after, limit=limit)
    return [_dataset(row) for row in rows], following


def of_population(connection: sa.Connection, population: str) -> list[str]:
    wanted = sa.select(datasets.c.id).where(datasets.c.population == population).order_by(datasets.c.created_at)
    return list(connection.execute(wanted).scalars())


def fill(connection: sa.Connection, dataset: str, *, units: int, folder: str, outcome: bool = False) -> None:
    """The data is there; only one upload can say so. That it has outcomes belongs to its schema from then on."""
    empty = (datasets.c.id == dataset) & (datasets.c.state == EMPTY)
    ready = {"state": READY, "units": units, "folder": folder}
    if outcome:
        found = stored(connection, dataset)
        ready["schema"] = _document(replace(found.schema, outcome=True), found.labels)
    if connection.execute(datasets.update().where(empty).values(**ready)).rowcount != 1:
        raise errors.DatasetNotEmpty
    if not end_upload(connection, folder):  # it paused for so long that what it had stored may be gone
        raise errors.UploadInterrupted("The upload was given up meanwhile; nothing was kept. Send it again.")


def begin_upload(connection: sa.Connection, dataset: str, folder: str) -> None:
    """Before anything is written there: what is left of it after a crash is then known to be worthless."""
    connection.execute(uploads.insert().values(folder=folder, dataset=dataset))


def end_upload(connection: sa.Connection, folder: str) -> bool:
    """Whether it was under way. Of two that end it, one waits for the other and is told no."""
    return connection.execute(uploads.delete().where(uploads.c.folder == folder)).rowcount == 1


def broken_uploads(connection: sa.Connection) -> list[str]:
    """Folders of uploads that began and were not finished; some may still be under way."""
    return list(connection.execute(sa.select(uploads.c.folder)).scalars())


def ready_folders(connection: sa.Connection) -> list[tuple[str, str]]:
    """Each dataset that has its data, and where that lies."""
    wanted = sa.select(datasets.c.id, datasets.c.folder).where(datasets.c.state == READY).order_by(datasets.c.id)
    return [(row.id, row.folder) for row in connection.execute(wanted)]


def hold(connection: sa.Connection, dataset: str) -> bool:
    """Whether a dataset has its data, which it keeps until the caller's transaction ends."""
    wanted = datasets.select().where(datasets.c.id == dataset, datasets.c.state == READY)
    return connection.execute(wanted.with_for_update(key_share=True)).one_or_none() is not None


def retire(connection: sa.Connection, dataset: str) -> None:
    connection.execute(datasets.update().where(datasets.c.id == dataset).values(state=RETIRED))


def pending(connection: sa.Connection, dataset: str) -> list[str]:
    """Trainings of a dataset that have not ended, locked."""
    open_ones = (trainings.c.dataset == dataset) & trainings.c.state.in_(("queued", "running"))
    wanted = sa.select(trainings.c.id).where(open_ones).order_by(trainings.c.id)
    # All of them before the first is cancelled: a worker locks a training before its population, too.
    return list(connection.execute(wanted.with_for_update(key_share=True)).scalars())


# --- grants ------------------------------------------------------------------------------------------------------


def grant(connection: sa.Connection, dataset: Dataset, key: str, cap: Rho, *, at: datetime) -> Grant:
    """Let an analyst use a dataset up to a cap inside the population's budget; one living grant for each of them."""
    analyst = (keys.c.id == key) & (keys.c.role == ANALYST) & keys.c.revoked_at.is_(None)
    # Locked, so that of two grants made at once the second sees the first.
    if connection.execute(keys.select().where(analyst).with_for_update(key_share=True)).one_or_none() is None:
        raise errors.InvalidParameter("key must be the id of an analyst's key that is not revoked.")
    if cap.nano <= 0:
        raise errors.InvalidRho("A grant must be of more than zero.")
    if own_grant(connection, dataset.id, key) is not None:
        raise errors.GrantExists("This key has a grant on this dataset; revoke that one first.")
    made = tokens.identifier("gr")
    values = {"id": made, "population": dataset.population, "dataset": dataset.id, "holder": key, "cap": cap.nano}
    connection.execute(grants.insert().values(**values, used=0, revoked=False, created_at=database.stamp(at)))
    return Grant(made, dataset.id, key, cap, Rho(0), False)


def own_grant(connection: sa.Connection, dataset: str, key: str) -> Grant | None:
    found = connection.execute(_OWN_GRANT, {"wanted": dataset, "reader": key}).one_or_none()
    return None if found is None else _grant(found)


_OWN_GRANT: Final = grants.select().where(
    grants.c.dataset == sa.bindparam("wanted"), grants.c.holder == sa.bindparam("reader"), ~grants.c.revoked
)


def budget(connection: sa.Connection, reader: Key, wanted: str) -> tuple[ledger.Balance, Grant | None]:
    """What a dataset's population has left and the reader's own grant, by a single question: both at one moment."""
    found = connection.execute(_one_budget(reader.role), {"wanted": wanted, "reader": reader.id}).one_or_none()
    if found is None:
        raise errors.NotFound
    return ledger.balance_of(found.of, found), None if found.id is None else _grant(found)


@cache
def _one_budget(role: str) -> sa.Select[Any]:
    reader: sa.BindParameter[str] = sa.bindparam("reader")
    own = (grants.c.dataset == datasets.c.id) & (grants.c.holder == reader) & ~grants.c.revoked
    joined = datasets.join(populations, populations.c.id == datasets.c.population).outerjoin(grants, own)
    amounts = (populations.c.total, populations.c.reserved, populations.c.charged)
    question = sa.select(populations.c.id.label("of"), *amounts, *grants.c).select_from(joined)
    return question.where(datasets.c.id == sa.bindparam("wanted"), _visible_to(role, reader))


def _grant(row: Any) -> Grant:
    return Grant(row.id, row.dataset, row.holder, Rho(row.cap), Rho(row.used), row.revoked)


def list_grants(
    connection: sa.Connection, dataset: str, *, after: str | None, limit: int
) -> tuple[list[Grant], str | None]:
    rows, following = database.page(connection, grants, grants.c.dataset == dataset, after=after, limit=limit)
    return [_grant(row) for row in rows], following


def one_grant(connection: sa.Connection, dataset: str, wanted: str) -> Grant:
    here = (grants.c.id == wanted) & (grants.c.dataset == dataset)
    found = connection.execute(grants.select().where(here)).one_or_none()
    if found is None:
        raise errors.NotFound
    return _grant(found)


def revoke(connection: sa.Connection, dataset: str, wanted: str) -> None:
    """No further trainings; what was reserved under the grant goes on."""
    one_grant(connection, dataset, wanted)
    connection.execute(grants.update().where(grants.c.id == wanted).values(revoked=True))
