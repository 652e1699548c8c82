"""Attacks on the boundary that once succeeded, or might have."""

import sys
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discretion import errors
from discretion.learning import apvi, clipped, followed, sums, vapvi
from discretion.learning.averages import GainsAndEnds
from discretion.learning.counts import RewardSums, VisitCounts
from discretion.learning.curator import Concentrated, Curator, Query
from discretion.learning.features import ONE, Blocks, Table
from discretion.learning.pooled_values import StateValue
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.terms import Bin, Missing, Product
from discretion.learning.trajectories import CUT, ENDED, Trajectories, block_of
from discretion.learning.values import LinearDeviation, LinearScore, LinearValue, TableDeviation, TableValue

SCHEMA = Schema(2, Discrete(3), 2)
PLANE = Vector(("x",), ((-1.0, 1.0),))
FEATURES = Table(np.full((3, 2, 1), 0.5))
BLOCKS = Blocks(PLANE, 2, ("1", "x"))
TWO = np.zeros((2, 2))


def patients(count: int = 4) -> Trajectories:
    zeros = np.zeros((2, count), dtype=int)
    return Trajectories(SCHEMA, count, [block_of(zeros, zeros, np.zeros((2, count)))])


class TestFeatures:
    @pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8, np.uint8, np.int64])
    def test_the_width_of_a_tables_numbers_does_not_matter(self, kind):
        assert (Table(np.ones((1, 1, 1), dtype=kind)).psi == ONE).all()

    def test_a_table_cannot_be_changed_after_it_was_checked(self):
        given = np.full((1, 1, 1), 0.5)
        table = Table(given)
        given[:] = 7
        assert (table.psi == ONE // 2).all()
        with pytest.raises(ValueError, match="read-only"):
            table.values[:] = 7

    def test_bounds_too_close_to_be_told_apart_are_refused(self):
        with pytest.raises(errors.InvalidSchema, match="'x'"):
            Vector(("x",), ((2**60 + 1, 2**60 + 2),))

    def test_whole_numbers_beyond_floats_make_no_feature_longer_than_one(self):
        vector = Vector(("x",), ((2**60, 2**60 + 1024),))
        for value in (2**60, 2**60 + 512, 2**60 + 1024, np.inf, -np.inf):
            assert np.abs(Blocks(vector, 1, ("x",)).psi(np.array([[float(value)]]))).max() <= ONE

    @pytest.mark.parametrize(
        "terms", [(Bin("x", 0.5, 0.51),), (Bin("x", 0.5, 0.51), Product((Bin("x", 0.5, 0.51), "x")))]
    )
    def test_a_map_that_is_zero_nearly_everywhere_is_refused(self, terms):
        """Made orthogonal, its few other values would be divided by zero, and a NaN shows without noise."""
        with pytest.raises(errors.InvalidFeatures, match="zero nearly everywhere"):
            Blocks(PLANE, 2, terms)

    def test_an_indicator_of_missing_values_alone_is_a_map(self):
        line = Vector(("x", "y"), ((-1.0, 1.0), (0.0, 1.0)), missing=("y",))
        psi = Blocks(line, 1, (Missing("y"),)).psi(np.array([[0.0, np.nan], [0.0, 0.5]]))
        assert np.isfinite(psi).all()
        assert (np.abs(psi[:, 0]) <= ONE).all()


class TestWhole:
    def test_what_is_no_number_is_zero_and_what_is_too_large_is_cut(self):
        given = np.array([np.nan, np.inf, -np.inf, 1e300, -2.7, 0.9])
        assert sums.whole(given, 5.0).tolist() == [0.0, 5.0, -5.0, 5.0, -2.0, 0.0]

    @pytest.mark.parametrize("radius", [np.nan, 0.0, np.inf, -1.0, 1e-320])
    @pytest.mark.parametrize("integers", [followed.integers, clipped._integers])
    def test_whatever_a_learner_takes_for_a_radius_records_stay_integers(self, integers, radius):
        with np.errstate(all="ignore"):
            found = integers(np.array([0.0, 1.0, -1e300, np.nan]), np.float64(radius))
        assert (found == np.trunc(found)).all()
        assert (np.abs(found) <= 2.0**30).all()


class TestSchemas:
    @pytest.mark.parametrize("change", [{"reward": (0.0, 1e-310)}, {"reward": (0.0, 1e-90), "total": (0.0, 1.0)}])
    def test_rewards_too_small_to_divide_by_are_refused(self, change):
        with pytest.raises(errors.InvalidSchema):
            replace(SCHEMA, **change)


class TestBlocks:
    WHOLE = block_of(np.zeros((2, 3), dtype=int), np.zeros((2, 3), dtype=int), np.zeros((2, 3)))

    @pytest.mark.parametrize(
        "change",
        [
            {"units": np.arange(2)},
            {"lengths": np.full(4, 2)},
            {"endings": np.zeros((3, 1), dtype=int)},
            {"rewards": np.zeros((1, 3))},
            {"states": np.zeros((2, 3, 1), dtype=int)},
            {"final": np.zeros((3, 1), dtype=int)},
        ],
    )
    def test_arrays_that_do_not_belong_together_are_no_block(self, change):
        with pytest.raises(ValueError, match="belong together"):
            replace(self.WHOLE, **change)

    @pytest.mark.parametrize(
        "change",
        [
            {"actions": np.zeros((2, 3))},
            {"states": np.full((2, 3), None)},
            {"rewards": np.zeros((2, 3), dtype=np.longdouble)},
            {"units": np.zeros(3, dtype=bool)},
        ],
    )
    def test_other_things_than_numbers_are_no_block(self, change):
        with pytest.raises(ValueError, match="other things"):
            replace(self.WHOLE, **change)

    def test_a_block_of_another_horizon_is_refused_by_its_public_shape(self):
        with pytest.raises(ValueError, match="another horizon"):
            list(Trajectories(Schema(3, Discrete(3), 2), 3, [self.WHOLE]).bounded())

    @pytest.mark.filterwarnings("error")
    def test_no_record_can_make_the_curator_warn(self):
        """A signalling NaN complains when it is converted; the complaint would be about a patient."""
        signalling = np.full((2, 3), 0x7FA00000, dtype=np.uint32).view(np.float32)
        data = Trajectories(SCHEMA, 3, [replace(self.WHOLE, rewards=signalling)])
        (answer,) = Curator(data, Fraction(1)).ask(Query(RewardSums(SCHEMA), Concentrated(Fraction(1))))
        assert answer.grid.shape == (2, 3, 2)


class TestQuestions:
    def test_a_statistic_of_another_schema_is_refused_before_anything_is_paid(self):
        curator = Curator(patients(), Fraction(1))
        dearer = VisitCounts(replace(SCHEMA, per_unit=5))
        with pytest.raises(errors.InvalidParameter, match="another schema"):
            curator.ask(Query(dearer, Concentrated(Fraction(1, 2))))
        assert curator.log == ()

    @pytest.mark.parametrize(
        "handed",
        [
            {"deviation": TableDeviation(np.ones((2, 2)))},
            {"deviation": LinearDeviation(TWO, TWO, 1.0)},
            {"value": TableValue(np.zeros(3))},
            {"value": LinearValue(LinearScore(TWO, np.zeros((2, 2, 2)), 0.0, 0.0, 1.0), 0.0)},
        ],
    )
    def test_what_does_not_fit_a_table_is_refused_when_the_question_is_put(self, handed):
        with pytest.raises(errors.InvalidParameter, match="does not fit"):
            Moment(SCHEMA, FEATURES, 0, **handed)

    @pytest.mark.parametrize(
        "handed",
        [
            {"deviation": TableDeviation(np.ones((3, 2)))},
            {"deviation": LinearDeviation(TWO, np.zeros((2, 3)), 1.0)},
            {"value": TableValue(np.zeros(4))},
            {"value": LinearValue(LinearScore(TWO, np.zeros((2, 3, 2)), 0.0, 0.0, 1.0), 0.0)},
        ],
    )
    def test_what_does_not_fit_blocks_is_refused_when_the_question_is_put(self, handed):
        with pytest.raises(errors.InvalidParameter, match="does not fit"):
            Moment(Schema(2, PLANE, 2), BLOCKS, 0, **handed)

    @pytest.mark.parametrize("step", [-1, 2, 10**9])
    def test_a_step_outside_the_horizon_is_refused(self, step):
        with pytest.raises(errors.InvalidParameter, match="no step"):
            Gram(SCHEMA, FEATURES, step)

    def test_a_feature_map_of_another_schema_is_refused(self):
        with pytest.raises(errors.InvalidFeatures, match="actions"):
            Gram(Schema(2, Discrete(3), 5), FEATURES, 0)

    @pytest.mark.parametrize("factor", [np.nan, np.inf, 1e-318, 1e307, 1 / 3])
    def test_whatever_numbers_a_value_holds_each_record_is_on_its_own(self, factor):
        draw = np.random.default_rng(0)
        score = LinearScore(factor * draw.normal(size=(2, 9)), factor * draw.normal(size=(2, 9, 9)), 1.0, 0.0, 5.0)
        psi = np.trunc(draw.uniform(-ONE / 3, ONE / 3, (50, 9)))
        with np.errstate(all="ignore"):
            together, alone = score.of(psi), np.hstack([score.of(psi[i : i + 1]) for i in range(50)])
        np.testing.assert_array_equal(together, alone)

    def test_a_patient_where_a_value_is_no_number_moves_the_sum_no_further_than_stated(self):
        """A bonus of infinity times a spread of zero is no number, exactly at ψ = 0."""
        schema, middle = Schema(2, PLANE, 2), Blocks(PLANE, 2, ("x",))
        score = LinearScore(np.ones((2, 1)), np.ones((2, 1, 1)), float("inf"), 0.0, 1.0)
        moment = Moment(schema, middle, 0, bound=1, value=LinearValue(score, 0.0))
        found = []
        for place in (0.0, 0.5):
            states = np.full((2, 1, 1), 0.9)
            states[1] = place
            block = block_of(states, np.zeros((2, 1), dtype=int), np.zeros((2, 1)), final=states[0])
            with np.errstate(all="ignore"):
                found += sums.totals([moment], Trajectories(schema, 1, [block]))
        moved = ((found[0] - found[1]) ** 2).sum() * moment.resolution**2
        assert moved <= moment.squared_sensitivity

    @pytest.mark.parametrize("factor", [np.nan, np.inf, 1e-318, 1e307])
    def test_whatever_numbers_a_potential_holds_gains_move_no_further_than_stated(self, factor):
        schema = Schema(3, PLANE, 2, outcome=True)
        potential = StateValue(factor, factor * np.array([1.0, -2.0]), -factor, factor)
        gains, found = GainsAndEnds(schema, BLOCKS, potential=potential), []
        for ending, place in ((ENDED, 0.9), (CUT, -0.3)):
            states, actions = np.full((3, 1, 1), place), np.zeros((3, 1), dtype=int)
            states[1] = -place
            rewards, lengths = np.full((3, 1), float(ending == ENDED)), np.array([2])
            block = block_of(states, actions, rewards, lengths=lengths, endings=np.array([ending]))
            with np.errstate(all="ignore"):
                found += sums.totals([gains], Trajectories(schema, 1, [block]))
        assert all((np.abs(total) <= gains.largest(1)).all() for total in found)
        moved = ((found[0] - found[1]).astype(float) ** 2).sum() * float(gains.resolution) ** 2
        assert moved <= float(gains.squared_sensitivity)


class TestAllowance:
    def test_threads_cannot_spend_it_twice(self):
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(60):
                curator = Curator(patients(), Fraction(1))
                query = Query(VisitCounts(SCHEMA), Concentrated(Fraction(1)))
                answered: list[object] = []

                def ask(curator=curator, query=query, answered=answered):
                    try:
                        answered.extend(curator.ask(query))
                    except errors.AllowanceExceeded:
                        return

                threads = [threading.Thread(target=ask) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len(answered) == len(curator.log) == 1
        finally:
            sys.setswitchinterval(before)

    def test_a_long_horizon_is_paid_step_by_step_without_slowing_down(self):
        """Costs are the shares themselves, so their sum stays a short fraction however many there are."""
        schema = Schema(400, Discrete(1), 1)
        parameters = vapvi.Parameters(Table(np.ones((1, 1, 1))), calibration="paper")
        curator = Curator(Trajectories(schema, 1, []), Fraction(1))
        vapvi.learn(curator, Concentrated(Fraction(1)), parameters)
        assert curator._spent.rho == 1
        assert len(curator.log) == 2000


class TestMemory:
    def test_of_more_rows_than_memory_those_with_the_most_released_visits_are_drawn(self, monkeypatch):
        draw = np.random.default_rng(0)
        states, actions = draw.choice(3, p=[0.6, 0.3, 0.1], size=(2, 4000)), draw.integers(2, size=(2, 4000))
        data = Trajectories(SCHEMA, 4000, [block_of(states, actions, np.zeros((2, 4000)))])
        privacy, parameters = Concentrated(Fraction(10)), apvi.Parameters()
        assert len(apvi.draw(Curator(data, Fraction(10)), privacy, parameters).rows) == 12
        monkeypatch.setattr(apvi, "MAX_DRAWN", 5 * 4)
        release = apvi.draw(Curator(data, Fraction(10)), privacy, parameters)
        assert len(release.rows) == len(release.transitions) == 5
        assert release.visits.ravel()[release.rows].min() >= np.sort(release.visits.ravel())[-5]
        assert (np.diff(release.rows) > 0).all()
        apvi.derive(release, SCHEMA, parameters)


class TestTermination:
    @pytest.mark.parametrize("name", ["c", "d", "e", "ridge"])
    @pytest.mark.parametrize("value", [1e10, 1.7e308])
    def test_constants_that_only_overflow_are_refused(self, name, value):
        with pytest.raises(errors.InvalidParameter, match=name):
            vapvi.Parameters(FEATURES, **{name: value})

    def test_a_gram_of_weights_beyond_all_bounds_is_still_a_sum(self):
        handed = TableDeviation(np.full((3, 2), np.inf))
        (gram,) = sums.totals([Gram(SCHEMA, FEATURES, 0, deviation=handed)], patients())
        assert (gram == 0).all()
