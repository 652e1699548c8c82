"""Populations: whose privacy a budget protects, and how much of it there is."""

from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from discretion import audit, catalogue, certificates, errors, ledger
from discretion.api import bodies, paging, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.learning import documents
from discretion.learning.curator import Concentrated
from discretion.privacy import rho

room = Room("populations")


def total_of(budget: bodies.Budget) -> rho.Rho:
    privacy = documents.privacy_of(budget.model_dump(exclude_unset=True))
    if not isinstance(privacy, Concentrated):
        raise errors.InvalidPrivacy("A budget is given as rho, or as epsilon with delta.")
    return rho.Rho.floor(privacy.rho)


@lru_cache(4096)
def epsilon(nano: int, delta: str) -> float:
    return rho.epsilon(Fraction(nano, rho.NANO), Fraction(delta)) if nano else 0.0


def budget_document(found: ledger.Balance) -> dict[str, Any]:
    return {
        "total": str(found.total),
        "charged": str(found.charged),
        "reserved": str(found.reserved),
        "remaining": str(found.remaining),
        "epsilon": [
            {
                "delta": float(delta),
                "total": epsilon(found.total.nano, delta),
                "charged": epsilon(found.charged.nano, delta),
            }
            for delta in certificates.DELTAS
        ],
    }


def _document(connection: sa.Connection, found: catalogue.Population) -> dict[str, Any]:
    return vars(found) | {"budget": budget_document(ledger.balance(connection, found.id))}


@room.route("POST", "/v1/populations", "custodian", status=201, response_model=schemas.Population)
def create_population(body: bodies.NewPopulation, caller: Caller, service: Running) -> Any:
    """A population with its whole budget; re-uploads and subsets of its patients draw on the same account."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        made = catalogue.add_population(connection, body.name, total_of(body.budget), owner=caller, at=now)
        audit.record(connection, caller.id, "population.create", made, at=now)
        document = _document(connection, catalogue.population(connection, caller, made))
    service.export_head(made)
    return document


@room.route(
    "GET", "/v1/populations", "custodian", "admin", refusals=(422,), response_model=schemas.Page[schemas.Population]
)
def list_populations(caller: Caller, service: Running, page: paging.Page) -> Any:
    with service.reading() as connection:
        found, following = catalogue.list_populations(connection, caller, **vars(page))
        return {"items": [_document(connection, one) for one in found], "next": following}


@room.route("GET", "/v1/populations/{population}", "custodian", "admin", response_model=schemas.Population)
def read_population(population: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        return _document(connection, catalogue.population(connection, caller, population))


@room.route(
    "PATCH", "/v1/populations/{population}/budget", "custodian", refusals=(409,), response_model=schemas.BudgetState
)
def change_budget(population: str, body: bodies.NewBudget, caller: Caller, service: Running) -> Any:
    """Another total; the reason stays visible in the ledger for good."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        catalogue.population(connection, caller, population)
        total = rho.Rho.parse(body.rho)
        ledger.adjust(connection, population, total, actor=caller.id, at=now, reason=body.reason)
        audit.record(connection, caller.id, "budget.change", population, at=now)
        document = budget_document(ledger.balance(connection, population))
    service.export_head(population)
    return document
