"""The sums that a judged policy is evaluated with: no patient moves them further than they say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import followed, horizon, outcomes, sums
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Bounded, Trajectories, block_of

STATES, ACTIONS, HORIZON = 4, 2, 5
Statistic = Any  # sums.Statistic


def schema_of(per_unit: int = 1, **more: Any) -> Schema:
    return Schema(HORIZON, Discrete(STATES), ACTIONS, reward=(-1.0, 2.0), per_unit=per_unit, **more)


def judged_of(schema: Schema) -> followed.Judged:
    """Decides by the step in state 0; trusts one decision of state 0 and that of state 1; state 3 is in the pool."""
    decisions = np.zeros((HORIZON, STATES), dtype=np.int64)
    decisions[::2, 0], decisions[:, 2] = 1, 1
    trusted = np.zeros((STATES, ACTIONS), dtype=np.bool_)
    trusted[0, 1] = trusted[1, 0] = True
    potential = np.array([0.4, np.nan, -9.0, 0.1, 5.0]) if followed.settles(schema) else None
    return followed.Judged(schema, decisions, followed.Limits(3, 4), trusted, np.array([0, 1, 2, STATES]), potential)


def statistics(schema: Schema, wild: bool = True) -> list[Statistic]:
    judged, rng = judged_of(schema), np.random.default_rng(3)
    values = rng.normal(size=(HORIZON + 1, STATES + 1)) * 3
    weights = rng.normal(size=STATES + 1) * 4
    if wild:  # what a learner hands over may be anything
        values[0, 0], values[1, 1], weights[2] = np.nan, np.inf, np.nan
    by_step = np.abs(rng.normal(size=(HORIZON, STATES + 1))) * 3
    stands = rng.integers(0, STATES * (ACTIONS + 1) + 1, (HORIZON, STATES))
    alike = np.abs(rng.normal(size=(2, STATES + 1))) * 20
    if wild:
        alike[1, STATES] = np.inf
    settling = weights if followed.settles(schema) else None
    scores = [
        outcomes.Scores(judged, values, weights, None, 0.3, 0.5, settling=settling),
        outcomes.Scores(judged, values, weights, None, 0.3, 0.5, alike, settling),
        outcomes.Scores(judged, values, by_step, stands, -0.3, 2.0, settling=settling),
        outcomes.Scores(judged, values, by_step, stands, -0.3, 2.0, alike, settling),
    ]
    return [
        horizon.Settled(schema),
        followed.UnitSizes(judged),
        followed.Received(schema, -5 / 3, 10 / 3),
        followed.Followed(judged),
        followed.Visited(judged),
        followed.Standing(judged),
        outcomes.Arrivals(judged, weights, 0.7),
        outcomes.Arrivals(judged, weights, 0.7, 1),
        outcomes.Transitions(judged, 1.5),
        outcomes.Transitions(judged, 0.3, np.array([1, 2, 10, 12])),  # some of them trusted, places and the pool
        outcomes.Targets(judged, None, 0.0, 0.4),
        outcomes.Targets(judged, values[1], 0.1, 0.6, 1),
        *scores,
        *(outcomes.ScoreSizes(score) for score in scores),
    ]


COUNT = len(statistics(schema_of()))
EACH = pytest.mark.parametrize("index", range(COUNT))


# --- units -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """The trajectories of one patient, one column each."""

    states: IntArray  # (H, T)
    actions: IntArray
    rewards: FloatArray
    lengths: IntArray  # (T,)
    endings: IntArray
    final: IntArray


def wild_unit(schema: Schema, rng: np.random.Generator, count: int | None = None) -> Unit:
    """Any number of trajectories, of any length, with anything in them."""
    count = int(rng.integers(0, schema.per_unit + 2)) if count is None else count
    shape = (HORIZON, count)
    odd = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0, 2.0], shape)
    return Unit(
        rng.integers(-1, STATES + 1, shape),
        rng.integers(-1, ACTIONS + 1, shape),
        np.where(rng.random(shape) < 0.5, odd, rng.uniform(-1, 2, shape)),
        rng.integers(-1, HORIZON + 2, count),
        rng.integers(0, 3, count),
        rng.integers(-1, STATES + 1, count),
    )


def steady(
    schema: Schema,
    state: int,
    action: int,
    reward: float,
    final: int = 0,
    ending: int = CUT_BEFORE,
    length: int = HORIZON,
) -> Unit:
    """Trajectories that never move before their end: the most that one cell can get."""
    shape, count = (HORIZON, schema.per_unit), schema.per_unit
    return Unit(
        np.full(shape, state),
        np.full(shape, action),
        np.full(shape, reward),
        np.full(count, length),
        np.full(count, ending),
        np.full(count, final),
    )


def block_with(units: Sequence[Unit], positions: Sequence[int], span: tuple[int, int] | None = None) -> Block:
    def beside(name: str, axis: int) -> Any:
        return np.concatenate([getattr(unit, name) for unit in units], axis=axis)

    places = np.repeat(np.asarray(positions, dtype=np.int64), [len(unit.lengths) for unit in units])
    steps = {name: beside(name, 1) for name in ("states", "actions", "rewards")}
    rest = {name: beside(name, 0) for name in ("lengths", "endings", "final")}
    return Block(units=places, span=span, **steps, **rest)


def total(statistic: Statistic, units: Sequence[Unit]) -> IntArray:
    data = Trajectories(statistic.schema, len(units), [block_with(units, range(len(units)))])
    return sums.totals([statistic], data)[0]


def movement(statistic: Statistic, one: Unit, other: Unit, rest: Sequence[Unit] = ()) -> Fraction:
    """‖change‖² when one unit is replaced, exactly, in the statistic's own unit."""
    change = total(statistic, [one, *rest]).ravel() - total(statistic, [other, *rest]).ravel()
    return sum((Fraction(int(c)) ** 2 for c in change), Fraction(0)) * statistic.resolution**2


