"""Refusals of public constants, in one sentence each."""

from discretion import errors
from discretion.learning.schemas import is_finite

LARGEST = 1e9  # of a constant: beyond it only overflow is to be had


def number(value: object, name: str, *, low: float, high: float = LARGEST, strictly: bool = False) -> None:
    """Refuse what is not a number from low to high (strictly: between them)."""
    if is_finite(value) and (low < value < high if strictly else low <= value <= high):  # type: ignore[operator]
        return
    strict = "strictly " if strictly else ""
    raise errors.InvalidParameter(f"{name} must be a number {strict}between {low:g} and {high:g}, not {value!r}.")


def choice(value: object, name: str, *allowed: str) -> None:
    if value not in allowed:
        raise errors.InvalidParameter(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}.")


def whole(value: object, name: str, *, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise errors.InvalidParameter(f"{name} must be a whole number from {low} to {high}, not {value!r}.")


def shares(value: object, *names: str) -> None:
    """Refuse relative shares that are not positive whole numbers, one for each name."""
    numbers = value if isinstance(value, tuple) else ()
    valid = all(isinstance(share, int) and not isinstance(share, bool) and 0 < share <= 10**6 for share in numbers)
    if len(numbers) != len(names) or not valid:
        raise errors.InvalidParameter(f"The shares must be positive whole numbers, one each for {', '.join(names)}.")
