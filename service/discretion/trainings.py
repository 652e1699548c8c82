"""Trainings from the question to the policy: submit, certify, derive, cancel, and who may see them.

A training row *is* the job (`runs`), so there is no second copy of its state that could disagree. Callers hold the
transaction. Submitting reserves: the row and the reservation appear together. What a training drew stays, so that
further policies are computed from it for nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final

import rfc8785
import sqlalchemy as sa

from discretion import catalogue, certificates, database, errors, ledger, requests, runs
from discretion.keys import Key
from discretion.learning import apvi, forms, learners, report
from discretion.learning.curator import Curator
from discretion.learning.policy import Policy
from discretion.learning.schemas import IntArray
from discretion.learning.trajectories import Trajectories
from discretion.privacy import events, tokens
from discretion.privacy.rho import Rho
from discretion.requests import Asked
from discretion.tables import datasets, releases, trainings

_NEW: Final = {"state": runs.QUEUED, "attempts": 0, "done": 0, "fence": 0}


def submitted(connection: sa.Connection, actor: str, idempotency_key: str) -> Any:
    """The row that a key made before, or None."""
    mine = (trainings.c.actor == actor) & (trainings.c.idempotency_key == idempotency_key)
    return connection.execute(trainings.select().where(mine)).one_or_none()


def submit(
    connection: sa.Connection,
    training: str,
    *,
    dataset: str,
    request: dict[str, Any],
    rho: Rho,
    stages: int,
    actor: str,
    idempotency_key: str,
    at: datetime,
    grant: str | None = None,
) -> str:
    """Reserve and queue, or find the training that the same key and request made before."""
    body = rfc8785.dumps(request).decode()
    # Locked, so that a dataset is not retired between this look and the commit, and before the next look, so that of
    # two requests with one key the second finds what the first has made, and not that the budget is gone.
    locked = datasets.select().where(datasets.c.id == dataset).with_for_update(key_share=True)
    found = connection.execute(locked).one_or_none()
    before = submitted(connection, actor, idempotency_key)
    if before is not None:
        if (before.dataset, before.request) != (dataset, body):
            raise errors.IdempotencyConflict("This Idempotency-Key was used for another request; choose a new one.")
        return str(before.id)
    if found is None or found.state != catalogue.READY:
        raise errors.DatasetNotReady
    ledger.reserve(connection, found.population, training, rho, actor=actor, at=at, grant=grant)
    said = {"id": training, "dataset": dataset, "algorithm": request["algorithm"], "request": body}
    asked_by = {"actor": actor, "idempotency_key": idempotency_key, "grant_id": grant}
    job = {"rho": rho.nano, "stages": stages, "created_at": database.stamp(at)}
    connection.execute(trainings.insert().values(said | asked_by | job | _NEW))
    return training


def cancel(connection: sa.Connection, training: str, *, actor: str, at: datetime) -> None:
    """Before it started the reservation comes back; after that nothing does, and the worker's writes are refused."""
    here = trainings.c.id == training
    found = connection.execute(trainings.select().where(here).with_for_update(key_share=True)).one_or_none()
    if found is None or found.state not in (runs.QUEUED, runs.RUNNING):
        raise errors.TrainingEnded("This training has ended already.")
    if found.state == runs.QUEUED:
        ledger.give_back(connection, training, actor=actor, at=at, grant=found.grant_id)
    connection.execute(trainings.update().where(here).values(state=runs.CANCELLED, fence=found.fence + 1))


def certify(
    policy: Policy,
    found: Asked,
    done: Sequence[events.Event],
    paid: ledger.Row,
    key: certificates.SigningKey,
    origin: certificates.Origin | None = None,
) -> tuple[Policy, str]:
    """The policy under an id of its own, and its certificate."""
    named = replace(policy, labels=found.labels, id=tokens.identifier("pol"))
    certificate = certificates.certify(named, requests.certified(found, origin), done, certified_row(paid), key)
    return named, json.dumps(certificate)


