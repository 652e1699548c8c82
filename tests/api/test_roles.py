"""Who may do what: every endpoint, as every role, on one's own things, on somebody else's, and on what is not there."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from discretion.api import app
from tests import services
from tests.api.hospital import Hospital
from tests.services import Client

ROLES = ("admin", "custodian", "analyst", "auditor")
CSV = {"content": services.csv(3), "headers": {"Content-Type": "text/csv"}}
TRAINING = {"json": services.APVI | {"dataset": "{dataset}"}}
KEYED = TRAINING | {"headers": {"Idempotency-Key": "matrix"}}
JUDGED = {"json": {"policy": "{policy}", "privacy": {"rho": "0.5"}}, "headers": {"Idempotency-Key": "judged"}}
DATASET = {"json": services.TABULAR | {"name": "icu", "population": "{population}"}}


@dataclass(frozen=True)
class Endpoint:
    """A line of the table of roles, and a request that is well made."""

    method: str
    path: str
    roles: set[str]
    request: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names_something(self) -> bool:
        body = self.request.get("json", {}).values()
        return "{" in self.path or any("{" in value for value in body if isinstance(value, str))

    def ask(self, client: Client, ids: dict[str, str]) -> httpx.Response:
        filled = dict(self.request)
        if "json" in filled:
            filled["json"] = {
                key: value.format_map(ids) if isinstance(value, str) else value for key, value in filled["json"].items()
            }
        with client.stream(self.method, self.path.format_map(ids), **filled) as answer:
            answer.read()
        return answer


# Typed from the contract, so that a change of what the routes themselves say has to be made twice.
EXPECTED = [
    Endpoint("POST", "/v1/populations", {"custodian"}, {"json": {"name": "icu", "budget": {"rho": "1"}}}),
    Endpoint("GET", "/v1/populations", {"custodian", "admin"}),
    Endpoint("GET", "/v1/populations/{population}", {"custodian", "admin"}),
    Endpoint(
        "PATCH", "/v1/populations/{population}/budget", {"custodian"}, {"json": {"rho": "100", "reason": "as it was"}}
    ),
    Endpoint("POST", "/v1/datasets", {"custodian"}, DATASET),
    Endpoint("GET", "/v1/datasets", {"custodian", "analyst", "admin"}),
    Endpoint("GET", "/v1/datasets/{dataset}", {"custodian", "analyst", "admin"}),
    Endpoint("DELETE", "/v1/datasets/{dataset}", {"custodian"}),
    Endpoint("PUT", "/v1/datasets/{dataset}/trajectories", {"custodian"}, CSV),
    Endpoint("GET", "/v1/datasets/{dataset}/budget", {"custodian", "analyst", "admin"}),
    Endpoint("GET", "/v1/datasets/{dataset}/ledger", {"custodian", "analyst", "auditor"}),
    Endpoint("GET", "/v1/datasets/{dataset}/ledger/head", {"custodian", "auditor"}),
    Endpoint("GET", "/v1/ledgers", {"auditor"}),
    Endpoint("POST", "/v1/datasets/{dataset}/grants", {"custodian"}, {"json": {"key": "{holder}", "rho": "1"}}),
    Endpoint("GET", "/v1/datasets/{dataset}/grants", {"custodian", "admin"}),
    Endpoint("GET", "/v1/datasets/{dataset}/grants/{grant}", {"custodian", "admin"}),
    Endpoint("DELETE", "/v1/datasets/{dataset}/grants/{grant}", {"custodian", "admin"}),
    Endpoint("POST", "/v1/plans", {"analyst"}, TRAINING),
    Endpoint("POST", "/v1/trainings", {"analyst"}, KEYED),
    Endpoint("GET", "/v1/trainings", {"custodian", "analyst", "admin"}),
    Endpoint("GET", "/v1/trainings/{training}", {"custodian", "analyst", "admin"}),
    Endpoint("GET", "/v1/trainings/{training}/events", {"custodian", "analyst", "admin"}),
    Endpoint("DELETE", "/v1/trainings/{training}", {"analyst"}),
    Endpoint("POST", "/v1/trainings/{training}/policies", {"analyst"}, {"json": {"parameters": {}}}),
    Endpoint("POST", "/v1/rehearsals", {"analyst"}, TRAINING),
    Endpoint("POST", "/v1/evaluations", {"analyst"}, JUDGED),
    Endpoint("POST", "/v1/evaluations/plans", {"analyst"}, JUDGED),
    Endpoint("GET", "/v1/evaluations", {"custodian", "analyst", "auditor", "admin"}),
    Endpoint("GET", "/v1/evaluations/{evaluation}", {"custodian", "analyst"}),
    Endpoint("GET", "/v1/evaluations/{evaluation}/report", {"custodian", "analyst", "auditor"}),
    Endpoint("GET", "/v1/evaluations/{evaluation}/certificate", {"custodian", "analyst", "auditor"}),
    Endpoint("GET", "/v1/evaluations/{evaluation}/certificate/page", {"custodian", "analyst", "auditor"}),
    Endpoint("DELETE", "/v1/evaluations/{evaluation}", {"analyst"}),
    Endpoint("GET", "/v1/policies", {"custodian", "analyst", "auditor"}),
    Endpoint("GET", "/v1/policies/{policy}", {"custodian", "analyst", "auditor"}),
    Endpoint("GET", "/v1/policies/{policy}/certificate", {"custodian", "analyst", "auditor"}),
    Endpoint("GET", "/v1/policies/{policy}/certificate/page", {"custodian", "analyst", "auditor"}),
    Endpoint(
        "POST",
        "/v1/policies/{policy}/decisions",
        {"custodian", "analyst", "auditor"},
        {"json": {"step": 1, "state": 0}},
    ),
    Endpoint("POST", "/v1/keys", {"admin"}, {"json": {"name": "somebody", "role": "auditor"}}),
    Endpoint("GET", "/v1/keys", {"admin"}),
    Endpoint("DELETE", "/v1/keys/{key}", {"admin"}),
    Endpoint("GET", "/v1/audit", {"admin", "auditor"}),
]
# Sessions are of every role, and have tests of their own: they are asked for by cookie, or by nobody yet.
PUBLIC = {"GET /v1/certificate-keys", "POST /v1/session", "GET /v1/session", "DELETE /v1/session"}
NAMING = [endpoint for endpoint in EXPECTED if endpoint.names_something]

MISSING = {
    "population": "pop_0000000000000000000000",
    "dataset": "ds_0000000000000000000000",
    "grant": "gr_0000000000000000000000",
    "training": "tr_0000000000000000000000",
    "policy": "pol_0000000000000000000000",
    "evaluation": "ev_0000000000000000000000",
    "key": "key_0000000000000000000000",
    "holder": "key_0000000000000000000000",
}
MALFORMED = [
    dict.fromkeys(MISSING, text) | {"holder": MISSING["holder"]}
    for text in ("-", "%00", "%C3%A9", "x" * 2000, "' OR 1=1 --")
]


def _routes(router: Any) -> Iterator[Any]:
    for route in router.routes:
        included = getattr(route, "original_router", None)
        yield from [route] if included is None else _routes(included)


def routed() -> dict[str, list[str] | None]:
    """Every route of version 1 that the application has, and the roles that it says it is for."""
    found = {}
    for route in _routes(app.bare()):
        for method in route.methods if route.path.startswith("/v1/") else ():
            found[f"{method} {route.path}"] = (route.openapi_extra or {}).get("x-roles")
    return found


def ids(things: Any, key: str) -> dict[str, str]:
    return {**things.ids(), "key": key, "holder": key}


def shown(answer: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Everything that an answer says, but for the time of day."""
    return (
        answer.status_code,
        answer.content,
        sorted((k, v) for k, v in answer.headers.multi_items() if k != "date"),
    )


