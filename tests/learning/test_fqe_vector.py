"""The private evaluation of a policy of vector states: it costs what it says, and its interval holds the truth."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import evaluators, forms, fqe, fqe_vector, policy, pooled_values
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Curator, Pure
from discretion.learning.schemas import Discrete, FloatArray, Schema, Vector
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Trajectories
from discretion.learning.trajectories import block_of as block
from discretion.privacy import events
from tests.curators import ZeroNoise

ONE = Concentrated(Fraction(1))
HORIZON = 6
LINE = Vector(("x", "y"), ((-2.0, 2.0), (0.0, 1.0)))
SCHEMA = Schema(HORIZON, LINE, 2, reward=(-1.0, 1.0))
PLAIN = maps.Blocks(LINE, 2, ("1", "x", "y"))
GIVEN = fqe.Parameters(features=PLAIN)


def rule_of(*weights: FloatArray) -> policy.Policy:
    """Takes the action with the larger ψᵀw, one pair of weights for each group of steps."""
    groups = tuple(pooled_values.Score(0.0, 0.0, True, w, np.zeros((2, 3)), np.full(2, 0.5)) for w in weights)
    return policy.Policy("test", HORIZON, LINE, 2, policy.Pooled(PLAIN, groups, HORIZON, 2.0))


UP = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])  # always action 1
DOWN = -UP
BACK = np.array([[0.0, 0.0, 0.0], [0.0, -1.0, 0.0]])  # towards the middle


def run(units: int, seed: int, judged: policy.Policy | None = None, ending: float = 0.05) -> Trajectories:
    """x drifts up with action 1 and down with 0; a step pays by x, and may be the last. Doctors toss a coin."""
    rng = np.random.default_rng([7, seed])
    states, actions = np.zeros((HORIZON + 1, units, 2)), np.zeros((HORIZON, units), dtype=np.int64)
    rewards, lengths = np.zeros((HORIZON, units)), np.full(units, HORIZON)
    states[0] = np.stack([rng.uniform(-1, 1, units), rng.random(units)], axis=1)
    for step in range(HORIZON):
        actions[step] = rng.integers(0, 2, units) if judged is None else judged.judge(step + 1, states[step])[0]
        x, y = states[step].T
        following = 0.8 * x + 0.4 * (2 * actions[step] - 1) * y + rng.normal(0, 0.1, units)
        states[step + 1] = np.stack([np.clip(following, -2, 2), y], axis=1)
        rewards[step] = np.clip(0.4 * x, -1, 1)
        lengths = np.where((lengths == HORIZON) & (rng.random(units) < ending), step + 1, lengths)
    endings = np.where(lengths < HORIZON, ENDED, CUT_BEFORE)
    made = block(states[:-1], actions, rewards, lengths=lengths, endings=endings, final=states[-1])
    return Trajectories(SCHEMA, units, [made])


def truth(judged: policy.Policy | None) -> float:
    (made,) = run(100_000, 999, judged).blocks
    there = np.arange(HORIZON)[:, None] < made.lengths
    return float((made.rewards * there).sum(axis=0).mean())


class TestEvaluate:
    @pytest.mark.parametrize("judged", [rule_of(UP), rule_of(BACK)], ids=["up", "back"])
    def test_without_noise_it_finds_the_value(self, judged: policy.Policy) -> None:
        found = fqe_vector.evaluate(ZeroNoise(run(5000, 1)), ONE, GIVEN, judged)
        assert found.value == pytest.approx(truth(judged), abs=0.06)
        assert found.low <= truth(judged) <= found.high
        assert found.behaviour == pytest.approx(truth(None), abs=0.05)
        assert found.supported_share > 0.6

    def test_it_tells_a_good_policy_from_a_bad_one(self) -> None:
        up, down = (fqe_vector.evaluate(ZeroNoise(run(5000, 2)), ONE, GIVEN, rule_of(w)) for w in (UP, DOWN))
        assert up.value - down.value == pytest.approx(truth(rule_of(UP)) - truth(rule_of(DOWN)), abs=0.1)

    def test_a_policy_that_changes_with_time_is_judged_by_groups_of_steps(self) -> None:
        judged = rule_of(UP, DOWN)
        found = fqe_vector.evaluate(ZeroNoise(run(8000, 3)), ONE, replace(GIVEN, time_groups=2), judged)
        assert found.value == pytest.approx(truth(judged), abs=0.08)

    def test_with_noise_the_interval_holds_the_truth(self) -> None:
        judged, held, widths = rule_of(UP), 0, []
        worth = truth(judged)
        for seed in range(10):
            curator = Curator(run(2000, 10 + seed), Fraction(1))
            found = fqe_vector.evaluate(curator, ONE, GIVEN, judged)
            held += found.low <= worth <= found.high
            widths.append(found.high - found.low)
            assert abs(found.value - worth) < 0.25
        assert held >= 8
        assert np.mean(widths) < 4.5  # the possible range is −6 to 6

    def test_patients_with_several_stays_count_once(self) -> None:
        (made,) = run(6000, 4).blocks
        schema = replace(SCHEMA, per_unit=2)
        data = Trajectories(schema, 3000, [replace(made, units=np.arange(6000) // 2)])
        found = fqe_vector.evaluate(ZeroNoise(data), ONE, GIVEN, rule_of(UP))
        assert found.value == pytest.approx(truth(rule_of(UP)), abs=0.07)

    def test_a_horizon_beyond_the_rounds_is_judged_too(self) -> None:
        judged = rule_of(UP)
        found = fqe_vector.evaluate(ZeroNoise(run(5000, 5)), ONE, replace(GIVEN, value_rounds=3), judged)
        assert found.low <= truth(judged) <= found.high

    def test_a_policy_nobody_followed_is_said_not_to_be_supported(self) -> None:
        (made,) = run(3000, 6, rule_of(UP)).blocks
        data = Trajectories(SCHEMA, 3000, [made])
        found = fqe_vector.evaluate(Curator(data, Fraction(1)), ONE, GIVEN, rule_of(DOWN))
        followed = fqe_vector.evaluate(Curator(data, Fraction(1)), ONE, GIVEN, rule_of(UP))
        assert found.supported_share < 0.3
        assert followed.supported_share > 0.6
        assert found.high - found.low > followed.high - followed.low

    def test_noise_alone_gives_an_interval_within_what_is_possible(self) -> None:
        privacy = Concentrated(Fraction(1, 10**6))
        for seed in range(4):
            curator = Curator(run(4, seed), privacy.rho)
            found = fqe_vector.evaluate(curator, privacy, GIVEN, rule_of(UP))
            assert -6 <= found.low <= found.value <= found.high <= 6
            assert found.low < found.high
            assert 0 <= found.supported_share <= 1

    def test_a_long_horizon_leaves_numbers_that_can_be_written(self) -> None:
        """What noise adds to where the policy leads would grow from step to step."""
        schema, units, rng = replace(SCHEMA, horizon=5000), 50, np.random.default_rng(0)
        states, nothing = np.zeros((5000, units, 2)), np.zeros((5000, units), dtype=np.int64)
        states[:4] = rng.uniform(0, 1, (4, units, 2))
        endings = np.full(units, ENDED)
        made = block(states, nothing, nothing * 1.0, lengths=np.full(units, 3), endings=endings, final=states[0])
        curator = Curator(Trajectories(schema, units, [made]), Fraction(1))
        rule: Any = rule_of(UP).rule
        judged = replace(rule_of(UP), horizon=5000, rule=replace(rule, horizon=5000))
        found = fqe_vector.evaluate(curator, ONE, replace(GIVEN, value_rounds=2), judged)
        assert np.isfinite(list(vars(found).values())).all()
        assert 0 <= found.supported_share <= 1

    def test_no_records_at_all_are_no_reason_to_fail(self) -> None:
        nobody = np.zeros((HORIZON, 0), dtype=np.int64)
        data = Trajectories(SCHEMA, 3, [block(np.zeros((HORIZON, 0, 2)), nobody, np.zeros((HORIZON, 0)))])
        found = fqe_vector.evaluate(ZeroNoise(data), ONE, GIVEN, rule_of(UP))
        assert found.low <= found.value <= found.high

    def test_it_spends_what_it_was_given_on_what_it_announced(self) -> None:
        half, parameters = Concentrated(Fraction(1, 2)), fqe.Parameters(time_groups=2)
        curator = Curator(run(50, 0), Fraction(1, 2))
        evaluators.evaluate(curator, half, parameters, rule_of(UP, DOWN))
        planned = evaluators.mechanisms(SCHEMA, 50, half, parameters)
        assert sorted(curator.log, key=str) == sorted(planned, key=str)
        assert events.compose(curator.log) == Fraction(1, 2)
        assert len({event.statistic for event in planned}) == len(planned)


class TestResolved:
    def test_features_follow_a_public_rule_and_are_written_out(self) -> None:
        few, many = (evaluators.resolved(SCHEMA, units, ONE, fqe.Parameters()).features for units in (100, 10**6))
        assert few is not None
        assert many is not None
        assert few.width < many.width

    def test_what_was_resolved_is_read_back_the_same(self) -> None:
        resolved = evaluators.resolved(SCHEMA, 5000, ONE, fqe.Parameters())
        again = forms.read("dp-fqe", forms.write(resolved), SCHEMA)
        assert again == resolved
        assert evaluators.mechanisms(SCHEMA, 5000, ONE, resolved) == evaluators.mechanisms(
            SCHEMA, 5000, ONE, fqe.Parameters()
        )

    def test_a_longer_horizon_than_the_rounds_costs_the_budget_too(self) -> None:
        for horizon in (1, 2, 60):
            schema = replace(SCHEMA, horizon=horizon)
            assert events.compose(evaluators.mechanisms(schema, 10, ONE, fqe.Parameters())) == 1


class TestCheck:
    def test_a_policy_that_decides_more_finely_by_the_step_is_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="raise time_groups"):
            evaluators.check_policy(SCHEMA, GIVEN, rule_of(UP, DOWN))
        evaluators.check_policy(SCHEMA, replace(GIVEN, time_groups=2), rule_of(UP, DOWN))
        evaluators.check_policy(SCHEMA, replace(GIVEN, time_groups=6), rule_of(UP, DOWN))
        with pytest.raises(errors.InvalidParameter, match="raise time_groups"):
            evaluators.check_policy(SCHEMA, replace(GIVEN, time_groups=3), rule_of(UP, DOWN, UP, DOWN))

    def test_a_table_over_bins_is_judged_if_its_steps_agree(self) -> None:
        bins = maps.Bins.of(LINE, 2, {"x": [0.0]})
        rows = np.zeros((HORIZON, 2), dtype=np.int64)
        table = policy.Table(rows, rows == 0, rows.astype(np.float64), bins)
        evaluators.check_policy(SCHEMA, GIVEN, policy.Policy("test", HORIZON, LINE, 2, table))
        rows[2, 1] = 1
        with pytest.raises(errors.InvalidParameter, match="raise time_groups"):
            evaluators.check_policy(SCHEMA, GIVEN, policy.Policy("test", HORIZON, LINE, 2, table))

    def test_a_policy_for_other_data_is_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="another horizon"):
            evaluators.check_policy(replace(SCHEMA, horizon=7), GIVEN, rule_of(UP))

    def test_pure_budgets_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="zCDP"):
            evaluators.mechanisms(SCHEMA, 10, Pure(Fraction(1)), GIVEN)

    @pytest.mark.parametrize(
        ("schema", "parameters"),
        [
            (SCHEMA, {"way": "table"}),
            (SCHEMA, {"reach": 2.0}),
            (SCHEMA, {"support": 3.0}),
            (SCHEMA, {"occupancy_rounds": 5}),
            (SCHEMA, {"time_groups": 7}),
            (Schema(3, Discrete(4), 2), {"time_groups": 2}),
        ],
    )
    def test_parameters_of_the_other_kind_of_state_are_refused(
        self, schema: Schema, parameters: dict[str, Any]
    ) -> None:
        with pytest.raises(errors.InvalidParameter):
            evaluators.check(schema, fqe.Parameters(**parameters))

    def test_more_than_memory_can_hold_is_refused_with_what_to_do(self) -> None:
        columns = Vector(tuple(f"c{i}" for i in range(300)), ((0.0, 1.0),) * 300)
        wide, schema = maps.Blocks(columns, 2, columns.columns), Schema(60, columns, 2)
        with pytest.raises(errors.ProblemTooLarge, match="fewer time_groups"):
            evaluators.check(schema, fqe.Parameters(features=wide, time_groups=60))
        with pytest.raises(errors.ProblemTooLarge, match="fewer terms or a shorter horizon"):
            evaluators.check(replace(schema, horizon=1000, per_unit=50), fqe.Parameters(features=wide))
        with pytest.raises(errors.ProblemTooLarge, match="fewer terms"):  # of the features that nobody wrote down
            evaluators.resolved(replace(schema, horizon=1000, per_unit=50), 1000, ONE, fqe.Parameters())

    def test_maps_that_are_no_blocks_are_refused(self) -> None:
        bins: Any = maps.Bins.of(LINE, 2, {"x": [0.0]})
        with pytest.raises(errors.InvalidParameter, match="blocks"):
            fqe.Parameters(features=bins)