def certified_row(paid: ledger.Row) -> certificates.LedgerRow:
    return certificates.LedgerRow(paid.population, paid.sequence, paid.hash, Rho(paid.rho))


# --- further policies from what was drawn ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Replay:
    """A journal that only remembers: the learner asks as it did before and is told what it was told then."""

    connection: sa.Connection
    training: str

    def recall(self, first: int, asked: Sequence[events.Event]) -> list[IntArray]:
        found = runs.recall(self.connection, self.training, first, asked)
        if found is None:
            raise errors.NothingReleased("This training has released nothing to derive a policy from.")
        return found

    def intend(self, first: int, asked: Sequence[events.Event]) -> None:
        raise AssertionError("A derivation draws nothing.")

    def record(self, first: int, values: Sequence[IntArray]) -> None:
        raise AssertionError("A derivation draws nothing.")


@dataclass(frozen=True)
class Derivation:
    """A further policy as it was asked for; everything it will need follows from what is public."""

    before: Asked  # the training
    after: learners.Derivable  # other parameters of it

    @property
    def drawn(self) -> learners.Derivable:
        assert isinstance(self.before.parameters, learners.Derivable)
        return self.before.parameters


def derivation(connection: sa.Connection, training: str, parameters: dict[str, Any]) -> Derivation:
    """Whatever does not fit the training is refused here, before anything that it drew is read."""
    found = connection.execute(trainings.select().where(trainings.c.id == training)).one()
    if found.state != runs.RELEASED:
        raise errors.NothingReleased("Only a training that has released its policy can be derived from.")
    dataset = catalogue.stored(connection, found.dataset)
    before = requests.asked(dataset, json.loads(found.request), ready=False)
    drawn = before.parameters
    if not isinstance(drawn, learners.Derivable):
        raise errors.NotDerivable(f"Only {apvi.NAME} releases what further policies can be computed from.")
    dynamics = {"dynamics": learners.dynamics_of(drawn)}
    after = forms.read(before.algorithm, dynamics | parameters, before.schema)
    if not isinstance(after, type(drawn)):
        raise errors.NotDerivable("The release is one of other dynamics; a policy derived from it must have the same.")
    return Derivation(before, after)


def derive(
    connection: sa.Connection, training: str, wanted: Derivation, key: certificates.SigningKey
) -> tuple[Policy, str]:
    """A further policy from the same private release: no patient is read, and nothing is spent."""
    before, paid = wanted.before, ledger.paid(connection, training)
    nobody = Trajectories(before.schema, before.units, ())
    curator = Curator(nobody, Rho(paid.rho).exact, _Replay(connection, training))
    policy = learners.derive(curator, before.privacy, wanted.drawn, wanted.after)
    origin = certificates.Origin(training, wanted.drawn)
    return certify(policy, replace(before, parameters=wanted.after), curator.log, paid, key, origin)


def keep_derived(
    connection: sa.Connection, training: str, policy: Policy, certificate: str, *, actor: str, at: datetime
) -> None:
    dataset = connection.execute(sa.select(trainings.c.dataset).where(trainings.c.id == training)).scalar_one()
    runs.store(connection, policy, certificate, training, dataset, actor, derived=True, at=at)


# --- who may see them --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """What everybody may know who sees it; `request` is left out of lists, for it may hold a table of megabytes."""

    id: str
    dataset: str
    actor: str
    state: str
    progress: float
    policy: str | None
    code: str | None
    rho: Rho
    algorithm: str
    created_at: str
    charged: bool  # from its start on, and for good
    request: dict[str, Any] | None = None


_LARGE: Final = ("request",)
_LARGE_OF_RELEASES: Final = ("document", "certificate")


def _visible(reader: Key, table: sa.Table) -> sa.ColumnElement[bool]:
    return _visible_to(reader.role, sa.literal(reader.id), table)


