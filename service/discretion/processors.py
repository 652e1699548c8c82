"""Which processors a training has: as many as the settings say, and none that another worker of this machine has.

A worker takes them when it starts. It holds them by locks on bytes of one file, a byte for each processor of each
machine: workers that share a folder see each other there, in containers of one host too, and who dies lets go.
"""

import contextlib
import fcntl
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from discretion.learning import blas

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")  # a machine's own, the same in all its containers
_MOST: Final = 2**16  # processors of a machine


@dataclass(frozen=True)
class Slot:
    """Ours until the file is closed: with this process, or by hand."""

    processors: frozenset[int]
    file: int | None = None


def take(many: int, file: Path) -> Slot:
    """So many that are nobody's, as far as there are. Where all are somebody's, or no lock can be had, some are shared:
    not always the first, or a machine with many workers would have idle processors."""
    ours = sorted(os.sched_getaffinity(0))
    if many >= len(ours):
        return Slot(frozenset(ours))
    opened: int | None = None
    free: list[int] = []
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        first = int(_BOOT.read_text()[:8], 16) * _MOST
        free += itertools.islice((each for each in ours if _locked(opened, first + each)), many)
    start = os.getpid() % len(ours)
    others = (processor for processor in ours[start:] + ours[:start] if processor not in free)
    return Slot(frozenset(itertools.islice(itertools.chain(free, others), many)), opened)


def _locked(file: int, byte: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except BlockingIOError:
        return False
    return True


def confine(slot: Slot) -> None:
    """This process and the threads that it will start. BLAS counted processors when it was loaded, and is told."""
    with contextlib.suppress(OSError):  # a machine that does not let us is used as a whole
        os.sched_setaffinity(0, slot.processors)
        blas.tell(len(slot.processors))
