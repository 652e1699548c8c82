"""One measured line: ours, the peer's, and their ratio."""

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
