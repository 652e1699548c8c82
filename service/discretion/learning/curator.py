"""The privacy boundary: the sole holder of raw trajectories.

A learner asks; each answer is already bounded, summed exactly, debited, logged and noised. What a learner does with an
answer is post-processing and needs no privacy review.

The curator is *total*: once it holds data, no exception, state or log line depends on a record. Everything that can be
refused (an allowance passed, a sum that would not fit) is decided from public quantities before a record is read.

Statistics (`counts`, `regressions`) stand inside the boundary: each states its own sensitivity, with the proof. What a
learner hands to them (values, deviations, chosen rows) is checked for its shape when the question is put, and whatever
numbers it holds, the bounds hold.
"""

import copy
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np

from discretion import errors
from discretion.learning import sums
from discretion.learning.schemas import FloatArray, IntArray, Schema, check_units
from discretion.learning.trajectories import Trajectories
from discretion.privacy import events, noise, rho

_INTEGERS: Final = 2**62  # what an exact sum and its noise must stay below
_NARROW: Final = 2**31
_DRAWN: Final = 2**22  # numbers of noise that are held at once, beside those that they are added to
_TAIL: Final = 2**10  # noise beyond this many scales does not happen


def _exact(amount: object) -> Fraction:
    if isinstance(amount, bool) or not isinstance(amount, Fraction | int):
        raise errors.InvalidRho(f"A privacy budget must be an exact fraction, not {type(amount).__name__}.")
    if amount <= 0:
        raise errors.InvalidRho("A privacy budget must be above zero.")
    return Fraction(amount)


@dataclass(frozen=True)
class Concentrated:
    """A ρ-zCDP budget, or a share of one: Gaussian noise."""

    rho: Fraction

    def __post_init__(self) -> None:
        _exact(self.rho)

    def part(self, fraction: Fraction) -> "Concentrated":
        return Concentrated(self.rho * fraction)


@dataclass(frozen=True)
class Pure:
    """A pure ε-DP budget, or a share of one: Laplace noise."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        _exact(self.epsilon)

    def part(self, fraction: Fraction) -> "Pure":
        return Pure(self.epsilon * fraction)


Share = Concentrated | Pure


def check_budget(privacy: Share) -> None:
    """A whole training's budget is what a ledger can hold: a whole number of nano-ρ, or of nano-ε, and not too many."""
    pure = isinstance(privacy, Pure)
    amount = Fraction(privacy.epsilon if isinstance(privacy, Pure) else privacy.rho)
    if (amount * rho.NANO).denominator != 1 or (rho.of_pure(amount) if pure else amount) * rho.NANO > rho.MOST:
        raise errors.InvalidRho("The budget of a training must be a whole number of billionths and ρ at most 1000000.")


@dataclass(frozen=True)
class Query:
    """A statistic to be released, and the share of the budget it may cost."""

    statistic: sums.Statistic
    share: Share


@dataclass(frozen=True)
class Answer:
    """A noised statistic on its integer grid, and the event that paid for it."""

    grid: IntArray
    event: events.Event

    @property
    def values(self) -> FloatArray:
        return self.grid.astype(np.float64) * float(self.event.resolution)


def event_of(query: Query, units: int) -> events.Event:
    """The release a query stands for, a pure function of public quantities: plans and certificates are made of it."""
    check_units(units)
    statistic = query.statistic
    mechanism, sensitivity, scale = _mechanism(statistic, query.share)
    event = events.Event(
        mechanism, statistic.name, statistic.shape, sensitivity, scale, statistic.resolution, statistic.part
    )
    if _reach(event, statistic, units) >= _INTEGERS:
        raise errors.ProblemTooLarge(
            f"The {statistic.name} of {units} units cannot be summed exactly in 64 bits; "
            f"use fewer units, a shorter horizon or a larger share of the budget."
        )
    return event


def _reach(event: events.Event, statistic: sums.Statistic, units: int) -> int:
    """What no answer is beyond."""
    return statistic.largest(units) + _TAIL * _width(event)


def is_narrow(query: Query, units: int) -> bool:
    """Whether 32 bits hold the answer, by what is public."""
    return _reach(event_of(query, units), query.statistic, units) < _NARROW


def _mechanism(statistic: sums.Statistic, share: Share) -> tuple[str, Fraction, Fraction]:
    """Which noise, the sensitivity that counts for it, and its scale."""
    if isinstance(share, Pure):
        absolute = statistic.absolute_sensitivity
        if absolute is None:
            raise errors.InvalidParameter(f"The {statistic.name} can be released with zCDP only, not with pure ε-DP.")
        return events.LAPLACE, absolute, events.laplace_scale(absolute, share.epsilon)
    squared, rho = statistic.squared_sensitivity, share.rho
    if statistic.symmetric:
        return events.SYMMETRIC_GAUSSIAN, squared, events.symmetric_gaussian_scale(squared, rho)
    return events.GAUSSIAN, squared, events.gaussian_scale(squared, rho)


