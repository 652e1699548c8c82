"""How a training's process ends: with a number, which is all that comes out of it.

What may be about a record is without words. Everything else is about machines, and the operator's log says which: no
record can bring it about, because what a training takes and asks for is bounded by public sizes, and a block is read
whole before anybody looks into it.
"""

import signal
from typing import Final

import sqlalchemy as sa

from discretion import errors

RELEASED, FAILED, STOPPED, LOST, UNUSABLE = range(5)
_NO_DATABASE, _NO_STORE, _NO_HEADS, _NO_CLUSTER, _REFUSED, _CLUSTER_FULL, _OTHER_CLUSTER, _NO_MEMORY = range(5, 13)

_FINAL: Final = (FAILED, _NO_MEMORY)  # another attempt would end in the same way
_FOR_NOW: Final = (UNUSABLE, _NO_DATABASE, _NO_STORE, _NO_HEADS, _NO_CLUSTER, _REFUSED, _CLUSTER_FULL, _OTHER_CLUSTER)
_FOR_A_WHILE: Final = (UNUSABLE, _NO_STORE, _REFUSED, _CLUSTER_FULL, _OTHER_CLUSTER)
_WORDS: Final = {
    -signal.SIGKILL: "its process was killed, as the kernel does where memory runs out: "
    "DISCRETION_TRAINING_MEGABYTES says how much one training may take, DISCRETION_WORKERS how many there are",
    _CLUSTER_FULL: "a machine of the cluster has too little memory for now",
    _NO_DATABASE: "the database does not answer",
    _NO_STORE: "the store does not answer or does not have the dataset as it was stored "
    "here or on a machine of the cluster",
    _NO_HEADS: "nothing can be written to DISCRETION_HEADS",
    _NO_CLUSTER: "the cluster does not answer or has lost a sum",
    _REFUSED: "the cluster's scheduler and this machine do not accept each other's certificates",
    _OTHER_CLUSTER: "the cluster is not what it was when it was checked",
    _NO_MEMORY: "there is too little memory here",
}


class Stop(BaseException):
    """Told to stop between two draws."""


_NUMBERS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (Stop, STOPPED),
    (errors.LeaseLost, LOST),
    (sa.exc.OperationalError, _NO_DATABASE),
    (errors.StorageFailed, _NO_STORE),  # a folder that is away only lacks a file, and what is damaged can be restored
    (errors.HeadsUnavailable, _NO_HEADS),
    (errors.InvalidSetting, UNUSABLE),
    (errors.ClusterFull, _CLUSTER_FULL),
    (errors.ClusterRefused, _REFUSED),
    (errors.ClusterUnavailable, _NO_CLUSTER),
    (errors.ClusterUnfit, _OTHER_CLUSTER),
)


def of(trouble: BaseException) -> int:
    """Its text may quote a record, so nobody hears it."""
    if errors.is_of_memory(trouble):
        return _NO_MEMORY
    return next((number for kind, number in _NUMBERS if isinstance(trouble, kind)), FAILED)


def words(ended: int) -> str | None:
    """Why it broke off, for the operator; a number below zero is the signal that killed it. Of others than the kernel's
    own nothing is said: a library that crashes may do so for a record."""
    return _WORDS.get(ended)


def is_final(ended: int) -> bool:
    return ended in _FINAL


def is_tried_again(ended: int) -> bool:
    """Another may go on from what was drawn, as often as `runs.claim` allows."""
    return ended < 0 or ended in _FOR_NOW


def lasts(ended: int) -> bool:
    """Whether others have to mend something first, which takes some time: a file, a disk, their own sums, a version."""
    return ended in _FOR_A_WHILE
