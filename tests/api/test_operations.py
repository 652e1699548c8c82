"""Health, readiness, metrics, documentation without a network, the pace of requests, and addresses that are none."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from discretion import errors
from discretion.api import app
from discretion.api import service as pacing
from tests import services
from tests.api.hospital import METRICS_TOKEN, Hospital
from tests.services import Service

COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"


class TestHealth:
    def test_needs_no_token(self, service: Service) -> None:
        answer = service.client(None).get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    def test_readiness_names_what_was_checked(self, service: Service) -> None:
        answer = service.client(None).get("/readyz")
        assert answer.status_code == 200
        assert answer.json() == {"status": "ready", "database": True, "store": True, "ledger": True}

    def test_a_store_that_cannot_be_written_is_not_ready(self, small: Service) -> None:
        store = small.folder / "data" / "datasets"
        moved = store.rename(store.with_name("elsewhere"))
        try:
            answer = small.client(None).get("/readyz")
        finally:
            moved.rename(store)
        assert answer.status_code == 503
        assert (answer.json()["status"], answer.json()["store"]) == ("not ready", False)
        # What was found is believed for nine times as long as it took to find.
        services.wait_until(lambda: small.client(None).get("/readyz").status_code == 200, 30)


class TestMetrics:
    def test_are_not_for_everybody(self, hospital: Hospital) -> None:
        services.refused(hospital.service.client(None).get("/metrics"), 401, "unauthenticated")
        services.refused(hospital.service.client("dk_nonsense").get("/metrics"), 401, "unauthenticated")
        for role in ("custodian", "analyst", "auditor"):
            services.refused(hospital.of(role).get("/metrics"), 403, "forbidden")

    def test_count_answers_by_route_and_never_by_id(self, hospital: Hospital) -> None:
        hospital.analyst.get(f"/v1/datasets/{hospital.own.dataset}")
        hospital.analyst.get("/v1/datasets/ds_canary")
        hospital.analyst.get("/canary")
        answer = hospital.admin.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        for status in (200, 404):
            line = f'discretion_responses_total{{route="/v1/datasets/{{dataset}}",status="{status}"}} '
            assert line in answer.text
        assert "canary" not in answer.text
        assert not re.search(r"(ds|tr|pol|pop|key|gr)_[A-Za-z0-9]{22}", answer.text)
        for name in ('discretion_trainings{state="released"}', 'discretion_datasets{state="ready"}'):
            assert name in answer.text
        assert "discretion_ledger_intact 1" in answer.text

    def test_take_a_token_of_their_own(self, small: Service) -> None:
        assert small.client(METRICS_TOKEN).get("/metrics").status_code == 200
        services.refused(small.client(METRICS_TOKEN + "x").get("/metrics"), 401, "unauthenticated")
        services.refused(small.client(METRICS_TOKEN).get("/v1/keys"), 401, "unauthenticated")


class TestDocumentation:
    def test_is_served_with_everything_it_needs(self, service: Service) -> None:
        client = service.client(None)
        page = client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        local = [urljoin("/docs", part) for part in parts if not part.startswith("data:")]
        assert len(local) == 3
        for path in local:
            answer = client.get(path)
            assert (answer.status_code, len(answer.content) > 50) == (200, True), path
        for text in (page.text, client.get("/docs/start.js").text):
            assert not re.search(r"(?:https?:)?//", text.replace("<!doctype", ""))

    def test_forbids_the_browser_to_fetch_from_elsewhere(self, service: Service) -> None:
        policy = service.client(None).get("/docs").headers["content-security-policy"]
        assert policy.startswith("default-src 'self'")
        assert "http" not in policy

    @pytest.mark.parametrize("asset", ["favicon.png", "..%2f..%2fapp.py", "redoc.standalone.js", "__init__.py"])
    def test_serves_nothing_else(self, asset: str, service: Service) -> None:
        services.refused(service.client(None).get(f"/docs/{asset}"), 404, "not_found")

    def test_the_committed_document_is_the_services_own(self, service: Service) -> None:
        served = service.client(None).get("/openapi.json").json()
        assert served == json.loads(COMMITTED.read_text(encoding="utf-8")), (
            "The API has changed: run `discretion openapi > openapi/openapi.json` and commit the file."
        )

    def test_points_at_nothing_that_is_missing(self) -> None:
        document = app.bare().openapi()
        for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)):
            assert name in document["components"]["schemas"]

    def test_documents_every_refusal_as_problem_details(self) -> None:
        for path, operations in app.bare().openapi()["paths"].items():
            for method, operation in operations.items():
                for status, answer in operation["responses"].items():
                    if int(status) >= 400 and path != "/readyz":
                        assert set(answer["content"]) == {"application/problem+json"}, (method, path, status)


class TestAnAddressThatIsNone:
    @pytest.mark.parametrize(
        "path",
        ["/assets", "/v1", "/v2/datasets", "/v1/nothing", "/v1/datasets/", "/docs/x/y", "/%00", "/v1/datasets/a/b/c"],
    )
    def test_is_not_found(self, path: str, hospital: Hospital) -> None:
        for client in (hospital.service.client(None), hospital.admin):
            services.refused(client.get(path), 404, "not_found")

    @pytest.mark.parametrize(
        ("method", "path"), [("PUT", "/v1/keys"), ("DELETE", "/healthz"), ("PATCH", "/v1/datasets"), ("POST", "/docs")]
    )
    def test_does_not_take_another_method(self, method: str, path: str, hospital: Hospital) -> None:
        answer = hospital.admin.request(method, path)
        services.refused(answer, 405, "method_not_allowed")
        assert answer.headers["allow"]

    def test_every_answer_forbids_sniffing_and_storing(self, hospital: Hospital) -> None:
        client = hospital.service.client(None)
        for path in ("/healthz", "/v1/datasets", "/nothing", "/docs", "/v1/certificate-keys"):
            answer = client.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that takes five requests a second, and one upload at a time."""
    folder = tmp_path_factory.mktemp("slow")
    with services.serve(folder, requests_per_second=5, uploads=1, workers=0) as running:
        yield running


