"""Gram matrix and moment in one release, and endings: how far one patient moves them, and that nothing else does.

That no pair of patients moves them further than they say is searched for in `test_sensitivity`, with everything else.
"""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import sums
from discretion.learning.joint import Endings, Joint
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, Schema
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Block, Trajectories, block_of
from discretion.learning.values import TableDeviation, TableValue
from tests.learning.test_sensitivity import BINS, BLOCKS, STATES, dataset, schema_of, table, unit, wild_unit

ONE = maps.ONE
BEST, WORST = 0, 1  # states whose values are far above and below every bound
VALUE = TableValue(np.array([1e9, -1e9, 0.3, -0.4, 0.1]))


def across(corner: float) -> maps.Table:
    """Two features of norm 1 with ⟨φ, φ′⟩ = `corner`, both on the grid."""
    half = (0.5, 0.5, 0.5)
    other = {0.0: (0.0, 1.0, 0.0, 0.0), 0.5: (0.5, *half), -0.5: (-0.5, *half), 1.0: (1.0, 0.0, 0.0, 0.0)}
    values = np.zeros((STATES, 2, 4))
    values[:, 0, 0] = 1.0
    values[:, 1] = other[corner]
    return maps.Table(values)


def moved(statistic: Any, *patients: Any) -> Fraction:
    """‖change‖² as a part of what the statistic states."""
    before, after = (sums.totals([statistic], dataset(statistic.schema, [p]))[0] for p in patients)
    change = [int(a) - int(b) for a, b in zip(after.ravel(), before.ravel(), strict=True)]
    return sum(c * c for c in change) * statistic.resolution**2 / statistic.squared_sensitivity


