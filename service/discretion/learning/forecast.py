"""What a plan expects of a training before anything is paid: what will be learned, and what speaks against it.

Everything here is public arithmetic. How often patients visit each state is *assumed*, or typed in from public sources;
reading it off stored rows would be a release, with a price of its own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from discretion import errors
from discretion.learning import apvi, apvi_stationary, checks, learners, pae
from discretion.learning.curator import Pure, Share, check_budget
from discretion.learning.features import Blocks, Table
from discretion.learning.learners import Parameters
from discretion.learning.pae_prospects import Prospect
from discretion.learning.reader import Document, Object, open_object
from discretion.learning.schemas import BoolArray, FloatArray, Schema

_NAMED: Final = 5  # coordinates
_LENGTH: Final = 0.5  # of a stay, in horizons, where nothing else is known
_CUT_SHORT: Final = (
    "Stays earn once, by an outcome, and these counts leave out what a stay earns at the horizon where it was cut; "
    "use auto or dp-pae."
)
_TOO_MANY_ROWS: Final = (
    "Up to {likely} rows of transitions may have enough visits, and at most {most} rows of {successors} successors are "
    "drawn: those with the most noised visits. From the others nothing is learned, and their decisions are fallbacks. "
    "Use fewer states, or dp-pae, which counts no transitions."
)
_CLIPPED: Final = (
    "It is the constant c2 that asks for so many visits: with fewer, its penalty clips every score to zero."
)


@dataclass(frozen=True, eq=False)
class Visiting:
    """How visits spread, publicly: the mean number of steps of a stay, and shares of states and of actions."""

    steps: float
    states: FloatArray  # (S,), shares; for linear features: of one state
    actions: FloatArray  # (A,), shares
    assumption: str


@dataclass(frozen=True)
class Forecast:
    visits_needed: float  # of a state and action, or of a direction of the features
    learned_share: float  # of the decisions that will be asked for
    assumption: str
    warnings: tuple[str, ...]

    def document(self) -> Document:
        return {
            "visits_needed": round(self.visits_needed, 1),
            "learned_share": round(self.learned_share, 3),
            "assumption": self.assumption,
            "warnings": list(self.warnings),
        }


def _falling(count: int) -> FloatArray:
    """Zipf's law: the k-th most frequent is visited 1/k as often as the first."""
    weights = 1.0 / np.arange(1, count + 1)
    return weights / weights.sum()


def visiting_of(document: object, schema: Schema, parameters: Parameters) -> Visiting:
    """A profile from public sources; what it does not say is assumed."""
    top = open_object({} if document is None else document, errors.InvalidParameter, (), ("steps", "states", "actions"))
    steps = top.number("steps", max(1.0, _LENGTH * schema.horizon))
    checks.number(steps, "visiting.steps", low=1.0, high=schema.horizon)
    return Visiting(
        steps,
        _shares(top, "states", _cells(schema, parameters)),
        _shares(top, "actions", schema.actions),
        f"Stays of {steps:g} steps on average; states "
        f"{'as typed in' if top.has('states') else 'visited as 1/rank'}, actions "
        f"{'as typed in' if top.has('actions') else 'taken as 1/rank in each of them'}.",
    )


def _cells(schema: Schema, parameters: Parameters) -> int:
    features = getattr(parameters, "features", None)
    if isinstance(features, Blocks):
        return 1
    return schema.count if features is None else int(features.states)


def _shares(top: Object, key: str, count: int) -> FloatArray:
    if not top.has(key):
        return _falling(count)
    weights = top.array(key, 1)
    if len(weights) != count or (weights < 0).any() or not 0 < weights.max() <= checks.LARGEST:
        raise top.refuse(f"visiting.{key}", f"{count} numbers, none below zero, which are the shares of visits")
    return weights / weights.sum()


def forecast(schema: Schema, units: int, privacy: Share, parameters: Parameters, visiting: Visiting) -> Forecast:
    found = _expected(schema, units, privacy, parameters, visiting)
    told = list(_constants(getattr(parameters, "features", None)))
    if schema.outcome and isinstance(parameters, apvi_stationary.Parameters):
        told.append(_CUT_SHORT)
    told += _left_out(schema, units, privacy, parameters)
    return replace(found, warnings=(*found.warnings, *told))


def _constants(features: object) -> Iterator[str]:
    """Coordinates of a table that tell nothing apart. They harm little, so they are allowed."""
    if not isinstance(features, Table) or features.states * features.actions == 1:
        return
    values = features.values.reshape(-1, features.width)
    same, zero = (values == values[0]).all(axis=0), (values == 0).all(axis=0)
    if zero.any():
        yield f"Coordinates of the features that are always zero, and so of no use: {_listed(zero)}. Leave them out."
    if (same & ~zero).any():
        yield (
            "Coordinates of the features that are the same for every state and action, and so tell none of them "
            f"apart: {_listed(same & ~zero)}. Leave them out, unless one stands for the constant of a model in the "
            "paper's calibration."
        )


def _listed(which: BoolArray) -> str:  # (d,)
    numbers = np.flatnonzero(which)
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return ", ".join(map(str, numbers[:_NAMED])) + more


