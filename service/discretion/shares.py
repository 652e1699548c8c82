"""One share of a sum, as a machine of the cluster makes it: some blocks in, integers out.

What arrives is no patient's value: a dataset's name, its schema, which blocks, and the statistics. These may hold what
was made of numbers drawn before, noised and paid for, though nobody has received them yet. What opens the data is not
sent to anybody: store and master key are those of this machine's own settings, so a scheduler, or whoever reads what it
passes on, cannot open a block.

Nothing is raised. Dask would write an exception, which may quote a record, to its log and send it on; what went wrong
is one of a few numbers instead.

A machine that makes sums for one training keeps the blocks it has read until that training takes its leave, in memory
and nowhere else, and never more than it has beside what the training's sums need.
"""

import functools
import pickle
import platform
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Final

import numpy as np

import discretion
from discretion import blocks, datasets, errors, settings, shelves
from discretion.learning import sums
from discretion.learning.schemas import IntArray, Schema
from discretion.learning.trajectories import Trajectories

FAILED, NO_STORE, NO_MEMORY, OTHER = range(4)  # why there is no sum; the last: this is not the machine it must be
_PACKAGES: Final = ("numpy", "pyarrow", "cryptography", "dask", "distributed")

_LEFT: Final = 600.0  # seconds after which a training that asks for nothing has gone without a word

LARGE: Final = 2**26  # bytes of partial sums, from which on a machine makes only one

Made = list[IntArray] | int
Versions = dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """Which sum it is: everything a machine is told but its blocks, and the same for all of them."""

    line: str  # who asks: a name that a training has here and nowhere else
    need: int  # bytes, at most, of a machine that makes its sums: what it has beside them may keep blocks
    whole: bool  # these, or only what is computed of them
    dataset: str  # the name in the store
    schema: Schema
    first: int  # the stored position of the first unit that counts
    units: int
    statistics: Sequence[sums.Statistic]

    def packed(self) -> bytes:
        """Opaque to the scheduler, which would otherwise unpack it."""
        return pickle.dumps(self, protocol=5)


def add(packed: bytes, some: Sequence[int]) -> Made:
    made = _added(packed, some)
    if made == NO_MEMORY:
        HERE.give_way()
        made = _added(packed, some)
    return made


def _added(packed: bytes, some: Sequence[int]) -> Made:
    try:
        wanted: Wanted = pickle.loads(packed)
        with np.errstate(all="ignore"):  # a warning that depends on a record would be a message about it
            # One thread is all that Dask gives a task.
            return sums.partials(wanted.statistics, _read(wanted, some), threads=1)
    except (errors.StorageFailed, errors.InvalidSetting):
        return NO_STORE
    except Exception as trouble:
        return NO_MEMORY if errors.is_of_memory(trouble) else FAILED


def _read(wanted: Wanted, some: Sequence[int]) -> Trajectories:
    """What the store has now: of a dataset that is no longer there nothing is summed, whatever is kept."""
    stored = datasets.load(_shelf().place(wanted.dataset), wanted.schema, some).blocks
    assert isinstance(stored, blocks.StoredBlocks)
    found = replace(stored, kept=HERE.kept(wanted.line, wanted.need, whole=wanted.whole))
    return Trajectories(wanted.schema, wanted.units, found, wanted.first)


@functools.cache
def _shelf() -> shelves.Shelf:
    return shelves.opened(settings.read())


def together(*parts: Made) -> Made:
    """The sum of partial sums, which are left as they are: Dask may hand them to another machine as well."""
    for part in parts:
        if isinstance(part, int):
            return part
    made = _together(parts)
    if made == NO_MEMORY:
        HERE.give_way()
        made = _together(parts)
    return made


def _together(parts: Sequence[Made]) -> Made:
    try:
        return [functools.reduce(np.add, column) for column in zip(*parts, strict=True)]
    except MemoryError:
        return NO_MEMORY


# --- what stays from one sum to the next -------------------------------------------------------------------------


class Here:
    """What this machine keeps: blocks of the one training that asks it. Of several it keeps none, because their partial
    sums lie side by side and want the room."""

    def __init__(self) -> None:
        self.most = 0  # bytes that this machine may take; until that is said it keeps nothing
        self._turn, self._asking = threading.Lock(), dict[str, float]()
        self._kept: blocks.Kept | None = None

    def kept(self, line: str, need: int, *, whole: bool) -> blocks.Kept:
        self.tidy()
        with self._turn:
            self._asking[line] = time.monotonic()
            if len(self._asking) > 1:
                self._kept = None
                return blocks.Kept(0)
            if self._kept is None:
                self._kept = blocks.Kept(max(0, min(blocks.KEPT, self.most - need)), whole=whole, apart=True)
            return self._kept

    def give_way(self) -> None:
        """To a sum that found too little memory: nothing more is kept for who asks."""
        with self._turn:
            self._kept = blocks.Kept(0)

    def forget(self, line: str) -> None:
        with self._turn:
            if self._asking.pop(line, None) is not None:
                self._kept = None

    def tidy(self) -> None:
        """A training that was killed takes no leave."""
        now = time.monotonic()
        for line in [line for line, asked in self._asking.copy().items() if now - asked > _LEFT]:
            self.forget(line)


HERE: Final = Here()


# --- asked before anything is charged ----------------------------------------------------------------------------


@functools.cache
def versions() -> Versions:
    """What must be the same everywhere for the same integers to come out. Found once, because every share is compared,
    and because what is installed later is not what runs. For another kind of processor numpy is another program, in
    which a compiler may have made one rounding of a product and a sum."""
    found = {"python": platform.python_version(), "discretion": discretion.__version__}
    found |= {"processor": platform.machine(), "bytes": sys.byteorder}
    return found | {name: metadata.version(name) for name in _PACKAGES}


def why_not(dataset: str | None) -> str | None:
    """What keeps this machine from reading a dataset, or the store at all, in words without any value."""
    try:
        if dataset is None:
            _shelf().master_keys()
            _shelf().look()
        else:
            datasets.units(_shelf().place(dataset))
    except errors.Refusal as refusal:
        return str(refusal)
    return None
