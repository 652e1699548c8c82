"""Released policies: what they decide, the certificate that goes with them, and further ones for nothing."""

from typing import Any

import pytest

from discretion import certificate_page, certificates, errors
from tests import services
from tests.api.hospital import Hospital


def derive(hospital: Hospital, training: str, parameters: dict[str, Any]) -> Any:
    return hospital.analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": parameters})


def verified(hospital: Hospital, policy: str) -> certificates.Verified:
    """As somebody would who has three files and no service."""
    document = hospital.auditor.get(f"/v1/policies/{policy}")
    certificate = hospital.auditor.get(f"/v1/policies/{policy}/certificate")
    assert {document.headers["content-type"], certificate.headers["content-type"]} == {"application/json"}
    keys = hospital.service.client(None).get("/v1/certificate-keys").text
    return certificates.verify(document.text, certificate.text, keys)


class TestAPolicy:
    def test_is_listed_by_name(self, hospital: Hospital) -> None:
        found = services.pages(hospital.analyst, "/v1/policies", limit=1000)
        own = next(one for one in found if one["id"] == hospital.own.policy)
        assert own == {
            "id": hospital.own.policy,
            "training": hospital.own.training,
            "dataset": hospital.own.dataset,
            "algorithm": "dp-apvi",
            "derived": False,
        }

    def test_of_discrete_states_decides_for_each_step_and_state(self, hospital: Hospital) -> None:
        policy = hospital.analyst.get(f"/v1/policies/{hospital.own.policy}").json()
        assert (policy["id"], policy["algorithm"], policy["horizon"]) == (hospital.own.policy, "dp-apvi", 3)
        for name in ("decisions", "source", "pessimistic_score"):
            assert [len(row) for row in policy[name]] == [4, 4, 4]
        assert {action for row in policy["decisions"] for action in row} <= {0, 1}
        assert {source for row in policy["source"] for source in row} <= {"learned", "fallback"}
        assert policy["value_lower_bound"] is None
        assert policy["actions"]["labels"] == ["wait", "treat"]

    def test_of_vector_states_says_what_is_needed_to_decide(self, hospital: Hospital) -> None:
        policy = hospital.analyst.get(f"/v1/policies/{hospital.linear.policy}").json()
        assert policy["algorithm"] == "dp-vapvi"
        assert policy["states"]["columns"] == ["age", "lactate"]
        assert policy.get("decisions") is None

    def test_is_the_same_bytes_for_every_reader(self, hospital: Hospital) -> None:
        readers = (hospital.analyst, hospital.custodian, hospital.auditor)
        for part in ("", "/certificate"):
            found = {reader.get(f"/v1/policies/{hospital.own.policy}{part}").content for reader in readers}
            assert len(found) == 1

    def test_its_certificate_holds_and_names_what_was_paid(self, hospital: Hospital) -> None:
        for things in (hospital.own, hospital.linear):
            found = verified(hospital, things.policy)
            assert found.charged_rho.nano == 500_000_000
            rows = hospital.auditor.get(f"/v1/datasets/{things.dataset}/ledger").json()["rows"]
            row = found.payload["ledger"]
            paid = next(one for one in rows if one["sequence"] == row["sequence"])
            assert (paid["hash"], paid["kind"], paid["training"]) == (row["hash"], "charge", things.training)

    def test_its_certificate_can_be_read_as_a_page(self, hospital: Hospital) -> None:
        path = f"/v1/policies/{hospital.own.policy}/certificate"
        keys = hospital.auditor.get("/v1/certificate-keys").text
        page = hospital.auditor.get(f"{path}/page").json()
        assert set(page) == {"title", "signed_by", "sections", "findings"}
        assert all(set(section) == {"title", "lines"} for section in page["sections"])
        assert (page["signed_by"], page["findings"]) == (verified(hospital, hospital.own.policy).kid, None)
        said = [page["title"], *(text for one in page["sections"] for text in (one["title"], *one["lines"]))]
        printed = certificate_page.explain(hospital.auditor.get(path).text, keys)
        assert " ".join(said).split() == printed.replace("\n  - ", "\n").split()
        assert f"The signature of key {page['signed_by']} holds." in " ".join(said)

    def test_its_certificate_is_a_jws_and_belongs_to_no_other_policy(self, hospital: Hospital) -> None:
        certificate = hospital.auditor.get(f"/v1/policies/{hospital.own.policy}/certificate")
        assert set(certificate.json()) == {"payload", "protected", "signature"}
        keys = hospital.auditor.get("/v1/certificate-keys").text
        other = hospital.auditor.get(f"/v1/policies/{hospital.beside.policy}").text
        with pytest.raises(errors.InvalidCertificate):
            certificates.verify(other, certificate.text, keys)


class TestThePublicKeys:
    def test_are_for_everybody_and_only_public(self, hospital: Hospital) -> None:
        answer = hospital.service.client(None).get("/v1/certificate-keys")
        assert answer.status_code == 200
        for key in answer.json()["keys"]:
            assert set(key) == {"kty", "crv", "x", "kid", "alg", "use"}


