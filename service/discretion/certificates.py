"""Certificates: what was released, about whom, with which noise, and what that costs; signed, and checked offline.

A certificate is a *pure function* of the request, the policy's digest and the ledger row that paid. `certify` computes
it and signs it. `verify` reads the request out of it, computes it again and compares every field, so a signature alone
proves nothing: a mechanism left out, a smaller noise or a rounded ε is found even if whoever holds a key signed it.

It is a JWS (RFC 7515) in flattened JSON serialisation, Ed25519 (RFC 8037), over canonical JSON (RFC 8785). There is no
time in it: how long a training took depends on the data.

The sentences below belong to version 1 and are compared word for word; change them together with the version only.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import discretion
from discretion import errors, signatures
from discretion.learning import apvi, auto, documents, forms, learners, report, vapvi, vapvi_stationary
from discretion.learning import features as maps
from discretion.learning import policy as policies
from discretion.learning.curator import Share
from discretion.learning.learners import Parameters
from discretion.learning.policy import Policy
from discretion.learning.report import Report
from discretion.learning.schemas import Schema
from discretion.privacy import events, rho
from discretion.signatures import SigningKey as SigningKey
from discretion.signatures import generate_key as generate_key
from discretion.signatures import jwks as jwks

VERSION: Final = 1
HALVES: Final = ("first", "second")
DELTAS: Final = ("1e-5", "1e-6", "1e-9")
Document = dict[str, Any]

PROMISE: Final = {
    "unit": "One unit is one patient, with everything recorded about that patient in the dataset.",
    "neighbours": "Two situations are neighbours if the records of one unit are replaced by any others in every "
    "dataset of the population, while the units that belong to it stay the same.",
    "guarantee": "The content of this release is ρ-zCDP for neighbours, with the total ρ below. The guarantee is "
    "computational: the noise comes from AES-256 in counter mode under a key of the operating system, and the promise "
    "holds against whoever cannot tell that from chance.",
}
COMPOSITION: Final = (
    "The ρ of Gaussian releases that read the same unit add up; the ε of Laplace releases add up and count as ε²/2; "
    "a unit sits in one half of the data only, so that of two halves the dearer one counts."
)
NOT_COVERED: Final = [
    "How long the work waited in the queue, and whether its result was published at its usual time or at a later one, "
    "remain visible.",
    "The schema, the bounds in it and the number of units are public and not protected.",
    "What is true of patients as a group may be learned from the result, also about a patient who is not in the data.",
    "Other releases about the same population cost a ρ of their own, and these add up; its ledger has the sum.",
    "A patient who belongs to several populations pays in each of them, and these costs add up.",
    "The custodian, and whoever administers the computers, can read the raw data.",
]
_NORMS: Final = {
    events.GAUSSIAN: ("squared l2", "variance"),
    events.SYMMETRIC_GAUSSIAN: ("squared Frobenius", "variance off the diagonal, twice that on it"),
    events.LAPLACE: ("l1", "scale b"),
}
_FIELDS: Final = frozenset(
    ("statistic", "mechanism", "shape", "part", "sensitivity", "scale", "resolution", "rho", "pure_epsilon")
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,200}")


@dataclass(frozen=True)
class LedgerRow:
    """The row that paid for the release."""

    population: str
    sequence: int
    hash: str
    charged: rho.Rho


@dataclass(frozen=True)
class Origin:
    """The training whose release a policy was derived from, and the parameters under which that was drawn."""

    training: str
    parameters: Parameters


@dataclass(frozen=True)
class Verified:
    """A certificate of which everything holds, and what it is about."""

    released: Policy | Report
    kid: str
    total_rho: Fraction
    charged_rho: rho.Rho
    payload: Document


@dataclass(frozen=True)
class Request:
    """What was asked for: everything else in a certificate follows from it."""

    algorithm: str
    schema: Schema
    labels: tuple[str, ...] | None
    units: int
    privacy: Share
    parameters: Parameters
    origin: Origin | None = None
    chosen: auto.Choice | None = None  # by `auto`, and why
    half: str | None = None  # of the dataset's units, whose number is `units`

    @property
    def drawn(self) -> Parameters:
        """A derived policy has read nothing but the release, so the release's parameters say what was done."""
        return self.origin.parameters if self.origin else self.parameters

    @cached_property
    def mechanisms(self) -> list[events.Event]:
        return learners.mechanisms(self.algorithm, self.schema, self.units, self.privacy, self.drawn)

    @property
    def fewest(self) -> int:
        """How many mechanisms there are at least, without working them out."""
        return self.schema.horizon - 1 if isinstance(self.drawn, vapvi.Parameters) else 1

    def check(self) -> None:
        if self.half not in (None, *HALVES):
            raise errors.InvalidCertificate("The request names a half of the units that there is not.")
        if self.chosen is not None:
            self._check_chosen(self.chosen)
        if self.origin is None:
            return
        trained = self.origin.parameters
        if not isinstance(trained, learners.Derivable) or type(self.parameters) is not type(trained):
            raise errors.InvalidCertificate(f"Only policies of {apvi.NAME} can be derived from an earlier release.")
        if self.parameters.reward is None and trained.reward is not None:
            raise errors.InvalidCertificate("The release holds no rewards, so no policy derived from it can use them.")

    def _check_chosen(self, chosen: auto.Choice) -> None:
        """A derived policy has other parameters than the training that was chosen."""
        read = forms.read(chosen.algorithm, chosen.parameters, self.schema)
        parameters = learners.resolved(self.schema, self.units, self.privacy, read)
        if (chosen.algorithm, forms.write(parameters)) != (self.algorithm, forms.write(self.drawn)):
            raise errors.InvalidCertificate("By its own rule `auto` would have chosen otherwise for this request.")