# --- sensitivities ---------------------------------------------------------------------------------------------------


class TestSensitivity:
    @EACH
    @settings(max_examples=60, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), per_unit=st.integers(1, 3), outcome=st.booleans())
    def test_no_patient_moves_a_sum_further_than_it_says(
        self, index: int, seed: int, per_unit: int, outcome: bool
    ) -> None:
        rng, schema = np.random.default_rng(seed), schema_of(per_unit, outcome=outcome)
        statistic = statistics(schema)[index]
        one, other, *rest = (wild_unit(schema, rng) for _ in range(5))
        assert movement(statistic, one, other, rest) <= statistic.squared_sensitivity

    @EACH
    @pytest.mark.parametrize("per_unit", [1, 3])
    @pytest.mark.parametrize("outcome", [False, True])
    def test_nor_do_those_who_never_move_and_earn_the_most(self, index: int, per_unit: int, outcome: bool) -> None:
        schema = schema_of(per_unit, total=(-9.0, 9.0), outcome=outcome)
        statistic = statistics(schema, wild=False)[index]
        units = [
            steady(schema, state, action, reward, final, ending)
            for state, action in np.ndindex(STATES, ACTIONS)
            for reward, final, ending in ((2.0, 0, CUT_BEFORE), (-1.0, 3, ENDED), (2.0, 1, CUT))
        ]
        empty = wild_unit(schema, np.random.default_rng(0), 0)
        found = [total(statistic, [unit]) for unit in [*units, empty]]
        moved = max(int(((a - b).astype(object) ** 2).sum()) for a in found for b in found)
        assert moved * statistic.resolution**2 <= statistic.squared_sensitivity

    @pytest.mark.parametrize("per_unit", [1, 2])
    def test_the_worst_patients_reach_the_bound(self, per_unit: int) -> None:
        """The control: were any of these bounds stated a hundredth lower, this would fail."""
        schema = schema_of(per_unit)
        judged = replace(judged_of(schema), limits=followed.Limits(1, 1))
        values, flat = np.zeros((HORIZON + 1, STATES + 1)), np.zeros(STATES + 1)
        values[0, 0], values[0, 1] = 9.0, -9.0
        score, leads = outcomes.Scores(judged, values, flat), np.array([50.0, -50.0, 0.0, 0.0, 0.0])
        ends = (steady(schema, 0, 1, 0.0), steady(schema, 1, 0, 0.0))
        brief = [steady(schema, 1, 0, 0.0, final, length=1) for final in (0, 1)]
        starts = [steady(schema, state, 1 - state, 0.0, length=1, ending=ENDED) for state in (0, 1)]
        onward = [steady(schema, state, 1 - state, 0.0, 2, length=1) for state in (0, 1)]
        worst: list[tuple[Statistic, Unit, Unit]] = [
            (followed.Received(schema, -5 / 3, 10 / 3), steady(schema, 1, 0, 2.0), steady(schema, 1, 0, -1.0)),
            (followed.Followed(judged), *ends),
            (followed.Visited(judged), *ends),
            (outcomes.Transitions(judged, 1.0), *ends),
            (outcomes.Transitions(judged, 1.0, np.array([1, 2])), *ends),
            (outcomes.Arrivals(judged, flat, 1.0), starts[0], starts[1]),
            (outcomes.Arrivals(judged, leads, 1.0, 1), onward[0], onward[1]),
            (outcomes.Targets(judged, leads, 0.0, 1.0, 1), brief[0], brief[1]),
            (score, *ends),
            (outcomes.ScoreSizes(replace(score, centre=-9.0)), *ends),
        ]
        for statistic, one, other in worst:
            share = movement(statistic, one, other) / statistic.squared_sensitivity
            assert Fraction(99, 100) < share <= 1, statistic

    @pytest.mark.parametrize("per_unit", [1, 2])
    def test_a_patient_who_always_followed_and_earned_all_is_as_far_from_none_as_sizes_say(self, per_unit: int) -> None:
        schema = replace(schema_of(per_unit), reward=(0.0, 1.0))
        statistic, none = followed.UnitSizes(judged_of(schema)), wild_unit(schema, np.random.default_rng(0), 0)
        share = movement(statistic, steady(schema, 1, 0, 1.0), none) / statistic.squared_sensitivity
        assert Fraction(99, 100) < share <= 1

    def test_a_patient_who_was_in_rare_states_only_is_as_far_from_none_as_it_is_said(self) -> None:
        many = 400
        schema = Schema(many, Discrete(many), 2)
        nowhere, place = np.zeros((many, many), dtype=np.int64), np.full(many, many)
        statistic = followed.Standing(
            followed.Judged(schema, nowhere, limits=followed.Limits(1, many - 1), place=place)
        )
        path = np.arange(many)[:, None]
        block = block_of(path, np.zeros_like(path), np.zeros((many, 1)), final=path[0])
        one, none = (
            sums.totals([statistic], Trajectories(schema, 1, [replace(block, lengths=np.array([steps]))]))[0]
            for steps in (many, 0)
        )
        moved = int(((one - none).astype(object) ** 2).sum()) * statistic.resolution**2
        assert Fraction(99, 100) < moved / statistic.squared_sensitivity <= 1


