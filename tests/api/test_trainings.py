"""Plans and trainings: what they are asked with, what they cost, and how they come to their end."""

from decimal import Decimal
from typing import Any

import pytest

from tests import services
from tests.api import hospital as hospitals
from tests.api.hospital import Hospital
from tests.services import APVI, VAPVI


def training(**changes: Any) -> dict[str, Any]:
    return APVI | changes


WRONG: list[dict[str, Any]] = [
    training(algorithm="dp-pae"),
    training(algorithm=""),
    training(algorithm=None),
    training(privacy={}),
    training(privacy={"rho": 0.5}),
    training(privacy={"rho": "0.5", "epsilon": 1, "delta": 1e-6}),
    training(privacy={"epsilon": 1}),
    training(privacy={"pure_epsilon": 0}),
    training(privacy={"pure_epsilon": -1}),
    training(privacy={"pure_epsilon": "NaN"}),
    training(privacy={"rho": "0.5", "seed": 1}),
    training(privacy="0.5"),
    training(privacy=None),
    training(parameters=None),
    training(parameters=[]),
    training(parameters={"seed": 1}),
    training(parameters={"unknown": 1}),
    training(parameters={"c1": "0.5"}),
    training(parameters={"c1": True}),
    training(parameters={"c1": -1}),
    training(parameters={"delta": 2}),
    training(parameters={"pessimism": "none"}),
    training(parameters={"dynamics": "stochastic"}),
    training(parameters={"calibration": "loose"}),
    training(parameters={"reward": {"table": [[0.1]]}}),
    training(parameters={"reward": {"table": [[0.1, 0.2], [0.1]]}}),
    training(parameters={"reward": {"table": [[2, 2]] * 4}}),
    training(parameters={"reward": {}}),
    training(parameters={"reward": {"table": [[0, 0]] * 4, "seed": 1}}),
    training(parameters={"features": {"kind": "blocks", "terms": ["1"]}}),
    training(parameters={"shares": [0, 0]}),
    VAPVI,  # needs vector states or a table
    training(algorithm="dp-vapvi", parameters={}),
    training(seed=1),
    training(dataset=5),
]


def linear(*terms: Any, **parameters: Any) -> dict[str, Any]:
    """A training of vector states with these terms."""
    features = {"kind": "blocks", "terms": list(terms)}
    return training(algorithm="dp-vapvi", parameters={"features": features} | parameters)


def table(*states: Any) -> dict[str, Any]:  # of each state: of each action, features
    """A training of discrete states with a feature table."""
    return training(algorithm="dp-vapvi", parameters={"features": {"kind": "table", "values": list(states)}})


PLAIN = [[[0.6, 0.0], [0.0, 0.6]]] * 3  # features of three states
# Maps that are read, and refused for what they say; with some of what is said about them.
WRONG_TERMS: list[tuple[dict[str, Any], str]] = [
    (linear("1", {"hinge": "lactate", "at": 31, "side": "above"}), "strictly inside its bounds 0 to 30"),
    (linear("1", {"hinge": "lactate", "at": -4, "side": "below"}), "strictly inside its bounds 0 to 30"),
    (linear("1", {"hinge": "lactate", "at": 30, "side": "above"}), "strictly inside its bounds"),  # would divide by 0
    (linear("1", {"bin": "age", "from": 130, "to": 140}), "some of its bounds 0 to 120"),
    (linear("1", {"bin": "age", "from": 60, "to": 40}), "some of its bounds 0 to 120"),
    (linear("1", {"cosine": {"age": 1e6}}), "1000 turns at most"),
    (linear("1", {"cosine": {"age": 1e-9}}), "at least within their bounds"),
    (linear("1", {"product": [{"bin": "age", "to": 20}, {"bin": "age", "from": 40}]}), "where it is not zero"),
    (linear("1"), "Every state has the same features"),
    (linear("1", dynamics="stationary"), "Every state has the same features"),
    (linear({"product": [{"bin": "age", "to": 1e-3}, {"bin": "lactate", "to": 1e-3}]}), "zero nearly everywhere"),
    (linear("age", "age"), "each of them once"),
    (linear("1", "sofa"), "'sofa'"),
    (linear(), "Blocks need terms"),
]
WRONG_TABLES: list[tuple[dict[str, Any], str]] = [
    (table(*PLAIN, [[0.8, 0.8], [0.0, 0.5]]), "state 3, action 0 have norm 1.13137"),
    (table(*PLAIN, [[0.0, 0.5], [0.0, -7]]), "state 3, action 1 have norm 7"),
    (table(*PLAIN), "needs as many discrete states"),
    (table(*[[[0.5, 0.5]] * 2] * 4), "Every state and action has the same features"),
    (table(*PLAIN, [[0.1, 0.2], [0.1]]), "values"),
]


