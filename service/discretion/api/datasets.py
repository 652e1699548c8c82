"""Datasets, their grants, their budget and their ledger."""

import contextlib
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from discretion import audit, catalogue, database, errors, formats, ledger, signatures, statements, trainings
from discretion import datasets as store
from discretion.api import bodies, paging, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.api.populations import budget_document, total_of
from discretion.api.service import Service
from discretion.learning import documents
from discretion.privacy import rho

room = Room("datasets")


def dataset_document(found: catalogue.Dataset) -> dict[str, Any]:
    names = ("id", "name", "population", "owner", "state", "units", "created_at")
    return {name: getattr(found, name) for name in names} | documents.schema_document(found.schema, found.labels)


@room.route("POST", "/v1/datasets", "custodian", status=201, refusals=(404,), response_model=schemas.Dataset)
def create_dataset(body: bodies.NewDataset, caller: Caller, service: Running) -> Any:
    """A dataset without data yet, in a population of yours or, with `budget`, in one of its own."""
    if (body.population is None) == (body.budget is None):
        raise errors.InvalidRequest("Give either `population` or `budget`.")
    schema, labels = documents.schema_of(_schema(body))
    store.check(schema)
    formats.kinds(schema)  # columns that no upload could have are refused now
    now = datetime.now(UTC)
    with service.writing() as connection:
        if body.budget is not None:
            total = total_of(body.budget)
            population = catalogue.add_population(connection, body.name, total, owner=caller, at=now)
            audit.record(connection, caller.id, "population.create", population, at=now)
        else:
            population = catalogue.population(connection, caller, str(body.population)).id
        made = catalogue.add_dataset(connection, body.name, population, schema, labels, owner=caller, at=now)
        audit.record(connection, caller.id, "dataset.create", made, at=now)
        document = dataset_document(catalogue.dataset(connection, caller, made))
    if body.budget is not None:
        service.export_head(population)
    return document


def _schema(body: bodies.NewDataset) -> dict[str, Any]:
    given = body.model_dump(by_alias=True, exclude_unset=True, exclude={"name", "population", "budget", "labels"})
    if body.labels is not None:
        if "labels" in body.actions:
            raise errors.InvalidRequest("Give the labels once: in `actions`, or beside it.")
        given["actions"] = given["actions"] | {"labels": body.labels}
    return given


@room.route(
    "GET",
    "/v1/datasets",
    "custodian",
    "analyst",
    "admin",
    refusals=(422,),
    response_model=schemas.Page[schemas.Dataset],
)
def list_datasets(caller: Caller, service: Running, page: paging.Page) -> Any:
    """Your own, or those granted to you."""
    with service.reading() as connection:
        found, following = catalogue.list_datasets(connection, caller, **vars(page))
        return {"items": [dataset_document(one) for one in found], "next": following}


