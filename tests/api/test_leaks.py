"""Nothing that a patient's record decides is seen by anybody but the custodian who uploaded it."""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from opentelemetry import trace

from discretion import database, tables
from discretion.api import app
from tests import services
from tests.conftest import new_url

SCHEMA = services.VECTOR | {"max_trajectories_per_unit": 2, "horizon": 4}
BLOCKS = {"features": {"kind": "blocks", "terms": ["1", "age"]}}
UNITS = 307  # public
# A unit's name, a reward, two values of a column, and numbers of rows that no public quantity equals.
# (Behind a point they are a part of a second.)
PLANTED = re.compile(r"Zwetschgenkind|0?\.735197|83\.51973|17\.35197|(?<![\w.])(1357|487)(?![\w.])")


def planted_csv(*, replaced: bool = False) -> bytes:
    """487 trajectories with 1357 rows of 307 units; `replaced` puts other records in one unit's place."""
    lines = ["unit,trajectory,step,age,lactate,action,reward"]
    lengths = [3] * 383 + [2] * 104
    assert (len(lengths), sum(lengths)) == (487, 1357)
    for index, length in enumerate(lengths):
        unit = index // 2 if index < 360 else 180 + (index - 360)
        for step in range(1, length + 1):
            values = "83.51973,17.35197,1,0.735197"
            if replaced and unit == 5:
                values = "0,30,0,1"
            lines.append(f"Zwetschgenkind{unit},{index},{step},{values}")
    return "\n".join(lines).encode()


