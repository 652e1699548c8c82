"""Sums on a hospital's own cluster: Dask runs `shares` on its machines, and this room asks for them.

What comes back are integers, added up on the way in a tree, so any partition of the blocks gives the same. They carry
no noise yet: scheduler and machines are inside the curator's boundary, reached by TLS with certificates of one own
authority. Noise is drawn where the curator is, and nowhere here.

Dask sees to machines that are lost: until a sum is back nothing was drawn, so a share that is made twice is drawn
once. Scheduler and machines are started by `hosting`, which turns off whatever of Dask would write a value anywhere.

Only who has the setting imports this room.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import dask
import distributed
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

from discretion import datasets, errors, machines, shares, shelves
from discretion.learning import sums
from discretion.learning.schemas import IntArray
from discretion.learning.trajectories import Trajectories
from discretion.privacy import tokens
from discretion.settings import Cluster, Settings

_AWAY: Final = 60.0  # seconds that a training, which is charged, waits for a scheduler that is away or hangs
_LOOK: Final = 1.0
_EACH: Final = 4  # shares of a machine: one that is lost takes that much less with it
_ARITY: Final = 2  # sums that become one at a time: as many lie side by side in a machine's memory
_GLANCE: Final = 60.0  # seconds of a sum after which it is seen to that machines still reach each other
_SENT: Final = 600.0  # seconds in which a sum that is made comes here
_APART: Final = 3  # times in a row that they do not: the sum is lost
_LEAVE: Final = 2.0  # seconds in which machines are told that a training goes
_NAMED: Final = 3  # pairs of machines in a sentence
_MEGABYTE: Final = 2**20

_GONE: Final = (
    CommClosedError,
    KilledWorker,
    NoValidWorkerError,
    NoWorkerError,
    OSError,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
    TimeoutError,
)


def security(found: Cluster) -> distributed.Security:
    files = {"tls_ca_file": str(found.ca_file)}
    for role in ("client", "scheduler", "worker"):
        files |= {f"tls_{role}_cert": str(found.certificate_file), f"tls_{role}_key": str(found.key_file)}
    return distributed.Security(require_encryption=True, **files)


def configured(found: Settings) -> Cluster:
    assert found.cluster is not None, "who has none does not come here"
    return found.cluster


# --- sums --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """A line to the cluster, for one training."""

    client: distributed.Client
    line: str
    need: int
    whole: bool
    dataset: str
    blocks: int

    def totals(self, statistics: Sequence[sums.Statistic], trajectories: Trajectories) -> list[IntArray]:
        """What `sums.totals` gives, made elsewhere."""
        wanted = shares.Wanted(
            self.line,
            self.need,
            self.whole,
            self.dataset,
            trajectories.schema,
            trajectories.first,
            trajectories.units,
            tuple(statistics),
        )
        expected = [sums.form(statistic) for statistic in statistics]
        try:
            made = self._made(wanted, sum(form.bytes for form in expected))
        except (errors.ClusterUnavailable, MemoryError):
            raise
        except _GONE as gone:
            raise errors.ClusterUnavailable("The cluster was lost in the middle of a sum.") from gone
        except Exception as other:  # shares raise nothing: whoever ran them was another program
            if self.client.status != "running":  # Dask gives up a scheduler that is away, and then says anything
                raise errors.ClusterUnavailable("The cluster's scheduler has gone away.") from other
            raise errors.ClusterUnfit("The cluster cannot run what it was asked to.") from other
        if isinstance(made, int):
            raise _failure(made)
        if [sums.Form(each.shape, each.dtype) for each in made] != expected:
            raise errors.ClusterUnfit("What came back from the cluster are not the sums that were asked for.")
        return sums.finished(statistics, made)

    def _made(self, wanted: shares.Wanted, size: int) -> shares.Made:
        busy = self.client.sync(self.client.scheduler.processing, callback_timeout=_AWAY)
        # Who has least to do is the first; else in the same order each time, because a machine keeps what it has read.
        hands = sorted(busy, key=lambda machine: (len(busy[machine]), machine))
        count = min(self.blocks, max(1, len(hands)) * (1 if size > shares.LARGE else _EACH))
        name, ours = tokens.identifier("sum"), shares.versions()  # keys are written to Dask's log, and say nothing
        # By another name than the shares: Dask takes what has one name to last equally long.
        told = self.client.submit(machines.told, wanted.packed(), key=f"{name}-told", pure=False)
        level = [
            self.client.submit(
                machines.add,
                ours,
                told,
                tuple(range(index, self.blocks, count)),
                key=f"{name}-0-{index}",
                pure=False,
                **_dealt(hands, index),
            )
            for index in range(count)
        ]
        height = 0
        while len(level) > 1:
            height += 1
            level = [
                self.client.submit(
                    machines.together, ours, *level[start : start + _ARITY], key=f"{name}-{height}-{start}", pure=False
                )
                for start in range(0, len(level), _ARITY)
            ]
        return self._awaited(level[0])

    def _awaited(self, whole: distributed.Future) -> shares.Made:
        """A sum may take hours and has no deadline. But machines that no longer reach each other would be asked by Dask
        for each other's parts for ever."""
        apart = 0
        while apart < _APART:
            try:
                whole.exception(timeout=_GLANCE)  # until there is a sum, or none
                return whole.result(timeout=_SENT)
            except TimeoutError:
                if whole.status == "error":  # it is the sum's own, and will not be another
                    raise
            except MemoryError:
                if whole.status == "error":  # of a machine that is handed another's part, and not of this one
                    raise _failure(shares.NO_MEMORY) from None
                raise
            # A sum that is made and does not come here is as good as lost.
            apart = apart + 1 if whole.status == "finished" or _are_apart(self.client) else 0
        raise errors.ClusterUnavailable("Machines of the cluster no longer reach each other, or this one.")


