"""Migrations, versions and the two databases."""

import pytest
import sqlalchemy as sa
from alembic import command

from discretion import audit, database, errors, tables


class TestEngine:
    @pytest.mark.parametrize(
        "url", ["", "nonsense", "mysql://host/name", "sqlite://", "sqlite:///:memory:", "oracle://x", "postgres//x"]
    )
    def test_refuses_what_is_neither_a_sqlite_file_nor_postgresql(self, url):
        with pytest.raises(errors.InvalidSetting):
            database.engine(url)

    def test_a_sqlite_commit_is_durable_and_waits_for_its_turn(self, tmp_path):
        engine = database.engine(f"sqlite:///{tmp_path / 'x.db'}")
        with engine.begin() as connection:
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
            }
        engine.dispose()
        assert settings == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 30000, "foreign_keys": 1}

    def test_a_server_is_told_to_notice_soon_that_a_host_is_gone(self, postgres):
        """What that host had locked would be nobody's for hours. Two hosts try it in `tests/test_hosts.py`."""
        engine = database.engine(postgres)
        with database.snapshot(engine) as connection:
            asked = sa.text("SELECT name FROM pg_settings WHERE source = 'session' AND name LIKE 'tcp%'")
            told = set(connection.execute(asked).scalars())
        engine.dispose()
        assert told == {
            "tcp_keepalives_idle",
            "tcp_keepalives_interval",
            "tcp_keepalives_count",
            "tcp_user_timeout",
        }


class TestTransaction:
    def test_is_all_or_nothing(self, engine):
        values = {
            "id": "pop_1",
            "name": "a clinic",
            "owner": "key_1",
            "total": 1,
            "reserved": 0,
            "charged": 0,
            "sequence": 0,
            "head": "",
            "created_at": "",
        }

        def half_done():
            with database.transaction(engine) as connection:
                connection.execute(tables.populations.insert().values(values))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            half_done()
        with database.transaction(engine) as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(tables.populations)).scalar() == 0


class TestMigrate:
    def test_leaves_the_tables_that_the_program_declares(self, engine):
        inspector = sa.inspect(engine)
        for table in tables.metadata.sorted_tables:
            found = {column["name"]: column for column in inspector.get_columns(table.name)}
            assert list(found) == [column.name for column in table.columns]
            for column in table.columns:
                assert found[column.name]["nullable"] == column.nullable, (table.name, column.name)
                if isinstance(column.type, sa.BigInteger | sa.Boolean):
                    assert isinstance(found[column.name]["type"], type(column.type)), (table.name, column.name)

    def test_keeps_what_a_database_of_the_first_version_holds(self, url):
        engine = database.engine(url)
        values = {"id": "key_1", "name": "x", "role": "admin", "token_hash": "", "created_at": "", "revoked_at": None}
        with engine.begin() as connection:
            command.upgrade(database._scripts(connection), "0001")
            connection.execute(tables.keys.insert().values(values))
        assert "sessions" not in sa.inspect(engine).get_table_names()
        with pytest.raises(errors.UnknownDatabase):
            database.check(engine)
        database.migrate(engine, audit.migrated)
        database.check(engine)
        database.migrate(engine, audit.migrated)
        with database.snapshot(engine) as connection:
            (entry,) = audit.listed(connection, limit=10)
            assert (entry.actor, entry.action) == ("command line", "database.migrate")
            assert entry.object == connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
            later = {"issuer": None, "subject": None, "asserted_at": None}
            assert [row._asdict() for row in connection.execute(sa.select(tables.keys))] == [values | later]
            assert connection.execute(sa.select(tables.sessions)).all() == []
        engine.dispose()

    def test_may_be_done_again(self, engine):
        database.migrate(engine)
        database.check(engine)

    def test_refuses_a_database_of_a_newer_version(self, engine):
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(errors.UnknownDatabase, match="newer"):
            database.migrate(engine)


class TestCheck:
    def test_refuses_a_schema_it_does_not_know(self, engine, tmp_path):
        database.check(engine)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(errors.UnknownDatabase):
            database.check(engine)
        (tmp_path / "empty.db").touch()
        for name in ("empty.db", "missing.db"):
            other = database.engine(f"sqlite:///{tmp_path / name}")
            with pytest.raises(errors.UnknownDatabase, match="discretion migrate"):
                database.check(other)
            other.dispose()
        assert not (tmp_path / "missing.db").exists()

    def test_says_that_a_server_does_not_answer(self, tmp_path):
        engine = database.engine(f"postgresql://nobody@/nothing?host={tmp_path}")
        with pytest.raises(errors.DatabaseUnreachable, match="DISCRETION_DATABASE_URL"):
            database.check(engine)
        engine.dispose()
