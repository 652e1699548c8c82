"""The private evaluation of a policy: it costs what it says, and its interval holds the truth."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from discretion import errors
from discretion.learning import evaluators, forms, fqe, judgements, occupancy, policy
from discretion.learning.curator import Concentrated, Curator, Pure
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Trajectories, block_of
from discretion.privacy import events
from tests.curators import ZeroNoise

ONE = Concentrated(Fraction(1))
Way = Literal["rounds", "table"]
WAYS = pytest.mark.parametrize("way", ["rounds", "table"])


@dataclass(frozen=True)
class World:
    """A small chain of states: it ends with a reward by action and state, or goes on."""

    schema: Schema
    kernel: FloatArray  # (S, A, S + 1), the last is the end
    pay: FloatArray  # (S, A) of a step
    behaviour: FloatArray  # (S, A)

    def value(self, decisions: IntArray) -> float:
        states = self.schema.count
        values, index = np.zeros(states + 1), np.arange(states)
        for step in reversed(range(self.schema.horizon)):
            chosen = decisions[step]
            values[:-1] = self.pay[index, chosen] + (self.kernel @ values)[index, chosen]
        return float(values[:-1].mean())

    def copied(self) -> float:
        values = np.zeros(self.schema.count + 1)
        for _ in range(self.schema.horizon):
            values[:-1] = ((self.pay + self.kernel @ values) * self.behaviour).sum(axis=1)
        return float(values[:-1].mean())

    def data(self, units: int, seed: int) -> Trajectories:
        rng, horizon, states = np.random.default_rng(seed), self.schema.horizon, self.schema.count
        path = np.zeros((horizon + 1, units), dtype=np.int64)
        actions, rewards = np.zeros((horizon, units), dtype=np.int64), np.zeros((horizon, units))
        path[0], lengths, going = rng.integers(0, states, units), np.zeros(units, dtype=np.int64), np.arange(units)
        for step in range(horizon):
            here = path[step, going]
            chosen = (rng.random((len(here), 1)) > self.behaviour[here].cumsum(axis=1)).sum(axis=1)
            following = (rng.random((len(here), 1)) > self.kernel[here, chosen].cumsum(axis=1)).sum(axis=1)
            actions[step, going], rewards[step, going] = chosen, self.pay[here, chosen]
            lengths[going], path[step + 1, going] = step + 1, following
            going = going[following < states]
        last = path[lengths, np.arange(units)]
        endings = np.where(last == states, ENDED, CUT_BEFORE)
        path = np.minimum(path, states - 1)
        block = block_of(
            path[:-1], actions, rewards, lengths=lengths, endings=endings, final=np.minimum(last, states - 1)
        )
        return Trajectories(self.schema, units, [block])


def world(states: int = 6, horizon: int = 8) -> World:
    rng = np.random.default_rng(1)
    kernel = rng.dirichlet(np.ones(states + 1) * 0.7, size=(states, 3))
    schema = Schema(horizon, Discrete(states), 3, reward=(-1.0, 1.0))
    return World(schema, kernel, rng.uniform(-1, 1, (states, 3)), rng.dirichlet(np.ones(3) * 2, size=states))


def judged_policy(schema: Schema, decisions: IntArray) -> policy.Policy:
    shape = (schema.horizon, schema.count)
    return policy.of_table("test", schema, decisions, np.ones(shape, dtype=np.bool_), np.zeros(shape))


def by_step(schema: Schema) -> IntArray:
    return np.random.default_rng(2).integers(0, schema.actions, (schema.horizon, schema.count))


class TestEvaluate:
    @WAYS
    @pytest.mark.parametrize("changing", [False, True])
    def test_without_noise_it_finds_the_value_either_way(self, way: Way, changing: bool) -> None:
        public = world()
        decisions = by_step(public.schema)
        decisions = decisions if changing else np.broadcast_to(decisions[0], decisions.shape)
        judged, parameters = judged_policy(public.schema, decisions), fqe.Parameters(way=way)
        found = fqe.evaluate(ZeroNoise(public.data(8_000, 3)), ONE, parameters, judged)
        assert found.value == pytest.approx(public.value(decisions), abs=0.08)
        assert found.low <= public.value(decisions) <= found.high
        assert found.behaviour == pytest.approx(public.copied(), abs=0.07)
        assert found.supported_share > 0.95

    @WAYS
    def test_with_noise_the_interval_holds_the_truth_nearly_always(self, way: Way) -> None:
        public = world()
        decisions = by_step(public.schema)
        judged, parameters = judged_policy(public.schema, decisions), fqe.Parameters(way=way)
        truth, held, widths = public.value(decisions), 0, []
        for seed in range(10):
            found = fqe.evaluate(Curator(public.data(3000, seed), Fraction(1)), ONE, parameters, judged)
            held += found.low <= truth <= found.high
            widths.append(found.high - found.low)
        assert held >= 7  # at 90 % fewer than that happen once in 80 times
        assert np.mean(widths) < 0.2 * 16  # the possible range is −8 to 8

    @WAYS
    def test_patients_with_several_stays_count_once(self, way: Way) -> None:
        public = world()
        decisions = by_step(public.schema)
        (block,) = public.data(8_000, 3).blocks
        schema = replace(public.schema, per_unit=2)
        data = Trajectories(schema, 4_000, [replace(block, units=np.arange(8_000) // 2)])
        found = fqe.evaluate(ZeroNoise(data), ONE, fqe.Parameters(way=way), judged_policy(schema, decisions))
        assert found.value == pytest.approx(public.value(decisions), abs=0.08)
        assert found.low <= public.value(decisions) <= found.high
        assert found.behaviour == pytest.approx(public.copied(), abs=0.07)

    def test_a_horizon_beyond_the_rounds_is_judged_too(self) -> None:
        public = world(horizon=30)
        decisions = np.broadcast_to(by_step(public.schema)[0], (30, 6))
        judged, parameters = judged_policy(public.schema, decisions), fqe.Parameters(value_rounds=6, way="rounds")
        found = fqe.evaluate(ZeroNoise(public.data(8_000, 3)), ONE, parameters, judged)
        assert found.low <= public.value(decisions) <= found.high
        assert found.value == pytest.approx(public.value(decisions), abs=0.4)

    def test_a_policy_nobody_followed_is_said_not_to_be_supported(self) -> None:
        public = world()
        never = replace(public, behaviour=np.tile((0.5, 0.5, 0.0), (6, 1)))
        decisions = np.full((8, 6), 2)
        judged, parameters = judged_policy(public.schema, decisions), fqe.Parameters()
        found = fqe.evaluate(Curator(never.data(3000, 0), Fraction(1)), ONE, parameters, judged)
        assert found.supported_share < 0.6  # noise alone lets a state pass once in 40 times
        supported = fqe.evaluate(Curator(public.data(3000, 0), Fraction(1)), ONE, parameters, judged)
        assert supported.supported_share > 0.5
        assert found.high - found.low > supported.high - supported.low

    @WAYS
    def test_decisions_that_few_took_in_each_state_are_judged_together(self, way: Way) -> None:
        """Every 25th visit does what the policy does, which pays most: too few in each state, enough in all."""
        states, pay = 60, np.tile((0.0, 0.0, 1.0), (60, 1))
        kernel = np.zeros((states, 3, states + 1))
        kernel[:, :, :-1] = 1 / states
        schema = Schema(4, Discrete(states), 3)
        public = World(schema, kernel, pay, np.tile((0.48, 0.48, 0.04), (states, 1)))
        decisions = np.full((4, states), 2)
        judged, parameters = judged_policy(schema, decisions), fqe.Parameters(way=way)
        rho = Fraction(1, 10)
        asked = Concentrated(rho), parameters, judged
        found = [fqe.evaluate(Curator(public.data(8000, 5), rho), *asked) for _ in range(4)]
        assert np.mean([one.supported_share for one in found]) < 0.7  # 0.55 ± 0.06 each
        for one in found:
            assert one.behaviour < 0.3
            assert one.value > 2.0  # of 4
            assert one.low <= 4.0 <= one.high

    def test_nothing_but_noise_gives_an_interval_within_what_is_possible(self) -> None:
        public = world()
        judged, parameters = judged_policy(public.schema, by_step(public.schema)), fqe.Parameters()
        for seed in range(3):
            found = fqe.evaluate(
                Curator(public.data(20, seed), Fraction(1, 1000)), Concentrated(Fraction(1, 1000)), parameters, judged
            )
            assert -8 <= found.low <= found.value <= found.high <= 8
            assert found.low < found.high
            assert found.behaviour_low < found.behaviour_high
            assert 0 <= found.supported_share <= 1

    def test_few_patients_and_a_long_horizon_leave_a_number_all_the_same(self) -> None:
        public = world(horizon=40)
        privacy = Concentrated(Fraction(1, 10**6))
        for seed in range(3):
            curator = Curator(public.data(4, seed), privacy.rho)
            found = fqe.evaluate(
                curator, privacy, fqe.Parameters(), judged_policy(public.schema, by_step(public.schema))
            )
            assert np.isfinite([found.value, found.low, found.high, found.supported_share]).all()
            assert found.low <= found.value <= found.high

    def test_no_records_at_all_are_no_reason_to_fail(self) -> None:
        schema, nobody = Schema(5, Discrete(4), 2, per_unit=2), np.zeros((5, 0), dtype=np.int64)
        data = Trajectories(schema, 3, [block_of(nobody, nobody, np.zeros((5, 0)))])
        judged, parameters = judged_policy(schema, np.zeros((5, 4), dtype=np.int64)), fqe.Parameters()
        found = fqe.evaluate(ZeroNoise(data), ONE, parameters, judged)
        assert found.low <= found.value <= found.high

    @pytest.mark.parametrize("units", [6, 7, 5000])
    def test_it_spends_what_it_was_given_on_what_it_announced(self, units: int) -> None:
        """A table needs n√ρ of S²·A/25, here 6.1 units at ρ = ½; fewer are judged by rounds."""
        public = world()
        table = units**2 * Fraction(1, 2) >= Fraction(public.schema.count**2 * public.schema.actions, 25) ** 2
        assert table == (units > 6)
        judged, parameters = judged_policy(public.schema, by_step(public.schema)), fqe.Parameters()
        curator = Curator(public.data(units, 0), Fraction(1, 2))
        fqe.evaluate(curator, Concentrated(Fraction(1, 2)), parameters, judged)
        planned = evaluators.mechanisms(public.schema, units, Concentrated(Fraction(1, 2)), parameters)
        assert sorted(curator.log, key=str) == sorted(planned, key=str)
        assert events.compose(curator.log) == Fraction(1, 2)
        tables = [event for event in planned if len(event.shape) == 2]
        assert len(tables) == table


class TestMechanisms:
    @pytest.mark.parametrize("units", [4, 5])  # by rounds and, from n√ρ = 6²·3/25 on, by a table
    def test_each_has_a_name_of_its_own(self, units: int) -> None:
        planned = evaluators.mechanisms(world().schema, units, ONE, fqe.Parameters())
        assert len({event.statistic for event in planned}) == len(planned)

    def test_horizons_of_one_step_and_beyond_the_rounds_cost_the_budget_too(self) -> None:
        for horizon in (1, 2, 60):
            schema = Schema(horizon, Discrete(6), 3)
            assert events.compose(evaluators.mechanisms(schema, 10, ONE, fqe.Parameters())) == 1


class TestResolved:
    @pytest.mark.parametrize(("units", "way"), [(9, "rounds"), (10, "table")])
    def test_the_switch_is_exact(self, units: int, way: str) -> None:
        """n√ρ/(S²·A) of 1/25 is enough, to the last digit, whatever a machine's square root says."""
        schema, rho = Schema(5, Discrete(5), 4), Fraction(4, 25)
        assert 10 * Fraction(2, 5) == fqe.FEW_STATES * 5**2 * 4
        assert fqe.resolved(schema, units, Concentrated(rho), fqe.Parameters()).way == way
        tiny = Fraction(1, 10**9)  # the least a ledger knows
        below = fqe.resolved(schema, 10, Concentrated(rho - tiny), fqe.Parameters())
        assert below.way == "rounds"

    @pytest.mark.parametrize(
        ("units", "reach"),
        [(1, 1.0), (60, 1.0), (62, 1.0), (63, 1.01), (60 * 16 - 1, 1.99), (60 * 16, 2.0), (10**7, 4.0)],
    )
    def test_radii_grow_with_the_fourth_root_in_whole_hundredths(self, units: int, reach: float) -> None:
        assert fqe.resolved(Schema(5, Discrete(3), 2), units, ONE, fqe.Parameters()).reach == reach

    def test_what_was_resolved_stays_under_another_rule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        schema = world().schema
        before = fqe.resolved(schema, 5000, ONE, fqe.Parameters())
        planned = evaluators.mechanisms(schema, 5000, ONE, before)
        monkeypatch.setattr(fqe, "FEW_STATES", Fraction(10**9))
        monkeypatch.setattr(fqe, "PLENTY", 1)
        assert evaluators.mechanisms(schema, 5000, ONE, fqe.Parameters()) != planned
        assert evaluators.mechanisms(schema, 5000, ONE, before) == planned
        assert fqe.resolved(schema, 5000, ONE, before) == before

    def test_a_certificate_can_write_and_read_it(self) -> None:
        schema = world().schema
        before = fqe.resolved(schema, 5000, ONE, fqe.Parameters())
        assert forms.write(before)["way"] == "table"
        assert forms.read(fqe.NAME, forms.write(before), schema) == before

    def test_a_table_that_is_too_large_is_refused_and_never_chosen(self) -> None:
        schema = Schema(5, Discrete(10_000), 5)
        assert fqe.resolved(schema, 10**7, Concentrated(Fraction(1000)), fqe.Parameters()).way == "rounds"
        with pytest.raises(errors.ProblemTooLarge, match="rounds"):
            fqe.check(schema, fqe.Parameters(way="table"))

    def test_a_table_is_chosen_if_it_fits_for_every_policy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of 6 states, 3 actions and 2 steps: (6·2 + 1)·8 entries, if it decides otherwise at the second step."""
        schema = world(horizon=2).schema
        assert fqe.most_drawn(schema) == 104
        assert fqe.most_drawn(world().schema) == (6 * 3 + 1) * 8
        for most, way in ((104, "table"), (103, "rounds")):
            monkeypatch.setattr(fqe, "MAX_DRAWN", most)
            assert fqe.resolved(schema, 5000, ONE, fqe.Parameters()).way == way

    def test_states_are_what_limits_a_table_not_actions(self) -> None:
        for actions in (2, 1000):
            fqe.check(Schema(5, Discrete(8_000), actions), fqe.Parameters(way="table"))
            with pytest.raises(errors.ProblemTooLarge, match="rounds"):
                fqe.check(Schema(5, Discrete(8_200), actions), fqe.Parameters(way="table"))

    def test_more_states_than_can_be_kept_are_refused_with_what_to_do(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="fewer states"):
            fqe.check(Schema(5, Discrete(10_000_000), 5), fqe.Parameters())


class TestScaled:
    @pytest.mark.parametrize("numbers", [(np.nan, 1.0, 0.5), (0.0, np.inf, 0.5), (0.0, 1.0, np.nan)])
    def test_where_noise_left_no_number_everything_is_possible_and_nothing_supported(
        self, numbers: tuple[float, float, float]
    ) -> None:
        value, half, share = numbers
        found = judgements.scaled(Schema(4, Discrete(2), 2), value, half, judgements.Received(2.0, 0.1, 1.0), share)
        assert (found.low, found.high, found.supported_share) == (0.0, 4.0, 0.0)


class TestExtrapolate:
    def test_a_geometric_series_is_continued(self) -> None:
        values = np.zeros((11, 3))
        for step in range(9, -1, -1):
            values[step] = values[step + 1] + np.array([1.0, 2.0, 0.0]) * 0.5 ** (9 - step)
        short = values.copy()
        short[:6] = 0.0
        occupancy._extrapolate(short, np.array([1.0, 1.0]), 6)
        assert np.allclose(short, values)


class TestCheck:
    def test_a_policy_for_other_data_is_refused(self) -> None:
        judged = judged_policy(Schema(5, Discrete(4), 2), np.zeros((5, 4), dtype=np.int64))
        with pytest.raises(errors.InvalidParameter, match="another horizon"):
            fqe.decisions(world().schema, judged)

    def test_a_policy_whose_decisions_are_too_many_for_a_table_is_refused_before_anything_is_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        public, table = world(), fqe.Parameters(way="table")
        changing = by_step(public.schema)
        taken = sum(len(set(changing[:, state])) for state in range(6))
        alike, changes = (
            judged_policy(public.schema, each) for each in (np.broadcast_to(changing[0], changing.shape), changing)
        )
        monkeypatch.setattr(fqe, "MAX_DRAWN", (taken + 1) * 8)
        evaluators.check_policy(public.schema, table, changes)
        monkeypatch.setattr(fqe, "MAX_DRAWN", (taken + 1) * 8 - 1)
        evaluators.check_policy(public.schema, table, alike)
        evaluators.check_policy(public.schema, fqe.Parameters(), changes)  # the rule will not take a table
        curator = Curator(public.data(50, 0), Fraction(1))
        for refuse in (
            lambda: evaluators.check_policy(public.schema, table, changes),
            lambda: fqe.evaluate(curator, ONE, table, changes),
        ):
            with pytest.raises(errors.ProblemTooLarge, match=f"{taken} decisions.*rounds"):
                refuse()
        assert curator.log == ()
        assert fqe.resolved(public.schema, 5000, ONE, fqe.Parameters()).way == "rounds"

    def test_vector_states_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="discrete"):
            fqe.check(Schema(3, Vector(("a",), ((0.0, 1.0),)), 2), fqe.Parameters())

    def test_pure_budgets_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="zCDP"):
            evaluators.mechanisms(world().schema, 10, Pure(Fraction(1)), fqe.Parameters())

    @pytest.mark.parametrize(
        "wrong",
        [
            {"value_rounds": 1},
            {"occupancy_rounds": 0},
            {"support": 0.0},
            {"allowance": -1.0},
            {"shares": (1, 2)},
            {"way": "both"},
            {"reach": 0.5},
        ],
    )
    def test_constants_out_of_range_are_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(errors.InvalidParameter):
            fqe.Parameters(**wrong)

    @pytest.mark.parametrize("rounds", [{"value_rounds": 6}, {"occupancy_rounds": 6}])
    def test_rounds_of_an_evaluation_by_a_table_are_refused(self, rounds: dict[str, int]) -> None:
        schema = world().schema
        with pytest.raises(errors.InvalidParameter, match="of way 'rounds'"):
            fqe.check(schema, fqe.Parameters(way="table", **rounds))  # type: ignore[arg-type]
        assert fqe.resolved(schema, 10**9, ONE, fqe.Parameters()).way == "table"
        with pytest.raises(errors.InvalidParameter, match="of way 'rounds'"):
            evaluators.mechanisms(schema, 10**9, ONE, fqe.Parameters(**rounds))  # type: ignore[arg-type]


class TestDocument:
    def test_it_says_the_same_as_the_evaluation(self) -> None:
        found = judgements.Evaluation(1.0, 0.5, 1.5, 0.8, 0.7, 0.9, 0.75)
        document = found.document()
        assert document["value"] == 1.0
        assert document["behaviour"] == {"value": 0.8, "low": 0.7, "high": 0.9}
        assert document["level"] == 0.9
        assert document["supported_share"] == 0.75