def _visible_to(role: str, reader: sa.ColumnElement[str], table: sa.Table) -> sa.ColumnElement[bool]:
    """Analysts see their own, custodians what was made of their datasets, the others everything."""
    if role == catalogue.CUSTODIAN:
        return table.c.dataset.in_(sa.select(datasets.c.id).where(datasets.c.owner == reader))
    return table.c.actor == reader if role == catalogue.ANALYST else sa.true()


def ids_of(reader: Key) -> sa.Select[Any]:
    return sa.select(trainings.c.id).where(trainings.c.actor == reader.id)


# An evaluation is a job like a training, and its report is released like a policy; each has lists of its own.
_JUDGING: Final = trainings.c.algorithm == report.NAME
_JUDGED: Final = releases.c.algorithm == report.NAME


def get(
    connection: sa.Connection, reader: Key, training: str, *, whole: bool = True, evaluation: bool = False
) -> Training:
    here = (trainings.c.id == training) & _visible(reader, trainings) & (_JUDGING if evaluation else ~_JUDGING)
    columns = [column for column in trainings.c if whole or column.name not in _LARGE]
    found = connection.execute(sa.select(*columns).where(here)).one_or_none()
    if found is None:
        raise errors.NotFound
    return _training(connection, found)


def listed(
    connection: sa.Connection, reader: Key, *, after: str | None, limit: int, evaluations: bool = False
) -> tuple[list[Training], str | None]:
    visible = _visible(reader, trainings) & (_JUDGING if evaluations else ~_JUDGING)
    rows, following = database.page(connection, trainings, visible, after=after, limit=limit, leaving_out=_LARGE)
    return [_training(connection, row) for row in rows], following


def _training(connection: sa.Connection, row: Any) -> Training:
    first = (releases.c.training == row.id) & ~releases.c.derived
    made = connection.execute(sa.select(releases.c.id).where(first)).scalar_one_or_none()
    request = getattr(row, "request", None)
    return Training(
        id=row.id,
        dataset=row.dataset,
        actor=row.actor,
        state=row.state,
        progress=round(row.done / row.stages, 3),
        policy=made,
        code=row.code,
        rho=Rho(row.rho),
        algorithm=row.algorithm,
        created_at=row.created_at,
        charged=row.started_at is not None,
        request=None if request is None else json.loads(request),
    )


def policy(connection: sa.Connection, reader: Key, wanted: str, *columns: str) -> Any:
    """Some columns of a policy's row."""
    return _released(connection, reader, wanted, columns, judged=False)


def evaluation(connection: sa.Connection, reader: Key, wanted: str, *columns: str) -> Any:
    """Some columns of a report's row."""
    return _released(connection, reader, wanted, columns, judged=True)


@cache
def _one_release(role: str, columns: tuple[str, ...], judged: bool) -> sa.Select[Any]:
    """Written once for each role and use: to write it takes longer than to ask it."""
    visible = _visible_to(role, sa.bindparam("reader"), releases) & (_JUDGED if judged else ~_JUDGED)
    return sa.select(*(releases.c[name] for name in columns)).where(releases.c.id == sa.bindparam("wanted"), visible)


def _released(connection: sa.Connection, reader: Key, wanted: str, columns: tuple[str, ...], *, judged: bool) -> Any:
    asked = _one_release(reader.role, columns, judged)
    found = connection.execute(asked, {"wanted": wanted, "reader": reader.id}).one_or_none()
    if found is None:
        raise errors.NotFound
    return found


def document(connection: sa.Connection, policy: str) -> str:
    """The certified bytes, for the service's own work."""
    return str(connection.execute(sa.select(releases.c.document).where(releases.c.id == policy)).scalar_one())


def list_policies(
    connection: sa.Connection, reader: Key, *, after: str | None, limit: int
) -> tuple[list[Any], str | None]:
    visible = _visible(reader, releases) & ~_JUDGED
    return database.page(connection, releases, visible, after=after, limit=limit, leaving_out=_LARGE_OF_RELEASES)