class TestAPlan:
    def test_says_what_a_training_would_do_and_cost(self, hospital: Hospital) -> None:
        plan = hospital.analyst.post("/v1/plans", json=training(dataset=hospital.linear.dataset) | VAPVI).json()
        assert (plan["dataset"], plan["algorithm"], plan["rho"]) == (hospital.linear.dataset, "dp-vapvi", "0.5")
        budget = hospital.analyst.get(f"/v1/datasets/{hospital.linear.dataset}/budget").json()
        assert plan["trainings_left"] == Decimal(budget["remaining"]) / Decimal("0.5")
        assert plan["trainings_left"] > 100
        assert plan["privacy"] == {"rho": "0.5"}
        assert [line["delta"] for line in plan["epsilon"]] == [1e-5, 1e-6, 1e-9]
        assert [line["epsilon"] for line in plan["epsilon"]] == pytest.approx([4.728, 5.222, 6.474], abs=0.001)
        assert plan["pure_epsilon"] is None
        assert plan["mechanisms"]
        for mechanism in plan["mechanisms"]:
            assert {"statistic", "sensitivity", "scale"} <= set(mechanism), mechanism
        assert plan["visits_needed"] > 0
        assert plan["seconds"] > 0

    def test_of_auto_says_what_was_chosen_and_why(self, hospital: Hospital) -> None:
        plan = hospital.analyst.post("/v1/plans", json=services.AUTO | {"dataset": hospital.own.dataset}).json()
        assert (plan["algorithm"], plan["parameters"]["dynamics"]) == ("dp-apvi", "stationary")
        assert plan["chosen"]["by"] == "auto"
        assert "S = 4" in plan["chosen"]["reason"]

    def test_says_what_will_be_learned_under_which_assumption(self, hospital: Hospital) -> None:
        body = training(dataset=hospital.own.dataset)
        plan = hospital.analyst.post("/v1/plans", json=body).json()
        assert "1/rank" in plan["assumption"]
        assert plan["learned_share"] == 0
        assert "nothing would be learned" in plan["warnings"][-1]
        rich = body | {"privacy": {"rho": "90"}, "visiting": {"steps": 3, "states": [1, 1, 1, 1]}}
        assert hospital.analyst.post("/v1/plans", json=rich).json()["learned_share"] > 0
        wrong = body | {"visiting": {"states": [1, 1]}}
        services.refused(hospital.analyst.post("/v1/plans", json=wrong), 422, "invalid_parameter")

    def test_warns_of_the_papers_constants(self, hospital: Hospital) -> None:
        body = training(dataset=hospital.own.dataset, parameters={}, privacy={"rho": "50"})
        assert "clipped to zero" in " ".join(hospital.analyst.post("/v1/plans", json=body).json()["warnings"])

    def test_of_a_half_is_of_half_the_units(self, hospital: Hospital) -> None:
        body = services.AUTO | {"dataset": hospital.own.dataset}
        plans = [hospital.analyst.post("/v1/plans", json=body | half).json() for half in ({}, {"half": "first"})]
        assert [plan["half"] for plan in plans] == [None, "first"]
        assert "n = 100," in plans[1]["chosen"]["reason"]
        assert hospital.analyst.post("/v1/plans", json=body | {"half": "third"}).status_code == 422

    def test_costs_nothing(self, hospital: Hospital) -> None:
        path = f"/v1/datasets/{hospital.own.dataset}/budget"
        before = hospital.analyst.get(path).json()
        assert hospital.analyst.post("/v1/plans", json=training(dataset=hospital.own.dataset)).status_code == 200
        assert hospital.analyst.get(path).json() == before

    def test_of_a_pure_epsilon_is_charged_as_half_its_square(self, hospital: Hospital) -> None:
        body = training(dataset=hospital.own.dataset, privacy={"pure_epsilon": 1})
        plan = hospital.analyst.post("/v1/plans", json=body).json()
        assert (plan["rho"], plan["pure_epsilon"]) == ("0.5", "1")
        linear = VAPVI | {"dataset": hospital.linear.dataset, "privacy": {"pure_epsilon": 1}}
        assert hospital.analyst.post("/v1/plans", json=linear).status_code == 422

    def test_of_an_epsilon_with_a_delta_costs_the_rho_that_implies_them(self, hospital: Hospital) -> None:
        body = training(dataset=hospital.own.dataset, privacy={"epsilon": 4, "delta": 1e-6})
        plan = hospital.analyst.post("/v1/plans", json=body).json()
        shown = {line["delta"]: line["epsilon"] for line in plan["epsilon"]}
        assert 3.99 < shown[1e-6] <= 4

    def test_is_for_the_same_bodies_as_a_training_and_a_wrong_one_is_refused_before_any_charge(
        self, hospital: Hospital
    ) -> None:
        before = services.remaining(hospital.analyst, hospital.own.dataset)
        for number, body in enumerate(WRONG):
            whole = {"dataset": hospital.own.dataset} | body
            plan = hospital.analyst.post("/v1/plans", json=whole)
            asked = hospital.analyst.post("/v1/trainings", json=whole, headers={"Idempotency-Key": f"w{number}"})
            assert plan.status_code == 422, (whole, plan.text)
            assert plan.headers["content-type"] == "application/problem+json"
            assert plan.content == asked.content
        assert services.remaining(hospital.analyst, hospital.own.dataset) == before

    def test_with_a_map_that_cannot_be_meant_is_refused_before_any_charge(self, hospital: Hospital) -> None:
        for dataset, wrong in ((hospital.linear.dataset, WRONG_TERMS), (hospital.own.dataset, WRONG_TABLES)):
            before = services.remaining(hospital.analyst, dataset)
            for number, (body, said) in enumerate(wrong):
                plan = hospital.analyst.post("/v1/plans", json=body | {"dataset": dataset})
                asked = services.submit(hospital.analyst, dataset, f"map {number}", body)
                assert (plan.status_code, said in plan.json()["detail"]) == (422, True), (body, plan.text)
                assert plan.content == asked.content
            assert services.remaining(hospital.analyst, dataset) == before

    def test_of_an_empty_dataset_is_refused(self, hospital: Hospital) -> None:
        empty = services.new_dataset(hospital.custodian)
        services.grant(hospital.custodian, empty, hospital.analyst)
        answer = hospital.analyst.post("/v1/plans", json=training(dataset=empty))
        services.refused(answer, 409, "dataset_not_ready")
        services.refused(services.submit(hospital.analyst, empty, "empty"), 409, "dataset_not_ready")
        # The grant's dataset would show in the analyst's list, which other tests read.
        grant = hospital.custodian.get(f"/v1/datasets/{empty}/grants").json()["items"][0]["id"]
        assert hospital.custodian.delete(f"/v1/datasets/{empty}/grants/{grant}").status_code == 200

    def test_that_would_be_too_large_is_refused(self, hospital: Hospital) -> None:
        analyst = hospital.service.key("analyst")
        schema = services.TABULAR | {"horizon": 100, "states": {"kind": "discrete", "count": 30_000}}
        dataset = services.new_dataset(hospital.custodian, schema=schema)
        assert services.upload(hospital.custodian, dataset, services.csv(3)).status_code == 201
        services.grant(hospital.custodian, dataset, analyst)
        services.refused(analyst.post("/v1/plans", json=training(dataset=dataset)), 422, "problem_too_large")


