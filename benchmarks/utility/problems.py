"""Public problems with discrete states whose policies can be valued exactly.

Everything here is simulated with public seeds; no problem was made to suit a learner. Each pays on arrival at a state,
ends on arrival at a terminal one, and is the same at every step. One pays otherwise: by an outcome, once, where the
horizon finds a stay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discretion.learning.schemas import BoolArray, Discrete, FloatArray, IntArray, Schema
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Trajectories, block_of

_PROBLEM, _DATA = 1, 2  # streams of their own


@dataclass(frozen=True, eq=False)
class Problem:
    name: str
    horizon: int
    kernel: FloatArray  # (S, A, S)
    arrival: FloatArray  # (S,) what reaching a state pays
    terminal: BoolArray  # (S,)
    first: FloatArray  # (S,) where a trajectory begins
    behaviour: FloatArray  # (S, A) who made the data
    number: int  # of this problem among the seeds
    outcome: FloatArray | None = None  # (S,) the chance of earning 1 by the state behind the last step
    cut: int = CUT_BEFORE  # what the data says of stays that reach the horizon

    @property
    def schema(self) -> Schema:
        states, actions = self.behaviour.shape
        high, once = (float(self.arrival.max()), False) if self.outcome is None else (1.0, True)
        return Schema(self.horizon, Discrete(states), actions, (0.0, high), total=(0.0, 1.0), outcome=once)

    @property
    def settled(self) -> FloatArray:  # (S,)
        """What the state behind the last step is worth."""
        return np.zeros(len(self.first)) if self.outcome is None else self.outcome

    @cached_property
    def _cumulative(self) -> FloatArray:
        return self.kernel.cumsum(axis=2)

    def sample(self, episodes: int, seed: int) -> Block:
        """What the behaviour does in that many episodes."""
        draw = np.random.default_rng([_DATA, self.number, seed])
        states = np.zeros((self.horizon + 1, episodes), dtype=np.int64)
        actions = np.zeros((self.horizon, episodes), dtype=np.int64)
        rewards = np.zeros((self.horizon, episodes))
        lengths = np.zeros(episodes, dtype=np.int64)
        states[0] = draw.choice(len(self.first), size=episodes, p=self.first)
        going = np.arange(episodes)
        chances = self.behaviour.cumsum(axis=1)
        for step in range(self.horizon):
            here = states[step, going]
            action = _drawn(chances[here], draw)
            following = _drawn(self._cumulative[here, action], draw)
            actions[step, going], states[step + 1, going] = action, following
            rewards[step, going] = self.arrival[following]
            lengths[going] = step + 1
            going = going[~self.terminal[following]]
        last = states[lengths, np.arange(episodes)]
        if self.outcome is not None:
            rewards[-1, going] = draw.random(len(going)) < self.outcome[last[going]]
        endings = np.where(self.terminal[last], ENDED, self.cut)
        return block_of(states[:-1], actions, rewards, lengths=lengths, endings=endings, final=last)

    def data(self, episodes: int, seed: int) -> Trajectories:
        return Trajectories(self.schema, episodes, [self.sample(episodes, seed)])

    @cached_property
    def _expected(self) -> FloatArray:  # (S, A)
        return self.kernel @ self.arrival

    def _value(self, choose: Callable[[int, FloatArray], FloatArray]) -> float:
        following = self.settled
        for step in reversed(range(self.horizon)):
            following = choose(step, self._expected + self.kernel @ following)
            following = np.where(self.terminal, 0.0, following)
        return float(self.first @ following)

    def value(self, decisions: IntArray) -> float:  # (H, S) or (S,)
        """What a policy is worth, exactly."""
        table = np.broadcast_to(decisions, (self.horizon, len(self.first)))
        return self._value(lambda step, q: q[np.arange(len(q)), table[step]])

    @cached_property
    def best(self) -> float:
        return self._value(lambda _, q: q.max(axis=1))

    @cached_property
    def copied(self) -> float:
        """What the behaviour itself is worth."""
        return self._value(lambda _, q: (q * self.behaviour).sum(axis=1))

    @cached_property
    def uniform(self) -> float:
        """What choosing at random is worth."""
        return self._value(lambda _, q: q.mean(axis=1))

    def share(self, value: float) -> float:
        """Of what could be gained over the behaviour."""
        return (value - self.copied) / (self.best - self.copied)


def _drawn(cumulative: FloatArray, draw: np.random.Generator) -> NDArray[np.int64]:
    return (cumulative < draw.random((len(cumulative), 1))).sum(axis=1).clip(max=cumulative.shape[1] - 1)


def icu_sepsis() -> Problem:
    """The ICU-Sepsis benchmark (Choudhary et al. 2024), built from MIMIC-III: 716 states, 25 doses, survival pays 1."""
    package = find_spec("icu_sepsis")  # not imported: that would import gym, which warns
    assert package is not None
    assert package.origin is not None
    with np.load(Path(package.origin).parent / "envs/assets/dynamics.npz") as stored:
        kernel, first, behaviour = stored["tx_mat"], stored["d_0"], stored["expert_policy"].copy()
    behaviour[behaviour.sum(axis=1) == 0] = 1.0  # of the terminal states, where nobody decides
    arrival, terminal = np.zeros(len(first)), np.zeros(len(first), dtype=bool)
    arrival[714], terminal[713:] = 1.0, True
    behaviour = behaviour / behaviour.sum(axis=1, keepdims=True)
    return Problem("icu-sepsis", 20, kernel, arrival, terminal, first, behaviour, 1)


def random_mdp(instance: int = 0) -> Problem:
    """100 states, 6 actions, 5 successors each; a fifth of the states pays up to 1/H on arrival."""
    states, actions, horizon, successors = 100, 6, 20, 5
    draw = np.random.default_rng([_PROBLEM, 2, instance])
    kernel = np.zeros((states, actions, states))
    for state, action in np.ndindex(states, actions):
        reached = draw.choice(states, size=successors, replace=False)
        kernel[state, action, reached] = draw.dirichlet(np.ones(successors))
    arrival = np.zeros(states)
    paying = draw.choice(states, size=states // 5, replace=False)
    arrival[paying] = draw.random(len(paying)) / horizon
    behaviour = draw.dirichlet(np.ones(actions), size=states)
    first, terminal = np.full(states, 1 / states), np.zeros(states, dtype=bool)
    return Problem("random", horizon, kernel, arrival, terminal, first, behaviour, 1000 + instance)


_SIDE: Final = 10
_MOVES: Final = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left


def grid(instance: int = 0) -> Problem:
    """10 × 10 fields from anywhere to the last corner, which pays 1, in 40 steps; 12 holes end it, a fifth of the moves
    slips anywhere. From the first corner the behaviour would arrive once in 3000 times, and nobody could learn."""
    fields, horizon, slip = _SIDE * _SIDE, 40, 0.2
    draw = np.random.default_rng([_PROBLEM, 3, instance])
    steps = np.array([[_moved(field, move) for move in _MOVES] for field in range(fields)])
    while True:
        holes = draw.choice(np.arange(1, fields - 1), size=round(0.12 * fields), replace=False)
        if _reachable(steps, set(holes.tolist())):
            break
    kernel = np.zeros((fields, 4, fields))
    for field, action, slipped in np.ndindex(fields, 4, 4):
        kernel[field, action, steps[field, slipped]] += slip / 4 + (1 - slip) * (action == slipped)
    arrival, terminal, first = np.zeros(fields), np.zeros(fields, dtype=bool), np.zeros(fields)
    terminal[holes] = terminal[fields - 1] = True
    arrival[fields - 1] = 1.0
    first[~terminal] = 1 / (~terminal).sum()
    behaviour = np.tile((0.2, 0.3, 0.3, 0.2), (fields, 1))
    return Problem("grid", horizon, kernel, arrival, terminal, first, behaviour, 2000 + instance)


def _moved(field: int, move: tuple[int, int]) -> int:
    row, column = divmod(field, _SIDE)
    return min(max(row + move[0], 0), _SIDE - 1) * _SIDE + min(max(column + move[1], 0), _SIDE - 1)


def _reachable(steps: IntArray, holes: set[int]) -> bool:
    seen, waiting = {0}, [0]
    while waiting:
        for field in map(int, steps[waiting.pop()]):
            if field not in seen | holes:
                seen.add(field)
                waiting.append(field)
    return len(steps) - 1 in seen


def windows(instance: int = 0, cut: int = CUT) -> Problem:
    """Stays that are watched for 12 steps and then counted as survived or not: 4 severities, 4 laboratory findings,
    4 treatments, of which one helps in each state. What follows the last step is not recorded."""
    levels, findings, actions, horizon = 4, 4, 4, 12
    states = levels * findings
    draw = np.random.default_rng([_PROBLEM, 4, instance])
    helps = draw.integers(0, actions, states)
    kernel = np.zeros((states, actions, levels, findings))
    for state, action in np.ndindex(states, actions):
        level, finding = divmod(state, findings)
        better, worse = (0.5, 0.2) if action == helps[state] else (0.25, 0.35)
        found = np.where(np.arange(findings) == finding, 0.55, 0.15)
        for move, chance in ((-1, better), (0, 1 - better - worse), (1, worse)):
            kernel[state, action, min(max(level + move, 0), levels - 1)] += chance * found
    first = np.repeat([0.0, 0.0, 1.0, 0.0], findings) / findings
    survival = np.repeat([0.95, 0.8, 0.5, 0.15], findings)
    return Problem(
        "windows",
        horizon,
        kernel.reshape(states, actions, states),
        np.zeros(states),
        np.zeros(states, dtype=bool),
        first,
        draw.dirichlet(np.ones(actions), size=states),
        3000 + instance,
        survival,
        cut,
    )
