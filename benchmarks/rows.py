"""One measured line: ours, the peer's, and their ratio."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


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


def quickest_and_largest(rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds of the round that nothing else disturbed; megabytes of whichever took most, for a peak is a peak."""
    seconds, megabytes = zip(*rounds, strict=True)
    return min(seconds), max(megabytes)
