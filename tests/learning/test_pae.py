"""DP-PAE: what it asks is fixed beforehand, what it decides is right where there is data and labelled where not."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import clipped, pae, policy, rewards, shrinkage
from discretion.learning.curator import Concentrated, Curator, Pure
from discretion.learning.policy import Policy, Table
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Trajectories, block_of
from discretion.privacy import events
from tests.curators import ZeroNoise

STATES, ACTIONS, HORIZON = 6, 3, 8
PLAIN = pae.Parameters()
RHO = Concentrated(Fraction(1))


def schema_of(**changes: Any) -> Schema:
    return replace(Schema(HORIZON, Discrete(STATES), ACTIONS), **changes)


def simulated(schema: Schema, episodes: int, seed: int = 0, per_unit: int = 1) -> Trajectories:
    """Action s mod A raises the chance of a good end from state s; others end badly or go on anywhere."""
    draw = np.random.default_rng([1, seed])
    states = draw.integers(0, STATES, (HORIZON, episodes))
    actions = draw.choice(ACTIONS, p=[0.5, 0.3, 0.2], size=(HORIZON, episodes))
    good = actions == states % ACTIONS
    ends = draw.random((HORIZON, episodes)) < 0.25
    first = np.where(ends.any(axis=0), ends.argmax(axis=0), HORIZON - 1)
    low, high = schema.reward
    outcome = draw.random((HORIZON, episodes)) < np.where(good, 0.9, 0.3)
    paid = np.where(ends & (np.arange(HORIZON)[:, None] == first), np.where(outcome, high, low), 0.0)
    block = block_of(
        states,
        actions,
        paid,
        units=np.arange(episodes) // per_unit,
        lengths=first + 1,
        endings=np.where(ends.any(axis=0), ENDED, CUT_BEFORE),
        final=draw.integers(0, STATES, episodes),
    )
    return Trajectories(schema, episodes // per_unit, [block])


def table(found: Policy) -> Table:
    assert isinstance(found.rule, Table)
    return found.rule


def learned(data: Trajectories, rho: Concentrated = RHO, parameters: pae.Parameters = PLAIN) -> Table:
    return table(pae.learn(Curator(data, rho.rho), rho, parameters))


BEST = np.arange(STATES) % ACTIONS


class TestParameters:
    @pytest.mark.parametrize(
        "wrong", [{"pessimism": -1.0}, {"support": np.nan}, {"floor": 0.6}, {"floor": "none"}, {"reward": 3}]
    )
    def test_what_makes_no_sense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(errors.InvalidParameter):
            pae.Parameters(**wrong)


class TestCheck:
    def test_vector_states_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="discrete"):
            pae.check(schema_of(states=Vector(("x",), ((0.0, 1.0),))), PLAIN)

    def test_too_many_cells_are_refused(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="at most"):
            pae.check(schema_of(states=Discrete(10**7)), PLAIN)

    def test_a_reward_that_changes_with_the_step_is_refused(self) -> None:
        known = rewards.Known(np.zeros((HORIZON, STATES, ACTIONS)))
        with pytest.raises(errors.InvalidParameter, match="same at every step"):
            pae.check(schema_of(), pae.Parameters(reward=known))

    def test_a_reward_of_another_shape_is_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="shape"):
            pae.check(schema_of(), pae.Parameters(reward=rewards.Known(np.zeros((2, 2)))))


class TestMechanisms:
    @given(st.integers(1, 10**7), st.integers(1, 10**12), st.integers(1, 200))
    def test_they_cost_exactly_the_budget(self, units: int, nano: int, states: int) -> None:
        privacy = Concentrated(Fraction(nano, 10**9))
        found = pae.mechanisms(schema_of(states=Discrete(states)), units, privacy, PLAIN)
        assert events.compose(found) == sum(map(events.cost, found)) == privacy.rho
        assert len({event.statistic for event in found}) == len(found)

    @pytest.mark.parametrize("units", [1, 10, 100, 1000])
    def test_they_are_what_is_done_in_that_order(self, units: int) -> None:
        data = simulated(schema_of(), units)
        curator = Curator(data, RHO.rho)
        pae.learn(curator, RHO, PLAIN)
        assert list(curator.log) == pae.mechanisms(data.schema, units, RHO, PLAIN)

    def test_more_is_asked_where_more_is_known(self) -> None:
        numbers = [
            len(pae.mechanisms(schema_of(), units, Concentrated(Fraction(1, 10)), PLAIN)) for units in (1, 60, 600)
        ]
        assert numbers == [1, 6, 8]

    def test_a_larger_budget_counts_only_as_far_as_there_is_data(self) -> None:
        """Beyond ρ = 1 it is chance and not noise that limits what is known of a cell."""
        names = {
            tuple(event.statistic for event in pae.mechanisms(schema_of(), 50, Concentrated(Fraction(rho)), PLAIN))
            for rho in (1, 10, 10**4)
        }
        assert len(names) == 1

    def test_pure_privacy_is_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="dp-apvi"):
            pae.mechanisms(schema_of(), 100, Pure(Fraction(1)), PLAIN)

    def test_a_budget_that_no_ledger_holds_is_refused(self) -> None:
        with pytest.raises(errors.InvalidRho):
            pae.mechanisms(schema_of(), 100, Concentrated(Fraction(1, 3)), PLAIN)


class TestVisitsNeeded:
    def test_fewer_are_needed_with_a_larger_budget(self) -> None:
        small, large = (pae.visits_needed(schema_of(), 5, Concentrated(Fraction(rho)), PLAIN) for rho in (1, 100))
        assert small > large > 0

    def test_more_are_needed_the_more_support_is_asked_for_and_the_longer_stays_are(self) -> None:
        asked = [pae.visits_needed(schema_of(), 5, RHO, pae.Parameters(support=support)) for support in (0, 1, 2)]
        assert asked == [0.0, asked[1], 2 * asked[1]]
        short, long = (pae.visits_needed(schema_of(), 5, RHO, PLAIN, steps) for steps in (1, 4))
        assert long == pytest.approx(2 * short)

    def test_nobody_goes_through_more_cells_than_there_are(self) -> None:
        longer = schema_of(horizon=1000)
        assert pae.visits_needed(longer, 500, RHO, PLAIN) == pae.visits_needed(
            longer, 500, RHO, PLAIN, STATES * ACTIONS
        )


class TestLearn:
    def test_the_best_actions_are_learned(self) -> None:
        found = learned(simulated(schema_of(total=(0.0, 1.0)), 20000))
        assert (found.decisions == BEST).all()
        assert found.learned.all()
        assert found.decisions.shape == found.scores.shape == (HORIZON, STATES)

    @pytest.mark.parametrize("reward", [(0.0, 1.0), (-1.0, 1.0), (-5.0, -1.0), (-300.0, 100.0)])
    def test_whatever_the_range_of_rewards(self, reward: tuple[float, float]) -> None:
        schema = schema_of(reward=reward)
        found = learned(simulated(schema, 20000))
        assert (found.decisions[0] == BEST).mean() > 0.8
        steps = np.arange(HORIZON, 0, -1)[:, None]
        assert (found.scores <= schema.low * steps + schema.width * steps + 1e-6).all()
        assert (found.scores >= schema.low * steps - 1e-6).all()

    def test_without_noise_a_few_thousand_are_enough(self) -> None:
        data = simulated(schema_of(total=(0.0, 1.0)), 3000)
        found = table(pae.learn(ZeroNoise(data), RHO, PLAIN))
        assert (found.decisions == BEST).all()

    def test_several_trajectories_a_patient_are_no_obstacle(self) -> None:
        schema = schema_of(total=(0.0, 1.0), per_unit=2)
        found = learned(simulated(schema, 40000, per_unit=2))
        assert (found.decisions == BEST).all()

    def test_a_known_reward_is_used_instead_of_the_recorded_one(self) -> None:
        """Everybody is paid for action 2, which the records know nothing of."""
        data = simulated(schema_of(), 20000)
        known = rewards.Known(np.tile([0.0, 0.0, 1.0], (STATES, 1)))
        assert (learned(data, parameters=pae.Parameters(reward=known)).decisions == 2).all()

    def test_a_known_reward_may_be_paid_on_arrival(self) -> None:
        draw = np.random.default_rng(3)
        path = np.zeros((HORIZON + 1, 20000), dtype=np.int64)
        actions = draw.integers(0, ACTIONS, (HORIZON, 20000))
        for step in range(HORIZON):  # action 1 leads to state 5 more often
            path[step + 1] = np.where((actions[step] == 1) & (draw.random(20000) < 0.5), 5, draw.integers(0, 5, 20000))
        block = block_of(path[:-1], actions, np.zeros((HORIZON, 20000)), final=path[-1])
        known = rewards.Known(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        data = Trajectories(schema_of(), 20000, [block])
        assert (learned(data, parameters=pae.Parameters(reward=known)).decisions == 1).all()

    def test_where_next_to_nothing_is_known_it_says_so(self) -> None:
        found = learned(simulated(schema_of(), 40), Concentrated(Fraction(1, 10**4)))
        assert not found.learned.any()
        assert (found.scores == 0).all()  # the least there can be

    def test_where_only_counts_are_asked_the_most_frequent_action_is_done(self) -> None:
        many = schema_of(states=Discrete(STATES + 10**6))
        data = simulated(many, 40000)
        found = learned(data)
        assert not found.learned.any()
        assert (found.decisions[:, :STATES] == 0).all()

    def test_records_of_nobody_teach_nothing(self) -> None:
        """Every statistic is noise: not one decision may pretend to be learned."""
        for _ in range(5):
            empty = np.zeros((HORIZON, 500), dtype=np.int64)
            block = block_of(empty, empty, np.zeros((HORIZON, 500)), lengths=np.zeros(500, dtype=np.int64))
            found = learned(Trajectories(schema_of(), 500, [block]))
            assert not found.learned.any()
            assert np.isfinite(found.scores).all()

    def test_outcomes_that_have_nothing_to_do_with_actions_teach_nothing(self) -> None:
        draw = np.random.default_rng(8)
        size = (HORIZON, 3000)
        labelled = 0
        for _ in range(20):
            lengths = draw.integers(1, HORIZON + 1, 3000)
            paid = np.where(np.arange(HORIZON)[:, None] == lengths - 1, draw.random(size) < 0.5, 0.0)
            block = block_of(
                draw.integers(0, STATES, size),
                draw.integers(0, ACTIONS, size),
                paid.astype(np.float64),
                lengths=lengths,
                endings=np.full(3000, ENDED),
            )
            labelled += int(learned(Trajectories(schema_of(total=(0.0, 1.0)), 3000, [block])).learned.any())
        assert labelled <= 10  # odds of 3 to 1 still err at times: in 2 of 20, about

    def test_rare_actions_are_not_chosen_however_good_they_look(self) -> None:
        data = simulated(schema_of(total=(0.0, 1.0)), 20000)
        found = learned(data, parameters=pae.Parameters(floor=0.25))
        assert (found.decisions != 2).all()  # a fifth of the visits

    @pytest.mark.parametrize(("better", "action"), [(0.1, 0), (0.6, 1)])
    def test_what_is_usually_done_is_left_only_for_what_is_better_by_more_than_is_unsure(
        self, better: float, action: int
    ) -> None:
        """Two actions, each known with a deviation of 1: together 1.41, of which 0.35 are asked for."""
        asking = pae._Asking(Curator(simulated(schema_of(), 10), RHO.rho), RHO, PLAIN, None)
        visits = np.tile([30.0, 20.0, 0.0], (STATES, 1))
        counted = pae._Counted(visits, visits > 0)
        found = shrinkage.Estimates(np.tile([0.0, better, 9.0], (STATES, 1)), np.ones((STATES, ACTIONS)))
        chosen = pae._chosen(asking, counted, found)
        assert (chosen.actions == action).all()
        assert chosen.learned.all()  # both were compared
        assert chosen.scores == pytest.approx((better if action else 0.0) - PLAIN.pessimism)

    def test_records_outside_the_schema_change_nothing_visible(self) -> None:
        size = (HORIZON, 300)
        block = block_of(np.full(size, STATES + 3), np.full(size, -1), np.full(size, np.nan))
        found = learned(Trajectories(schema_of(), 300, [block]))
        assert not found.learned.any()

    def test_one_state_and_one_action_are_a_problem_too(self) -> None:
        schema = Schema(1, Discrete(1), 1)
        block = block_of(np.zeros((1, 50), dtype=np.int64), np.zeros((1, 50), dtype=np.int64), np.ones((1, 50)))
        found = learned(Trajectories(schema, 50, [block]))
        assert (found.decisions == 0).all()

    def test_it_reads_back_from_its_document(self) -> None:
        found = pae.learn(Curator(simulated(schema_of(), 2000), RHO.rho), RHO, PLAIN)
        assert policy.parse(found.canonical()).canonical() == found.canonical()
        assert found.algorithm == pae.NAME

    def test_an_allowance_that_is_too_small_is_found_before_anything_is_asked(self) -> None:
        curator = Curator(simulated(schema_of(), 10), Fraction(1, 1000))
        with pytest.raises(errors.AllowanceExceeded):
            pae.learn(curator, RHO, PLAIN)


class TestRange:
    def test_a_bound_on_the_total_is_the_range_of_returns(self) -> None:
        assert pae.returns_range(schema_of(reward=(0.0, 2.0), total=(-1.0, 4.0))) == (-0.5, 2.0)

    def test_otherwise_it_is_what_all_steps_can_earn(self) -> None:
        assert pae.returns_range(schema_of(reward=(-1.0, 3.0))) == (-0.25 * HORIZON, 0.75 * HORIZON)


def test_statistics_keep_their_names_whatever_was_released() -> None:
    schema = schema_of()
    planned = pae.queries(schema, 10**6, RHO, PLAIN)
    actual = clipped.Surprises(schema, 0.5, np.arange(STATES, dtype=float), 3.0)
    assert planned["surprises"].statistic.name == actual.name
    assert planned["surprise sizes"].statistic.name == clipped.Lengths(actual).name
