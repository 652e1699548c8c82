"""The released artefact of an evaluation: what a policy is worth, how sure that is, and of whom; canonical bytes."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, Literal

import rfc8785

from discretion import errors

NAME: Final = "dp-fqe"
Patients = Literal["same", "other half", "other population"]
Document = dict[str, Any]

_CAUTIONS: Final[dict[str, str]] = {
    "same": "The policy was learned from patients of the same population, perhaps from these. What fitted them by "
    "chance fits them again, so this judges it too well. Train on one half and judge on the other.",
    "other half": "The policy was learned from the other half of the dataset's patients, drawn at random.",
    "other population": "The policy was learned from another population; it is judged fairly if nobody is in both.",
}


@dataclass(frozen=True)
class Report:
    policy: Document  # id and sha256 of what was judged
    patients: Patients  # those of the evaluation, seen from the policy's
    found: Document  # what the evaluator says
    id: str | None = None

    algorithm = NAME

    def document(self) -> Document:
        return {
            "id": self.id,
            "algorithm": NAME,
            "policy": self.policy,
            "patients": self.patients,
            "caution": _CAUTIONS[self.patients],
            "found": self.found,
        }

    def canonical(self) -> bytes:
        return rfc8785.dumps(self.document())

    def digest(self) -> str:
        return hashlib.sha256(self.canonical()).hexdigest()


def parse(text: bytes | str) -> Report:
    """Read a report back; anything that is not one is refused."""
    try:
        document = json.loads(text)
        read = Report(document["policy"], document["patients"], document["found"], document["id"])
        if rfc8785.dumps(document) == read.canonical():
            return read
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        pass
    raise errors.InvalidPolicy("This is not a report of an evaluation; download it again.")
