"""The budget of each population: open, reserve, charge, give back, adjust, and the proof that it adds up.

Every movement is one more row in a chain: each row carries the hash of the one before it, over ledger fields only. The
balance beside it is a running total that must equal the sum of the rows; `verify` re-derives both, and what does not
add up stops the service. Nothing here is ever updated or deleted but that running total, and the database's triggers
refuse it to everybody else.

The guard against overspending is one conditional UPDATE: it finds the row and takes its lock in the same moment, so two
requests for the last ρ cannot both be told yes. Callers hold the transaction (`database.transaction`); a movement and
what it is for are committed together or not at all.

A reservation becomes a charge or comes back, once; which of the two is decided by a conditional UPDATE as well.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import rfc8785
import sqlalchemy as sa

from discretion import database, errors
from discretion.privacy.rho import MOST, Rho
from discretion.tables import grants, ledger, populations, reservations

OPEN: Final = "open"
RESERVE: Final = "reserve"
CHARGE: Final = "charge"
GIVE_BACK: Final = "give_back"
ADJUST: Final = "adjust"
DRAW: Final = "draw"

_RESERVED: Final = "reserved"
_CHARGED: Final = "charged"
_GIVEN_BACK: Final = "given_back"

_GENESIS: Final = "0" * 64
_BATCH: Final = 1000


@dataclass(frozen=True)
class Balance:
    total: Rho
    reserved: Rho
    charged: Rho

    @property
    def remaining(self) -> Rho:
        return self.total - self.reserved - self.charged


@dataclass(frozen=True)
class Row:
    """One line of the ledger; `rho` is in nano-ρ and negative only where a budget was lowered."""

    population: str
    sequence: int
    at: str
    kind: str
    rho: int
    training: str | None
    actor: str
    reason: str | None
    previous_hash: str
    hash: str


def open_account(
    connection: sa.Connection, population: str, total: Rho, *, name: str, actor: str, at: datetime
) -> None:
    """A new population with its whole budget; it belongs to who opened it."""
    _checked_total(total)
    values = {
        "id": population,
        "name": name,
        "owner": actor,
        "total": 0,
        "reserved": 0,
        "charged": 0,
        "sequence": 0,
        "head": _GENESIS,
        "created_at": database.stamp(at),
    }
    connection.execute(populations.insert().values(values))
    _move(connection, population, OPEN, total.nano, {"total": populations.c.total + total.nano}, None, actor, at, None)


def reserve(
    connection: sa.Connection,
    population: str,
    training: str,
    rho: Rho,
    *,
    actor: str,
    at: datetime,
    grant: str | None = None,
) -> None:
    """Set ρ aside for a training, if the budget and the grant both have it."""
    if rho.nano <= 0:
        raise errors.InvalidRho("A reservation must be of more than zero.")
    if grant is not None:
        _use_grant(connection, population, grant, rho)
    fits = populations.c.reserved + populations.c.charged + rho.nano <= populations.c.total
    change = {"reserved": populations.c.reserved + rho.nano}
    if not _moved(connection, population, RESERVE, rho.nano, change, training, actor, at, None, guard=fits):
        raise errors.BudgetExhausted(balance(connection, population).remaining)
    held = {"training": training, "population": population, "grant_id": grant, "rho": rho.nano, "state": _RESERVED}
    connection.execute(reservations.insert().values(held))


def _use_grant(connection: sa.Connection, population: str, grant: str, rho: Rho) -> None:
    mine = (grants.c.id == grant) & (grants.c.population == population) & ~grants.c.revoked
    fits = grants.c.used + rho.nano <= grants.c.cap
    used = connection.execute(grants.update().where(mine & fits).values(used=grants.c.used + rho.nano))
    if used.rowcount != 1:
        found = connection.execute(sa.select(grants.c.cap, grants.c.used).where(mine)).one_or_none()
        raise errors.GrantExhausted(Rho(found.cap - found.used) if found else Rho(0))


def charge(connection: sa.Connection, training: str, *, actor: str, at: datetime) -> Rho:
    """Spend a reservation, for good: to be committed before any patient's row is opened."""
    held = _leave(connection, training, _CHARGED)
    change = {
        "reserved": populations.c.reserved - held.rho,
        "charged": populations.c.charged + held.rho,
    }
    _move(connection, held.population, CHARGE, held.rho, change, training, actor, at, None)
    return Rho(held.rho)


