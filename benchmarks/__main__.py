"""Measure everything side by side with its peer and write benchmarks/results.json."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import client, deployment, learners, noise, service

RESULTS = Path(__file__).parent / "results.json"


def main() -> None:
    rows = [*noise.measure(), *learners.measure(), *service.measure(), *client.measure(), *deployment.measure()]
    RESULTS.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
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
    main()
