"""JSON objects read key by key, strictly: the voice in which every bad document is refused.

A key nobody knows is refused by name (a field `seed` must never look as if it did something), nothing is converted
from one type to another, and refusals do not repeat what was sent, which may be a megabyte long.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from discretion import errors
from discretion.learning.schemas import FloatArray, is_finite

Document = dict[str, Any]

_LONGEST: Final = 200  # characters of a name
_DIGITS: Final = 10**15  # whole numbers that every JSON reader keeps exactly


@dataclass(frozen=True)
class Object:
    """One JSON object of a request, read key by key."""

    values: Document
    refusal: type[errors.Refusal]
    prefix: str = ""

    def refuse(self, key: str, needed: str) -> errors.Refusal:
        return self.refusal(f"{self.prefix}{key} must be {needed}.")

    def has(self, key: str) -> bool:
        """Whether the key says something; null stands for the default."""
        return self.values.get(key) is not None

    def inner(self, key: str, required: Iterable[str], optional: Iterable[str] = ()) -> "Object":
        return open_object(self.values[key], self.refusal, required, optional, f"{self.prefix}{key}")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if not is_finite(value):
            raise self.refuse(key, "a finite number")
        return float(value)  # type: ignore[arg-type]

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if type(value) is not int or abs(value) >= _DIGITS:
            raise self.refuse(key, "a whole number of at most 15 digits")
        return value

    def choice(self, key: str, default: str | None, *allowed: str) -> Any:
        value = self.values.get(key, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.refuse(key, " or ".join(f'"{name}"' for name in allowed))
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values[key]
        if not isinstance(value, list) or not all(map(_is_name, value)):
            raise self.refuse(key, f"a list of texts of 1 to {_LONGEST} characters")
        return tuple(value)

    def array(self, key: str, *depths: int) -> FloatArray:
        """Numbers in nested lists of equal lengths, as deep as one of `depths`."""
        shape: list[int] = []
        level = [self.values[key]]
        while len(shape) < max(depths) and all(isinstance(item, list) for item in level):
            lengths = {len(item) for item in level}
            if len(lengths) != 1 or lengths == {0}:
                raise self.refuse(key, "a table whose rows are equally long and not empty")
            shape.append(lengths.pop())
            level = [number for item in level for number in item]
        if len(shape) not in depths or not all(map(is_finite, level)):
            deep = "a list" if depths == (1,) else f"lists, {' or '.join(map(str, depths))} deep"
            raise self.refuse(key, f"finite numbers without quotes in {deep}")
        return np.array(level, dtype=np.float64).reshape(shape)

    def interval(self, key: str) -> tuple[float, float]:
        bounds = self.inner(key, ("low", "high"))
        return bounds.number("low"), bounds.number("high")


def _is_name(value: object) -> bool:
    """Half a surrogate pair has no UTF-8, and so no canonical bytes."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def open_object(
    value: object,
    refusal: type[errors.Refusal],
    required: Iterable[str],
    optional: Iterable[str] = (),
    name: str = "",
) -> Object:
    where = name or "The request"
    required, known = tuple(required), {*required, *optional}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise refusal(f"{where} must be a JSON object.")
    for key in value:
        if key not in known:
            raise refusal(f"{where} has no key {key[:40]!r}; use {', '.join(sorted(known)[:20])}.")
    for key in required:
        if key not in value:
            raise refusal(f"{where} needs the key {key!r}.")
    return Object(value, refusal, f"{name}." if name else "")
