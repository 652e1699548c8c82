"""What the API answers, shaped for the edge only."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Rho = Annotated[str, Field(pattern=r"^[0-9]{1,7}(\.[0-9]{1,9})?$", examples=["0.5"], description="ρ as a decimal text")]
SignedRho = Annotated[str, Field(pattern=r"^-?[0-9]{1,7}(\.[0-9]{1,9})?$", examples=["0.5"])]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Id = Annotated[str, Field(max_length=40)]
Time = Annotated[str, Field(examples=["2026-01-02T03:04:05.000000+00:00"])]
Object = dict[str, Any]


class Problem(BaseModel):
    """Why a request was refused (RFC 9457); `code` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request: Annotated[str | None, Field(description="The request's id, as in the header X-Request-ID.")] = None
    remaining: Rho | None = None
    problems: list[Object] | None = None
    fields: list[Object] | None = None


class EpsilonOfBudget(BaseModel):
    delta: float
    total: float
    charged: float


class GrantUse(BaseModel):
    rho: Rho
    used: Rho
    remaining: Rho


class BudgetState(BaseModel):
    """What there is to spend, exactly; ε is what the spent ρ means at several δ, rounded up."""

    total: Rho
    charged: Rho
    reserved: Rho
    remaining: Rho
    epsilon: list[EpsilonOfBudget]
    grant: Annotated[GrantUse | None, Field(description="An analyst's own cap inside the budget.")] = None


class Population(BaseModel):
    id: Id
    name: str
    owner: Id
    budget: BudgetState


class Dataset(BaseModel):
    """The public schema and, once the data is there, the number of units."""

    id: Id
    name: str
    population: Id
    owner: Id
    state: Literal["empty", "ready", "retired"]
    units: int | None
    horizon: int
    states: Object
    actions: Object
    reward: Object
    return_: Annotated[Object | None, Field(alias="return")] = None
    max_trajectories_per_unit: int
    created_at: Time


class Accepted(BaseModel):
    """For the custodian's eyes only."""

    units: int
    trajectories: int
    transitions: int


class Grant(BaseModel):
    id: Id
    dataset: Id
    key: Id
    rho: Rho
    used: Rho
    remaining: Rho
    revoked: bool


class LedgerRow(BaseModel):
    sequence: int
    at: Time
    kind: Literal["open", "reserve", "charge", "give_back", "adjust", "draw"]
    rho: SignedRho
    training: Id | None
    actor: Id
    reason: str | None
    previous_hash: str
    hash: str


class Ledger(BaseModel):
    """An analyst sees the rows of their own trainings; every other reader the whole chain."""

    population: Id
    rows: list[LedgerRow]
    intact: bool
    next: int | None


class LedgerName(BaseModel):
    population: Id
    name: str
    budget: BudgetState
    datasets: list[Id]
    sequence: int
    hash: str
    intact: bool


class Signed(BaseModel):
    """A JWS in flattened JSON serialisation (RFC 7515), Ed25519."""

    payload: str
    protected: str
    signature: str


class Section(BaseModel):
    title: str
    lines: list[str]


class CertificatePage(BaseModel):
    """A certificate in plain words, as `discretion verify --explain` prints it; its signature was checked just now."""

    title: str
    signed_by: Annotated[str, Field(description="The `kid` of the key that signed it.")]
    sections: list[Section]
    findings: Annotated[list[Section] | None, Field(description="What an evaluation's report says.")]


class Price(BaseModel):
    """What would be released and what that costs: the same for every content of the dataset, and free to know."""

    dataset: Id
    privacy: Object
    parameters: Object
    rho: Rho
    epsilon: list[Object]
    pure_epsilon: str | None
    mechanisms: list[Object]
    half: str | None
    seconds: Annotated[float, Field(description="How long after its start the result appears, usually.")]


class Plan(Price):
    """What a training would do and cost."""

    algorithm: str
    chosen: Annotated[Object | None, Field(description="What `auto` chose, by which rule, and why.")] = None
    visits_needed: Annotated[
        float, Field(description="Visits that a state and action need before they are trusted, about.")
    ]
    learned_share: Annotated[
        float, Field(description="Expected share of decisions that are learned and no fallback, as assumed below.")
    ]
    assumption: str
    warnings: Annotated[list[str], Field(description="What speaks against this training, and what would help.")]
    trainings_left: Annotated[int, Field(description="How many trainings of this size the budget has left for you.")]


class RehearsedValue(BaseModel):
    behaviour: float
    policy: float
    best: Annotated[float | None, Field(description="Of whoever knows the twin; not known for vector states.")]


