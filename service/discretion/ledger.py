"""The budget of each population: open, reserve, charge, give back, adjust, and the proof that it adds up.

Every movement is one more row in a chain: each row carries the hash of the one before it, over ledger fields only. The
balance beside it is a running total that must equal the sum of the rows; `verify` re-derives both, and what does not
add up stops the service. Nothing here is ever updated or deleted but that running total, and the database's triggers
refuse it to everybody else; another trigger keeps the newest row's hash beside the total.

The guard against overspending is one conditional UPDATE: it finds the row and takes its lock in the same moment, so two
requests for the last ρ cannot both be told yes. Callers hold the transaction (`database.transaction`); a movement and
what it is for are committed together or not at all.

A reservation becomes a charge or comes back, once: its row and the one it leaves with are both unique.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from discretion import database, errors
from discretion.privacy.rho import MOST, Rho
from discretion.tables import audit, datasets, grants, ledger, populations, releases, trainings

OPEN: Final = "open"
RESERVE: Final = "reserve"
CHARGE: Final = "charge"
GIVE_BACK: Final = "give_back"
ADJUST: Final = "adjust"
DRAW: Final = "draw"

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


@dataclass(frozen=True)
class Reckoning:
    """What a chain of rows comes to."""

    balance: Balance
    sequence: int
    head: str


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
    connection.execute(populations.insert(), values)
    _move(connection, population, OPEN, total.nano, None, actor, at, None)


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
    if not _moved(connection, population, RESERVE, rho.nano, training, actor, at, None):
        raise errors.BudgetExhausted(balance(connection, population).remaining)
    if grant is not None:  # always after the population, as when it comes back: locks are taken in one order
        _use_grant(connection, population, grant, rho)


def _use_grant(connection: sa.Connection, population: str, grant: str, rho: Rho) -> None:
    mine = (grants.c.id == grant) & (grants.c.population == population) & ~grants.c.revoked
    fits = grants.c.used + rho.nano <= grants.c.cap
    used = connection.execute(grants.update().where(mine & fits).values(used=grants.c.used + rho.nano))
    if used.rowcount != 1:
        found = connection.execute(sa.select(grants.c.cap, grants.c.used).where(mine)).one_or_none()
        raise errors.GrantExhausted(Rho(found.cap - found.used) if found else Rho(0))


def charge(connection: sa.Connection, training: str, *, actor: str, at: datetime) -> Rho:
    """Spend a reservation, for good: to be committed before any patient's row is opened."""
    return _leave(connection, training, CHARGE, actor, at)


def give_back(connection: sa.Connection, training: str, *, actor: str, at: datetime, grant: str | None = None) -> Rho:
    """Return a reservation that was never charged, to the grant it was made under as well."""
    returned = _leave(connection, training, GIVE_BACK, actor, at)
    if grant is not None:
        lowered = grants.update().where(grants.c.id == grant).values(used=grants.c.used - returned.nano)
        connection.execute(lowered)
    return returned


_HELD: Final = ledger.select().where(ledger.c.training == sa.bindparam("of"), ledger.c.kind == RESERVE)
_LEFT: Final = ledger.select().where(ledger.c.training == sa.bindparam("of"), ledger.c.kind.in_((CHARGE, GIVE_BACK)))


def _leave(connection: sa.Connection, training: str, kind: str, actor: str, at: datetime) -> Rho:
    held = connection.execute(_HELD, {"of": training}).one_or_none()
    if held is not None:
        _account(connection, held.population, lock=True)  # who else decides about it waits here, and then sees our row
    if held is None or connection.execute(_LEFT, {"of": training}).one_or_none() is not None:
        raise errors.NotReserved("This training holds no reservation any more; nothing was moved.")
    _move(connection, held.population, kind, held.rho, training, actor, at, None)
    return Rho(held.rho)


def adjust(connection: sa.Connection, population: str, total: Rho, *, actor: str, at: datetime, reason: str) -> None:
    """Another total, never below what is reserved or charged; the reason stays visible, so no patient facts in it."""
    _checked_total(total)
    if not reason.strip():
        raise errors.InvalidParameter("A change of a budget needs a reason; it stays visible in the ledger.")
    before = _account(connection, population, lock=True)
    if not _moved(connection, population, ADJUST, total.nano - before.total, None, actor, at, reason):
        raise errors.BudgetInUse("The budget cannot fall below what is reserved and charged; nothing was changed.")


