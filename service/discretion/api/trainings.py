"""Plans, trainings and their progress."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import sqlalchemy as sa
from fastapi import Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from discretion import audit, catalogue, certificates, errors, ledger, memory, requests, runs, trainings
from discretion.api import auth, bodies, paging, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.api.populations import epsilon
from discretion.api.service import Service
from discretion.keys import Key
from discretion.learning import forecast
from discretion.privacy import tokens
from discretion.privacy.rho import Rho

room = Room("trainings")

_POLL: Final = 0.5  # seconds between looks at a training that is streamed
_QUIET: Final = 15.0  # seconds after which a stream says that it is still there
_REQUEST: Final = {"algorithm", "privacy", "parameters", "half"}
_ENDED: Final = (runs.RELEASED, runs.FAILED, runs.CANCELLED)

IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="1 to 200 printable characters.")]


def read_request(
    connection: sa.Connection, caller: Key, body: bodies.NewTraining
) -> tuple[catalogue.Dataset, requests.Asked]:
    dataset = catalogue.dataset(connection, caller, body.dataset)
    return dataset, requests.asked(dataset, body.model_dump(include=_REQUEST))


@room.route("POST", "/v1/plans", "analyst", refusals=(404, 409), response_model=schemas.Plan)
def make_plan(body: bodies.NewPlan, caller: Caller, service: Running) -> Any:
    """What a training would do and cost. Reads no patient's row, costs nothing."""
    with service.reading() as connection:
        dataset, asked = read_request(connection, caller, body)
        memory.check(asked, service.settings)
        left = budget_left(connection, dataset, caller)
    visiting = forecast.visiting_of(body.visiting, asked.schema, asked.parameters)
    expected = forecast.forecast(asked.schema, asked.units, asked.privacy, asked.parameters, visiting)
    price = priced(asked)
    return price | expected.document() | {"dataset": dataset.id, "trainings_left": left.nano // asked.cost.nano}


def priced(asked: requests.Asked) -> dict[str, Any]:
    """What was asked, what it would release, and what that costs."""
    done, cost = asked.mechanisms, asked.cost
    pure = certificates.pure_epsilon(done)
    return asked.document() | {
        "rho": str(cost),
        "epsilon": [{"delta": float(delta), "epsilon": epsilon(cost.nano, delta)} for delta in certificates.DELTAS],
        "pure_epsilon": None if pure is None else str(pure),
        "mechanisms": [certificates.mechanism_document(event) for event in done],
        "seconds": requests.usual_seconds(asked),
    }


def budget_left(connection: sa.Connection, dataset: catalogue.Dataset, caller: Key) -> Rho:
    grant = catalogue.own_grant(connection, dataset.id, caller.id)
    budget = ledger.balance(connection, dataset.population).remaining
    return budget if grant is None else min(budget, grant.remaining, key=lambda amount: amount.nano)


def training_document(found: trainings.Training) -> dict[str, Any]:
    return _summary(found) | (found.request or {})


def _summary(found: trainings.Training) -> dict[str, Any]:
    """Without what was asked, which may hold a table of megabytes: for lists and events."""
    names = ("id", "dataset", "state", "progress", "policy", "code", "charged", "algorithm", "created_at")
    return {name: getattr(found, name) for name in names} | {"rho": str(found.rho)}


@room.route(
    "POST", "/v1/trainings", "analyst", status=202, refusals=(400, 402, 404, 409), response_model=schemas.Training
)
def submit_training(
    body: bodies.NewTraining,
    caller: Caller,
    service: Running,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Any:
    """Reserve the budget and queue the training; the same `Idempotency-Key` and body give the same training again."""
    found = submit(service, caller, idempotency_key, body.dataset, body.model_dump(include=_REQUEST))
    response.headers["Location"] = f"/v1/trainings/{found.id}"
    return training_document(found)


def submit(
    service: Service, caller: Key, key: str | None, dataset: str, request: dict[str, Any], *, evaluation: bool = False
) -> trainings.Training:
    """Reserve and queue, once for each key."""
    if not key:
        raise errors.NoIdempotencyKey("Send an `Idempotency-Key`: any text of your own that names this request.")
    if len(key) > 200 or not key.isascii() or not key.isprintable():
        raise errors.InvalidRequest("An Idempotency-Key has 1 to 200 printable ASCII characters.")
    try:
        return _submit(service, caller, key, dataset, request, evaluation)
    except sa.exc.IntegrityError:  # the same key at the same moment: the other request has won, and its row is ours
        return _submit(service, caller, key, dataset, request, evaluation)


def _submit(
    service: Service, caller: Key, key: str, dataset: str, request: dict[str, Any], evaluation: bool
) -> trainings.Training:
    """Everything that takes time is done before the transaction that reserves."""
    now, training = datetime.now(UTC), tokens.identifier("ev" if evaluation else "tr")
    with service.reading() as connection:
        found = catalogue.dataset(connection, caller, dataset)
        # What was accepted once is answered again, whatever has become of the dataset since.
        again = trainings.submitted(connection, caller.id, key) is not None
        asked = requests.asked(found, request, ready=not again)
        if not again:
            memory.check(asked, service.settings)
        grant = catalogue.own_grant(connection, found.id, caller.id)
    with service.writing() as connection:
        made = trainings.submit(
            connection,
            training,
            dataset=found.id,
            request=asked.document(),
            rho=asked.cost,
            stages=asked.stages,
            actor=caller.id,
            idempotency_key=key,
            at=now,
            grant=None if grant is None else grant.id,
        )
        if made == training:
            audit.record(connection, caller.id, "evaluation.submit" if evaluation else "training.submit", made, at=now)
        return trainings.get(connection, caller, made, evaluation=evaluation)


@room.route(
    "GET",
    "/v1/trainings",
    "custodian",
    "analyst",
    "admin",
    refusals=(422,),
    response_model=schemas.Page[schemas.TrainingSummary],
)
def list_trainings(caller: Caller, service: Running, page: paging.Page) -> Any:
    """Your own, or those on your datasets."""
    with service.reading() as connection:
        found, following = trainings.listed(connection, caller, **vars(page))
    return {"items": [_summary(one) for one in found], "next": following}


@room.route("GET", "/v1/trainings/{training}", "custodian", "analyst", "admin", response_model=schemas.Training)
def read_training(training: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        return training_document(trainings.get(connection, caller, training))


def _read(service: Service, caller: Key, training: str) -> trainings.Training:
    with service.reading() as connection:
        return trainings.get(connection, caller, training, whole=False)


@room.route("DELETE", "/v1/trainings/{training}", "analyst", refusals=(409,), response_model=schemas.Training)
def cancel_training(training: str, caller: Caller, service: Running) -> Any:
    """Before it started the reservation comes back; after that nothing does."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        trainings.get(connection, caller, training)
        trainings.cancel(connection, training, actor=caller.id, at=now)
        audit.record(connection, caller.id, "training.cancel", training, at=now)
        return training_document(trainings.get(connection, caller, training))


@room.route(
    "GET",
    "/v1/trainings/{training}/events",
    "custodian",
    "analyst",
    "admin",
    responses={
        200: {"description": "The training each time it changes, until it ends.", "content": {"text/event-stream": {}}}
    },
    response_class=StreamingResponse,
)
async def stream_training(training: str, request: Request, caller: Caller, service: Running) -> StreamingResponse:
    """The training as server-sent events (`event: training`), one for each change."""
    first = await run_in_threadpool(_read, service, caller, training)
    return StreamingResponse(_events(request, service, training, first), media_type="text/event-stream")


async def _events(request: Request, service: Service, training: str, first: trainings.Training) -> AsyncIterator[str]:
    """The key is asked for at every look: one that is revoked hears no more."""
    shown, quiet = first, 0.0
    yield _event(shown)
    while shown.state not in _ENDED:
        await asyncio.sleep(_POLL)
        try:
            now = await run_in_threadpool(_read_again, request, service, training)
        except errors.Refusal:
            return
        quiet += _POLL
        if now != shown:
            shown, quiet = now, 0.0
            yield _event(shown)
        elif quiet >= _QUIET:
            quiet = 0.0
            yield ": still here\n\n"


def _read_again(request: Request, service: Service, training: str) -> trainings.Training:
    return _read(service, auth.known(request, service), training)


def _event(found: trainings.Training) -> str:
    return f"event: training\ndata: {json.dumps(_summary(found))}\n\n"
