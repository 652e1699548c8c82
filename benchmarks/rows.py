"""One measured line: ours, the peer's, and their ratio."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]
_T = TypeVar("_T")


def row(name: str, unit: str, value: float, peer: str, peer_value: float, goal: str) -> Row:
    """`goal` is about value/peer_value unless it names something else."""
    return {
        "name": name,
        "value": float(f"{value:.4g}"),
        "unit": unit,
        "peer": peer,
        "peer_value": float(f"{peer_value:.4g}"),
        "ratio": float(f"{value / peer_value:.3g}"),
        "goal": goal,
    }


def peak_megabytes() -> float:
    """The most memory that this process has had. Not `ru_maxrss`, which a process inherits from the one that started
    it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def in_turns(works: Mapping[str, Callable[[], _T]], rounds: int = 3) -> dict[str, list[_T]]:
    """What each work gives in each round. All take turns in a round, so that a busy moment is nobody's alone."""
    found: dict[str, list[_T]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(work())
    return found


def quickest(works: Mapping[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """Seconds of each work in its best round of those in which all take turns."""
    timed = {name: functools.partial(_seconds, work) for name, work in works.items()}
    return {name: min(seconds) for name, seconds in in_turns(timed, rounds).items()}


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def quickest_and_largest(rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds of the round that nothing else disturbed; megabytes of whichever took most, for a peak is a peak."""
    seconds, megabytes = zip(*rounds, strict=True)
    return min(seconds), max(megabytes)
