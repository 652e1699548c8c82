"""DP-VAPVI on vector states, pooled over steps: what it asks, finds without noise, and admits under noise."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from benchmarks.utility import glucose, shock

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import policy, vapvi, vapvi_stationary
from discretion.learning.curator import Concentrated, Curator, Pure
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Trajectories
from discretion.learning.vapvi_stationary import Parameters
from discretion.privacy import events
from tests.curators import ZeroNoise

RHO = Concentrated(Fraction(1))
LINE = Vector(("x",), ((-1.0, 1.0),))
PLAIN = maps.Blocks(LINE, 2, ("1", "x"))


def line(size: int, seed: int = 0, *, reward: tuple[float, float] = (0.0, 1.0), per_unit: int = 1) -> Trajectories:
    """Action 1 pays where x > 0 and action 0 elsewhere; x is drawn afresh, and one stay in ten ends at each step."""
    rng, horizon = np.random.default_rng(seed), 6
    states = rng.uniform(-1, 1, (horizon + 1, size, 1))
    actions = rng.integers(0, 2, (horizon, size))
    right = (states[:-1, :, 0] > 0) == (actions == 1)
    lengths = np.minimum(rng.geometric(0.1, size), horizon)
    block = Block(
        units=np.arange(size) // per_unit,
        lengths=lengths,
        states=states[:-1],
        actions=actions,
        rewards=np.where(right, reward[1], reward[0]),
        endings=np.where(lengths < horizon, ENDED, rng.choice([CUT_BEFORE, CUT], size)),
        final=states[-1],
    )
    return Trajectories(Schema(horizon, LINE, 2, reward, per_unit=per_unit), -(-size // per_unit), [block])


@cache
def rich() -> maps.Blocks:
    return maps.usual(glucose.VECTOR, len(glucose.DOSES), 1000, Fraction(1))


def visited(episodes: int) -> Any:
    return glucose.SIMULATOR.sample(episodes, 2).states.reshape(-1, 6)


def pooled(made: policy.Policy) -> policy.Pooled:
    assert isinstance(made.rule, policy.Pooled)
    return made.rule


class TestMechanisms:
    @pytest.mark.parametrize("rho", ["0.000001", "0.1", "1", "1000"])
    @pytest.mark.parametrize("shares", [vapvi_stationary.SHARES, (1, 1, 7)])
    def test_the_cost_is_the_budget_exactly(self, rho: str, shares: Any) -> None:
        parameters = Parameters(rich(), rounds=7, shares=shares)
        released = vapvi_stationary.mechanisms(glucose.SCHEMA, 1000, Concentrated(Fraction(rho)), parameters)
        assert sum(map(events.cost, released)) == events.compose(released) == Fraction(rho)
        assert len({event.statistic for event in released}) == len(released) == 9

    def test_a_training_does_what_was_planned(self) -> None:
        curator = Curator(line(200), Fraction(1))
        parameters = Parameters(PLAIN, rounds=5, time_groups=2)
        vapvi_stationary.learn(curator, RHO, parameters)
        assert list(curator.log) == vapvi_stationary.mechanisms(curator.schema, 200, RHO, parameters)

    def test_no_sensitivity_depends_on_what_was_released(self) -> None:
        """The same events whatever the data."""
        logs = []
        for seed in range(2):
            curator = Curator(line(100, seed), Fraction(1))
            vapvi_stationary.learn(curator, RHO, Parameters(PLAIN, rounds=3))
            logs.append(curator.log)
        assert logs[0] == logs[1]

    def test_patients_are_cut_alike_however_many_there_are(self) -> None:
        """Looser cuts where there is less noise did worse: docs/utility.md."""
        sensitivities = {
            event.sensitivity
            for units, rho in ((1000, 1), (10**6, 1), (10**7, 1000))
            for event in vapvi_stationary.mechanisms(
                glucose.SCHEMA, units, Concentrated(Fraction(rho)), Parameters(rich())
            )[1:2]
        }
        assert sensitivities == {2 * Fraction(8, 5) ** 2}  # a tenth of 16 steps

    def test_less_budget_needs_more_visits(self) -> None:
        needed = [
            vapvi_stationary.visits_needed(glucose.SCHEMA, 1000, Concentrated(Fraction(rho)), Parameters(rich()))
            for rho in ("0.01", "1")
        ]
        assert needed[0] == pytest.approx(10 * needed[1])

    def test_where_there_is_too_little_to_learn_from_all_is_spent_on_what_is_usually_done(self) -> None:
        def costs(units: int, rho: str) -> list[Fraction]:
            budget = Concentrated(Fraction(rho))
            return list(
                map(events.cost, vapvi_stationary.mechanisms(glucose.SCHEMA, units, budget, Parameters(rich())))
            )

        assert [
            costs(units, rho)[1] / Fraction(rho) for units, rho in ((1499, "0.01"), (1500, "0.01"), (149, "1"))
        ] == [
            Fraction(98, 100),
            Fraction(18, 50),
            Fraction(98, 100),
        ]
        assert sum(costs(1499, "0.01")) == Fraction("0.01")

    def test_a_plan_says_so_and_from_how_many_patients_on_it_is_otherwise(self) -> None:
        budget = Concentrated(Fraction("0.01"))
        told = vapvi_stationary.hopeless(glucose.SCHEMA, 1499, budget, Parameters(rich()))
        assert told is not None
        assert "from 1500 patients on, or with fewer actions or more ρ." in told
        assert vapvi_stationary.hopeless(glucose.SCHEMA, 1500, budget, Parameters(rich())) is None

    def test_shares_that_leave_nothing_to_learn_from_are_not_blamed_on_the_patients(self) -> None:
        copying = Parameters(rich(), shares=vapvi_stationary.COPYING)
        told = vapvi_stationary.hopeless(glucose.SCHEMA, 10**6, RHO, copying)
        assert told is not None
        assert "patients" not in told
        assert told.endswith("Leave shares out.")


class TestParameters:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"features": maps.one_hot(2, 2)},
            {"rounds": 0},
            {"rounds": True},
            {"rounds": 101},
            {"time_groups": 0},
            {"discount": 1.0},
            {"discount": -0.1},
            {"clip": 0.0},
            {"radius": math.inf},
            {"support": 1.5},
            {"ridge": 0.0},
            {"shares": (1, 2)},
            {"shares": (1, 0, 2)},
            {"trace": 1.5},
        ],
        ids=str,
    )
    def test_a_constant_out_of_range_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(errors.InvalidParameter):
            Parameters(**({"features": PLAIN} | wrong))

    def test_what_does_not_fit_the_schema_is_refused(self) -> None:
        schema = line(1).schema
        with pytest.raises(errors.InvalidParameter, match="at most the 6 steps"):
            vapvi_stationary.check(schema, Parameters(PLAIN, time_groups=7))
        with pytest.raises(errors.InvalidFeatures):
            vapvi_stationary.check(schema, Parameters(rich()))
        with pytest.raises(errors.InvalidParameter, match="not of pure"):
            vapvi_stationary.mechanisms(schema, 10, Pure(Fraction(1)), Parameters(PLAIN))


class TestLearn:
    @pytest.mark.parametrize("reward", [(0.0, 1.0), (-3.0, -1.0), (-1.0, 1.0), (5.0, 50.0)], ids=str)
    @pytest.mark.parametrize("per_unit", [1, 2])
    def test_the_better_action_is_found_whatever_rewards_are_measured_in(
        self, reward: tuple[float, float], per_unit: int
    ) -> None:
        data = line(3000, reward=reward, per_unit=per_unit)
        made = vapvi_stationary.learn(Curator(data, Fraction(10)), Concentrated(Fraction(10)), Parameters(PLAIN))
        assert made.algorithm == vapvi.NAME
        for x in (-0.9, -0.5, 0.5, 0.9):
            decision = made.decide(3, {"x": x})
            assert (decision.action, decision.source) == (int(x > 0), "learned")

    def test_without_noise_or_clipping_it_is_fitted_q_iteration(self) -> None:
        features = maps.Blocks(glucose.VECTOR, 5, tuple(term for term in rich().terms if isinstance(term, str)))
        parameters = Parameters(features, rounds=40, discount=0.7, clip=1e3, radius=500.0, support=0.0, ridge=1e-3)
        parameters = replace(parameters, trace=0.0, caution=0.0)
        made = vapvi_stationary.learn(ZeroNoise(glucose.SIMULATOR.data(300, 1)), RHO, parameters)
        reference = glucose.SIMULATOR.not_private(300, 1, features, rounds=40, discount=0.7, ridge=1e-3, support=0.0)
        states = visited(100)
        expected = reference(0, states, np.random.default_rng())
        assert (pooled(made).judge(0, states)[0] == expected).mean() > 0.97

    def test_with_caution_what_is_usually_done_is_left_for_less(self) -> None:
        """Doctors take action 0 nine times in ten, and what is gained by the other is not much more than chance."""
        data = line(300)
        (block,) = data.blocks
        rare = (np.random.default_rng(1).random(block.actions.shape) < 0.1).astype(np.int64)
        habit = replace(data, blocks=[replace(block, actions=rare)])
        states = np.linspace(-1, 1, 200)[:, None]
        usual = []
        for caution in (0.0, 1.0, 100.0):
            parameters = Parameters(PLAIN, support=0.0, caution=caution)
            made = vapvi_stationary.learn(ZeroNoise(habit), Concentrated(Fraction(10)), parameters)
            usual.append(float((pooled(made).judge(0, states)[0] == 0).mean()))
        assert usual[0] <= usual[1] <= usual[2] == 1.0
        assert usual[0] < 1.0

    def test_where_everything_is_noise_every_decision_says_so(self) -> None:
        budget = Concentrated(Fraction(1, 10**6))
        for seed in range(5):
            made = vapvi_stationary.learn(Curator(line(200, seed), budget.rho), budget, Parameters(PLAIN, rounds=8))
            assert not pooled(made).judge(0, np.linspace(-1, 1, 50)[:, None])[1].any()

    def test_with_too_few_patients_it_does_what_they_do_and_says_so(self) -> None:
        """Doctors who take action 1 where x > 0, which pays nothing there."""
        data = line(300)
        (block,) = data.blocks
        habit = (np.asarray(block.states, dtype=np.float64)[..., 0] > 0).astype(np.int64)
        rare = np.random.default_rng(1).random(habit.shape) < 0.1
        copied = replace(data, blocks=[replace(block, actions=np.where(rare, 1 - habit, habit))])
        budget = Concentrated(Fraction(1, 100))
        for seed in range(3):
            made = vapvi_stationary.learn(Curator(copied, budget.rho), budget, Parameters(PLAIN))
            actions, learned, _ = pooled(made).judge(seed, np.array([[-0.8], [0.8]]))
            assert (actions.tolist(), learned.tolist()) == ([0, 1], [False, False])

    def test_an_action_that_nobody_takes_is_not_chosen(self) -> None:
        data = line(2000)
        (block,) = data.blocks
        never = replace(data, schema=replace(data.schema, actions=3), blocks=[block])
        features = maps.Blocks(LINE, 3, ("1", "x"))
        made = vapvi_stationary.learn(Curator(never, Fraction(10)), Concentrated(Fraction(10)), Parameters(features))
        assert (pooled(made).judge(0, np.linspace(-1, 1, 99)[:, None])[0] < 2).all()

    def test_groups_of_steps_tell_a_change_apart(self) -> None:
        data = line(4000)
        (block,) = data.blocks
        turned = np.array(block.rewards)
        turned[3:] = 1.0 - turned[3:]
        changed = replace(data, blocks=[replace(block, rewards=turned)])
        budget = Concentrated(Fraction(10))
        made = vapvi_stationary.learn(Curator(changed, budget.rho), budget, Parameters(PLAIN, time_groups=2))
        assert [made.decide(step, {"x": 0.8}).action for step in (1, 3, 4, 6)] == [1, 1, 0, 0]
        assert len(pooled(made).groups) == 2

    def test_a_policy_is_read_back_as_it_was(self) -> None:
        curator = Curator(glucose.SIMULATOR.data(50, 1), Fraction(1))
        made = vapvi_stationary.learn(curator, RHO, Parameters(rich(), rounds=2))
        read = policy.parse(made.canonical())
        assert read.canonical() == made.canonical()
        states = visited(50)
        for one, other in zip(pooled(made).judge(3, states), pooled(read).judge(3, states), strict=True):
            assert (one == other).all()

    def test_doctors_are_surpassed_where_budget_and_patients_are_plenty(self) -> None:
        budget = Concentrated(Fraction(100))
        curator = Curator(glucose.SIMULATOR.data(800, 1001), budget.rho)
        made = vapvi_stationary.learn(curator, budget, Parameters(rich(), rounds=12))
        learned = glucose.SIMULATOR.valued(lambda step, states, _: pooled(made).judge(step, states)[0], 2000)
        assert learned > glucose.SIMULATOR.valued(glucose.clinician, 2000) + 1.5

    def test_and_where_stays_end_early_and_values_are_missing(self) -> None:
        budget, data = Concentrated(Fraction(100)), shock.SIMULATOR.data(600, 1001)
        features = maps.Blocks(shock.VECTOR, shock.SCHEMA.actions, maps.usual(shock.VECTOR, 6, 30, Fraction(1)).terms)
        made = vapvi_stationary.learn(Curator(data, budget.rho), budget, Parameters(features))
        learned = shock.SIMULATOR.valued(lambda step, states, _: pooled(made).judge(step, states)[0], 3000)
        assert learned > shock.SIMULATOR.valued(shock.clinician, 3000) + 0.02

    def test_the_curators_totals_do_not_depend_on_the_order_of_patients(self) -> None:
        data = glucose.SIMULATOR.data(60, 3)
        (block,) = data.blocks
        order = np.random.default_rng(0).permutation(60)
        turned = replace(
            block,
            units=block.units[order],
            lengths=block.lengths[order],
            states=block.states[:, order],
            actions=block.actions[:, order],
            rewards=block.rewards[:, order],
            endings=block.endings[order],
            final=block.final[order],
        )
        learn: Callable[[Trajectories], policy.Policy] = lambda found: vapvi_stationary.learn(  # noqa: E731
            ZeroNoise(found), RHO, Parameters(rich(), rounds=2)
        )
        assert learn(data).canonical() == learn(replace(data, blocks=[turned])).canonical()
