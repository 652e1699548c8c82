"""A public simulator of insulin dosing whose states are vectors: six bounded variables, five doses, eight hours.

A step is half an hour. Insulin acts over hours and by a sensitivity that differs between patients, meals come by the
time of day, and activity doubles what insulin does. A step pays by the blood glucose that it leads to: 1 near
normal, falling with Kovatchev's risk, which rises steeply towards hypoglycaemia. Risk is far from linear in the state,
and what a dose is worth depends on products of it, so that features (1, x) alone do poorly.

Nothing ends early and nothing is missing here; in `shock` both happen.
"""

from typing import Final

import numpy as np

from benchmarks.utility import vectors
from discretion.learning.schemas import FloatArray, IntArray, Schema, Vector

HORIZON: Final = 16
DOSES: Final = (0.0, 1.0, 2.0, 4.0, 7.0)  # units of insulin
LABELS: Final = ("none", "1 U", "2 U", "4 U", "7 U")
VECTOR: Final = Vector(
    ("glucose", "insulin", "carbohydrates", "activity", "hour", "sensitivity"),
    ((40.0, 400.0), (0.0, 12.0), (0.0, 120.0), (0.0, 1.0), (0.0, 24.0), (0.4, 2.0)),
)
SCHEMA: Final = Schema(HORIZON, VECTOR, len(DOSES), (0.0, 1.0))


def risk(glucose: FloatArray) -> FloatArray:
    """Kovatchev's risk of a blood glucose in mg/dl: 0 at 112, 20 at 54 and at 300 or so."""
    return np.asarray(10.0 * (1.509 * (np.log(glucose) ** 1.084 - 5.381)) ** 2)


def _begun(draw: np.random.Generator, episodes: int) -> FloatArray:  # (B, 6)
    return np.stack(
        [
            draw.uniform(70.0, 320.0, episodes),
            draw.uniform(0.0, 3.0, episodes),
            draw.uniform(0.0, 40.0, episodes),
            draw.beta(1.0, 4.0, episodes),
            draw.uniform(0.0, 24.0, episodes),
            np.clip(np.exp(draw.normal(0.0, 0.4, episodes)), 0.4, 2.0),
        ],
        axis=1,
    )


def _moved(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> FloatArray:
    glucose, insulin, carbohydrates, activity, hour, sensitivity = states.T
    size = len(states)
    insulin = insulin + np.array(DOSES)[actions]
    acting, absorbed = 0.35 * insulin, 0.4 * carbohydrates
    dawn = 6.0 * np.exp(-0.5 * ((hour - 6.0) / 2.0) ** 2)
    fall = 26.0 * sensitivity * acting * (1.0 + activity)
    # Low glucose calls up the body's own reserves, high glucose is lost through the kidneys.
    glucose = glucose + 2.6 * absorbed + 5.0 + dawn - fall + 0.5 * np.maximum(80.0 - glucose, 0.0)
    glucose = glucose - 0.08 * np.maximum(glucose - 200.0, 0.0) + draw.normal(0.0, 9.0, size)
    mealtime = sum(np.exp(-0.5 * ((hour - at) / 0.7) ** 2) for at in (7.5, 12.5, 19.0))
    meal = (draw.random(size) < 0.05 + 0.6 * mealtime) * draw.uniform(15.0, 60.0, size)
    active = np.clip(0.7 * activity + (draw.random(size) < 0.12) * draw.uniform(0.2, 0.8, size), 0.0, 1.0)
    drift = sensitivity * np.exp(draw.normal(0.0, 0.03, size))
    following = np.stack(
        [glucose, insulin - acting, carbohydrates - absorbed + meal, active, (hour + 0.5) % 24.0, drift], axis=1
    )
    return np.clip(following, VECTOR.low, VECTOR.high)


def _paid(following: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(1.0 - risk(following[:, 0]) / 25.0, 0.0))


def clinician(step: int, states: FloatArray, draw: np.random.Generator) -> IntArray:
    """Doses by glucose and meal as for an average patient, blind to sensitivity and activity, and a third at random."""
    glucose, insulin, carbohydrates, *_ = states.T
    needed = (glucose - 120.0) / 35.0 + carbohydrates / 14.0 - 0.7 * insulin
    dose = np.abs(needed[:, None] - np.array(DOSES)).argmin(axis=1)
    return np.where(draw.random(len(states)) < 0.35, draw.integers(0, len(DOSES), len(states)), dose)


def _step(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> vectors.Moved:
    following = _moved(states, actions, draw)
    return following, _paid(following), vectors.never(states)


SIMULATOR: Final = vectors.Simulator("glucose", SCHEMA, _begun, _step, clinician, streams=(11, 12))
