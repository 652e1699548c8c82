"""What a key can do with a service: upload, plan, train, evaluate, and fetch what was released."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, Self, TypedDict, Unpack, overload

import httpx

from discretion import errors
from discretion.client import bars, frames, sources
from discretion.client.calls import Calls, Document, Refused, checked
from discretion.client.columns import Names, Outcome
from discretion.client.offices import Offices
from discretion.client.results import Policy, Report
from discretion.learning.policy import State
from discretion.privacy import tokens

_ENDED: Final = ("released", "failed", "cancelled")
_PATIENCE: Final = 60.0  # seconds that a service may be away
_POLL: Final = 0.5  # seconds between looks
_CHUNK: Final = 2**20
_PERHAPS_THERE: Final = (
    "The answer to the upload was lost, and when it was sent again the dataset had data or was being given it: it has "
    "most likely arrived whole. Look at the dataset's state before you send anything."
)


class _Asked(TypedDict, total=False):
    """What a training or an evaluation is asked for with; one of `rho` and `privacy` is needed."""

    rho: str | int | Decimal
    privacy: Document  # {"rho"}, {"epsilon", "delta"} or {"pure_epsilon"}
    parameters: Mapping[str, Any]
    half: Literal["first", "second"] | None


class AskedTraining(_Asked, total=False):
    algorithm: str  # "auto" if it is left out


class AskedEvaluation(_Asked, total=False):
    dataset: str  # whose patients to ask; the policy's own if it is left out


class Failed(Exception):
    """A training or an evaluation that ended without a result."""

    def __init__(self, ended: Document) -> None:
        super().__init__(f"{ended['id']} ended as {ended['state']}; the ledger says what it cost.")
        self.ended = ended


class Client(Offices):
    """One key's view of a service; `patience` is how long it is waited for, `options` go to httpx.

    What takes long has a progress bar where standard error is a terminal, unless `progress` is false.
    """

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        patience: float = _PATIENCE,
        progress: bool = True,
        **options: Any,
    ) -> None:
        self._calls = Calls(base_url, token, patience, options)
        self._progress = progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._calls.http.close()

    # --- data ---

    def upload(
        self,
        dataset: str,
        source: Any,
        columns: Names | None = None,
        *,
        outcome: Outcome | None = None,
        levels: Sequence[int] | None = None,
        media_type: str | None = None,
    ) -> Document:
        """Rows from a path, a dataframe, an Arrow table, arrays by name, or a Minari or d3rlpy dataset; streamed.

        `columns` maps the upload's columns to the table's own, several to one action if `levels` says how many each
        has. Without `unit`, every return of the step to its first value begins another stay, of another unit.
        A file for which nothing is said goes as it is, and so do chunks of bytes whose `media_type` is given.
        """
        asis = columns is None and outcome is None and levels is None
        if media_type is not None and not isinstance(source, str | os.PathLike):
            return self._put(dataset, lambda: source, media_type, again=False)
        if asis and isinstance(source, str | os.PathLike):
            path, kind = Path(source), media_type or sources.media_type(Path(source))
            parts = -(-path.stat().st_size // _CHUNK)
            return self._put(dataset, lambda: _chunks(path), kind, again=True, parts=parts)
        found, schema = sources.of(source), self.dataset(dataset)

        def body() -> Iterator[bytes]:
            return frames.parquet(frames.converted(found, schema, columns, outcome, levels))

        try:
            kind = sources.MEDIA_TYPES[".parquet"]
            return self._put(dataset, body, kind, again=found.again, parts=found.parts)
        except Refused as refused:
            own = dict(columns or {}) | ({"outcome": outcome.column} if outcome else {})
            raise refused.under(own) from None

    def _put(
        self,
        dataset: str,
        body: Callable[[], Iterable[bytes]],
        media_type: str,
        *,
        again: bool,
        parts: int | None = None,
    ) -> Document:
        path, broken_at = f"/v1/datasets/{dataset}/trajectories", None
        with bars.bar("upload", self._progress) as show:
            while True:
                try:
                    return self._calls.put(path, bars.counted(body(), parts, show), media_type)
                except httpx.TransportError:
                    broken_at = broken_at or time.monotonic()
                    if not again or time.monotonic() - broken_at >= self._calls.patience:
                        raise  # the rows that were sent are gone, or the service is
                    time.sleep(_POLL)
                except Refused as refused:
                    if broken_at is None or refused.code != errors.DatasetNotEmpty.code:
                        raise
                    raise Refused(refused.status, refused.code, _PERHAPS_THERE, refused.problem) from None

    # --- trainings ---

    def plan(self, dataset: str, *, visiting: Document | None = None, **asked: Unpack[AskedTraining]) -> Document:
        """What a training would do and cost, asked for as by `train`; free."""
        more = {} if visiting is None else {"visiting": visiting}
        return self._calls.post("/v1/plans", _training(dataset, **asked) | more, reads=True)

    def rehearse(self, dataset: str, *, twin: int = 0, **asked: Unpack[AskedTraining]) -> Document:
        """The same training, asked for as by `train`, on a made-up twin; free."""
        return self._calls.post("/v1/rehearsals", _training(dataset, **asked) | {"twin": twin}, reads=True)

    @overload
    def train(
        self, dataset: str, *, wait: Literal[True] = True, key: str | None = None, **asked: Unpack[AskedTraining]
    ) -> Policy: ...

    @overload
    def train(
        self, dataset: str, *, wait: Literal[False], key: str | None = None, **asked: Unpack[AskedTraining]
    ) -> Document: ...

    def train(
        self, dataset: str, *, wait: bool = True, key: str | None = None, **asked: Unpack[AskedTraining]
    ) -> Policy | Document:
        """Pay for a training, once, and wait for its policy; without `wait`, it is only queued.

        `asked` are rho="0.5" (or privacy={"epsilon": …, "delta": …}), algorithm="auto", parameters={} and half=None. A
        `key` of your own makes a later call with it the same training; without one, every call is another.
        """
        queued = self._calls.post("/v1/trainings", _training(dataset, **asked), key=key or tokens.identifier("once"))
        return self.wait(queued["id"]) if wait else queued

    def trainings(self) -> Iterator[Document]:
        return self._calls.pages("/v1/trainings")

    def training(self, training: str) -> Document:
        return self._calls.read(f"/v1/trainings/{training}")

    def watch(self, training: str) -> Iterator[Document]:
        """The training each time it changes; the last one has ended. A service that is restarted is waited for."""
        state, away_since = None, None
        while state not in _ENDED:
            try:
                for found in self._events(training):
                    state, away_since = found["state"], None
                    yield found
            except (httpx.TransportError, Refused) as trouble:
                away_since = away_since or time.monotonic()
                lasting = isinstance(trouble, Refused) and not trouble.passing
                if lasting or time.monotonic() - away_since >= self._calls.patience:
                    raise
            if state not in _ENDED:
                time.sleep(_POLL)

    def _events(self, training: str) -> Iterator[Document]:
        with self._calls.http.stream("GET", f"/v1/trainings/{training}/events") as stream:
            if stream.is_error:
                stream.read()
            silent = True
            for line in checked(stream).iter_lines():
                if line.startswith("data: "):
                    silent = False
                    yield json.loads(line.removeprefix("data: "))
        if silent:
            raise httpx.RemoteProtocolError("A stream of events ended before the first.")

    def wait(self, training: str) -> Policy:
        """The policy, once it is released."""
        return self.policy(_released(self.watch(training), "training", self._progress)["policy"])

    def cancel(self, training: str) -> Document:
        """What was only reserved comes back, what had begun stays charged; an evaluation by its id, too."""
        kind = "evaluations" if training.startswith("ev_") else "trainings"
        return self._calls.delete(f"/v1/{kind}/{training}")

    def derive(self, training: str, parameters: Document) -> Document:
        """A further policy from what a training released: ρ = 0."""
        return self._calls.post(f"/v1/trainings/{training}/policies", {"parameters": parameters})

    # --- evaluations ---

    def plan_evaluation(self, policy: str, **asked: Unpack[AskedEvaluation]) -> Document:
        """What an evaluation would cost and on whom it would judge, asked for as by `evaluate`; free."""
        return self._calls.post("/v1/evaluations/plans", _evaluation(policy, **asked), reads=True)

    @overload
    def evaluate(
        self, policy: str, *, wait: Literal[True] = True, key: str | None = None, **asked: Unpack[AskedEvaluation]
    ) -> Report: ...

    @overload
    def evaluate(
        self, policy: str, *, wait: Literal[False], key: str | None = None, **asked: Unpack[AskedEvaluation]
    ) -> Document: ...

    def evaluate(
        self, policy: str, *, wait: bool = True, key: str | None = None, **asked: Unpack[AskedEvaluation]
    ) -> Report | Document:
        """Pay for what a policy is worth, once, and wait for the report; without `wait`, it is only queued.

        `asked` are rho="0.25" or privacy={…}, dataset (the policy's own if left out), parameters={} and half=None.
        """
        body = _evaluation(policy, **asked)
        queued = self._calls.post("/v1/evaluations", body, key=key or tokens.identifier("once"))
        return self.wait_for_report(queued["id"]) if wait else queued

    def evaluations(self) -> Iterator[Document]:
        return self._calls.pages("/v1/evaluations")

    def evaluation(self, evaluation: str) -> Document:
        """How it stands; once it is released, with its report."""
        return self._calls.read(f"/v1/evaluations/{evaluation}")

    def wait_for_report(self, evaluation: str) -> Report:
        """The report, once it is released."""
        _released(self._looks(evaluation), "evaluation", self._progress)
        return self.report(evaluation)

    def _looks(self, evaluation: str) -> Iterator[Document]:
        found = self.evaluation(evaluation)
        while found["state"] not in _ENDED:
            yield found
            time.sleep(_POLL)
            found = self.evaluation(evaluation)
        yield found

    def report(self, evaluation: str) -> Report:
        path = f"/v1/evaluations/{evaluation}"
        text, certificate = (self._calls.get(f"{path}/{part}").text for part in ("report", "certificate"))
        return Report(text, certificate, self.certificate_keys())

    # --- policies ---

    def policies(self) -> Iterator[Document]:
        return self._calls.pages("/v1/policies")

    def policy(self, policy: str) -> Policy:
        """With its certificate and the public keys: it can be asked and verified without the service."""
        path = f"/v1/policies/{policy}"
        return Policy(self._calls.get(path).text, self._calls.get(f"{path}/certificate").text, self.certificate_keys())

    def certificate_keys(self) -> str:
        """The public keys (JWKS); needs no token."""
        return self._calls.get("/v1/certificate-keys").text

    def decide(self, policy: str, step: int, state: State) -> Document:
        """Asked of the service; a `policy` that was fetched decides by itself."""
        return self._calls.post(f"/v1/policies/{policy}/decisions", {"step": step, "state": state}, reads=True)


# --- what is asked -----------------------------------------------------------------------------------------------


def _privacy(rho: object, privacy: Document | None) -> Document:
    if (rho is None) == (privacy is None):
        raise errors.InvalidPrivacy("Say what it may cost: rho='0.5', or privacy={'epsilon': 4, 'delta': 1e-6}.")
    return {"rho": str(rho)} if privacy is None else privacy


def _training(
    dataset: str,
    *,
    rho: object = None,
    privacy: Document | None = None,
    algorithm: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    half: str | None = None,
) -> Document:
    return {
        "dataset": dataset,
        "algorithm": algorithm,
        "privacy": _privacy(rho, privacy),
        "parameters": parameters or {},
        "half": half,
    }


def _evaluation(
    policy: str,
    *,
    rho: object = None,
    privacy: Document | None = None,
    dataset: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    half: str | None = None,
) -> Document:
    asked = {"policy": policy, "privacy": _privacy(rho, privacy), "parameters": parameters or {}, "half": half}
    return asked if dataset is None else asked | {"dataset": dataset}


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


# --- waiting -----------------------------------------------------------------------------------------------------


def _released(seen: Iterable[Document], name: str, progress: bool) -> Document:
    """The last of what was seen, with a bar on a terminal: how far it is follows a public schedule."""
    last: Document = {}
    with bars.bar(name, progress) as show:
        for last in seen:
            show(last["progress"])
    if last["state"] != "released":
        raise Failed(last)
    return last
