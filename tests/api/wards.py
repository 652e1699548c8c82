"""A small dataset of its own for each test, with one custodian and one analyst."""

from dataclasses import dataclass
from typing import Any

from tests import services
from tests.services import Client, Service


@dataclass
class Ward:
    service: Service
    custodian: Client
    analyst: Client
    dataset: str
    grant: str

    def budget(self) -> dict[str, Any]:
        return self.custodian.get(f"/v1/datasets/{self.dataset}/budget").json()

    def rows(self) -> list[dict[str, Any]]:
        return services.pages(self.custodian, f"/v1/datasets/{self.dataset}/ledger", limit=100)


def build(service: Service, rho: str, cap: str) -> Ward:
    custodian, analyst = service.key("custodian"), service.key("analyst")
    dataset = services.ready_dataset(custodian, rho=rho, units=20)
    return Ward(service, custodian, analyst, dataset, services.grant(custodian, dataset, analyst, cap))
