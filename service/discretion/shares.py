"""One share of a sum, as a machine of the cluster makes it: some blocks in, integers out.

What arrives is no patient's value: a dataset's name, its schema, which blocks, and the statistics. These may hold what
was made of numbers drawn before, noised and paid for, though nobody has received them yet. What opens the data is not
sent to anybody: store and master key are those of this machine's own settings, so a scheduler, or whoever reads what it
passes on, cannot open a block.

Nothing is raised. Dask would write an exception, which may quote a record, to its log and send it on; what went wrong
is one of a few numbers instead.
"""

import functools
import pickle
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final

import numpy as np

import discretion
from discretion import datasets, errors, settings, shelves
from discretion.learning import sums
from discretion.learning.schemas import IntArray, Schema
from discretion.learning.trajectories import Trajectories

FAILED, NO_STORE, NO_MEMORY, OTHER = range(4)  # why there is no sum; the last: this is not the machine it must be
_PACKAGES: Final = ("numpy", "pyarrow", "cryptography", "dask", "distributed")

LARGE: Final = 2**26  # bytes of partial sums, from which on a machine makes only one

Made = list[IntArray] | int
Versions = dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """Which sum it is: everything a machine is told but its blocks, and the same for all of them."""

    dataset: str  # the name in the store
    schema: Schema
    first: int  # the stored position of the first unit that counts
    units: int
    statistics: Sequence[sums.Statistic]

    def packed(self) -> bytes:
        """Opaque to the scheduler, which would otherwise unpack it."""
        return pickle.dumps(self, protocol=5)


def add(packed: bytes, blocks: Sequence[int]) -> Made:
    try:
        wanted: Wanted = pickle.loads(packed)
        with np.errstate(all="ignore"):  # a warning that depends on a record would be a message about it
            # One thread is all that Dask gives a task.
            return sums.partials(wanted.statistics, _read(wanted, blocks), threads=1)
    except (errors.StorageFailed, errors.InvalidSetting):
        return NO_STORE
    except Exception as trouble:
        return NO_MEMORY if errors.is_of_memory(trouble) else FAILED


def _read(wanted: Wanted, blocks: Sequence[int]) -> Trajectories:
    stored = datasets.load(_shelf().place(wanted.dataset), wanted.schema, blocks)
    return Trajectories(wanted.schema, wanted.units, stored.blocks, wanted.first)


@functools.cache
def _shelf() -> shelves.Shelf:
    return shelves.opened(settings.read())


def together(*parts: Made) -> Made:
    """The sum of partial sums, which are left as they are: Dask may hand them to another machine as well."""
    for part in parts:
        if isinstance(part, int):
            return part
    try:
        return [functools.reduce(np.add, column) for column in zip(*parts, strict=True)]
    except MemoryError:
        return NO_MEMORY


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
