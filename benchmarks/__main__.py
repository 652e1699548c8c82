"""Measure everything side by side with its peer and write results.json; with --only some parts, the rest being kept.

Each run adds a line to history.jsonl. Exits 1 if something has fallen by more than 30 % since, and names it.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import client, cluster, dashboard, deployment, growth, history, large, learners, noise, scale, service
from benchmarks.rows import Row

RESULTS = Path(__file__).parent / "results.json"
PARTS: dict[str, Callable[[], Iterable[Row]]] = {
    "noise": noise.measure,
    "learners": learners.measure,
    "scale": scale.measure,
    "growth": growth.measure,
    "service": service.measure,
    "client": client.measure,
    "dashboard": dashboard.measure,
    "large": large.measure,
    "cluster": cluster.measure,
    "deployment": deployment.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts to measure; what is stored of others stays")
    asked = parser.parse_args()
    rows = [row for part in asked.only or PARTS for row in PARTS[part]()]
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if asked.only and RESULTS.exists() else []
    RESULTS.write_text(json.dumps(merged(stored, rows), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    show(rows)
    fallen = history.fallen(rows, history.read())
    history.append(rows)
    for sentence in fallen:
        print(f"FELL {sentence}")
    return 1 if fallen else 0


def merged(stored: list[Row], measured: list[Row]) -> list[Row]:
    """What was measured in the place of what was stored under the same name; what is new comes last."""
    new = {history.key(row): row for row in measured}
    kept = [new.pop(history.key(row), row) for row in stored]
    return [*kept, *new.values()]


def show(rows: list[Row]) -> None:
    table = Table("name", "value", "peer", "peer value", "ratio", "goal")
    for row in rows:
        unit = row["unit"]
        table.add_row(
            row["name"],
            f"{row['value']:.4g} {unit}",
            row["peer"],
            f"{row['peer_value']:.4g} {unit}",
            f"{row['ratio']:.3g}",
            row["goal"],
        )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
