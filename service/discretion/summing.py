"""Where a training's sums are made: in its own process, or on the cluster that the settings name.

Whoever has no such setting never imports Dask.
"""

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from discretion import errors, memory, requests, shares
from discretion.catalogue import Dataset
from discretion.learning import sums
from discretion.learning.curator import Summing
from discretion.requests import Asked
from discretion.settings import Settings

_AT_ONCE: Final = 10.0  # seconds of a process that begins and ends


@contextmanager
def of(found: Settings, dataset: Dataset, asked: Asked) -> Iterator[Summing]:
    if found.cluster is None:
        yield sums.totals
        return
    from discretion import cluster

    need, whole = memory.summing(asked), memory.keeps_blocks(asked)
    with cluster.engine(found, str(dataset.folder), need, whole=whole) as engine:
        yield engine.totals


def settle(found: Settings) -> None:
    """Which versions run here, found out before any is installed over them: whoever is forked later would see those."""
    if found.cluster is not None and importlib.util.find_spec("distributed") is not None:
        shares.versions()


def check(found: Settings, dataset: Dataset | None = None, request: str = "") -> str:
    """Whether the cluster could make the sums, all of a training's or any; before anything is charged."""
    if importlib.util.find_spec("distributed") is None:
        raise errors.InvalidSetting('DISCRETION_CLUSTER needs Dask; install it: pip install "discretion[cluster]"')
    from discretion import cluster

    if dataset is None:
        return cluster.check(found)
    asked = requests.asked(dataset, json.loads(request), ready=False)
    passing = cluster.Passing(memory.scheduling(asked), memory.machine)
    return cluster.check(found, str(dataset.folder), memory.summing(asked), passing)


def patience() -> float:
    """Seconds that a check may take; without Dask it ends at once."""
    if importlib.util.find_spec("distributed") is None:
        return _AT_ONCE
    from discretion import machines

    return _AT_ONCE + machines.CHECK
