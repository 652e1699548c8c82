"""Refusals of public constants, in one sentence each."""

import math

from discretion import errors
from discretion.learning.trajectories import is_finite


def number(value: object, name: str, *, low: float, high: float = math.inf, strictly: bool = False) -> None:
    """Refuse what is not a finite number from low to high (strictly: between them)."""
    if is_finite(value) and (low < value < high if strictly else low <= value <= high):  # type: ignore[operator]
        return
    between = f"{'strictly ' if strictly else ''}between {low:g} and {high:g}"
    wanted = between if math.isfinite(high) else f"{'above' if strictly else 'at least'} {low:g}"
    raise errors.InvalidParameter(f"{name} must be a finite number {wanted}, not {value!r}.")


def choice(value: object, name: str, *allowed: str) -> None:
    if value not in allowed:
        raise errors.InvalidParameter(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}.")


def shares(value: tuple[int, ...], *names: str) -> None:
    """Refuse relative shares that are not positive whole numbers, one for each name."""
    whole = all(isinstance(share, int) and not isinstance(share, bool) and 0 < share <= 10**6 for share in value)
    if len(value) != len(names) or not whole:
        raise errors.InvalidParameter(f"The shares must be positive whole numbers, one each for {', '.join(names)}.")