def give_back(connection: sa.Connection, training: str, *, actor: str, at: datetime) -> Rho:
    """Return a reservation that was never charged."""
    held = _leave(connection, training, _GIVEN_BACK)
    if held.grant_id is not None:
        returned = grants.update().where(grants.c.id == held.grant_id).values(used=grants.c.used - held.rho)
        connection.execute(returned)
    change = {"reserved": populations.c.reserved - held.rho}
    _move(connection, held.population, GIVE_BACK, held.rho, change, training, actor, at, None)
    return Rho(held.rho)


def _leave(connection: sa.Connection, training: str, state: str) -> Any:
    mine = reservations.c.training == training
    left = connection.execute(reservations.update().where(mine, reservations.c.state == _RESERVED).values(state=state))
    if left.rowcount != 1:
        raise errors.NotReserved("This training holds no reservation any more; nothing was moved.")
    return connection.execute(reservations.select().where(mine)).one()


def adjust(connection: sa.Connection, population: str, total: Rho, *, actor: str, at: datetime, reason: str) -> None:
    """Another total, never below what is reserved or charged; the reason stays visible, so no patient facts in it."""
    _checked_total(total)
    if not reason.strip():
        raise errors.InvalidParameter("A change of a budget needs a reason; it stays visible in the ledger.")
    before = _account(connection, population, lock=True)
    fits = populations.c.reserved + populations.c.charged <= total.nano
    change = {"total": sa.literal(total.nano)}
    moved = total.nano - before.total
    if not _moved(connection, population, ADJUST, moved, change, None, actor, at, reason, guard=fits):
        raise errors.BudgetInUse("The budget cannot fall below what is reserved and charged; nothing was changed.")


def draw(connection: sa.Connection, population: str, training: str, *, actor: str, at: datetime, reason: str) -> None:
    """A further draw that an earlier charge has paid for: ρ = 0, on the record."""
    _move(connection, population, DRAW, 0, {}, training, actor, at, reason)


def _checked_total(total: Rho) -> None:
    if not 0 < total.nano <= MOST:
        raise errors.InvalidRho(f"A budget must lie above zero and be at most {Rho(MOST)}.")


def _move(connection: sa.Connection, population: str, kind: str, rho: int, change: dict[str, Any], *rest: Any) -> None:
    if not _moved(connection, population, kind, rho, change, *rest):
        raise errors.NoSuchPopulation("There is no such population.")


def _moved(
    connection: sa.Connection,
    population: str,
    kind: str,
    rho: int,
    change: dict[str, Any],
    training: str | None,
    actor: str,
    at: datetime,
    reason: str | None,
    guard: sa.ColumnElement[bool] | None = None,
) -> bool:
    """Change the running total if the guard holds, and write the row that says so."""
    here = populations.c.id == population
    condition = here if guard is None else here & guard
    step = populations.update().where(condition).values(**change, sequence=populations.c.sequence + 1)
    if connection.execute(step).rowcount != 1:
        return False
    account = _account(connection, population)
    written = Row(
        population,
        account.sequence,
        database.stamp(at),
        kind,
        rho,
        training,
        actor,
        reason,
        previous_hash=account.head,
        hash="",
    )
    signed = asdict(written) | {"hash": _hash(written)}
    connection.execute(ledger.insert().values(signed))
    connection.execute(populations.update().where(here).values(head=signed["hash"]))
    return True


