"""Metrics for Prometheus. Each says why no patient's row can move it; what could not say so is not here.

Not here, and why: how long uploads and trainings take, and how many uploads are under way, which tells the same to
whoever asks often enough (both depend on how many rows there are); how an upload ended (for its custodian alone); the
time of anything but a GET (a retirement takes as long as there are files).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

import discretion
from discretion import database, tables
from discretion.api.service import BOUNDS, Service

_TRAININGS: Final = tables.trainings


def written(service: Service) -> str:
    lines = [*_build(), *_responses(service), *_seconds(service), *_uploads(service), *_ready(service)]
    try:
        with service.reading() as connection:
            lines += [*_states(connection), *_leases(connection), *_backup(connection)]
    except sa.exc.SQLAlchemyError:  # the lines above say so
        pass
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, meaning: str, found: Iterable[tuple[str, Any]]) -> Iterator[str]:
    yield f"# HELP discretion_{name} {meaning}"
    yield f"# TYPE discretion_{name} {kind}"
    for labels, value in found:
        yield f"discretion_{name}{labels} {value}"


def _build() -> Iterator[str]:
    """Of the program alone."""
    version = f'{{version="{discretion.__version__}"}}'
    yield from _family("build_info", "gauge", "Always 1; which version this is.", [(version, 1)])


def _responses(service: Service) -> Iterator[str]:
    """Requests are their senders'; an upload's status, which its rows decide, is not told apart."""
    counted = sorted(service.measured.responses.items())
    found = [(f'{{route="{route}",status="{status}"}}', count) for (route, status), count in counted]
    yield from _family("responses_total", "counter", "Answers of this process, by route.", found)


def _seconds(service: Service) -> Iterator[str]:
    """Only answers to GET: they read the database's public rows and what was released, and no file of a dataset."""
    found: list[tuple[str, Any]] = []
    for route, counts in sorted(service.measured.seconds.items()):
        bounds = [*map(str, BOUNDS), "+Inf"]
        named = zip(bounds, counts, strict=True)
        found += [(f'_bucket{{route="{route}",le="{bound}"}}', count) for bound, count in named]
        found.append((f'_sum{{route="{route}"}}', service.measured.sums[route] / 1e6))
        found.append((f'_count{{route="{route}"}}', counts[-1]))
    yield from _family("response_seconds", "histogram", "Until the answer to a GET began.", found)


def _uploads(service: Service) -> Iterator[str]:
    """That one began is its sender's doing; when it ends is not told."""
    begun = [("", service.measured.uploads)]
    yield from _family("uploads_begun_total", "counter", "Uploads that this process began to take.", begun)


def _ready(service: Service) -> Iterator[str]:
    """Of the machines, and of ledgers, whose rows hold requests and times."""
    found = service.readiness()
    yield from _family("database_reachable", "gauge", "1 if it answers.", [("", int(found["database"]))])
    yield from _family("store_writable", "gauge", "1 if the store takes a file.", [("", int(found["store"]))])
    yield from _family("ledger_intact", "gauge", "1 if every ledger adds up.", [("", int(found["ledger"]))])


def _states(connection: sa.Connection) -> Iterator[str]:
    """States change by requests, and at times of the public schedule."""
    for table in (_TRAININGS, tables.datasets):
        counted = sa.select(table.c.state, sa.func.count()).group_by(table.c.state).order_by(table.c.state)
        found = [(f'{{state="{row[0]}"}}', row[1]) for row in connection.execute(counted)]
        yield from _family(table.name, "gauge", f"How many {table.name} there are; queued ones wait.", found)


def _leases(connection: sa.Connection) -> Iterator[str]:
    """A lease is held until the schedule's time, however long the data took; one is taken over when a worker dies. What
    broke off and lasts has one that nobody holds, for a pause of public length."""
    now = database.stamp(database.clock(connection))
    running = _TRAININGS.c.state == "running"
    held = sa.select(sa.func.count()).where(running, _TRAININGS.c.lease_until >= now)
    left = sa.select(sa.func.count()).where(running, _TRAININGS.c.lease_until < now)
    found = [('{state="held"}', held), ('{state="abandoned"}', left)]
    counted = [(labels, connection.execute(question).scalar_one()) for labels, question in found]
    yield from _family("leases", "gauge", "Trainings that a worker has or that pause, and that wait for one.", counted)
    again = sa.select(sa.func.coalesce(sa.func.sum(_TRAININGS.c.attempts - 1), 0)).where(_TRAININGS.c.attempts > 1)
    taken = [("", int(connection.execute(again).scalar_one()))]
    yield from _family("takeovers", "gauge", "Trainings begun anew after their worker was lost.", taken)


def _backup(connection: sa.Connection) -> Iterator[str]:
    """An operator's act."""
    last = sa.select(sa.func.max(tables.audit.c.at)).where(tables.audit.c.action == "service.backup")
    at = connection.execute(last).scalar()
    found = [] if at is None else [("", datetime.fromisoformat(at).timestamp())]
    yield from _family("last_backup_timestamp_seconds", "gauge", "When a backup was last made.", found)
