"""Released policies, decisions, certificates and the keys that sign them."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa
from fastapi.responses import Response

from discretion import audit, catalogue, certificate_page, database, memory, signing, trainings
from discretion.api import bodies, paging, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.learning import policy as artefacts
from discretion.learning import report

room = Room("policies")

_READERS: Final = ("custodian", "analyst", "auditor")
_NAMES: Final = ("id", "training", "dataset", "algorithm", "derived")


def _name(row: Any) -> dict[str, Any]:
    return {field: getattr(row, field) for field in _NAMES}


@room.route(
    "POST",
    "/v1/trainings/{training}/policies",
    "analyst",
    status=201,
    refusals=(409,),
    response_model=schemas.PolicyName,
)
def derive_policy(
    training: str, body: bodies.NewDerivation, caller: Caller, service: Running, response: Response
) -> Any:
    """A further policy from the same private release: no patient is read, ρ = 0."""
    now = datetime.now(UTC)
    key = service.signing_key()
    with service.reading() as connection:
        found = trainings.get(connection, caller, training, whole=False)
        catalogue.dataset(connection, caller, found.dataset)  # still granted
        wanted = trainings.derivation(connection, training, body.parameters)
        memory.check_deriving(wanted.before, service.settings)
        with service.deriving.one(memory.deriving(wanted.before)):
            policy, certificate = trainings.derive(connection, training, wanted, key)
    with service.writing() as connection:
        trainings.keep_derived(connection, training, policy, certificate, actor=caller.id, at=now)
        audit.record(connection, caller.id, "policy.derive", str(policy.id), at=now)
        response.headers["Location"] = f"/v1/policies/{policy.id}"
        return _name(trainings.policy(connection, caller, str(policy.id), *_NAMES))


@room.route("GET", "/v1/policies", *_READERS, refusals=(422,), response_model=schemas.Page[schemas.PolicyName])
def list_policies(caller: Caller, service: Running, page: paging.Page) -> Any:
    """Yours, those made of your datasets, or, for an auditor, all."""
    with service.reading() as connection:
        found, following = trainings.list_policies(connection, caller, **vars(page))
    return {"items": [_name(row) for row in found], "next": following}


@room.route("GET", "/v1/policies/{policy}", *_READERS, response_model=schemas.Policy)
def read_policy(policy: str, caller: Caller, service: Running) -> Any:
    """The certified artefact, byte for byte."""
    with service.reading() as connection:
        document = trainings.policy(connection, caller, policy, "document").document
    return Response(document, media_type="application/json")


@room.route("GET", "/v1/policies/{policy}/certificate", *_READERS, response_model=schemas.Signed)
def read_certificate(policy: str, caller: Caller, service: Running) -> Any:
    with service.reading() as connection:
        certificate = trainings.policy(connection, caller, policy, "certificate").certificate
    return Response(certificate, media_type="application/json")


@room.route(
    "GET",
    "/v1/policies/{policy}/certificate/page",
    *_READERS,
    refusals=(422,),
    response_model=schemas.CertificatePage,
)
def read_certificate_page(policy: str, caller: Caller, service: Running) -> Any:
    """The certificate as one page that an ethics board can read."""
    with service.reading() as connection:
        found = trainings.policy(connection, caller, policy, "certificate")
        keys = signing.published(connection)
    return page_document(found.certificate, keys)


def page_document(certificate: str, keys: dict[str, Any], judged: report.Report | None = None) -> dict[str, Any]:
    sections, kid = certificate_page.sections(certificate, json.dumps(keys))
    findings = None if judged is None else certificate_page.found_sections(judged)
    return {
        "title": certificate_page.TITLE,
        "signed_by": kid,
        "sections": [vars(section) for section in sections],
        "findings": None if findings is None else [vars(section) for section in findings],
    }


@lru_cache(16)
def _parsed(engine: sa.Engine, policy: str) -> artefacts.Policy:
    """A policy never changes, so that it is read once for many decisions; who may ask was seen to before."""
    with database.snapshot(engine) as connection:
        return artefacts.parse(trainings.document(connection, policy))


@room.route("POST", "/v1/policies/{policy}/decisions", *_READERS, response_model=schemas.Decision)
def decide(policy: str, body: bodies.Question, caller: Caller, service: Running) -> Any:
    """What the policy does at a step, in a state."""
    with service.glancing() as connection:
        trainings.policy(connection, caller, policy, "id")
    return asdict(_parsed(service.engine, policy).decide(body.step, body.state))