def _hash(row: Row) -> str:
    content = {name: value for name, value in asdict(row).items() if name != "hash"}
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def _account(connection: sa.Connection, population: str, *, lock: bool = False) -> Any:
    wanted = populations.select().where(populations.c.id == population)
    found = connection.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    if found is None:
        raise errors.NoSuchPopulation("There is no such population.")
    return found


def balance(connection: sa.Connection, population: str) -> Balance:
    found = _account(connection, population)
    return Balance(Rho(found.total), Rho(found.reserved), Rho(found.charged))


def statement(connection: sa.Connection, population: str, *, after: int = 0, limit: int = _BATCH) -> list[Row]:
    """The rows after a sequence number, oldest first."""
    wanted = (ledger.c.population == population) & (ledger.c.sequence > after)
    found = connection.execute(ledger.select().where(wanted).order_by(ledger.c.sequence).limit(limit))
    return [Row(**row._mapping) for row in found]


def of_trainings(
    connection: sa.Connection, population: str, trainings: sa.Select[Any], *, after: int = 0, limit: int = _BATCH
) -> list[Row]:
    """The rows that some trainings caused, oldest first."""
    wanted = (ledger.c.population == population) & (ledger.c.sequence > after) & ledger.c.training.in_(trainings)
    found = connection.execute(ledger.select().where(wanted).order_by(ledger.c.sequence).limit(limit))
    return [Row(**row._mapping) for row in found]


def paid(connection: sa.Connection, training: str) -> Row:
    """The row that charged for a training."""
    wanted = (ledger.c.training == training) & (ledger.c.kind == CHARGE)
    return Row(**connection.execute(ledger.select().where(wanted)).one()._mapping)


def newest(connection: sa.Connection, population: str) -> tuple[int, str]:
    """The number and the hash of the newest row."""
    found = _account(connection, population)
    return int(found.sequence), str(found.head)


def head(connection: sa.Connection, population: str) -> dict[str, Any]:
    """What an auditor keeps outside, so that a ledger rolled back or cloned is found out."""
    verify(connection, population)
    found = _account(connection, population)
    amounts = {name: str(Rho(getattr(found, name))) for name in ("total", "reserved", "charged")}
    return {"version": 1, "population": population, "sequence": found.sequence, "hash": found.head, **amounts}


def _rows(connection: sa.Connection, population: str) -> Iterator[Row]:
    after = 0
    while batch := statement(connection, population, after=after):
        yield from batch
        after = batch[-1].sequence


def verify(connection: sa.Connection, population: str) -> Balance:
    """Re-derive the chain and the balance from the rows; anything that does not add up is refused."""
    total = reserved = charged = sequence = 0
    head = _GENESIS
    for row in _rows(connection, population):
        sequence += 1
        if row.sequence != sequence or row.previous_hash != head or row.hash != _hash(row):
            raise errors.LedgerDamaged(
                f"The ledger of {population} is broken at row {sequence}; restore it from a backup."
            )
        head = row.hash
        total += row.rho if row.kind in (OPEN, ADJUST) else 0
        reserved += {RESERVE: row.rho, CHARGE: -row.rho, GIVE_BACK: -row.rho}.get(row.kind, 0)
        charged += row.rho if row.kind == CHARGE else 0
        if min(reserved, charged) < 0 or reserved + charged > total:
            raise errors.LedgerDamaged(
                f"The ledger of {population} overspends at row {sequence}; restore it from a backup."
            )
    found = _account(connection, population)
    if (found.total, found.reserved, found.charged, found.sequence, found.head) != (
        total,
        reserved,
        charged,
        sequence,
        head,
    ):
        raise errors.LedgerDamaged(
            f"The balance of {population} is not the sum of its ledger; restore it from a backup."
        )
    return Balance(Rho(total), Rho(reserved), Rho(charged))


def verify_all(connection: sa.Connection) -> int:
    """How many populations there are, once each of them adds up."""
    names = connection.execute(sa.select(populations.c.id).order_by(populations.c.id)).scalars().all()
    for name in names:
        verify(connection, name)
    return len(names)
