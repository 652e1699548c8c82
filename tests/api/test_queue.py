"""What happens to trainings before they start: on a service without a worker, where they wait as long as it takes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import services
from tests.api import wards
from tests.api.wards import Ward
from tests.services import APVI, Service


@pytest.fixture
def ward(unattended: Service) -> Ward:
    return wards.build(unattended, "2", "1")


class TestIdempotency:
    def test_without_a_key_it_is_refused(self, ward: Ward) -> None:
        body = APVI | {"dataset": ward.dataset}
        services.refused(ward.analyst.post("/v1/trainings", json=body), 400, "no_idempotency_key")
        services.refused(services.submit(ward.analyst, ward.dataset, ""), 400, "no_idempotency_key")
        assert ward.budget()["reserved"] == "0"

    @pytest.mark.parametrize("key", ["x" * 201, "a\tb", "é"])
    def test_a_key_that_cannot_be_kept_is_refused(self, key: str, ward: Ward) -> None:
        headers = {"Idempotency-Key": key.encode("latin-1")}
        answer = ward.analyst.post("/v1/trainings", json=APVI | {"dataset": ward.dataset}, headers=headers)
        services.refused(answer, 422, "invalid_request")

    def test_the_same_key_and_body_give_the_same_training(self, ward: Ward) -> None:
        first, second = (services.submit(ward.analyst, ward.dataset, "k" * 200) for _ in range(2))
        assert (second.status_code, second.json()) == (first.status_code, first.json())
        assert second.headers["location"] == first.headers["location"]
        assert ward.budget()["reserved"] == "0.5"

    def test_the_same_body_in_other_words_is_the_same(self, ward: Ward) -> None:
        first = services.submit(ward.analyst, ward.dataset).json()
        words = APVI | {"privacy": {"rho": "0.50"}, "parameters": {"c2": 0.0, "c1": 0.5, "dynamics": "per_step"}}
        assert services.submit(ward.analyst, ward.dataset, body=words).json() == first

    def test_the_same_key_with_another_body_is_refused(self, ward: Ward) -> None:
        assert services.submit(ward.analyst, ward.dataset).status_code == 202
        other = APVI | {"privacy": {"rho": "0.25"}}
        services.refused(services.submit(ward.analyst, ward.dataset, body=other), 409, "idempotency_conflict")
        assert ward.budget()["reserved"] == "0.5"

    def test_a_key_is_its_owners_own(self, ward: Ward) -> None:
        second = ward.service.key("analyst")
        services.grant(ward.custodian, ward.dataset, second)
        first = services.submit(ward.analyst, ward.dataset).json()["id"]
        assert services.submit(second, ward.dataset).json()["id"] != first

    def test_a_refusal_does_not_use_the_key_up(self, ward: Ward) -> None:
        large = APVI | {"privacy": {"rho": "1.5"}}
        services.refused(services.submit(ward.analyst, ward.dataset, body=large), 402, "grant_exhausted")
        assert services.submit(ward.analyst, ward.dataset).status_code == 202

    @pytest.mark.parametrize("cap", ["100", "0.5"])
    def test_eight_at_once_are_one_training_and_one_reservation(self, cap: str, unattended: Service) -> None:
        """Also when there is enough for one only: the others are not told that nothing is left."""
        ward = wards.build(unattended, "0.5" if cap == "100" else "2", cap)
        clients = [ward.service.client(ward.analyst.token) for _ in range(8)]
        for client in clients:
            assert client.get("/v1/datasets").status_code == 200  # connected
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda client: services.submit(client, ward.dataset), clients))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert ward.budget()["reserved"] == "0.5"
        assert [row["kind"] for row in ward.rows()] == ["open", "reserve"]

    def test_of_two_bodies_at_once_one_is_refused(self, ward: Ward) -> None:
        clients = [ward.service.client(ward.analyst.token) for _ in range(4)]
        bodies = [APVI | {"privacy": {"rho": rho}} for rho in ("0.1", "0.2", "0.1", "0.2")]
        with ThreadPoolExecutor(4) as pool:
            sent = pool.map(lambda n: services.submit(clients[n], ward.dataset, body=bodies[n]), range(4))
        assert sorted(answer.status_code for answer in sent) == [202, 202, 409, 409]
        assert ward.budget()["reserved"] in ("0.1", "0.2")


class TestWhatIsLeft:
    def test_past_the_grant_a_training_is_refused(self, ward: Ward) -> None:
        services.submit(ward.analyst, ward.dataset)
        problem = services.refused(
            services.submit(ward.analyst, ward.dataset, "2", APVI | {"privacy": {"rho": "0.500000001"}}),
            402,
            "grant_exhausted",
        )
        assert problem["remaining"] == "0.5"
        assert services.submit(ward.analyst, ward.dataset, "3").status_code == 202
        problem = services.refused(services.submit(ward.analyst, ward.dataset, "4"), 402, "grant_exhausted")
        assert problem["remaining"] == "0"
        assert ward.budget()["remaining"] == "1"

    def test_past_the_budget_a_training_is_refused(self, unattended: Service) -> None:
        ward = wards.build(unattended, "0.7", "100")
        services.submit(ward.analyst, ward.dataset)
        problem = services.refused(services.submit(ward.analyst, ward.dataset, "2"), 402, "budget_exhausted")
        assert problem["remaining"] == "0.2"
        grant = ward.analyst.get(f"/v1/datasets/{ward.dataset}/budget").json()["grant"]
        assert grant["used"] == "0.5"  # the refused one took nothing of it
        plan = ward.analyst.post("/v1/plans", json=APVI | {"dataset": ward.dataset}).json()
        assert plan["trainings_left"] == 0

    def test_tenths_add_up_exactly(self, unattended: Service) -> None:
        ward = wards.build(unattended, "0.3", "0.3")
        for key, rho in (("1", "0.1"), ("2", "0.2")):
            body = APVI | {"privacy": {"rho": rho}}
            assert services.submit(ward.analyst, ward.dataset, key, body).status_code == 202
        assert ward.budget()["remaining"] == "0"

    def test_a_budget_cannot_fall_below_what_is_reserved(self, ward: Ward) -> None:
        services.submit(ward.analyst, ward.dataset)
        population = ward.custodian.get(f"/v1/datasets/{ward.dataset}").json()["population"]
        path = f"/v1/populations/{population}/budget"
        low = {"rho": "0.4", "reason": "less"}
        services.refused(ward.custodian.patch(path, json=low), 409, "budget_in_use")
        assert ward.custodian.patch(path, json=low | {"rho": "0.5"}).json()["remaining"] == "0"


class TestCancelling:
    def test_before_the_start_the_reservation_comes_back(self, ward: Ward) -> None:
        made = services.submit(ward.analyst, ward.dataset).json()["id"]
        assert ward.budget()["reserved"] == "0.5"
        answer = ward.analyst.delete(f"/v1/trainings/{made}")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        budget = ward.analyst.get(f"/v1/datasets/{ward.dataset}/budget").json()
        assert (budget["reserved"], budget["charged"], budget["remaining"]) == ("0", "0", "2")
        assert budget["grant"]["used"] == "0"
        rows = ward.rows()
        assert [row["kind"] for row in rows] == ["open", "reserve", "give_back"]
        assert (rows[2]["training"], rows[2]["rho"], rows[2]["actor"]) == (made, "0.5", ward.analyst.id)
        services.refused(ward.analyst.delete(f"/v1/trainings/{made}"), 409, "training_ended")
        assert len(ward.rows()) == 3

    def test_its_key_still_names_it_afterwards(self, ward: Ward) -> None:
        made = services.submit(ward.analyst, ward.dataset).json()["id"]
        ward.analyst.delete(f"/v1/trainings/{made}")
        again = services.submit(ward.analyst, ward.dataset).json()
        assert (again["id"], again["state"]) == (made, "cancelled")

    def test_eight_at_once_give_back_once(self, ward: Ward) -> None:
        made = services.submit(ward.analyst, ward.dataset).json()["id"]
        clients = [ward.service.client(ward.analyst.token) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda client: client.delete(f"/v1/trainings/{made}"), clients))
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
        assert [row["kind"] for row in ward.rows()] == ["open", "reserve", "give_back"]

    def test_one_without_a_policy_cannot_be_derived_from(self, ward: Ward) -> None:
        made = services.submit(ward.analyst, ward.dataset).json()["id"]
        answer = ward.analyst.post(f"/v1/trainings/{made}/policies", json={"parameters": {}})
        services.refused(answer, 409, "nothing_released")


class TestEvents:
    def test_end_when_the_key_is_revoked(self, ward: Ward) -> None:
        made = services.submit(ward.analyst, ward.dataset).json()["id"]
        with ward.analyst.stream("GET", f"/v1/trainings/{made}/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: training"
            assert '"queued"' in next(lines)
            assert ward.service.admin.delete(f"/v1/keys/{ward.analyst.id}").status_code == 200
            assert [line for line in lines if line] == []  # to the end, which comes without another event

    def test_tell_of_a_cancellation_and_end(self, ward: Ward) -> None:
        made = services.submit(ward.analyst, ward.dataset).json()["id"]
        with ward.custodian.stream("GET", f"/v1/trainings/{made}/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            ward.analyst.delete(f"/v1/trainings/{made}")
            told = [line for line in lines if line.startswith("data: ")]
        assert '"queued"' in told[0]
        assert '"cancelled"' in told[-1]


class TestRetiring:
    def test_deletes_the_data_and_cancels_what_waits(self, unattended: Service) -> None:
        before = services.stored(unattended)
        ward = wards.build(unattended, "2", "2")
        assert len(services.stored(unattended) - before) == 1
        made = [services.submit(ward.analyst, ward.dataset, key).json()["id"] for key in ("1", "2", "3")]
        ward.analyst.delete(f"/v1/trainings/{made[2]}")
        answer = ward.custodian.delete(f"/v1/datasets/{ward.dataset}")
        assert (answer.status_code, answer.json()["state"]) == (200, "retired")
        assert services.stored(unattended) == before
        for training in made:
            assert ward.analyst.get(f"/v1/trainings/{training}").json()["state"] == "cancelled"
        budget = ward.budget()
        assert (budget["reserved"], budget["charged"], budget["remaining"]) == ("0", "0", "2")
        kinds = [row["kind"] for row in ward.rows()]
        assert kinds == ["open", *["reserve"] * 3, *["give_back"] * 3]

    def test_a_second_time_changes_nothing(self, ward: Ward) -> None:
        answers = [ward.custodian.delete(f"/v1/datasets/{ward.dataset}") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json() == answers[1].json()

    def test_an_empty_one_is_retired_too(self, ward: Ward) -> None:
        empty = services.new_dataset(ward.custodian)
        assert ward.custodian.delete(f"/v1/datasets/{empty}").json()["state"] == "retired"
        services.refused(services.upload(ward.custodian, empty, services.csv(3)), 409, "dataset_not_empty")

    def test_nothing_is_trained_or_uploaded_afterwards(self, ward: Ward) -> None:
        before = services.submit(ward.analyst, ward.dataset).json()["id"]
        ward.custodian.delete(f"/v1/datasets/{ward.dataset}")
        services.refused(services.submit(ward.analyst, ward.dataset, "2"), 409, "dataset_not_ready")
        plan = ward.analyst.post("/v1/plans", json=APVI | {"dataset": ward.dataset})
        services.refused(plan, 409, "dataset_not_ready")
        services.refused(services.upload(ward.custodian, ward.dataset, services.csv(3)), 409, "dataset_not_empty")
        # What was accepted once is answered again.
        assert services.submit(ward.analyst, ward.dataset).json()["id"] == before

    def test_what_is_retired_can_still_be_read_about(self, ward: Ward) -> None:
        ward.custodian.delete(f"/v1/datasets/{ward.dataset}")
        found = ward.analyst.get(f"/v1/datasets/{ward.dataset}").json()
        assert (found["state"], found["units"]) == ("retired", 20)
        assert ward.dataset in {one["id"] for one in services.pages(ward.custodian, "/v1/datasets", limit=1000)}
        assert [row["kind"] for row in ward.rows()] == ["open"]