def _width(event: events.Event) -> int:
    """An integer above the noise's standard deviation on the grid (on the diagonal, where it is larger)."""
    scale = event.grid_scale
    if event.mechanism == events.LAPLACE:
        return math.ceil(2 * scale)
    return math.isqrt(math.ceil(2 * scale)) + 1


class Journal(Protocol):
    """What survives a crash, so that no noise is ever drawn twice for one charge.

    Draws are numbered in the order they are asked for. An intent is durable before anything is drawn, and the noised
    values right after; an intent without values means a crash in between, and `recall` must refuse to go on from it.
    """

    def recall(self, first: int, asked: Sequence[events.Event]) -> list[IntArray] | None:
        """The values of the draws from number `first` on, None if they were never intended."""

    def intend(self, first: int, asked: Sequence[events.Event]) -> None: ...
    def record(self, first: int, values: Sequence[IntArray]) -> None: ...


Summing = Callable[[Sequence[sums.Statistic], Trajectories], list[IntArray]]


class Curator:
    """Holds the trajectories and an allowance of ρ; answers until the allowance is spent."""

    def __init__(
        self,
        trajectories: Trajectories,
        allowance: Fraction,
        journal: Journal | None = None,
        summing: Summing = sums.totals,  # or the same integers from elsewhere
    ) -> None:
        self._trajectories = trajectories
        self._summing = summing
        self._journal = journal
        self._allowance = _exact(allowance)
        self._events: list[events.Event] = []
        self._spent = events.Tally()
        self._purse = threading.Lock()

    @property
    def schema(self) -> Schema:
        return self._trajectories.schema

    @property
    def units(self) -> int:
        return self._trajectories.units

    @property
    def log(self) -> tuple[events.Event, ...]:
        return tuple(self._events)

    def price(self, query: Query) -> events.Event:
        """The event that answering the query will be; asks nothing yet."""
        if query.statistic.schema != self.schema:
            raise errors.InvalidParameter("The statistic was made for another schema than the data's.")
        return event_of(query, self.units)

    def done(self) -> None:
        """Nothing more will be asked: what was kept of the data for that may go."""
        self._trajectories.give_way(None)

    def ask(self, *queries: Query) -> list[Answer]:
        """Debit all, then sum in one pass, then add noise; or repeat what an interrupted run was already told."""
        asked = [self.price(query) for query in queries]
        first = self._debit(asked)
        if self._journal is None:
            return self._drawn(self._totals(queries), asked)
        recalled = self._journal.recall(first, asked)
        if recalled is not None:
            return [Answer(values, event) for values, event in zip(recalled, asked, strict=True)]
        totals = self._totals(queries)  # the long part: interrupted here, nothing was drawn, and it may be done again
        self._journal.intend(first, asked)
        answers = self._drawn(totals, asked)
        self._journal.record(first, [answer.grid for answer in answers])
        return answers

    def _totals(self, queries: Sequence[Query]) -> list[IntArray]:
        self._trajectories.give_way(sum(getattr(query.statistic, "bytes", 0) for query in queries))
        with np.errstate(all="ignore"):  # a warning that depends on a record would be a message about it
            return self._summing([query.statistic for query in queries], self._trajectories)

    def _drawn(self, totals: Sequence[IntArray], asked: Sequence[events.Event]) -> list[Answer]:
        for total, event in zip(totals, asked, strict=True):
            self._add_noise(total, event)
        return [Answer(total, event) for total, event in zip(totals, asked, strict=True)]

    def _add_noise(self, total: IntArray, event: events.Event) -> None:
        """In place, and some rows at a time: a table of transitions may be most of the memory."""
        rows = len(total)
        if event.mechanism != events.SYMMETRIC_GAUSSIAN and total.ndim > 1:  # else rows have noise in common
            rows = max(1, _DRAWN // max(1, total[:1].size))
        for start in range(0, len(total), rows):
            part = total[start : start + rows]
            part += self._noise(event, part.shape)

    def _debit(self, asked: Sequence[events.Event]) -> int:
        """Pay for all of them or none; the number of the first."""
        with self._purse:
            spent = copy.deepcopy(self._spent)
            for event in asked:
                spent.add(event)
            if spent.rho > self._allowance:
                raise errors.AllowanceExceeded("The learner asked for more than its allowance; nothing was answered.")
            self._spent = spent
            self._events.extend(asked)
            return len(self._events) - len(asked)

    def _noise(self, event: events.Event, shape: tuple[int, ...]) -> IntArray:
        draw = {
            events.GAUSSIAN: noise.gaussian,
            events.SYMMETRIC_GAUSSIAN: noise.symmetric_gaussian,
            events.LAPLACE: noise.laplace,
        }[event.mechanism]
        return draw(event.grid_scale, shape)
