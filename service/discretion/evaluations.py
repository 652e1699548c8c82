"""What a released policy is worth, asked of patients' data: a job in the same queue, paid like a training.

Its report has a number about everybody, with noise and an interval; weighing recorded stays by how likely the policy
was to act as they did is not offered, because it flatters (docs/utility.md).
"""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from discretion import catalogue, certificates, ledger, requests, trainings
from discretion.catalogue import Dataset
from discretion.learning import evaluators, forms, report
from discretion.learning import policy as policies
from discretion.learning.curator import Curator
from discretion.learning.policy import Policy
from discretion.learning.report import Report
from discretion.privacy import events
from discretion.requests import Asked
from discretion.tables import releases
from discretion.tables import trainings as jobs


def request_of(policy: str, body: dict[str, Any]) -> dict[str, Any]:
    return body | {"algorithm": report.NAME, "policy": policy}


def check(dataset: Dataset, document: str, parameters: dict[str, Any]) -> None:
    """Refuse, before anything is charged, a policy that was made for other data or cannot be judged as asked."""
    read = forms.read(report.NAME, parameters, dataset.schema)
    assert isinstance(read, evaluators.Parameters)
    evaluators.check_policy(dataset.schema, read, policies.parse(document))


def judged(connection: sa.Connection, asked: Asked) -> Policy:
    assert asked.judged is not None
    return policies.parse(trainings.document(connection, asked.judged))


def patients(connection: sa.Connection, dataset: Dataset, asked: Asked) -> report.Patients:
    """Who is judged on, seen from those whom the policy was learned from."""
    found = connection.execute(
        sa.select(jobs.c.dataset, jobs.c.request)
        .join(releases, releases.c.training == jobs.c.id)
        .where(releases.c.id == asked.judged)
    ).one()
    halves = {json.loads(found.request).get("half"), asked.half}
    if found.dataset == dataset.id:
        return "other half" if halves == set(certificates.HALVES) else "same"
    population = catalogue.stored(connection, found.dataset).population
    return "same" if population == dataset.population else "other population"


def judge(curator: Curator, asked: Asked, policy: Policy, seen: report.Patients, training: str) -> Report:
    assert isinstance(asked.parameters, evaluators.Parameters)
    found = evaluators.evaluate(curator, asked.privacy, asked.parameters, policy)
    named = {"id": policy.id, "sha256": policy.digest()}
    return Report(named, seen, found.document(), training)


def certify(
    made: Report, asked: Asked, done: Sequence[events.Event], paid: ledger.Row, key: certificates.SigningKey
) -> str:
    request, row = requests.certified(asked), trainings.certified_row(paid)
    return json.dumps(certificates.certify(made, request, done, row, key))
