"""The tables of a tabular policy's document, which may have millions of cells: written and checked by whole rows."""

import json
from typing import Any, Final

import numpy as np
import rfc8785

from discretion.learning.schemas import BoolArray, FloatArray, IntArray

LEARNED: Final = "learned"
FALLBACK: Final = "fallback"

NAMES: Final = ("decisions", "source", "pessimistic_score")
_TEXTS: Final[set[type]] = {str}
_NUMBERS: Final[set[type]] = {int, float}


def document(decisions: IntArray, learned: BoolArray, scores: FloatArray) -> dict[str, Any]:
    source = np.where(learned, LEARNED, FALLBACK)
    return dict(zip(NAMES, (decisions.tolist(), source.tolist(), scores.tolist()), strict=True))


def written(tables: dict[str, Any]) -> dict[str, bytes]:
    """In canonical JSON (RFC 8785), which the standard library writes of whole numbers and plain texts; scores are
    written once for each value that there is."""
    decisions, source, scores = (tables[name] for name in NAMES)
    known = {score: rfc8785.dumps(score).decode() for score in {score for row in scores for score in row}}
    rows = ",".join(f"[{','.join([known[score] for score in row])}]" for row in scores)
    plain = (json.dumps(table, separators=(",", ":")).encode() for table in (decisions, source))
    return dict(zip(NAMES, (*plain, f"[{rows}]".encode()), strict=True))


def is_plain(name: str, table: list[list[Any]]) -> bool:
    """Whether numbers were written as numbers and texts as texts: `true` and "1" would be read as 1, too."""
    kinds = _TEXTS if name == "source" else _NUMBERS
    return all(set(map(type, row)) <= kinds for row in table)
