"""Processes that must not outlive the one that started them, nor take more than they may."""

import contextlib
import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from discretion import errors

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, however it ends; at once if it has."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def fence(most: int) -> None:
    """Let this process take no more than so many bytes. The kernel counts what is reserved: what is reserved already
    and not in use is nobody's loss and comes on top."""
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    # Not every kernel tells the second: then less is fenced off.
    reserved, used = (int(status.get(name, "0 kB").split()[0]) * 1024 for name in ("VmData", "RssAnon"))
    wanted, (_, before) = most + max(0, reserved - used), resource.getrlimit(resource.RLIMIT_DATA)
    lower = wanted if before == resource.RLIM_INFINITY else min(wanted, before)  # nobody but root may raise it
    resource.setrlimit(resource.RLIMIT_DATA, (lower, lower))


def apart(check: Callable[[], object], seconds: float, unsaid: str) -> str | None:
    """What a check refuses with, None if it does not, and `unsaid` if it says nothing in time: in a process of its own,
    because it may start threads, and this one is forked from."""
    parent, (reading, writing) = os.getpid(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _tell(check, writing, parent, unsaid)
    os.close(writing)
    try:
        return _heard(reading, time.monotonic() + seconds, unsaid)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _tell(check: Callable[[], object], writing: int, parent: int, unsaid: str) -> None:
    words = unsaid
    try:
        die_with_parent(parent)
        check()
        words = ""
    except errors.Refusal as refusal:
        words = str(refusal)
    finally:
        os.write(writing, b"\1" + words.encode()[:2048])
        os._exit(0)


def _heard(reading: int, end: float, unsaid: str) -> str | None:
    heard = b""
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        if not (more := os.read(reading, 4096)):
            break
        heard += more
    return heard[1:].decode(errors="replace") or None if heard else unsaid
