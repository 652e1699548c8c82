"""What each reader's lists and ledgers hold, and what is left to a reader whose grant was revoked."""

import pytest

from tests import services
from tests.api.hospital import Hospital
from tests.services import Client


def listed(client: Client, noun: str) -> set[str]:
    return {item["id"] for item in services.pages(client, f"/v1/{noun}", limit=1000)}


def movers(client: Client, dataset: str) -> set[str]:
    rows = services.pages(client, f"/v1/datasets/{dataset}/ledger", limit=1000)
    return {row["training"] for row in rows if row["training"] is not None}


class TestAnAnalyst:
    def test_lists_granted_datasets_only(self, hospital: Hospital) -> None:
        own, foreign, linear = (made.dataset for made in (hospital.own, hospital.foreign, hospital.linear))
        found = listed(hospital.analyst, "datasets"), listed(hospital.other, "datasets")
        assert [{own, foreign, linear} & datasets for datasets in found] == [{own, linear}, {own, foreign}]

    @pytest.mark.parametrize("kind", ["training", "policy"])
    def test_lists_and_reads_own_trainings_and_policies_only(self, kind: str, hospital: Hospital) -> None:
        noun = {"training": "trainings", "policy": "policies"}[kind]
        own, linear, beside = (getattr(made, kind) for made in (hospital.own, hospital.linear, hospital.beside))
        found = listed(hospital.analyst, noun)
        assert {own, linear} <= found
        assert beside not in found
        services.refused(hospital.analyst.get(f"/v1/{noun}/{beside}"), 404, "not_found")
        assert hospital.other.get(f"/v1/{noun}/{beside}").status_code == 200

    def test_sees_own_rows_of_a_shared_ledger_only(self, hospital: Hospital) -> None:
        mine = movers(hospital.analyst, hospital.own.dataset)
        theirs = movers(hospital.other, hospital.own.dataset)
        assert hospital.own.training in mine
        assert hospital.beside.training in theirs
        assert not mine & theirs
        kinds = {row["kind"] for row in services.pages(hospital.other, f"/v1/datasets/{hospital.own.dataset}/ledger")}
        assert kinds == {"reserve", "charge"}

    def test_whose_grant_was_revoked_finds_the_dataset_no_more(self, hospital: Hospital) -> None:
        analyst, own = hospital.service.key("analyst"), hospital.own.dataset
        grant = services.grant(hospital.custodian, own, analyst)
        training = services.submit(analyst, own).json()["id"]
        assert services.ended(analyst, training)["state"] == "released"
        answer = hospital.custodian.delete(f"/v1/datasets/{own}/grants/{grant}")
        assert answer.json()["revoked"] is True
        for path in (own, f"{own}/budget", f"{own}/ledger"):
            services.refused(analyst.get(f"/v1/datasets/{path}"), 404, "not_found")
        assert listed(analyst, "datasets") == set()
        body = services.APVI | {"dataset": own}
        services.refused(analyst.post("/v1/plans", json=body), 404, "not_found")
        services.refused(services.submit(analyst, own, key="2"), 404, "not_found")
        services.refused(services.submit(analyst, own), 404, "not_found")
        services.refused(analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": {}}), 404, "not_found")
        # What was released before stays the analyst's.
        policy = analyst.get(f"/v1/trainings/{training}").json()["policy"]
        assert analyst.get(f"/v1/policies/{policy}").status_code == 200

    def test_of_one_dataset_gets_nothing_of_another_in_the_same_population(self, hospital: Hospital) -> None:
        body = {"name": "subset", "population": hospital.own.population} | services.TABULAR
        second = hospital.custodian.post("/v1/datasets", json=body).json()["id"]
        services.refused(hospital.analyst.get(f"/v1/datasets/{second}"), 404, "not_found")
        services.refused(hospital.analyst.get(f"/v1/datasets/{second}/ledger"), 404, "not_found")


class TestACustodian:
    @pytest.mark.parametrize("noun", ["populations", "datasets", "trainings", "policies"])
    def test_lists_own_things_only(self, noun: str, hospital: Hospital) -> None:
        kind = {"policies": "policy"}.get(noun, noun[:-1])
        mine, theirs = listed(hospital.custodian, noun), listed(hospital.stranger, noun)
        assert {getattr(made, kind) for made in (hospital.own, hospital.beside, hospital.linear)} <= mine
        assert getattr(hospital.foreign, kind) in theirs
        assert not mine & theirs

    def test_cannot_put_a_dataset_into_somebody_elses_population(self, hospital: Hospital) -> None:
        body = {"name": "icu", "population": hospital.foreign.population} | services.TABULAR
        services.refused(hospital.custodian.post("/v1/datasets", json=body), 404, "not_found")

    def test_sees_every_row_of_the_ledger(self, hospital: Hospital) -> None:
        assert {hospital.own.training, hospital.beside.training} <= movers(hospital.custodian, hospital.own.dataset)


class TestAnAuditor:
    def test_reads_every_ledger(self, hospital: Hospital) -> None:
        ledgers = {one["population"]: one for one in services.pages(hospital.auditor, "/v1/ledgers", limit=1000)}
        every = services.pages(hospital.admin, "/v1/populations", limit=1000)
        budgets = {one["id"]: one["budget"] for one in every}
        for things in (hospital.own, hospital.foreign, hospital.linear):
            assert things.dataset in ledgers[things.population]["datasets"]
            assert ledgers[things.population]["intact"] is True
            assert ledgers[things.population]["name"] == "icu"
            assert ledgers[things.population]["budget"] == budgets[things.population]
            rows = services.pages(hospital.auditor, f"/v1/datasets/{things.dataset}/ledger", limit=1000)
            assert rows[0]["kind"] == "open"
            assert things.training in {row["training"] for row in rows}
            assert hospital.auditor.get(f"/v1/datasets/{things.dataset}/ledger/head").status_code == 200

    def test_reads_every_policy_and_certificate(self, hospital: Hospital) -> None:
        every = {made.policy for made in (hospital.own, hospital.foreign, hospital.beside, hospital.linear)}
        assert every <= listed(hospital.auditor, "policies")
        for policy in every:
            assert hospital.auditor.get(f"/v1/policies/{policy}").json()["id"] == policy
            assert hospital.auditor.get(f"/v1/policies/{policy}/certificate").status_code == 200

    def test_reads_every_row_of_the_audit_log(self, hospital: Hospital) -> None:
        rows = services.pages(hospital.auditor, "/v1/audit", limit=1000)
        actors = {row["actor"] for row in rows}
        assert {hospital.custodian.id, hospital.stranger.id, hospital.analyst.id, hospital.other.id} <= actors
        assert rows == services.pages(hospital.admin, "/v1/audit", limit=1000)


class TestAnAdministrator:
    def test_reads_what_things_are_called(self, hospital: Hospital) -> None:
        for noun, kind in (("populations", "population"), ("datasets", "dataset"), ("trainings", "training")):
            assert {getattr(hospital.own, kind), getattr(hospital.foreign, kind)} <= listed(hospital.admin, noun)

    def test_revokes_anybodys_grant(self, hospital: Hospital) -> None:
        analyst = hospital.service.key("analyst")
        grant = services.grant(hospital.stranger, hospital.foreign.dataset, analyst)
        path = f"/v1/datasets/{hospital.foreign.dataset}"
        assert analyst.get(path).status_code == 200
        assert hospital.admin.delete(f"{path}/grants/{grant}").status_code == 200
        services.refused(analyst.get(path), 404, "not_found")
