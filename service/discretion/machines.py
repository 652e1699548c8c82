"""What a machine of the cluster runs for Dask: a share or the sum of two, if it is the machine that it must be, and the
answers to what is asked before a charge.

A training that is charged is tried, not checked: so every share is told who asks, and one that has other software, or
was started by Dask's own commands, says so instead of a sum.
"""

import asyncio
import concurrent.futures
from collections.abc import Sequence
from typing import Any, Final

import dask

from discretion import shares

PATIENCE: Final = 10.0  # seconds to answer
STORE: Final = 3 * PATIENCE  # to look at the store, which has a patience of its own
REACHED: Final = 3 * PATIENCE  # to look whether others are reached
# A whole check at most: the scheduler is reached, by hand (address, handshake, answer) and by Dask, and asked
# five times; machines are asked for versions, quiet and the store, each with a patience more, and for each other.
CHECK: Final = (3 + 1 + 5 + 2 * 2 + 1) * PATIENCE + STORE + REACHED
_NONE: Final = 60  # seconds that a sum waits for a machine
_LETTER: Final = bytes(2**14)  # more than a packet: a line may lose none but large ones
_ASIDE: Final = concurrent.futures.ThreadPoolExecutor(1)  # one: each thread takes of what a fence leaves

# Of everybody: the same on every machine, whatever a file or the environment says about Dask there.
QUIET: Final = {
    "distributed.comm.require-encryption": True,
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "40s",  # a line that is cut for less goes on where it was
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.scheduler.no-workers-timeout": f"{_NONE}s",
    "distributed.scheduler.allowed-failures": 10,  # machines that a share may take down before it is given up
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,  # nothing is spilled to a disk
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.pdb-on-err": False,
}


def told(packed: bytes) -> bytes:
    """What all shares of a sum have in common. Sent once, and from machine to machine after that: with a table of
    features it is large, and who asks has memory for one."""
    return packed


def add(theirs: shares.Versions, packed: bytes, blocks: Sequence[int]) -> shares.Made:
    """For who has these versions. Whoever has joined or was upgraded since the check has not been asked for its own."""
    return shares.add(packed, blocks) if _is_as_checked(theirs) else shares.OTHER


def forget(line: str) -> None:
    """A training takes its leave."""
    shares.HERE.forget(line)


def together(theirs: shares.Versions, *parts: shares.Made) -> shares.Made:
    return shares.together(*parts) if _is_as_checked(theirs) else shares.OTHER


def _is_as_checked(theirs: shares.Versions) -> bool:
    return theirs == shares.versions() and is_quiet()


def is_quiet() -> bool:
    return all(dask.config.get(name, None) == value for name, value in QUIET.items())


def prepare(most: int) -> None:
    """A machine with so many bytes. Before there is a fence: a thread may be too much within it."""
    _ASIDE.submit(int).result()
    shares.HERE.most = most


async def tidy() -> None:
    """For ever: what nobody asks for any more is forgotten though nobody else asks."""
    while True:
        shares.HERE.tidy()
        await asyncio.sleep(PATIENCE)


async def why_not(dataset: str | None) -> str | None:
    """Aside: a store that hangs must not keep this machine from saying that it lives."""
    return await asyncio.get_running_loop().run_in_executor(_ASIDE, shares.why_not, dataset)


async def unreached(machines: Sequence[str], dask_worker: Any) -> list[str]:
    """Those that this machine does not reach, by the same lines that partial sums go. A task would do the same, but
    wait until other trainings' sums are made."""

    async def is_reached(address: str) -> bool:
        try:
            await asyncio.wait_for(dask_worker.rpc(address).echo(data=_LETTER), PATIENCE)
        except (OSError, TimeoutError):
            return False
        return True

    others = [address for address in machines if address != dask_worker.address]
    reached = await asyncio.gather(*map(is_reached, others))
    return [address for address, well in zip(others, reached, strict=True) if not well]
