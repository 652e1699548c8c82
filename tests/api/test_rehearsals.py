"""Rehearsals: the same training on a made-up twin, as often as one likes, for nothing."""

from typing import Any

import pytest

from tests import services
from tests.api.hospital import Hospital

ASKED: dict[str, Any] = services.AUTO | {"privacy": {"rho": "10"}}


def rehearsed(hospital: Hospital, dataset: str, **changes: Any) -> Any:
    return hospital.analyst.post("/v1/rehearsals", json=ASKED | {"dataset": dataset} | changes)


class TestARehearsal:
    @pytest.mark.parametrize("things", ["own", "linear"])
    def test_says_what_would_be_learned_from_the_twin(self, things: str, hospital: Hospital) -> None:
        dataset = getattr(hospital, things).dataset
        found = rehearsed(hospital, dataset).json()
        assert (found["dataset"], found["twin"], found["units"]) == (dataset, 0, 200)
        assert 0 <= found["learned_share"] <= 1
        assert found["chosen"]["by"] == "auto"
        horizon = services.TABULAR["horizon"]
        assert all(0 <= found["value"][name] <= horizon for name in ("behaviour", "policy"))

    def test_costs_nothing(self, hospital: Hospital) -> None:
        path = f"/v1/datasets/{hospital.own.dataset}/ledger"
        before = hospital.analyst.get(path).json()
        assert rehearsed(hospital, hospital.own.dataset).status_code == 200
        assert hospital.analyst.get(path).json() == before

    def test_is_of_public_quantities_only(self, hospital: Hospital) -> None:
        """Two datasets of the same schema and size have the same twins, whoever is in them."""
        other = services.ready_dataset(hospital.custodian, units=200)
        services.grant(hospital.custodian, other, hospital.analyst)
        values = [rehearsed(hospital, dataset).json()["value"] for dataset in (hospital.own.dataset, other)]
        assert values[0]["behaviour"] == values[1]["behaviour"]
        assert values[0]["best"] == values[1]["best"]
        assert rehearsed(hospital, other, twin=1).json()["value"]["best"] != values[0]["best"]
        grant = hospital.custodian.get(f"/v1/datasets/{other}/grants").json()["items"][0]["id"]
        assert hospital.custodian.delete(f"/v1/datasets/{other}/grants/{grant}").status_code == 200

    @pytest.mark.parametrize("change", [{"twin": -1}, {"twin": "x"}, {"seed": 1}, {"parameters": {"seed": 1}}])
    def test_is_refused_like_a_training(self, change: dict[str, Any], hospital: Hospital) -> None:
        assert rehearsed(hospital, hospital.own.dataset, **change).status_code == 422