class TestDecisions:
    def ask(self, hospital: Hospital, policy: str, step: Any, state: Any) -> Any:
        return hospital.analyst.post(f"/v1/policies/{policy}/decisions", json={"step": step, "state": state})

    def test_are_what_the_policy_says(self, hospital: Hospital) -> None:
        policy = hospital.analyst.get(f"/v1/policies/{hospital.own.policy}").json()
        for step in (1, 2, 3):
            for state in range(4):
                decided = self.ask(hospital, hospital.own.policy, step, state).json()
                action = policy["decisions"][step - 1][state]
                assert (decided["action"], decided["label"]) == (action, ["wait", "treat"][action])
                assert decided["source"] == policy["source"][step - 1][state]
                assert decided["pessimistic_score"] == policy["pessimistic_score"][step - 1][state]

    def test_of_a_vector_state_take_its_columns(self, hospital: Hospital) -> None:
        decided = self.ask(hospital, hospital.linear.policy, 3, {"age": 61, "lactate": 2.5}).json()
        assert decided["action"] in (0, 1)
        assert decided["label"] is None
        assert decided["source"] in ("learned", "fallback")

    @pytest.mark.parametrize(
        ("step", "state"),
        [
            *((0, 0), (4, 0), (-1, 0), (1.5, 0), ("1", 0), (True, 0), (None, 0), (10**400, 0)),
            *((1, state) for state in (4, -1, 0.5, "0", True, None, [0], {"age": 1}, 10**400)),
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_of_a_step_or_state_that_is_none_are_refused(self, step: Any, state: Any, hospital: Hospital) -> None:
        answer = self.ask(hospital, hospital.own.policy, step, state)
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] in ("invalid_state", "invalid_request")

    @pytest.mark.parametrize(
        "state",
        [
            "3",
            "{}",
            '{"age": 61}',
            '{"age": 61, "lactate": 2, "dose": 1}',
            '{"age": 61, "lactate": "2"}',
            '{"age": 61, "lactate": null}',
            '{"age": 61, "lactate": 1e999}',
            '{"age": true, "lactate": 1}',
        ],
    )
    def test_of_columns_that_are_not_the_states_are_refused(self, state: str, hospital: Hospital) -> None:
        answer = hospital.analyst.post(
            f"/v1/policies/{hospital.linear.policy}/decisions",
            content=f'{{"step": 1, "state": {state}}}',
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] in ("invalid_state", "invalid_request")


class TestDeriving:
    def test_a_further_policy_is_free_and_certified(self, hospital: Hospital) -> None:
        path = f"/v1/datasets/{hospital.own.dataset}"
        before = hospital.custodian.get(f"{path}/ledger").json()
        parameters = {"reward": {"table": [[1, 0]] * 4}, "c1": 0, "c2": 0, "pessimism": "hoeffding"}
        answer = derive(hospital, hospital.own.training, parameters)
        assert answer.status_code == 201
        made = answer.json()
        assert answer.headers["location"] == f"/v1/policies/{made['id']}"
        assert made["derived"] is True
        assert (made["training"], made["dataset"]) == (hospital.own.training, hospital.own.dataset)
        assert hospital.custodian.get(f"{path}/ledger").json() == before

        found = verified(hospital, made["id"])
        assert found.payload["privacy"]["further_rho"] == "0"
        assert found.charged_rho.nano == 500_000_000
        document = hospital.analyst.get(answer.headers["location"]).json()
        last = zip(document["decisions"][-1], document["source"][-1], strict=True)
        # Rewarded for waiting only, it waits at the end wherever it has seen enough.
        assert {action for action, source in last if source == "learned"} <= {0}
        # The training's own policy stays the one it released.
        assert hospital.analyst.get(f"/v1/trainings/{hospital.own.training}").json()["policy"] == hospital.own.policy

    def test_the_same_parameters_give_the_same_decisions(self, hospital: Hospital) -> None:
        made = derive(hospital, hospital.own.training, {"c1": 0.5, "c2": 0}).json()["id"]
        documents = [hospital.analyst.get(f"/v1/policies/{one}").json() for one in (made, hospital.own.policy)]
        assert documents[0]["decisions"] == documents[1]["decisions"]
        assert documents[0]["id"] != documents[1]["id"]

    def test_only_counts_can_be_derived_from(self, hospital: Hospital) -> None:
        answer = derive(hospital, hospital.linear.training, {"features": {"kind": "blocks", "terms": ["1"]}})
        services.refused(answer, 409, "not_derivable")

    @pytest.mark.parametrize("parameters", [{"seed": 1}, {"c1": "1"}, {"features": {}}, {"reward": {"table": [[1]]}}])
    def test_parameters_that_do_not_fit_are_refused(self, parameters: dict[str, Any], hospital: Hospital) -> None:
        services.refused(derive(hospital, hospital.own.training, parameters), 422, "invalid_parameter")

    def test_it_still_works_when_the_data_is_gone(self, hospital: Hospital) -> None:
        analyst = hospital.service.key("analyst")
        dataset = services.ready_dataset(hospital.custodian)
        services.grant(hospital.custodian, dataset, analyst)
        training = services.submit(analyst, dataset).json()["id"]
        policy = services.ended(analyst, training)["policy"]
        before = analyst.get(f"/v1/policies/{policy}").content
        ledger = hospital.custodian.get(f"/v1/datasets/{dataset}/ledger").json()
        assert hospital.custodian.delete(f"/v1/datasets/{dataset}").json()["state"] == "retired"

        answer = analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": {"c1": 1}})
        assert answer.status_code == 201
        found = verified(hospital, answer.json()["id"])
        assert found.payload["privacy"]["further_rho"] == "0"
        assert analyst.get(f"/v1/policies/{policy}").content == before
        assert verified(hospital, policy).charged_rho.nano == 500_000_000
        assert hospital.custodian.get(f"/v1/datasets/{dataset}/ledger").json() == ledger
