"""One run of a training, as its worker sees it: claim, keep, draw, release or fail. Callers hold the transaction.

* The first claim charges, in the transaction that takes the row: from then on nothing comes back.
* A claim is a lease with a fencing number. A worker that lost its lease finds every further write refused, however
  late it wakes up. A training whose lease ran out is claimed again and goes on from what was drawn.
* An intent is written before each draw and the values right after it. An intent without values was interrupted: that
  training has failed, and nothing is drawn for it again.
* The policy, its certificate and the state `released` appear together.
"""

import io
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import rfc8785
import sqlalchemy as sa

from discretion import catalogue, database, errors, ledger, requests
from discretion.catalogue import Dataset
from discretion.learning.policy import Policy
from discretion.learning.report import Report
from discretion.learning.schemas import IntArray
from discretion.privacy import events
from discretion.tables import datasets, drawn, draws, releases, trainings

QUEUED: Final = "queued"
RUNNING: Final = "running"
RELEASED: Final = "released"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

FAILURE: Final = "training_failed"  # one code for everything after the charge

MOST_ATTEMPTS: Final = 10  # a training that takes its worker down with it must end some day
_WAIT: Final = timedelta(hours=12)  # of a training that is charged: it counts as an attempt
_PIECE: Final = 2**22  # bytes of drawn values in one row: drivers hold several copies of it, and some keep the room


@dataclass(frozen=True)
class Claim:
    """A training that one worker holds for a while."""

    training: str
    dataset: str
    request: str
    fence: int
    stages: int
    attempts: int  # with this one
    exhausted: bool  # tried too often: it has failed, and only that is left to say
    elapsed: float  # seconds since the first claim, by the clock that leases are measured with


def _claimable(at: datetime) -> sa.ColumnElement[bool]:
    abandoned = (trainings.c.state == RUNNING) & (trainings.c.lease_until < database.stamp(at))
    return (trainings.c.state == QUEUED) | abandoned


def waiting(connection: sa.Connection, *, at: datetime) -> bool:
    """Whether a claim would find something; a look that takes no lock."""
    return connection.execute(sa.select(sa.exists().where(_claimable(at)))).scalar_one()


def _in_turn(at: datetime, without: Collection[str], served_now: Collection[str] = ()) -> sa.Select[Any]:
    """What was charged and left comes first; then the population that was served longest ago, or never, and the oldest
    of its trainings: however many one population asks for, it keeps no other waiting for more than one of them."""
    served = (
        sa.select(datasets.c.population, sa.func.max(trainings.c.started_at).label("last"))
        .join(trainings, trainings.c.dataset == datasets.c.id)
        .group_by(datasets.c.population)
        .subquery()
    )
    return (
        sa.select(trainings, datasets.c.population)
        .join(datasets, datasets.c.id == trainings.c.dataset)
        .join(served, served.c.population == datasets.c.population)
        .where(_claimable(at) & trainings.c.id.not_in(list(without)))
        .order_by(
            trainings.c.state == QUEUED,
            datasets.c.population.in_(list(served_now)),
            sa.func.coalesce(served.c.last, ""),
            trainings.c.created_at,
            trainings.c.id,
        )
        .limit(1)
    )


def _taken(connection: sa.Connection, at: datetime, without: Collection[str]) -> Any:
    """The row whose turn it is, locked, though others claim at the same time: what they have not committed cannot be
    seen. So who serves a population holds a lock of it until then, which nobody waits for, and looks again when it has
    it; a population that another holds is one that has just been served."""
    ours: set[str] = set()
    theirs: set[str] = set()
    while True:
        turn = _in_turn(at, without, theirs).with_for_update(skip_locked=True, key_share=True, of=trainings)
        found = connection.execute(turn).one_or_none()
        if found is None or found.state != QUEUED or found.population in ours | theirs:
            return found
        (ours if database.hold(connection, found.population) else theirs).add(found.population)


def upcoming(connection: sa.Connection, *, at: datetime, without: Collection[str]) -> Any:
    """The row whose turn it is, None if there is none; a look that takes no lock."""
    return connection.execute(_in_turn(at, without)).one_or_none()