def certify(
    made: Policy | Report, request: Request, release_events: Iterable[events.Event], ledger: LedgerRow, key: SigningKey
) -> Document:
    """Sign what was done, provided that it is what was asked for and paid for."""
    request.check()
    _check_made(made, request)
    if Counter(release_events) != Counter(request.mechanisms):
        raise errors.InvalidCertificate("What was released is not what the request stands for; nothing was signed.")
    software = {"name": "discretion", "version": discretion.__version__}
    payload = _payload(request, {"id": made.id, "sha256": made.digest()}, ledger, software)
    checked(payload)  # what nobody could verify is not signed either
    return signatures.sign(payload, key)


def _payload(request: Request, made: Document, ledger: LedgerRow, software: Document) -> Document:
    _check_names(request, made, ledger, software)
    origin = request.origin
    return {
        "version": VERSION,
        "promise": PROMISE,
        "request": _request_document(request),
        "derived_from": origin and {"training": origin.training, "parameters": forms.write(origin.parameters)},
        "mechanisms": [mechanism_document(event) for event in request.mechanisms],
        "composition": COMPOSITION,
        "privacy": _cost_document(request, ledger.charged),
        _kind(request.algorithm): made,
        "software": software,
        "ledger": {"population": ledger.population, "sequence": ledger.sequence, "hash": ledger.hash},
        "not_covered": NOT_COVERED,
    }


def _check_names(request: Request, made: Document, ledger: LedgerRow, software: Document) -> None:
    named = [ledger.population, ledger.hash, made["sha256"], *software.values()]
    named += [name for name in (made["id"], request.origin and request.origin.training) if name is not None]
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in named):
        raise errors.InvalidCertificate("Names in a certificate must be 1 to 200 letters, digits or signs of _.:+-.")
    if type(ledger.sequence) is not int or not 0 <= ledger.sequence < 10**15:
        raise errors.InvalidCertificate("The ledger's sequence must be a whole number.")


def _request_document(request: Request) -> Document:
    return {
        "algorithm": request.algorithm,
        "schema": documents.schema_document(request.schema, request.labels),
        "units": request.units,
        "privacy": documents.privacy_document(request.privacy),
        "parameters": forms.write(request.parameters),
        "half": request.half,
        "chosen": request.chosen and request.chosen.document(),
    }


