"""Shortened sums: no patient moves them further than they say, however its records look, and the worst one does."""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import clipped, rewards, sums
from discretion.learning.schemas import Discrete, Schema
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, Block, Trajectories, block_of
from tests.learning.test_sensitivity import (
    ACTIONS,
    HORIZON,
    PER_UNIT,
    STATES,
    Claiming,
    Statistic,
    Unit,
    check_movement,
    dataset,
    schema_of,
    unit,
    wild_unit,
    worst,
)

ONE = clipped.ONE
GAMMA = 0.9
VALUES = np.array([0.7, -1.3, 0.25, 2.0])


def on_arrival() -> rewards.Known:
    return rewards.Known(np.array([-1.0, 0.5, 2.0, 0.0, 1.0]))


def by_action() -> rewards.Known:
    return rewards.Known(np.array([[-1.0, 0.5], [2.0, 0.0], [1.0, 1.5], [0.25, -0.5]]))


def statistics(schema: Schema) -> list[Statistic]:
    """Cut hard, softly and hardly, with recorded and with known rewards, and with values that are no numbers."""
    broken = np.array([np.nan, np.inf, -np.inf, 1e300])
    summed: list[clipped.Returns | clipped.Surprises] = [
        *(clipped.Returns(schema, GAMMA, 0.1, radius) for radius in (1e-9, 0.3, 50.0)),
        clipped.Returns(schema, GAMMA, np.nan, 1.0),
        clipped.Returns(schema, GAMMA, 0.1, 0.5, on_arrival()),
        *(clipped.Surprises(schema, GAMMA, VALUES, radius) for radius in (1e-9, 0.3, 50.0)),
        *(clipped.Surprises(schema, GAMMA, VALUES, radius, rewarded=False) for radius in (1e-9, 0.7, 50.0)),
        clipped.Surprises(schema, GAMMA, VALUES, 0.7, reward=on_arrival()),
        clipped.Surprises(schema, GAMMA, VALUES, 0.7, reward=by_action()),
        clipped.Surprises(schema, GAMMA, broken, 0.7),
        clipped.Surprises(schema, GAMMA, broken, 0.7, rewarded=False),
    ]
    averages = [
        clipped.EarningsAndSteps(schema, GAMMA, -1.0, 1.0),
        clipped.EarningsAndSteps(schema, GAMMA, 0.0, 0.1, by_action()),
    ]
    return [clipped.Coverage(schema), *summed, *map(clipped.Lengths, summed), *averages]


def by_owner(entries: Any, one: int) -> Any:  # (R, B)
    """Each column an owner, entry by entry."""
    owners = np.tile(np.arange(entries.shape[1]), len(entries))
    return sums.shortened(entries.ravel(), owners, one).reshape(entries.shape)


def columns(seed: int, bits: float) -> Any:  # (7, 9)
    return np.trunc(np.random.default_rng(seed).normal(0, 2.0**bits, (7, 9)))


