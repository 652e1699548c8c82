"""The product's own commands, slowed down and watched: for races over sums.

    python -m tests.summed work           a worker that writes to FOLDER/sums what its sums came to, to FOLDER/draws
                                          what it drew, and to FOLDER/refused what it was not let write any more
    python -m tests.summed cluster work   a machine that is slow over every block, and writes to FOLDER/reads when

The environment says how: SUMMED names the folder, SLOWLY the seconds of a block, PAUSE those after a sum, CLAIM those
of a claim, which is written to FOLDER/claims, AWAY those that a run waits for a scheduler, GLANCE those between looks
whether machines reach each other; KEPT the bytes of blocks that a worker keeps from one sum to the next. Beside what a
sum came to stands what `sums.totals` makes of the same statistics in the worker's own process. Each line of a sum has
its time, so that it can be seen afterwards what was under way when something was lost: `tests.clusters` reads them.
What is wrapped here is how the rooms call each other; nothing of what they do is replaced.
"""

import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from discretion import blocks, cli, cluster, errors, runs
from discretion import worker as workers
from discretion.learning import sums
from discretion.learning.curator import Curator
from discretion.learning.schemas import IntArray
from discretion.learning.trajectories import Bounded, Trajectories

_Read = Callable[[], Bounded]


def _log(file: str, *words: object) -> None:
    descriptor = os.open(Path(os.environ["SUMMED"]) / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{' '.join(map(str, words))}\n".encode())
    os.close(descriptor)


def _digest(made: list[IntArray]) -> str:
    return hashlib.sha256(b"".join(each.tobytes() for each in made)).hexdigest()


def _watched(inner: Callable[..., Any]) -> Callable[..., Any]:
    def outer(curator: Curator, queries: Any) -> Any:
        number = len(curator.log)
        _log("sums", time.monotonic(), number, "begins", "-")
        made, ended = inner(curator, queries), time.monotonic()
        ours = sums.totals([query.statistic for query in queries], curator._trajectories)
        _log("sums", ended, number, _digest(made), _digest(ours))
        time.sleep(float(os.environ.get("PAUSE", 0)))
        return made

    return outer


def _counted(inner: Callable[..., Any]) -> Callable[..., Any]:
    def outer(curator: Curator, totals: Any, asked: Any) -> Any:
        held = getattr(curator._journal, "held", None)
        for number in range(len(curator.log) - len(asked), len(curator.log)):
            _log("draws", held.training if held is not None else "-", number)
        return inner(curator, totals, asked)

    return outer


def _refused(inner: Callable[..., None]) -> Callable[..., None]:
    def outer(connection: Any, held: runs.Claim, **values: Any) -> None:
        try:
            inner(connection, held, **values)
        except errors.LeaseLost:
            _log("refused", held.training, held.fence)
            raise

    return outer


def _long(inner: Callable[..., None]) -> Callable[..., None]:
    """Its transaction has locked the training and the population's turn, and has charged nothing."""

    def outer(worker: workers.Worker, training: str, *arguments: Any) -> None:
        inner(worker, training, *arguments)
        _log("claims", training, time.monotonic())
        time.sleep(float(os.environ["CLAIM"]))

    return outer


def _slow(inner: Callable[..., Iterator[_Read]]) -> Callable[..., Iterator[_Read]]:
    """Each block takes its time where it is read."""

    def slowly(read: _Read) -> Bounded:
        _log("reads", time.monotonic(), os.getpid(), "begins")
        time.sleep(float(os.environ["SLOWLY"]))
        block = read()
        _log("reads", time.monotonic(), os.getpid(), "ends")
        return block

    def outer(trajectories: Trajectories, *arguments: Any, **named: Any) -> Iterator[_Read]:
        for read in inner(trajectories, *arguments, **named):
            yield functools.partial(slowly, read)

    return outer


if __name__ == "__main__":
    setattr(Curator, "_totals", _watched(Curator._totals))  # noqa: B010
    setattr(Curator, "_drawn", _counted(Curator._drawn))  # noqa: B010
    runs._write = _refused(runs._write)
    if "SLOWLY" in os.environ:
        setattr(Trajectories, "readers", _slow(Trajectories.readers))  # noqa: B010
    if "CLAIM" in os.environ:
        setattr(workers.Worker, "_check_fit", _long(workers.Worker._check_fit))  # noqa: B010
    workers._UNFIT = workers._PAUSE = workers._LONGEST_PAUSE = 1.0  # type: ignore[misc]
    cluster._AWAY = float(os.environ.get("AWAY", cluster._AWAY))  # type: ignore[misc]
    blocks.KEPT = int(os.environ.get("KEPT", blocks.KEPT))  # type: ignore[misc]
    cluster._GLANCE = float(os.environ.get("GLANCE", cluster._GLANCE))  # type: ignore[misc]
    cli.app(prog_name="discretion")
