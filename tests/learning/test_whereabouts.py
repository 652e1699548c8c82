"""Where patients are within the declared bounds: no patient moves it further than it says, and maps look there."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import policy, sums, vapvi_stationary, whereabouts
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import CUT_BEFORE, Block, Trajectories
from tests.learning.vector_units import MAPS, PER_UNIT, VECTOR, dataset, moved, schema_of, steady, wild

WIDE = Vector(("x", "y"), ((0.0, 1000.0), (-50.0, 50.0)))
RHO = Concentrated(Fraction(1))


class TestWhereabouts:
    @PER_UNIT
    @pytest.mark.parametrize("parts", [2, 16])
    def test_no_replaced_patient_moves_it_further_than_it_says(self, per_unit: int, parts: int) -> None:
        rng, schema = np.random.default_rng(per_unit), schema_of(per_unit)
        measured: Any = whereabouts.Whereabouts(schema, parts)
        for trial in range(25):
            patients = [wild(rng, per_unit, tame=trial % 2 == 0) for _ in range(3)]
            (before,) = sums.totals([measured], dataset(schema, patients))
            (after,) = sums.totals([measured], dataset(schema, [patients[0], wild(rng, per_unit), patients[2]]))
            assert moved(measured, before, after) <= 1

    @PER_UNIT
    def test_two_patients_are_as_far_apart_as_it_says(self, per_unit: int) -> None:
        schema = schema_of(per_unit)
        measured: Any = whereabouts.Whereabouts(schema, 4)
        found = [sums.totals([measured], dataset(schema, [steady(corner, 0, 0.0, per_unit)]))[0] for corner in CORNERS]
        assert max(moved(measured, one, other) for one, other in itertools.combinations(found, 2)) == 1

    def test_it_is_the_share_of_each_patients_records(self) -> None:
        data = crowd(40)
        measured: Any = whereabouts.Whereabouts(data.schema, 8)
        (total,) = sums.totals([measured], data)
        (block,) = data.blocks
        expected = [
            np.histogram(np.asarray(block.states)[..., column], 8, bounds)[0] / 5
            for column, bounds in enumerate(WIDE.bounds)
        ]
        assert np.allclose(total * float(measured.resolution), expected, atol=1e-4)

    def test_a_missing_value_is_in_no_part(self) -> None:
        schema = schema_of()
        measured: Any = whereabouts.Whereabouts(schema, 4)
        (total,) = sums.totals([measured], dataset(schema, [steady((1.0, np.nan), 0, 0.0)]))
        assert (total.sum(axis=1) * measured.resolution).tolist() == [1, 0]


CORNERS = [(-1.0, 0.0), (3.0, 10.0)]


def crowd(size: int, seed: int = 0) -> Trajectories:
    """Patients between 180 and 320 of 1000, and between −5 and 5 of ±50; the better of two actions depends on where."""
    rng, horizon = np.random.default_rng(seed), 5
    states = np.stack(
        [rng.uniform(180.0, 320.0, (horizon + 1, size)), rng.uniform(-5.0, 5.0, (horizon + 1, size))], axis=-1
    )
    actions = rng.integers(0, 2, (horizon, size))
    right = (states[:-1, :, 0] > 250.0) == (actions == 1)
    block = Block(
        units=np.arange(size),
        lengths=np.full(size, horizon),
        states=states[:-1],
        actions=actions,
        rewards=right.astype(np.float64),
        endings=np.full(size, CUT_BEFORE),
        final=states[-1],
    )
    return Trajectories(Schema(horizon, WIDE, 2, (0.0, 1.0)), size, [block])


class TestParts:
    def test_there_are_more_with_patients_and_budget_and_none_where_nothing_could_be_told(self) -> None:
        found = [
            [whereabouts.parts(WIDE, units, Fraction(rho)) for units in (50, 300, 1000, 10**6)]
            for rho in ("0.01", "1", "100")
        ]
        assert found == [sorted(row) for row in found]
        assert [list(column) for column in zip(*found, strict=True)] == [sorted(c) for c in zip(*found, strict=True)]
        assert found[0][0] == 1
        assert found[-1][-1] == 32


class TestShare:
    @pytest.mark.parametrize("rho", ["0.01", "0.3", "1", "100"])
    @pytest.mark.parametrize("units", [100, 1000, 10**6])
    def test_it_is_between_a_fiftieth_and_a_tenth_and_tells_parts_apart(self, units: int, rho: str) -> None:
        parts = whereabouts.parts(WIDE, units, Fraction(rho))
        share = whereabouts.share(WIDE, units, Fraction(rho), parts)
        assert Fraction(1, 50) <= share <= Fraction(1, 10)
        deviation = (len(WIDE.columns) / (share * Fraction(rho))) ** 0.5
        assert parts == 1 or units / parts >= 5 * deviation


class TestNarrowed:
    def test_a_thin_tail_is_looked_at_too(self) -> None:
        """None of its parts stands out alone."""
        features = maps.usual(WIDE, 2, 1000, Fraction(1))
        shares = np.zeros((2, 32))
        shares[:, 4], shares[0, 5:9] = 900.0, 38.0
        found = whereabouts.narrowed(features, shares, 10.0, 1000)
        assert found.within == ((1000 * 2 / 32, 1000 * 10 / 32), (-50 + 100 * 3 / 32, -50 + 100 * 6 / 32))

    def test_a_column_filled_to_half_is_looked_at_as_declared(self) -> None:
        features = maps.usual(WIDE, 2, 1000, Fraction(1))
        shares = np.zeros((2, 16))
        shares[0, 4:8], shares[1, 4:7] = 250.0, 250.0
        found = whereabouts.narrowed(features, shares, 10.0, 1000)
        assert found.within == (WIDE.bounds[0], (-37.5, 6.25))

    def test_a_map_looks_where_patients_are_and_a_part_around(self) -> None:
        features = maps.usual(WIDE, 2, 1000, Fraction(1))
        shares = np.zeros((2, 10))
        shares[0, 3:5], shares[1, 9] = 500.0, 1000.0
        found = whereabouts.narrowed(features, shares, 10.0, 1000)
        assert found.within == ((200.0, 600.0), (30.0, 50.0))
        assert found.declared == features
        middle = found.psi(np.array([[400.0, 40.0]]))
        assert (middle == features.psi(np.array([[500.0, 0.0]]))).all()

    def test_what_lies_beyond_is_at_the_edge(self) -> None:
        features = maps.Blocks(WIDE, 2, ("1", "x", "y"), ((200.0, 600.0), (-50.0, 50.0)))
        inside, beyond = np.array([[600.0, 0.0]]), np.array([[900.0, 0.0]])
        assert (features.psi(inside) == features.psi(beyond)).all()

    def test_where_noise_is_all_there_is_it_looks_everywhere(self) -> None:
        features = maps.usual(WIDE, 2, 1000, Fraction(1))
        found = whereabouts.narrowed(features, np.zeros((2, 8)), 10.0, 1000)
        assert found.within == WIDE.bounds

    @pytest.mark.parametrize("within", [((0.0, 1000.0),), ((5.0, 5.0), (0.0, 1.0)), ((-1.0, 5.0), (0.0, 1.0))])
    def test_a_part_that_is_not_within_the_bounds_is_refused(self, within: Any) -> None:
        with pytest.raises(errors.InvalidFeatures, match="part of each column"):
            maps.Blocks(WIDE, 2, ("1", "x"), within)

    @MAPS
    def test_no_features_are_longer_than_1(self, features: maps.Blocks) -> None:
        within = tuple((low + (high - low) / 3, high) for low, high in VECTOR.bounds)
        narrow = maps.Blocks(VECTOR, features.actions, features.terms, within)
        states = np.random.default_rng(0).uniform(VECTOR.low - 1, VECTOR.high + 1, (500, len(VECTOR.columns)))
        assert ((narrow.psi(states) ** 2).sum(axis=1) <= maps.ONE**2).all()


class TestLearn:
    def test_a_policy_is_learned_in_a_corner_of_its_bounds_and_read_back_as_it_was(self) -> None:
        data = crowd(2000)
        features = maps.usual(WIDE, 2, 2000, RHO.rho)
        parameters = vapvi_stationary.Parameters(features, parts=whereabouts.parts(WIDE, 2000, RHO.rho))
        curator = Curator(data, RHO.rho)
        learned = vapvi_stationary.learn(curator, RHO, parameters)
        assert list(curator.log) == vapvi_stationary.mechanisms(data.schema, 2000, RHO, parameters)
        states = np.stack([np.linspace(185.0, 315.0, 200), np.zeros(200)], axis=1)
        right = (states[:, 0] > 250.0).astype(int)
        assert (learned.judge(1, states)[0] == right).mean() > 0.85
        again = policy.parse(learned.canonical())
        assert again.digest() == learned.digest()
        assert (again.judge(1, states)[0] == learned.judge(1, states)[0]).all()