class TestPurity:
    @EACH
    @settings(max_examples=15, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), outcome=st.booleans())
    def test_neither_order_nor_blocks_change_a_bit(self, index: int, seed: int, outcome: bool) -> None:
        rng, schema = np.random.default_rng(seed), schema_of(2, outcome=outcome)
        statistic = statistics(schema)[index]
        units = [wild_unit(schema, rng) for _ in range(6)]
        order = rng.permutation(6)
        shuffled = block_with([units[i] for i in order], [int(i) for i in order])
        halves = [block_with(units[:2], [0, 1], (0, 2)), block_with(units[2:], [2, 3, 4, 5], (2, 6))]
        whole = total(statistic, units)
        for blocks in ([shuffled], halves):
            assert (sums.totals([statistic], Trajectories(schema, 6, blocks))[0] == whole).all()

    @EACH
    @pytest.mark.parametrize("outcome", [False, True])
    def test_patients_simply_add_up(self, index: int, outcome: bool) -> None:
        rng, schema = np.random.default_rng(5), schema_of(2, outcome=outcome)
        statistic = statistics(schema)[index]
        units = [wild_unit(schema, rng) for _ in range(8)]
        assert (total(statistic, units) == sum(total(statistic, [unit]) for unit in units)).all()


# --- which visits are taken ------------------------------------------------------------------------------------------


class TestWithin:
    def test_visits_are_taken_in_order_until_their_counts_are_too_long(self) -> None:
        units = np.array([0, 0, 0, 0, 1, 1, 1])
        cells = np.array([7, 7, 5, 5, 1, 2, 3])
        counted = np.array([True, True, True, True, True, False, True])
        # unit 0: 1, then 2² = 4, then 4 + 1 = 5, then 4 + 4 = 8
        assert followed.within(units, cells, counted, 5).tolist() == [True, True, True, False, True, False, True]
        assert followed.within(units, cells, counted, 1).tolist() == [True, False, False, False, True, False, False]

    @settings(max_examples=80, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), limit=st.integers(1, 12))
    def test_whether_a_visit_is_taken_does_not_depend_on_later_ones(self, seed: int, limit: int) -> None:
        rng = np.random.default_rng(seed)
        units = np.sort(rng.integers(0, 4, 30))
        cells, counted = rng.integers(0, 3, 30), rng.random(30) < 0.7
        taken = followed.within(units, cells, counted, limit)
        cut = int(rng.integers(1, 30))
        assert (followed.within(units[:cut], cells[:cut], counted[:cut], limit) == taken[:cut]).all()
        for unit in range(4):
            counts = np.bincount(cells[taken & (units == unit)], minlength=1)
            assert (counts**2).sum() <= limit
        assert not (taken & ~counted).any()