class TestThePace:
    def test_whoever_is_too_fast_is_told_when_to_come_back(self, slow: Service) -> None:
        """The bucket refills while they ask: it takes some more than five, and asking on does not keep it empty."""
        hurried, calm = slow.key("auditor"), slow.key("auditor")
        for _ in range(1000):
            answer = hurried.get("/v1/policies")
            if answer.status_code != 200:
                break
        services.refused(answer, 429, "too_many_requests")
        assert int(answer.headers["retry-after"]) >= 1
        assert calm.get("/v1/policies").status_code == 200  # each key has its own
        services.wait_until(lambda: hurried.get("/v1/policies").status_code == 200)

    def test_strangers_are_slowed_down_too(self, slow: Service) -> None:
        stranger = slow.client("dk_guess")
        for _ in range(1000):
            answer = stranger.get("/v1/policies")
            if answer.status_code != 401:
                break
        services.refused(answer, 429, "too_many_requests")
        assert slow.client(None).get("/healthz").status_code == 200

    def test_more_uploads_at_once_than_are_allowed_have_to_wait(self, slow: Service) -> None:
        custodian = slow.key("custodian")
        first, second = services.new_dataset(custodian), services.new_dataset(custodian)
        with services.sending(slow, custodian, first, services.csv(1)):
            answer = services.upload(custodian, second, services.csv(3))
        services.refused(answer, 429, "too_many_requests")
        assert int(answer.headers["retry-after"]) >= 1
        services.wait_until(lambda: services.upload(custodian, second, services.csv(3)).status_code == 201)

    def test_a_crowd_of_names_sets_nobody_free(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 0.0
        monkeypatch.setattr("discretion.api.service.time.monotonic", lambda: now)
        pace = pacing.Pace(1)
        pace.check("hurried")
        for number in range(10_100):
            pace.check(f"address {number}")
        with pytest.raises(errors.TooManyRequests):
            pace.check("hurried")
        now = 1.0
        pace.check("hurried")
        assert len(pace._buckets) == 1  # the others' are full again

    def test_a_hundred_a_second_are_never_too_many_by_default(self, small: Service) -> None:
        client = small.key("auditor")
        answers = {client.get("/v1/policies").status_code for _ in range(100)}
        assert answers == {200}
