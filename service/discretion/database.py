"""Connections, transactions and the schema's version, for SQLite and PostgreSQL alike.

A transaction begins and ends at the edge (`api`, `worker`, `cli`) through `transaction`; nobody else commits. SQLite
begins every transaction with `BEGIN IMMEDIATE`, so that a writer waits at the start instead of failing half-way, and
makes each commit durable (`synchronous=FULL`): a charge that was answered must survive a power cut. What only reads
goes through `snapshot`, which waits for nobody.
"""

import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

import discretion
from discretion import errors

# Alembic is imported by who migrates; every worker and command looks at the revision, and would start later for it.
if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

_HEAD: Final = "0004"  # the newest of migrations/
_BUSY_MILLISECONDS: Final = 30_000
_CONNECT_SECONDS: Final = 10
# As many as there may be are kept: connections beyond a pool's size are opened and closed at each request of a crowd.
_POOL: Final[dict[str, Any]] = {"pool_size": 15, "max_overflow": 0}
# How soon a server notices that a client's host is gone: after half a minute, and not after the two hours of its own
# default, for which what that client had locked would be nobody's. Seconds; the last in milliseconds.
_NOTICE: Final = {
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_READING: Final = "discretion_reading"
_GLANCING: Final = "discretion_glancing"
_STARTING: Final = 3141592653  # any number that nobody else locks
_HELD: Final = 271828182  # and one for names
# Of what libpq says where it is told no or an address cannot be meant; it gives no code. Everything else may pass: a
# server that starts, no route, a certificate that has ended.
_REFUSED: Final = re.compile(
    r"authentication failed|does not exist|no pg_hba\.conf entry|no password supplied|server does not support SSL"
    r"|invalid [\w\" ]*(value|number)|could not parse|definition of service"
    r"|could not (read|load) [\w ]*(certificate|key) file"
)


def engine(url: str) -> sa.Engine:
    """An engine for `sqlite:///path` or `postgresql://…`; any other database is refused."""
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        made = sa.create_engine(parsed, **_POOL)
        sa.event.listen(made, "connect", _prepare_sqlite)
        sa.event.listen(made, "begin", _begin_immediate)
        return made
    # A server that swallows everything must not hold a request for minutes.
    patience = {} if "connect_timeout" in parsed.query else {"connect_timeout": _CONNECT_SECONDS}
    made = sa.create_engine(parsed, pool_pre_ping=True, connect_args=patience, **_POOL)
    sa.event.listen(made, "connect", _prepare_postgresql)
    return made


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # the latter of a port that is no number
        raise errors.InvalidSetting(
            "DISCRETION_DATABASE_URL cannot be read; use sqlite:///PATH or postgresql://…"
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed.set(drivername="sqlite")
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise errors.InvalidSetting(
        "DISCRETION_DATABASE_URL must name a SQLite file (sqlite:///PATH) or PostgreSQL (postgresql://…)."
    )


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver's own transactions begin too late to take the lock
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={_BUSY_MILLISECONDS}", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgresql(connection: Any, _: object) -> None:
    """Asked of the session, because the options of a connection are refused by poolers. A local socket needs none."""
    connection.autocommit = True
    connection.execute(
        "SELECT " + ", ".join(f"set_config('{name}', '{most}', false)" for name, most in _NOTICE.items())
    )
    connection.autocommit = False


def _begin_immediate(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if options.get(_GLANCING, False):
        return
    reading = options.get(_READING, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


@contextmanager
def transaction(made: sa.Engine) -> Iterator[sa.Connection]:
    """All of it, or nothing."""
    with made.begin() as connection:
        yield connection


@contextmanager
def snapshot(made: sa.Engine) -> Iterator[sa.Connection]:
    """For reading only: one moment's state, taken without a lock."""
    options: dict[str, Any] = {_READING: True}
    if made.dialect.name == "postgresql":
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with made.connect() as connection:
        connection.execution_options(**options)
        with connection.begin():
            yield connection


@contextmanager
def glance(made: sa.Engine) -> Iterator[sa.Connection]:
    """For one question, which is a snapshot by itself: no transaction is begun or ended around it."""
    options: dict[str, Any] = {_GLANCING: True}
    if made.dialect.name == "postgresql":
        options |= {"isolation_level": "AUTOCOMMIT"}
    with made.connect() as connection:
        yield connection.execution_options(**options)


def page(
    connection: sa.Connection,
    table: sa.Table,
    visible: Any,
    *,
    after: str | None,
    limit: int,
    leaving_out: Collection[str] = (),
) -> tuple[list[Any], str | None]:
    """Rows in the order of their making, from the one after `after`, and where the next page begins.

    `leaving_out` names columns that are too large to read for a list.
    """
    order = [table.c.created_at, table.c.id]
    columns = [column for column in table.c if column.name not in leaving_out]
    wanted = sa.select(*columns).where(visible).order_by(*order).limit(limit + 1)
    if after is not None:
        last = connection.execute(sa.select(*order).where(visible, table.c.id == after)).one_or_none()
        if last is None:
            raise errors.InvalidPage("There is no such page; begin again without `after`.")
        wanted = wanted.where(sa.tuple_(*order) > sa.tuple_(*(sa.literal(value) for value in last)))
    rows = list(connection.execute(wanted))
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def stamp(at: datetime) -> str:
    """A time as it is stored: UTC, of fixed width, so that texts compare as times do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def clock(connection: sa.Connection) -> datetime:
    """The time by which workers of several hosts agree whose lease has run out: the database's own."""
    if connection.dialect.name == "postgresql":
        return connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one().astimezone(UTC)
    return datetime.now(UTC)  # an embedded database's host is this one


def _scripts(connection: sa.Connection | None = None) -> "Config":
    from alembic.config import Config

    packaged = Path(discretion.__file__).parent / "migrations"
    folder = packaged if packaged.exists() else Path(discretion.__file__).parents[2] / "migrations"
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.attributes["connection"] = connection
    return config


@dataclass(frozen=True)
class Step:
    """A migration, and what it says that it does."""

    revision: str
    purpose: str


def revision(connection: sa.Connection) -> str | None:
    """Of the schema; None where there is none yet."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def upgrade(connection: sa.Connection, target: str = "head") -> list[Step]:
    """Up to a revision that this program knows, in the caller's transaction: all of it or nothing."""
    from alembic import command

    directory = _directory()
    current = revision(connection)
    if current is not None and current not in _known(directory):
        raise _newer()
    if target != "head" and target not in _known(directory):
        raise errors.UnknownDatabase(f"There is no revision {target} here; it is of a newer version of this program.")
    steps = [Step(script.revision, script.doc) for script in directory.iterate_revisions(target, current or "base")]
    command.upgrade(_scripts(connection), target)
    return steps[::-1]


def _directory() -> "ScriptDirectory":
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_scripts())


def _known(directory: "ScriptDirectory") -> set[str]:
    return {script.revision for script in directory.walk_revisions()}


def _newer() -> errors.UnknownDatabase:
    return errors.UnknownDatabase("The database was written by a newer version; upgrade this program.")


def migrate(
    made: sa.Engine, note: Callable[[sa.Connection, str], None] = lambda connection, version: None
) -> list[Step]:
    """Bring the schema up to the version this program knows; a newer one is refused.

    `note` is told, in the same transaction, to which version an older database has come.
    """
    _reach(made)
    with made.begin() as connection:
        one_at_a_time(connection)
        before = revision(connection)
        if before == _HEAD:
            return []
        steps = upgrade(connection)
        if before is not None:
            note(connection, steps[-1].revision)
        return steps


def _reach(made: sa.Engine) -> None:
    """A server that is away may come back; one that does not let us in must be set up otherwise."""
    try:
        made.connect().close()
    except sa.exc.DatabaseError as failure:
        raise unreachable(failure) from None


def unreachable(failure: sa.exc.DatabaseError) -> errors.Refusal:
    if isinstance(failure.orig, sqlite3.Error) and "locked" not in str(failure.orig):
        return errors.InvalidSetting(f"The file of DISCRETION_DATABASE_URL cannot be used: {failure.orig}.")
    if not isinstance(failure, sa.exc.OperationalError) or _REFUSED.search(str(failure.orig)):
        return errors.InvalidSetting(
            "DISCRETION_DATABASE_URL cannot be meant, or the database does not let this program in by it."
        )
    return errors.DatabaseUnreachable("The database does not answer; check DISCRETION_DATABASE_URL.")


def one_at_a_time(connection: sa.Connection) -> None:
    """Of several processes that start at once, one prepares the database and the others wait."""
    if connection.dialect.name == "postgresql":  # SQLite's transactions take turns anyway
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_STARTING)))


def hold(connection: sa.Connection, name: str) -> bool:
    """Whether this transaction has a name to itself until it ends; nobody waits for one that another has."""
    if connection.dialect.name != "postgresql":  # SQLite's transactions take turns anyway
        return True
    held = sa.func.pg_try_advisory_xact_lock(_HELD, sa.func.hashtext(name))
    return bool(connection.execute(sa.select(held)).scalar_one())


def check(made: sa.Engine) -> None:
    """Refuse to work on a schema other than the one this program knows."""
    if made.dialect.name == "sqlite" and not Path(str(made.url.database)).exists():  # connecting would make one
        raise errors.NotMigrated(
            "There is no database here: go to the service's folder, name it (DISCRETION_DATA, DISCRETION_DATABASE_URL) "
            "or make a new one with `discretion migrate`."
        )
    try:
        with snapshot(made) as connection:
            current = revision(connection)
    except sa.exc.DatabaseError as failure:
        raise unreachable(failure) from None
    if current is not None and current != _HEAD and current not in _known(_directory()):
        raise _newer()
    if current != _HEAD:
        raise errors.NotMigrated("The database has another version than this program; run `discretion migrate`.")
