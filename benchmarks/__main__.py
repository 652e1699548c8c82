"""Measure everything side by side with its peer and write results.json; with --only some parts, the rest being kept.

Each run adds a line to history.jsonl. Exits 1 if something has fallen by more than 30 % since, at once or little by
little, or misses its goal, and names it; so does a whole run if it has not measured a row that is stored. Where a row
has got another name, that is said once: what is stored then is what was measured. Rows of the image, which only an
engine for containers can measure, are named each time that they were not, and stay as they were.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    client,
    cluster,
    dashboard,
    deployment,
    goals,
    growth,
    history,
    large,
    learners,
    noise,
    scale,
    service,
)
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
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    kept = merged(stored, rows) if asked.only else completed(stored, rows)
    RESULTS.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    show(rows)
    code = judge(rows, history.read(), [] if asked.only else stored)
    history.append(rows)
    return code


def judge(rows: list[Row], before: list[history.Run], stored: list[Row]) -> int:
    """Says what is wrong with what was measured. What only an engine for containers can measure may be missing."""
    fallen, missed = history.fallen(rows, before), goals.missed(rows)
    absent = missing(stored, rows)
    for word, sentences in (("FELL", fallen), ("MISSED", missed), ("MISSING", map(_sentence, absent))):
        for sentence in sentences:
            print(f"{word} {sentence}")
    return 1 if fallen or missed or len(of_the_image(absent)) < len(absent) else 0


def missing(stored: list[Row], measured: list[Row]) -> list[Row]:
    """Of the rows that are stored, those that a whole run has not measured."""
    known = {history.key(row) for row in measured}
    return [row for row in stored if history.key(row) not in known]


def of_the_image(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["name"] in deployment.OF_THE_IMAGE]


def completed(stored: list[Row], measured: list[Row]) -> list[Row]:
    """A whole run, with what is stored of the image where it could not be started."""
    return [*measured, *of_the_image(missing(stored, measured))]


def _sentence(absent: Row) -> str:
    return f"{absent['name']}, beside {absent['peer']}"


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