@pytest.mark.parametrize("shortened", [by_owner, sums.shortened_columns])
class TestShortened:
    @given(seed=st.integers(0, 2**32), bits=st.floats(0.0, 50.0))
    def test_no_vector_is_longer_than_one_in_exact_integers(self, shortened: Any, seed: int, bits: float) -> None:
        for column in shortened(columns(seed, bits), ONE).T:
            assert sum(int(x) ** 2 for x in column) <= ONE**2

    @given(seed=st.integers(0, 2**32), bits=st.floats(0.0, 50.0))
    def test_no_entry_grows_or_changes_its_sign(self, shortened: Any, seed: int, bits: float) -> None:
        found = columns(seed, bits)
        short = shortened(found, ONE)
        assert (np.abs(short) <= np.abs(found)).all()
        assert (short * found >= 0).all()

    def test_a_vector_of_length_one_or_less_stays_as_it_is(self, shortened: Any) -> None:
        found = np.array([[0.6 * 65530, 12.0], [0.8 * 65530, 0.0]]).round()
        assert (shortened(found, ONE) == found).all()

    def test_a_longer_one_keeps_its_direction_and_nearly_all_of_length_one(self, shortened: Any) -> None:
        short = shortened(np.array([[3.0], [4.0]]) * 2.0**30, ONE)
        np.testing.assert_allclose(short, [[0.6 * ONE], [0.8 * ONE]], atol=4)

    def test_what_rounds_beyond_length_one_is_made_shorter(
        self, shortened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A norm computed in floating point may be a little too small; the integers decide."""
        name = "_squared" if shortened is by_owner else "squared_columns"
        measured, wrong = getattr(sums, name), iter([1 - 2e-3])
        monkeypatch.setattr(sums, name, lambda *given: measured(*given) * next(wrong, 1.0))
        short = shortened(np.array([[3.0], [4.0]]) * 2.0**30, ONE)
        assert ONE**2 * (1 - 1e-3) < (short**2).sum() <= ONE**2

    def test_nobody_makes_nothing(self, shortened: Any) -> None:
        assert shortened(np.empty((3, 0)), ONE).shape == (3, 0)


class TestSensitivity:
    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 4))
    def test_no_patient_moves_a_statistic_further_than_it_says(self, seed: int, per_unit: int, position: int) -> None:
        schema, draw = schema_of(Discrete(STATES), per_unit), np.random.default_rng(seed)
        one, other = wild_unit(schema, draw), wild_unit(schema, draw)
        for statistic in statistics(schema):
            worst(statistic, schema, one, other, position)

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 2**32), st.booleans())
    def test_nor_does_one_whose_records_are_all_extreme(self, seed: int, same: bool) -> None:
        schema, draw = schema_of(Discrete(STATES), 2), np.random.default_rng(seed)
        path = draw.integers(0, STATES, HORIZON), draw.integers(0, ACTIONS, HORIZON)
        other = path if same else (draw.integers(0, STATES, HORIZON), draw.integers(0, ACTIONS, HORIZON))
        patients = unit(schema, *path, rewards=2.0, final=0), unit(schema, *other, rewards=-1.0, final=3)
        for statistic in statistics(schema):
            worst(statistic, schema, *patients)


def extremes(statistic: Statistic) -> tuple[Unit, Unit]:
    schema = statistic.schema
    if isinstance(statistic, clipped.Coverage):
        return unit(schema, 0, 0, 0.0), unit(schema, 1, 1, 0.0)
    if isinstance(statistic, clipped.EarningsAndSteps):
        return unit(schema, 0, 0, 2.0), wild_unit(schema, np.random.default_rng(0), count=0)
    of = statistic.of if isinstance(statistic, clipped.Lengths) else statistic
    if isinstance(of, clipped.Surprises) and not of.rewarded:  # what they leave for is worth the most, and the least
        return unit(schema, 0, 0, 0.0, final=1), unit(schema, 0, 0, 0.0, final=2 if of is statistic else 0)
    if isinstance(statistic, clipped.Lengths):
        return unit(schema, 0, 0, 2.0), unit(schema, 0, 0, 0.0)
    return unit(schema, 0, 0, 2.0), unit(schema, 0, 0, -1.0)


def reaching(schema: Schema) -> Iterator[Statistic]:
    returns = clipped.Returns(schema, GAMMA, 0.0, 0.1)
    surprises = clipped.Surprises(schema, GAMMA, np.zeros(STATES), 0.1)
    improvement = clipped.Surprises(schema, GAMMA, np.array([0.0, 1.0, -1.0, 0.0]), 0.1, rewarded=False)
    cut: list[clipped.Returns | clipped.Surprises] = [returns, surprises, improvement]
    yield from (clipped.Coverage(schema), *cut, *map(clipped.Lengths, cut))
    yield clipped.EarningsAndSteps(schema, GAMMA, 0.0, 0.1)


class TestReached:
    @PER_UNIT
    def test_the_worst_patient_moves_a_statistic_as_far_as_it_says_up_to_the_grid(self, per_unit: int) -> None:
        for statistic in reaching(schema_of(Discrete(STATES), per_unit)):
            share = worst(statistic, statistic.schema, *extremes(statistic))
            signed = isinstance(statistic, clipped.Returns | clipped.Surprises)  # scaled, so truncated
            assert 1 - Fraction(1, 2**13) < share <= 1 if signed else share == 1, statistic

    def test_a_smaller_claim_is_found_out(self) -> None:
        for statistic in reaching(schema_of(Discrete(STATES))):
            with pytest.raises(AssertionError):
                worst(Claiming(statistic, squared=Fraction(999, 1000)), statistic.schema, *extremes(statistic))

    def test_signed_sums_do_move_further_than_those_that_are_never_negative(self) -> None:
        schema = schema_of(Discrete(STATES))
        statistic = clipped.Returns(schema, GAMMA, 0.0, 0.1)
        with pytest.raises(AssertionError):
            worst(Claiming(statistic, squared=Fraction(1, 2)), schema, *extremes(statistic))


def blocks_of(data: Trajectories, cuts: Sequence[int]) -> Trajectories:
    """The same units in several blocks."""
    (whole,) = data.blocks
    edges = [0, *cuts, data.units]

    def piece(start: int, end: int) -> Block:
        rows = np.flatnonzero((whole.units >= start) & (whole.units < end))
        steps = {name: getattr(whole, name)[:, rows] for name in ("states", "actions", "rewards")}
        rest = {name: getattr(whole, name)[rows] for name in ("units", "lengths", "endings", "final")}
        return Block(**steps, **rest, span=(start, end))

    return Trajectories(data.schema, data.units, [piece(*edge) for edge in itertools.pairwise(edges)])


def shuffled(data: Trajectories, draw: np.random.Generator) -> Trajectories:
    """The same trajectories in another order, each under its unit's position."""
    (whole,) = data.blocks
    rows = draw.permutation(len(whole.units))
    steps = {name: getattr(whole, name)[:, rows] for name in ("states", "actions", "rewards")}
    rest = {name: getattr(whole, name)[rows] for name in ("units", "lengths", "endings", "final")}
    return Trajectories(data.schema, data.units, [Block(**steps, **rest)])


class TestPurity:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32))
    def test_neither_blocks_nor_order_change_a_bit(self, seed: int) -> None:
        schema, draw = schema_of(Discrete(STATES), 3), np.random.default_rng(seed)
        data = dataset(schema, [wild_unit(schema, draw, int(draw.integers(0, 4))) for _ in range(12)])
        asked = statistics(schema)
        whole = sums.totals(asked, data)
        for other in (blocks_of(data, (1, 5, 6)), shuffled(data, draw)):
            for one, two in zip(whole, sums.totals(asked, other), strict=True):
                assert (one == two).all()

    def test_the_sums_of_all_units_are_the_sum_of_each_alone(self) -> None:
        schema, draw = schema_of(Discrete(STATES), 2), np.random.default_rng(5)
        patients = [wild_unit(schema, draw) for _ in range(20)]
        asked = statistics(schema)
        together = sums.totals(asked, dataset(schema, patients))
        alone = [sums.totals(asked, dataset(schema, [patient])) for patient in patients]
        for index, total in enumerate(together):
            assert (total == sum(one[index] for one in alone)).all()


