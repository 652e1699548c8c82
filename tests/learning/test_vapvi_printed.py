"""DP-VAPVI as printed: what it decides where little was seen, and how that is labelled."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion.learning import features as maps
from discretion.learning import policy, vapvi, vapvi_printed
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from discretion.privacy import events
from tests import curators, transcriptions
from tests.curators import FloatZeroNoise
from tests.learning.test_vapvi import KINDS, RHO, TABLES, learned, parameters_of, places, problem
from tests.worlds import PLANE

SQUARE = Vector(("x", "y"), ((0.0, 1.0), (0.0, 1.0)))
STEPS, ACTIONS = 4, 3
BLOCKS = maps.Blocks(SQUARE, ACTIONS, ("1", "x", "y"))


def recorded(units: int, actions: int, seed: int = 1000) -> Trajectories:
    """States anywhere, rewards of every kind, and only so many of the actions ever taken."""
    draw = np.random.default_rng([7, seed])
    states = draw.random((STEPS + 1, units, 2))
    taken = draw.integers(0, actions, (STEPS, units))
    block = block_of(states[:-1], taken, draw.random((STEPS, units)), final=states[-1])
    return Trajectories(Schema(STEPS, SQUARE, ACTIONS), units, [block])


def judged(made: policy.Policy) -> tuple[Any, Any]:
    """Actions and whether they were learned, (H, places)."""
    grid = np.linspace(0, 1, 9)
    states = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    found = [made.rule.judge(step, states) for step in range(STEPS)]
    return np.array([actions for actions, _, _ in found]), np.array([known for _, known, _ in found])


def taught(data: Trajectories, calibration: Any = "tight", rho: Fraction = Fraction(1)) -> policy.Policy:
    parameters = vapvi.Parameters(BLOCKS, calibration=calibration)
    return vapvi.learn(Curator(data, rho), Concentrated(rho), parameters)


class TestWhatIsCalledLearned:
    def test_an_action_that_nobody_took_is_never_decided_for_as_learned(self) -> None:
        for draw in range(8):
            actions, known = judged(taught(recorded(400, 2, 1000 + draw), rho=Fraction(1, 10)))
            assert not (known & (actions == 2)).any()

    def test_without_that_rule_it_would_be(self) -> None:
        found = []
        for draw in range(8):
            made = taught(recorded(400, 2, 1000 + draw), rho=Fraction(1, 10))
            assert isinstance(made.rule, policy.Linear)
            anything = replace(made.rule, scores=tuple(replace(score, noise=0.0) for score in made.rule.scores))
            actions, known = judged(replace(made, rule=anything))
            found.append((known & (actions == 2)).any())
        assert any(found)

    def test_the_paper_s_calibration_decides_as_printed(self) -> None:
        made = taught(recorded(400, 2), "paper")
        assert isinstance(made.rule, policy.Linear)
        assert {score.noise for score in made.rule.scores} == {0.0}

    def test_of_nobody_s_records_nothing_is_learned(self) -> None:
        assert not judged(taught(replace(recorded(400, 2), blocks=[])))[1].any()

    def test_with_data_and_budget_everything_is(self) -> None:
        assert judged(taught(recorded(4000, 3), rho=Fraction(100)))[1].mean() > 0.95


class TestNoise:
    @pytest.mark.parametrize("width", [1, 3, 12])
    def test_noise_alone_rarely_reaches_it(self, width: int) -> None:
        variance = Fraction(9)
        event = events.Event(events.SYMMETRIC_GAUSSIAN, "Gram matrix", (1, width, width), Fraction(2), variance)
        constants = vapvi_printed.Constants(1.0, 0.1, 0.0, None, 0.1, tight=True)
        draw = np.random.default_rng([8, width])
        noise = draw.normal(scale=3.0 * np.sqrt(2), size=(4000, width, width))
        noise = (noise + noise.transpose(0, 2, 1)) / 2  # 2v on the diagonal, v off it
        schema = Schema(5, Discrete(2), 2)
        largest = np.linalg.eigvalsh(noise)[:, -1] + constants.added(event, schema)
        assert (largest > constants.noise(event, schema)).mean() < 0.002


class TestFallback:
    @pytest.mark.parametrize("kind", KINDS)
    def test_it_is_the_best_covered_action_where_all_scores_are_zero(self, kind: str) -> None:
        world, features = problem(kind, 1)
        printed = kind != "blocks"
        constants = {"calibration": "paper"} if printed else {}
        parameters = parameters_of(features, c=0.4, d=150.0, **constants)
        curator = FloatZeroNoise(world)
        released = vapvi.learn(curator, RHO, parameters)
        scores, decisions = learned(features, world, vapvi.learn, curator, RHO, parameters)
        d, constant = maps.dimension(features), transcriptions.LinearConstants(0.7, 0.4, 150.0, weighted=printed)
        none = transcriptions.no_noise(world, d)
        steps = transcriptions.dp_vapvi(world, curators.flat(features), d, none, constant)
        blank = (scores == 0).all(axis=2)
        assert blank.any()
        for h, index in zip(*np.nonzero(blank), strict=True):
            covered = steps[h].coverage(places(world)[index])
            assert covered[decisions[h, index]] <= min(covered) + 1e-9
        np.testing.assert_array_equal(decisions[~blank], scores.argmax(axis=2)[~blank])
        for h, index in np.ndindex(blank.shape):
            place = places(world)[index]
            state = place if kind in TABLES else dict(zip(PLANE.columns, place, strict=True))
            assert released.decide(h + 1, state).source == ("fallback" if blank[h, index] else "learned")
