"""What an office does with a service: an administrator's keys, a custodian's datasets, an auditor's books."""

from collections.abc import Iterator
from typing import Any

from discretion.client.calls import Calls, Document
from discretion.client.results import Budget


class Offices:
    """Of a `Client`, the part that needs no waiting and no conversion."""

    _calls: Calls

    def add_key(self, name: str, role: str) -> Document:
        """The answer has the token, which is shown this once."""
        return self._calls.post("/v1/keys", {"name": name, "role": role})

    def keys(self) -> Iterator[Document]:
        return self._calls.pages("/v1/keys")

    def revoke_key(self, key: str) -> Document:
        """Its token opens nothing from now on."""
        return self._calls.delete(f"/v1/keys/{key}")

    def add_population(self, name: str, budget: Document) -> Document:
        return self._calls.post("/v1/populations", {"name": name, "budget": budget})

    def populations(self) -> Iterator[Document]:
        return self._calls.pages("/v1/populations")

    def change_budget(self, population: str, rho: str, reason: str) -> Document:
        """Set what a population's patients may lose in all; never below what is spent, and on the record."""
        return self._calls.patch(f"/v1/populations/{population}/budget", {"rho": rho, "reason": reason})

    def add_dataset(self, name: str, **schema: Any) -> Document:
        """`population` or `budget`, and the public schema: horizon, states, actions, reward."""
        return self._calls.post("/v1/datasets", {"name": name} | schema)

    def datasets(self) -> Iterator[Document]:
        return self._calls.pages("/v1/datasets")

    def dataset(self, dataset: str) -> Document:
        return self._calls.read(f"/v1/datasets/{dataset}")

    def retire(self, dataset: str) -> Document:
        """Delete its data for good; ledger, policies and certificates stay."""
        return self._calls.delete(f"/v1/datasets/{dataset}")

    def add_grant(self, dataset: str, key: str, rho: str) -> Document:
        return self._calls.post(f"/v1/datasets/{dataset}/grants", {"key": key, "rho": rho})

    def grants(self, dataset: str) -> Iterator[Document]:
        return self._calls.pages(f"/v1/datasets/{dataset}/grants")

    def revoke_grant(self, dataset: str, grant: str) -> Document:
        return self._calls.delete(f"/v1/datasets/{dataset}/grants/{grant}")

    def budget(self, dataset: str) -> Budget:
        return Budget.of(self._calls.read(f"/v1/datasets/{dataset}/budget"))

    def ledger(self, dataset: str) -> Document:
        """Every row that this key may see, oldest first, and whether the chain is `intact`."""
        path = f"/v1/datasets/{dataset}/ledger"
        return self._calls.read(path) | {"rows": list(self._calls.pages(path, "rows")), "next": None}

    def ledgers(self) -> Iterator[Document]:
        """For an auditor: every dataset's name and budget, retired ones too."""
        return self._calls.pages("/v1/ledgers")

    def ledger_head(self, dataset: str) -> str:
        """The newest row's hash, signed, as text: kept elsewhere, it shows later whether the ledger was rolled back."""
        return self._calls.get(f"/v1/datasets/{dataset}/ledger/head").text

    def audit(self) -> Iterator[Document]:
        """Who did what, oldest first."""
        return self._calls.pages("/v1/audit")
