"""What was measured before, one line of history.jsonl a run, and what has fallen since, at once or little by little.

Only ratios to a peer of the same run are kept: they travel between machines, and seconds do not. A row is compared with
the middle one of its last five ratios, so that one busy moment neither hides a fall nor makes one. Every run is kept,
so that middle follows a slow decline. Therefore the middle of the last five, the new one among them, is compared as
well, with the best middle of five that there ever was. Middles with middles: the best of all single runs was a lucky
one, and an unlucky one is far from it (0.27 and 0.52 in two runs of one program). Fewer than five have no such middle.

Who makes a row worse on purpose, or its peer better, adds a line {"anew": {"NAME | PEER": "why"}}: for that row, what
was before it no longer counts.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from benchmarks import goals
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
    found: list[Run] = []
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        for name in line.get("anew", {}):
            for run in found:
                run.pop(name, None)
        found.append(line.get("ratios", {}))
    return found


def append(rows: Iterable[Row], file: Path = FILE) -> None:
    line = {"at": date.today().isoformat(), "ratios": {key(row): row["ratio"] for row in rows}}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def fallen(rows: Iterable[Row], before: Sequence[Run]) -> list[str]:
    """A sentence for each row whose ratio is worse than before by more than 30 %, or has become so in many runs."""
    sentences = (_fall(row, [run[key(row)] for run in before if key(row) in run]) for row in rows)
    return [sentence for sentence in sentences if sentence is not None]


def _fall(row: Row, before: Sequence[float]) -> str | None:
    if goals.has_none(row) or not before:
        return None
    middle = statistics.median(before[-_LAST:])
    if _is_worse(row, row["ratio"], middle):
        return f"{row['name']}: {row['ratio']:g} times {row['peer']}, and {middle:g} before"
    *earlier, now = _middles([*before, row["ratio"]]) or [0.0]
    best = (max if goals.wants_more(row) else min)(earlier, default=now)
    if _is_worse(row, now, best):
        return f"{row['name']}: {now:g} times {row['peer']} in the last {_LAST} runs, and {best:g} in its best {_LAST}"
    return None


def _middles(ratios: Sequence[float]) -> list[float]:
    """Of every five runs in a row."""
    return [statistics.median(ratios[end - _LAST : end]) for end in range(_LAST, len(ratios) + 1)]


def _is_worse(row: Row, ratio: float, than: float) -> bool:
    return bool(ratio < than * (1 - _FALL) if goals.wants_more(row) else ratio > than * (1 + _FALL))