@room.route("GET", "/v1/datasets/{dataset}", "custodian", "analyst", "admin", response_model=schemas.Dataset)
def read_dataset(dataset: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        return dataset_document(catalogue.dataset(connection, caller, dataset))


@room.route("DELETE", "/v1/datasets/{dataset}", "custodian", refusals=(507,), response_model=schemas.Dataset)
def retire_dataset(dataset: str, caller: Caller, service: Running) -> Any:
    """Delete the data for good; ledger, policies and certificates stay. Trainings that have not ended are cancelled."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        found = catalogue.dataset(connection, caller, dataset, lock=True)
        for training in catalogue.pending(connection, dataset):
            with contextlib.suppress(errors.TrainingEnded):  # by its worker, since the line above
                trainings.cancel(connection, training, actor=caller.id, at=now)
        if found.state != catalogue.RETIRED:
            catalogue.retire(connection, dataset)
            audit.record(connection, caller.id, "dataset.retire", dataset, at=now)
    if found.folder is not None:
        store.retire(service.shelf.place(found.folder))
    with service.reading() as connection:
        return dataset_document(catalogue.dataset(connection, caller, dataset))


# --- budget and ledger -------------------------------------------------------------------------------------------


@room.route("GET", "/v1/datasets/{dataset}/budget", "custodian", "analyst", "admin", response_model=schemas.BudgetState)
def read_budget(dataset: str, caller: Caller, service: Running) -> Any:
    """Of the dataset's population; an analyst also sees what is left of their own grant."""
    with service.glancing() as connection:
        balance, grant = catalogue.budget(connection, caller, dataset)
    document = budget_document(balance)
    if grant is not None:
        document["grant"] = {"rho": str(grant.cap), "used": str(grant.used), "remaining": str(grant.remaining)}
    return document


@room.route(
    "GET",
    "/v1/datasets/{dataset}/ledger",
    "custodian",
    "analyst",
    "auditor",
    refusals=(422,),
    response_model=schemas.Ledger,
)
def read_ledger(dataset: str, caller: Caller, service: Running, page: paging.NumberedPage) -> Any:
    """Every movement of the budget, oldest first; `intact` says that the whole chain was checked just now."""
    with service.reading() as connection:
        population = catalogue.dataset(connection, caller, dataset).population
        intact = _intact(connection, population, service)
        if caller.role == catalogue.ANALYST:
            mine = trainings.ids_of(caller)
            rows = ledger.of_trainings(connection, population, mine, after=page.after, limit=page.limit + 1)
        else:
            rows = ledger.statement(connection, population, after=page.after, limit=page.limit + 1)
    shown = [statements.row_document(row) for row in rows[: page.limit]]
    following = rows[page.limit - 1].sequence if len(rows) > page.limit else None
    return {"population": population, "rows": shown, "intact": intact, "next": following}


def _intact(connection: sa.Connection, population: str, service: Service) -> bool:
    """A reader still sees the rows of a damaged ledger; nobody spends from it any more."""
    try:
        ledger.verify(connection, population)
    except errors.LedgerDamaged:
        service.damaged = True
        return False
    return True


@room.route("GET", "/v1/datasets/{dataset}/ledger/head", "custodian", "auditor", response_model=schemas.Signed)
def read_ledger_head(dataset: str, caller: Caller, service: Running) -> Any:
    """The newest row's number and hash, signed: keep it, and a ledger that was rolled back or cloned is found out."""
    with service.reading() as connection:
        population = catalogue.dataset(connection, caller, dataset).population
        head = ledger.head(connection, population)
    dated = head | {"at": database.stamp(datetime.now(UTC))}
    return signatures.sign(dated, service.signing_key(), signatures.LEDGER_HEAD)


@room.route("GET", "/v1/ledgers", "auditor", refusals=(422,), response_model=schemas.Page[schemas.LedgerName])
def list_ledgers(caller: Caller, service: Running, page: paging.Page) -> Any:
    """Every population's ledger, checked just now."""
    with service.reading() as connection:
        found, following = catalogue.list_populations(connection, caller, **vars(page))
        return {"items": [_ledger_name(connection, one, service) for one in found], "next": following}


def _ledger_name(connection: sa.Connection, population: catalogue.Population, service: Service) -> dict[str, Any]:
    intact = _intact(connection, population.id, service)
    sequence, head = ledger.newest(connection, population.id)
    return {
        "population": population.id,
        "name": population.name,
        "budget": budget_document(ledger.balance(connection, population.id)),
        "datasets": catalogue.of_population(connection, population.id),
        "sequence": sequence,
        "hash": head,
        "intact": intact,
    }


# --- grants ------------------------------------------------------------------------------------------------------


def _grant_document(found: catalogue.Grant) -> dict[str, Any]:
    amounts = {"rho": str(found.cap), "used": str(found.used), "remaining": str(found.remaining)}
    return {"id": found.id, "dataset": found.dataset, "key": found.key, "revoked": found.revoked} | amounts


@room.route(
    "POST", "/v1/datasets/{dataset}/grants", "custodian", status=201, refusals=(409,), response_model=schemas.Grant
)
def create_grant(dataset: str, body: bodies.NewGrant, caller: Caller, service: Running) -> Any:
    """Let an analyst's key use the dataset, up to a cap inside the budget."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        found = catalogue.dataset(connection, caller, dataset)
        made = catalogue.grant(connection, found, body.key, rho.Rho.parse(body.rho), at=now)
        audit.record(connection, caller.id, "grant.create", made.id, at=now)
    return _grant_document(made)


@room.route(
    "GET",
    "/v1/datasets/{dataset}/grants",
    "custodian",
    "admin",
    refusals=(422,),
    response_model=schemas.Page[schemas.Grant],
)
def list_grants(dataset: str, caller: Caller, service: Running, page: paging.Page) -> Any:
    with service.reading() as connection:
        catalogue.dataset(connection, caller, dataset)
        found, following = catalogue.list_grants(connection, dataset, **vars(page))
    return {"items": [_grant_document(one) for one in found], "next": following}


@room.route("GET", "/v1/datasets/{dataset}/grants/{grant}", "custodian", "admin", response_model=schemas.Grant)
def read_grant(dataset: str, grant: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        catalogue.dataset(connection, caller, dataset)
        return _grant_document(catalogue.one_grant(connection, dataset, grant))


@room.route("DELETE", "/v1/datasets/{dataset}/grants/{grant}", "custodian", "admin", response_model=schemas.Grant)
def revoke_grant(dataset: str, grant: str, caller: Caller, service: Running) -> Any:
    """No further trainings; what was reserved under the grant goes on."""
    with service.writing() as connection:
        catalogue.dataset(connection, caller, dataset)
        catalogue.revoke(connection, dataset, grant)
        audit.record(connection, caller.id, "grant.revoke", grant, at=datetime.now(UTC))
        return _grant_document(catalogue.one_grant(connection, dataset, grant))