class TestShortened:
    @settings(max_examples=80, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), size=st.floats(1.0, 1e9))
    def test_no_vector_is_longer_than_the_grid_and_no_short_one_is_changed(self, seed: int, size: float) -> None:
        rng = np.random.default_rng(seed)
        units, cells = rng.integers(0, 3, 20), rng.integers(0, 5, 20)
        whole = np.trunc(rng.normal(size=20) * size)
        for unit in range(3):
            mine = units == unit
            found, entries = followed.shortened(np.zeros(int(mine.sum()), dtype=np.int64), cells[mine], whole[mine], 5)
            assert sum(int(entry) ** 2 for entry in entries) <= followed.ONE**2
            plain = np.bincount(cells[mine], weights=whole[mine], minlength=5)
            if sum(int(entry) ** 2 for entry in plain) <= (followed.ONE - 1) ** 2:
                assert (plain[found] == entries).all()


class TestChosen:
    def test_followed_visits_stand_for_trusted_decisions_and_everyone_elsewhere(self) -> None:
        schema = schema_of()
        states = np.array([[0], [0], [1], [2], [3]])
        actions = np.array([[1], [1], [1], [0], [1]])
        block = block_of(states, actions, np.zeros((HORIZON, 1)), final=np.array([0]))
        judged = replace(judged_of(schema), limits=followed.Limits(100, 100))
        chosen = judged.chosen(Bounded(schema, block, 0, 1))
        # (0, 1) is decided at even steps only; (1, 1) never; states 2 and 3 have no trusted decision
        assert chosen.any_step.tolist() == [True, True, False, True, True]
        assert chosen.own_step.tolist() == [True, False, False, True, True]
        # states 2 and 3 are everyone's; the policy would have acted as at the first step only
        assert chosen.stand_in.tolist() == [False, False, False, True, True]
        assert chosen.followed.tolist() == [True, False, False, False, False]
        pairs = STATES * ACTIONS
        assert chosen.cells[[0, 1, 3, 4]].tolist() == [1, 1, pairs + 2, pairs + STATES]

    def test_tables_of_another_shape_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="schema"):
            followed.Judged(schema_of(), np.zeros((HORIZON, STATES + 1), dtype=np.int64))


class TestScores:
    @pytest.mark.parametrize("by_step", [False, True])
    def test_where_everyone_stands_in_those_who_did_alike_can_count_for_all(self, by_step: bool) -> None:
        """Only state 2 has no trusted decision and is no pool; the policy takes action 1 there."""
        schema = schema_of()
        states = np.array([[2, 2, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
        actions = np.zeros_like(states)
        actions[0] = [1, 0, 1]
        rewards = np.where(states == 2, 1.0, 0.0) + np.where(states == 0, 0.5, 0.0) * (np.arange(5) == 0)[:, None]
        block = block_of(states, actions, rewards, lengths=np.ones(3, dtype=np.int64), endings=np.full(3, ENDED))
        judged = replace(judged_of(schema), limits=followed.Limits(100, 100))
        values, alike = np.zeros((HORIZON + 1, STATES + 1)), np.ones((2, STATES + 1))
        alike[:, 2] = 0.0, 4.0
        weights, cells = np.ones(STATES + 1), None
        if by_step:  # all at the first step
            weights = np.zeros((HORIZON, STATES + 1))
            weights[0] = 1.0
            cells = np.array([[1, 2, STATES * ACTIONS + 2, STATES * ACTIONS + 4]] * HORIZON)
        score = outcomes.Scores(judged, values, weights, cells, 0.0, 8.0, alike)
        owners, parts, _ = score.parts(Bounded(schema, block, 0, 3))
        earned = np.bincount(owners, weights=parts, minlength=3) * 8 / followed.ONE
        assert np.allclose(earned, [4 / 3, 0.0, 1 / 6], atol=1e-4)  # in rewards' widths, which are 3