def _dealt(hands: Sequence[str], index: int) -> dict[str, Any]:
    """Whose turn a share is. Dask would have all of them made where that lies which they have in common. But if that
    machine is busy or gone, any other may."""
    return {"workers": hands[index % len(hands)], "allow_other_workers": True} if hands else {}


def _are_apart(client: distributed.Client) -> bool:
    try:
        return bool(_strangers(client))
    except _GONE:  # one has just gone, or hangs
        return True


def _failure(code: int) -> Exception:
    if code == shares.NO_STORE:
        return errors.StoreUnavailable("A machine of the cluster could not read the store.")
    if code == shares.NO_MEMORY:
        return errors.ClusterFull("A machine of the cluster has too little memory for now.")
    if code == shares.OTHER:
        return errors.ClusterUnfit("A machine of the cluster has other versions, or was not started by Discretion.")
    return RuntimeError("A sum failed on the cluster.")


@contextmanager
def engine(found: Settings, dataset: str, need: int, *, whole: bool = True) -> Iterator[Engine]:
    """For sums that need so many bytes of a machine, at most. In what it has beside them it keeps blocks, `whole` or
    what is computed of them."""
    with contextlib.closing(shelves.opened(found)) as shelf:
        blocks = datasets.blocks(shelf.place(dataset))
    _await(configured(found))
    with _connected(configured(found)) as client:
        line = tokens.identifier("line")
        try:
            yield Engine(client, line, need, whole, dataset, blocks)
        finally:
            with contextlib.suppress(Exception):  # whom it does not reach forgets by itself
                client.sync(client._run, machines.forget, line, callback_timeout=_LEAVE)


def _await(found: Cluster) -> None:
    end = time.monotonic() + _AWAY
    while True:
        try:
            return knock(found)
        except errors.ClusterUnavailable:
            if time.monotonic() > end:
                raise
        time.sleep(_LOOK)