def draw(connection: sa.Connection, population: str, training: str, *, actor: str, at: datetime, reason: str) -> None:
    """A further draw that an earlier charge has paid for: ρ = 0, on the record."""
    _move(connection, population, DRAW, 0, training, actor, at, reason)


def _checked_total(total: Rho) -> None:
    if not 0 < total.nano <= MOST:
        raise errors.InvalidRho(f"A budget must lie above zero and be at most {Rho(MOST)}.")


def _step(guard: sa.ColumnElement[bool] | None = None, **changes: sa.ColumnElement[Any]) -> sa.Update:
    """Change a running total if the guard holds; the answer is where the row about it comes to stand."""
    here = populations.c.id == sa.bindparam("population")
    step = populations.update().where(here if guard is None else here & guard)
    step = step.values(sequence=populations.c.sequence + 1, **changes)
    return step.returning(populations.c.sequence, populations.c.head)


_total, _reserved, _charged = populations.c.total, populations.c.reserved, populations.c.charged
_amount: Final = sa.bindparam("amount", type_=sa.BigInteger)
_STEPS: Final = {
    OPEN: _step(total=_total + _amount),
    RESERVE: _step(_reserved + _charged + _amount <= _total, reserved=_reserved + _amount),
    CHARGE: _step(reserved=_reserved - _amount, charged=_charged + _amount),
    GIVE_BACK: _step(reserved=_reserved - _amount),
    ADJUST: _step(_reserved + _charged <= _total + _amount, total=_total + _amount),
    DRAW: _step(),
}


def _move(connection: sa.Connection, population: str, kind: str, rho: int, *rest: Any) -> None:
    if not _moved(connection, population, kind, rho, *rest):
        raise errors.NoSuchPopulation("There is no such population.")


def _moved(
    connection: sa.Connection,
    population: str,
    kind: str,
    rho: int,
    training: str | None,
    actor: str,
    at: datetime,
    reason: str | None,
) -> bool:
    """Change the running total if it allows that, and write the row that says so; the database keeps the head."""
    amount = {} if kind == DRAW else {"amount": rho}
    moved = connection.execute(_STEPS[kind], {"population": population} | amount).one_or_none()
    if moved is None:
        return False
    stamp = database.stamp(at)
    written = Row(population, moved.sequence, stamp, kind, rho, training, actor, reason, moved.head, hash="")
    connection.execute(ledger.insert(), _fields(written) | {"hash": hash_of(written)})
    return True


def _fields(row: Row) -> dict[str, Any]:
    return dict(vars(row))


def hash_of(row: Row) -> str:
    """Over canonical JSON (RFC 8785); for these texts and whole numbers the standard library writes it, faster."""
    content = _fields(row)
    del content["hash"]
    canonical = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# Written once, as every budget that is looked at asks it.
_ACCOUNT: Final = populations.select().where(populations.c.id == sa.bindparam("wanted"))


def _account(connection: sa.Connection, population: str, *, lock: bool = False) -> Any:
    wanted = _ACCOUNT.with_for_update(key_share=True) if lock else _ACCOUNT
    found = connection.execute(wanted, {"wanted": population}).one_or_none()
    if found is None:
        raise errors.NoSuchPopulation("There is no such population.")
    return found


def balance(connection: sa.Connection, population: str) -> Balance:
    return balance_of(population, _account(connection, population))


def balance_of(population: str, found: Any) -> Balance:
    try:
        return Balance(Rho(found.total), Rho(found.reserved), Rho(found.charged))
    except errors.InvalidRho:
        damage = f"The balance of {population} is no amount of ρ; restore it from a backup."
        raise errors.LedgerDamaged(damage) from None


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
    return newest_document(connection, population)


def newest_document(connection: sa.Connection, population: str) -> dict[str, Any]:
    """The head of a ledger that has just been checked."""
    return head_document(population, Reckoning(balance(connection, population), *newest(connection, population)))


def head_document(population: str, reckoned: Reckoning) -> dict[str, Any]:
    amounts = {name: str(amount) for name, amount in vars(reckoned.balance).items()}
    return {"version": 1, "population": population, "sequence": reckoned.sequence, "hash": reckoned.head, **amounts}


def _rows(connection: sa.Connection, population: str) -> Iterator[Row]:
    after = 0
    while batch := statement(connection, population, after=after):
        yield from batch
        after = batch[-1].sequence


