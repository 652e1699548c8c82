"""The queue of trainings, which is their table: submit, claim, keep, draw, finish, cancel.

A training row *is* the job. Claiming it, charging for it and fencing it are one transaction with the ledger, so there
is no second copy of the state that could disagree. Callers hold the transaction.

* Submitting reserves; the row and the reservation appear together.
* The first claim charges, in the transaction that takes the row: from then on nothing comes back.
* A claim is a lease with a fencing number. A worker that lost its lease finds every further write refused, however
  late it wakes up. A training whose lease ran out is claimed again and goes on from what was drawn.
* An intent is written before each draw and the values right after it. An intent without values was interrupted: that
  training has failed, and nothing is drawn for it again.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import rfc8785
import sqlalchemy as sa

from discretion import errors, ledger
from discretion.learning.trajectories import IntArray
from discretion.privacy import events
from discretion.privacy.rho import Rho
from discretion.tables import datasets, draws, trainings

QUEUED: Final = "queued"
RUNNING: Final = "running"
RELEASED: Final = "released"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

FAILURE: Final = "training_failed"  # one code for everything after the charge


@dataclass(frozen=True)
class Claim:
    """A training that one worker holds for a while."""

    training: str
    dataset: str
    request: str
    fence: int


def submit(
    connection: sa.Connection,
    training: str,
    *,
    dataset: str,
    request: dict[str, Any],
    rho: Rho,
    actor: str,
    idempotency_key: str,
    at: datetime,
    grant: str | None = None,
) -> str:
    """Reserve and queue, or find the training that the same key and request made before."""
    body = rfc8785.dumps(request).decode()
    mine = (trainings.c.actor == actor) & (trainings.c.idempotency_key == idempotency_key)
    before = connection.execute(trainings.select().where(mine)).one_or_none()
    if before is not None:
        if (before.dataset, before.request) != (dataset, body):
            raise errors.IdempotencyConflict("This Idempotency-Key was used for another request; choose a new one.")
        return str(before.id)
    found = connection.execute(datasets.select().where(datasets.c.id == dataset)).one_or_none()
    if found is None or found.state != "ready":
        raise errors.DatasetNotReady("This dataset holds no data to train on.")
    ledger.reserve(connection, found.population, training, rho, actor=actor, at=at, grant=grant)
    connection.execute(
        trainings.insert().values(
            id=training,
            dataset=dataset,
            actor=actor,
            idempotency_key=idempotency_key,
            request=body,
            state=QUEUED,
            fence=0,
            created_at=_text(at),
        )
    )
    return training


def _text(at: datetime) -> str:
    """Fixed width, so that texts compare as times do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def claim(connection: sa.Connection, *, actor: str, at: datetime, lease: timedelta) -> Claim | None:
    """The oldest training that waits, or whose worker is gone; charged if it was never charged."""
    waiting = trainings.c.state == QUEUED
    abandoned = (trainings.c.state == RUNNING) & (trainings.c.lease_until < _text(at))
    oldest = trainings.select().where(waiting | abandoned).order_by(trainings.c.created_at, trainings.c.id).limit(1)
    found = connection.execute(oldest.with_for_update(skip_locked=True)).one_or_none()
    if found is None:
        return None
    if found.state == QUEUED:
        ledger.charge(connection, found.id, actor=actor, at=at)
    taken = {"state": RUNNING, "fence": found.fence + 1, "lease_until": _text(at + lease)}
    connection.execute(trainings.update().where(trainings.c.id == found.id).values(**taken))
    return Claim(found.id, found.dataset, found.request, found.fence + 1)


def keep(connection: sa.Connection, held: Claim, *, at: datetime, lease: timedelta) -> None:
    """Hold on to a training for another while."""
    _write(connection, held, lease_until=_text(at + lease))


def _write(connection: sa.Connection, held: Claim, **values: Any) -> None:
    """Change a training only while it is ours; the row stays locked until the transaction ends."""
    ours = (trainings.c.id == held.training) & (trainings.c.fence == held.fence) & (trainings.c.state == RUNNING)
    if connection.execute(trainings.update().where(ours).values(**values)).rowcount != 1:
        raise errors.LeaseLost("Another worker holds this training, or it was cancelled.")


def recall(connection: sa.Connection, held: Claim, first: int, asked: Sequence[events.Event]) -> list[IntArray] | None:
    """What an earlier run was told, None if it never asked; an interrupted draw ends the training."""
    numbers = list(range(first, first + len(asked)))
    wanted = (draws.c.training == held.training) & draws.c.number.in_(numbers)
    found = connection.execute(draws.select().where(wanted).order_by(draws.c.number)).all()
    if not found:
        return None
    same = [row.number for row in found] == numbers and [row.event for row in found] == [_described(e) for e in asked]
    if not same or any(row.noised is None for row in found):
        raise errors.DrawInterrupted("A draw was interrupted; it is not repeated.")
    return [np.load(io.BytesIO(row.noised), allow_pickle=False) for row in found]


def intend(connection: sa.Connection, held: Claim, first: int, asked: Sequence[events.Event]) -> None:
    """To be committed before the draw. The primary key lets a number be intended once, ever."""
    _write(connection, held, fence=held.fence)
    rows = [
        {"training": held.training, "number": first + index, "event": _described(event)}
        for index, event in enumerate(asked)
    ]
    connection.execute(draws.insert(), rows)


def record(connection: sa.Connection, held: Claim, first: int, values: Sequence[IntArray]) -> None:
    """To be committed right after the draw, before anything is made of it."""
    _write(connection, held, fence=held.fence)
    for index, noised in enumerate(values):
        content = io.BytesIO()
        np.save(content, noised, allow_pickle=False)
        drawn = (draws.c.training == held.training) & (draws.c.number == first + index) & draws.c.noised.is_(None)
        if connection.execute(draws.update().where(drawn).values(noised=content.getvalue())).rowcount != 1:
            raise errors.DrawInterrupted("A draw was recorded twice, or never intended.")


def _described(event: events.Event) -> str:
    exact = [str(amount) for amount in (event.sensitivity, event.scale, event.resolution)]
    return rfc8785.dumps([event.mechanism, event.statistic, list(event.shape), event.part, *exact]).decode()


def finish(connection: sa.Connection, held: Claim, *, released: bool) -> None:
    """The last write of a run: released together with its policy, or failed with the one public code."""
    _write(connection, held, state=RELEASED if released else FAILED, code=None if released else FAILURE)


def cancel(connection: sa.Connection, training: str, *, actor: str, at: datetime) -> None:
    """Before it started the reservation comes back; after that nothing does, and the worker's writes are refused."""
    here = trainings.c.id == training
    found = connection.execute(trainings.select().where(here).with_for_update()).one_or_none()
    if found is None or found.state not in (QUEUED, RUNNING):
        raise errors.TrainingEnded("This training has ended already.")
    if found.state == QUEUED:
        ledger.give_back(connection, training, actor=actor, at=at)
    connection.execute(trainings.update().where(here).values(state=CANCELLED, fence=found.fence + 1))