def claim(
    connection: sa.Connection,
    *,
    actor: str,
    at: datetime,
    lease: timedelta,
    fit: Callable[[str, Dataset, str], None] = lambda training, dataset, request: None,
    without: Collection[str] = (),
    only: str | None = None,
) -> Claim | None:
    """The training whose turn it is, charged if it was never charged; `only` that one, or none if it is not its turn.

    `fit` raises if this worker could not carry it out, and the ledger it is charged to is checked: then the caller's
    transaction ends, and nothing was spent.
    """
    found = _taken(connection, at, without)
    if found is None or only not in (None, found.id):
        return None
    here = trainings.c.id == found.id
    exhausted = found.attempts >= MOST_ATTEMPTS
    dataset = catalogue.stored(connection, found.dataset)
    if not exhausted:
        fit(found.id, dataset, found.request)
    if found.state == QUEUED:
        ledger.verify(connection, dataset.population, lock=True)
        ledger.charge(connection, found.id, actor=actor, at=at)
    started = found.started_at or database.stamp(at)
    taken = {"state": RUNNING, "fence": found.fence + 1, "lease_until": database.stamp(at + lease)}
    taken |= {"attempts": found.attempts + 1, "started_at": started}
    connection.execute(trainings.update().where(here).values(**taken))
    elapsed = max(0.0, (at - datetime.fromisoformat(started)).total_seconds())
    return Claim(
        found.id, found.dataset, found.request, found.fence + 1, found.stages, found.attempts + 1, exhausted, elapsed
    )


def keep(connection: sa.Connection, held: Claim, *, at: datetime, lease: timedelta, done: int) -> None:
    """Hold on to a training for another while; `done` stages are shown, by the public schedule."""
    _write(connection, held, lease_until=database.stamp(at + lease), done=done)


def let_go(
    connection: sa.Connection, held: Claim, *, at: datetime, told: bool, pause: timedelta = timedelta(0)
) -> None:
    """Another may go on, at once or after a pause; a worker that was told to stop has not failed at it."""
    attempts = trainings.c.attempts - 1 if told else trainings.c.attempts
    free = database.stamp(at + pause - timedelta(microseconds=1))
    _write(connection, held, lease_until=free, attempts=attempts)


def count_wait(connection: sa.Connection, unfit: Collection[str], *, at: datetime) -> None:
    """Of those that are charged, that nobody has had for so long and a worker could not go on with: waiting costs
    nothing, and must end."""
    left = (trainings.c.state == RUNNING) & (trainings.c.lease_until < database.stamp(at - _WAIT))
    counted = {"attempts": trainings.c.attempts + 1, "lease_until": database.stamp(at - timedelta(microseconds=1))}
    connection.execute(trainings.update().where(left & trainings.c.id.in_(list(unfit))).values(counted))


def _write(connection: sa.Connection, held: Claim, **values: Any) -> None:
    """Change a training only while it is ours; the row stays locked until the transaction ends."""
    ours = (trainings.c.id == held.training) & (trainings.c.fence == held.fence) & (trainings.c.state == RUNNING)
    if connection.execute(trainings.update().where(ours).values(**values)).rowcount != 1:
        raise errors.LeaseLost("Another worker holds this training, or it was cancelled.")


# --- draws -------------------------------------------------------------------------------------------------------


def recall(
    connection: sa.Connection, training: str, first: int, asked: Sequence[events.Event]
) -> list[IntArray] | None:
    """What an earlier run was told, None if it never asked; an interrupted draw ends the training."""
    numbers = list(range(first, first + len(asked)))
    wanted = (draws.c.training == training) & draws.c.number.in_(numbers)
    found = connection.execute(draws.select().where(wanted).order_by(draws.c.number)).all()
    if not found:
        return None
    same = [row.number for row in found] == numbers and [row.event for row in found] == [_described(e) for e in asked]
    if not same or not all(row.recorded for row in found):
        raise errors.DrawInterrupted("A draw was interrupted; it is not repeated.")
    return [_values(connection, training, number) for number in numbers]


def _values(connection: sa.Connection, training: str, number: int) -> IntArray:
    """All of what was recorded, or nothing: each piece is copied to its place before the next is fetched, for the array
    may be most of the memory."""
    head = io.BytesIO(_piece(connection, training, number, 0))
    values = _empty(head)
    rest, content = values.reshape(-1).view(np.uint8).data, head.read()
    for following in itertools.count(1):
        if len(content) > len(rest):
            raise _damaged()
        rest[: len(content)] = content
        rest, content = rest[len(content) :], b""  # which goes before the next one comes
        content = _piece(connection, training, number, following)
        if not content:
            break
    if len(rest):
        raise _damaged()
    return values


def _piece(connection: sa.Connection, training: str, number: int, piece: int) -> bytes:
    """One, or nothing after the last. Asked for all of them, a driver fetches all before it hands out the first."""
    here = (drawn.c.training == training) & (drawn.c.number == number) & (drawn.c.piece == piece)
    return connection.execute(sa.select(drawn.c.content).where(here)).scalar_one_or_none() or b""