class TestATraining:
    def test_is_accepted_with_its_address(self, hospital: Hospital) -> None:
        answer = services.submit(hospital.analyst, hospital.own.dataset, "address")
        assert answer.status_code == 202
        made = answer.json()
        assert answer.headers["location"] == f"/v1/trainings/{made['id']}"
        assert made["id"].startswith("tr_")
        assert (made["state"], made["progress"], made["policy"], made["code"]) == ("queued", 0, None, None)
        assert (made["dataset"], made["algorithm"], made["rho"]) == (hospital.own.dataset, "dp-apvi", "0.5")
        assert made["parameters"]["c1"] == 0.5
        found = hospital.analyst.get(answer.headers["location"]).json()
        assert found["id"] == made["id"]
        if found["state"] in ("queued", "running"):
            hospital.analyst.delete(answer.headers["location"])

    def test_goes_through_public_states_to_its_policy(self, hospital: Hospital) -> None:
        for things, analyst in ((hospital.own, hospital.analyst), (hospital.beside, hospital.other)):
            found = analyst.get(f"/v1/trainings/{things.training}").json()
            assert (found["state"], found["progress"], found["code"]) == ("released", 1, None)
            assert found["policy"] == things.policy
            # An ended training's events are its last state, once, without the request that it was.
            told = services.events(analyst, things.training)
            assert told == [{name: found[name] for name in told[0]}]
            assert {"id", "state", "progress", "policy", "code"} <= set(told[0])

    def test_its_events_tell_every_change(self, hospital: Hospital) -> None:
        made = services.submit(hospital.analyst, hospital.own.dataset, "events").json()["id"]
        seen = services.events(hospital.analyst, made)
        states = [event["state"] for event in seen]
        order = ["queued", "running", "released"]
        assert states == sorted(states, key=order.index)
        assert states[-1] == "released"
        progress = [event["progress"] for event in seen]
        assert progress == sorted(progress)
        assert progress[-1] == 1
        assert {event["id"] for event in seen} == {made}
        found = hospital.analyst.get(f"/v1/trainings/{made}").json()
        assert seen[-1] == {name: found[name] for name in seen[-1]}

    def test_its_events_are_server_sent(self, hospital: Hospital) -> None:
        answer = hospital.analyst.get(f"/v1/trainings/{hospital.own.training}/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.text.split("\n")
        assert lines[0] == "event: training"
        assert lines[1].startswith("data: {")
        assert answer.text.endswith("\n\n")

    def test_with_a_known_reward_and_a_pure_epsilon_is_released(self, hospital: Hospital) -> None:
        parameters = {"reward": {"table": [[0.1, 0.2]] * 4}, "pessimism": "hoeffding", "dynamics": "per_step"}
        body = training(privacy={"pure_epsilon": "0.5"}, parameters=parameters)
        made = services.submit(hospital.analyst, hospital.own.dataset, "pure", body).json()
        assert made["rho"] == "0.125"
        assert services.ended(hospital.analyst, made["id"])["state"] == "released"

    def test_whose_data_cannot_be_read_fails_with_one_code_and_is_paid_for(self, hospital: Hospital) -> None:
        analyst, before = hospital.service.key("analyst"), services.stored(hospital.service)
        dataset = services.ready_dataset(hospital.custodian, units=20)
        services.grant(hospital.custodian, dataset, analyst)
        (folder,) = services.stored(hospital.service) - before
        (hospital.service.folder / "data" / "datasets" / folder / "0000.parquet").write_bytes(b"torn")
        made = services.submit(analyst, dataset).json()["id"]
        found = services.ended(analyst, made)
        assert (found["state"], found["code"], found["policy"]) == ("failed", "training_failed", None)
        budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
        assert (budget["charged"], budget["reserved"]) == ("0.5", "0")
        services.refused(analyst.delete(f"/v1/trainings/{made}"), 409, "training_ended")
        answer = analyst.post(f"/v1/trainings/{made}/policies", json={"parameters": {}})
        services.refused(answer, 409, "nothing_released")


class TestCancelling:
    def test_one_that_has_ended_is_refused(self, hospital: Hospital) -> None:
        answer = hospital.analyst.delete(f"/v1/trainings/{hospital.own.training}")
        services.refused(answer, 409, "training_ended")
        assert hospital.analyst.get(f"/v1/trainings/{hospital.own.training}").json()["state"] == "released"

    def test_one_that_runs_gives_nothing_back(self, hospital: Hospital) -> None:
        analyst = hospital.service.key("analyst")
        dataset = hospitals.slow_dataset(hospital.custodian, rho="2")
        services.grant(hospital.custodian, dataset, analyst, "1")
        made = services.submit(analyst, dataset).json()["id"]
        path = f"/v1/trainings/{made}"
        services.wait_until(lambda: analyst.get(path).json()["state"] == "running", 60)
        assert analyst.delete(path).json()["state"] == "cancelled"
        services.refused(analyst.delete(path), 409, "training_ended")
        budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
        assert (budget["charged"], budget["reserved"], budget["remaining"]) == ("0.5", "0", "1.5")
        assert budget["grant"]["remaining"] == "0.5"
        assert services.events(analyst, made)[-1]["state"] == "cancelled"
        found = analyst.get(path).json()
        assert (found["policy"], found["code"]) == (None, None)
        # The worker finds out, and the next training is not kept waiting by the one that was cancelled.
        second = services.submit(hospital.analyst, hospital.own.dataset, "after").json()["id"]
        assert services.ended(hospital.analyst, second)["state"] == "released"

    def test_with_its_dataset_gives_nothing_back_either_if_it_runs(self, hospital: Hospital) -> None:
        analyst = hospital.service.key("analyst")
        dataset = hospitals.slow_dataset(hospital.custodian)
        services.grant(hospital.custodian, dataset, analyst)
        made = services.submit(analyst, dataset).json()["id"]
        services.wait_until(lambda: analyst.get(f"/v1/trainings/{made}").json()["state"] == "running", 60)
        assert hospital.custodian.delete(f"/v1/datasets/{dataset}").json()["state"] == "retired"
        assert analyst.get(f"/v1/trainings/{made}").json()["state"] == "cancelled"
        assert hospital.custodian.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0.5"
