"""A client of the HTTP API in plain Python: one method for each thing to do, one exception for every refusal.

    with Client("http://127.0.0.1:8000", token) as custodian:
        clinic = custodian.add_population("clinic", {"rho": "2"})
        stays = custodian.add_dataset("icu", population=clinic["id"], **schema)
        custodian.upload(stays["id"], Path("icu.csv"))
        custodian.add_grant(stays["id"], analyst_key, "1")

    with Client("http://127.0.0.1:8000", other_token) as analyst:
        wanted = {"dataset": stays["id"], "algorithm": "dp-apvi", "privacy": {"rho": "0.5"}, "parameters": {}}
        print(analyst.plan(wanted)["epsilon"])
        for training in analyst.watch(analyst.train(wanted)["id"]):
            print(training["state"], training["progress"])
        print(analyst.decide(training["policy"], step=1, state=0)["label"])

What was refused raises `Refused`, with the API's own `status`, `code` and `detail`. What is certified (policies,
certificates, public keys) comes as text, exactly as it was sent, ready for `discretion verify`.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import httpx

from discretion.privacy import tokens

Document = dict[str, Any]

_MEDIA_TYPES: Final = {
    ".csv": "text/csv",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
}
_ENDED: Final = ("released", "failed", "cancelled")
_PATIENCE: Final = 60.0  # seconds that a service may be away
_SECONDS: Final = 60.0  # without a word; a stream of events says one at least every fifteen
_CHUNK: Final = 2**20


class Refused(Exception):
    """The service would not do it: the HTTP status, the stable code, the sentence, and all else it said."""

    def __init__(self, status: int, code: str, detail: str, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail, self.problem = status, code, detail, problem


class Client:
    """One key's view of a service; `options` go to httpx (a proxy, certificates, timeouts)."""

    def __init__(self, base_url: str, token: str | None = None, **options: Any) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=base_url, headers=headers, **({"timeout": _SECONDS} | options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- keys, populations, datasets ---

    def add_key(self, name: str, role: str) -> Document:
        """The answer has the token, which is shown this once."""
        return self._post("/v1/keys", {"name": name, "role": role})

    def keys(self) -> Iterator[Document]:
        return self._pages("/v1/keys")

    def add_population(self, name: str, budget: Document) -> Document:
        return self._post("/v1/populations", {"name": name, "budget": budget})

    def populations(self) -> Iterator[Document]:
        return self._pages("/v1/populations")

    def add_dataset(self, name: str, **schema: Any) -> Document:
        """`population` or `budget`, and the public schema: horizon, states, actions, reward."""
        return self._post("/v1/datasets", {"name": name} | schema)

    def datasets(self) -> Iterator[Document]:
        return self._pages("/v1/datasets")

    def dataset(self, dataset: str) -> Document:
        return self._get(f"/v1/datasets/{dataset}").json()

    def upload(self, dataset: str, source: Path | Iterable[bytes], media_type: str | None = None) -> Document:
        """From a file, whose ending says what it is, or from chunks; streamed, so the size does not matter."""
        if isinstance(source, Path):
            media_type = media_type or _MEDIA_TYPES.get(source.suffix)
            source = _chunks(source)
        headers = {} if media_type is None else {"Content-Type": media_type}
        waiting = httpx.Timeout(_SECONDS, read=None)  # the last row may be checked long after it was sent
        path = f"/v1/datasets/{dataset}/trajectories"
        return _checked(self._http.put(path, content=source, headers=headers, timeout=waiting)).json()

    def add_grant(self, dataset: str, key: str, rho: str) -> Document:
        return self._post(f"/v1/datasets/{dataset}/grants", {"key": key, "rho": rho})

    def grants(self, dataset: str) -> Iterator[Document]:
        return self._pages(f"/v1/datasets/{dataset}/grants")

    def budget(self, dataset: str) -> Document:
        return self._get(f"/v1/datasets/{dataset}/budget").json()

    def ledger(self, dataset: str) -> Document:
        """Every row that this key may see, oldest first, and whether the chain is `intact`."""
        path = f"/v1/datasets/{dataset}/ledger"
        return self._get(path).json() | {"rows": list(self._pages(path, "rows")), "next": None}

    # --- trainings ---

    def plan(self, training: Document) -> Document:
        """What a training would do and cost; free."""
        return self._post("/v1/plans", training)

    def rehearse(self, training: Document) -> Document:
        """The same training on a made-up twin; free."""
        return self._post("/v1/rehearsals", training)

    def train(self, training: Document, idempotency_key: str | None = None) -> Document:
        """Queue a training, once: if the connection breaks, the same request is sent again under the same key."""
        return self._once("/v1/trainings", training, idempotency_key)

    def _once(self, path: str, body: Document, key: str | None) -> Document:
        headers = {"Idempotency-Key": key or tokens.identifier("once")}
        try:
            return self._post(path, body, headers)
        except httpx.TransportError:
            return self._post(path, body, headers)

    def training(self, training: str) -> Document:
        return self._get(f"/v1/trainings/{training}").json()

    def watch(self, training: str) -> Iterator[Document]:
        """The training each time it changes; the last one has ended. A service that is restarted is waited for."""
        state, away_since = None, None
        while state not in _ENDED:
            try:
                for found in self._events(training):
                    state, away_since = found["state"], None
                    yield found
            except httpx.TransportError:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _PATIENCE:
                    raise
                time.sleep(0.5)

    def _events(self, training: str) -> Iterator[Document]:
        with self._http.stream("GET", f"/v1/trainings/{training}/events") as stream:
            if stream.is_error:
                stream.read()
            for line in _checked(stream).iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def derive(self, training: str, parameters: Document) -> Document:
        """A further policy from what a training released: ρ = 0."""
        return self._post(f"/v1/trainings/{training}/policies", {"parameters": parameters})

    # --- evaluations ---

    def plan_evaluation(self, evaluation: Document) -> Document:
        """What an evaluation would cost and on whom it would judge; free."""
        return self._post("/v1/evaluations/plans", evaluation)

    def evaluate(self, evaluation: Document, idempotency_key: str | None = None) -> Document:
        """Queue the evaluation of a policy, once, and paid for like a training."""
        return self._once("/v1/evaluations", evaluation, idempotency_key)

    def evaluations(self) -> Iterator[Document]:
        return self._pages("/v1/evaluations")

    def evaluation(self, evaluation: str) -> Document:
        """How it stands; once it is released, with its report."""
        return self._get(f"/v1/evaluations/{evaluation}").json()

    def report(self, evaluation: str) -> str:
        return self._get(f"/v1/evaluations/{evaluation}/report").text

    def report_certificate(self, evaluation: str) -> str:
        return self._get(f"/v1/evaluations/{evaluation}/certificate").text

    # --- policies ---

    def policies(self) -> Iterator[Document]:
        return self._pages("/v1/policies")

    def policy(self, policy: str) -> str:
        return self._get(f"/v1/policies/{policy}").text

    def certificate(self, policy: str) -> str:
        return self._get(f"/v1/policies/{policy}/certificate").text

    def certificate_keys(self) -> str:
        """The public keys (JWKS); needs no token."""
        return self._get("/v1/certificate-keys").text

    def decide(self, policy: str, step: int, state: int | Mapping[str, float]) -> Document:
        return self._post(f"/v1/policies/{policy}/decisions", {"step": step, "state": state})

    # --- HTTP ---

    def _get(self, path: str, **query: Any) -> httpx.Response:
        return _checked(self._http.get(path, params=query))

    def _post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Document:
        return _checked(self._http.post(path, json=body, headers=headers)).json()

    def _pages(self, path: str, items: str = "items") -> Iterator[Document]:
        page = self._get(path).json()
        yield from page[items]
        while page["next"] is not None:
            page = self._get(path, after=page["next"]).json()
            yield from page[items]


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _checked(answer: httpx.Response) -> httpx.Response:
    if not answer.is_error:
        return answer
    try:
        problem = answer.json()
        said = problem["code"], problem["detail"]
    except (ValueError, KeyError, TypeError):  # not this service: a proxy, perhaps
        problem, said = {}, ("unknown", answer.reason_phrase)
    raise Refused(answer.status_code, *said, problem)
