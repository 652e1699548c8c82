"""Whom the search for worst neighbours makes its pairs of: anybody, those before them changed a little, and others who
stay as they are so that a learner gets past its thresholds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from discretion.blocks import KEPT, Kept, OfBlock
from discretion.learning.schemas import Discrete, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Stored, Trajectories

_MISSING: Final = 0.3  # of the values that may be
_NEAR: Final = 1 / 8  # of the bounds, in which those who tell are


@dataclass(frozen=True, eq=False)
class Patient:
    """Everything recorded about one unit, a column for each trajectory."""

    states: Any  # (H, m) or (H, m, p)
    actions: IntArray  # (H, m)
    rewards: Any  # (H, m)
    lengths: IntArray  # (m,)
    endings: IntArray  # (m,)
    final: Any  # (m,) or (m, p)


def _states(schema: Schema, draw: np.random.Generator, size: tuple[int, ...]) -> Any:
    if isinstance(schema.states, Discrete):
        return draw.integers(0, schema.states.count, size)
    vector = schema.states
    spread = draw.random((*size, len(vector.columns)))
    corners = np.where(draw.random() < 0.5, np.rint(spread), spread)
    return _with_gaps(vector, draw, vector.low + corners * (vector.high - vector.low))


def _with_gaps(vector: Vector, draw: np.random.Generator, states: Any) -> Any:
    """Of a column that may be missing, some values are, or all."""
    for column in vector.missing:
        place = vector.columns.index(column)
        lost = draw.random(states.shape[:-1]) < draw.choice([0.0, _MISSING, 1.0])
        states[..., place] = np.where(lost, np.nan, states[..., place])
    return states


def patient(schema: Schema, draw: np.random.Generator) -> Patient:
    """Anybody: often somebody who never changes, or whose rewards are all at one end."""
    horizon, many = schema.horizon, int(draw.integers(1, schema.per_unit + 1))
    states = _states(schema, draw, (horizon, many))
    if draw.random() < 0.3:
        states = np.broadcast_to(states[:1], states.shape).copy()
    actions = draw.integers(0, schema.actions, (horizon, many))
    if draw.random() < 0.3:
        actions = np.broadcast_to(actions[:1], actions.shape).copy()
    low, high = schema.reward
    rewards = low + (high - low) * draw.random((horizon, many))
    if draw.random() < 0.6:
        rewards = np.where(draw.random((horizon, many)) < draw.choice([0.0, 0.5, 1.0]), low, high)
    full = draw.random() < 0.5
    lengths = np.full(many, horizon) if full else draw.integers(1, horizon + 1, many)
    endings = draw.choice([ENDED, CUT_BEFORE, CUT], many)
    return Patient(states, actions, rewards, lengths, endings, _states(schema, draw, (many,)))


def telling(schema: Schema, draw: np.random.Generator) -> Patient:
    """Somebody who stays where one action pays, more in the first places than in others, so that there is more to gain:
    whoever moves between them changes what can be gained by more than those who stay. Of vector states, somebody in the
    lowest part of the bounds, so that there is a place where patients are."""
    found = patient(schema, draw)
    here, pays = found.states[:1], (found.actions == 0).astype(np.float64)
    if isinstance(schema.states, Vector):
        here = schema.states.low + (here - schema.states.low) * _NEAR
    else:
        pays *= 1 - here / (schema.count - 1)
    states, (low, high) = np.broadcast_to(here, found.states.shape), schema.reward
    endings = np.full_like(found.endings, CUT_BEFORE)
    return replace(found, states=states, rewards=low + (high - low) * pays, endings=endings, final=states[0])


def changed(found: Patient, schema: Schema, draw: np.random.Generator) -> Patient:
    """The same with some of it taken from somebody else with as many trajectories."""
    other = patient(schema, draw)
    while len(other.lengths) != len(found.lengths):
        other = patient(schema, draw)
    parts = {}
    for name in ("states", "actions", "rewards", "lengths", "endings", "final"):
        mine, theirs = getattr(found, name), getattr(other, name)
        shape = mine.shape if name != "states" and name != "final" else mine.shape[: 2 if name == "states" else 1]
        mask = draw.random(shape) < draw.choice([0.0, 0.1, 0.5])
        parts[name] = np.where(mask.reshape(mask.shape + (1,) * (mine.ndim - mask.ndim)), theirs, mine)
    return Patient(**parts)


@dataclass(frozen=True, eq=False)
class _Shelf:
    """One block, of which passes remember what they computed, as of a stored dataset's."""

    block: Block
    units: int
    kept: Kept = field(default_factory=lambda: Kept(KEPT))

    def __iter__(self) -> Iterator[Block]:
        return iter([self.block])

    def __len__(self) -> int:
        return 1

    def stored(self) -> Iterator[Stored]:
        return iter([Stored((0, self.units), self._read, OfBlock(self.kept, 0))])

    def _read(self, _: bool) -> Block:
        return self.block

    def give_way(self, size: int | None) -> None:
        self.kept.give_way(size)


def dataset(schema: Schema, patients: Sequence[Patient], count: int) -> Trajectories:
    def beside(name: str, axis: int) -> Any:
        return np.concatenate([getattr(one, name) for one in patients], axis=axis)

    units = np.repeat(np.arange(len(patients)), [len(one.lengths) for one in patients])
    steps = {name: beside(name, 1) for name in ("states", "actions", "rewards")}
    rest = {name: beside(name, 0) for name in ("lengths", "endings", "final")}
    return Trajectories(schema, count, _Shelf(Block(units=units, **steps, **rest), count))
