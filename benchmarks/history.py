"""What was measured before, one line of history.jsonl a run, and what has fallen since.

Only ratios to a peer of the same run are kept: they travel between machines, and seconds do not. A row is compared with
the middle one of its last few ratios, so that one busy moment neither hides a fall nor makes one.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from benchmarks.rows import Row

FILE: Final = Path(__file__).parent / "history.jsonl"
_LAST: Final = 5
_FALL: Final = 0.3

Run = dict[str, float]


def key(row: Row) -> str:
    return f"{row['name']} | {row['peer']}"


def read(file: Path = FILE) -> list[Run]:
    if not file.exists():
        return []
    return [json.loads(line)["ratios"] for line in file.read_text(encoding="utf-8").splitlines()]


def append(rows: Iterable[Row], file: Path = FILE) -> None:
    line = {"at": date.today().isoformat(), "ratios": {key(row): row["ratio"] for row in rows}}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def fallen(rows: Iterable[Row], before: Sequence[Run]) -> list[str]:
    """A sentence for each row whose ratio is worse than before by more than 30 %."""
    return [
        f"{row['name']}: {row['ratio']:g} times {row['peer']}, and {middle:g} before"
        for row in rows
        for middle in _middle(key(row), before)
        if _worse(row, middle)
    ]


def _middle(name: str, before: Sequence[Run]) -> list[float]:
    known = [run[name] for run in before if name in run][-_LAST:]
    return [statistics.median(known)] if known else []


def _worse(row: Row, middle: float) -> bool:
    if str(row["goal"]).startswith("none"):
        return False
    if any(sign in row["goal"] for sign in ("≥", ">")):
        return bool(row["ratio"] < middle * (1 - _FALL))
    return bool(row["ratio"] > middle * (1 + _FALL))