def _left_out(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[str]:
    """Where rows with enough visits may not be drawn, because there are too many successors."""
    if isinstance(parameters, apvi.Parameters):
        likely, most = apvi.likely_rows(schema, units, privacy, parameters), apvi.most_rows(schema)
    elif isinstance(parameters, apvi_stationary.Parameters):
        likely = apvi_stationary.likely_rows(schema, units, privacy, parameters)
        most = apvi_stationary.most_rows(schema)
    else:
        return []
    if likely <= most or learners.hopeless(schema, units, privacy, parameters) is not None:
        return []
    return [_TOO_MANY_ROWS.format(likely=likely, most=most, successors=schema.count + 1)]


def _expected(schema: Schema, units: int, privacy: Share, parameters: Parameters, visiting: Visiting) -> Forecast:
    asked = (schema, units, privacy, parameters)
    hopeless = learners.hopeless(*asked)
    if hopeless is not None:
        return Forecast(learners.visits_needed(*asked), 0.0, visiting.assumption, (hopeless,))
    seen = units * visiting.steps * np.outer(visiting.states, visiting.actions)  # (S, A)
    if learners.dynamics_of(parameters) == learners.PER_STEP:
        seen = seen / schema.horizon
    features = getattr(parameters, "features", None)
    if isinstance(features, Blocks):
        needed = learners.visits_needed(*asked)
        seen = seen / (features.width * getattr(parameters, "time_groups", 1))
        share = float(visiting.actions[seen[0] >= needed].sum())
        return _told(asked, needed, seen, share, visiting)
    seen = np.minimum(seen, units * schema.per_unit)  # pooled learners count a place once for each stay
    if isinstance(parameters, pae.Parameters):
        return _of_advantages(Prospect(schema, units, privacy, parameters, visiting.steps, seen), visiting)
    needed = _needed(asked, seen)
    share = float(visiting.states[seen.max(axis=1) >= needed].sum())
    found = _told(asked, needed, seen, share, visiting)
    if found.warnings and isinstance(parameters, apvi.Parameters) and parameters.c2 > 0:
        return replace(found, warnings=(*found.warnings, f"{_CLIPPED} {apvi.milder(parameters)}"))
    return found


_Asked = tuple[Schema, int, Share, Parameters]


def _needed(asked: _Asked, seen: FloatArray) -> float:
    """Visits of a decision; where noise would hide all rewards, as many as would show one of them."""
    parameters = asked[-1]
    needed = learners.visits_needed(*asked)
    if isinstance(parameters, apvi_stationary.Parameters):
        short = apvi_stationary.reward_shortfall(*asked[:3], parameters, seen)
        return max(needed, short * float(seen.max())) if short > 1 else needed
    return needed


def _told(asked: _Asked, needed: float, seen: FloatArray, share: float, visiting: Visiting) -> Forecast:
    told = (_too_little(asked, needed, seen),) if share == 0.0 else ()
    return Forecast(needed, min(share, 1.0), visiting.assumption, told)


def _of_advantages(prospect: Prospect, visiting: Visiting) -> Forecast:
    """DP-PAE counts a patient less in each place the more places it went through, and leaves out rare actions."""
    share, told = float(visiting.states[prospect.learned()].sum()), ""
    if share == 0.0:
        enough = prospect.enough()
        told = "Under this assumption nothing would be learned: " + (
            f"no action has so large a share of a state's visits as floor = {prospect.parameters.floor:g} asks for, or "
            "all is noise. Set floor below one over the number of actions, or use fewer states or actions."
            if enough is None
            else f"noise would hide how actions differ. About {enough} units would do"
            f"{_or_more(prospect, math.ceil((enough / prospect.units) ** 2))}, or fewer states or actions."
        )
    assumption = (
        f"{visiting.assumption} Assumed: between actions of one state, what follows differs by a quarter of what it "
        "differs between visits."
    )
    return Forecast(prospect.needed, min(share, 1.0), assumption, (told,) if told else ())


def _or_more(prospect: Prospect, times: int) -> str:
    """Chance stays, however little noise there is."""
    more = _enlarged(prospect.privacy, times)
    return f", or {times} times the ρ" if more is not None and prospect.paying(more).learned().any() else ""


def _too_little(asked: _Asked, needed: float, seen: FloatArray) -> str:
    """Needed visits fall about as 1/√ρ, down to what chance asks for."""
    schema, units, privacy, parameters = asked
    features, most = getattr(parameters, "features", None), float(seen.max())
    factor = needed / most
    times = math.ceil(factor**2)
    more = _enlarged(privacy, times)
    helps = more is not None and _needed((schema, units, more, parameters), seen) <= most
    less = _fewer(features, factor) if isinstance(features, Blocks) else "or fewer states, actions or features"
    return (
        f"Under this assumption nothing would be learned: even the most frequent decision is seen about {most:.3g} "
        f"times, and {needed:.3g} are needed. About {math.ceil(units * factor)} units would do"
        f"{f', or {times} times the ρ' if helps else ''}, {less}."
    )


def _fewer(features: Blocks, factor: float) -> str:
    """Visits are spread over the features, and the noise of their matrix grows as the root of their number."""
    carried = math.floor(features.width / factor ** (2 / 3))
    few = f"about {carried} of them can be carried, not {features.width}" if carried > 1 else "these are too many"
    return f"or fewer features ({few}) or fewer actions"


def _enlarged(privacy: Share, times: int) -> Share | None:
    """So many times the ρ, if a training may have as much."""
    more = (
        Pure(privacy.epsilon * math.ceil(math.sqrt(times)))
        if isinstance(privacy, Pure)
        else privacy.part(Fraction(times))
    )
    try:
        check_budget(more)
    except errors.InvalidRho:
        return None
    return more
