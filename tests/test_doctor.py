"""What `discretion doctor` finds, and `discretion prune` forgets."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from discretion import audit, database, doctor, errors, keys, ledger, oidc, retention, sessions, signing, tables
from discretion.privacy.rho import Rho
from tests import dying, providers
from tests.test_cli import run
from tests.test_serving import damage

NOW = datetime.now(UTC)


@pytest.fixture
def queue(tmp_path: Path, url: str) -> Iterator[dying.Queue]:
    made = dying.Queue(tmp_path, url)
    made.found.data.chmod(0o700)
    with database.transaction(made.engine) as connection:
        signing.publish(connection, signing.current(made.found), at=NOW)
    yield made
    made.close()


def found(queue: dying.Queue, **more: Path) -> dict[str, str]:
    return {each.check: each.state for each in doctor.examine(queue.found, **more)}


def certificate(path: Path, days: int) -> Path:
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clinic")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(NOW - timedelta(days=900))
    signed = made.not_valid_after(NOW + timedelta(days=days)).sign(key, None)
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return path


class TestExamine:
    def test_a_sound_service_has_nothing_bad(self, queue):
        states = found(queue)
        assert doctor.BAD not in states.values()
        assert {name for name, state in states.items() if state == doctor.WARN} <= {
            "heads",
            "backup",
            "disk",
            "tls certificate",
        }

    def test_a_folder_that_others_can_read_is_bad(self, queue):
        queue.found.data.chmod(0o755)
        assert found(queue)["data folder"] == doctor.BAD

    def test_guards_that_were_taken_away_and_what_was_changed_then_are_found(self, queue, url):
        queue.dataset()
        damage(url)
        states = found(queue)
        assert states["ledger"] == doctor.BAD
        if url.startswith("sqlite"):
            assert states["triggers"] == doctor.BAD

    def test_a_database_of_another_revision_is_bad(self, queue):
        with database.transaction(queue.engine) as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
        assert found(queue)["database"] == doctor.BAD

    def test_a_store_that_is_not_there_is_bad(self, queue):
        queue.found.datasets.rmdir()
        assert found(queue)["store"] == doctor.BAD

    def test_a_bucket_whose_versions_may_not_be_deleted_is_told(self, queue, s3_server):
        """One that keeps none, and one where all of them may be deleted, are as they should be."""
        limited = s3_server.limited("s3:DeleteObjectVersion")
        for server, versions, state in (
            (s3_server, "", doctor.OK),
            (limited, "", doctor.OK),
            (s3_server, "Enabled", doctor.OK),
            (limited, "Enabled", doctor.WARN),
        ):
            queue.found = replace(queue.found, **server.settings(s3_server.bucket(versions)))
            assert found(queue)["store"] == state

    def test_a_key_that_others_can_read_is_bad_and_another_one_is_not_published(self, queue):
        queue.found.signing_key_file.chmod(0o644)
        assert found(queue)["signing key"] == doctor.BAD
        queue.found.signing_key_file.unlink()
        signing.ensure(queue.found.signing_key_file)
        assert found(queue)["signing key"] == doctor.WARN

    def test_a_ledger_from_the_future_means_that_the_clock_was_put_back(self, queue):
        with database.transaction(queue.engine) as connection:
            ledger.open_account(connection, "pop_1", Rho(5), name="x", actor="key_1", at=NOW + timedelta(days=1))
        assert found(queue)["clock"] == doctor.WARN

    @pytest.mark.parametrize(("days", "state"), [(90, doctor.OK), (9, doctor.WARN), (-9, doctor.BAD)])
    def test_a_certificate_that_ends_is_seen_in_time(self, queue, tmp_path, days, state):
        assert found(queue, tls=certificate(tmp_path / "tls.pem", days))["tls certificate"] == state

    def test_a_certificate_that_nobody_named_is_said_to_be_unseen(self, queue):
        assert found(queue)["tls certificate"] == doctor.WARN

    @pytest.mark.parametrize(("days", "state"), [(90, doctor.OK), (9, doctor.WARN), (-9, doctor.BAD)])
    def test_an_authority_that_ends_is_seen_by_the_settings_that_name_it(self, queue, tmp_path, days, state):
        assert found(queue)["authorities"] == doctor.OK
        queue.found = replace(queue.found, s3_ca_file=certificate(tmp_path / "ca.pem", days))
        assert found(queue)["authorities"] == state

    def test_a_provider_is_asked_for_its_keys(self, queue):
        assert found(queue)["identity provider"] == doctor.OK
        with providers.provider() as real:
            named = {name.upper(): str(value) for name, value in real.environment().items()}
            queue.found = replace(queue.found, provider=oidc.read(named))
            assert found(queue)["identity provider"] == doctor.OK
            strict = oidc.read(named | {"OIDC_ALGORITHMS": "PS512"})
            queue.found = replace(queue.found, provider=strict)
            assert found(queue)["identity provider"] == doctor.BAD
        queue.found = replace(queue.found, provider=oidc.read(named))
        (said,) = [each for each in doctor.examine(queue.found) if each.check == "identity provider"]
        assert (said.state, "does not answer" in said.words) == (doctor.BAD, True)

    def test_says_so_to_programs_by_its_exit_code(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DISCRETION_DATA", str(tmp_path / "data"))
        run("migrate")
        (tmp_path / "data" / "datasets").mkdir(mode=0o700)
        done = run("doctor", "--json")
        assert done.exit_code == 0, done.output
        assert {each["check"] for each in json.loads(done.stdout)} >= {"database", "clock", "store", "signing key"}
        (tmp_path / "data" / "datasets").rmdir()
        done = run("doctor")
        assert done.exit_code == 1
        assert "BAD  store: " in done.output


class TestPrune:
    def test_forgets_old_entries_only_and_says_so(self, queue):
        with database.transaction(queue.engine) as connection:
            for days, action in ((400, "key.create"), (400, "population.create"), (10, "key.revoke")):
                audit.record(connection, "key_1", action, "pop_1", at=NOW - timedelta(days=days))
        gone = retention.prune(queue.engine, queue.found, timedelta(days=365), actor="me", at=NOW)
        assert gone.entries == 1
        with database.snapshot(queue.engine) as connection:
            left = [entry.action for entry in audit.listed(connection, limit=100)]
        assert left == ["population.create", "key.revoke", "audit.prune"]

    def test_the_guard_is_back_afterwards(self, queue):
        self.test_forgets_old_entries_only_and_says_so(queue)
        assert found(queue)["triggers"] == doctor.OK
        for change in (tables.audit.delete(), tables.audit.update().values(actor="x")):
            with pytest.raises(sa.exc.DBAPIError), database.transaction(queue.engine) as connection:
                connection.execute(change)

    def test_forgets_sessions_that_have_ended_and_no_others(self, queue):
        with database.transaction(queue.engine) as connection:
            _, token = keys.create(connection, "x", "admin", at=NOW)
            alive = sessions.begin(connection, token, at=NOW)
            old = NOW - timedelta(days=1)
            dead = {"hash": "0" * 64, "token_hash": "1" * 64, "created_at": database.stamp(old)}
            connection.execute(tables.sessions.insert().values(dead | {"used_at": database.stamp(old)}))
        gone = retention.prune(queue.engine, queue.found, timedelta(days=90), actor="me", at=NOW)
        assert gone.sessions == 1
        with database.snapshot(queue.engine) as connection:
            assert alive is not None
            assert sessions.find(connection, alive.secret, at=NOW) is not None

    def test_a_young_log_is_not_emptied(self, queue):
        with pytest.raises(errors.InvalidParameter, match="90 days"):
            retention.prune(queue.engine, queue.found, timedelta(days=89), actor="me", at=NOW)