def one(schema: Schema, states: Any, actions: Any, paid: Any, **rest: Any) -> Trajectories:
    """Trajectories of one unit, padded."""
    size = len(states)
    lengths = np.array([len(path) for path in states])

    def padded(rows: Any, kind: Any) -> Any:
        table = np.zeros((schema.horizon, size), dtype=kind)
        for index, row in enumerate(rows):
            table[: len(row), index] = row
        return table

    block = block_of(
        padded(states, np.int64),
        padded(actions, np.int64),
        padded(paid, np.float64),
        units=np.zeros(size, dtype=np.int64),
        lengths=lengths,
        **rest,
    )
    return Trajectories(schema, 1, [block])


def summed(statistic: Statistic, data: Trajectories) -> Any:
    return sums.totals([statistic], data)[0] * float(statistic.resolution)


class TestCoverage:
    def test_each_cell_counts_once_and_the_patient_has_length_one(self) -> None:
        schema = schema_of(Discrete(STATES))
        data = one(schema, [[0, 0, 2]], [[1, 1, 0]], [[0, 0, 0]])
        expected = np.zeros((STATES, ACTIONS))
        expected[0, 1] = expected[2, 0] = 1 / np.sqrt(2)
        np.testing.assert_allclose(summed(clipped.Coverage(schema), data), expected, atol=2 / ONE)

    def test_one_visit_is_a_whole_one(self) -> None:
        schema = schema_of(Discrete(STATES))
        assert summed(clipped.Coverage(schema), one(schema, [[3]], [[1]], [[0]]))[3, 1] == 1

    def test_records_outside_the_schema_count_nowhere(self) -> None:
        schema = schema_of(Discrete(STATES))
        data = one(schema, [[STATES, -1, 0]], [[0, 0, ACTIONS]], [[0, 0, 0]])
        assert not summed(clipped.Coverage(schema), data).any()