def reckon(population: str, rows: Iterable[Row]) -> Reckoning:
    """Follow the chain from its beginning and add it up; needs no database. What does not hold is refused."""
    total = reserved = charged = sequence = 0
    held: dict[str, int] = {}  # by training
    head = _GENESIS
    for row in rows:
        sequence += 1
        linked = (row.population, row.sequence, row.previous_hash, row.hash) == (
            population,
            sequence,
            head,
            hash_of(row),
        )
        if not linked or not _makes_sense(row, held):
            raise errors.LedgerDamaged(
                f"The ledger of {population} is broken at row {sequence}; restore it from a backup."
            )
        head = row.hash
        total += row.rho if row.kind in (OPEN, ADJUST) else 0
        charged += row.rho if row.kind == CHARGE else 0
        reserved += {RESERVE: row.rho, CHARGE: -row.rho, GIVE_BACK: -row.rho}.get(row.kind, 0)
        if row.kind in (RESERVE, CHARGE, GIVE_BACK):
            held[str(row.training)] = row.rho if row.kind == RESERVE else 0
        if reserved + charged > total:
            raise errors.LedgerDamaged(
                f"The ledger of {population} overspends at row {sequence}; restore it from a backup."
            )
    if sequence == 0:
        raise errors.LedgerDamaged(f"The ledger of {population} is empty; restore it from a backup.")
    return Reckoning(Balance(Rho(total), Rho(reserved), Rho(charged)), sequence, head)


def _makes_sense(row: Row, held: dict[str, int]) -> bool:
    """A budget opens once, a training reserves once, and what it reserved leaves once and whole."""
    if row.sequence == 1 or row.kind == OPEN:
        return row.sequence == 1 and row.kind == OPEN and row.rho > 0
    if row.kind == RESERVE:
        return row.rho > 0 and row.training is not None and row.training not in held
    if row.kind in (CHARGE, GIVE_BACK):
        return row.rho > 0 and row.training is not None and held.get(row.training) == row.rho
    if row.kind == ADJUST:
        return bool(row.reason) and row.training is None
    return row.kind == DRAW and row.rho == 0


def verify(connection: sa.Connection, population: str, *, lock: bool = False) -> Balance:
    """Re-derive the chain and the balance from the rows; anything that does not add up is refused.

    Rows and balance must be of one moment: from a snapshot, or under a `lock` where a transaction goes on to write.
    """
    if lock:
        _account(connection, population, lock=True)
    reckoned = reckon(population, _rows(connection, population))
    if (balance(connection, population), *newest(connection, population)) != (
        reckoned.balance,
        reckoned.sequence,
        reckoned.head,
    ):
        raise errors.LedgerDamaged(
            f"The balance of {population} is not the sum of its ledger; restore it from a backup."
        )
    return reckoned.balance


def verify_all(connection: sa.Connection) -> int:
    """How many populations there are, once each of them adds up and nothing else in the database contradicts them."""
    names = connection.execute(sa.select(populations.c.id).order_by(populations.c.id)).scalars().all()
    for name in names:
        verify(connection, name)
    _cross_check(connection)
    return len(names)


def _cross_check(connection: sa.Connection) -> None:
    """What was opened, started or used elsewhere has its row here."""
    known = sa.select(populations.c.id)
    paid = sa.select(ledger.c.training).where(ledger.c.kind == CHARGE)
    returned = sa.select(ledger.c.training).where(ledger.c.kind == GIVE_BACK)
    used = (
        sa.select(sa.func.coalesce(sa.func.sum(trainings.c.rho), 0))
        .where(trainings.c.grant_id == grants.c.id, trainings.c.id.not_in(returned))
        .correlate(grants)
        .scalar_subquery()
    )
    started = trainings.c.state.in_(("running", "released", "failed"))
    contradictions = {
        "a population that was opened is missing": sa.select(audit.c.object).where(
            audit.c.action == "population.create", audit.c.object.not_in(known)
        ),
        "a dataset has no population": sa.select(datasets.c.id).where(datasets.c.population.not_in(known)),
        "a training was started and not charged": sa.select(trainings.c.id).where(started, trainings.c.id.not_in(paid)),
        "something was released and not charged": sa.select(releases.c.id).where(releases.c.training.not_in(paid)),
        "a grant does not add up": sa.select(grants.c.id).where(grants.c.used != used),
    }
    for words, question in contradictions.items():
        if (found := connection.execute(question.limit(1)).scalar()) is not None:
            raise errors.LedgerDamaged(f"In the database {words} ({found}); restore it from a backup.")
