"""A custodian, an analyst and an auditor each do their whole job, over HTTP."""

import json

from discretion import certificates
from tests import services


class TestJourney:
    def test_from_an_upload_to_a_policy_that_an_auditor_verifies(self, service: services.Service) -> None:
        custodian, analyst, auditor = (service.key(role) for role in ("custodian", "analyst", "auditor"))
        dataset = services.ready_dataset(custodian, rho="2")
        services.grant(custodian, dataset, analyst, "1")
        plan = analyst.post("/v1/plans", json={"dataset": dataset} | services.APVI).json()
        assert (plan["rho"], plan["trainings_left"]) == ("0.5", 2)

        training = services.submit(analyst, dataset).json()["id"]
        seen = services.events(analyst, training)
        assert [event["state"] for event in (seen[0], seen[-1])] in (["queued", "released"], ["running", "released"])
        assert seen[-1]["progress"] == 1
        policy = seen[-1]["policy"]
        budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
        assert (budget["charged"], budget["remaining"], budget["grant"]["remaining"]) == ("0.5", "1.5", "0.5")

        keys = auditor.get("/v1/certificate-keys").text
        document = auditor.get(f"/v1/policies/{policy}").text
        certificate = auditor.get(f"/v1/policies/{policy}/certificate").text
        found = certificates.verify(document, certificate, keys)
        assert found.charged_rho.nano == 500_000_000
        row = found.payload["ledger"]
        rows = auditor.get(f"/v1/datasets/{dataset}/ledger").json()["rows"]
        assert rows[row["sequence"] - 1]["hash"] == row["hash"]
        assert [one["kind"] for one in rows] == ["open", "reserve", "charge"]
        decided = analyst.post(f"/v1/policies/{policy}/decisions", json={"step": 1, "state": 2}).json()
        assert decided["action"] == json.loads(document)["decisions"][0][2]
