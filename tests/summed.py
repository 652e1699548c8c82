"""The product's own commands, slowed down and watched: for races over sums.

    python -m tests.summed work              a worker that writes what its sums came to into FOLDER/sums
    python -m tests.summed cluster work      a machine that takes its time over every block

The environment says how: SUMMED names the folder, SLOWLY the seconds of a block, PAUSE those after a sum.
What is wrapped here is how the rooms call each other; nothing of what they do is replaced.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from discretion import cli
from discretion import worker as workers
from discretion.learning.curator import Curator
from discretion.learning.trajectories import Bounded, Trajectories


def _log(line: str) -> None:
    descriptor = os.open(Path(os.environ["SUMMED"]) / "sums", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def _watched(inner: Callable[..., Any]) -> Callable[..., Any]:
    def outer(curator: Curator, queries: Any) -> Any:
        number = len(curator.log)
        _log(f"{number} begins")
        made = inner(curator, queries)
        _log(f"{number} {hashlib.sha256(b''.join(each.tobytes() for each in made)).hexdigest()}")
        time.sleep(float(os.environ.get("PAUSE", 0)))
        return made

    return outer


def _slow(inner: Callable[[Trajectories], Iterator[Bounded]]) -> Callable[[Trajectories], Iterator[Bounded]]:
    def outer(trajectories: Trajectories) -> Iterator[Bounded]:
        for block in inner(trajectories):
            time.sleep(float(os.environ.get("SLOWLY", 0)))
            yield block

    return outer


if __name__ == "__main__":
    setattr(Curator, "_totals", _watched(Curator._totals))  # noqa: B010
    setattr(Trajectories, "bounded", _slow(Trajectories.bounded))  # noqa: B010
    workers._UNFIT = 1.0  # type: ignore[misc]
    cli.app(prog_name="discretion")
