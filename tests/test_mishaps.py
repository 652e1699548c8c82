"""What goes wrong around the service costs no budget and no data."""

import contextlib
import socket
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

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


class TestSilentConnections:
    def test_are_closed_and_everybody_else_is_served(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            port = int(service.url.rsplit(":", 1)[1])
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
            for connection in silent[::2]:
                connection.sendall(b"GET")
            assert service.admin.get("/v1/keys").status_code == 200
            for connection in silent:
                connection.settimeout(60)
                assert connection.recv(1) == b""
                connection.close()

    def test_a_head_without_end_is_not_kept(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            port = int(service.url.rsplit(":", 1)[1])
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.settimeout(60)
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"x" * 2**22)
                with contextlib.suppress(ConnectionError):
                    assert connection.recv(1) == b""
            assert service.admin.get("/v1/keys").status_code == 200


class TestMemory:
    def test_a_schema_whose_units_could_not_be_held_is_refused_before_any_data(self, tmp_path: Path) -> None:
        columns = [f"c{number}" for number in range(100)]
        states = {"kind": "vector", "columns": columns, "bounds": [[0, 1]] * 100}
        schema = services.TABULAR | {"states": states, "horizon": 1000}
        with services.serve(tmp_path) as service:
            custodian = service.key("custodian")
            body = {"name": "x", "budget": {"rho": "1"}} | schema
            assert custodian.post("/v1/datasets", json=body).status_code == 201
            told = custodian.post("/v1/datasets", json=body | {"max_trajectories_per_unit": 1000})
            assert (told.status_code, told.json()["code"]) == (422, "problem_too_large")

    def test_a_body_of_many_small_things_is_refused(self, tmp_path: Path) -> None:
        with services.serve(tmp_path) as service:
            for part in (b"{}", b'""', b"[]"):
                content = b"[" + b",".join([part] * 3_000_000) + b"]"
                headers = {"Content-Type": "application/json"}
                told = service.admin.post("/v1/keys", content=content, headers=headers)
                assert (told.status_code, told.json()["code"]) == (422, "invalid_request")


class TestCrossCheck:
    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM populations",
            "UPDATE grants SET used = 0",
            "UPDATE trainings SET state = 'failed' WHERE state = 'queued'",
            "UPDATE datasets SET population = 'pop_other'",
        ],
    )
    def test_what_contradicts_the_ledger_elsewhere_stops_the_service(self, tmp_path: Path, statement: str) -> None:
        with services.serve(tmp_path, workers=0) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            assert services.submit(analyst, dataset).status_code == 202
            assert service.admin.get("/readyz").status_code == 200
            tampering = sqlite3.connect(tmp_path / "data" / "discretion.db", isolation_level=None)
            tampering.execute(statement)
            tampering.close()
            services.wait_until(lambda: service.admin.get("/readyz").status_code == 503)
            assert services.submit(analyst, dataset, "2").json()["code"] == "ledger_damaged"