def _cost_document(request: Request, charged: rho.Rho) -> Document:
    total, pure = events.compose(request.mechanisms), pure_epsilon(request.mechanisms)
    if charged.exact < total:
        raise errors.InvalidCertificate(f"The charged ρ of {charged} is less than the releases cost.")
    return {
        "rho": _ratio(total),
        "charged_rho": str(charged),
        "further_rho": "0" if request.origin else str(charged),
        "pure_epsilon": None if pure is None else _ratio(pure),
        "epsilon": [{"delta": delta, "epsilon": _epsilon(total, pure, delta)} for delta in DELTAS],
    }


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def mechanism_document(event: events.Event) -> Document:
    norm, scale = _NORMS[event.mechanism]
    pure = events.pure_epsilon(event)
    return {
        "statistic": event.statistic,
        "mechanism": event.mechanism,
        "shape": list(event.shape),
        "part": event.part,
        "sensitivity": {"norm": norm, "value": _ratio(event.sensitivity)},
        "scale": {"kind": scale, "value": _ratio(event.scale)},
        "resolution": _ratio(event.resolution),
        "rho": _ratio(events.cost(event)),
        "pure_epsilon": None if pure is None else _ratio(pure),
    }


def pure_epsilon(done: Sequence[events.Event]) -> Fraction | None:
    """ε of releases that are all purely private; each half's own, and the larger counts."""
    amounts = [(event.part, pure) for event in done if (pure := events.pure_epsilon(event)) is not None]
    if len(amounts) < len(done):
        return None
    halves = (events.FIRST_HALF, events.SECOND_HALF)
    return max(sum((e for part, e in amounts if part in (events.EVERYONE, half)), Fraction(0)) for half in halves)


def _epsilon(total: Fraction, pure: Fraction | None, delta: str) -> str:
    """Rounded up to three decimals; a pure ε holds at every δ, so it counts where it is smaller."""
    converted = Fraction(rho.epsilon(total, Fraction(delta)))
    thousandths = math.ceil(1000 * (converted if pure is None else min(pure, converted)))
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def _kind(algorithm: object) -> str:
    return "evaluation" if algorithm == report.NAME else "policy"


def _check_made(made: Policy | Report, request: Request) -> None:
    if made.algorithm != request.algorithm:
        raise errors.InvalidCertificate("It was made by another algorithm than the certificate says.")
    if isinstance(made, Policy):
        _check_policy(made, request)


def _check_policy(policy: Policy, request: Request) -> None:
    """A table of discrete states has no map of its own; the others carry the one they were learned with."""
    schema, rule = request.schema, policy.rule
    if (policy.horizon, policy.states, policy.actions) != (schema.horizon, schema.states, schema.actions):
        raise errors.InvalidCertificate("The policy has another horizon, other states or other actions than certified.")
    scale = {policies.Linear: ("low", "width"), policies.Pooled: ("width",)}.get(type(rule), ())
    if any(getattr(rule, name) != getattr(schema, name) for name in scale):
        raise errors.InvalidCertificate("The policy scales its rewards otherwise than the certificate says.")
    features = rule.bins if isinstance(rule, policies.Table) else rule.features
    looking = isinstance(request.parameters, vapvi_stationary.Parameters) and request.parameters.parts > 1
    if looking and isinstance(features, maps.Blocks):
        features = features.declared  # where in the bounds it looks was found, and paid for
    if features is not None and features != getattr(request.parameters, "features", None):
        raise errors.InvalidCertificate("The policy uses other features than the certificate says.")
    if policy.labels != request.labels:
        raise errors.InvalidCertificate("The policy calls its actions otherwise than the certificate does.")


def verify(text: bytes | str, certificate_text: bytes | str, jwks: bytes | str) -> Verified:
    """Check everything a certificate says, offline; the sentence of a refusal says what does not hold."""
    payload, kid = signatures.read(certificate_text, jwks)
    request, row = checked(payload)
    kind = _kind(request.algorithm)
    try:
        made = report.parse(text) if kind == "evaluation" else policies.parse(text)
    except errors.InvalidPolicy as refusal:
        raise errors.InvalidCertificate(str(refusal)) from None
    if (made.id, made.digest()) != (payload[kind]["id"], payload[kind]["sha256"]):
        raise errors.InvalidCertificate(f"The certificate is about another {kind}: the digest or the id differs.")
    _check_made(made, request)
    return Verified(made, kid, events.compose(request.mechanisms), row.charged, payload)


