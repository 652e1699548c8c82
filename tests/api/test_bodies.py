"""JSON is read as strictly as it was written: what cannot be meant is refused, and nothing of it is done."""

import json
from typing import Any

import pytest

from tests import services
from tests.api.hospital import Hospital

JSON = {"Content-Type": "application/json"}


def post(hospital: Hospital, body: bytes | str, **headers: str) -> Any:
    content = body.encode() if isinstance(body, str) else body
    return hospital.custodian.post("/v1/populations", content=content, headers=JSON | headers)


def populations(hospital: Hospital) -> int:
    return len(services.pages(hospital.custodian, "/v1/populations", limit=1000))


class TestJson:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'"text"',
            b'{"name": "icu", "budget": {"rho": "1"}} {}',
            b'{"name": "icu", "name": "icu", "budget": {"rho": "1"}}',
            b'{"name": "icu", "budget": {"rho": "1", "rho": "1"}}',
            b'{"name": "icu", "budget": {"epsilon": NaN, "delta": 0.1}}',
            b'{"name": "icu", "budget": {"epsilon": Infinity, "delta": 0.1}}',
            b'{"name": "icu", "budget": {"epsilon": -Infinity, "delta": 0.1}}',
            b'{"name": "i\xff", "budget": {"rho": "1"}}',
            '{"name": "icu", "budget": {"rho": "1"}}'.encode("utf-16"),
            '\ufeff{"name": "icu", "budget": {"rho": "1"}}'.encode(),
            b'{"name": "\\ud800", "budget": {"rho": "1"}}',
            b'{"name": "a\\u0000b", "budget": {"rho": "1"}}',
            b'{"name": "icu", "budget": {"rho": "1"}, "\\ud800": 1}',
            b'{"name": "icu", "budget": {"rho": "1"}, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            b'{"x": ' * 100_000 + b"1" + b"}" * 100_000,
            b"[" * 100_000,
            b'{"name": "icu", "budget": {"rho": ' + b"1" * 10_000 + b"}}",
        ],
        ids=lambda body: repr(body[:60]),
    )
    def test_what_is_not_one_clean_object_is_refused(self, body: bytes, hospital: Hospital) -> None:
        before = populations(hospital)
        services.refused(post(hospital, body), 422, "invalid_request")
        assert populations(hospital) == before

    def test_a_body_as_deep_as_a_request_may_be_is_read(self, hospital: Hospital) -> None:
        deep = "[" * 50 + "]" * 50
        problem = services.refused(
            post(hospital, f'{{"name": {deep}, "budget": {{"rho": "1"}}}}'), 422, "invalid_request"
        )
        assert "name" in problem["detail"]

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "text/json", ""])
    def test_another_content_type_is_refused(self, kind: str, hospital: Hospital) -> None:
        body = json.dumps({"name": "icu", "budget": {"rho": "1"}})
        services.refused(post(hospital, body, **{"Content-Type": kind}), 422, "invalid_request")

    def test_a_character_set_may_be_named(self, hospital: Hospital) -> None:
        body = json.dumps({"name": "icu", "budget": {"rho": "1"}})
        assert post(hospital, body, **{"Content-Type": "Application/JSON; charset=utf-8"}).status_code == 201

    def test_a_refusal_does_not_repeat_what_was_sent(self, hospital: Hospital) -> None:
        body = {"name": "icu", "budget": {"rho": "1"}, "canary" * 100: "canary-value"}
        answer = post(hospital, json.dumps(body))
        services.refused(answer, 422, "invalid_request")
        assert "canary-value" not in answer.text
        assert len(answer.text) < 1000


def bodies() -> list[tuple[str, dict[str, Any]]]:
    """For each place where a body is sent, one that would be taken if it held nothing more."""
    training = services.APVI | {"dataset": "{dataset}"}
    return [
        ("POST /v1/populations", {"name": "icu", "budget": {"rho": "1"}}),
        ("PATCH /v1/populations/{population}/budget", {"rho": "100", "reason": "as before"}),
        ("POST /v1/datasets", services.TABULAR | {"name": "icu", "budget": {"rho": "1"}}),
        ("POST /v1/datasets/{dataset}/grants", {"key": "{key}", "rho": "1"}),
        ("POST /v1/plans", training),
        ("POST /v1/trainings", training),
        ("POST /v1/trainings/{training}/policies", {"parameters": {}}),
        ("POST /v1/policies/{policy}/decisions", {"step": 1, "state": 0}),
        ("POST /v1/keys", {"name": "somebody", "role": "auditor"}),
    ]


