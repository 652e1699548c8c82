"""Evaluations: what a policy is worth, priced like a training, and honest about whom it was learned from."""

import json
from typing import Any

import pytest

from discretion import certificate_page, certificates, errors
from discretion.learning import report as reports
from tests import services
from tests.api.hospital import Hospital


def judge(hospital: Hospital, key: str, **body: Any) -> Any:
    asked = {"policy": hospital.own.policy, "privacy": {"rho": "0.25"}} | body
    return hospital.analyst.post("/v1/evaluations", json=asked, headers={"Idempotency-Key": key})


def judged(hospital: Hospital, key: str, **body: Any) -> dict[str, Any]:
    asked = judge(hospital, key, **body)
    assert asked.status_code == 202, asked.text
    return services.ended(hospital.analyst, asked.json()["id"], kind="evaluations")


class TestAnEvaluation:
    def test_says_what_a_policy_is_worth_and_how_sure_that_is(self, hospital: Hospital) -> None:
        found = hospital.analyst.get(f"/v1/evaluations/{hospital.own.evaluation}").json()
        assert (found["state"], found["policy"], found["rho"]) == ("released", hospital.own.policy, "0.5")
        report = found["report"]
        assert report["policy"]["id"] == hospital.own.policy
        assert report["found"]["low"] <= report["found"]["value"] <= report["found"]["high"]
        assert report["found"]["level"] == 0.9

    def test_on_the_same_patients_warns_that_it_flatters(self, hospital: Hospital) -> None:
        report = hospital.analyst.get(f"/v1/evaluations/{hospital.own.evaluation}/report").json()
        assert report["patients"] == "same"
        assert "Train on one half and judge on the other" in report["caution"]

    def test_on_the_other_half_is_fair(self, hospital: Hospital) -> None:
        trained = services.submit(hospital.analyst, hospital.own.dataset, "half", services.AUTO | {"half": "first"})
        policy = services.ended(hospital.analyst, trained.json()["id"])["policy"]
        kinds = {half: judged(hospital, f"half {half}", policy=policy, half=half) for half in ("first", "second")}
        assert kinds["second"]["report"]["patients"] == "other half"
        assert kinds["first"]["report"]["patients"] == "same"

    def test_costs_what_it_says(self, hospital: Hospital) -> None:
        path = f"/v1/datasets/{hospital.own.dataset}/budget"
        before = float(hospital.analyst.get(path).json()["charged"])
        assert judged(hospital, "cost")["state"] == "released"
        assert float(hospital.analyst.get(path).json()["charged"]) == before + 0.25

    def test_is_planned_for_nothing_and_costs_as_planned(self, hospital: Hospital) -> None:
        path, asked = f"/v1/datasets/{hospital.own.dataset}/budget", {"policy": hospital.own.policy}
        before = hospital.analyst.get(path).json()
        plan = hospital.analyst.post("/v1/evaluations/plans", json=asked | {"privacy": {"rho": "0.25"}}).json()
        assert hospital.analyst.get(path).json() == before
        assert (plan["rho"], plan["patients"], plan["policy"]) == ("0.25", "same", hospital.own.policy)
        made = f"/v1/evaluations/{judged(hospital, 'as planned')['id']}"
        report, certificate = (hospital.analyst.get(f"{made}/{what}").text for what in ("report", "certificate"))
        found = certificates.verify(report, certificate, hospital.auditor.get("/v1/certificate-keys").text)
        assert found.payload["mechanisms"] == plan["mechanisms"]

    def test_its_certificate_can_be_read_as_a_page_with_what_was_found(self, hospital: Hospital) -> None:
        path = f"/v1/evaluations/{hospital.own.evaluation}"
        page = hospital.auditor.get(f"{path}/certificate/page").json()
        assert any("An estimate" in line for section in page["sections"] for line in section["lines"])
        said = [text for one in page["findings"] for text in (one["title"], *one["lines"])]
        printed = certificate_page.findings(reports.parse(hospital.auditor.get(f"{path}/report").text))
        assert " ".join(said).split() == printed.split()[4:]  # without its title

    def test_has_a_certificate_that_everybody_can_check(self, hospital: Hospital) -> None:
        path = f"/v1/evaluations/{hospital.own.evaluation}"
        report, certificate = (hospital.auditor.get(f"{path}/{what}").text for what in ("report", "certificate"))
        keys = hospital.auditor.get("/v1/certificate-keys").text
        assert certificates.verify(report, certificate, keys).charged_rho.nano == 5 * 10**8
        lie = json.loads(report)
        lie["found"]["value"] += 0.1
        with pytest.raises(errors.InvalidCertificate, match="another evaluation"):
            certificates.verify(json.dumps(lie), certificate, keys)

    def test_is_the_same_one_for_the_same_key(self, hospital: Hospital) -> None:
        first, again = (judge(hospital, "once").json()["id"] for _ in range(2))
        assert first == again
        services.refused(judge(hospital, "once", half="first"), 409, "idempotency_conflict")
        services.ended(hospital.analyst, first, kind="evaluations")

    def test_is_no_training_and_a_training_no_evaluation(self, hospital: Hospital) -> None:
        assert hospital.analyst.get(f"/v1/trainings/{hospital.own.evaluation}").status_code == 404
        assert hospital.analyst.get(f"/v1/evaluations/{hospital.own.training}").status_code == 404
        listed = services.pages(hospital.analyst, "/v1/trainings", 100)
        assert hospital.own.evaluation not in [one["id"] for one in listed]
        assert hospital.own.evaluation in [
            one["id"] for one in services.pages(hospital.analyst, "/v1/evaluations", 100)
        ]
        policies = services.pages(hospital.analyst, "/v1/policies", 100)
        assert hospital.own.evaluation not in [one["id"] for one in policies]

    @pytest.mark.parametrize(
        "change",
        [
            {"privacy": {"pure_epsilon": 1}},
            {"privacy": {}},
            {"parameters": {"seed": 1}},
            {"half": "third"},
            {"algorithm": "auto"},
            {"policy": 3},
        ],
    )
    def test_a_bad_body_is_refused_before_any_charge(self, change: dict[str, Any], hospital: Hospital) -> None:
        before = services.remaining(hospital.analyst, hospital.own.dataset)
        assert judge(hospital, f"bad {change}", **change).status_code == 422
        assert services.remaining(hospital.analyst, hospital.own.dataset) == before

    def test_needs_a_policy_of_ones_own(self, hospital: Hospital) -> None:
        assert judge(hospital, "foreign", policy=hospital.foreign.policy).status_code == 404

    def test_cannot_be_asked_for_as_a_training(self, hospital: Hospital) -> None:
        body = {"algorithm": "dp-fqe", "privacy": {"rho": "1"}, "parameters": {}}
        assert services.submit(hospital.analyst, hospital.own.dataset, "fqe", body).status_code == 422


