"""The two programs of a cluster: Dask's scheduler, and a machine that makes sums for it.

Both with everything turned off that would write or show a value: no dashboard and no other page, nothing spilled to a
disk, no profile, no words of a library. TLS always, on both sides, with certificates of one own authority.

A machine makes one sum at a time; start as many as the host has processors. It ends when its scheduler is gone, and
begins again as soon as there is one.
"""

import asyncio
import contextlib
import logging
import signal
import tempfile
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Final

import dask
import distributed

from discretion import cluster, errors, machines, shares
from discretion.settings import Cluster, Settings

_log = logging.getLogger(__name__)

_AGAIN: Final = 1.0  # seconds before a machine looks for its scheduler again
_DEATH: Final = 15.0  # seconds that it looks each time


class _NoPages:
    """Dask opens a port in plain HTTP for its pages, also where there are none."""

    def start_http_server(self, *given: Any, **named: Any) -> None:
        pass


class _Scheduler(_NoPages, distributed.Scheduler):  # type: ignore[misc]
    pass


class _Machine(_NoPages, distributed.Worker):  # type: ignore[misc]
    pass


def schedule(found: Settings) -> None:
    asyncio.run(_until_told(_schedule(found)))


def work(found: Settings, most: int, fence: Callable[[], None]) -> None:
    """With so many bytes; `fence` lets this process take no more, so that a sum for which they are too few fails by
    itself, and says so, instead of having the kernel kill whatever it likes on this host."""
    asyncio.run(_until_told(_work(found, most, fence)))


async def _until_told(run: Coroutine[Any, Any, None]) -> None:
    task, loop = asyncio.ensure_future(run), asyncio.get_running_loop()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _quiet() -> None:
    dask.config.set(machines.QUIET)
    shares.versions()  # of what runs here, whatever is installed while it does
    # A complaint of Dask quotes what it was about; that one was made is what the operator needs.
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    logging.getLogger("tornado").setLevel(logging.CRITICAL + 1)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")  # whether a library warns may depend on a record


async def _schedule(found: Settings) -> None:
    _quiet()
    named = cluster.configured(found)
    try:
        async with _Scheduler(
            host=found.host,
            port=named.port,
            protocol="tls",
            security=cluster.security(named),
            dashboard=False,
        ) as scheduler:
            _log.info("Scheduling sums on port %d.", named.port)
            await scheduler.finished()
    except OSError as trouble:
        raise errors.InvalidSetting(
            f"Cannot schedule on {found.host}:{named.port} (DISCRETION_HOST, DISCRETION_CLUSTER): {trouble.strerror}."
        ) from None


async def _work(found: Settings, most: int, fence: Callable[[], None]) -> None:
    _quiet()
    machines.prepare(most)
    await asyncio.gather(_serve(found, most, fence), machines.tidy())


async def _serve(found: Settings, most: int, fence: Callable[[], None]) -> None:
    named, said, fenced = cluster.configured(found), "", False
    while True:
        words = _why_not(named)
        if not words:
            words = f"The scheduler at {named.address} refuses this machine."
            with (
                tempfile.TemporaryDirectory(prefix="discretion-cluster-") as empty,
                contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError, ValueError, RuntimeError),
            ):
                async with _Machine(
                    named.address,
                    nthreads=1,
                    memory_limit=most,
                    security=cluster.security(named),
                    local_directory=empty,
                    death_timeout=_DEATH,
                    dashboard=False,
                ) as machine:
                    if not fenced:  # once: no limit can be raised; here, where Dask's own threads have their stacks
                        fence()
                    _log.info("Making sums for %s.", named.address)
                    said, fenced = "", True
                    await machine.finished()
                words = f"The scheduler at {named.address} has let this machine go."
        if words != said:
            _log.warning("Trying again: %s", words)
        said = words
        await asyncio.sleep(_AGAIN)


def _why_not(named: Cluster) -> str:
    """What keeps this machine from its scheduler: Dask would only say that it has timed out. Nobody waits for it."""
    try:
        cluster.knock(named)
    except errors.Refusal as refusal:
        return str(refusal)
    return ""