class TestJoint:
    @pytest.mark.parametrize("per_unit", [1, 2, 3])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_the_worst_patient_moves_it_exactly_as_far_as_it_says(self, per_unit: int, sign: int) -> None:
        """With α = 1 that is at ⟨φ, φ′⟩ = ±½, and targets that turn it outwards."""
        schema = schema_of(Discrete(STATES), per_unit)
        statistic = Joint(schema, across(sign / 2), 2, value=VALUE)
        ends = (BEST, WORST) if sign > 0 else (BEST, BEST)
        patients = [unit(schema, 2, action, 0.0, final=end) for action, end in zip((0, 1), ends, strict=True)]
        assert moved(statistic, *patients) == 1

    @pytest.mark.parametrize("weight", [3 * ONE // 2, 2 * ONE, 9 * ONE])
    def test_a_heavy_target_is_moved_furthest_by_opposite_targets_of_one_feature(self, weight: int) -> None:
        schema = schema_of(Discrete(STATES))
        statistic = Joint(schema, across(1.0), 2, weight=weight, value=VALUE)
        assert statistic.squared_sensitivity == 4 * Fraction(weight, ONE) ** 2
        assert moved(statistic, unit(schema, 2, 0, 0.0, final=BEST), unit(schema, 2, 0, 0.0, final=WORST)) == 1

    @pytest.mark.parametrize("corner", [0.0, 0.5, 1.0])
    def test_the_proof_s_formula_is_what_happens(self, corner: float) -> None:
        """2(1 − c²) + 2α²(1 + c), which no other corner takes as far."""
        schema, alpha = schema_of(Discrete(STATES)), Fraction(3, 4)
        statistic = Joint(schema, across(corner), 2, weight=3 * ONE // 4, value=VALUE)
        c = Fraction(corner)
        expected = 2 * (1 - c**2) + 2 * alpha**2 * (1 + c)
        found = moved(statistic, unit(schema, 2, 0, 0.0, final=BEST), unit(schema, 2, 1, 0.0, final=WORST))
        assert found == expected / statistic.squared_sensitivity <= 1

    def test_less_than_it_says_is_found_out(self) -> None:
        """The control: Gram matrix and moment cannot be had for the dearer of the two."""
        schema = schema_of(Discrete(STATES))
        statistic = Joint(schema, across(0.5), 2, value=VALUE)
        furthest = moved(statistic, unit(schema, 2, 0, 0.0, final=BEST), unit(schema, 2, 1, 0.0, final=WORST))
        dearer = max(Fraction(2), Fraction(4))
        assert furthest * statistic.squared_sensitivity > dearer

    @settings(deadline=None, max_examples=200)
    @given(
        st.lists(st.tuples(*[st.integers(-ONE, ONE)] * 3), min_size=2, max_size=2),
        st.tuples(*[st.sampled_from([-1.0, 1.0, 0.5, 0.0])] * 2),
        st.integers(1, 3 * ONE),
    )
    def test_no_two_features_move_it_further(self, rows: Any, targets: Any, weight: int) -> None:
        values = np.array(rows, dtype=np.float64)
        values /= np.maximum(np.sqrt((values**2).sum(axis=1, keepdims=True)), 1.0)
        features = maps.Table(np.tile(values, (STATES, 1, 1)) * (1 - 1e-12))
        schema = schema_of(Discrete(STATES))
        value = TableValue(np.array([*targets, 0.0, 0.0, 0.0]))
        statistic = Joint(schema, features, 2, weight=weight, value=value)
        patients = [unit(schema, 2, action, 0.0, final=action) for action in (0, 1)]
        assert moved(statistic, *patients) <= 1

    @pytest.mark.parametrize("kind", ["table", "bins"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_it_holds_the_gram_matrix_and_the_moment(self, kind: str, weighted: bool) -> None:
        features: Any = table() if kind == "table" else BINS
        schema = schema_of(Discrete(STATES) if kind == "table" else BINS.vector, 2)
        rng = np.random.default_rng(0)
        value = TableValue(rng.uniform(-1, 1, features.states + 1))
        deviation = TableDeviation(1 + rng.random((features.states, 2))) if weighted else None
        joint = Joint(schema, features, 1, deviation=deviation, value=value)
        gram, moment = (
            Gram(schema, features, 1, deviation=deviation),
            Moment(schema, features, 1, deviation=deviation, value=value),
        )
        data = dataset(schema, [wild_unit(schema, rng) for _ in range(40)])
        both, left, right = sums.totals([joint, gram, moment], data)
        assert left.max() > ONE
        np.testing.assert_array_equal(both[..., :-1], left)
        np.testing.assert_array_equal(both[..., -1], right)
        assert joint.resolution == gram.resolution == moment.resolution

    @pytest.mark.parametrize("share", [0.0, 0.4, 3.0, np.inf, np.nan])
    def test_rewards_count_by_their_share_and_never_beyond_one(self, share: float) -> None:
        schema = schema_of(Discrete(STATES))
        statistic = Joint(schema, across(0.0), 0, share=share)
        paid = unit(schema, 2, 0, 2.0)  # the highest, 1 when scaled
        with np.errstate(all="ignore"):
            (total,) = sums.totals([statistic], dataset(schema, [paid]))
        expected = 0 if np.isnan(share) else int(min(share, 1.0) * ONE)
        assert total[0, :, -1].tolist() == [expected * ONE, 0, 0, 0]

    def test_neither_the_order_nor_the_blocks_change_a_bit(self) -> None:
        schema, rng = schema_of(Discrete(STATES), 2), np.random.default_rng(5)
        patients = [wild_unit(schema, rng, count=2) for _ in range(60)]
        asked: list[Any] = [Joint(schema, table(), step, share=1 / 3, value=VALUE) for step in range(3)]
        asked.append(Endings(schema))

        def piece(start: int, stop: int) -> Block:
            (block,) = dataset(schema, patients[start:stop]).blocks
            return replace(block, units=np.repeat(np.arange(start, stop), 2), span=(start, stop))

        expected = sums.totals(asked, dataset(schema, patients))
        shuffled = sums.totals(asked, dataset(schema, [patients[i] for i in rng.permutation(60)]))
        pieces = [piece(start, stop) for start, stop in itertools.pairwise([0, 1, 7, 30, 60])]
        blocked = sums.totals(asked, Trajectories(schema, 60, pieces))
        for one, other, third in zip(expected, shuffled, blocked, strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(one, third)

    def test_what_does_not_fit_is_refused_when_the_question_is_put(self) -> None:
        schema = schema_of(Discrete(STATES))
        with pytest.raises(errors.InvalidParameter, match="does not fit"):
            Joint(schema, table(), 0, value=TableValue(np.zeros(STATES)))
        with pytest.raises(errors.InvalidParameter, match="does not fit"):
            Joint(schema_of(BLOCKS.vector), BLOCKS, 0)
        for weight in (0, -1, 2**28):
            with pytest.raises(errors.InvalidParameter, match="too far apart"):
                Joint(schema, table(), 0, weight=weight)


class TestEndings:
    def total(self, schema: Schema, lengths: list[int], endings: list[int]) -> int:
        count = len(lengths)
        states = np.zeros((schema.horizon, count), dtype=np.int64)
        block = block_of(
            states, states, states.astype(float), lengths=np.array(lengths), endings=np.array(endings),
            units=np.zeros(count, dtype=int), final=states[0],
        )  # fmt: skip
        return int(sums.totals([Endings(schema)], Trajectories(schema, 1, [block]))[0][0])

    def test_only_ends_before_the_horizon_count(self) -> None:
        schema = Schema(3, Discrete(2), 2, per_unit=5)
        found = self.total(schema, [1, 2, 3, 1, 0], [ENDED, ENDED, ENDED, CUT_BEFORE, ENDED])
        assert found == 2

    @pytest.mark.parametrize("per_unit", [1, 3])
    def test_a_patient_moves_it_exactly_as_far_as_it_says(self, per_unit: int) -> None:
        schema = Schema(3, Discrete(2), 2, per_unit=per_unit)
        ended, went_on = (self.total(schema, [1] * 9, [ending] * 9) for ending in (ENDED, CUT_BEFORE))
        assert Fraction(ended - went_on) ** 2 == Endings(schema).squared_sensitivity == per_unit**2
