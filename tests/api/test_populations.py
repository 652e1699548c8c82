"""Populations: how a budget is stated, changed and shown."""

from fractions import Fraction
from typing import Any

import pytest

from discretion.privacy import rho
from tests import services
from tests.api.hospital import Hospital


def new(hospital: Hospital, budget: dict[str, Any], name: str = "stroke unit") -> Any:
    return hospital.custodian.post("/v1/populations", json={"name": name, "budget": budget})


def change(hospital: Hospital, population: str, rho: str, reason: str = "the board agreed") -> Any:
    return hospital.custodian.patch(f"/v1/populations/{population}/budget", json={"rho": rho, "reason": reason})


class TestMakingOne:
    def test_its_budget_may_be_a_rho(self, hospital: Hospital) -> None:
        answer = new(hospital, {"rho": "2"})
        assert answer.status_code == 201
        made = answer.json()
        assert made["id"].startswith("pop_")
        assert (made["name"], made["owner"]) == ("stroke unit", hospital.custodian.id)
        budget = made["budget"]
        assert [budget[name] for name in ("total", "charged", "reserved", "remaining")] == ["2", "0", "0", "2"]
        assert [line["delta"] for line in budget["epsilon"]] == [1e-5, 1e-6, 1e-9]
        assert hospital.custodian.get(f"/v1/populations/{made['id']}").json() == made

    def test_its_head_is_put_where_a_restore_cannot_take_it_back(self, hospital: Hospital) -> None:
        """From its first row on, with a dataset or without."""
        own = services.new_dataset(hospital.custodian)
        of_a_dataset = hospital.custodian.get(f"/v1/datasets/{own}").json()["population"]
        kept = {path.name for path in (hospital.service.folder / "data" / "heads").iterdir()}
        alone = new(hospital, {"rho": "2"}).json()["id"]
        added = {path.name for path in (hospital.service.folder / "data" / "heads").iterdir()} - kept
        assert f"{of_a_dataset}.000000000001.json" in kept
        assert added == {f"{alone}.000000000001.json"}

    def test_its_epsilon_is_the_tight_one(self, hospital: Hospital) -> None:
        shown = new(hospital, {"rho": "1"}).json()["budget"]["epsilon"]
        assert [round(line["total"], 3) for line in shown] == pytest.approx([7.077, 7.766, 9.521], abs=0.0011)
        assert [line["charged"] for line in shown] == [0, 0, 0]

    @pytest.mark.parametrize("budget", [{"epsilon": 4, "delta": 1e-6}, {"epsilon": "4", "delta": "0.000001"}], ids=str)
    def test_its_budget_may_be_an_epsilon_with_a_delta(self, budget: dict[str, Any], hospital: Hospital) -> None:
        """The largest ρ that implies them: one nano-ρ more would not."""
        total = Fraction(new(hospital, budget).json()["budget"]["total"])
        delta = Fraction(1, 10**6)
        assert rho.epsilon(total, delta) <= 4 < rho.epsilon(total + Fraction(1, 10**9), delta)

    @pytest.mark.parametrize(
        "budget",
        [
            {},
            {"epsilon": 4},
            {"delta": 1e-6},
            {"rho": "1", "epsilon": 4, "delta": 1e-6},
            {"pure_epsilon": 1},
            {"epsilon": 0, "delta": 1e-6},
            {"epsilon": -1, "delta": 1e-6},
            {"epsilon": 1e999, "delta": 1e-6},
            {"epsilon": 1, "delta": 0},
            {"epsilon": 1, "delta": 1},
            {"epsilon": "NaN", "delta": "0.1"},
            {"epsilon": "1e9999", "delta": "0.1"},
            {"epsilon": 10**400, "delta": 0.1},
            {"epsilon": True, "delta": 0.1},
            {"epsilon": [1], "delta": 0.1},
            {"epsilon": 1e-12, "delta": 1e-12},
        ],
        ids=lambda budget: str(budget)[:60],
    )
    def test_a_budget_that_means_nothing_is_refused(self, budget: dict[str, Any], hospital: Hospital) -> None:
        # Written by hand: the client's own JSON would refuse to send an infinite number.
        body = '{"name": "icu", "budget": ' + repr(budget).replace("'", '"').replace("inf", "1e999") + "}"
        body = body.replace("True", "true")
        answer = hospital.custodian.post("/v1/populations", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] in ("invalid_privacy", "invalid_request")

    @pytest.mark.parametrize("name", ["", "   ", "x" * 201, "a\nb", "\u200b", 5, None], ids=repr)
    def test_a_name_that_nobody_could_read_is_refused(self, name: Any, hospital: Hospital) -> None:
        assert new(hospital, {"rho": "1"}, name).status_code == 422

    @pytest.mark.parametrize("name", ["Überwachung 重症", "x" * 200, "' OR 1=1 --", "<b>icu</b>"])
    def test_any_readable_name_is_kept_as_it_is(self, name: str, hospital: Hospital) -> None:
        assert new(hospital, {"rho": "1"}, name).json()["name"] == name


class TestChangingABudget:
    def test_it_may_rise_and_fall_and_the_reasons_stay(self, hospital: Hospital) -> None:
        dataset = services.new_dataset(hospital.custodian, rho="2")
        population = hospital.custodian.get(f"/v1/datasets/{dataset}").json()["population"]
        assert change(hospital, population, "3", "more patients").json()["total"] == "3"
        assert change(hospital, population, "0.5", "less is enough").json()["remaining"] == "0.5"
        rows = services.pages(hospital.custodian, f"/v1/datasets/{dataset}/ledger")
        assert [(row["kind"], row["rho"], row["reason"]) for row in rows] == [
            ("open", "2", None),
            ("adjust", "1", "more patients"),
            ("adjust", "-2.5", "less is enough"),
        ]
        assert {row["actor"] for row in rows} == {hospital.custodian.id}
        assert rows[2]["previous_hash"] == rows[1]["hash"]

    def test_below_what_is_used_it_cannot_fall(self, hospital: Hospital) -> None:
        before = hospital.custodian.get(f"/v1/populations/{hospital.foreign.population}")
        services.refused(before, 404, "not_found")
        used = hospital.stranger.get(f"/v1/populations/{hospital.foreign.population}").json()["budget"]
        path = f"/v1/populations/{hospital.foreign.population}/budget"
        low = {"rho": "0.499999999", "reason": "too low"}
        services.refused(hospital.stranger.patch(path, json=low), 409, "budget_in_use")
        assert hospital.stranger.get(path.removesuffix("/budget")).json()["budget"] == used
        exact = hospital.stranger.patch(path, json={"rho": used["charged"], "reason": "all of it is used"}).json()
        assert exact["remaining"] == "0"
        assert hospital.stranger.patch(path, json={"rho": "100", "reason": "as before"}).status_code == 200

    @pytest.mark.parametrize("reason", ["", "   ", "x" * 501, None, 1], ids=repr)
    def test_without_a_reason_it_is_refused(self, reason: Any, hospital: Hospital) -> None:
        answer = change(hospital, hospital.own.population, "100", reason)
        assert answer.status_code == 422
        without = hospital.custodian.patch(f"/v1/populations/{hospital.own.population}/budget", json={"rho": "100"})
        services.refused(without, 422, "invalid_request")
