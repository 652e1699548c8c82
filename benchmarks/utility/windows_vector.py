"""A public simulator of stays that are watched for a fixed window and earn once, by their outcome; states are vectors.

Twelve steps of six hours, three columns, three treatments. Severity and lactate drive each other. Fluid clears lactate,
and drowns those who have little; a drug lowers severity, and in the frail raises lactate. The window ends for everyone
after twelve steps, and then it is known who lives: by chance, the more so the lower severity and lactate are after the
last treatment. That state is not recorded, unless the ending is `CUT_BEFORE`; `ENDED` says that the window's end was
the stay's, as many tables do. In one variant some die before.

It differs from `glucose` and `shock` in that nothing is earned on the way, and in that the last record is the only one
that says anything about the outcome.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.utility import vectors
from discretion.learning import features as maps
from discretion.learning.schemas import FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block

HORIZON: Final = 12
LABELS: Final = ("watch", "fluid", "drug")
VECTOR: Final = Vector(("severity", "lactate", "frailty"), ((0.0, 10.0), (0.0, 10.0), (0.0, 1.0)))
SCHEMA: Final = Schema(HORIZON, VECTOR, len(LABELS), (0.0, 1.0), outcome=True)


def _begun(draw: np.random.Generator, stays: int) -> FloatArray:  # (B, 3)
    severity = draw.uniform(2.0, 8.0, stays)
    lactate = np.clip(0.5 * severity + draw.normal(0.0, 1.5, stays), 0.0, 10.0)
    return np.stack([severity, lactate, draw.beta(2.0, 2.0, stays)], axis=1)


def _moved(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> FloatArray:
    severity, lactate, frailty = states.T
    fluid, drug, size = actions == 1, actions == 2, len(states)
    drowned = fluid * np.maximum(5.0 - lactate, 0.0)
    severity = severity + 0.12 * (lactate - 4.0) + 0.3 - 0.9 * drug + 0.25 * drowned + draw.normal(0.0, 0.6, size)
    lactate = lactate + 0.1 * (states[:, 0] - 5.0) + 0.2 + drug * (1.6 * frailty - 0.4) - 0.8 * fluid
    lactate = lactate + draw.normal(0.0, 0.6, size)
    return np.clip(np.stack([severity, lactate, frailty], axis=1), VECTOR.low, VECTOR.high)


def _step(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> vectors.Moved:
    return _moved(states, actions, draw), np.zeros(len(states)), vectors.never(states)


def _step_with_deaths(states: FloatArray, actions: IntArray, draw: np.random.Generator) -> vectors.Moved:
    following = _moved(states, actions, draw)
    dead = draw.random(len(states)) < 0.15 * np.maximum(following[:, 0] - 7.0, 0.0) / 3.0
    return following, np.zeros(len(states)), dead


def survival(states: FloatArray) -> FloatArray:
    """The chance to live, by the state after the last step."""
    severity, lactate, _ = states.T
    return np.asarray(1.0 / (1.0 + np.exp(0.6 * (severity - 5.0) + 0.5 * (lactate - 4.0))))


def clinician(step: int, states: FloatArray, draw: np.random.Generator) -> IntArray:
    """Gives the drug to the severely ill, blind to frailty and mostly to lactate, and four in ten at random."""
    severity, lactate, _ = states.T
    usual = np.where(severity > 4.5, 2, np.where(lactate > 6.0, 1, 0))
    return np.where(draw.random(len(states)) < 0.4, draw.integers(0, len(LABELS), len(states)), usual)


@dataclass(frozen=True, eq=False)
class Windows(vectors.Simulator):
    """A simulator whose stays earn in their last record alone."""

    ending: int = CUT  # of those who reach the horizon

    def run(self, draw: np.random.Generator, episodes: int, choose: vectors.Choose) -> Block:
        block = super().run(draw, episodes, choose)
        lives = np.random.default_rng(draw.integers(2**62)).random(episodes) < survival(np.asarray(block.final))
        whole = (block.lengths == self.schema.horizon) & (block.endings != ENDED)
        rewards = block.rewards.copy()
        rewards[-1] = np.where(whole & lives, 1.0, 0.0)
        return replace(block, rewards=rewards, endings=np.where(whole, self.ending, block.endings))

    def reference(self, episodes: int, seed: int) -> float:
        """What learning without privacy reaches: outcomes regressed on the state before the last step, and what they
        make each state worth carried back through everybody's steps, with the features that ρ = 1 has there."""
        features = maps.usual(self.vector, self.schema.actions, episodes, vectors.ONE)
        return self.valued(_carried_back(self.sample(episodes, seed), features, self.ridge))


def _carried_back(block: Block, features: maps.Blocks, ridge: float) -> vectors.Choose:
    horizon = len(block.actions)
    psi = np.stack([features.psi(states) / maps.ONE for states in np.asarray(block.states)])  # (H, B, p)
    going = (np.arange(horizon)[:, None] < block.lengths)[..., None] * psi  # 0 after the end
    here, following, actions = going[:-1], going[1:], np.asarray(block.actions, dtype=np.int64)
    small = ridge * np.eye(features.width)

    def fitted(rows: FloatArray, taken: IntArray, target: FloatArray) -> FloatArray:  # (R, p), (R,), (R,) → (A, p)
        chosen = [taken == action for action in range(features.actions)]
        return np.stack([np.linalg.solve(rows[c].T @ rows[c] + small, rows[c].T @ target[c]) for c in chosen])

    weights = [fitted(going[-1], actions[-1], np.asarray(block.rewards[-1]))]
    for _ in range(horizon - 1):
        worth = (following @ weights[-1].T).max(axis=-1)
        weights.append(fitted(here.reshape(-1, features.width), actions[:-1].ravel(), worth.ravel()))
    by_step = weights[::-1]
    return lambda step, states, _: np.asarray((features.psi(states) / maps.ONE @ by_step[step].T).argmax(axis=1))


def _windows(name: str, ending: int, outcome: bool = True, deaths: bool = False) -> Windows:
    step = _step_with_deaths if deaths else _step
    schema = replace(SCHEMA, outcome=outcome)
    return Windows(name, schema, _begun, step, clinician, streams=(31, 32), ridge=1.0, ending=ending)


UNKNOWN: Final = _windows("windows, unknown after", CUT)
ENDING: Final = _windows("windows, ended", ENDED)
KNOWN: Final = _windows("windows, known after", CUT_BEFORE)
MORTAL: Final = _windows("windows, some die before", CUT, deaths=True)
ALL: Final = (UNKNOWN, ENDING, KNOWN, MORTAL)
