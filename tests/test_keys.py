"""API keys: shown once, stored hashed, revoked for good."""

import re
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from discretion import database, errors, keys, tables
from discretion.privacy import tokens

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class TestTokens:
    def test_are_long_plain_and_all_different(self):
        made = [tokens.token() for _ in range(2000)]
        assert len(set(made)) == len(made)
        assert all(re.fullmatch(r"[A-Za-z0-9_]{24,}", token) for token in made)

    def test_use_every_letter_equally(self):
        letters = "".join(tokens.identifier("x")[2:] for _ in range(6000))
        counts = [letters.count(letter) for letter in tokens._LETTERS]
        expected = len(letters) / 62
        assert sum((count - expected) ** 2 / expected for count in counts) < 150  # 61 degrees: below 10⁻⁸

    def test_identifiers_carry_their_prefix(self):
        assert re.fullmatch(r"ds_[A-Za-z0-9]{22}", tokens.identifier("ds"))


class TestCreate:
    def test_the_token_opens_and_is_stored_nowhere(self, engine):
        with database.transaction(engine) as connection:
            made, token = keys.create(connection, " Dr. Ada ", "analyst", at=NOW)
        with database.transaction(engine) as connection:
            assert keys.authenticate(connection, token) == made
            assert (made.name, made.role) == ("Dr. Ada", "analyst")
            stored = connection.execute(sa.select(tables.keys)).all()
        assert token not in str(stored)
        assert token[3:] not in str(stored)

    @pytest.mark.parametrize(
        ("name", "role"), [("x", "owner"), ("", "admin"), (" ", "admin"), ("x" * 201, "admin"), ("a\nb", "admin")]
    )
    def test_refuses_other_roles_and_names_that_cannot_be_read(self, engine, name, role):
        with pytest.raises(errors.InvalidParameter), database.transaction(engine) as connection:
            keys.create(connection, name, role, at=NOW)


class TestAuthenticate:
    @pytest.mark.parametrize("wrong", ["", "dk_", "x" * 10_000, "dk_\x00", "é", "' OR 1=1 --"])
    def test_knows_no_other_token(self, engine, wrong):
        with database.transaction(engine) as connection:
            keys.create(connection, "x", "admin", at=NOW)
            assert keys.authenticate(connection, wrong) is None


class TestRevoke:
    def test_closes_the_key_and_keeps_its_name(self, engine):
        with database.transaction(engine) as connection:
            made, token = keys.create(connection, "x", "custodian", at=NOW)
            other, other_token = keys.create(connection, "y", "auditor", at=NOW)
            keys.revoke(connection, made.id, at=NOW)
            assert keys.authenticate(connection, token) is None
            assert keys.authenticate(connection, other_token) == other
            assert {key.name: key.revoked_at is None for key in keys.listed(connection, after=None, limit=100)[0]} == {
                "x": False,
                "y": True,
            }
        for unknown in (made.id, "key_nobody"):
            with pytest.raises(errors.NoSuchKey), database.transaction(engine) as connection:
                keys.revoke(connection, unknown, at=NOW)
