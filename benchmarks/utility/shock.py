"""A public simulator of septic shock whose states are vectors: seven vital signs, six treatments, twenty steps.

A step is four hours. Infection widens the vessels, pressure falls, and organs that get too little blood give off
lactate. A bolus of fluid raises pressure in the dry patient and drowns the lungs of the wet one; a vasopressor raises
it in everybody, and starves the organs of the dry one. A stay ends in death, which pays −1, or in discharge, +1; what
is still going on after twenty steps is cut, and pays nothing. Lactate is measured two times in three.

It differs from `glucose` in all that a learner might have been fitted to: rewards come once and of either sign, stays
are ragged, a column may be missing, and a treatment is two decisions in one.
"""

from typing import Final

import numpy as np

from benchmarks.utility import vectors
from discretion.learning.schemas import FloatArray, IntArray, Schema, Vector

HORIZON: Final = 20
LABELS: Final = ("nothing", "low pressor", "high pressor", "bolus", "bolus, low pressor", "bolus, high pressor")
VECTOR: Final = Vector(
    ("pressure", "pulse", "lactate", "urine", "fluid", "infection", "saturation"),
    ((30.0, 120.0), (40.0, 180.0), (0.0, 15.0), (0.0, 2.0), (0.0, 10.0), (0.0, 1.0), (70.0, 100.0)),
    missing=("lactate",),
)
SCHEMA: Final = Schema(HORIZON, VECTOR, len(LABELS), (-1.0, 1.0), total=(-1.0, 1.0))


def _begun(draw: np.random.Generator, stays: int) -> FloatArray:  # (B, 7)
    infection = draw.uniform(0.3, 1.0, stays)
    pressure = 85.0 - 40.0 * infection + draw.normal(0.0, 8.0, stays)
    columns = [
        pressure,
        80.0 + 40.0 * infection + draw.normal(0.0, 10.0, stays),
        1.0 + 0.15 * np.maximum(70.0 - pressure, 0.0) + draw.exponential(0.7, stays),
        draw.uniform(0.2, 1.0, stays),
        draw.uniform(0.0, 4.0, stays),
        infection,
        97.0 - 6.0 * infection + draw.normal(0.0, 1.5, stays),
    ]
    return np.clip(np.stack(columns, axis=1), VECTOR.low, VECTOR.high)


def _moved(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> FloatArray:
    pressure, pulse, lactate, urine, fluid, infection, saturation = states.T
    pressor, bolus, size = np.array([0.0, 12.0, 24.0])[actions % 3], actions >= 3, len(states)
    infection = infection * np.exp(draw.normal(-0.12, 0.1, size))
    infection = infection + (draw.random(size) < 0.04) * draw.uniform(0.1, 0.3, size)
    dry = np.maximum(2.5 - fluid, 0.0)
    fluid = fluid + 0.75 * bolus - 0.25 * urine
    target = 90.0 - 48.0 * infection - 5.0 * dry + pressor + 4.0 * bolus
    pressure = pressure + 0.6 * (target - pressure) + draw.normal(0.0, 4.0, size)
    short = np.maximum(66.0 - pressure, 0.0)
    pulse = pulse + 0.5 * (75.0 + 40.0 * infection + 6.0 * dry + 0.4 * pressor - pulse) + draw.normal(0.0, 5.0, size)
    owed = 1.0 + 0.25 * short + 0.05 * pressor * (0.3 + dry)
    lactate = lactate + 0.5 * (owed - lactate) + draw.normal(0.0, 0.3, size)
    urine = urine + 0.5 * (np.clip((pressure - 45.0) / 25.0, 0.0, 1.2) - urine) + draw.normal(0.0, 0.08, size)
    saturation = saturation + 0.5 * (98.0 - 3.0 * np.maximum(fluid - 3.5, 0.0) - 6.0 * infection - saturation)
    saturation = saturation + draw.normal(0.0, 0.8, size)
    following = np.stack([pressure, pulse, lactate, urine, fluid, infection, saturation], axis=1)
    return np.clip(following, VECTOR.low, VECTOR.high)


def _step(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> vectors.Moved:
    following = _moved(states, actions, draw)
    pressure, _, lactate, _, _, infection, saturation = following.T
    danger = 0.7 * np.maximum(lactate - 2.0, 0.0) + 0.12 * np.maximum(58.0 - pressure, 0.0)
    danger = danger + 0.5 * np.maximum(91.0 - saturation, 0.0)
    chance = draw.random(len(states))
    dead = chance < 1.0 / (1.0 + np.exp(4.2 - danger))
    well = (infection < 0.35) & (pressure > 65.0) & (lactate < 2.5) & (saturation > 92.0) & (actions % 3 == 0)
    home = ~dead & well & (chance > 0.75)
    return following, home.astype(np.float64) - dead, dead | home


def clinician(step: int, states: FloatArray, draw: np.random.Generator) -> IntArray:
    """Treats pressure and pulse as the book says, blind to fluid that is already there, and three in ten at random."""
    pressure, pulse, *_ = states.T
    pressor = (pressure < 66.0).astype(np.int64) + (pressure < 56.0)
    bolus = (pressure < 72.0) & (pulse > 92.0)
    by_book = pressor + 3 * bolus
    return np.where(draw.random(len(states)) < 0.3, draw.integers(0, len(LABELS), len(states)), by_book)


def _recorded(states: FloatArray, draw: np.random.Generator) -> FloatArray:
    found = states.copy()
    found[draw.random(len(states)) < 1 / 3, VECTOR.columns.index("lactate")] = np.nan
    return found


SIMULATOR: Final = vectors.Simulator(
    "shock", SCHEMA, _begun, _step, clinician, streams=(21, 22), seen=_recorded, discount=0.95, ridge=0.3
)
