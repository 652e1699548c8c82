"""Random public problems with known truth, and seeded trajectories of every shape that a hospital records.

Nothing here comes from a patient, so numpy's generator may draw it. Rewards and features are dyadic: the integer grids
of the product represent them exactly, and a comparison to 1e-12 compares algorithms and not roundings.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from discretion.learning import features, policy, rewards
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Trajectories

State = Any  # a number, or a tuple of numbers
END = "end"
FORMS = ("state-action", "step", "next", "next or end")
PLANE = Vector(("x", "y"), ((-1.0, 1.0), (0.0, 10.0)))


@dataclass(frozen=True)
class Episode:
    """One recorded trajectory, as a plain list of what happened."""

    unit: int
    states: list[State]
    actions: list[int]
    rewards: list[float]
    ending: int
    final: State = None  # known where the ending is CUT_BEFORE

    def successor(self, step: int) -> State:
        """The next state, END, or None where nobody knows."""
        if step + 1 < len(self.states):
            return self.states[step + 1]
        return {ENDED: END, CUT_BEFORE: self.final, CUT: None}[self.ending]


@dataclass(frozen=True)
class Record:
    state: State
    action: int
    reward: float  # scaled to [0, 1]
    successor: State


@dataclass(frozen=True)
class World:
    """A dataset twice: as episodes to loop over, and as the padded blocks the product reads."""

    schema: Schema
    units: int
    episodes: list[Episode]  # of one unit side by side, units ascending
    blocks: int = 3

    def scaled(self, reward: float) -> float:
        low, high = min(self.schema.reward[0], 0.0), max(self.schema.reward[1], 0.0)
        return (reward - low) / (high - low)

    def records(self, step: int, units: range | None = None) -> Iterator[Record]:
        """What counts at a step: the successor is known, or it is the horizon and does not matter."""
        for episode in self.episodes:
            if step >= len(episode.states) or (units is not None and episode.unit not in units):
                continue
            successor = episode.successor(step)
            if successor is not None or step + 1 == self.schema.horizon:
                reward = self.scaled(episode.rewards[step])
                yield Record(episode.states[step], episode.actions[step], reward, successor)

    @property
    def trajectories(self) -> Trajectories:
        cuts = np.linspace(0, self.units, self.blocks + 1).astype(int)
        spans = [(int(low), int(high)) for low, high in itertools.pairwise(cuts)]
        blocks = [self._block([e for e in self.episodes if low <= e.unit < high], (low, high)) for low, high in spans]
        return Trajectories(self.schema, self.units, blocks)

    def _block(self, episodes: list[Episode], span: tuple[int, int]) -> Block:
        """Padded with plausible records that must never be read."""
        size, shape = len(episodes), (self.schema.horizon, len(episodes))
        rng = np.random.default_rng(size)
        discrete = isinstance(self.schema.states, Discrete)
        states: Any = np.zeros(shape, dtype=np.int64) if discrete else np.full((*shape, 2), 0.5)
        final: Any = np.zeros(size, dtype=np.int64) if discrete else np.full((size, 2), 0.5)
        actions = rng.integers(self.schema.actions, size=shape)
        earned = rng.uniform(*self.schema.reward, size=shape)
        for column, episode in enumerate(episodes):
            length = len(episode.states)
            states[:length, column] = episode.states
            actions[:length, column] = episode.actions
            earned[:length, column] = episode.rewards
            if episode.ending == CUT_BEFORE:
                final[column] = episode.final
        return Block(
            units=np.array([e.unit for e in episodes], dtype=np.int64),
            lengths=np.array([len(e.states) for e in episodes], dtype=np.int64),
            states=states,
            actions=actions,
            rewards=earned,
            endings=np.array([e.ending for e in episodes], dtype=np.int64),
            final=final,
            span=span,
        )


@dataclass(frozen=True)
class Mdp:
    """A finite-horizon problem; the last successor is the end, which pays nothing."""

    start: FloatArray  # (S,)
    kernel: FloatArray  # (H, S, A, S+1)
    reward: FloatArray  # (H, S, A) mean, as a fraction of the declared range
    behaviour: FloatArray  # (H, S, A)

    def optimum(self) -> tuple[IntArray, float]:
        """The best decisions (H, S) and what they are worth from the start."""
        decisions = np.zeros(self.reward.shape[:2], dtype=np.int64)
        value = np.zeros(len(self.start) + 1)
        for step in reversed(range(len(self.reward))):
            scores = self.reward[step] + self.kernel[step] @ value
            decisions[step] = scores.argmax(axis=1)
            value = np.append(scores.max(axis=1), 0.0)
        return decisions, float(self.start @ value[:-1])

    def worth(self, decisions: IntArray) -> float:
        value, states = np.zeros(len(self.start) + 1), np.arange(len(self.start))
        for step in reversed(range(len(self.reward))):
            chosen = (states, decisions[step])
            value = np.append(self.reward[step][chosen] + self.kernel[step][chosen] @ value, 0.0)
        return float(self.start @ value[:-1])


def tabular_mdp(rng: np.random.Generator, horizon: int, states: int, actions: int, ends: float = 0.1) -> Mdp:
    kernel = rng.dirichlet(np.full(states, 0.5), size=(horizon, states, actions)) * (1 - ends)
    return Mdp(
        start=rng.dirichlet(np.ones(states)),
        kernel=np.concatenate([kernel, np.full((*kernel.shape[:3], 1), ends)], axis=3),
        reward=rng.uniform(size=(horizon, states, actions)),
        behaviour=rng.dirichlet(np.ones(actions), size=(horizon, states)),
    )


def simplex_features(rng: np.random.Generator, states: int, actions: int, width: int) -> features.Table:
    """Mixtures of `width` factors in 64ths: norms are at most 1 and the grid holds them exactly."""
    mixtures = rng.dirichlet(np.full(width, 0.5), size=(states, actions))
    return features.Table(rng.multinomial(64, mixtures) / 64)


def signed_features(rng: np.random.Generator, states: int, actions: int, width: int) -> features.Table:
    """Multiples of 2⁻¹⁶ of either sign, inside the unit ball."""
    directions = rng.normal(size=(states, actions, width))
    directions *= rng.uniform(0.5, 0.99, size=(states, actions, 1)) / np.linalg.norm(directions, axis=2, keepdims=True)
    return features.Table(np.trunc(directions * 2**16) / 2**16)


def linear_mdp(rng: np.random.Generator, horizon: int, table: features.Table, ends: float = 0.1) -> Mdp:
    """Transitions and rewards that are linear in the features, which must be mixtures."""
    phi, states = table.values, table.states
    measures = rng.dirichlet(np.full(states, 0.5), size=(horizon, phi.shape[2])) * (1 - ends)
    measures = np.concatenate([measures, np.full((*measures.shape[:2], 1), ends)], axis=2)
    return Mdp(
        start=rng.dirichlet(np.ones(states)),
        kernel=np.einsum("sad,hdt->hsat", phi, measures),
        reward=np.einsum("sad,hd->hsa", phi, rng.uniform(size=(horizon, phi.shape[2]))),
        behaviour=rng.dirichlet(np.ones(phi.shape[1]), size=(horizon, states)),
    )


def _draw(rng: np.random.Generator, weights: FloatArray) -> int:
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, rng.uniform() * cumulative[-1], side="right"))


def _episode(rng: np.random.Generator, mdp: Mdp, bounds: tuple[float, float], unit: int, cuts: float) -> Episode:
    """One trajectory, cut off with probability `cuts` after each step, with or without the state that followed."""
    states: list[State] = []
    actions: list[int] = []
    earned: list[float] = []
    state, (low, high) = _draw(rng, mdp.start), bounds
    for step in range(len(mdp.reward)):
        states.append(state)
        actions.append(_draw(rng, mdp.behaviour[step, state]))
        mean = mdp.reward[step, state, actions[-1]]
        earned.append(low + (high - low) * float(np.clip(np.round(64 * (mean + rng.normal() / 8)), 0, 64)) / 64)
        state = _draw(rng, mdp.kernel[step, state, actions[-1]])
        if state == len(mdp.start):
            return Episode(unit, states, actions, earned, ENDED)
        if rng.uniform() < cuts:
            break
    ending = CUT if cuts and rng.uniform() < 0.5 else CUT_BEFORE
    return Episode(unit, states, actions, earned, ending, state if ending == CUT_BEFORE else None)


def sample(
    rng: np.random.Generator,
    mdp: Mdp,
    units: int,
    *,
    reward: tuple[float, float] = (0.0, 1.0),
    per_unit: int = 1,
    cuts: float = 0.1,
) -> World:
    """Every unit has 0 to `per_unit` trajectories where any are cut, else exactly `per_unit`."""
    horizon, states, actions = mdp.reward.shape
    schema = Schema(horizon, Discrete(states), actions, reward, per_unit=per_unit)
    counts = rng.integers(0 if cuts else per_unit, per_unit + 1, size=units)
    numbers = [unit for unit, count in enumerate(counts) for _ in range(count)]
    return World(schema, units, [_episode(rng, mdp, reward, unit, cuts) for unit in numbers])


def scattered(rng: np.random.Generator, world: World) -> World:
    """The same episodes with each discrete state a random point near its own place, sometimes out of bounds."""
    assert isinstance(world.schema.states, Discrete)
    centres = rng.uniform([-1.0, 0.0], [1.0, 10.0], size=(world.schema.states.count, 2))

    def place(state: State) -> State:
        return tuple((centres[state] + rng.normal(scale=[0.2, 1.0])).tolist())

    episodes = [
        replace(e, states=[place(s) for s in e.states], final=None if e.final is None else place(e.final))
        for e in world.episodes
    ]
    return World(replace(world.schema, states=PLANE), world.units, episodes)


def known(rng: np.random.Generator, schema: Schema, form: str) -> rewards.Known:
    """A random public reward table within the declared range."""
    assert isinstance(schema.states, Discrete)
    states, actions = schema.states.count, schema.actions
    shapes = ((states, actions), (schema.horizon, states, actions), (states,), (states + 1,))
    shape = dict(zip(FORMS, shapes, strict=True))[form]
    return rewards.Known(rng.uniform(*schema.reward, size=shape))


@dataclass(frozen=True)
class Learned:
    """A tabular policy and what its learner computed before scores were rounded."""

    released: policy.Policy
    scores: FloatArray  # (H, S, A) scaled
    fallback: IntArray  # (H, S)

    @property
    def rule(self) -> policy.Table:
        assert isinstance(self.released.rule, policy.Table)
        return self.released.rule


def watched(learn: Callable[..., policy.Policy], *arguments: Any, **named: Any) -> Learned:
    """Run a learner and keep the exact scores that it hands to `policy.tabular`."""
    with mock.patch.object(policy, "tabular", wraps=policy.tabular) as tabular:
        learned = learn(*arguments, **named)
    (_, _, scores, *rest), keywords = tabular.call_args
    return Learned(learned, scores, keywords.get("fallback", rest[0] if rest else None))


def untied(scores: FloatArray, tolerance: float = 1e-9) -> Any:  # (H, S, A) → (H, S) of bool
    """Where the best score is above zero and stands alone."""
    ordered = np.sort(scores, axis=2)
    runner_up = ordered[..., -2] if scores.shape[2] > 1 else np.zeros(scores.shape[:2])
    return ordered[..., -1] > np.maximum(runner_up, 0.0) + tolerance