class TestTable:
    def test_every_endpoint_has_a_line(self) -> None:
        assert sorted(routed()) == sorted({*map(str, EXPECTED), *PUBLIC})

    def test_the_routes_say_the_same(self) -> None:
        said = {name: None if roles is None else set(roles) for name, roles in routed().items()}
        assert said == {str(line): line.roles for line in EXPECTED} | dict.fromkeys(PUBLIC)

    def test_the_document_says_the_same(self) -> None:
        paths = app.bare().openapi()["paths"]
        for line in EXPECTED:
            operation = paths[line.path][line.method.lower()]
            assert set(operation["x-roles"]) == line.roles
            assert operation["security"] == [{"bearer": []}]


@pytest.fixture(scope="module")
def strangers(hospital: Hospital) -> list[Client]:
    """Without a token, with one that was never given, with none at all, with a revoked one, and with another scheme."""
    service = hospital.service
    revoked, basic = service.key("admin"), service.client(None)
    assert hospital.admin.delete(f"/v1/keys/{revoked.id}").status_code == 200
    basic.http.headers["Authorization"] = f"Basic {hospital.admin.token}"
    return [service.client(None), service.client("dk_" + "x" * 43), service.client("short"), revoked, basic]


@pytest.mark.parametrize("endpoint", EXPECTED, ids=str)
class TestWithoutAValidToken:
    def test_nobody_comes_in(self, endpoint: Endpoint, hospital: Hospital, strangers: list[Client]) -> None:
        own = ids(hospital.own, hospital.other.id)
        for stranger, things in [(strangers[0], MISSING), *((one, own) for one in strangers)]:
            answer = endpoint.ask(stranger, things)
            services.refused(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("endpoint", EXPECTED, ids=str)
class TestAsAnotherRole:
    def test_it_is_forbidden_whatever_the_id_or_the_body(self, endpoint: Endpoint, hospital: Hospital) -> None:
        own = ids(hospital.own, hospital.other.id)
        others = [ids(hospital.foreign, hospital.other.id), MISSING, *MALFORMED[:3]]
        for role in set(ROLES) - endpoint.roles:
            client = hospital.of(role)
            expected = endpoint.ask(client, own)
            services.refused(expected, 403, "forbidden")
            for things in others if endpoint in NAMING else ():
                assert shown(endpoint.ask(client, things)) == shown(expected)
            unreadable = client.request(endpoint.method, endpoint.path.format_map(own), content=b"{")
            assert shown(unreadable) == shown(expected)


@pytest.mark.parametrize("endpoint", NAMING, ids=str)
class TestAsARoleThatMay:
    def test_what_is_missing_is_not_found(self, endpoint: Endpoint, hospital: Hospital) -> None:
        code = "no_such_key" if endpoint.path.startswith("/v1/keys") else "not_found"
        for role in endpoint.roles:
            services.refused(endpoint.ask(hospital.of(role), MISSING), 404, code)

    def test_a_malformed_id_is_an_id_that_is_missing(self, endpoint: Endpoint, hospital: Hospital) -> None:
        for things in MALFORMED if "{" in endpoint.path else ():
            for role in endpoint.roles:
                assert endpoint.ask(hospital.of(role), things).status_code == 404

    def test_what_is_somebody_elses_looks_exactly_as_if_it_were_missing(
        self, endpoint: Endpoint, hospital: Hospital
    ) -> None:
        foreign = ids(hospital.foreign, hospital.other.id)
        for role in endpoint.roles & {"custodian", "analyst"}:
            client = hospital.of(role)
            answer = endpoint.ask(client, foreign)
            services.refused(answer, 404, "not_found")
            assert shown(answer) == shown(endpoint.ask(client, MISSING))


@pytest.mark.parametrize("endpoint", [one for one in EXPECTED if "{grant}" in one.path], ids=str)
class TestOfTwoIds:
    def test_both_must_be_right(self, endpoint: Endpoint, hospital: Hospital) -> None:
        own, foreign = hospital.own.ids(), hospital.foreign.ids()
        for mixed in (own | {"grant": foreign["grant"]}, foreign | {"grant": own["grant"]}):
            services.refused(endpoint.ask(hospital.custodian, mixed), 404, "not_found")
        # An administrator sees both datasets, and still no grant where it does not belong.
        services.refused(endpoint.ask(hospital.admin, own | {"grant": foreign["grant"]}), 404, "not_found")


@pytest.mark.parametrize("endpoint", [one for one in EXPECTED if one.method == "GET"], ids=str)
class TestReading:
    def test_each_role_reads_what_is_its_own_to_read(self, endpoint: Endpoint, hospital: Hospital) -> None:
        for role in endpoint.roles:
            answer = endpoint.ask(hospital.of(role), ids(hospital.own, hospital.other.id))
            assert answer.status_code == 200, (role, answer.text)
