"""What the private policies are compared with, on public data only."""

from fractions import Fraction
from typing import Final

import numpy as np

from benchmarks.utility.problems import Problem
from discretion.learning import clipped
from discretion.learning.curator import Concentrated, Curator, Query
from discretion.learning.schemas import FloatArray, IntArray
from discretion.learning.trajectories import ENDED, Block, Trajectories

# The best pair of these in the true problem is reported.
SCALES: Final = (0.0, 0.1, 0.3, 0.6)  # of the penalty
VISITS: Final = (1, 5, 10, 20, 40)  # that an action needs to be considered, if another of its state has as many


def frequent(problem: Problem, block: Block) -> IntArray:  # (S,)
    """The most frequent action of each state."""
    counts, _ = _counted(problem, block)
    return counts.sum(axis=2).argmax(axis=1)


def not_private(problem: Problem, block: Block) -> float:
    """The value of pessimistic value iteration on exact pooled counts, at its best penalty and number of visits."""
    counts, rewards = _counted(problem, block)
    last = _settled(problem, block)
    plans = (_planned(problem, counts, rewards, last, scale, visits) for scale in SCALES for visits in VISITS)
    return max(problem.value(plan) for plan in plans)


def _counted(problem: Problem, block: Block) -> tuple[FloatArray, FloatArray]:
    """Transitions (S, A, S + 1), the last column being the end, and total rewards (S, A)."""
    states, actions = problem.behaviour.shape
    horizon = problem.horizon
    counts, rewards = np.zeros((states, actions, states + 1)), np.zeros((states, actions))
    path = np.vstack([np.asarray(block.states), np.asarray(block.final)[None]])
    for step in range(horizon):
        here = block.lengths > step
        last = block.lengths == step + 1
        following = np.where(last, block.final, path[step + 1])
        following = np.where(last & (np.asarray(block.endings) == ENDED), states, following)
        cell = path[step][here], np.asarray(block.actions)[step][here]
        np.add.at(counts, (*cell, following[here]), 1.0)
        if problem.outcome is None:
            np.add.at(rewards, cell, np.asarray(block.rewards)[step][here])
    return counts, rewards


def _settled(problem: Problem, block: Block) -> FloatArray:  # (S + 1,)
    """What the state behind the last step earns on average, where an outcome is settled there; the end's is 0."""
    earned = np.zeros(len(problem.first) + 1)
    if problem.outcome is not None:
        reached = block.lengths == problem.horizon
        final, outcome = np.asarray(block.final)[reached], np.asarray(block.rewards)[-1, reached]
        earned += np.bincount(final, weights=outcome, minlength=len(earned))
        earned /= np.maximum(np.bincount(final, minlength=len(earned)), 1)
    return earned


def _planned(
    problem: Problem, counts: FloatArray, rewards: FloatArray, last: FloatArray, scale: float, enough: int
) -> IntArray:
    """Decisions (H, S)."""
    visits = counts.sum(axis=2)
    seen = np.maximum(visits, 1.0)
    known = (visits > 0) & (visits >= np.minimum(enough, visits.max(axis=1, keepdims=True)))
    kernel, reward = counts / seen[..., None], rewards / seen
    following = last.copy()
    decisions = np.zeros((problem.horizon, len(problem.first)), dtype=np.int64)
    for step in reversed(range(problem.horizon)):
        score = np.where(known, reward + kernel @ following - scale / np.sqrt(seen), -np.inf)
        unseen = visits.sum(axis=1) == 0
        decisions[step] = np.where(unseen, 0, score.argmax(axis=1))
        following[:-1] = np.where(unseen, 0.0, np.maximum(score.max(axis=1), 0.0))
    return decisions


def noisy_mode(data: Trajectories, rho: Fraction) -> IntArray:  # (S,)
    """The most frequent action by private counts that have all of ρ: what a learner must beat to be of use."""
    (answer,) = Curator(data, rho).ask(Query(clipped.Coverage(data.schema), Concentrated(rho)))
    return answer.grid.argmax(axis=1)