def _empty(head: io.BytesIO) -> IntArray:
    """Room for what `numpy.save` wrote such a head for."""
    try:
        np.lib.format.read_magic(head)
        shape, by_columns, kind = np.lib.format.read_array_header_1_0(head)
    except ValueError:
        raise _damaged() from None
    if by_columns or kind.kind != "i":
        raise _damaged()
    return np.empty(shape, kind)


def _damaged() -> errors.DrawInterrupted:
    return errors.DrawInterrupted("What was drawn is not stored as it was recorded; it is not drawn again.")


def intend(connection: sa.Connection, held: Claim, first: int, asked: Sequence[events.Event]) -> None:
    """To be committed before the draw. The primary key lets a number be intended once, ever."""
    _write(connection, held, fence=held.fence)
    rows = [
        {"training": held.training, "number": first + index, "event": _described(event), "recorded": False}
        for index, event in enumerate(asked)
    ]
    connection.execute(draws.insert(), rows)


def record(connection: sa.Connection, held: Claim, first: int, values: Sequence[IntArray]) -> None:
    """To be committed right after the draw, before anything is made of it."""
    _write(connection, held, fence=held.fence)
    for index, noised in enumerate(values):
        here = {"training": held.training, "number": first + index}
        intended = (draws.c.training == held.training) & (draws.c.number == first + index) & ~draws.c.recorded
        if connection.execute(draws.update().where(intended).values(recorded=True)).rowcount != 1:
            raise errors.DrawInterrupted("A draw was recorded twice, or never intended.")
        for piece, part in enumerate(_pieces(noised)):
            connection.execute(drawn.insert().values(**here, piece=piece, content=part))


def _pieces(noised: IntArray) -> Iterator[bytes]:
    """What `numpy.save` would write, without a copy of what may be most of the memory."""
    head, body = io.BytesIO(), np.ascontiguousarray(noised)
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(body))
    yield head.getvalue()
    content = body.reshape(-1).view(np.uint8).data
    yield from (bytes(content[start : start + _PIECE]) for start in range(0, len(content), _PIECE))


def _described(event: events.Event) -> str:
    exact = [str(amount) for amount in (event.sensitivity, event.scale, event.resolution)]
    return rfc8785.dumps([event.mechanism, event.statistic, list(event.shape), event.part, *exact]).decode()


# --- the end -----------------------------------------------------------------------------------------------------


def work(connection: sa.Connection, held: Claim) -> tuple[Dataset, requests.Asked, ledger.Row]:
    """What a claim stands for: the data, the request, and the row that paid."""
    dataset = catalogue.stored(connection, held.dataset)
    # If the dataset was retired since, this training was cancelled with it, which its worker finds out by its lease.
    asked = requests.asked(dataset, json.loads(held.request), ready=False)
    return dataset, asked, ledger.paid(connection, held.training)


def release(connection: sa.Connection, held: Claim, made: Policy | Report, certificate: str, *, at: datetime) -> None:
    """The last write of a run that went well: what it made, its certificate and the state together."""
    stages = sa.select(trainings.c.stages).where(trainings.c.id == held.training).scalar_subquery()
    _write(connection, held, state=RELEASED, done=stages)
    actor = connection.execute(sa.select(trainings.c.actor).where(trainings.c.id == held.training)).scalar_one()
    store(connection, made, certificate, held.training, held.dataset, actor, derived=False, at=at)


def fail(connection: sa.Connection, held: Claim) -> None:
    """The last write of any other run, with the one public code."""
    _write(connection, held, state=FAILED, code=FAILURE)


def fail_undrawn(connection: sa.Connection) -> int:
    """How many runs were not through with their draws, and have failed now.

    For a database that comes out of a backup: whoever ran it after that may have drawn the rest and released it, and
    the same charge must not pay for other noise. What has drawn everything only computes, and may go on.
    """
    recorded = (
        sa.select(sa.func.count())
        .where(draws.c.training == trainings.c.id, draws.c.recorded)
        .correlate(trainings)
        .scalar_subquery()
    )
    undrawn = (trainings.c.state == RUNNING) & (recorded < trainings.c.stages - 1)
    return connection.execute(trainings.update().where(undrawn).values(state=FAILED, code=FAILURE)).rowcount


def store(
    connection: sa.Connection,
    made: Policy | Report,
    certificate: str,
    training: str,
    dataset: str,
    actor: str,
    *,
    derived: bool,
    at: datetime,
) -> None:
    connection.execute(
        releases.insert().values(
            id=made.id,
            training=training,
            dataset=dataset,
            actor=actor,
            algorithm=made.algorithm,
            derived=derived,
            document=made.canonical().decode(),
            certificate=certificate,
            created_at=database.stamp(at),
        )
    )
