"""Trajectories as the learners' boundary sees them: blocks of whole units, bounded records.

The *unit* of privacy is one patient. A unit has a stored position in 0 … n−1 and at most m trajectories, as the public
schema says.

A record is what one trajectory did at one step: state, action, reward, successor. `Bounded` hands records out clipped
and complete: what lies outside the schema contributes nothing, silently, because an error that depends on a record
would tell something about a patient. Every value handed out is a function of its own trajectory alone, bit for bit.

Rewards are handed out as x = (r − low) / width in [0, 1], where [low, low + width] is the declared range widened to
contain 0, and r is the recorded reward with the digits of float32 (see `Schema.rounded`). A trajectory that ended earns
r = 0 from then on, so the end is a state of known value (see `Schema.idle`).
"""

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Final, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discretion.learning.schemas import AnyIntArray, BoolArray, Discrete, FloatArray, IntArray, Schema, check_units

_T = TypeVar("_T")
_N = TypeVar("_N", bound=np.generic)

ENDED: Final = 0  # the last recorded step was the trajectory's own end
CUT_BEFORE: Final = 1  # recording stopped, and the state after the last step is known
CUT: Final = 2  # recording stopped, and what followed is unknown

UNKNOWN: Final = -1  # a successor nobody recorded
EVERY: Final = slice(None)  # step

_PIECE: Final = 2**19  # records that are looked at together


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


class Memory(Protocol):
    """What stays from one pass to the next of what was computed of a block, as far as there is room."""

    def reserve(self, size: int) -> bool:
        """Whether so many bytes may be remembered, which are then taken."""

    def remember(self, key: Hashable, value: object) -> None: ...
    def recall(self, key: Hashable) -> object | None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Stored:
    """A block that is read when it is needed, by whoever needs it, with or without rewards; its span is public."""

    span: tuple[int, int]
    read: Callable[[bool], Block]
    memory: "Memory | None" = None