class TestAnEvaluationOfVectorStates:
    def _trained(self, hospital: Hospital, key: str, **more: Any) -> str:
        body = services.AUTO | {"half": "first"} | more
        trained = services.submit(hospital.analyst, hospital.linear.dataset, key, body)
        assert trained.status_code == 202, trained.text
        return str(services.ended(hospital.analyst, trained.json()["id"])["policy"])

    def test_has_the_same_report_and_a_certificate_that_everybody_can_check(self, hospital: Hospital) -> None:
        policy = self._trained(hospital, "vector half")
        found = judged(hospital, "vector", policy=policy, half="second")
        assert (found["state"], found["rho"]) == ("released", "0.25")
        assert found["parameters"]["features"]["kind"] == "blocks"
        assert found["report"]["patients"] == "other half"
        said = found["report"]["found"]
        assert 0 <= said["low"] <= said["value"] <= said["high"] <= 3
        path = f"/v1/evaluations/{found['id']}"
        report, certificate = (hospital.auditor.get(f"{path}/{what}").text for what in ("report", "certificate"))
        keys = hospital.auditor.get("/v1/certificate-keys").text
        assert certificates.verify(report, certificate, keys).charged_rho.nano == 25 * 10**7

    def test_takes_features_and_groups_of_steps(self, hospital: Hospital) -> None:
        grouped = self._trained(hospital, "vector groups", parameters={"time_groups": 3})
        services.refused(judge(hospital, "too coarse", policy=grouped), 422, "invalid_parameter")
        terms = {"kind": "blocks", "terms": ["1", "lactate"]}
        asked = {"features": terms, "time_groups": 3}
        found = judged(hospital, "fine", policy=grouped, half="second", parameters=asked)
        assert found["state"] == "released"
        assert found["parameters"]["features"]["terms"] == ["1", "lactate"]

    def test_refuses_a_policy_that_decides_by_every_step(self, hospital: Hospital) -> None:
        refused = services.refused(judge(hospital, "per step", policy=hospital.linear.policy), 422, "invalid_parameter")
        assert "time_groups" in refused["detail"]
