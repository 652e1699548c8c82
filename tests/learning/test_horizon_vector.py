"""Outcomes of stays that are watched for a window: what one patient can move, and what is learned and judged there."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.utility import windows_vector
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import (
    averages,
    evaluators,
    fqe,
    horizon_vector,
    policy,
    pooled,
    sums,
    transits,
    vapvi_stationary,
)
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.pooled_values import Score, StateValue
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Trajectories, block_of
from discretion.privacy import events
from tests.curators import ZeroNoise
from tests.learning.vector_units import (
    ACTIONS,
    HORIZON,
    MAPS,
    PER_UNIT,
    PLAIN,
    RICH,
    VECTOR,
    Unit,
    dataset,
    moved,
    schema_of,
    steady,
    wild,
)

ONE = Concentrated(Fraction(1))
OUTCOME = schema_of(outcome=True)
EIGHT = Vector(tuple("abcdefgh"), ((-1.0, 1.0),) * 8)


def potentials(features: maps.Blocks) -> list[StateValue]:
    weights = np.random.default_rng(2).normal(size=features.width)
    tame = StateValue(0.4, weights, -1 / 3, 2 / 3)
    return [tame, replace(tame, weights=weights * 1e200), StateValue(np.nan, weights * np.inf, np.nan, np.nan)]


def statistics(features: maps.Blocks, schema: Schema) -> list[Any]:
    return [
        horizon_vector.Outcomes(schema, features),
        *(averages.GainsAndEnds(schema, features, potential=each) for each in potentials(features)),
        *(pooled.Residuals(schema, features, radius=0.1, bound=0.2, potential=each) for each in potentials(features)),
        *(transits.UnitSizes(transits.Judged(schema, features, potential=each)) for each in potentials(features)),
    ]


def totals(measured: Sequence[Any], data: Trajectories) -> list[Any]:
    with np.errstate(all="ignore"):  # as the curator does
        return sums.totals(measured, data)


def always(action: int, horizon: int) -> policy.Policy:
    weights = np.zeros((ACTIONS, PLAIN.width))
    learned = Score(0.0, 0.0, False, weights, weights, np.eye(ACTIONS)[action])
    return policy.Policy("any", horizon, VECTOR, ACTIONS, policy.Pooled(PLAIN, (learned,), horizon, 1.0))


def worth(simulator: windows_vector.Windows, made: policy.Policy) -> float:
    return simulator.valued(lambda step, states, _: made.judge(step + 1, states)[0], 5000)


@functools.cache
def usually_done(simulator: windows_vector.Windows) -> policy.Policy:
    """By the columns alone, so that it is quick to judge."""
    features = maps.Blocks(simulator.vector, simulator.schema.actions, ("1", *simulator.vector.columns))
    copying = vapvi_stationary.Parameters(features, rounds=1, shares=vapvi_stationary.COPYING)
    return vapvi_stationary.learn(
        Curator(simulator.data(2000, 2100), Fraction(100)), Concentrated(Fraction(100)), copying
    )


class TestNeverExceeded:
    @MAPS
    @PER_UNIT
    def test_no_replaced_patient_moves_a_statistic_further_than_it_says(
        self, features: maps.Blocks, per_unit: int
    ) -> None:
        rng, schema = np.random.default_rng(per_unit), schema_of(per_unit, outcome=True)
        measured = statistics(features, schema)
        for trial in range(40):
            patients = [wild(rng, per_unit, tame=trial % 2 == 0) for _ in range(3)]
            before = totals(measured, dataset(schema, patients))
            after = totals(measured, dataset(schema, [patients[0], wild(rng, per_unit), patients[2]]))
            assert max(map(moved, measured, before, after)) <= 1

    @MAPS
    @PER_UNIT
    def test_no_two_patients_at_the_extremes_are_further_apart(self, features: maps.Blocks, per_unit: int) -> None:
        schema = schema_of(per_unit, outcome=True)
        measured = statistics(features, schema)
        corners = itertools.product([(-1.0, 0.0), (3.0, 10.0), (3.0, 0.0), (1.0, np.nan)], (0, 1), (-1.0, 2.0))
        alone = [totals(measured, dataset(schema, [steady(*corner, copies=per_unit)])) for corner in corners]
        for one, other in itertools.combinations(alone, 2):
            assert max(map(moved, measured, one, other)) <= 1

    @settings(deadline=None, max_examples=60)
    @given(seed=st.integers(0, 10**6), per_unit=st.integers(1, 7))
    def test_no_patients_matrix_has_a_trace_above_five_quarters(self, seed: int, per_unit: int) -> None:
        schema = schema_of(per_unit, outcome=True)
        data = dataset(schema, [wild(np.random.default_rng(seed), per_unit, tame=seed % 2 == 0)])
        (total,) = totals([horizon_vector.Outcomes(schema, RICH)], data)
        assert 4 * sum(int(x) for x in np.diag(total)) <= 5 * maps.ONE**2
        assert np.linalg.eigvalsh(total / 2.0**32).min() > -1e-6


class TestReached:
    """The controls: were a bound stated a hundredth lower, one of these would fail."""

    @pytest.mark.parametrize("per_unit", [1, 2, 3, 4, 7])
    def test_two_patients_are_as_far_apart_as_outcomes_say(self, per_unit: int) -> None:
        """Features at an angle whose cosine is ¼, and opposite outcomes: at right angles together."""
        schema = Schema(HORIZON, EIGHT, ACTIONS, per_unit=per_unit, outcome=True)
        statistic: Any = horizon_vector.Outcomes(schema, maps.Blocks(EIGHT, ACTIONS, EIGHT.columns))
        found = []
        for state, reward in ((np.ones(8), 1.0), (np.where(np.arange(8) < 3, -1.0, 1.0), 0.0)):
            states, shape = np.tile(state, (HORIZON, per_unit, 1)), (HORIZON, per_unit)
            units = np.zeros(per_unit, dtype=np.int64)
            block = block_of(states, np.zeros(shape, dtype=np.int64), np.full(shape, reward), units=units)
            found += totals([statistic], Trajectories(schema, 1, [block]))
        assert Fraction(99, 100) < moved(statistic, *found) <= 1

    def test_two_patients_are_as_far_apart_as_gains_say(self) -> None:
        """One gains all there is in its only step, which is its end; the other loses a little, and does not end."""
        lowest = StateValue(-1 / 3, np.zeros(1), -1 / 3, 2 / 3)
        measured: Any = averages.GainsAndEnds(OUTCOME, maps.Blocks(VECTOR, ACTIONS, ("1",)), potential=lowest)
        units = (steady((0.0, 0.0), 0, 2.0, ending=ENDED, length=1), steady((0.0, 0.0), 0, -0.44))
        one, other = (totals([measured], dataset(OUTCOME, [unit]))[0] for unit in units)
        assert Fraction(99, 100) < moved(measured, one, other) <= 1


class TestOutcomes:
    """The sums themselves."""

    def _stays(self, rng: np.random.Generator, endings: Sequence[int]) -> list[Unit]:
        return [wild(rng, 1, tame=True) | {"endings": np.array([ending])} for ending in endings]

    @MAPS
    @pytest.mark.parametrize("ending", [CUT, CUT_BEFORE, ENDED])
    def test_whatever_followed_the_last_step_counts(self, features: maps.Blocks, ending: int) -> None:
        units = self._stays(np.random.default_rng(1), [ending] * 9)
        (found,) = totals([horizon_vector.Outcomes(OUTCOME, features)], dataset(OUTCOME, units))
        expected = np.zeros_like(found, dtype=np.float64)
        for unit in units:
            outcome = (np.clip(np.nan_to_num(unit["rewards"][-1, 0]), -1.0, 2.0) + 1.0) / 3.0
            xi = np.append(features.psi(unit["states"][-1])[0] / maps.ONE, outcome - 0.5)
            expected += np.outer(xi, xi)
        assert found / 2.0**32 == pytest.approx(expected, abs=1e-3)

    def test_stays_that_did_not_reach_the_horizon_do_not_count(self) -> None:
        stays = self._stays(np.random.default_rng(2), [CUT] * 5)
        units = [unit | {"lengths": np.array([HORIZON - 1])} for unit in stays]
        (found,) = totals([horizon_vector.Outcomes(OUTCOME, PLAIN)], dataset(OUTCOME, units))
        assert not found.any()

    def test_a_patient_with_several_stays_counts_once(self) -> None:
        schema = schema_of(3, outcome=True)
        once, thrice = (dataset(schema, [steady((1.0, 4.0), 0, 2.0, copies)]) for copies in (1, 3))
        one, three = (totals([horizon_vector.Outcomes(schema, PLAIN)], data)[0] for data in (once, thrice))
        assert three / 2.0**32 == pytest.approx(one / 2.0**32, abs=1e-3)

    @MAPS
    def test_sums_do_not_depend_on_order_or_company_or_pieces(
        self, features: maps.Blocks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng, schema = np.random.default_rng(3), schema_of(2, outcome=True)
        measured, patients = statistics(features, schema), [wild(rng, 2, tame=index % 3 == 0) for index in range(40)]
        together = totals(measured, dataset(schema, patients))
        order = rng.permutation(40)
        permuted = totals(measured, dataset(schema, [patients[index] for index in order], order))
        apart = [totals(measured, dataset(schema, [patient])) for patient in patients]
        monkeypatch.setattr(horizon_vector, "_TOGETHER", 7)
        monkeypatch.setattr(pooled, "_RECORDS", 40)
        pieces = totals(measured, dataset(schema, patients))
        for index, total in enumerate(together):
            assert (total == permuted[index]).all()
            assert (total == pieces[index]).all()
            assert (total == sum(one[index] for one in apart)).all()

    def test_a_potential_of_another_map_is_refused_when_the_question_is_put(self) -> None:
        (other, *_) = potentials(RICH)
        for ask in (
            lambda: pooled.Residuals(OUTCOME, PLAIN, potential=other),
            lambda: averages.GainsAndEnds(OUTCOME, PLAIN, potential=other),
            lambda: transits.Judged(OUTCOME, PLAIN, potential=other),
        ):
            with pytest.raises(errors.InvalidParameter, match="potential"):
                ask()


class TestReleased:
    def test_without_noise_it_is_the_regression_of_outcomes(self) -> None:
        """The chance of the better outcome is linear in a."""
        rng, count = np.random.default_rng(4), 4000
        states = rng.uniform(VECTOR.low, VECTOR.high, (HORIZON, count, 2))
        rewards = np.zeros((HORIZON, count))
        rewards[-1] = np.where(rng.random(count) < 0.2 + 0.15 * (states[-1, :, 0] + 1.0), 2.0, -1.0)
        block = block_of(states, np.zeros((HORIZON, count), dtype=np.int64), rewards)
        (total,) = totals([horizon_vector.Outcomes(OUTCOME, PLAIN)], Trajectories(OUTCOME, count, [block]))
        released = horizon_vector.Released.of(total / 2.0**32, Fraction(1, 10**6))
        public = PLAIN.psi(maps.reference(VECTOR, 512)) / maps.ONE
        one = np.asarray(np.linalg.lstsq(public, np.ones(512), rcond=None)[0], dtype=np.float64)
        found = released.value(OUTCOME, one, 0.1).of(PLAIN.psi(np.array([[-1.0, 5.0], [1.0, 5.0], [3.0, 5.0]])))
        assert found.tolist() == pytest.approx([0.2 - 1 / 3, 0.5 - 1 / 3, 0.8 - 1 / 3], abs=0.04)

    def test_of_noise_alone_little_is_made(self) -> None:
        rng = np.random.default_rng(5)
        one, found = np.array([1.7, 0.0, 0.0]), []
        for _ in range(100):
            drawn = rng.normal(size=(4, 4))
            released = horizon_vector.Released.of((drawn + drawn.T) / 2**0.5, Fraction(1))
            value = released.value(OUTCOME, one, released.noise)
            found.append([value.base - (0.5 - 1 / 3), *value.weights])
        assert np.abs(found).mean(axis=0).max() < 0.35
        assert np.abs(found).max() < 1.5


class TestLearner:
    def _learned(self, simulator: windows_vector.Windows, outcome: bool, rho: Fraction = Fraction(1)) -> list[float]:
        found, schema = [], replace(simulator.schema, outcome=outcome)
        features = maps.usual(simulator.vector, schema.actions, 1500, rho)
        for seed in (1, 2, 3):
            data = replace(simulator.data(1500, 2000 + seed), schema=schema)
            made = vapvi_stationary.learn(Curator(data, rho), Concentrated(rho), vapvi_stationary.Parameters(features))
            found.append(worth(simulator, made))
        return found

    @pytest.mark.parametrize(
        "simulator", [windows_vector.UNKNOWN, windows_vector.ENDING, windows_vector.MORTAL], ids=lambda s: s.name
    )
    def test_it_learns_from_outcomes_what_clinicians_do_not_know(self, simulator: windows_vector.Windows) -> None:
        copied = simulator.valued(simulator.clinician, 3000)
        assert np.mean(self._learned(simulator, outcome=True)) > copied + 0.03

    def test_its_scores_are_what_the_rest_of_a_stay_earns(self) -> None:
        """Near the chance to live of those who would be treated so, and not what that rises by, which is near 0."""
        simulator, rho = windows_vector.UNKNOWN, Fraction(100)
        features = maps.Blocks(simulator.vector, simulator.schema.actions, ("1", *simulator.vector.columns))
        curator = Curator(simulator.data(2000, 2000), rho)
        made = vapvi_stationary.learn(curator, Concentrated(rho), vapvi_stationary.Parameters(features))
        begun = np.asarray(simulator.sample(2000, 2001).states)[0]
        assert isinstance(made.rule, policy.Pooled)
        assert float(made.rule.judge(1, begun)[2].mean()) == pytest.approx(worth(simulator, made), abs=0.1)

    def test_without_knowing_that_they_are_outcomes_it_learns_nothing(self) -> None:
        simulator = windows_vector.UNKNOWN
        assert np.mean(self._learned(simulator, outcome=False)) < simulator.valued(simulator.clinician, 3000)

    @pytest.mark.parametrize("schema", [OUTCOME, replace(OUTCOME, horizon=2), replace(OUTCOME, horizon=1)])
    def test_a_plan_costs_what_it_says(self, schema: Schema) -> None:
        parameters = vapvi_stationary.Parameters(PLAIN)
        planned = vapvi_stationary.mechanisms(schema, 50, ONE, parameters)
        assert events.compose(planned) == 1
        (block,) = dataset(OUTCOME, [wild(np.random.default_rng(0), 1, tame=True) for _ in range(50)]).blocks
        short = {name: getattr(block, name)[-schema.horizon :] for name in ("states", "actions", "rewards")}
        made = replace(block, lengths=np.full(50, schema.horizon), **short)
        curator = Curator(Trajectories(schema, 50, [made]), Fraction(1))
        vapvi_stationary.learn(curator, ONE, parameters)
        assert list(curator.log) == planned

    def test_without_outcomes_a_plan_is_what_it_was(self) -> None:
        planned = vapvi_stationary.mechanisms(schema_of(), 50, ONE, vapvi_stationary.Parameters(PLAIN))
        names = [each.statistic for each in planned]
        assert names[:2] == [averages.RewardsAndEnds.name, pooled.Gram.name]
        assert len(names) == 16

    def test_a_group_of_steps_needs_one_before_the_last(self) -> None:
        for groups, fine in ((1, True), (2, True), (3, False), (5, False)):
            parameters = vapvi_stationary.Parameters(PLAIN, time_groups=groups)
            if fine:
                assert events.compose(vapvi_stationary.mechanisms(OUTCOME, 50, ONE, parameters)) == 1
            else:
                with pytest.raises(errors.InvalidParameter, match="at most 2"):
                    vapvi_stationary.mechanisms(OUTCOME, 50, ONE, parameters)


class TestEvaluator:
    @pytest.mark.parametrize(
        "simulator",
        [windows_vector.UNKNOWN, windows_vector.ENDING, windows_vector.KNOWN, windows_vector.MORTAL],
        ids=lambda s: s.name,
    )
    def test_without_noise_it_finds_the_value_whatever_the_ending_says(self, simulator: windows_vector.Windows) -> None:
        judged = usually_done(simulator)
        data = simulator.data(5000, 2101)
        (block,) = data.blocks
        found = evaluators.evaluate(ZeroNoise(data), ONE, fqe.Parameters(), judged)
        assert found.value == pytest.approx(worth(simulator, judged), abs=0.03)
        assert found.behaviour == pytest.approx(float(block.rewards.sum(axis=0).mean()), abs=1e-4)
        assert found.supported_share > 0.7

    def test_taken_for_rewards_of_their_step_outcomes_would_mislead(self) -> None:
        """The control."""
        for simulator in (windows_vector.UNKNOWN, windows_vector.ENDING):
            judged, plain = usually_done(simulator), replace(simulator.schema, outcome=False)
            data = replace(simulator.data(5000, 2101), schema=plain)
            found = evaluators.evaluate(ZeroNoise(data), ONE, fqe.Parameters(), judged)
            assert abs(found.value - worth(simulator, judged)) > 0.1

    def test_with_noise_the_interval_holds_the_truth(self) -> None:
        simulator = windows_vector.UNKNOWN
        judged, held, off = usually_done(simulator), 0, []
        truth = worth(simulator, judged)
        for seed in range(8):
            curator = Curator(simulator.data(1000, 2200 + seed), Fraction(1))
            found = evaluators.evaluate(curator, ONE, fqe.Parameters(), judged)
            held += found.low <= truth <= found.high
            off.append(found.value - truth)
            assert 0 <= found.low <= found.high <= 1
        assert held >= 7
        assert np.abs(off).mean() < 0.1

    def test_what_the_last_decision_does_counts(self) -> None:
        """The outcome is what was done in the only step there is after the first."""
        schema, rng, count = Schema(2, VECTOR, ACTIONS, outcome=True), np.random.default_rng(0), 6000
        states, actions = rng.uniform(VECTOR.low, VECTOR.high, (2, count, 2)), rng.integers(0, 2, (2, count))
        rewards = np.stack([np.zeros(count), rng.random(count) < 0.2 + 0.6 * actions[1]])
        data = Trajectories(schema, count, [block_of(states, actions, rewards)])
        for action in (0, 1):
            found = evaluators.evaluate(ZeroNoise(data), ONE, fqe.Parameters(features=PLAIN), always(action, 2))
            assert found.value == pytest.approx(0.2 + 0.6 * action, abs=0.05)

    def test_patients_with_several_stays_count_once(self) -> None:
        simulator = windows_vector.UNKNOWN
        judged, (made,) = usually_done(simulator), simulator.data(8000, 2102).blocks
        schema = replace(simulator.schema, per_unit=2)
        data = Trajectories(schema, 4000, [replace(made, units=np.arange(8000) // 2)])
        found = evaluators.evaluate(ZeroNoise(data), ONE, fqe.Parameters(), judged)
        assert found.value == pytest.approx(worth(simulator, judged), abs=0.05)

    @pytest.mark.parametrize("rounds", [2, 5, 11, 40])
    def test_a_window_beyond_the_rounds_is_judged_too(self, rounds: int) -> None:
        simulator = windows_vector.UNKNOWN
        judged, parameters = usually_done(simulator), fqe.Parameters(value_rounds=rounds)
        found = evaluators.evaluate(ZeroNoise(simulator.data(3000, 2103)), ONE, parameters, judged)
        assert found.low <= worth(simulator, judged) <= found.high

    @pytest.mark.parametrize("horizon", [1, 2, 60])
    def test_it_spends_what_it_was_given_on_what_it_announced(self, horizon: int) -> None:
        schema = Schema(horizon, VECTOR, ACTIONS, outcome=True)
        states = np.random.default_rng(0).uniform(VECTOR.low, VECTOR.high, (horizon, 30, 2))
        block = block_of(states, np.zeros((horizon, 30), dtype=np.int64), np.ones((horizon, 30)))
        curator = Curator(Trajectories(schema, 30, [block]), Fraction(1))
        found = evaluators.evaluate(curator, ONE, fqe.Parameters(), always(0, horizon))
        planned = evaluators.mechanisms(schema, 30, ONE, fqe.Parameters())
        assert sorted(curator.log, key=str) == sorted(planned, key=str)
        assert events.compose(planned) == 1
        assert len({event.statistic for event in planned}) == len(planned)
        assert 0 <= found.low <= found.value <= found.high <= 1

    def test_no_records_at_all_are_no_reason_to_fail(self) -> None:
        nobody = np.zeros((HORIZON, 0), dtype=np.int64)
        data = Trajectories(OUTCOME, 3, [block_of(np.zeros((HORIZON, 0, 2)), nobody, np.zeros((HORIZON, 0)))])
        found = evaluators.evaluate(ZeroNoise(data), ONE, fqe.Parameters(features=PLAIN), always(0, HORIZON))
        assert found.low <= found.value <= found.high

    def test_without_outcomes_a_plan_is_what_it_was(self) -> None:
        names = {each.statistic for each in evaluators.mechanisms(schema_of(), 50, ONE, fqe.Parameters())}
        assert horizon_vector.Outcomes.name not in names
        assert len(names) == 9 + HORIZON
