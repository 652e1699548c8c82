"""One command that runs everything: the API in this process, workers beside it, and their end together.

The first start prints an administrator's token, once, before the service answers. SIGTERM ends everything: the API
stops listening and lets its requests finish, the workers let a draw finish, and after a few seconds nobody is asked.
"""

import contextlib
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from discretion import audit, database, errors, keys, logs, premises, settings
from discretion.settings import Settings

if TYPE_CHECKING:
    import uvicorn

# The API and its server are imported where they are started: a worker, or a command that makes a key, has neither, and
# they would take a quarter of its start.

_log = logging.getLogger(__name__)

_GRACE: Final = 3  # seconds that requests have to finish
_PATIENCE: Final = 8.5  # seconds until a worker that was told to stop is killed
_DEADLINE: Final = 8.7  # seconds after which nobody is waited for; workers end with this process
_AGAIN: Final = 1.0  # seconds before a worker that died is started again


def harden() -> None:
    """No core dumps, which would hold patients' rows; as many connections as the machine allows."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(0o077)


@contextmanager
def privately() -> Iterator[None]:
    """What a command makes meanwhile is for its owner only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def prepare(found: Settings, announce: Callable[[str], None]) -> None:
    """The schema and, if nobody can come in yet, an administrator's key."""
    engine = database.engine(found.database_url)
    if found.migrates:
        for step in database.migrate(engine, audit.migrated):
            _log.info("The database is at revision %s now: %s", step.revision, step.purpose)
    else:
        database.check(engine)
    with database.transaction(engine) as connection:
        database.one_at_a_time(connection)
        if not keys.exist(connection):
            now = datetime.now(UTC)
            made, token = keys.create(connection, "first administrator", "admin", at=now)
            audit.record(connection, made.id, "key.create", made.id, at=now)
            _log.info("The line that follows on standard output is the first administrator's token, shown this once.")
            announce(token)
    engine.dispose()


def opened(found: Settings, announce: Callable[[str], None]) -> tuple[Any, socket.socket]:
    """The application and where it listens, once the database is there; who asks before that is told so."""
    from discretion.api import app as api

    premises.check(found, "serve")
    listening = None
    while True:
        try:
            prepare(found, announce)
            return api.create(found), listening or _listen(found)
        except (errors.DatabaseUnreachable, errors.NotMigrated) as away:
            _log.warning("%s", away)
            listening = listening or _listen(found)
            _wait(found, listening)


def _wait(found: Settings, listening: socket.socket) -> None:
    """Answer 503 until the database is worth another look."""
    from discretion.api import waiting

    server = _server(waiting.create())
    threading.Thread(target=_look, args=(found, server), daemon=True).start()
    server.run(sockets=[listening.dup()])  # uvicorn closes what it was given; who comes meanwhile waits in the queue


def _look(found: Settings, server: "uvicorn.Server") -> None:
    engine = database.engine(found.database_url)
    while not server.should_exit:
        time.sleep(_AGAIN)
        try:
            database.check(engine)
        except errors.DatabaseUnreachable:
            continue
        except errors.NotMigrated:
            if not found.migrates:
                continue
        except errors.Refusal:  # it is another reason now, and that one ends the start
            pass
        server.should_exit = True
    engine.dispose()


def _server(app: Any) -> "uvicorn.Server":
    import uvicorn

    from discretion.api import connections

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=connections.Connection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
            timeout_keep_alive=30,
        )
    )


def serve(found: Settings, app: Any, listening: socket.socket) -> None:
    """Until SIGTERM or SIGINT."""
    server = _server(app)

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn raises a signal again once it has stopped. By default that would end this process before its workers have
    # let go of their trainings, and take them along.
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, stop)
    refused = threading.Event()
    threading.Thread(target=_insist, args=(server, refused), daemon=True).start()
    with _workers(found, server, refused):
        server.run(sockets=[listening])
        _let_uploads_clean_up()
    if refused.is_set():
        sys.exit(1)


def _let_uploads_clean_up() -> None:
    """Those that the end has broken off remove what they had stored."""
    from discretion.api import uploads

    for thread in threading.enumerate():
        if thread.name == uploads.THREAD:
            thread.join(2)


def _insist(server: "uvicorn.Server", refused: threading.Event) -> None:
    """Leave in time whoever is still busy: a request that waits for the database would hold everything up."""
    while not server.should_exit:
        time.sleep(0.1)
    time.sleep(_DEADLINE)
    os._exit(int(refused.is_set()))


def _listen(found: Settings) -> socket.socket:
    try:
        listening = socket.create_server((found.host, found.port), backlog=2048)
    except OSError as trouble:
        raise errors.InvalidSetting(
            f"Cannot listen on {found.host}:{found.port} (DISCRETION_HOST, DISCRETION_PORT): {trouble.strerror}."
        ) from None
    # Connections inherit it. asyncio sets it only on sockets that name their protocol, and create_server names none;
    # without it the second part of every answer waits 40 ms for the first to be acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _log.info("Listening on http://%s:%d", found.host, listening.getsockname()[1])
    return listening


class _Ending(Protocol):
    """Who says that the end has come: the API's server, or nobody but a signal."""

    should_exit: bool


@dataclass
class _Told:
    should_exit: bool = False


def crew(found: Settings) -> None:
    """Several workers and no API, until SIGTERM or SIGINT."""
    told, refused = _Told(), threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        told.should_exit = True

    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, stop)
    with _workers(found, told, refused):
        while not told.should_exit:
            time.sleep(0.1)
    if refused.is_set():
        sys.exit(1)


@contextmanager
def _workers(found: Settings, server: _Ending, refused: threading.Event) -> Iterator[None]:
    """Worker processes, each started again if it dies; one that leaves on purpose takes the service with it."""
    leaving = threading.Event()
    keepers = [threading.Thread(target=_keep, args=(leaving, server, refused)) for _ in range(found.workers)]
    for keeper in keepers:
        keeper.start()
    try:
        yield
    finally:
        leaving.set()
        for keeper in keepers:
            keeper.join()


def _keep(leaving: threading.Event, server: _Ending, refused: threading.Event) -> None:
    while not leaving.is_set():
        # By its number: a worker that starts after this process has ended could not tell whose child it was.
        worker = subprocess.Popen([sys.executable, "-m", "discretion", "work", "--with-parent", str(os.getpid())])
        while worker.poll() is None and not (leaving.wait(0.2) or server.should_exit):
            pass
        if worker.returncode is not None and worker.returncode > 0 and not leaving.is_set():
            _log.error("A worker refused to go on, and so does the service.")
            refused.set()
            server.should_exit = True
            return
        _stop(worker)
        if leaving.is_set() or server.should_exit:
            return
        time.sleep(_AGAIN)


def _stop(worker: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def main(announce: Callable[[str], None]) -> None:
    # From the first moment: the kernel ignores what the first process of a container does not handle.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    harden()
    found = settings.read()
    logs.configure(found.log_format)
    serve(found, *opened(found, announce))
