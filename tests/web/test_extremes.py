"""What people may write, at its longest and without a gap to break a line at: every page still fits its screen."""

import pytest

from tests import services
from tests.services import Service
from tests.web.conftest import Visits
from tests.web.test_looks import NARROW, WIDE, looked_at

LONG = "ä" + "W" * 198 + "."  # as long as a name may be
SCRIPT = "<img/src=x/onerror=window.violations.push('ran')>" * 4
AMOUNT = "98765.123456789"
PAGES = {
    "custodian": ["", "datasets", "datasets/{dataset}", "trainings"],
    "analyst": ["", "datasets", "datasets/{dataset}", "datasets/{dataset}/train", "trainings", "policies"],
    "auditor": ["", "audit", "audit/ledgers/{dataset}", "policies"],
    "admin": ["", "keys", "datasets", "datasets/{dataset}", "trainings", "audit"],
}


@pytest.fixture(scope="module")
def ward(service: Service) -> dict[str, str]:
    """Somebody of every role under such a name, and a dataset that has everything at its longest."""
    made = {
        role: service.admin.post("/v1/keys", json={"name": LONG, "role": role}).json()
        for role in ("custodian", "analyst", "auditor", "admin")
    }
    custodian, analyst = (
        service.client(made[role]["token"], made[role]["id"], role) for role in ("custodian", "analyst")
    )
    schema = services.TABULAR | {"actions": {"count": 2, "labels": [LONG[:100], SCRIPT[:100]]}}
    datasets = [services.new_dataset(custodian, schema=schema, rho=AMOUNT, name=name) for name in (LONG, SCRIPT)]
    services.upload(custodian, datasets[0], services.csv())
    services.grant(custodian, datasets[0], analyst, rho="98765.012345678")
    population = custodian.get(f"/v1/datasets/{datasets[0]}").json()["population"]
    custodian.patch(f"/v1/populations/{population}/budget", json={"rho": "98766.987654321", "reason": "W" * 500})
    training = services.submit(analyst, datasets[0], body=services.APVI | {"privacy": {"rho": "12345.123456789"}})
    assert services.ended(analyst, training.json()["id"])["state"] == "released"
    gone = service.admin.post("/v1/keys", json={"name": SCRIPT, "role": "auditor"}).json()
    service.admin.delete(f"/v1/keys/{gone['id']}")
    return {role: key["token"] for role, key in made.items()} | {"dataset": datasets[0]}


@pytest.mark.long
class TestEveryPage:
    @pytest.mark.parametrize("role", PAGES)
    def test_holds_the_longest_that_may_be_written(self, visit: Visits, ward: dict[str, str], role: str):
        visitor = visit(viewport=WIDE).sign_in(ward[role])
        found: list[str] = []
        for page in PAGES[role]:
            visitor.page.set_viewport_size(NARROW if page else WIDE)
            visitor.go(page.format(dataset=ward["dataset"]))
            found += looked_at(visitor, f"{role}-long/{page.replace('{', '').replace('}', '') or 'overview'}")
        assert not found