@runtime_checkable
class Shelf(Protocol):
    """Blocks that can be had without reading them yet."""

    def stored(self) -> Iterator[Stored]: ...

    def give_way(self, size: int | None) -> None:
        """Keep no more in memory than leaves so many bytes to others, None: nothing."""


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

    def give_way(self, size: int | None) -> None:
        """To tables of so many bytes, or to everything: what is kept of the blocks is read again if it is needed."""
        if isinstance(self.blocks, Shelf):
            self.blocks.give_way(size)

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
        if isinstance(block, Stored):
            memory = block.memory if rewards else None  # what was computed without them is not for everybody
            return Bounded(self.schema, partial(block.read, rewards), start, end, self.first, memory)
        return Bounded(self.schema, block, start, end, self.first)


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

    def __init__(
        self,
        schema: Schema,
        block: Block | Callable[[], Block],  # read when something of it is needed
        start: int,
        end: int,
        first: int = 0,
        memory: Memory | None = None,
    ) -> None:
        """Only units at positions start … end−1 count, which are public; position 0 is stored as `first`."""
        self.schema = schema
        self._source, self._span, self._memory = block, (start, end, first), memory
        self._found: dict[tuple[object, ...], object] = {}
        if isinstance(block, Block):
            self._read()

    @property
    def _block(self) -> Block:
        return self.once(("block",), self._read)

    def _read(self) -> Block:
        block = self._source if isinstance(self._source, Block) else self._source()
        if len(block.actions) != self.schema.horizon:
            raise ValueError("The block is padded to another horizon.")
        return block

    @property
    def positions(self) -> IntArray:  # (B,)
        """The stored position of each trajectory's unit."""
        return self.once(("positions",), lambda: np.asarray(self._block.units, dtype=np.int64) - self._span[2])

    @property
    def _admitted(self) -> BoolArray:  # (B,)
        start, end, _ = self._span
        return self.once(("admitted",), lambda: self.part(start, end) & (_rank(self.positions) < self.schema.per_unit))

    @property
    def _lengths(self) -> AnyIntArray:  # (B,)
        return self.once(("lengths",), lambda: np.clip(self._block.lengths, 0, self.schema.horizon))

    @property
    def _prices(self) -> FloatArray | None:
        prices = self._block.prices
        return self.once(("prices",), lambda: None if prices is None else self._in_range(prices))

    @property
    def _scaled_prices(self) -> FloatArray | None:
        prices = self._prices
        return self.once(("scaled prices",), lambda: None if prices is None else self._scaled(prices))

    def pieces(self) -> Iterator["Bounded"]:
        """The same, some trajectories at a time, so that what is computed of them stays in the processor's cache. Which
        of them count was decided for the whole block. Where a unit may have several, they stay together."""
        length = max(1, _PIECE // self.schema.horizon)
        together = self.schema.per_unit > 1 or not isinstance(self.schema.states, Discrete)
        if together or (size := len(self._lengths)) <= length:
            yield self
            return
        for start in range(0, size, length):
            yield self._piece(slice(start, start + length))

    def _piece(self, which: slice) -> "Bounded":
        piece, block = copy.copy(self), self._block
        piece._memory = None  # which is the whole block's
        by_step = {name: getattr(block, name)[:, which] for name in ("states", "actions", "rewards")}
        whole = {name: getattr(block, name)[which] for name in ("units", "lengths", "endings", "final")}
        piece._found = {
            ("block",): replace(block, **by_step, **whole),
            ("positions",): self.positions[which],
            ("admitted",): self._admitted[which],
            ("lengths",): self._lengths[which],
            ("prices",): self._prices,
            ("scaled prices",): self._scaled_prices,
        }
        return piece

    def once(self, key: tuple[object, ...], compute: Callable[[], _T]) -> _T:
        """What several statistics of one pass need of this block, computed for the first of them."""
        if key not in self._found:
            self._found[key] = compute()
        return cast(_T, self._found[key])

    def reserve(self, size: int) -> bool:
        """Whether there is room to `remember` so many bytes until a later pass; if so, it is taken."""
        return self._memory is not None and self._memory.reserve(size)

    def remember(self, key: Hashable, value: object) -> None:
        if self._memory is not None:
            self._memory.remember((self._span, key), value)

    def recall(self, key: Hashable) -> object | None:
        return None if self._memory is None else self._memory.recall((self._span, key))

    def part(self, low: int, high: int) -> BoolArray:
        """Which trajectories belong to units at positions low … high−1."""
        return (self.positions >= low) & (self.positions < high)

    def _in_range(self, rewards: NDArray[np.generic]) -> FloatArray:
        """Rounded first: the bounds hold of what comes out, and a reward that was kept rounded gives the same."""
        found = np.array(self.schema.rounded(rewards), dtype=np.float64, order="C")
        np.copyto(found, 0.0, where=np.isnan(found))
        np.maximum(found, self.schema.low, out=found)
        return np.minimum(found, self.schema.low + self.schema.width, out=found)

    def _scaled(self, rewards: FloatArray) -> FloatArray:
        found = rewards - self.schema.low  # as `Schema.scaled`, in place
        found /= self.schema.width
        np.maximum(found, 0.0, out=found)
        return np.minimum(found, 1.0, out=found)

    def _clipped(self, step: int | slice) -> FloatArray:  # (B,) or (H, B)
        prices = self._prices
        rewards = self._in_range(self._block.rewards[step]) if prices is None else self._looked_up(prices, step)
        np.copyto(rewards, 0.0, where=~self._before_end(step))
        return rewards

    def _looked_up(self, prices: NDArray[_N], step: int | slice) -> NDArray[_N]:
        return prices.take(cast(IntArray, self._block.rewards[step]))

    def _before_end(self, step: int | slice) -> BoolArray:  # (B,) or (H, B)
        steps = np.arange(self.schema.horizon, dtype=self._lengths.dtype)[step]
        return np.asarray(self._lengths > (steps[:, None] if steps.ndim else steps))

    @property
    def _within_total(self) -> FloatArray:  # (H, B)
        """Rewards cut where a trajectory's running total would leave its range."""
        return self.once(("within total",), self._cut)

    def _cut(self) -> FloatArray:
        low, high = self.schema.total or (0.0, 0.0)
        total = np.zeros(len(self._lengths))
        rewards = np.empty((self.schema.horizon, len(total)))
        for step in range(self.schema.horizon):
            following = np.clip(total + self._clipped(step), low, high)
            rewards[step], total = following - total, following
        return rewards

    def rewards(self, step: int | slice) -> FloatArray:  # (B,) or (H, B)
        """Scaled to [0, 1], of every trajectory at a step or several, whether or not its record counts."""
        if self.schema.total is not None:
            return self._scaled(self._within_total[step])
        if self._scaled_prices is None:
            return self._scaled(self._clipped(step))
        return np.where(self._before_end(step), self._looked_up(self._scaled_prices, step), self.schema.idle)

    def of_rewards(self, function: Callable[[FloatArray], NDArray[_N]]) -> NDArray[_N]:  # (H, B)
        """An elementwise function of the scaled rewards, where records count. If few rewards differ, it is computed of
        these."""
        prices = self._scaled_prices if self.schema.total is None else None
        return function(self.rewards(EVERY)) if prices is None else self._looked_up(function(prices), EVERY)

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

    def successors(self) -> tuple[NDArray[np.generic], BoolArray, BoolArray]:  # (H, B) each
        """The same of all steps, of discrete states: only one step of a trajectory is its last."""
        block, columns = self._block, np.flatnonzero(self._lengths > 0)
        last, endings = (self._lengths[columns] - 1, columns), np.asarray(block.endings)[columns]
        successors = np.concatenate([block.states[1:], np.asarray(block.final)[None]])
        successors[last] = block.final[columns]
        ended, known = np.zeros(successors.shape, np.bool_), self._inside(successors)
        ended[last] = endings == ENDED
        known[last] = (endings == ENDED) | (known[last] & (endings == CUT_BEFORE))
        return successors, ended, known

    def seen(self, step: int | slice) -> tuple[NDArray[np.generic], AnyIntArray, BoolArray]:
        """State and action of every trajectory at a step (from 0), or at several, and whether they lie inside the
        schema."""
        states, actions = self._block.states[step], self._block.actions[step]
        counts = self._admitted & self._before_end(step)
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
