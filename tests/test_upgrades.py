"""Upgrades of databases that earlier versions wrote (`tests/upgrades`): no ρ is lost or counted twice."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from discretion import backups, certificates, database, dumps, errors, keys, ledger, restores, settings, signing, tables
from tests import services
from tests.test_backups import another
from tests.test_serving import run

DUMPS = Path(__file__).parent / "upgrades"
NAMES = sorted(path.name for path in DUMPS.iterdir() if (path / "database.sql").exists())
HEAD = ScriptDirectory.from_config(database._scripts()).get_current_head()


oldest = pytest.mark.parametrize("old", [name for name in NAMES if name.startswith("0001")], indirect=True)


class Old:
    """A hospital as an earlier version left it."""

    def __init__(self, name: str, folder: Path, url: str) -> None:
        self.folder, self.url, dump = folder, url, DUMPS / name
        self.facts: dict[str, Any] = json.loads((dump / "facts.json").read_text())
        script = (dump / "database.sql").read_text()
        if url.startswith("sqlite"):
            with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
                connection.executescript(script)
            connection.close()
        else:
            engine = database.engine(url)
            raw = engine.raw_connection()
            raw.cursor().execute(script)
            raw.commit()
            raw.close()
            engine.dispose()
        shutil.copytree(dump / "datasets", folder / "data" / "datasets")
        (folder / "data").chmod(0o700)

    def budgets(self) -> dict[str, dict[str, Any]]:
        """By dataset, as the old service said."""
        names = ("total", "charged", "reserved", "remaining")
        return {one: {name: said[name] for name in names} for one, said in self.facts["budgets"].items()}


@pytest.fixture(params=NAMES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    return Old(request.param, tmp_path, another(request, tmp_path, request.param.split("-")[1]))


@pytest.fixture
def engine(old: Old) -> Iterator[sa.Engine]:
    made = database.engine(old.url)
    yield made
    made.dispose()


def found(connection: sa.Connection) -> dict[str, dict[str, Any]]:
    rows = connection.execute(sa.select(tables.datasets.c.id, tables.datasets.c.population)).all()
    balances = {row.id: ledger.balance(connection, row.population) for row in rows}
    return {
        one: {name: str(getattr(b, name)) for name in ("total", "charged", "reserved", "remaining")}
        for one, b in balances.items()
    }


def revision(engine: sa.Engine) -> str | None:
    with database.snapshot(engine) as connection:
        return database.revision(connection)


class TestHead:
    def test_is_the_newest_that_there_is(self):
        assert database._HEAD == HEAD


class TestDumps:
    def test_there_is_one_of_every_earlier_schema_for_both_databases(self):
        known = [script.revision for script in ScriptDirectory.from_config(database._scripts()).walk_revisions()]
        dumped = {tuple(name.split("-")) for name in NAMES}
        earlier = {(one, kind) for one in known if one != HEAD for kind in ("sqlite", "postgresql")}
        assert earlier <= dumped


class TestUpgrade:
    def test_loses_and_doubles_nothing(self, old, engine):
        done = run(old.folder, "migrate", url=old.url)
        assert done.returncode == 0, done.stderr
        database.check(engine)
        with database.snapshot(engine) as connection:
            assert ledger.verify_all(connection) == 3
            assert found(connection) == old.budgets()
            states = dict(connection.execute(sa.select(tables.trainings.c.id, tables.trainings.c.state)).all())
            assert states == old.facts["trainings"]
            listed = json.dumps(signing.published(connection))
            assert json.loads(listed) == old.facts["keys"]
            released = {row.id: row for row in connection.execute(tables.releases.select())}
        assert set(old.facts["policies"]) == set(released)
        for policy, row in released.items():
            assert json.loads(row.certificate) == old.facts["policies"][policy]
            certificates.verify(row.document, row.certificate, listed)

    def test_the_service_goes_on_where_the_old_one_stopped(self, old, engine):
        with services.serve(old.folder, old.url, token="none", workers=2) as service:
            with database.transaction(engine) as connection:
                tokens = [keys.replace(connection, old.facts[role]) for role in ("custodian", "analyst")]
                _, admin = keys.create(connection, "x", "admin", at=datetime.now(UTC))
            custodian, analyst = (service.client(token) for token in tokens)
            states = {one: services.ended(analyst, one)["state"] for one in old.facts["trainings"]}
            assert Counter(states.values()) == {"released": 4, "cancelled": 1}
            ready = [one["id"] for one in services.pages(custodian, "/v1/datasets") if one["state"] == "ready"]
            new = services.submit(analyst, ready[0], "after the upgrade").json()["id"]
            assert services.ended(analyst, new)["state"] == "released"
            assert service.client(admin).get("/readyz").status_code == 200
        with database.snapshot(engine) as connection:
            ledger.verify_all(connection)
            moved = connection.execute(sa.select(tables.ledger.c.training, tables.ledger.c.kind)).all()
        assert max(Counter(moved)[pair] for pair in moved if pair[0] is not None) == 1

    def test_one_that_fails_leaves_the_old_state_as_it_was(self, old, engine, tmp_path, monkeypatch):
        before, tables_before = revision(engine), sorted(sa.inspect(engine).get_table_names())
        broken = tmp_path / "migrations"
        shutil.copytree(Path(database._scripts().get_main_option("script_location") or ""), broken)
        (broken / "versions" / "9999_broken.py").write_text(BROKEN.format(HEAD))
        scripts = database._scripts

        def elsewhere(connection: sa.Connection | None = None) -> Any:
            config = scripts(connection)
            config.set_main_option("script_location", str(broken))
            return config

        monkeypatch.setattr(database, "_scripts", elsewhere)
        with pytest.raises(sa.exc.SQLAlchemyError):
            database.migrate(engine)
        engine.dispose()
        assert revision(engine) == before
        assert sorted(sa.inspect(engine).get_table_names()) == tables_before
        with engine.connect() as connection:
            names = connection.execute(sa.text("SELECT DISTINCT name FROM keys")).scalars().all()
        assert "changed by half" not in names
        monkeypatch.undo()
        database.migrate(engine)  # the mended one finds everything as it was
        with database.snapshot(engine) as connection:
            ledger.verify_all(connection)
            assert found(connection) == old.budgets()

    @oldest
    def test_of_two_at_once_one_waits_and_both_end_well(self, old, engine):
        environment = services.environment(old.folder, old.url)
        arguments = [sys.executable, "-m", "discretion", "migrate"]
        both = [subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [one.communicate(timeout=600)[0] for one in both]
        assert [one.returncode for one in both] == [0, 0]
        assert all("up to date" in words for words in said)
        database.check(engine)
        with database.snapshot(engine) as connection:
            assert ledger.verify_all(connection) == 3

    @oldest
    def test_what_it_did_is_told(self, old, engine):
        before = revision(engine)
        lines = run(old.folder, "migrate", url=old.url).stdout.splitlines()
        assert lines[-1] == "The database is up to date."
        assert [line[:4] for line in lines[:-1]] == (
            [] if before == HEAD else [one for one in revisions() if one > str(before)]
        )
        assert run(old.folder, "migrate", url=old.url).stdout == "The database is up to date.\n"

    @oldest
    def test_a_backup_of_it_is_restored_at_the_newest_revision(self, old, engine, tmp_path, request):
        """A backup is of its own revision, and is migrated where it is restored."""
        with database.transaction(engine) as connection:
            database.upgrade(connection)
        target = tmp_path / "backup"
        backups.create(settings.read(services.environment(old.folder, old.url)), target)
        there = tmp_path / "new"
        where = settings.read(services.environment(there, another(request, there, "sqlite")))
        restores.restore(where, target, kept=[], listed=None, settle=False, unseen=True)
        restored = database.engine(where.database_url)
        with database.snapshot(restored) as connection:
            assert {one: said["charged"] for one, said in found(connection).items()} == {
                one: said["charged"] for one, said in old.budgets().items()
            }
        restored.dispose()


def revisions() -> list[str]:
    scripts = ScriptDirectory.from_config(database._scripts())
    return sorted(script.revision for script in scripts.walk_revisions())


BROKEN = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{}"


def upgrade():
    op.create_table("half", sa.Column("id", sa.String(40), nullable=False))
    op.execute("UPDATE keys SET name = 'changed by half'")
    op.execute("INSERT INTO no_such_table VALUES (1)")
"""


class TestLoad:
    def test_a_dump_of_an_older_revision_is_migrated_after_it_was_read(self, tmp_path, request):
        """As `restores` does it: the rows go into the schema that they were written from."""
        old = Old("0001-sqlite", tmp_path, another(request, tmp_path, "sqlite"))
        source = database.engine(old.url)
        with database.snapshot(source) as connection:
            dumps.write(connection, tmp_path / "tables")
        source.dispose()
        target = database.engine(another(request, tmp_path / "new", "postgresql"))
        with database.transaction(target) as connection:
            command.upgrade(database._scripts(connection), "0001")
            dumps.load(connection, tmp_path / "tables")
            database.upgrade(connection)
            assert ledger.verify_all(connection) == 3
            assert found(connection) == old.budgets()
        database.check(target)
        target.dispose()

    def test_a_revision_of_the_future_is_refused(self, tmp_path, request):
        engine = database.engine(another(request, tmp_path, "sqlite"))
        with pytest.raises(errors.UnknownDatabase, match="newer"), database.transaction(engine) as connection:
            database.upgrade(connection, "9999")
        engine.dispose()
