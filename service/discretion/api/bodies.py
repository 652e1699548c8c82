"""What the API is sent, shaped for the edge only: what a training means is read by `learning.documents` and `forms`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from discretion import bearer
from discretion.api.schemas import Id, Name, Object, Rho


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Budget(_Strict):
    """ρ, or the largest ρ that implies (ε, δ)."""

    rho: Rho | None = None
    epsilon: float | str | None = None
    delta: float | str | None = None


class NewPopulation(_Strict):
    name: Name
    budget: Budget


class NewBudget(_Strict):
    rho: Rho
    reason: Annotated[str, Field(min_length=1, max_length=500, description="Stays visible; no patient facts in it.")]


class NewDataset(_Strict):
    """Everything here is public knowledge, never read off the data."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "icu-2019",
                    "budget": {"rho": "2"},
                    "horizon": 20,
                    "states": {"kind": "discrete", "count": 716},
                    "actions": {"count": 25},
                    "reward": {"low": 0, "high": 1},
                    "return": {"low": 0, "high": 1},
                    "max_trajectories_per_unit": 1,
                }
            ]
        }
    )

    name: Name
    population: Id | None = None
    budget: Budget | None = None
    horizon: Annotated[int, Field(ge=1)]
    states: Annotated[
        Object, Field(description='{"kind": "discrete", "count"} or {"kind": "vector", "columns", "bounds"}')
    ]
    actions: Annotated[Object, Field(description='{"count"} and, optionally, "labels"')]
    reward: Annotated[
        Object,
        Field(
            description='{"low", "high"} of one reward; "outcome": true where a stay earns once, in its last row. '
            "An upload with outcomes says so too."
        ),
    ]
    return_: Annotated[
        Object | None, Field(alias="return", description='{"low", "high"} of a whole trajectory\'s rewards')
    ] = None
    max_trajectories_per_unit: Annotated[int, Field(ge=1)] = 1
    labels: Annotated[
        list[str] | None, Field(description="What the actions are called, if `actions` does not say.")
    ] = None


class NewGrant(_Strict):
    key: Id
    rho: Rho


class NewTraining(_Strict):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dataset": "ds_…",
                    "algorithm": "auto",
                    "privacy": {"rho": "0.5"},
                    "parameters": {},
                }
            ]
        }
    )

    dataset: Id
    algorithm: Annotated[str, Field(max_length=40, description='"auto", "dp-apvi", "dp-vapvi" or "dp-pae"')]
    privacy: Annotated[Object, Field(description='{"rho"}, {"epsilon", "delta"} or, for dp-apvi, {"pure_epsilon"}')]
    parameters: Annotated[Object, Field(description="Public constants; {} takes the defaults.")] = Field(
        default_factory=dict
    )
    half: Annotated[
        Literal["first", "second"] | None,
        Field(description="Read this half of the units only, so that the other can judge what was learned."),
    ] = None


class NewPlan(NewTraining):
    visiting: Annotated[
        Object | None,
        Field(
            description='How often states and actions are visited, from public sources: {"steps": mean steps of a '
            'stay, "states": shares, "actions": shares}. What is left out is assumed.'
        ),
    ] = None


class NewRehearsal(NewTraining):
    twin: Annotated[int, Field(ge=0, le=10**9, description="Which of the made-up twins.")] = 0


class NewEvaluation(_Strict):
    policy: Id
    dataset: Annotated[Id | None, Field(description="Whose patients to ask; the policy's own dataset if left out.")] = (
        None
    )
    privacy: Annotated[Object, Field(description='{"rho"} or {"epsilon", "delta"}')]
    parameters: Annotated[Object, Field(description="Public constants; {} takes the defaults.")] = Field(
        default_factory=dict
    )
    half: Annotated[
        Literal["first", "second"] | None,
        Field(description="Ask this half of the units only: the one that the policy was not trained on."),
    ] = None


class NewDerivation(_Strict):
    parameters: Object


class Question(_Strict):
    step: int
    state: Annotated[
        int | dict[str, int | float | None], Field(description="A number, or the columns of a vector state.")
    ]


class NewKey(_Strict):
    name: Name
    role: Literal["admin", "custodian", "analyst", "auditor"]


class NewSession(_Strict):
    token: Annotated[
        str, Field(min_length=1, max_length=bearer.LONGEST, description="As it would be sent with every request.")
    ]
