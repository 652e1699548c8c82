"""Patients with vector states, tame or wild, and how far replacing one moved a sum."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion.learning import features as maps
from discretion.learning.schemas import Schema, Vector
from discretion.learning.terms import Hinge, Missing, Product
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Block, Trajectories

HORIZON, ACTIONS = 5, 2
VECTOR = Vector(("a", "b"), ((-1.0, 3.0), (0.0, 10.0)), missing=("b",))
PLAIN = maps.Blocks(VECTOR, ACTIONS, ("1", "a", "b"))
RICH = maps.Blocks(
    VECTOR, ACTIONS, ("1", "a", Hinge("b", 2.5, "above"), Product(("a", Hinge("b", 5.0, "below"))), Missing("b"))
)
MAPS = pytest.mark.parametrize("features", [PLAIN, RICH], ids=["plain", "rich"])
PER_UNIT = pytest.mark.parametrize("per_unit", [1, 3])
Unit = dict[str, Any]


def schema_of(per_unit: int = 1, **fields: Any) -> Schema:
    return Schema(HORIZON, VECTOR, ACTIONS, reward=(-1.0, 2.0), per_unit=per_unit, **fields)


def dataset(schema: Schema, units: Sequence[Unit], positions: Any = None) -> Trajectories:
    size = [unit["actions"].shape[1] for unit in units]
    positions = np.repeat(np.arange(len(units)) if positions is None else positions, size)
    steps: dict[str, Any] = {
        k: np.concatenate([unit[k] for unit in units], axis=1) for k in ("states", "actions", "rewards")
    }
    rest: dict[str, Any] = {k: np.concatenate([unit[k] for unit in units]) for k in ("lengths", "endings", "final")}
    return Trajectories(schema, len(units), [Block(units=positions, **steps, **rest)])


WILD = [np.nan, np.inf, -np.inf, -1.0, 0.0, 3.0, 10.0, 1e300]


def wild(rng: np.random.Generator, per_unit: int, tame: bool = False) -> Unit:
    count = int(rng.integers(0, per_unit + 2)) if not tame else per_unit
    shape = (HORIZON, count)

    def states(*size: int) -> Any:
        inside = rng.uniform(VECTOR.low, VECTOR.high, (*size, 2))
        return inside if tame else np.where(rng.random(inside.shape) < 0.3, rng.choice(WILD, inside.shape), inside)

    return {
        "states": states(*shape),
        "actions": rng.integers(0 if tame else -1, ACTIONS + (not tame), shape),
        "rewards": np.where(rng.random(shape) < 0.3, rng.choice(WILD, shape), rng.choice([-1.0, 2.0], (1, count))),
        "lengths": np.full(count, HORIZON) if tame else rng.integers(-1, HORIZON + 3, count),
        "endings": np.full(count, CUT_BEFORE) if tame else rng.integers(ENDED, 4, count),
        "final": states(count),
    }


def steady(
    state: tuple[float, float],
    action: int,
    reward: float,
    copies: int = 1,
    ending: int = CUT_BEFORE,
    final: tuple[float, float] | None = None,
    length: int = HORIZON,
) -> Unit:
    """The same record at every step of every trajectory."""
    return {
        "states": np.tile(np.array(state), (HORIZON, copies, 1)),
        "actions": np.full((HORIZON, copies), action),
        "rewards": np.full((HORIZON, copies), reward),
        "lengths": np.full(copies, length),
        "endings": np.full(copies, ending),
        "final": np.tile(np.array(final or state), (copies, 1)),
    }


def moved(statistic: Any, before: Any, after: Any) -> Fraction:
    """The squared movement as a part of what is stated, exactly."""
    change = [int(x) for x in (after.astype(object) - before.astype(object)).ravel()]
    return Fraction(sum(x * x for x in change)) * statistic.resolution**2 / statistic.squared_sensitivity
