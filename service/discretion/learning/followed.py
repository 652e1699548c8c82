"""What patients went through where a judged policy was followed, in sums that one patient can move by little.

A *followed* visit is one at which the recorded action is the judged policy's. All of them would let one long stay move
a count by much, and to shorten long stays as a whole would count their transitions less than those of short ones, whose
end came soon: that would flatter or slander the policy. So a unit's visits are taken in their order until their count
vector would pass the length √L, and none after that. Whether a visit is taken is settled before anyone knows where it
leads, so what is taken is a fair sample of the transitions.

Where data earn once, by an outcome, the kernel is the same at every step and the pay is not. Then the last step is kept
apart (`horizon`), and before it a visit is paid by its outcome, if the stay really ended there, and by how far the next
state is better than this one: r′ = r + Φ(s′) − Φ(s), Φ being what each state was found to earn at the last step, and 0
at the end. That is the same at every step, and with Φ(s₁) it adds up to what a stay earns but for what step H adds.

For replacing one unit, v and v′ being its two contributions on the integer grid of ONE steps to a radius:

* sums over cells: ‖v‖, ‖v′‖ ≤ 1, so ‖v − v′‖² ≤ 4; without negative entries ⟨v, v′⟩ ≥ 0, so ≤ 2;
* several numbers in [0, 1]: ≤ their number;
* a histogram: one bin a unit, ≤ 2;
* a number z in [−1, 1] with its square: with a = |z − z′| and |z + z′| ≤ 2 − a the squared distance is
  a² + a²(z + z′)² ≤ a²(1 + (2 − a)²), which rises up to a = 2, where it is 4. The square is free. (On the grid z² is
  rounded down: that moves a²(z + z′)² by at most 4(2 − a)/ONE + 1/ONE², and short of a = 2 the slack is larger.) A
  further number in [−¼, ¼] adds at most ¼.

Radii, tables and choices handed in were released before; whatever they hold, the bounds hold, because lengths are
checked in integers. Each contribution is a function of its unit's own records, bit for bit: look-ups, elementwise
arithmetic and sums of integers below 2⁵³.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from discretion import errors
from discretion.learning import sums
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded, Records
from discretion.privacy import events

ONE: Final = 1 << 20  # steps of the grid in a radius
_MOST: Final = float(1 << 9)  # radii that one record may add: 2²⁹ · 10⁷ records of a unit stay below 2⁵³


def settles(schema: Schema) -> bool:
    """Whether the last step is kept apart, because that is where stays earn."""
    return schema.outcome and schema.horizon > 1


def pooled_steps(schema: Schema) -> int:
    return schema.horizon - settles(schema)


@dataclass(frozen=True, eq=False, repr=False)
class Visits:
    """The records of a block with a known successor, by unit, then by trajectory, then by step."""

    units: IntArray  # (R,) 0 … U−1, ascending
    starts: BoolArray  # (R,) the first step of a trajectory
    steps: IntArray  # (R,)
    states: IntArray  # (R,)
    actions: IntArray  # (R,)
    rewards: FloatArray  # (R,) over their width: the end earns 0
    successors: IntArray  # (R,) S is the end
    positions: IntArray  # (U,) where the units are stored, ascending

    @property
    def count(self) -> int:  # U
        return len(self.positions)


def visits(block: Bounded) -> Visits:
    return block.once(("visits in order",), lambda: _visits(block))


def _visits(block: Bounded) -> Visits:
    """A visit whose successor nobody recorded is left out: pooled over steps, the horizon is no end like others."""
    schema, horizon = block.schema, pooled_steps(block.schema)
    rank = np.empty(len(block.positions), dtype=np.int64)
    rank[np.argsort(block.positions, kind="stable")] = np.arange(len(rank))
    shape = (len(rank), horizon)
    here, states, actions, successors = (np.zeros(shape, dtype=np.int64) for _ in range(4))
    rewards = np.zeros(shape)
    for step in range(horizon):
        records = _paid(schema, block.records(step))
        records = records.only(records.known)
        rows = rank[records.rows]
        here[rows, step] = block.positions[records.rows] + 1
        states[rows, step], actions[rows, step] = records.states, records.actions
        successors[rows, step], rewards[rows, step] = records.successors, records.rewards - schema.idle
    taken = here > 0
    present, units = np.unique(here[taken], return_inverse=True)
    steps = np.broadcast_to(np.arange(horizon), shape)[taken]
    columns = (states[taken], actions[taken], rewards[taken], successors[taken])
    return Visits(units, steps == 0, steps, *columns, present - 1)


def _paid(schema: Schema, records: Records) -> Records:
    """An outcome is paid where a stay really ended; the only step of a stay is its end whatever it says."""
    if not schema.outcome:
        return records
    if schema.horizon == 1:
        every = np.ones(len(records.rows), dtype=np.bool_)
        return replace(records, successors=np.full(len(every), schema.count), ended=every, known=every)
    return replace(records, rewards=np.where(records.ended, records.rewards, schema.idle))


def within(units: IntArray, cells: IntArray, counted: BoolArray, limit: int) -> BoolArray:  # (R,)
    """The counted visits of each unit, in order, as long as the squared length of their count vector is ≤ limit."""
    chosen = np.flatnonzero(counted)
    owner, cell = units[chosen], cells[chosen]
    order = np.argsort(owner * (int(cells.max(initial=0)) + 1) + cell, kind="stable")
    before = np.empty(len(order), dtype=np.int64)  # visits of the same unit and cell so far
    before[order] = _places((owner[order], cell[order]))
    grown = np.cumsum(2 * before + 1)  # (k + 1)² − k²
    base = grown - (2 * before + 1)
    length = grown - base[np.arange(len(grown)) - _places((owner,))]
    kept = np.zeros(len(units), dtype=np.bool_)
    kept[chosen[length <= limit]] = True
    return kept


def _places(keys: tuple[IntArray, ...]) -> IntArray:
    """The place of each entry in its run of equal keys."""
    index = np.arange(len(keys[0]))
    new = np.ones(len(index), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return index - np.maximum.accumulate(np.where(new, index, 0))


def shortened(units: IntArray, cells: IntArray, whole: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """Each unit's vector of integers, shortened until its integer length is at most ONE: cells and entries."""
    keys, inverse = np.unique(units * size + cells, return_inverse=True)
    entries = np.bincount(inverse, weights=whole, minlength=len(keys)).astype(np.float64)
    return keys % size, sums.shortened(entries, keys // size, ONE)


def integers(values: FloatArray, radius: float) -> FloatArray:
    """Records on the grid, in units of the radius; a number that is none counts as zero."""
    return sums.whole(values / radius * ONE, _MOST * ONE)


@dataclass(frozen=True)
class Limits:
    """L: visits are taken up to such squared lengths of their count vector."""

    followed: int = 1  # of visits that followed the policy
    visited: int = 1  # of all visits


@dataclass(frozen=True, eq=False)
class Judged:
    """The judged policy, and what to take for it where too few patients followed it."""

    schema: Schema
    decisions: IntArray  # (H, S)
    limits: Limits = Limits()
    trusted: BoolArray | None = None  # (S, A) decisions with enough followed visits
    place: IntArray | None = None  # (S,) s, or S for the pool of states with too few visits of any kind
    potential: FloatArray | None = None  # (S + 1,) Φ, where the last step is kept apart

    def __post_init__(self) -> None:
        shape, count = (self.schema.horizon, self.schema.count), self.schema.count
        fits = self.decisions.shape == shape and (self.place is None or self.place.shape == (count,))
        if not fits or (self.trusted is not None and self.trusted.shape != (count, self.schema.actions)):
            raise errors.InvalidParameter("The policy to be judged does not fit the data's schema.")

    def ever(self) -> BoolArray:  # (S, A)
        """Which decisions the policy takes at any step."""
        found = np.zeros((self.schema.count, self.schema.actions), dtype=np.bool_)
        found[np.arange(self.schema.count), self.decisions] = True
        return found

    @property
    def phi(self) -> FloatArray:  # (S + 1,)
        """Φ within what can be earned, so that no r′ is larger than a reward's width."""
        idle, count = self.schema.idle, self.schema.count
        given = np.zeros(count + 1) if self.potential is None else self.potential
        return np.append(np.clip(np.nan_to_num(given[:count]), -idle, 1 - idle), 0.0)

    def visits(self, block: Bounded) -> Visits:
        """All visits, as they are paid."""
        if self.potential is None:
            return visits(block)
        return block.once(("visits paid", id(self)), lambda: self._paid(visits(block)))

    def _paid(self, seen: Visits) -> Visits:
        phi = self.phi
        return replace(seen, rewards=seen.rewards + (phi[seen.successors] - phi[seen.states]))

    def followed(self, block: Bounded) -> tuple[Visits, IntArray, BoolArray]:
        """The visits, the cell of each in (own step?, state, action), and which are taken."""
        seen = self.visits(block)
        now = self.decisions[seen.steps, seen.states] == seen.actions
        cells = (~now * self.schema.count + seen.states) * self.schema.actions + seen.actions
        taken = within(seen.units, cells, self.ever()[seen.states, seen.actions], self.limits.followed)
        return seen, cells, taken

    def everyone(self, block: Bounded) -> tuple[Visits, BoolArray]:
        seen = self.visits(block)
        return seen, within(seen.units, seen.states, np.ones(len(seen.units), dtype=np.bool_), self.limits.visited)

    def at_last(self, states: IntArray, actions: IntArray) -> tuple[BoolArray, BoolArray]:  # (R,) each
        """Of records of the last step: whether everyone stands in there, and who did what the policy does."""
        alike = self.decisions[-1, states] == actions
        if self.trusted is None:
            return np.ones(len(states), dtype=np.bool_), alike
        stand_in = ~np.asarray(self.trusted.any(axis=1))[states]
        return stand_in, alike & (stand_in | self.trusted[states, actions])

    def chosen(self, block: Bounded) -> "Chosen":
        return block.once(("chosen", id(self)), lambda: self._chosen(block))

    def _chosen(self, block: Bounded) -> "Chosen":
        """Followed visits of trusted decisions; in states that have none, the visits of everyone."""
        states, actions = self.schema.count, self.schema.actions
        trusted = np.zeros((states, actions), dtype=np.bool_) if self.trusted is None else self.trusted
        place = np.full(states, states) if self.place is None else self.place
        seen, cells, followed = self.followed(block)
        _, all_ = self.everyone(block)
        sure = trusted[seen.states, seen.actions] & followed
        other = ~np.asarray(trusted.any(axis=1))[seen.states] & all_
        cell = np.where(other, states * actions + place[seen.states], seen.states * actions + seen.actions)
        own = cells < states * actions
        return Chosen(seen, sure | other, (sure & own) | other, other, own, cell, place)


@dataclass(frozen=True, eq=False, repr=False)
class Chosen:
    """Which visits stand for the judged policy."""

    visits: Visits
    any_step: BoolArray  # (R,) for what a decision leads to, whenever it was taken
    own_step: BoolArray  # (R,) those at a step at which the policy decides so
    stand_in: BoolArray  # (R,) those of everyone, in states without a trusted decision
    followed: BoolArray  # (R,) the policy would have acted alike at that step
    cells: IntArray  # (R,) (s, a), or behind them the place where everyone's visits stand in
    place: IntArray  # (S,)


class OnGrid(ABC):
    """What sums on the grid share; a number of an answer counts radii."""

    part = events.EVERYONE
    symmetric = False
    absolute_sensitivity = None
    resolution = Fraction(1, ONE)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    def largest(self, units: int) -> int:
        return units * ONE

    def partial(self) -> IntArray:
        return np.zeros(int(np.prod(self.shape)), dtype=np.int64)

    def finish(self, partial: IntArray) -> IntArray:
        return partial.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Summed(OnGrid):
    """A sum about the judged policy."""

    judged: Judged

    @property
    def schema(self) -> Schema:
        return self.judged.schema

    def collect(self, partial: IntArray, units: IntArray, cells: IntArray, whole: FloatArray) -> None:
        found, entries = shortened(units, cells, whole, len(partial))
        partial += np.bincount(found, weights=entries, minlength=len(partial)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class UnitSizes(Summed):
    """Of each unit: how many visits followed the policy, how many there were, Σ r² and Σ r⁴, each over H·m; and, where
    it may have several, its trajectories over m."""

    name = "number of steps, of those that followed the policy, and size of rewards, of each patient"

    @property
    def shape(self) -> tuple[int, ...]:
        return (4 if self.schema.per_unit == 1 else 5,)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(self.shape[0])

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen = self.judged.visits(block)
        followed = self.judged.ever()[seen.states, seen.actions]
        share = ONE // (self.schema.horizon * self.schema.per_unit)
        partial[0] += int(followed.sum()) * share
        partial[1] += len(followed) * share
        square = seen.rewards * seen.rewards
        for index, power in ((2, square), (3, square * square)):  # not `**`: no library rounds it correctly
            partial[index] += int(np.trunc(np.minimum(power, 1.0) * share).sum())
        partial[4:] += int(seen.starts.sum()) * (ONE // self.schema.per_unit)


@dataclass(frozen=True, eq=False)
class Received(OnGrid):
    """z and z² of each unit, z being its trajectories' mean recorded total, scaled from a public range to [−1, 1]."""

    schema: Schema
    low: float  # in rewards' widths
    high: float

    squared_sensitivity = Fraction(4)
    name = "what each patient's stay earned, and its square"
    shape = (2,)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        total, present = np.zeros(len(block.positions)), np.zeros(len(block.positions), dtype=np.bool_)
        for step in range(self.schema.horizon):
            records = block.records(step)
            total[records.rows] += records.rewards - self.schema.idle
            present[records.rows] = True
        scaled = (2 * total - self.high - self.low) / (self.high - self.low)
        owners = np.unique(block.positions[present], return_inverse=True)[1]
        add_with_squares(partial, owners, sums.whole(scaled[present] * ONE, ONE), np.bincount(owners))


def add_with_squares(partial: IntArray, owners: IntArray, whole: FloatArray, divisor: IntArray) -> None:
    mean = np.trunc(np.bincount(owners, weights=whole, minlength=len(divisor)) / np.maximum(divisor, 1))
    z = np.clip(mean, -ONE, ONE).astype(np.int64)
    partial[0] += z.sum()
    partial[1] += (z * z // ONE).sum()


@dataclass(frozen=True, eq=False)
class Followed(Summed):
    """How often the policy's decisions were taken: at a step at which it decides so, and at other steps; over √L."""

    squared_sensitivity = Fraction(2)
    name = "visits that followed the policy, in each state and action, every patient up to a set length"

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, self.schema.count, self.schema.actions)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen, cells, taken = self.judged.followed(block)
        unit = np.full(int(taken.sum()), np.trunc(ONE / np.sqrt(self.judged.limits.followed)))
        self.collect(partial, seen.units[taken], cells[taken], unit)


@dataclass(frozen=True, eq=False)
class Visited(Summed):
    """How often each state was visited; over √L."""

    squared_sensitivity = Fraction(2)
    name = "visits of each state, every patient up to a set length"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.count,)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        seen, taken = self.judged.everyone(block)
        unit = np.full(int(taken.sum()), np.trunc(ONE / np.sqrt(self.judged.limits.visited)))
        self.collect(partial, seen.units[taken], seen.states[taken], unit)


@dataclass(frozen=True, eq=False)
class Standing(Summed):
    """Of each unit, over the limits: how many visits stand for the policy; how many of those are in the pool; and how
    many of the others are everyone's and followed it all the same.

    The second and the third are of different visits, each among the first, which is at most 1. So a unit's numbers lie
    in the hull of (0, 0, 0), (1, 0, 0), (1, 1, 0) and (1, 0, 1), and two corners are at most √2 apart."""

    squared_sensitivity = Fraction(2)
    name = "number of steps that stand for the policy, of those in rare states, and of unusual ones, of each patient"
    shape = (3,)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        chosen = self.judged.chosen(block)
        share = ONE // (self.judged.limits.followed + self.judged.limits.visited)
        pool = self.schema.count * (self.schema.actions + 1)
        partial[0] += int(chosen.any_step.sum()) * share
        partial[1] += int((chosen.any_step & (chosen.cells == pool)).sum()) * share
        partial[2] += int((chosen.stand_in & chosen.followed & (chosen.cells != pool)).sum()) * share