@pytest.mark.parametrize(("place", "body"), bodies(), ids=[place for place, _ in bodies()])
class TestUnknownFields:
    def ask(self, hospital: Hospital, place: str, body: dict[str, Any]) -> Any:
        method, path = place.split(" ")
        ids = hospital.own.ids() | {"key": hospital.other.id}
        role = "admin" if "keys" in path else "analyst" if "trainings" in path or "plans" in path else "custodian"
        filled = {key: value.format_map(ids) if isinstance(value, str) else value for key, value in body.items()}
        headers = {"Idempotency-Key": "unknown"}
        return hospital.of(role).request(method, path.format_map(ids), json=filled, headers=headers)

    @pytest.mark.parametrize("name", ["seed", "anything", "Name", ""])
    def test_one_more_is_refused(self, name: str, place: str, body: dict[str, Any], hospital: Hospital) -> None:
        problem = services.refused(self.ask(hospital, place, body | {name: 1}), 422, "invalid_request")
        assert f"body.{name}" in [found["field"] for found in problem["fields"]]

    def test_a_seed_is_refused_inside_too(self, place: str, body: dict[str, Any], hospital: Hospital) -> None:
        for inner in [key for key, value in body.items() if isinstance(value, dict)]:
            answer = self.ask(hospital, place, body | {inner: body[inner] | {"seed": 1}})
            assert answer.status_code == 422, (inner, answer.text)
            assert "seed" in answer.json()["detail"]

    def test_each_field_is_needed_or_has_a_default(self, place: str, body: dict[str, Any], hospital: Hospital) -> None:
        """A body without anything is never enough, and never a failure."""
        services.refused(self.ask(hospital, place, {}), 422, "invalid_request")


class TestRho:
    WRONG: tuple[Any, ...] = (
        1,
        0.5,
        True,
        None,
        [],
        {},
        "",
        " 1",
        "1 ",
        "+1",
        "-1",
        "0",
        "0.0",
        "00.5",
        "1e1",
        "1E-3",
        "NaN",
        "Infinity",
    )
    FINER = ("0.0000000001", "1.", ".5", "1,5", "1_000", "٣", "1000000.1", "10000000", "1\n", "0x1")

    @pytest.mark.parametrize("rho", WRONG + FINER, ids=repr)
    def test_only_a_plain_decimal_text_is_taken(self, rho: Any, hospital: Hospital) -> None:
        custodian, own = hospital.custodian, hospital.own
        answers = [
            custodian.post("/v1/populations", json={"name": "icu", "budget": {"rho": rho}}),
            custodian.patch(f"/v1/populations/{own.population}/budget", json={"rho": rho, "reason": "more"}),
            custodian.post(f"/v1/datasets/{own.dataset}/grants", json={"key": hospital.analyst.id, "rho": rho}),
            services.submit(hospital.analyst, own.dataset, "rho", services.APVI | {"privacy": {"rho": rho}}),
        ]
        for answer in answers:
            assert answer.status_code == 422, answer.text
            assert answer.json()["code"] in ("invalid_rho", "invalid_request", "invalid_privacy")

    @pytest.mark.parametrize(
        ("rho", "shown"), [("0.000000001", "0.000000001"), ("1000000", "1000000"), ("0.50", "0.5")]
    )
    def test_the_least_and_the_most_are_taken_exactly(self, rho: str, shown: str, hospital: Hospital) -> None:
        answer = hospital.custodian.post("/v1/populations", json={"name": "icu", "budget": {"rho": rho}})
        assert answer.status_code == 201
        assert answer.json()["budget"]["total"] == shown


class TestSize:
    """On a service of their own, which takes at most one megabyte."""

    @pytest.fixture
    def custodian(self, small: services.Service) -> services.Client:
        return small.key("custodian")

    def test_a_large_body_is_refused_by_its_announced_length(self, custodian: services.Client) -> None:
        body = b'{"name": "' + b"x" * 2**20 + b'"}'
        services.refused(custodian.post("/v1/populations", content=body, headers=JSON), 413, "body_too_large")

    def test_a_large_body_of_unknown_length_is_refused_too(self, custodian: services.Client) -> None:
        pieces = iter([b'{"name": "', *[b"x" * 2**16] * 17, b'"}'])
        services.refused(custodian.post("/v1/populations", content=pieces, headers=JSON), 413, "body_too_large")

    def test_just_below_is_read(self, custodian: services.Client) -> None:
        body = b'{"name": "icu", "budget": {"rho": "1"}}'.ljust(2**20)
        assert custodian.post("/v1/populations", content=body, headers=JSON).status_code == 201