class TestReturns:
    def test_they_are_what_followed_discounted_and_centred(self) -> None:
        schema = schema_of(Discrete(STATES))  # rewards from −1 to 2, width 3
        data = one(schema, [[0, 1, 0]], [[0, 0, 0]], [[2.0, -1.0, 0.5]])
        late = 0.5 / 3
        middle = -1 / 3 + GAMMA * late
        early = 2 / 3 + GAMMA * middle
        found = summed(clipped.Returns(schema, GAMMA, 0.05, 10.0), data) * 10
        np.testing.assert_allclose(found, [early + late - 0.1, middle - 0.05, 0, 0], atol=1e-3)

    def test_trajectories_of_a_patient_are_added_before_cutting(self) -> None:
        schema = schema_of(Discrete(STATES), per_unit=2)
        data = one(schema, [[0], [0]], [[0], [1]], [[1.0], [-1.0]], endings=np.full(2, ENDED))
        assert not summed(clipped.Returns(schema, GAMMA, 0.0, 1e-3), data).any()

    def test_a_total_that_is_bounded_is_kept(self) -> None:
        schema = Schema(HORIZON, Discrete(STATES), ACTIONS, (0.0, 1.0), total=(0.0, 1.0))
        data = one(schema, [[0, 1, 2]], [[0, 0, 0]], [[1.0, 1.0, 1.0]])
        np.testing.assert_allclose(summed(clipped.Returns(schema, 1.0, 0.0, 2.0), data) * 2, [1, 0, 0, 0], atol=1e-3)

    def test_a_length_that_is_none_is_refused(self) -> None:
        for radius in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(errors.InvalidParameter, match="positive"):
                clipped.Returns(schema_of(Discrete(STATES)), GAMMA, 0.0, radius)


class TestSurprises:
    SCHEMA = schema_of(Discrete(STATES))

    def found(self, data: Trajectories, **changes: Any) -> Any:
        return summed(clipped.Surprises(data.schema, GAMMA, VALUES, 100.0, **changes), data) * 100

    def test_they_are_reward_and_change_of_value(self) -> None:
        data = one(self.SCHEMA, [[0, 1]], [[0, 1]], [[2.0, -1.0]], endings=np.array([ENDED]))
        expected = np.zeros((STATES, ACTIONS))
        expected[0, 0] = 2 / 3 + GAMMA * VALUES[1] - VALUES[0]
        expected[1, 1] = -1 / 3 - VALUES[1]
        np.testing.assert_allclose(self.found(data), expected, atol=5e-3)

    def test_after_a_cut_the_known_next_state_has_its_value(self) -> None:
        data = one(self.SCHEMA, [[0]], [[0]], [[0.0]], endings=np.array([CUT_BEFORE]), final=np.array([3]))
        assert self.found(data)[0, 0] == pytest.approx(GAMMA * VALUES[3] - VALUES[0], abs=5e-3)

    def test_a_visit_without_a_known_successor_is_left_out(self) -> None:
        data = one(self.SCHEMA, [[0]], [[0]], [[2.0]], endings=np.array([CUT]))
        assert not self.found(data).any()

    def test_without_rewards_only_the_value_counts(self) -> None:
        data = one(self.SCHEMA, [[2, 1]], [[0, 1]], [[2.0, 2.0]], endings=np.array([ENDED]))
        found = self.found(data, rewarded=False)
        assert found[2, 0] == pytest.approx(GAMMA * VALUES[1] - VALUES[2], abs=5e-3)

    def test_known_rewards_replace_the_recorded_ones(self) -> None:
        data = one(self.SCHEMA, [[0, 1]], [[0, 1]], [[2.0, 2.0]], endings=np.array([ENDED]))
        arriving, acting = self.found(data, reward=on_arrival()), self.found(data, reward=by_action())
        assert arriving[0, 0] == pytest.approx(0.5 / 3 + GAMMA * VALUES[1] - VALUES[0], abs=5e-3)
        assert arriving[1, 1] == pytest.approx(1 / 3 - VALUES[1], abs=5e-3)
        assert acting[0, 0] == pytest.approx(-1 / 3 + GAMMA * VALUES[1] - VALUES[0], abs=5e-3)
        assert acting[1, 1] == pytest.approx(0.0 - VALUES[1], abs=5e-3)

    def test_they_add_up_to_the_outcome_minus_the_first_value(self) -> None:
        data = one(self.SCHEMA, [[0, 1, 2]], [[0, 1, 0]], [[0.5, -1.0, 2.0]], endings=np.array([ENDED]))
        found = summed(clipped.Surprises(self.SCHEMA, 1.0, VALUES, 100.0), data) * 100
        assert found.sum() == pytest.approx(1.5 / 3 - VALUES[0], abs=5e-3)

    def test_values_for_other_states_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="fit the states"):
            clipped.Surprises(self.SCHEMA, GAMMA, np.zeros(STATES + 1), 1.0)


