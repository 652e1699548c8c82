"""Makes what `tests/test_upgrades.py` upgrades: a hospital's database of one revision, as text, and its store.

    python -m tests.upgrades.make FOLDER [URL]

Run it with the interpreter of the program whose dump is wanted: everything is done by that program's own service, over
HTTP. FOLDER gets `database.sql`, the datasets, and `facts.json`: what the service said about itself before it was
dumped. An old dump is never made again; a new one is made, once, when a revision is about to be replaced.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests import services


def build(folder: Path, url: str | None) -> dict[str, Any]:
    """One of everything: trainings in every state, a derived policy, an adjusted budget, a retired dataset."""
    with services.serve(folder, url) as service:
        custodian, analyst = service.key("custodian"), service.key("analyst")
        open_one = services.ready_dataset(custodian, rho="10", units=40)
        retired = services.ready_dataset(custodian, rho="1", units=20)
        slow = services.new_dataset(custodian, schema=services.SLOW, rho="5")
        assert services.upload(custodian, slow, services.csv(30)).status_code == 201
        for dataset in (open_one, retired, slow):
            services.grant(custodian, dataset, analyst, "8")
        for number, dataset in enumerate((open_one, retired)):
            training = services.submit(analyst, dataset, f"released {number}").json()["id"]
            assert services.ended(analyst, training)["state"] == "released"
            if number == 0:
                derived = analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": {}})
                assert derived.status_code == 201, derived.text
        assert custodian.delete(f"/v1/datasets/{retired}").status_code in (200, 204)
        population = custodian.get(f"/v1/datasets/{open_one}").json()["population"]
        lowered = {"rho": "9", "reason": "The ethics board allows nine."}
        assert custodian.patch(f"/v1/populations/{population}/budget", json=lowered).status_code == 200
        running = services.submit(analyst, slow, "running").json()["id"]
        services.wait_until(lambda: analyst.get(f"/v1/trainings/{running}").json()["state"] == "running")
    with services.serve(folder, url, token=service.token, workers=0) as service:
        custodian, analyst = (service.client(known.token, known.id, known.role) for known in (custodian, analyst))
        cancelled = services.submit(analyst, open_one, "cancelled").json()["id"]
        assert analyst.delete(f"/v1/trainings/{cancelled}").status_code in (200, 202, 204)
        assert services.submit(analyst, open_one, "queued").status_code == 202
        return facts(service, custodian, analyst, (open_one, retired, slow))


def facts(service: services.Service, custodian: Any, analyst: Any, datasets: tuple[str, ...]) -> dict[str, Any]:
    trainings = {one["id"]: one["state"] for one in services.pages(analyst, "/v1/trainings")}
    assert sorted(trainings.values()) == ["cancelled", "queued", "released", "released", "running"]
    policies = [one["id"] for one in services.pages(analyst, "/v1/policies")]
    return {
        "trainings": trainings,
        "budgets": {one: custodian.get(f"/v1/datasets/{one}/budget").json() for one in datasets},
        "policies": {one: analyst.get(f"/v1/policies/{one}/certificate").json() for one in policies},
        "keys": httpx.get(f"{service.url}/v1/certificate-keys").json(),
        "custodian": custodian.id,
        "analyst": analyst.id,
    }


def dumped(folder: Path, url: str | None) -> str:
    if url is None:
        with sqlite3.connect(folder / "data" / "discretion.db") as connection:
            return "\n".join(connection.iterdump()) + "\n"
    command = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    # What only psql understands, and what says who made the dump and with what.
    lines = [line for line in said.splitlines() if line and not line.startswith(("--", "\\"))]
    return "\n".join(lines) + "\n"


def main() -> None:
    target, url = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        found = build(Path(made), url)
        (target / "facts.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        (target / "database.sql").write_text(dumped(Path(made), url), encoding="utf-8")
        shutil.copytree(Path(made) / "data" / "datasets", target / "datasets")


if __name__ == "__main__":
    main()
