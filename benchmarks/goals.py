"""What a row is to come to, as its goal says: `<= 3`, `ratio ≥ 0.5`, `value < 600`, or `none: …`.

A goal without a word is about the ratio. One that cannot be read is a mistake and not a goal that is met.
"""

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from benchmarks.rows import Row

_FORM: Final = re.compile(r"(?:(ratio|value) )?(<=|≤|<|>=|≥|>) (\d+(?:\.\d+)?)")
_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<=": operator.le,
    "≤": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    "≥": operator.ge,
    ">": operator.gt,
}


def has_none(row: Row) -> bool:
    return str(row["goal"]).startswith("none: ")


def wants_more(row: Row) -> bool:
    """Whether more is better."""
    return _read(row)[2] in (">=", "≥", ">")


def missed(rows: Iterable[Row]) -> list[str]:
    """A sentence for each row that is not what it is to be."""
    return [_sentence(row) for row in rows if not has_none(row) and not _is_met(row)]


def _is_met(row: Row) -> bool:
    what, goal, sign = _read(row)
    return _SIGNS[sign](row[what], goal)


def _sentence(row: Row) -> str:
    what, _, _ = _read(row)
    found = f"{row['value']:g} {row['unit']}" if what == "value" else f"{row['ratio']:g} times {row['peer']}"
    return f"{row['name']}: {found}, and its goal is {row['goal']}"


def _read(row: Row) -> tuple[str, float, str]:
    found = _FORM.fullmatch(row["goal"])
    if found is None:
        raise ValueError(f"{row['name']}: nobody can judge the goal {row['goal']!r}")
    return found[1] or "ratio", float(found[3]), found[2]
