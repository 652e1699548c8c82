"""Requests made up from the OpenAPI document, as every role: nothing fails, and every answer is documented."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests import services
from tests.conftest import new_url

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.parquet")
def as_bytes(_: Any, value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


schema = schemathesis.openapi.from_path(Path(__file__).parents[2] / "openapi" / "openapi.json")


class World:
    """Somebody of every role, and something for every id in a path."""

    def __init__(self, service: services.Service) -> None:
        self.url = service.url
        custodian, analyst, auditor = (service.key(role) for role in ("custodian", "analyst", "auditor"))
        self.tokens = [None, service.token, custodian.token, analyst.token, auditor.token]
        self.dataset = services.ready_dataset(custodian, rho="1000")
        grant = services.grant(custodian, self.dataset, analyst, "1000")
        training = services.submit(analyst, self.dataset).json()["id"]
        population = custodian.get(f"/v1/datasets/{self.dataset}").json()["population"]
        policy = services.ended(analyst, training)["policy"]
        self.ids = {
            "dataset": self.dataset,
            "grant": grant,
            "training": training,
            "population": population,
            "policy": policy,
            "key": service.key("auditor").id,
        }

    def known(self, case: Any) -> Any:
        """The same request about things that exist; what deletes is left to guess."""
        if case.method == "DELETE":
            return case
        case.path_parameters = {name: self.ids.get(name, value) for name, value in (case.path_parameters or {}).items()}
        if isinstance(case.body, dict) and "dataset" in case.body:
            case.body = case.body | {"dataset": self.dataset}
        return case


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("fuzzed")
    with services.serve(folder, new_url(request, folder), requests_per_second=1_000_000) as running:
        yield World(running)


@schema.parametrize()
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_to_every_role_is_documented_and_none_is_a_failure(case: Any, world: World) -> None:
    for known in (False, True):
        for token in world.tokens:
            made = world.known(case) if known else case
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            answer: Response = made.call(base_url=world.url, headers=headers)
            made.validate_response(answer, checks=CHECKS)
