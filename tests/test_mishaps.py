"""What goes wrong around the service costs no budget and no data."""

import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

from discretion import database, keys
from tests import services


class TestStore:
    def test_another_databases_data_is_left_alone(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            services.ready_dataset(service.key("custodian"))
        folders = sorted(path.name for path in (tmp_path / "data" / "datasets").iterdir())
        assert len(folders) == 1
        with services.serve(tmp_path, f"sqlite:///{tmp_path / 'other.db'}"):
            pass
        assert sorted(path.name for path in (tmp_path / "data" / "datasets").iterdir()) == folders


class TestSigningKey:
    def test_a_worker_that_cannot_sign_charges_nothing_until_it_can(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            key = tmp_path / "data" / "signing-key.pem"
            key.chmod(0o644)
            training = services.submit(analyst, dataset).json()["id"]
            services.wait_until(lambda: "left waiting" in service.log)
            assert analyst.get(f"/v1/trainings/{training}").json()["state"] == "queued"
            assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0"
            told = custodian.get(f"/v1/datasets/{dataset}/ledger/head")
            assert (told.status_code, told.json()["code"]) == (503, "invalid_setting")
            assert "mode" not in told.text
            key.chmod(0o600)
            assert services.ended(analyst, training)["state"] == "released"


class TestBusyDatabase:
    def test_a_request_that_waits_for_the_database_does_not_hold_up_the_end(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            custodian = service.key("custodian")
            blocker = sqlite3.connect(tmp_path / "data" / "discretion.db", isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            body = {"name": "x", "budget": {"rho": "1"}}
            waiting = services.in_background(lambda: custodian.post("/v1/populations", json=body))
            time.sleep(1)
            began = time.monotonic()
            service.process.terminate()
            assert service.process.wait(30) == 0
            assert time.monotonic() - began < 10  # the contract
            blocker.close()
            waiting.join()

    def test_readiness_takes_no_lock(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            blocker = sqlite3.connect(tmp_path / "data" / "discretion.db", isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            assert service.admin.get("/readyz").status_code == 200
            blocker.close()


class TestReplacedToken:
    def test_opens_the_same_key_and_the_old_one_nothing(self, engine) -> None:
        with database.transaction(engine) as connection:
            made, old = keys.create(connection, "data office", "custodian", at=datetime.now(UTC))
            new = keys.replace(connection, made.id)
            assert keys.authenticate(connection, old) is None
            found = keys.authenticate(connection, new)
            assert found is not None
            assert found.id == made.id
