"""Trajectories as the learners' boundary sees them: public schema, blocks of whole units, bounded records.

The *unit* of privacy is one patient. A unit has a stored position in 0 … n−1 and at most m trajectories. Everything
in `Schema` is public and declared beforehand; nothing of it is ever read off the data.

A record is what one trajectory did at one step: state, action, reward, successor. `Bounded` hands records out clipped
and complete: what lies outside the schema contributes nothing, silently, because an error that depends on a record
would tell something about a patient. Every value handed out is a function of its own trajectory alone, bit for bit.

Rewards are handed out as x = (r − low) / width in [0, 1], where [low, low + width] is the declared range widened to
contain 0. A trajectory that ended earns r = 0 from then on, so the end is a state of known value (see `Schema.idle`).
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Final, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discretion import errors

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
AnyIntArray = NDArray[np.integer]

_T = TypeVar("_T")

ENDED: Final = 0  # the last recorded step was the trajectory's own end
CUT_BEFORE: Final = 1  # recording stopped, and the state after the last step is known
CUT: Final = 2  # recording stopped, and what followed is unknown

UNKNOWN: Final = -1  # a successor nobody recorded

MAX_HORIZON: Final = 10_000
MAX_STATES: Final = 10_000_000
MAX_ACTIONS: Final = 100_000
MAX_COLUMNS: Final = 1_000
MAX_UNITS: Final = 10**10
MAX_PER_UNIT: Final = 10_000
MAX_BOUND: Final = 1e100

_PIECE: Final = 2**18  # records that are looked at together
_MOST_REWARDS: Final = 1e9  # that a total may be worth; there are at most MAX_HORIZON

CONSTANT: Final = "1"  # the term of a feature map that is always 1


def is_finite(value: object) -> bool:
    """Whether this is a number that float64 can hold; integers of any length may come from JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _whole(value: object, name: str, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise errors.InvalidSchema(f"{name} must be a whole number from {low} to {high}, not {value!r}.")


def _interval(bounds: tuple[float, float], name: str) -> None:
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not pair or not all(map(is_finite, bounds)) or not float(bounds[0]) < float(bounds[1]):
        raise errors.InvalidSchema(f"{name} must be two finite numbers, the lower first.")
    if max(map(abs, bounds)) > MAX_BOUND:
        raise errors.InvalidSchema(f"{name} is too wide to compute with; scale it to at most {MAX_BOUND:g}.")


@dataclass(frozen=True)
class Discrete:
    """States 0 … count−1."""

    count: int

    def __post_init__(self) -> None:
        _whole(self.count, "The number of states", 1, MAX_STATES)


@dataclass(frozen=True)
class Vector:
    """States that are vectors of named, bounded numbers; those of the columns in `missing` may be missing (NaN)."""

    columns: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not isinstance(self.bounds, tuple):
            raise errors.InvalidSchema("State columns and their bounds must be given as tuples.")
        _whole(len(self.columns), "The number of state columns", 1, MAX_COLUMNS)
        if len(set(self.columns)) != len(self.columns) or not all(isinstance(c, str) and c for c in self.columns):
            raise errors.InvalidSchema("State columns need names, each of them once.")
        if CONSTANT in self.columns:
            raise errors.InvalidSchema(f"No state column can be named {CONSTANT!r}: that stands for the constant.")
        if len(self.bounds) != len(self.columns):
            raise errors.InvalidSchema(
                f"{len(self.columns)} state columns need as many bounds, not {len(self.bounds)}."
            )
        for column, bounds in zip(self.columns, self.bounds, strict=True):
            _interval(bounds, f"The bounds of state column {column!r}")
        named = isinstance(self.missing, tuple) and all(column in self.columns for column in self.missing)
        if not named or len(set(self.missing)) != len(self.missing):
            raise errors.InvalidSchema("Columns that may be missing must be state columns, each of them once.")
        if len(self.missing) == len(self.columns):
            raise errors.InvalidSchema("At least one state column must always have a value, or no state is known.")
        # Whole numbers beyond 2⁵³ would be compared exactly and computed with otherwise.
        object.__setattr__(self, "bounds", tuple((float(low), float(high)) for low, high in self.bounds))

    @cached_property
    def low(self) -> FloatArray:
        return np.array([b[0] for b in self.bounds], dtype=np.float64)

    @cached_property
    def high(self) -> FloatArray:
        return np.array([b[1] for b in self.bounds], dtype=np.float64)

    @cached_property
    def complete(self) -> BoolArray:
        """Which columns must have a value for a record to count."""
        return np.array([column not in self.missing for column in self.columns], dtype=np.bool_)


@dataclass(frozen=True)
class Schema:
    """What is public about a dataset besides its number of units."""

    horizon: int
    states: Discrete | Vector
    actions: int
    reward: tuple[float, float] = (0.0, 1.0)
    total: tuple[float, float] | None = None  # a public bound on a trajectory's total reward
    per_unit: int = 1  # m, the most trajectories one unit may have
    outcome: bool = False  # a trajectory earns once, in its last record

    def __post_init__(self) -> None:
        _whole(self.horizon, "The horizon", 1, MAX_HORIZON)
        if not isinstance(self.states, Discrete | Vector):
            raise errors.InvalidSchema("The states must be declared as Discrete or Vector.")
        _whole(self.actions, "The number of actions", 1, MAX_ACTIONS)
        _whole(self.per_unit, "The most trajectories of a unit", 1, MAX_PER_UNIT)
        _interval(self.reward, "The reward range")
        if self.width < 1 / MAX_BOUND:
            raise errors.InvalidSchema(
                f"The reward range is too narrow to compute with; scale it above {1 / MAX_BOUND:g}."
            )
        if self.total is not None:
            _interval(self.total, "The range of a trajectory's total reward")
            if not self.total[0] <= 0.0 <= self.total[1]:
                raise errors.InvalidSchema("The range of a trajectory's total reward must contain 0, where it starts.")
            if max(map(abs, self.total)) / self.width > _MOST_REWARDS:
                raise errors.InvalidSchema(
                    "The range of a trajectory's total reward is far wider than all its rewards."
                )

    @property
    def low(self) -> float:
        return min(float(self.reward[0]), 0.0)

    @property
    def width(self) -> float:
        return max(float(self.reward[1]), 0.0) - self.low

    @property
    def idle(self) -> float:
        """The scaled reward of a step after the end, where r = 0."""
        return -self.low / self.width

    def scaled(self, reward: FloatArray) -> FloatArray:
        return (reward - self.low) / self.width

    @property
    def count(self) -> int:
        """The number of discrete states."""
        if isinstance(self.states, Discrete):
            return self.states.count
        raise errors.InvalidParameter("Counting needs discrete states; bin the columns of a vector state first.")


def check_units(units: int) -> None:
    _whole(units, "The number of units", 1, MAX_UNITS)


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some trajectories of whole units, one column each, padded to the horizon; step-major, so a step is contiguous.

    `span` is public: the positions this block is for. A unit elsewhere, or with too many trajectories, is left out by
    what stands here about that unit alone; the others do not notice.
    """

    units: AnyIntArray  # (B,) stored positions
    lengths: AnyIntArray  # (B,) recorded steps
    states: NDArray[np.generic]  # (H, B) integers, or (H, B, p) numbers
    actions: AnyIntArray  # (H, B)
    rewards: NDArray[np.floating]  # (H, B)
    endings: AnyIntArray  # (B,) ENDED, CUT_BEFORE or CUT
    final: NDArray[np.generic]  # (B,) or (B, p) the state after the last step, where the ending is CUT_BEFORE
    span: tuple[int, int] | None = None  # first position, and the one after the last; None: all, in a single block
    prices: FloatArray | None = None  # what the numbers in `rewards` stand for; None: they stand for themselves

    def __post_init__(self) -> None:
        size = (len(self.units),)
        steps = self.actions.shape
        fits = {self.lengths.shape, self.endings.shape, self.final.shape[:1], steps[1:]} == {size}
        if (
            not fits
            or {self.states.shape[:2], self.rewards.shape} != {steps}
            or self.final.shape != self.states.shape[1:]
        ):
            raise ValueError("The arrays of a block do not belong together.")
        integers = (self.units, self.lengths, self.actions, self.endings)
        numbers = (self.states, self.rewards, self.final)
        kinds = all(array.dtype.kind in "iu" for array in integers) and all(a.dtype.kind in "iuf" for a in numbers)
        if not kinds or any(array.dtype.itemsize > 8 for array in (*integers, *numbers)):
            raise ValueError("The arrays of a block hold other things than integers and float64 numbers.")


@dataclass(frozen=True, eq=False, repr=False)
class Stored:
    """A block that is read when it is needed, by whoever needs it, with or without rewards; its span is public."""

    span: tuple[int, int]
    read: Callable[[bool], Block]


@runtime_checkable
class Shelf(Protocol):
    """Blocks that can be had without reading them yet."""

    def stored(self) -> Iterator[Stored]: ...


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """A dataset, or a part of one: its public schema, the stored positions of its units, and blocks, which can be
    iterated any number of times."""

    schema: Schema
    units: int
    blocks: Iterable[Block]
    first: int = 0  # the stored position of the first unit

    def __post_init__(self) -> None:
        check_units(self.units)

    def part(self, first: int, units: int) -> "Trajectories":
        """The units at positions first … first + units − 1 of these."""
        return Trajectories(self.schema, units, self.blocks, self.first + first)

    def bounded(self) -> Iterator["Bounded"]:
        return (read() for read in self.readers())

    def readers(self, rewards: bool = True) -> Iterator[Callable[[], "Bounded"]]:
        """The blocks, each read where it is called: by several threads at once, if one likes. Rewards that nobody looks
        at need not be read."""
        covered, whole = 0, False
        for block in self.blocks.stored() if isinstance(self.blocks, Shelf) else self.blocks:
            if whole or (covered and block.span is None):
                raise ValueError("Several blocks need spans that ascend.")
            whole = block.span is None
            start, end = block.span or (0, self.first + self.units)
            start, end = max(start - self.first, covered), min(end - self.first, self.units)
            if start < end:
                yield partial(self._bounded, block, start, end, rewards)
            covered = max(covered, end)

    def _bounded(self, block: Block | Stored, start: int, end: int, rewards: bool) -> "Bounded":
        held = block.read(rewards) if isinstance(block, Stored) else block
        return Bounded(self.schema, held, start, end, self.first)


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of one step that count, side by side. `successor` is UNKNOWN, a state, or the number of states
    for the end; for vector states it is the vector, with `ended` and `known` beside it."""

    rows: IntArray  # (R,) which trajectories of the block
    states: NDArray[np.generic]  # (R,) or (R, p)
    actions: IntArray  # (R,)
    rewards: FloatArray  # (R,) scaled to [0, 1]
    successors: NDArray[np.generic]  # (R,) or (R, p)
    ended: BoolArray  # (R,)
    known: BoolArray  # (R,) the successor is a state or the end

    def only(self, keep: BoolArray) -> "Records":
        return self if keep.all() else Records(*(getattr(self, field.name)[keep] for field in fields(self)))


class Bounded:
    """A block as the curator reads it: total, silent, and one unit at a time."""

    def __init__(self, schema: Schema, block: Block, start: int, end: int, first: int = 0) -> None:
        """Only units at positions start … end−1 count, which are public; position 0 is stored as `first`."""
        if len(block.actions) != schema.horizon:
            raise ValueError("The block is padded to another horizon.")
        self.schema = schema
        self._block = block
        self._found: dict[tuple[object, ...], object] = {}
        self._position = np.asarray(block.units, dtype=np.int64) - first
        self._admitted = self.part(start, end) & (_rank(self._position) < schema.per_unit)
        self._lengths = np.clip(block.lengths, 0, schema.horizon)
        self._prices = None if block.prices is None else self._in_range(block.prices)
        self._scaled_prices = None if self._prices is None else self._scaled(self._prices)

    def pieces(self) -> Iterator["Bounded"]:
        """The same, some trajectories at a time, so that what is computed of them stays in the processor's cache. Which
        of them count was decided for the whole block. Where a unit may have several, they stay together."""
        size, length = len(self._lengths), max(1, _PIECE // self.schema.horizon)
        if self.schema.per_unit > 1 or not isinstance(self.schema.states, Discrete) or size <= length:
            yield self
            return
        for start in range(0, size, length):
            yield self._piece(slice(start, start + length))

    def _piece(self, which: slice) -> "Bounded":
        piece, block = copy.copy(self), self._block
        by_step = {name: getattr(block, name)[:, which] for name in ("states", "actions", "rewards")}
        whole = {name: getattr(block, name)[which] for name in ("units", "lengths", "endings", "final")}
        piece._block, piece._found = replace(block, **by_step, **whole), {}
        for name in ("_position", "_admitted", "_lengths"):
            setattr(piece, name, getattr(self, name)[which])
        return piece

    def once(self, key: tuple[object, ...], compute: Callable[[], _T]) -> _T:
        """What several statistics of one pass need of this block, computed for the first of them."""
        if key not in self._found:
            self._found[key] = compute()
        return cast(_T, self._found[key])

    @property
    def positions(self) -> IntArray:  # (B,)
        """The stored position of each trajectory's unit."""
        return self._position

    def part(self, low: int, high: int) -> BoolArray:
        """Which trajectories belong to units at positions low … high−1."""
        return (self._position >= low) & (self._position < high)

    def _in_range(self, rewards: NDArray[np.generic]) -> FloatArray:
        raw = np.asarray(rewards, dtype=np.float64)
        return np.minimum(
            np.maximum(np.where(np.isnan(raw), 0.0, raw), self.schema.low), self.schema.low + self.schema.width
        )

    def _scaled(self, rewards: FloatArray) -> FloatArray:
        return np.minimum(np.maximum(self.schema.scaled(rewards), 0.0), 1.0)

    def _clipped(self, step: int) -> FloatArray:  # (B,)
        raw = self._block.rewards[step]
        rewards = self._in_range(raw) if self._prices is None else self._prices.take(raw)
        return np.where(self._lengths > step, rewards, 0.0)

    @cached_property
    def _within_total(self) -> FloatArray:  # (H, B)
        """Rewards cut where a trajectory's running total would leave its range."""
        low, high = self.schema.total or (0.0, 0.0)
        total = np.zeros(len(self._lengths))
        rewards = np.empty((self.schema.horizon, len(total)))
        for step in range(self.schema.horizon):
            following = np.clip(total + self._clipped(step), low, high)
            rewards[step], total = following - total, following
        return rewards

    def rewards(self, step: int) -> FloatArray:  # (B,)
        """Scaled to [0, 1], of every trajectory, whether or not its record counts."""
        if self.schema.total is not None:
            return self._scaled(self._within_total[step])
        if self._scaled_prices is None:
            return self._scaled(self._clipped(step))
        return np.where(self._lengths > step, self._scaled_prices.take(self._block.rewards[step]), self.schema.idle)

    def _inside(self, states: NDArray[np.generic]) -> BoolArray:
        if isinstance(self.schema.states, Discrete):
            inside: BoolArray = (states >= 0) & (states < self.schema.states.count)  # type: ignore[operator]
            return inside
        return np.asarray(~(np.isnan(np.asarray(states, dtype=np.float64)) & self.schema.states.complete).any(axis=-1))

    def successor(self, step: int) -> tuple[NDArray[np.generic], BoolArray, BoolArray]:
        """What followed step `step` (from 0): the state, whether it was the end, whether it is known at all."""
        block = self._block
        last = self._lengths == step + 1
        following = block.states[step + 1] if step + 1 < self.schema.horizon else block.final
        successor = _chosen(last, block.final, following)
        ended = last & (np.asarray(block.endings) == ENDED)
        known = ended | (self._inside(successor) & (~last | (np.asarray(block.endings) == CUT_BEFORE)))
        return successor, ended, known

    def seen(self, step: int) -> tuple[NDArray[np.generic], AnyIntArray, BoolArray]:
        """State and action of every trajectory at a step (from 0), and whether they lie inside the schema."""
        states, actions = self._block.states[step], self._block.actions[step]
        counts = self._admitted & (self._lengths > step)
        counts &= (actions >= 0) & (actions < self.schema.actions) & self._inside(states)
        return states, actions, counts

    def records(self, step: int, chosen: BoolArray | None = None) -> Records:
        """The records of a step (from 0) that lie inside the schema, of the chosen trajectories or all."""
        states, given, counts = self.seen(step)
        actions = np.asarray(given, dtype=np.int64)
        if chosen is not None:
            counts &= chosen
        successor, ended, known = self.successor(step)
        if isinstance(self.schema.states, Discrete):  # as wide as they may be: what comes after computes with them
            states, successor = (np.asarray(each, dtype=np.int64) for each in (states, successor))
            successor = np.where(ended, self.schema.states.count, np.where(known, successor, UNKNOWN))
        else:
            successor = _chosen(known & ~ended, successor, np.broadcast_to(self.schema.states.low, successor.shape))
        every = Records(np.arange(len(counts)), states, actions, self.rewards(step), successor, ended, known)
        return every.only(counts)


def _chosen(mask: BoolArray, one: NDArray[np.generic], other: NDArray[np.generic]) -> NDArray[np.generic]:
    """`np.where` by row, without copying where all rows agree (within a horizon they nearly always do)."""
    if mask.all() or not mask.any():
        return one if mask.all() else other
    return np.where(mask if one.ndim == 1 else mask[:, None], one, other)


def _rank(positions: IntArray) -> IntArray:
    """How many trajectories of the same unit stand before each one."""
    if (positions[1:] > positions[:-1]).all():
        return np.zeros(len(positions), dtype=np.int64)
    order = np.argsort(positions, kind="stable")
    ascending, index = positions[order], np.arange(len(positions))
    starts = np.ones(len(positions), dtype=bool)
    starts[1:] = ascending[1:] != ascending[:-1]
    rank = np.empty_like(index)
    rank[order] = index - np.maximum.accumulate(np.where(starts, index, 0))
    return rank


def block_of(
    states: NDArray[np.generic],  # (H, B) or (H, B, p)
    actions: AnyIntArray,  # (H, B)
    rewards: NDArray[np.floating],  # (H, B)
    *,
    units: AnyIntArray | None = None,
    lengths: AnyIntArray | None = None,
    endings: AnyIntArray | None = None,
    final: NDArray[np.generic] | None = None,
    span: tuple[int, int] | None = None,
) -> Block:
    """A block from arrays; without the rest: one full-length trajectory per unit, cut at the horizon."""
    horizon, size = actions.shape
    return Block(
        units=np.arange(size) if units is None else units,
        lengths=np.full(size, horizon) if lengths is None else lengths,
        states=states,
        actions=actions,
        rewards=rewards,
        endings=np.full(size, CUT if final is None else CUT_BEFORE) if endings is None else endings,
        final=np.zeros_like(states[0]) if final is None else final,
        span=span,
    )
