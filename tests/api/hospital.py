"""Two custodians, two analysts, an auditor and an administrator, and something of each one's: shared by the tests.

Nothing here is changed by a test: what is to be changed is made anew.
"""

from dataclasses import dataclass
from typing import Any

from tests import services
from tests.services import Client, Service

# With so many units the public schedule has a result appear 16 s after its start: time enough to do something to a
# training while it runs.
SLOW_UNITS = 400
METRICS_TOKEN = "metrics_token_of_the_tests"


@dataclass
class Things:
    """What a custodian and an analyst have made together."""

    population: str
    dataset: str
    grant: str
    training: str = ""
    policy: str = ""
    evaluation: str = ""

    def ids(self) -> dict[str, str]:
        return vars(self)


@dataclass
class Hospital:
    service: Service
    admin: Client
    auditor: Client
    custodian: Client
    stranger: Client  # another custodian
    analyst: Client
    other: Client  # another analyst
    own: Things  # the custodian's and the analyst's
    foreign: Things  # the stranger's and the other's
    beside: Things  # the other's, in the custodian's dataset
    linear: Things  # the custodian's and the analyst's, with vector states

    def of(self, role: str) -> Client:
        return getattr(self, role)


def _things(custodian: Client, analyst: Client, **more: Any) -> Things:
    dataset = services.ready_dataset(custodian, **more)
    population = custodian.get(f"/v1/datasets/{dataset}").json()["population"]
    return Things(population, dataset, services.grant(custodian, dataset, analyst))


def build(service: Service) -> Hospital:
    roles = ("auditor", "custodian", "custodian", "analyst", "analyst")
    auditor, custodian, stranger, analyst, other = (service.key(role) for role in roles)
    own, foreign = _things(custodian, analyst), _things(stranger, other)
    beside = Things(own.population, own.dataset, services.grant(custodian, own.dataset, other))
    linear = _things(custodian, analyst, schema=services.VECTOR)
    submitted = [(own, analyst), (foreign, other), (beside, other), (linear, analyst)]
    for things, asking in submitted:
        body = services.VAPVI if things is linear else services.APVI
        things.training = services.submit(asking, things.dataset, key=things.grant, body=body).json()["id"]
    for things, asking in submitted:
        ended = services.ended(asking, things.training)
        assert ended["state"] == "released", ended
        things.policy = ended["policy"]
    for things, asking in submitted[:3]:
        body = {"policy": things.policy, "privacy": {"rho": "0.5"}}
        asked = asking.post("/v1/evaluations", json=body, headers={"Idempotency-Key": f"judge {things.grant}"})
        assert asked.status_code == 202, asked.text
        things.evaluation = asked.json()["id"]
    for things, asking in submitted[:3]:
        judged = services.ended(asking, things.evaluation, kind="evaluations")
        assert judged["state"] == "released", judged
    return Hospital(service, service.admin, auditor, custodian, stranger, analyst, other, own, foreign, beside, linear)


def trained(custodian: Client, analyst: Client) -> Things:
    """A dataset that one training was charged to, and nothing else is."""
    things = _things(custodian, analyst)
    things.training = services.submit(analyst, things.dataset, key=things.grant, body=services.APVI).json()["id"]
    things.policy = services.ended(analyst, things.training)["policy"]
    return things


def slow_dataset(custodian: Client, rho: str = "100") -> str:
    dataset = services.new_dataset(custodian, schema=services.SLOW, rho=rho)
    answer = services.upload(custodian, dataset, services.csv(SLOW_UNITS))
    assert answer.status_code == 201, answer.text
    return dataset