class Rehearsal(BaseModel):
    """What the same training learned from a made-up twin; nothing in it is about a patient."""

    dataset: Id
    twin: int
    units: Annotated[int, Field(description="Fewer than the dataset's where that would take too long.")]
    privacy: Annotated[Object, Field(description="Then with as much more ρ as keeps the noise in proportion.")]
    note: Annotated[str | None, Field(description="What fewer units cannot show.")]
    value: Annotated[RehearsedValue, Field(description="What a stay is worth on average in the twin's clinic.")]
    learned_share: float
    algorithm: str
    parameters: Object
    chosen: Object | None = None


Charged = Annotated[
    bool,
    Field(
        description="Whether its ρ was charged, which is so from its start on; cancelling before that gives it back."
    ),
]


class TrainingSummary(BaseModel):
    id: Id
    dataset: Id
    state: Literal["queued", "running", "released", "failed", "cancelled"]
    progress: Annotated[float, Field(ge=0, le=1, description="Public stages done.")]
    policy: Id | None
    code: str | None
    rho: Rho
    charged: Charged
    algorithm: str
    created_at: Time


class Training(TrainingSummary):
    """With everything that was asked, every default written out."""

    privacy: Object
    parameters: Object
    half: str | None = None
    chosen: Annotated[Object | None, Field(description="What `auto` chose, by which rule, and why.")] = None


class EvaluationPlan(Price):
    """What an evaluation would do and cost."""

    policy: Id
    patients: Annotated[str, Field(description="Whom it would judge on, seen from whom the policy was learned from.")]
    evaluations_left: Annotated[int, Field(description="How many of this size the budget has left for you.")]


class EvaluationSummary(BaseModel):
    id: Id
    dataset: Id
    state: Literal["queued", "running", "released", "failed", "cancelled"]
    progress: Annotated[float, Field(ge=0, le=1, description="Public stages done.")]
    code: str | None
    rho: Rho
    charged: Charged
    created_at: Time


class Found(BaseModel):
    """What a stay is worth on average, with an interval that covers noise and sampling."""

    model_config = ConfigDict(extra="allow")
    value: float
    low: float
    high: float
    level: Annotated[
        float,
        Field(description="How often such intervals are meant to hold the true value; see docs/decisions/0012."),
    ]


class Report(BaseModel):
    """The certified artefact of an evaluation, byte for byte."""

    id: Id
    algorithm: str
    policy: Object
    patients: Literal["same", "other half", "other population"]
    caution: str
    found: Found


class Evaluation(EvaluationSummary):
    policy: Id
    privacy: Object
    parameters: Object
    half: str | None
    report: Report | None


class PolicyName(BaseModel):
    id: Id
    training: Id
    dataset: Id
    algorithm: str
    derived: bool


class Policy(BaseModel):
    """The certified artefact, byte for byte; a linear policy has weights where a tabular one has decisions."""

    model_config = ConfigDict(extra="allow")
    id: Id
    algorithm: str
    horizon: int
    states: Object
    actions: Object
    decisions: list[list[int]] | None = None
    source: list[list[Literal["learned", "fallback"]]] | None = None
    pessimistic_score: list[list[float]] | None = None
    value_lower_bound: float | None


class Decision(BaseModel):
    action: int
    label: str | None
    source: Literal["learned", "fallback"]
    pessimistic_score: float


class KeyName(BaseModel):
    id: Id
    kind: Annotated[
        Literal["key", "identity"], Field(description="An identity has no token here; its provider vouches for it.")
    ]
    name: str
    role: Annotated[str, Field(description="Of an identity: what its newest token said.")]
    created_at: Annotated[Time, Field(description="Of an identity: when it was first seen.")]
    revoked_at: Time | None
    issuer: Annotated[str | None, Field(description="The provider of an identity.")]
    subject: Annotated[str | None, Field(description="Whom the provider means.")]


class MadeKey(BaseModel):
    id: Id
    name: str
    role: str
    token: Annotated[str, Field(description="Shown once, and kept nowhere.")]


class Session(BaseModel):
    """Whose session it is; its secret is in the cookie only."""

    id: Annotated[Id, Field(description="Of the key.")]
    name: str
    role: str
    csrf: Annotated[str, Field(description="Send it as `X-CSRF-Token` with every request but GET.")]
    expires_at: Annotated[
        Time,
        Field(description="If it is not used again; each use moves it, up to twelve hours or an identity's token."),
    ]


class AuditEntry(BaseModel):
    sequence: int
    at: Time
    actor: Id
    action: str
    object: Annotated[str, Field(max_length=64, description="An id, or the fingerprint of a signing key.")]


class KeyList(BaseModel):
    keys: list[Object]


class Health(BaseModel):
    status: str


class Readiness(BaseModel):
    status: Literal["ready", "not ready"]
    database: bool
    store: bool
    ledger: bool


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next: str | None


class AuditPage(BaseModel):
    items: list[AuditEntry]
    next: int | None