class Heard:
    """Everything that came out of the service, by who heard it."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def hear(self, answer: httpx.Response) -> Any:
        headers = {key: value for key, value in answer.headers.items() if key != "content-length"}  # any number, once
        self.said.append(f"{answer.request.method} {answer.request.url}\n{headers}\n{answer.text}")
        for part in re.findall(r'"payload": ?"([^"]+)"', answer.text):
            self.said.append(base64.urlsafe_b64decode(part + "==").decode())
        return answer

    def found(self) -> list[str]:
        return [f"{found[0]}: {text[:300]}" for text in self.said if (found := PLANTED.search(text))]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    folder = tmp_path_factory.mktemp("leaks")
    url = new_url(request, folder)
    with services.serve(folder, url, lease_seconds=2, requests_per_second=100_000) as made:
        yield made, url


def body(dataset: str, rho: str = "1") -> dict[str, Any]:
    return {"dataset": dataset, "algorithm": "dp-vapvi", "privacy": {"rho": rho}, "parameters": BLOCKS}


def stored_texts(url: str) -> Iterator[str]:
    """Every text in the database."""
    engine = database.engine(url)
    with database.snapshot(engine) as connection:
        for table in tables.metadata.sorted_tables:
            texts = [column for column in table.c if isinstance(column.type, sa.String | sa.Text)]
            for row in connection.execute(sa.select(*texts)):
                yield f"{table.name}: {tuple(row)}"
    engine.dispose()


class TestCanary:
    def test_planted_values_and_exact_counts_appear_nowhere_whatever_fails(self, running: tuple[Any, str]) -> None:
        service, url = running
        heard = Heard()
        custodian, analyst, auditor = (service.key(role) for role in ("custodian", "analyst", "auditor"))
        everybody = [custodian, analyst, auditor, service.admin]

        refused = services.new_dataset(custodian, schema=SCHEMA)
        broken = planted_csv() + b"\nZwetschgenkind9999,0,1,83.51973,17.35197,9,0.735197"
        assert services.upload(custodian, refused, broken).status_code == 422  # the custodian may see why
        datasets = []
        for _ in range(4):
            dataset = services.new_dataset(custodian, schema=SCHEMA)
            accepted = services.upload(custodian, dataset, planted_csv())
            assert accepted.json() == {"units": UNITS, "trajectories": 487, "transitions": 1357}
            assert PLANTED.search(accepted.text)  # what is searched for can be found
            services.grant(custodian, dataset, analyst)
            datasets.append(dataset)

        self._damage(service, url, datasets[1:])
        trainings = [
            heard.hear(analyst.post("/v1/trainings", json=body(one), headers={"Idempotency-Key": one})).json()["id"]
            for one in datasets
        ]
        states = [services.ended(analyst, training)["state"] for training in trainings[:3]]
        assert states == ["released", "failed", "failed"]
        # Data that is not there at all is found out before anything is charged.
        assert analyst.get(f"/v1/trainings/{trainings[3]}").json()["state"] == "queued"
        assert analyst.get(f"/v1/datasets/{datasets[3]}/budget").json()["charged"] == "0"
        self._kill_a_child(service, analyst, datasets[0], heard)

        paths = ["/v1/datasets", "/v1/trainings", "/v1/policies", "/v1/populations", "/v1/audit", "/v1/ledgers"]
        paths += ["/v1/keys", "/metrics", "/readyz", "/v1/certificate-keys", "/openapi.json"]
        paths += [f"/v1/datasets/{one}{rest}" for one in datasets for rest in ("", "/budget", "/ledger", "/grants")]
        paths += [f"/v1/datasets/{datasets[0]}/ledger/head"]
        paths += [f"/v1/trainings/{one}{rest}" for one in trainings[:3] for rest in ("", "/events")]
        policies = [item["id"] for item in analyst.get("/v1/policies").json()["items"]]
        paths += [f"/v1/policies/{one}{rest}" for one in policies for rest in ("", "/certificate", "/certificate/page")]
        for client in everybody:
            for path in paths:
                heard.hear(client.get(path))
        heard.hear(analyst.post("/v1/plans", json=body(datasets[0])))
        heard.hear(analyst.post(f"/v1/trainings/{trainings[1]}/policies", json={"parameters": {}}))
        for one in datasets:
            heard.hear(custodian.delete(f"/v1/datasets/{one}"))
        heard.said += [service.log, *stored_texts(url)]
        assert heard.found() == []
        failures = [json.loads(text.split("\n", 2)[2]) for text in heard.said if f"/trainings/{trainings[1]}\n" in text]
        assert {failure["code"] for failure in failures if "state" in failure} == {"training_failed"}

    def _damage(self, service: Any, url: str, datasets: list[str]) -> None:
        """A torn file, a wrong one, none at all."""
        engine = database.engine(url)
        with database.snapshot(engine) as connection:
            rows = dict(connection.execute(sa.select(tables.datasets.c.id, tables.datasets.c.folder)).all())
        engine.dispose()
        torn, wrong, none = (service.folder / "data" / "datasets" / rows[one] for one in datasets)
        blocks = torn / "0000.parquet"
        blocks.write_bytes(blocks.read_bytes()[:-40])
        (wrong / "0000.parquet").write_bytes(planted_csv())
        shutil.rmtree(none)

    def _kill_a_child(self, service: Any, analyst: Any, dataset: str, heard: Heard) -> None:
        training = analyst.post("/v1/trainings", json=body(dataset), headers={"Idempotency-Key": "k"}).json()["id"]

        def learning() -> list[int]:
            workers = services.children(service.process.pid)
            return [child for worker in workers for child in services.children(worker)]

        for child in services.wait_until(learning):
            os.kill(child, signal.SIGKILL)
        assert services.ended(analyst, training)["state"] in ("released", "failed")
        heard.hear(analyst.get(f"/v1/trainings/{training}"))


class TestNeighbours:
    def test_two_neighbouring_datasets_get_the_same_answers_byte_for_byte(self, running: tuple[Any, str]) -> None:
        service, _ = running
        one, other = (self._answers(service, planted_csv(replaced=replaced)) for replaced in (False, True))
        assert list(one) == list(other)
        for name in one:
            assert one[name] == other[name], name

    def _answers(self, service: Any, content: bytes) -> dict[str, str]:
        """Everything an analyst can call, in order, with what is random or a time replaced by its kind."""
        custodian, analyst = service.key("custodian"), service.key("analyst")
        dataset = services.new_dataset(custodian, schema=SCHEMA, rho="5")
        assert services.upload(custodian, dataset, content).status_code == 201
        services.grant(custodian, dataset, analyst, "3")
        said: dict[str, str] = {}

        def keep(name: str, answer: httpx.Response) -> Any:
            headers = {key: value for key, value in answer.headers.items() if key != "date"}
            said[name] = normalised(f"{answer.status_code}\n{json.dumps(headers)}\n{answer.text}")
            return answer

        keep("plan", analyst.post("/v1/plans", json=body(dataset)))
        made = keep("submit", analyst.post("/v1/trainings", json=body(dataset), headers={"Idempotency-Key": "k"}))
        training = made.json()["id"]
        policy = services.ended(analyst, training)["policy"]
        for path in ("datasets", "trainings", "policies"):
            keep(path, analyst.get(f"/v1/{path}"))
        for path in ("", "/budget", "/ledger", "/ledger/head", "/grants"):
            keep(f"dataset{path}", analyst.get(f"/v1/datasets/{dataset}{path}"))
        keep("training", analyst.get(f"/v1/trainings/{training}"))
        keep("events", analyst.get(f"/v1/trainings/{training}/events"))
        keep("derive", analyst.post(f"/v1/trainings/{training}/policies", json={"parameters": {}}))
        keep("cancel", analyst.delete(f"/v1/trainings/{training}"))
        keep("too much", analyst.post("/v1/trainings", json=body(dataset, "2.5"), headers={"Idempotency-Key": "l"}))
        for path in ("populations", "keys", "audit", "ledgers"):
            keep(path, analyst.get(f"/v1/{path}"))
        certificate = analyst.get(f"/v1/policies/{policy}/certificate").json()
        payload = json.loads(base64.urlsafe_b64decode(certificate["payload"] + "=="))
        payload["policy"] = None
        said["certificate"] = normalised(json.dumps(payload))
        document = analyst.get(f"/v1/policies/{policy}").json()
        said["policy"] = json.dumps(shape(document))
        return said


class TestTelemetry:
    """The framework brings its own, which would take the texts of exceptions along to a collector."""

    @pytest.mark.parametrize(("make", "spoken"), [(FastAPI, True), (app.bare, False)], ids=["a control", "ours"])
    def test_nothing_is_told_to_a_collector_that_stands_ready(
        self, make: Callable[[], FastAPI], spoken: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        class Collector(trace.TracerProvider):
            def get_tracer(self, instrumenting_module_name: str, *more: Any, **named: Any) -> trace.Tracer:
                asked.append(instrumenting_module_name)
                return trace.NoOpTracer()

        collector = Collector()
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: collector)
        asyncio.run(self.ask(make()))
        assert bool(asked) is spoken

    @staticmethod
    async def ask(made: FastAPI) -> None:
        transport = httpx.ASGITransport(made)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            assert (await client.get("/nowhere")).status_code == 404


def normalised(text: str) -> str:
    text = re.sub(r"\b(ds|tr|pol|pop|key|gr|req)_[A-Za-z0-9]{22}\b", r"\1_", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", "TIME", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)


def shape(value: Any) -> Any:
    """The same document without its numbers."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items() if key != "id"}
    return [shape(item) for item in value] if isinstance(value, list) else type(value).__name__
