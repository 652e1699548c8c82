"""Keys: shown once, revoked for good; and the log of who did what."""

import re
from typing import Any

import pytest

from tests import services
from tests.api.hospital import Hospital
from tests.services import Service


class TestAKey:
    def test_its_token_is_shown_once(self, service: Service) -> None:
        answer = service.admin.post("/v1/keys", json={"name": "Dr. Who", "role": "analyst"})
        assert answer.status_code == 201
        made = answer.json()
        assert set(made) == {"id", "name", "role", "token"}
        assert re.fullmatch(r"[A-Za-z0-9_]{24,}", made["token"])
        listed = service.admin.get("/v1/keys?limit=1000")
        assert made["token"] not in listed.text
        found = next(key for key in listed.json()["items"] if key["id"] == made["id"])
        assert set(found) == {"id", "kind", "name", "role", "created_at", "revoked_at", "issuer", "subject"}
        assert (found["name"], found["role"], found["revoked_at"]) == ("Dr. Who", "analyst", None)

    @pytest.mark.parametrize("role", ["admin", "custodian", "analyst", "auditor"])
    def test_of_each_role_opens_the_door(self, role: str, service: Service) -> None:
        client = service.key(role)
        assert client.id.startswith("key_")
        path = {"auditor": "/v1/policies"}.get(role, "/v1/datasets")
        assert client.get(path).status_code == 200

    @pytest.mark.parametrize("body", [{"name": "x", "role": "root"}, {"name": "x"}, {"name": "", "role": "admin"}])
    def test_of_no_role_or_name_is_refused(self, body: dict[str, Any], service: Service) -> None:
        services.refused(service.admin.post("/v1/keys", json=body), 422, "invalid_request")

    @pytest.mark.parametrize("name", ["  ", "a\tb", "\u202e"])
    def test_with_a_name_that_nobody_can_read_is_refused(self, name: str, service: Service) -> None:
        services.refused(service.admin.post("/v1/keys", json={"name": name, "role": "admin"}), 422, "invalid_parameter")

    def test_once_revoked_it_opens_nothing(self, service: Service) -> None:
        client = service.key("custodian")
        assert client.get("/v1/datasets").status_code == 200
        answer = service.admin.delete(f"/v1/keys/{client.id}")
        assert answer.status_code == 200
        assert answer.json()["revoked_at"] is not None
        services.refused(client.get("/v1/datasets"), 401, "unauthenticated")
        services.refused(service.admin.delete(f"/v1/keys/{client.id}"), 404, "no_such_key")

    def test_a_scheme_may_be_written_in_any_case(self, service: Service) -> None:
        client = service.client(None)
        for scheme in ("bearer", "BEARER", "Bearer "):
            answer = client.get("/v1/keys", headers={"Authorization": f"{scheme} {service.token}"})
            assert answer.status_code == 200
        answer = client.get("/v1/keys", headers={"Authorization": service.token})
        services.refused(answer, 401, "unauthenticated")
        services.refused(client.get(f"/v1/keys?token={service.token}"), 401, "unauthenticated")


class TestTheAuditLog:
    def test_has_a_row_for_every_write(self, hospital: Hospital) -> None:
        service = hospital.service
        custodian, analyst, gone = (service.key(role) for role in ("custodian", "analyst", "auditor"))
        budget = {"name": "icu", "budget": {"rho": "10"}}
        population = custodian.post("/v1/populations", json=budget).json()["id"]
        change = {"rho": "20", "reason": "more"}
        assert custodian.patch(f"/v1/populations/{population}/budget", json=change).status_code == 200
        body = {"name": "icu", "population": population} | services.TABULAR
        dataset = custodian.post("/v1/datasets", json=body).json()["id"]
        assert services.upload(custodian, dataset, services.csv(50)).status_code == 201
        grant = services.grant(custodian, dataset, analyst, "10")
        training = services.submit(analyst, dataset).json()["id"]
        assert services.submit(analyst, dataset).json()["id"] == training
        policy = services.ended(analyst, training)["policy"]
        derived = analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": {"c1": 2}}).json()["id"]
        assert policy != derived
        second = services.submit(analyst, dataset, key="2").json()["id"]
        assert analyst.delete(f"/v1/trainings/{second}").status_code == 200
        assert custodian.delete(f"/v1/datasets/{dataset}/grants/{grant}").status_code == 200
        assert custodian.delete(f"/v1/datasets/{dataset}").status_code == 200
        assert custodian.delete(f"/v1/datasets/{dataset}").status_code == 200
        assert hospital.admin.delete(f"/v1/keys/{gone.id}").status_code == 200

        admin = next(key["id"] for key in services.pages(service.admin, "/v1/keys", 1000) if key["role"] == "admin")
        rows = services.pages(hospital.auditor, "/v1/audit", limit=1000)
        mine = {custodian.id, analyst.id, gone.id}
        found = [
            (row["actor"], row["action"], row["object"])
            for row in rows
            if row["actor"] in mine or row["object"] in mine
        ]
        assert found == [
            (admin, "key.create", custodian.id),
            (admin, "key.create", analyst.id),
            (admin, "key.create", gone.id),
            (custodian.id, "population.create", population),
            (custodian.id, "budget.change", population),
            (custodian.id, "dataset.create", dataset),
            (custodian.id, "dataset.upload", dataset),
            (custodian.id, "grant.create", grant),
            (analyst.id, "training.submit", training),
            (analyst.id, "policy.derive", derived),
            (analyst.id, "training.submit", second),
            (analyst.id, "training.cancel", second),
            (custodian.id, "grant.revoke", grant),
            (custodian.id, "dataset.retire", dataset),
            (admin, "key.revoke", gone.id),
        ]
        assert [row["sequence"] for row in rows] == sorted(row["sequence"] for row in rows)

    def test_has_no_row_for_what_was_refused(self, hospital: Hospital) -> None:
        custodian = hospital.service.key("custodian")
        services.refused(custodian.post("/v1/datasets", json={}), 422, "invalid_request")
        services.refused(custodian.delete("/v1/datasets/ds_missing"), 404, "not_found")
        dataset = services.new_dataset(custodian)
        services.refused(services.upload(custodian, dataset, b"unit\n"), 422, "invalid_upload")
        rows = services.pages(hospital.auditor, "/v1/audit", limit=1000)
        mine = [row["action"] for row in rows if row["actor"] == custodian.id]
        assert mine == ["population.create", "dataset.create"]
