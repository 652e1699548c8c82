"""What a policy is worth, asked of patients' data: priced like a training."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from fastapi.responses import Response

from discretion import audit, catalogue, evaluations, memory, requests, signing, trainings
from discretion.api import bodies, paging, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.api.policies import page_document
from discretion.api.service import Service
from discretion.api.trainings import IdempotencyKey, budget_left, priced, submit
from discretion.keys import Key
from discretion.learning import report

room = Room("evaluations")

_ASKED: Final = {"privacy", "parameters", "half"}
_READERS: Final = ("custodian", "analyst", "auditor")


def _document(connection: sa.Connection, reader: Key, found: trainings.Training) -> dict[str, Any]:
    """The report is the certified artefact; until it is there, nothing is known."""
    names = ("id", "dataset", "state", "progress", "code", "charged", "created_at")
    document = {name: getattr(found, name) for name in names} | {"rho": str(found.rho), "report": None}
    if found.policy is not None:
        document["report"] = json.loads(trainings.evaluation(connection, reader, found.id, "document").document)
    return document | (found.request or {})


@room.route("POST", "/v1/evaluations/plans", "analyst", refusals=(404, 409), response_model=schemas.EvaluationPlan)
def make_plan(body: bodies.NewEvaluation, caller: Caller, service: Running) -> Any:
    """What an evaluation would do and cost, and on whom it would judge. Reads no patient's row, costs nothing."""
    dataset, request = _asked(service, caller, body)
    with service.reading() as connection:
        asked = requests.asked(dataset, request)
        memory.check(asked, service.settings)
        patients = evaluations.patients(connection, dataset, asked)
        left = budget_left(connection, dataset, caller)
    found = {"dataset": dataset.id, "patients": patients, "evaluations_left": left.nano // asked.cost.nano}
    return priced(asked) | found


def _asked(service: Service, caller: Key, body: bodies.NewEvaluation) -> tuple[catalogue.Dataset, dict[str, Any]]:
    """The data to judge on and what to ask of it, once the policy is known to fit."""
    with service.reading() as connection:
        judged = trainings.policy(connection, caller, body.policy, "dataset", "document")
        dataset = catalogue.dataset(connection, caller, body.dataset or judged.dataset)
    evaluations.check(dataset, judged.document, body.parameters)
    return dataset, evaluations.request_of(body.policy, body.model_dump(include=_ASKED))


@room.route(
    "POST",
    "/v1/evaluations",
    "analyst",
    status=202,
    refusals=(400, 402, 404, 409),
    response_model=schemas.Evaluation,
)
def submit_evaluation(
    body: bodies.NewEvaluation,
    caller: Caller,
    service: Running,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Any:
    """Reserve the budget and queue the evaluation of one of your policies; `Idempotency-Key` as for a training."""
    dataset, request = _asked(service, caller, body)
    found = submit(service, caller, idempotency_key, dataset.id, request, evaluation=True)
    response.headers["Location"] = f"/v1/evaluations/{found.id}"
    with service.reading() as connection:
        return _document(connection, caller, found)


@room.route(
    "GET",
    "/v1/evaluations",
    "custodian",
    "analyst",
    "auditor",
    "admin",
    refusals=(422,),
    response_model=schemas.Page[schemas.EvaluationSummary],
)
def list_evaluations(caller: Caller, service: Running, page: paging.Page) -> Any:
    """Your own, those on your datasets, or, for an auditor, all."""
    with service.reading() as connection:
        found, following = trainings.listed(connection, caller, evaluations=True, **vars(page))
    names = ("id", "dataset", "state", "progress", "code", "charged", "created_at")
    items = [{name: getattr(one, name) for name in names} | {"rho": str(one.rho)} for one in found]
    return {"items": items, "next": following}


@room.route("GET", "/v1/evaluations/{evaluation}", "custodian", "analyst", response_model=schemas.Evaluation)
def read_evaluation(evaluation: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        return _document(connection, caller, trainings.get(connection, caller, evaluation, evaluation=True))


@room.route("GET", "/v1/evaluations/{evaluation}/report", *_READERS, response_model=schemas.Report)
def read_report(evaluation: str, caller: Caller, service: Running) -> Any:
    """The certified artefact, byte for byte."""
    with service.reading() as connection:
        document = trainings.evaluation(connection, caller, evaluation, "document").document
    return Response(document, media_type="application/json")


@room.route("GET", "/v1/evaluations/{evaluation}/certificate", *_READERS, response_model=schemas.Signed)
def read_certificate(evaluation: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        certificate = trainings.evaluation(connection, caller, evaluation, "certificate").certificate
    return Response(certificate, media_type="application/json")


@room.route(
    "GET",
    "/v1/evaluations/{evaluation}/certificate/page",
    *_READERS,
    refusals=(422,),
    response_model=schemas.CertificatePage,
)
def read_certificate_page(evaluation: str, caller: Caller, service: Running) -> Any:
    """The certificate as one page that an ethics board can read."""
    with service.reading() as connection:
        found = trainings.evaluation(connection, caller, evaluation, "certificate", "document")
        keys = signing.published(connection)
    return page_document(found.certificate, keys, report.parse(found.document))


@room.route("DELETE", "/v1/evaluations/{evaluation}", "analyst", refusals=(409,), response_model=schemas.Evaluation)
def cancel_evaluation(evaluation: str, caller: Caller, service: Running) -> Any:
    """Before it started the reservation comes back; after that nothing does."""
    now = datetime.now(UTC)
    with service.writing() as connection:
        trainings.get(connection, caller, evaluation, evaluation=True)
        trainings.cancel(connection, evaluation, actor=caller.id, at=now)
        audit.record(connection, caller.id, "evaluation.cancel", evaluation, at=now)
        return _document(connection, caller, trainings.get(connection, caller, evaluation, evaluation=True))
