"""Datasets before their data comes: schemas, grants, budgets and ledgers."""

import json
from typing import Any

import pytest

from discretion import signatures
from tests import services
from tests.api import hospital as hospitals
from tests.api.hospital import Hospital, Things


def create(hospital: Hospital, **body: Any) -> Any:
    whole = {"name": "icu-2019", "budget": {"rho": "2"}} | services.TABULAR | body
    return hospital.custodian.post("/v1/datasets", json={key: value for key, value in whole.items() if value != "-"})


class TestMakingOne:
    def test_it_is_empty_and_shows_its_schema(self, hospital: Hospital) -> None:
        answer = create(
            hospital,
            population=hospital.own.population,
            budget="-",
            states={"kind": "discrete", "count": 716},
            horizon=20,
            actions={"count": 25},
            max_trajectories_per_unit=3,
            **{"return": {"low": 0, "high": 1}},
        )
        assert answer.status_code == 201
        made = answer.json()
        assert made["id"].startswith("ds_")
        expected = {
            "name": "icu-2019",
            "population": hospital.own.population,
            "owner": hospital.custodian.id,
            "state": "empty",
            "units": None,
            "horizon": 20,
            "states": {"kind": "discrete", "count": 716},
            "actions": {"count": 25},
            "reward": {"low": 0, "high": 1},
            "return": {"low": 0, "high": 1},
            "max_trajectories_per_unit": 3,
        }
        assert {key: made[key] for key in expected} == expected
        assert made["created_at"].endswith("+00:00")
        assert hospital.custodian.get(f"/v1/datasets/{made['id']}").json() == made

    def test_with_a_budget_it_gets_a_population_of_its_own(self, hospital: Hospital) -> None:
        made = create(hospital, budget={"epsilon": 4, "delta": 1e-6}).json()
        population = hospital.custodian.get(f"/v1/populations/{made['population']}").json()
        assert population["budget"]["total"] != "0"
        assert population["name"] == "icu-2019"

    def test_one_trajectory_for_each_unit_is_the_default(self, hospital: Hospital) -> None:
        made = create(hospital).json()
        assert made["max_trajectories_per_unit"] == 1
        assert made["return"] is None

    def test_vector_states_have_columns_and_bounds(self, hospital: Hospital) -> None:
        states = {"kind": "vector", "columns": ["age", "lactate"], "bounds": [[0, 120], [0, 30]]}
        assert create(hospital, states=states).json()["states"] == states

    def test_labels_stand_in_the_actions_or_beside_them(self, hospital: Hospital) -> None:
        labels = ["wait", "treat"]
        inside = create(hospital, actions={"count": 2, "labels": labels}).json()
        beside = create(hospital, actions={"count": 2}, labels=labels).json()
        assert inside["actions"] == beside["actions"] == {"count": 2, "labels": labels}
        both = create(hospital, actions={"count": 2, "labels": labels}, labels=labels)
        services.refused(both, 422, "invalid_request")

    @pytest.mark.parametrize("with_both", [True, False])
    def test_it_belongs_to_one_population(self, with_both: bool, hospital: Hospital) -> None:
        answer = create(hospital, population=hospital.own.population) if with_both else create(hospital, budget="-")
        services.refused(answer, 422, "invalid_request")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"horizon": 0},
            {"horizon": 1.5},
            {"horizon": "3"},
            {"horizon": True},
            {"horizon": 10**30},
            {"horizon": "-"},
            {"name": ""},
            {"name": "a\nb"},
            {"states": {"kind": "discrete"}},
            {"states": {"kind": "discrete", "count": 0}},
            {"states": {"kind": "discrete", "count": 4, "columns": ["a"]}},
            {"states": {"kind": "text"}},
            {"states": {"kind": "vector", "columns": [], "bounds": []}},
            {"states": {"kind": "vector", "columns": ["a"], "bounds": [[1, 0]]}},
            {"states": {"kind": "vector", "columns": ["a"], "bounds": [[0, 0]]}},
            {"states": {"kind": "vector", "columns": ["a"], "bounds": [[0, 1], [0, 1]]}},
            {"states": {"kind": "vector", "columns": ["a", "a"], "bounds": [[0, 1], [0, 1]]}},
            {"states": {"kind": "vector", "columns": ["reward"], "bounds": [[0, 1]]}},
            {"states": {"kind": "vector", "columns": ["a", "next_a"], "bounds": [[0, 1], [0, 1]]}},
            {"states": {"kind": "vector", "columns": ["a"], "bounds": [["0", 1]]}},
            {"actions": {"count": 0}},
            {"actions": {"count": 2, "labels": ["one"]}},
            {"actions": {"count": 2, "labels": ["one", 2]}},
            {"actions": {"count": 2}, "labels": ["one"]},
            {"actions": 2},
            {"reward": {"low": 1, "high": 0}},
            {"reward": {"low": 0}},
            {"reward": {"low": 0, "high": "1"}},
            {"return": {"low": 1, "high": 2}},
            {"max_trajectories_per_unit": 0},
            {"max_trajectories_per_unit": 10**30},
            {"states": {"kind": "discrete", "count": 4, "seed": 1}},
            {"actions": {"count": 2, "seed": 1}},
            {"reward": {"low": 0, "high": 1, "seed": 1}},
        ],
        ids=str,
    )
    def test_a_schema_that_cannot_be_meant_is_refused(self, wrong: dict[str, Any], hospital: Hospital) -> None:
        before = services.pages(hospital.custodian, "/v1/populations", limit=1000)
        answer = create(hospital, **wrong)
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] in ("invalid_schema", "invalid_request", "invalid_parameter")
        assert services.pages(hospital.custodian, "/v1/populations", limit=1000) == before