class TestSizes:
    def test_a_patient_counts_in_the_bin_of_its_length(self) -> None:
        schema = schema_of(Discrete(STATES))
        data = one(schema, [[0, 1]], [[0, 0]], [[0.0, 2.0]], endings=np.array([ENDED]))
        returns = clipped.Returns(schema, 1.0, 0.0, 2.0)  # 2/3 twice, in units of 2
        size = np.sqrt(2) * (2 / 3) / 2
        histogram = sums.totals([clipped.Lengths(returns)], data)[0]
        (place,) = np.flatnonzero(histogram)
        assert clipped.EDGES[place - 1] < size <= clipped.EDGES[place]
        assert histogram.sum() == 1

    def test_a_patient_without_records_counts_nowhere(self) -> None:
        schema = schema_of(Discrete(STATES))
        histogram = sums.totals(
            [clipped.Lengths(clipped.Returns(schema, 1.0, 0.0, 2.0))], one(schema, [[]], [[]], [[]])
        )
        assert not histogram[0].any()


class TestAverages:
    def test_they_are_the_mean_earnings_and_the_share_of_possible_steps(self) -> None:
        schema = schema_of(Discrete(STATES), per_unit=2)
        data = one(schema, [[0, 1], [2]], [[0, 0], [0]], [[0.0, 2.0], [-1.0]], endings=np.full(2, ENDED))
        earned, visits = summed(clipped.EarningsAndSteps(schema, 1.0, -1.0, 1.0), data)
        assert earned == pytest.approx(((2 / 3 + 2 / 3 - 1 / 3) / 3 + 1) / 2, abs=1e-3)
        assert visits == pytest.approx(3 / (2 * HORIZON), abs=1e-3)


class TestPositions:
    def test_a_block_tells_whose_trajectories_are_whose(self) -> None:
        schema = schema_of(Discrete(STATES), per_unit=2)
        data = dataset(schema, [unit(schema, 0, 0, 0.0), unit(schema, 1, 0, 0.0, copies=1), unit(schema, 2, 0, 0.0)])
        (block,) = data.bounded()
        assert block.positions.tolist() == [0, 0, 1, 2, 2]


class TestNames:
    def test_no_two_statistics_of_a_training_share_one(self) -> None:
        schema = schema_of(Discrete(STATES))
        found: list[clipped.Returns | clipped.Surprises] = [
            clipped.Returns(schema, GAMMA, 0.0, 1.0),
            clipped.Surprises(schema, GAMMA, VALUES, 1.0),
            clipped.Surprises(schema, GAMMA, VALUES, 1.0, rewarded=False),
        ]
        asked: list[Any] = [clipped.Coverage(schema), *found, *map(clipped.Lengths, found)]
        assert len({statistic.name for statistic in asked}) == len(asked)

    def test_they_do_not_tell_what_was_released(self) -> None:
        schema = schema_of(Discrete(STATES))
        names = {clipped.Returns(schema, GAMMA, centre, radius).name for centre, radius in ((0.1, 1.0), (0.2, 3.0))}
        assert len(names) == 1


def test_movement_is_measured_in_the_statistics_own_unit() -> None:
    """A control of the measure itself: two units of length 1 in different cells are √2 apart."""
    statistic = clipped.Coverage(schema_of(Discrete(STATES)))
    before, after = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int64)
    before[0], after[1] = ONE, ONE
    assert check_movement(statistic, before, after) == 1