@contextmanager
def _connected(found: Cluster) -> Iterator[distributed.Client]:
    """Dask's own words, here and there, go nowhere: they may quote what they were about."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    knock(found)
    with dask.config.set(machines.QUIET), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other versions, which are refused in our own words
        try:
            client = distributed.Client(
                found.address,
                security=security(found),
                timeout=machines.PATIENCE,
                set_as_default=False,
            )
        except (*_GONE, ValueError) as gone:
            raise errors.ClusterUnavailable(_no_answer(found)) from gone
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=2)


# --- asked before anything is charged ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Passing:
    """What a scheduler needs, in bytes, and what says there how many it has."""

    need: int
    has: Callable[[], int]


def check(found: Settings, dataset: str | None = None, need: int = 0, passing: Passing | None = None) -> str:
    """Whether a training would get its sums, and what to do if not; `need` in bytes, of one machine."""
    with _connected(configured(found)) as client:
        try:
            return _examined(client, dataset, need, passing)
        except _GONE as gone:
            raise errors.ClusterUnavailable(
                "The cluster broke off, or came to no end, while it was being checked; look whether its scheduler "
                "hangs, and try again."
            ) from gone


def _examined(client: distributed.Client, dataset: str | None, need: int, passing: Passing | None) -> str:
    """The scheduler first: an answer of a machine that has other software cannot even be read."""
    _same(client, "scheduler", [_answer(partial(_of_scheduler, client, shares.versions))])
    found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=machines.PATIENCE)["workers"]
    if not found:
        raise errors.ClusterUnfit("The cluster has no machine; start some: discretion cluster work")
    _same(client, "machine", _of_machines(client, machines.PATIENCE, shares.versions))
    if not _answer(partial(_of_scheduler, client, machines.is_quiet)) or not all(
        _of_machines(client, machines.PATIENCE, machines.is_quiet)
    ):
        raise errors.ClusterUnfit(
            "Dask's dashboard, spilling or profiling is on in the cluster; start it by `discretion cluster`."
        )
    for words in _of_machines(client, machines.STORE, machines.why_not, dataset, what="comes to no end with the store"):
        if words is not None:
            raise errors.ClusterUnfit(f"A machine of the cluster cannot read the store: {words}")
    if strangers := _answer(partial(_strangers, client)):
        raise errors.ClusterUnfit(
            f"Machines of the cluster do not reach each other: {_listed(strangers)}; each must reach every other at "
            "all ports from 1024 on: look for a firewall between them."
        )
    least = min(machine["memory_limit"] or 0 for machine in found.values())
    if least < need:
        raise errors.ClusterUnfit(
            f"A machine of the cluster has {least // _MEGABYTE} MB and needs {-(-need // _MEGABYTE)}; "
            "give it more (DISCRETION_TRAINING_MEGABYTES there says how much it may take)."
        )
    if passing is not None and (whole := _answer(partial(_of_scheduler, client, passing.has))) < passing.need:
        raise errors.ClusterUnfit(
            f"The cluster's scheduler has {whole // _MEGABYTE} MB and needs {-(-passing.need // _MEGABYTE)}, because "
            "sums come here through it; give its host or its container more."
        )
    count = "1 machine" if len(found) == 1 else f"{len(found)} machines"
    return f"{count} with {least // _MEGABYTE} MB or more can make sums."


def _of_scheduler(client: distributed.Client, ask: Any) -> Any:
    """`run_on_scheduler` and `run`, as they are called, have no deadline."""
    return client.sync(client._run_on_scheduler, ask, callback_timeout=machines.PATIENCE)


def _of_machines(
    client: distributed.Client, seconds: float, ask: Any, *given: Any, what: str = "does not answer"
) -> list[Any]:
    """What all answer, asked one by one and all at once, so that one which hangs is known."""

    async def of(address: str) -> Any:
        try:
            return (await asyncio.wait_for(client._run(ask, *given, workers=[address]), seconds))[address]
        except _GONE as gone:
            raise errors.ClusterUnavailable(
                f"The machine {address} of the cluster {what}; look whether it, its disk or its network hangs, and "
                "start it again."
            ) from gone

    async def of_all() -> list[Any]:
        return await asyncio.gather(*map(of, await client.scheduler.ncores()))

    return list(_answer(partial(client.sync, of_all, callback_timeout=seconds + machines.PATIENCE)))


def _strangers(client: distributed.Client) -> list[tuple[str, str]]:
    """Pairs of machines of which the first does not reach the second; all at once, so that it takes no longer where
    there are many."""
    known = list(client.sync(client.scheduler.ncores, callback_timeout=machines.PATIENCE))
    found = client.sync(client._run, machines.unreached, known, callback_timeout=machines.REACHED)
    return [(one, other) for one, others in found.items() for other in others]


def _listed(strangers: Sequence[tuple[str, str]]) -> str:
    named = ", ".join(f"{one} does not reach {other}" for one, other in strangers[:_NAMED])
    return named if len(strangers) <= _NAMED else f"{named} and {len(strangers) - _NAMED} more"


def _answer(ask: Any) -> Any:
    """Software that does not know what it is asked is other software."""
    try:
        return ask()
    except (errors.Refusal, *_GONE):
        raise
    except Exception:
        raise errors.ClusterUnfit(
            "The cluster cannot run this version of Discretion; install the same there and start it again."
        ) from None


def _same(client: distributed.Client, who: str, found: Sequence[dict[str, str]]) -> None:
    ours = shares.versions()
    for theirs in found:
        for name in ours:
            if theirs.get(name) != ours[name]:
                raise errors.ClusterUnfit(
                    f"A {who} of the cluster has {name} {theirs.get(name)} and this machine {ours[name]}; "
                    "install the same there, or take a machine of the same kind, and start it again."
                )


def _no_answer(found: Cluster) -> str:
    return f"No scheduler answers at {found.address} (DISCRETION_CLUSTER); start it: discretion cluster schedule"


def knock(found: Cluster) -> None:
    """By hand, because Dask says of most that it has timed out."""
    try:
        context = security(found).get_connection_args("client")["ssl_context"]
    except (OSError, ssl.SSLError, ValueError):
        raise errors.InvalidSetting(
            "The files named by DISCRETION_CLUSTER_CA_FILE, _CERTIFICATE_FILE and _KEY_FILE cannot be used: each must "
            "be readable and PEM, and the key that of the certificate."
        ) from None
    try:
        with (
            socket.create_connection((found.host, found.port), machines.PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=found.host) as line,
        ):
            answered = line.recv(1)  # with TLS 1.3 only this says whether our certificate was taken
    except ssl.SSLError as refused:
        raise errors.ClusterRefused(
            f"The scheduler at {found.address} and this machine do not accept each other's certificates "
            f"({refused.reason}); both must be of the authority in DISCRETION_CLUSTER_CA_FILE, and not have ended."
        ) from None
    except OSError:
        raise errors.ClusterUnavailable(_no_answer(found)) from None
    if not answered:
        raise errors.ClusterUnavailable(_no_answer(found))