class TestGrants:
    def test_an_analyst_gets_a_cap_inside_the_budget(self, hospital: Hospital) -> None:
        analyst, dataset = hospital.service.key("analyst"), hospital.own.dataset
        services.refused(analyst.get(f"/v1/datasets/{dataset}"), 404, "not_found")
        answer = hospital.custodian.post(f"/v1/datasets/{dataset}/grants", json={"key": analyst.id, "rho": "0.5"})
        assert answer.status_code == 201
        made = answer.json()
        amounts = {"rho": "0.5", "used": "0", "remaining": "0.5"}
        assert made == {"id": made["id"], "dataset": dataset, "key": analyst.id, "revoked": False} | amounts
        assert hospital.custodian.get(f"/v1/datasets/{dataset}/grants/{made['id']}").json() == made
        assert made in services.pages(hospital.custodian, f"/v1/datasets/{dataset}/grants")
        assert analyst.get(f"/v1/datasets/{dataset}").json()["units"] == 200
        assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["grant"] == amounts

    def test_a_second_one_for_the_same_key_is_refused_until_the_first_is_revoked(self, hospital: Hospital) -> None:
        analyst, path = hospital.service.key("analyst"), f"/v1/datasets/{hospital.own.dataset}/grants"
        body = {"key": analyst.id, "rho": "1"}
        first = hospital.custodian.post(path, json=body).json()["id"]
        services.refused(hospital.custodian.post(path, json=body), 409, "grant_exists")
        assert hospital.custodian.delete(f"{path}/{first}").json()["revoked"] is True
        services.refused(analyst.get(f"/v1/datasets/{hospital.own.dataset}/budget"), 404, "not_found")
        assert hospital.custodian.post(path, json=body | {"rho": "2"}).status_code == 201
        assert analyst.get(f"/v1/datasets/{hospital.own.dataset}/budget").json()["grant"]["rho"] == "2"

    def test_only_a_living_key_of_an_analyst_can_hold_one(self, hospital: Hospital) -> None:
        service, path = hospital.service, f"/v1/datasets/{hospital.own.dataset}/grants"
        gone = service.key("analyst")
        assert service.admin.delete(f"/v1/keys/{gone.id}").status_code == 200
        answers = [
            hospital.custodian.post(path, json={"key": key, "rho": "1"})
            for key in ("key_missing", gone.id, hospital.auditor.id, hospital.custodian.id, hospital.stranger.id)
        ]
        services.refused(answers[0], 422, "invalid_parameter")
        assert {answer.content for answer in answers} == {answers[0].content}


@pytest.fixture(scope="module")
def trained(hospital: Hospital) -> Things:
    return hospitals.trained(hospital.custodian, hospital.analyst)


class TestTheBudget:
    def test_says_what_is_used_and_what_that_means(self, hospital: Hospital, trained: Things) -> None:
        for client in (hospital.custodian, hospital.admin, hospital.analyst):
            budget = client.get(f"/v1/datasets/{trained.dataset}/budget").json()
            assert [budget[name] for name in ("total", "charged", "reserved")] == ["100", "0.5", "0"]
            assert budget["remaining"] == "99.5"
            assert [line["delta"] for line in budget["epsilon"]] == [1e-5, 1e-6, 1e-9]
            charged = [line["charged"] for line in budget["epsilon"]]
            assert charged == pytest.approx([4.728, 5.222, 6.474], abs=0.001)
            assert (budget["grant"] is None) == (client is not hospital.analyst)


class TestTheLedger:
    def test_is_a_chain_that_can_be_followed(self, hospital: Hospital, trained: Things) -> None:
        path = f"/v1/datasets/{trained.dataset}/ledger"
        answer = hospital.auditor.get(path).json()
        assert answer["intact"] is True
        assert answer["population"] == trained.population
        rows = answer["rows"]
        assert [row["sequence"] for row in rows] == [1, 2, 3]
        assert [(row["kind"], row["rho"]) for row in rows] == [("open", "100"), ("reserve", "0.5"), ("charge", "0.5")]
        assert [row["training"] for row in rows] == [None, trained.training, trained.training]
        assert [row["actor"] for row in rows] == [hospital.custodian.id, hospital.analyst.id, "worker"]
        assert [row["previous_hash"] for row in rows] == ["0" * 64, rows[0]["hash"], rows[1]["hash"]]

    def test_is_one_for_all_datasets_of_a_population(self, hospital: Hospital, trained: Things) -> None:
        second = create(hospital, population=trained.population, budget="-").json()["id"]
        first = hospital.auditor.get(f"/v1/datasets/{trained.dataset}/ledger").json()
        assert hospital.auditor.get(f"/v1/datasets/{second}/ledger").json() == first

    def test_its_head_is_signed(self, hospital: Hospital, trained: Things) -> None:
        keys = hospital.service.client(None).get("/v1/certificate-keys").text
        answer = hospital.auditor.get(f"/v1/datasets/{trained.dataset}/ledger/head")
        payload, kid = signatures.read(answer.text, keys, signatures.LEDGER_HEAD)
        assert kid in {key["kid"] for key in json.loads(keys)["keys"]}
        last = hospital.auditor.get(f"/v1/datasets/{trained.dataset}/ledger").json()["rows"][-1]
        assert (payload["sequence"], payload["hash"]) == (last["sequence"], last["hash"])
        assert (payload["population"], payload["charged"]) == (trained.population, "0.5")
