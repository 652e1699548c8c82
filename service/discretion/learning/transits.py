"""What patients with vector states went through where a judged policy was followed: sums that one patient moves little.

A *followed* visit is one at which the recorded action is the judged policy's. It counts ω(x) = 1/(the share of doctors
who act so there), up to `MOST`: without that, what the policy does where few agree with it would hardly count. As in
`followed`, a unit's visits are taken in their order until their sizes Σω‖ψ‖² would pass the limit L, and none after
that: whether a visit is taken is settled before anyone knows where it leads.

For replacing one unit, X and Y being its two contributions on an integer grid, whatever its trajectories and steps:

* Gram matrices, in units of L: X = Σ ω/L·ψψᵀ over the visits taken is positive semidefinite, and ‖X‖_F ≤ tr X ≤ 1.
  So ⟨X, Y⟩ ≥ 0 and ‖X − Y‖_F² ≤ 2. The trace is checked in integers, of what is summed.
* other sums, in units of a radius: shortened to ‖X‖, ‖Y‖ ≤ 1 in integers, so ‖X − Y‖² ≤ 4;
* numbers in [0, 1]: ≤ their number; a histogram: one bin a unit, ≤ 2;
* a score in [−1, 1] with its square ≤ 4 (see `followed`), and ¼ more for each further number in [−¼, ¼].

Radii, limits, shares and values handed in were released before; whatever they hold, the bounds hold. A contribution is
a function of its unit's own records, bit for bit: products over rows are exact (see `values`), the rest is elementwise
or sums of integers below 2⁵³.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import followed, sums
from discretion.learning.policy import Policy
from discretion.learning.pooled_records import apart, group_of, same_states
from discretion.learning.pooled_values import StateValue
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded
from discretion.learning.values import on_grid

ONE: Final = followed.ONE
MOST: Final = 8  # the largest weight of a visit
_FINE: Final = 64  # steps of a weight's grid in 1
_LONGEST: Final = 2**18  # records of a unit, so that its sums stay below 2⁵³
MAX_ENTRIES: Final = 2**22  # of a matrix for each group of steps
MAX_NUMBERS: Final = 2**23  # features of all the records that one unit may have
_RECORDS: Final = 2**15  # whose features are looked at together, if every unit has all it may
_ENTRIES: Final = 2**22  # numbers held at once in an array. Neither depends on what a unit has: memory tells nothing
_SHORT: Final = 1 - 2.0**-40  # so that a rounded root is never too long
_WEIGHED: Final = ("rows", "weights", "shares")

Value = StateValue


@dataclass(frozen=True, eq=False, repr=False)
class Visits:
    """The records of a block with a known successor, by unit, then by trajectory, then by step. Where the horizon
    stands apart, its records are among them, whatever followed, and end there."""

    units: IntArray  # (R,) 0 … U−1, ascending
    steps: IntArray  # (R,)
    actions: IntArray  # (R,)
    rewards: FloatArray  # (R,) over their width: the end earns 0
    ended: BoolArray  # (R,)
    psi: FloatArray  # (R, p) integers
    following: FloatArray  # (R, p) of the successor; 0 at the end
    decided: IntArray  # (R,) the judged policy's action
    last: BoolArray  # (R,) at a horizon that stands apart
    count: int  # U

    @property
    def starts(self) -> BoolArray:  # (R,)
        return self.steps == 0

    @property
    def sizes(self) -> IntArray:  # (R,) ‖ψ‖² in steps of the grid
        return np.einsum("ij,ij->i", self.psi, self.psi).astype(np.int64)  # integers below 2³³: exact


@dataclass(frozen=True, eq=False)
class Behaviour:
    """How often the recorded doctors take each action: frequency_a + ψᵀv_a."""

    frequencies: FloatArray  # (A,)
    slopes: FloatArray  # (A, p), put on their grid

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", on_grid(self.slopes))

    def of(self, psi: FloatArray, actions: IntArray) -> FloatArray:  # (R, p), (R,) → (R,)
        found = np.empty(len(psi))
        for action, slope in enumerate(self.slopes):
            rows = np.flatnonzero(actions == action)
            found[rows] = self.frequencies[action] + (psi[rows] @ slope) * (1.0 / maps.ONE)
        return np.minimum(np.maximum(np.nan_to_num(found, nan=1.0), 1.0 / MOST), 1.0)


@dataclass(frozen=True, eq=False)
class Judged:
    """The judged policy on its map, and what was released so far about who follows it."""

    schema: Schema
    features: maps.Blocks
    policy: Policy | None = None  # None in a plan
    groups: int = 1  # of steps in which it decides alike
    limit: float = 1.0  # L
    behaviour: Behaviour | None = None
    potential: Value | None = None  # what is earned at a horizon that stands apart, by the state there

    def __post_init__(self) -> None:
        maps.check(self.features, self.schema)
        if self.schema.horizon * self.schema.per_unit > _LONGEST:
            raise errors.ProblemTooLarge(f"A patient may have {_LONGEST} records at most to be summed exactly.")
        if self.potential is not None and self.potential.weights.shape != (self.features.width,):
            raise errors.InvalidParameter("The potential handed to the curator does not fit the feature map.")

    @property
    def step_groups(self) -> IntArray:  # (H,)
        """The group of each step; a horizon that stands apart is the last group, by itself."""
        found = group_of(self.schema, self.groups)
        if apart(self.schema):
            found[-1] = self.groups
        return found

    def pieces(self, block: Bounded) -> Iterator[Visits]:
        """The visits of whole units, not too many at a time. One whose successor nobody recorded is left out: pooled
        over steps, the horizon is no end like others."""
        steps = [records.only(records.known) for records in map(block.records, range(self.schema.horizon))]
        if apart(self.schema):
            last = block.records(self.schema.horizon - 1)
            steps[-1] = replace(last, ended=np.ones_like(last.ended))
        rows = np.concatenate([records.rows for records in steps])
        moment = np.repeat(np.arange(len(steps)), [len(records.rows) for records in steps])
        order = np.lexsort((moment, rows, block.positions[rows]))
        names = ("states", "successors", "actions", "rewards", "ended")
        columns = [np.concatenate([getattr(records, name) for records in steps])[order] for name in names]
        for units, part in runs(block.positions[rows[order]], together(self.schema, self.features.width)):
            chosen = order[part]
            yield self._visits(units, rows[chosen], moment[chosen], [column[part] for column in columns])

    def _visits(self, units: IntArray, rows: IntArray, moment: IntArray, columns: list[NDArray[np.generic]]) -> Visits:
        states, successors, actions, rewards, ended = columns
        decided, groups = np.zeros(len(rows), dtype=np.int64), group_of(self.schema, self.groups)
        for group in np.unique(groups[moment]) if self.policy is not None else ():  # in which it decides alike
            now = np.flatnonzero(groups[moment] == group)
            first = int(np.searchsorted(groups, group))
            decided[now] = self.policy.judge(first + 1, states[now])[0]  # type: ignore[union-attr]
        psi = np.ascontiguousarray(self.features.psi(states))
        return Visits(
            units,
            moment,
            actions.astype(np.int64),
            rewards.astype(np.float64) - self.schema.idle,
            ended.astype(np.bool_),
            psi,
            np.where(ended[:, None], 0.0, self._following(rows, states, successors, psi)),
            decided,
            apart(self.schema) & (moment == self.schema.horizon - 1),
            int(units.max(initial=-1)) + 1,
        )

    def _following(
        self, rows: IntArray, states: NDArray[np.generic], successors: NDArray[np.generic], psi: FloatArray
    ) -> FloatArray:  # (R, p)
        """Most successors are the state of the trajectory's next record, bit for bit: their features are there."""
        same = np.zeros(len(rows), dtype=np.bool_)
        same[:-1] = (rows[1:] == rows[:-1]) & same_states(successors[:-1], states[1:])
        found, rest = np.roll(psi, -1, axis=0), np.flatnonzero(~same)
        found[rest] = self.features.psi(successors[rest])
        return found

    def everyone(self, seen: Visits) -> BoolArray:  # (R,)
        return within(seen.units, seen.sizes, ~seen.last, self.limit)

    def _weights(self, seen: Visits) -> tuple[IntArray, FloatArray]:  # (R,) each
        """ω in steps of its grid, up to MOST, and the shares of doctors it comes from."""
        shares = np.ones(len(seen.units)) if self.behaviour is None else self.behaviour.of(seen.psi, seen.decided)
        return np.trunc(_FINE / shares).astype(np.int64), shares

    def taken(self, seen: Visits) -> "WeightedVisits":
        """Those that followed the policy, each with its weight."""
        follows, (whole, shares) = (seen.decided == seen.actions) & ~seen.last, self._weights(seen)
        chosen = within(seen.units, (seen.sizes // _FINE + 1) * whole, follows, self.limit)  # below 2³⁵ each
        rows = np.flatnonzero(chosen)
        return WeightedVisits(seen, rows, whole[rows] / _FINE, shares[rows])

    def at_horizon(self, seen: Visits) -> "WeightedVisits":
        """The same of a horizon that stands apart: each unit's mean, so over the number of its visits there."""
        whole, shares = self._weights(seen)
        rows = np.flatnonzero((seen.decided == seen.actions) & seen.last)
        many = np.bincount(seen.units[seen.last], minlength=seen.count)[seen.units[rows]]
        return WeightedVisits(seen, rows, whole[rows] / (_FINE * many), shares[rows])

    def gains(self, seen: Visits) -> FloatArray:  # (R,)
        """The rewards; with a potential, what it rises by too."""
        if self.potential is None:
            return seen.rewards
        later = np.where(seen.ended, 0.0, self.potential.of(seen.following))
        return np.asarray(seen.rewards + later - self.potential.of(seen.psi))


def runs(owners: IntArray, most: int) -> Iterator[tuple[IntArray, slice]]:
    """The rows of so many units at a time: which of these units each row is of, from 0 up, and which rows they are."""
    rank = np.cumsum(np.diff(owners, prepend=owners[:1]) != 0)
    for start in range(0, int(rank[-1]) + 1 if len(rank) else 0, most):
        low, high = np.searchsorted(rank, (start, start + most))
        yield rank[low:high] - start, slice(int(low), int(high))


def together(schema: Schema, width: int) -> int:
    """Units that are looked at in one piece."""
    return max(1, min(_RECORDS, _ENTRIES // width) // (schema.horizon * schema.per_unit))


def at_once(entries: int) -> int:
    """Units whose sums, of so many numbers each, are held together."""
    return max(1, _ENTRIES // entries)


@dataclass(frozen=True, eq=False, repr=False)
class WeightedVisits:
    visits: Visits
    rows: IntArray  # (T,) which of them
    weights: FloatArray  # (T,) ω
    shares: FloatArray  # (T,) of doctors who act so there, about

    def and_then(self, other: "WeightedVisits") -> "WeightedVisits":
        joined = (np.concatenate([getattr(each, name) for each in (self, other)]) for name in _WEIGHED)
        return WeightedVisits(self.visits, *joined)


def positive(released: float) -> float:
    """What was released as a length may be anything."""
    return min(max(float(np.nan_to_num(released)), 2.0**-40), 2.0**40)


def within(units: IntArray, sizes: IntArray, counted: BoolArray, limit: float) -> BoolArray:  # (R,)
    """The counted visits of each unit, in order, as long as their sizes add up to no more than the limit."""
    most = int(min(positive(limit), 2.0**20) * maps.ONE**2)
    added = np.where(counted, sizes, 0)
    grown = np.cumsum(added)
    new = np.ones(len(units), dtype=np.bool_)
    new[1:] = units[1:] != units[:-1]
    base = (grown - added)[np.maximum.accumulate(np.where(new, np.arange(len(units)), 0))]
    return counted & (grown - base <= most)


@dataclass(frozen=True, eq=False)
class Summed(followed.OnGrid):
    """A sum over the visits of whole units, some units at a time."""

    judged: Judged

    @property
    def schema(self) -> Schema:
        return self.judged.schema

    @property
    def width(self) -> int:
        return self.judged.features.width

    def partial(self) -> IntArray:
        return np.zeros(self.shape, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for seen in self.judged.pieces(block):
            self.gather(seen, partial)

    @abstractmethod
    def gather(self, seen: Visits, partial: IntArray) -> None: ...


@dataclass(frozen=True, eq=False)
class UnitSizes(Summed):
    """Of each unit: its visits, Σ‖ψ‖² and Σr², each over H·m; where it may have several, its trajectories over m."""

    name = "number of steps and size of features and rewards of each patient"

    @property
    def shape(self) -> tuple[int, ...]:
        return (3 if self.schema.per_unit == 1 else 4,)

    @property
    def squared_sensitivity(self) -> Fraction:
        return Fraction(self.shape[0])

    def gather(self, seen: Visits, partial: IntArray) -> None:
        share = ONE // (self.schema.horizon * self.schema.per_unit)
        pooled = ~seen.last
        partial[0] += int(pooled.sum()) * share
        partial[1] += int(np.trunc(seen.sizes[pooled] * (share / maps.ONE**2)).sum())
        square = np.nan_to_num(self.judged.gains(seen)[pooled] ** 2)  # of a potential that is no number
        partial[2] += int(np.trunc(np.minimum(square, 1.0) * share).sum())
        partial[3:] += int(seen.starts.sum()) * (ONE // self.schema.per_unit)


class Grams(Summed):
    """Positive semidefinite matrices of features, in units of the limit."""

    symmetric = True
    squared_sensitivity = Fraction(2)
    resolution = Fraction(1, maps.ONE**2)

    def largest(self, units: int) -> int:
        return units * maps.ONE**2

    def _rooted(self, psi: FloatArray, weights: FloatArray) -> FloatArray:
        """√(ω/L)·ψ, truncated: Σ of its squares is at most what was taken, over L."""
        root = np.sqrt(np.minimum(weights / positive(self.judged.limit), 2.0**30)) * _SHORT
        return sums.whole(psi * root[:, None], float(maps.ONE))

    def _bounded(self, units: IntArray, rooted: FloatArray) -> FloatArray:
        """Zero for a unit whose trace would pass 1 all the same: of numbers that are none, this is the net."""
        trace = np.bincount(units, weights=np.einsum("ij,ij->i", rooted, rooted))  # integers below 2⁵³
        return np.where((trace > float(maps.ONE) ** 2)[units, None], 0.0, rooted) if len(units) else rooted


@dataclass(frozen=True, eq=False)
class Everyone(Grams):
    """Σψψᵀ over the visits of everyone."""

    name = "Gram matrix of the features, every patient up to a set length"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width, self.width)

    def gather(self, seen: Visits, partial: IntArray) -> None:
        taken = self.judged.everyone(seen)
        rooted = self._rooted(seen.psi[taken], np.ones(int(taken.sum())))
        rooted = self._bounded(seen.units[taken], rooted)
        partial += sums.exact_product(rooted, rooted, maps.ONE, maps.ONE)


@dataclass(frozen=True, eq=False)
class Followed(Grams):
    """Σωψψᵀ over the followed visits taken, of each group of steps."""

    name = "Gram matrix of the features where the policy was followed, every patient up to a set length"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.judged.groups, self.width, self.width)

    def gather(self, seen: Visits, partial: IntArray) -> None:
        taken = self.judged.taken(seen)
        groups = group_of(self.schema, self.judged.groups)[seen.steps[taken.rows]]
        rooted = self._bounded(seen.units[taken.rows], self._rooted(seen.psi[taken.rows], taken.weights))
        for group in range(self.judged.groups):
            mine = rooted[groups == group]
            partial[group] += sums.exact_product(mine, mine, maps.ONE, maps.ONE)


class Vectors(Summed):
    """Sums that are shortened to a radius."""

    squared_sensitivity = Fraction(4)

    def collect(self, partial: IntArray, vectors: FloatArray, radius: float) -> None:
        """A row for each unit, in rewards or features; numbers that are none count as zero."""
        far = 2.0**40
        scaled = sums.whole(vectors / positive(radius) * ONE, far * ONE)
        short = sums.shortened(scaled, np.arange(len(scaled)), ONE)
        partial += short.sum(axis=0).astype(np.int64).reshape(partial.shape)


@dataclass(frozen=True, eq=False)
class Actions(Vectors):
    """Σψ over the visits of everyone, of each action; over the limit."""

    name = "features where each action was taken, every patient up to a set length"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.schema.actions, self.width)

    def gather(self, seen: Visits, partial: IntArray) -> None:
        rows, cells = np.flatnonzero(self.judged.everyone(seen)), self.schema.actions * self.width
        for units, part in runs(seen.units[rows], at_once(cells)):
            mine = rows[part]
            table = np.zeros((int(units[-1]) + 1, self.schema.actions, self.width))
            np.add.at(table, (units, seen.actions[mine]), seen.psi[mine])  # integers below 2⁵³
            self.collect(partial, table.reshape(-1, cells) * (1.0 / maps.ONE), self.judged.limit)
