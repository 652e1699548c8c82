"""Identities: one row for each subject, whoever comes first; the role of the newest token; revoked at once."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from discretion import audit, catalogue, database, errors, identities, keys, sessions, tables
from discretion.bearer import Claims
from discretion.privacy.rho import Rho

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
ADA = Claims("https://id.example", "ada", "Dr. Ada", "analyst", NOW - SECOND, NOW + HOUR)


def later(claims: Claims, seconds: int = 1, **more: Any) -> Claims:
    return replace(claims, issued_at=claims.issued_at + seconds * SECOND, **more)


@pytest.fixture
def connection(engine):
    with database.transaction(engine) as made:
        yield made


def acts(connection):
    return [entry.action for entry in audit.listed(connection, limit=100)]


class TestAdmit:
    def test_the_first_token_makes_a_row_among_the_keys(self, connection):
        assert identities.find(connection, ADA) is None
        made = identities.admit(connection, ADA, at=NOW)
        assert (made.kind, made.name, made.role, made.revoked_at) == ("identity", "Dr. Ada", "analyst", None)
        assert (made.issuer, made.subject) == ("https://id.example", "ada")
        assert made.id.startswith("key_")
        assert "ada" not in made.id
        assert identities.find(connection, ADA) == identities.admit(connection, ADA, at=NOW) == made
        assert keys.listed(connection, after=None, limit=10)[0] == [made]
        assert [(entry.actor, entry.action, entry.object) for entry in audit.listed(connection, limit=9)] == [
            (made.id, "identity.create", made.id)
        ]

    def test_each_subject_of_each_issuer_is_somebody_else(self, connection):
        others = [
            replace(ADA, subject="Ada"),
            replace(ADA, subject="ada "),
            replace(ADA, issuer="https://id.example/"),
        ]
        made = [identities.admit(connection, one, at=NOW).id for one in (ADA, *others)]
        assert len(set(made)) == 4

    def test_no_token_opens_its_row(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        held = connection.execute(sa.select(tables.keys.c.token_hash)).scalar_one()
        for token in (held, made.id, "", "ada"):
            assert keys.authenticate(connection, token) is None
        with pytest.raises(errors.NoSuchKey, match="keys reopen"):
            keys.replace(connection, made.id)

    def test_of_two_who_come_at_once_one_makes_the_row(self, make_engine):
        for number in range(5):
            claims = replace(ADA, subject=f"twin {number}")
            found: list[keys.Key] = []
            gate = threading.Barrier(4)

            def come(claims=claims, found=found, gate=gate) -> None:
                engine = make_engine()
                with database.snapshot(engine) as connection:
                    assert identities.find(connection, claims) is None
                gate.wait()
                with database.transaction(engine) as connection:
                    found.append(identities.admit(connection, claims, at=NOW))

            threads = [threading.Thread(target=come) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(found) == 4
            assert len({key.id for key in found}) == 1
        with database.snapshot(make_engine()) as connection:
            assert acts(connection) == ["identity.create"] * 5
            assert len(keys.listed(connection, after=None, limit=10)[0]) == 5


class TestTheRole:
    def test_is_the_newest_tokens(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        promoted = later(ADA, role="custodian", name="Prof. Ada")
        assert identities.find(connection, promoted) is None
        changed = identities.admit(connection, promoted, at=NOW)
        assert (changed.id, changed.role, changed.name) == (made.id, "custodian", "Prof. Ada")
        assert identities.find(connection, promoted) == changed
        assert acts(connection) == ["identity.create", "identity.become-custodian"]

    @pytest.mark.parametrize("seconds", [0, 1, 5])
    def test_an_older_token_does_not_bring_it_back(self, connection, seconds):
        identities.admit(connection, later(ADA, seconds, role="auditor"), at=NOW)
        for ask in (identities.find, lambda *given: identities.admit(*given, at=NOW)):
            with pytest.raises(errors.Unauthenticated, match="role has changed"):
                ask(connection, ADA)

    def test_an_older_token_of_the_same_role_is_as_good(self, connection):
        identities.admit(connection, later(ADA, 5), at=NOW)
        found = identities.find(connection, ADA)
        assert found is not None
        assert acts(connection) == ["identity.create"]

    def test_a_newer_token_of_the_same_role_counts_as_seen(self, connection):
        """Or an older one with another role could still pass for news."""
        identities.admit(connection, ADA, at=NOW)
        identities.admit(connection, later(ADA, 10), at=NOW)
        with pytest.raises(errors.Unauthenticated):
            identities.admit(connection, later(ADA, 5, role="custodian"), at=NOW)

    def test_decides_who_may_be_granted(self, connection):
        owner, _ = keys.create(connection, "x", "custodian", at=NOW)
        population = catalogue.add_population(connection, "icu", Rho.parse("1"), owner=owner, at=NOW)
        values = {"id": "ds_1", "population": population, "owner": owner.id, "name": "icu", "state": "empty"}
        connection.execute(tables.datasets.insert().values(**values, schema="{}", created_at=""))
        dataset = catalogue.Dataset("ds_1", "icu", population, owner.id, "empty", None, None, None, None, "")  # type: ignore[arg-type]
        made = identities.admit(connection, ADA, at=NOW)
        assert catalogue.grant(connection, dataset, made.id, Rho.parse("1"), at=NOW).key == made.id
        auditor = identities.admit(connection, replace(ADA, subject="bob", role="auditor"), at=NOW)
        with pytest.raises(errors.InvalidParameter):
            catalogue.grant(connection, dataset, auditor.id, Rho.parse("1"), at=NOW)


class TestRevoked:
    def test_no_token_of_theirs_opens_anything(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        assert keys.revoke(connection, made.id, at=NOW).revoked_at is not None
        for claims in (ADA, later(ADA), later(ADA, role="custodian")):
            for ask in (identities.find, lambda *given: identities.admit(*given, at=NOW)):
                with pytest.raises(errors.Unauthenticated, match="revoked"):
                    ask(connection, claims)
        assert len(keys.listed(connection, after=None, limit=10)[0]) == 1

    def test_may_be_let_in_again_without_their_old_sessions(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        session = sessions.begin_for(connection, made, at=NOW, until=ADA.expires_at)
        assert session is not None
        keys.revoke(connection, made.id, at=NOW)
        assert sessions.find(connection, session.secret, at=NOW) is None
        assert sessions.begin_for(connection, made, at=NOW, until=ADA.expires_at) is None
        identities.reopen(connection, made.id)
        assert identities.admit(connection, ADA, at=NOW) == made
        assert sessions.find(connection, session.secret, at=NOW) is None

    def test_whoever_is_let_in_again_comes_with_whatever_role_the_provider_gives(self, connection):
        """A provider's clock that was ahead does not fix a role until the time has come."""
        made = identities.admit(connection, later(ADA, 50), at=NOW)
        keys.revoke(connection, made.id, at=NOW)
        identities.reopen(connection, made.id)
        assert identities.admit(connection, later(ADA, role="auditor"), at=NOW).role == "auditor"
        with pytest.raises(errors.Unauthenticated, match="role has changed"):
            identities.admit(connection, ADA, at=NOW)

    def test_only_a_revoked_identity_is_reopened(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        key, token = keys.create(connection, "x", "admin", at=NOW)
        keys.revoke(connection, key.id, at=NOW)
        for wrong in (made.id, key.id, "key_nobody"):
            with pytest.raises(errors.NoSuchKey):
                identities.reopen(connection, wrong)
        assert keys.authenticate(connection, token) is None


class TestSessions:
    def test_end_with_the_token_however_much_they_are_used(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        session = sessions.begin_for(connection, made, at=NOW, until=NOW + 90 * 60 * SECOND)
        assert session is not None
        assert (session.key, session.expires_at) == (made, NOW + HOUR)
        assert sessions.find(connection, session.secret, at=NOW) == session
        used = sessions.prolong(connection, session, at=NOW + 50 * 60 * SECOND)
        assert used.expires_at == NOW + 90 * 60 * SECOND
        assert sessions.find(connection, session.secret, at=NOW + 90 * 60 * SECOND - SECOND) is not None
        assert sessions.find(connection, session.secret, at=NOW + 90 * 60 * SECOND) is None

    def test_end_with_the_role(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        session = sessions.begin_for(connection, made, at=NOW, until=ADA.expires_at)
        assert session is not None
        identities.admit(connection, later(ADA), at=NOW)
        assert sessions.find(connection, session.secret, at=NOW) is not None
        identities.admit(connection, later(ADA, 2, role="custodian"), at=NOW)
        assert sessions.find(connection, session.secret, at=NOW) is None

    def test_none_begins_in_another_role_than_was_shown(self, connection):
        """Between the look at the token and the session, a newer token may have changed the role."""
        made = identities.admit(connection, ADA, at=NOW)
        identities.admit(connection, later(ADA, role="custodian"), at=NOW)
        assert sessions.begin_for(connection, made, at=NOW, until=ADA.expires_at) is None

    def test_those_that_have_ended_are_removed(self, connection):
        made = identities.admit(connection, ADA, at=NOW)
        sessions.begin_for(connection, made, at=NOW, until=NOW + SECOND)
        sessions.begin_for(connection, made, at=NOW + 2 * SECOND, until=NOW + HOUR)
        assert len(connection.execute(sa.select(tables.sessions)).all()) == 1
