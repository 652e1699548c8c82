"""What DP-PAE is expected to learn, against what it learns."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discretion.learning import forecast, pae
from discretion.learning.curator import Concentrated
from discretion.learning.pae_prospects import Prospect
from discretion.learning.schemas import Discrete, FloatArray, Schema
from discretion.learning.trajectories import ENDED, Trajectories, block_of
from tests.learning.test_pae import PLAIN, RHO, learned


def falling(count: int) -> FloatArray:
    return np.asarray(1 / np.arange(1, count + 1) / (1 / np.arange(1, count + 1)).sum())


def visited(schema: Schema, units: int, steps: int, shares: tuple[FloatArray, FloatArray], seed: int) -> Trajectories:
    """States and actions drawn by their shares at every step; each pair pays with a chance of its own."""
    draw = np.random.default_rng([2, seed])
    chances = draw.random((schema.count, schema.actions))
    states, actions = (draw.choice(len(share), p=share, size=(schema.horizon, units)) for share in shares)
    paid = (draw.random(states.shape) < chances[states, actions]).astype(float)
    block = block_of(states, actions, paid, lengths=np.full(units, steps), endings=np.full(units, ENDED))
    return Trajectories(schema, units, [block])


class TestLearned:
    @pytest.mark.parametrize("support", [0.5, 2.0])
    @pytest.mark.parametrize(
        ("states", "actions", "units", "rho"), [(100, 6, 500, "1"), (100, 6, 1500, "0.1"), (300, 10, 2000, "0.1")]
    )
    def test_training_learns_what_was_forecast_within_a_twelfth(
        self, states: int, actions: int, units: int, rho: str, support: float
    ) -> None:
        schema, steps, budget = Schema(10, Discrete(states), actions), 5, Concentrated(Fraction(rho))
        parameters = pae.Parameters(support=support)
        shares = falling(states), falling(actions)
        visiting = forecast.visiting_of({"steps": steps}, schema, parameters)
        foreseen = forecast.forecast(schema, units, budget, parameters, visiting).learned_share
        found = [
            shares[0] @ learned(visited(schema, units, steps, shares, seed), budget, parameters).learned[0]
            for seed in (1000, 1001, 1002)
        ]
        assert 0.4 < foreseen < 0.99  # a forecast of all or nothing would be no test
        assert np.mean(found) == pytest.approx(foreseen, abs=1 / 12)

    def test_where_no_action_has_the_share_that_is_asked_for_nothing_is_expected_and_the_plan_says_why(self) -> None:
        schema, parameters = Schema(10, Discrete(5), 20), pae.Parameters(floor=0.3)
        visiting = forecast.visiting_of({"actions": [1] * 20}, schema, parameters)
        found = forecast.forecast(schema, 10**5, RHO, parameters, visiting)
        assert found.learned_share == 0.0
        assert "floor = 0.3" in found.warnings[0]
        data = visited(schema, 20_000, 5, (falling(5), np.full(20, 1 / 20)), 1000)
        assert not learned(data, RHO, parameters).learned.any()

    def test_where_noise_hides_what_actions_differ_in_nothing_is_expected_and_nearly_nothing_learned(self) -> None:
        schema, shares, units, steps = Schema(10, Discrete(50), 4), (falling(50), falling(4)), 3000, 5
        visiting = forecast.visiting_of({"steps": steps}, schema, PLAIN)
        foreseen, found = [], []
        for rho in (Fraction(1, 50_000), Fraction(1, 10)):
            budget = Concentrated(rho)
            trained = [learned(visited(schema, units, steps, shares, s), budget).learned[0] for s in range(1000, 1006)]
            foreseen.append(forecast.forecast(schema, units, budget, PLAIN, visiting).learned_share)
            found.append([float(shares[0] @ known) for known in trained])
        assert foreseen == [0.0, 1.0]
        assert sum(share > 0 for share in found[0]) <= 1  # two would come once in 3500 times at most
        assert math.comb(6, 2) * self._by_chance(units, steps, cells=200, rho=1 / 50_000) ** 2 < 1 / 3500
        assert np.mean(found[1]) > 0.9

    @staticmethod
    def _by_chance(units: int, steps: int, cells: int, rho: float) -> float:
        """How likely it is, at most, that counts pass for more than noise, without which nothing is learned: a stay of
        t different cells adds 1/√t to each, so √t in all; two stays are √2 apart; 42 % of ρ go to counts here, and
        their sum must exceed four of its deviations."""
        deviation = math.sqrt(2 / (2 * 0.42 * rho)) * math.sqrt(cells)
        return math.erfc((4 - units * math.sqrt(steps) / deviation) / math.sqrt(2)) / 2

    @pytest.mark.parametrize("rho", ["1", "0.01"])
    def test_the_plan_says_how_many_would_do(self, rho: str) -> None:
        schema, budget = Schema(10, Discrete(100), 6), Concentrated(Fraction(rho))
        visiting = forecast.visiting_of({"steps": 5}, schema, PLAIN)
        units = 40 if rho == "1" else 400
        found = forecast.forecast(schema, units, budget, PLAIN, visiting)
        assert found.learned_share == 0.0
        enough = int(found.warnings[0].split("About ")[1].split(" units")[0])
        assert units < enough < 100 * units
        assert forecast.forecast(schema, enough, budget, PLAIN, visiting).learned_share > 0

    def test_counts_that_are_noise_together_are_told_from_those_that_are_not(self) -> None:
        few = Prospect(Schema(10, Discrete(100), 6), 40, RHO, PLAIN, 5.0, np.full((100, 6), 40 * 5 / 600))
        assert not few.stands_out()
        assert few.times(4).stands_out()

    def test_where_only_the_most_frequent_actions_are_asked_for_nothing_is_told_apart(self) -> None:
        assert not Prospect(Schema(10, Discrete(100), 6), 20, RHO, PLAIN, 5.0, np.full((100, 6), 1e6)).told_apart()
