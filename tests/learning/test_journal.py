"""A crash at any moment: what was drawn is repeated, what was only intended is never drawn again."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from discretion.learning import apvi, apvi_stationary, features, learners, pae, vapvi, vapvi_stationary
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import IntArray, Vector
from discretion.privacy import events
from tests import worlds

RHO = Concentrated(Fraction(5))


class Crash(Exception):
    """The power fails."""


class Interrupted(Exception):
    """There is an intent without values."""


class Notebook:
    """A journal that outlives the curator, and fails at a chosen moment of its first life."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.intents: dict[int, events.Event] = {}
        self.values: dict[int, IntArray] = {}
        self.moments = 0
        self.crash_at = crash_at

    def _moment(self) -> None:
        self.moments += 1
        if self.moments == self.crash_at:
            raise Crash

    def recall(self, first: int, asked: Sequence[events.Event]) -> list[IntArray] | None:
        numbers = range(first, first + len(asked))
        if not any(number in self.intents for number in numbers):
            return None
        if not all(number in self.values for number in numbers):
            raise Interrupted
        assert [self.intents[number] for number in numbers] == list(asked)
        return [self.values[number].copy() for number in numbers]

    def intend(self, first: int, asked: Sequence[events.Event]) -> None:
        self._moment()
        assert not any(first + index in self.intents for index in range(len(asked)))
        self.intents |= {first + index: event for index, event in enumerate(asked)}
        self._moment()

    def record(self, first: int, values: Sequence[IntArray]) -> None:
        self._moment()
        self.values |= {first + index: value.copy() for index, value in enumerate(values)}
        self._moment()


def problems() -> list[tuple[worlds.World, learners.Parameters]]:
    rng = np.random.default_rng(0)
    world = worlds.sample(rng, worlds.tabular_mdp(rng, horizon=3, states=3, actions=2), units=60)
    plane = worlds.scattered(rng, world)
    assert isinstance(plane.schema.states, Vector)
    blocks = features.Blocks(plane.schema.states, 2, ("1", "x", "y"))
    return [
        (world, apvi.Parameters(c1=0.1, c2=0.0)),
        (world, vapvi.Parameters(features.one_hot(3, 2))),
        (world, apvi_stationary.Parameters()),
        (world, pae.Parameters()),
        (plane, vapvi_stationary.Parameters(blocks, rounds=3)),
    ]


class TestJournal:
    @pytest.mark.parametrize("kind", range(5))
    def test_a_crash_at_any_moment_repeats_or_fails_and_never_draws_twice(self, kind: int) -> None:
        world, parameters = problems()[kind]
        whole = Notebook()
        learners.learn(Curator(world.trajectories, RHO.rho, whole), RHO, parameters)
        assert whole.moments >= 8
        ended = []
        for moment in range(1, whole.moments + 1):
            notebook = Notebook(moment)
            with pytest.raises(Crash):
                learners.learn(Curator(world.trajectories, RHO.rho, notebook), RHO, parameters)
            before = {number: value.copy() for number, value in notebook.values.items()}
            try:
                resumed = learners.learn(Curator(world.trajectories, RHO.rho, notebook), RHO, parameters)
            except Interrupted:
                ended.append("failed")
                assert notebook.intents.keys() > notebook.values.keys()
            else:
                ended.append("resumed")
                again = learners.learn(Curator(world.trajectories, RHO.rho, notebook), RHO, parameters)
                assert again.canonical() == resumed.canonical()
            for number, value in before.items():
                assert (notebook.values[number] == value).all()
        assert set(ended) == {"failed", "resumed"}

    def test_what_is_recalled_is_paid_for_like_what_is_drawn(self) -> None:
        world, parameters = problems()[0]
        notebook = Notebook()
        first, second = (Curator(world.trajectories, RHO.rho, notebook) for _ in range(2))
        for curator in (first, second):
            learners.learn(curator, RHO, parameters)
        assert first.log == second.log
        assert events.compose(second.log) == RHO.rho
