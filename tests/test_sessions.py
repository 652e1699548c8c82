"""Sessions: as long as their key and its token, and not longer than twelve hours."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from discretion import database, keys, sessions, tables

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def connection(engine):
    with database.transaction(engine) as made:
        yield made


@pytest.fixture
def key(connection):
    return keys.create(connection, "Dr. Ada", "analyst", at=NOW)


def begun(connection, token, at=NOW):
    made = sessions.begin(connection, token, at=at)
    assert made is not None
    return made


def stored(connection):
    return connection.execute(sa.select(tables.sessions)).all()


class TestBegin:
    def test_the_secret_opens_and_is_stored_nowhere(self, connection, key):
        made = begun(connection, key[1])
        assert made.key == key[0]
        assert re.fullmatch(r"ses_[A-Za-z0-9]{43}", made.secret)
        assert sessions.find(connection, made.secret, at=NOW) == made
        (row,) = stored(connection)
        for secret in (made.secret, made.secret[4:], made.csrf, key[1]):
            assert secret not in str(row)
        assert made.secret not in repr(made)

    def test_needs_a_token_that_opens(self, connection, key):
        assert sessions.begin(connection, "dk_nonsense", at=NOW) is None
        keys.revoke(connection, key[0].id, at=NOW)
        assert sessions.begin(connection, key[1], at=NOW) is None
        assert stored(connection) == []

    def test_removes_what_has_expired_whosever_it_was(self, connection, key):
        other = keys.create(connection, "other", "auditor", at=NOW)
        begun(connection, key[1])
        alive = begun(connection, key[1], NOW + 2 * MINUTE)
        begun(connection, other[1], NOW + HOUR + MINUTE)
        assert len(stored(connection)) == 2
        assert sessions.find(connection, alive.secret, at=NOW + HOUR + MINUTE) is not None

    def test_of_more_than_twenty_the_oldest_goes_and_nobody_elses(self, connection, key):
        other = begun(connection, keys.create(connection, "other", "auditor", at=NOW)[1])
        made = [begun(connection, key[1], NOW + MINUTE + number * MINUTE / 60) for number in range(22)]
        at = NOW + 2 * MINUTE
        assert [sessions.find(connection, one.secret, at=at) is not None for one in made] == [False] * 2 + [True] * 20
        assert sessions.find(connection, other.secret, at=at) is not None


class TestFind:
    def test_knows_no_other_secret(self, connection, key):
        made = begun(connection, key[1])
        for wrong in ("", key[1], made.secret[:-1], made.secret + "x", made.csrf, "é", "x" * 10_000):
            assert sessions.find(connection, wrong, at=NOW) is None

    def test_an_unused_session_ends_after_an_hour(self, connection, key):
        made = begun(connection, key[1])
        assert made.expires_at == NOW + HOUR
        assert sessions.find(connection, made.secret, at=NOW + HOUR - MINUTE) is not None
        assert sessions.find(connection, made.secret, at=NOW + HOUR) is None

    def test_a_used_one_lasts_twelve_hours_and_no_longer(self, connection, key):
        made, at = begun(connection, key[1]), NOW
        while (found := sessions.find(connection, made.secret, at=at)) is not None:
            assert sessions.prolong(connection, found, at=at).expires_at == min(at + HOUR, NOW + 12 * HOUR)
            at += HOUR - MINUTE
        assert NOW + 12 * HOUR <= at < NOW + 13 * HOUR

    def test_it_ends_with_its_key(self, connection, key):
        made = begun(connection, key[1])
        keys.revoke(connection, key[0].id, at=NOW)
        assert sessions.find(connection, made.secret, at=NOW) is None

    def test_it_ends_with_its_token_and_does_not_come_back(self, connection, key):
        made = begun(connection, key[1])
        keys.revoke(connection, key[0].id, at=NOW)
        token = keys.replace(connection, key[0].id)
        assert sessions.find(connection, made.secret, at=NOW) is None
        assert sessions.find(connection, begun(connection, token).secret, at=NOW) is not None


class TestUse:
    def test_is_written_down_once_a_minute(self, connection, key):
        made = begun(connection, key[1])
        assert not made.is_due(NOW + MINUTE / 2)
        assert made.is_due(NOW + MINUTE)
        used = sessions.prolong(connection, made, at=NOW + MINUTE)
        assert sessions.find(connection, made.secret, at=NOW + MINUTE) == used
        assert not used.is_due(NOW + MINUTE + MINUTE / 2)

    def test_does_not_bring_back_one_that_was_ended(self, connection, key):
        made, other = begun(connection, key[1]), begun(connection, key[1])
        sessions.end(connection, made.secret)
        sessions.prolong(connection, made, at=NOW + MINUTE)
        assert sessions.find(connection, made.secret, at=NOW + MINUTE) is None
        assert sessions.find(connection, other.secret, at=NOW + MINUTE) is not None


class TestCsrf:
    def test_is_each_sessions_own_and_always_the_same(self, connection, key):
        made, other = begun(connection, key[1]), begun(connection, key[1])
        found = sessions.find(connection, made.secret, at=NOW)
        assert found is not None
        assert found.csrf == made.csrf
        assert re.fullmatch(r"[0-9a-f]{64}", made.csrf)
        assert made.csrf != other.csrf
        assert made.csrf != keys.digest(made.secret)