def checked(payload: Document) -> tuple[Request, LedgerRow]:
    """Compute the certificate again from its own request, and compare."""
    if payload.get("version") != VERSION or payload.get("version") is True:
        raise errors.InvalidCertificate("This software does not know the certificate's version.")
    try:
        request, row = _request(payload), _row(payload)
        _check_listed(payload.get("mechanisms"), request)
        request.check()
        made = {key: payload[_kind(request.algorithm)][key] for key in ("id", "sha256")}
        software = {key: payload["software"][key] for key in ("name", "version")}
        expected = _payload(request, made, row, software)
    except errors.InvalidCertificate:
        raise
    except errors.Refusal as refusal:
        raise errors.InvalidCertificate(f"The certified request is none: {refusal}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise errors.InvalidCertificate("The payload lacks something that a certificate says.") from None
    except MemoryError:
        raise errors.InvalidCertificate("The certified request is larger than any that could be carried out.") from None
    _compare_mechanisms(payload["mechanisms"], expected["mechanisms"])
    _compare(payload | {"mechanisms": []}, expected | {"mechanisms": []}, "")
    return request, row


def _request(payload: Document) -> Request:
    said, origin, chosen = payload["request"], payload["derived_from"], payload["request"]["chosen"]
    schema, labels = documents.schema_of(said["schema"])
    algorithm, units, privacy = said["algorithm"], said["units"], documents.privacy_of(said["privacy"])
    return Request(
        algorithm,
        schema,
        labels,
        units,
        privacy,
        forms.read(algorithm, said["parameters"], schema),
        None if origin is None else _origin(algorithm, origin, schema),
        None if chosen is None else auto.choose(schema, units, privacy, chosen["parameters"]),
        said["half"],
    )


def _origin(algorithm: str, said: Document, schema: Schema) -> Origin:
    return Origin(said["training"], forms.read(algorithm, said["parameters"], schema))


def _row(payload: Document) -> LedgerRow:
    row = payload["ledger"]
    return LedgerRow(row["population"], row["sequence"], row["hash"], rho.Rho.parse(payload["privacy"]["charged_rho"]))


def _check_listed(found: object, request: Request) -> None:
    """Nothing is worked out that a certificate is too short to state: a few bytes must not take long to refuse."""
    if not isinstance(found, list) or not all(isinstance(mechanism, dict) for mechanism in found):
        raise errors.InvalidCertificate("The certificate has no list of mechanisms.")
    if len(found) < request.fewest:
        raise errors.InvalidCertificate(
            f"The certificate leaves out the releases of some steps: of {request.fewest} or more it lists {len(found)}."
        )
    if any(set(mechanism) != _FIELDS for mechanism in found):
        raise errors.InvalidCertificate("There are unknown or missing fields in a release of the certificate.")


def _compare_mechanisms(found: list[Document], expected: list[Document]) -> None:
    """In any order; each has a statistic of its own, so that as many as expected, and all of these, leaves no other."""
    stated = {signatures.canonical(mechanism.get("statistic")): mechanism for mechanism in found}
    for mechanism in expected:
        name = mechanism["statistic"]
        if (same := stated.get(signatures.canonical(name))) is None:
            raise errors.InvalidCertificate(f"The certificate leaves out the release of the {name}.")
        _compare(same, mechanism, f"the release of the {name}")
    if len(found) != len(expected):
        raise errors.InvalidCertificate("The certificate lists a release that its request does not have.")


def _compare(found: object, expected: object, path: str) -> None:
    if isinstance(found, dict) and isinstance(expected, dict):
        if set(found) != set(expected):
            raise errors.InvalidCertificate(f"There are unknown or missing fields in {path or 'the payload'}.")
        for key in expected:
            _compare(found[key], expected[key], f"{path}: {key}" if path else key)
    elif signatures.canonical(found) != signatures.canonical(expected):
        raise errors.InvalidCertificate(f"The certificate misstates {path}: its own request gives another value.")
