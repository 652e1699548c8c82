"""The public schema and its refusals, and what a record is: bounded, complete, and its trajectory's own."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import sums, trajectories
from discretion.learning.counts import RewardSums, TransitionCounts, VisitCounts
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED, UNKNOWN, Block, Bounded
from discretion.learning.trajectories import Trajectories as Dataset

untimed = settings(deadline=None)
STATES, ACTIONS, HORIZON = 3, 2, 4
HUGE = 10**400  # an integer that JSON can write and no float can hold
SCHEMA = Schema(HORIZON, Discrete(STATES), ACTIONS)
PLANE = Schema(2, Vector(("a", "b"), ((0.0, 1.0), (-2.0, 2.0))), ACTIONS)


def schema(**changed: Any) -> Schema:
    given: dict[str, Any] = {"horizon": HORIZON, "states": Discrete(STATES), "actions": ACTIONS}
    return Schema(**given | changed)


class TestSchema:
    @pytest.mark.parametrize("value", [0, -1, 10**9, HUGE, 1.0, True, "3", None], ids=repr)
    @pytest.mark.parametrize(
        ("field", "name"),
        [("horizon", "horizon"), ("actions", "number of actions"), ("per_unit", "most trajectories of a unit")],
    )
    def test_a_size_that_is_no_whole_number_in_range_is_refused_by_name(
        self, field: str, name: str, value: object
    ) -> None:
        with pytest.raises(errors.InvalidSchema, match=f"(?i){name} must be a whole number"):
            schema(**{field: value})

    @pytest.mark.parametrize(
        "bounds",
        [
            *[(1.0, 0.0), (0.0, 0.0), (np.nan, 1.0), (0.0, np.inf), (0.0,), (0.0, 1.0, 2.0), ("0", 1.0), (False, True)],
            *[(0, HUGE), (-HUGE, 0), (-1.7e308, 1.7e308)],
        ],
        ids=lambda bounds: repr(bounds)[:30],
    )
    def test_a_range_that_is_no_finite_interval_is_refused_by_name(self, bounds: Any) -> None:
        with pytest.raises(errors.InvalidSchema, match="reward range"):
            schema(reward=bounds)
        with pytest.raises(errors.InvalidSchema, match="total reward"):
            schema(total=bounds)
        with pytest.raises(errors.InvalidSchema, match="bounds of state column 'b'"):
            Vector(("a", "b"), ((0.0, 1.0), bounds))

    @pytest.mark.parametrize("total", [(1.0, 2.0), (-2.0, -1.0)])
    def test_a_total_that_excludes_its_start_is_refused(self, total: Any) -> None:
        with pytest.raises(errors.InvalidSchema, match="must contain 0"):
            schema(total=total)

    @pytest.mark.parametrize(
        ("reward", "low", "width", "idle"),
        [
            ((0.0, 1.0), 0.0, 1.0, 0.0),
            ((-1.0, 3.0), -1.0, 4.0, 0.25),
            ((-5.0, -1.0), -5.0, 5.0, 1.0),
            ((2.0, 4.0), 0.0, 4.0, 0.0),
            ((-3, 1), -3.0, 4.0, 0.75),
        ],
    )
    def test_rewards_are_scaled_from_a_range_that_contains_zero(
        self, reward: Any, low: float, width: float, idle: float
    ) -> None:
        found = schema(reward=reward)
        assert (found.low, found.width, found.idle) == (low, width, idle)
        assert found.scaled(np.array([low, 0.0, low + width])).tolist() == [0.0, idle, 1.0]


class TestRounded:
    @untimed
    @given(st.floats(-1e30, 1e30), st.floats(1e-30, 1e30), st.floats(0, 1))
    def test_a_reward_moves_by_a_tiny_part_of_the_range_and_only_once(
        self, low: float, width: float, share: float
    ) -> None:
        high = low + width
        assume(low < high <= 1e30)
        found, reward = schema(reward=(low, high)), np.array([low + share * (high - low)])
        once = found.rounded(reward)
        assert abs(float(once[0]) - reward[0]) <= 2.0**-24 * found.width
        assert found.rounded(once).tobytes() == once.tobytes()

    @pytest.mark.parametrize("reward", [(0.0, 1e31), (0.0, 1e100), (-1e31, 0.0), (0.0, 1e-31), (-1e-100, 1e-100)])
    def test_of_ranges_that_float32_has_no_numbers_for_nothing_is_rounded(self, reward: tuple[float, float]) -> None:
        given_ = np.array([reward[0], reward[1] / 3, reward[1]])
        assert schema(reward=reward).rounded(given_).tolist() == given_.tolist()

    def test_it_says_nothing_of_what_no_number_of_float32_is_as_large_as(self) -> None:
        assert SCHEMA.rounded(np.array([1e300, -1e300, np.nan])).tolist() == pytest.approx(
            [np.inf, -np.inf, np.nan], nan_ok=True
        )

    @untimed
    @given(st.floats(-9, 9), st.floats(0.01, 9), st.lists(st.floats(), min_size=1, max_size=9))
    def test_what_is_handed_out_lies_within_the_range_and_is_the_same_of_what_was_kept(
        self, low: float, width: float, given_: list[float]
    ) -> None:
        found = schema(reward=(low, low + width), horizon=1)
        high = low + width
        recorded = np.array([[*given_, low, high, np.nextafter(low, -9e9), np.nextafter(high, 9e9), 0.0]])
        handed = [self.handed(found, each) for each in (recorded, found.rounded(recorded))]
        assert ((handed[0] >= 0.0) & (handed[0] <= 1.0)).all()
        assert handed[0].tobytes() == handed[1].tobytes()
        assert handed[0][-1] == found.idle
        for one, alone in zip(handed[0], recorded[0], strict=True):
            assert self.handed(found, np.array([[alone]]))[0] == one

    def handed(self, found: Schema, rewards: Any) -> Any:
        nothing = np.zeros(rewards.shape, dtype=int)
        many = trajectories.block_of(nothing, nothing, rewards, units=np.arange(rewards.shape[1]))
        return bounded(found, rewards.shape[1], many).records(0).rewards


class TestStates:
    @pytest.mark.parametrize("count", [0, -1, 10**9, HUGE, 2.0, True])
    def test_a_number_of_states_out_of_range_is_refused(self, count: Any) -> None:
        with pytest.raises(errors.InvalidSchema, match="number of states"):
            Discrete(count)

    @pytest.mark.parametrize("columns", [("a", "a"), ("a", "")])
    def test_columns_need_names_once_each(self, columns: Any) -> None:
        with pytest.raises(errors.InvalidSchema, match="names, each of them once"):
            Vector(columns, ((0.0, 1.0), (0.0, 1.0)))

    def test_there_must_be_columns_and_as_many_bounds(self) -> None:
        with pytest.raises(errors.InvalidSchema, match="number of state columns"):
            Vector((), ())
        with pytest.raises(errors.InvalidSchema, match="as many bounds, not 1"):
            Vector(("a", "b"), ((0.0, 1.0),))

    @pytest.mark.parametrize("units", [0, -1, 10**11, 1.0, True])
    def test_a_number_of_units_out_of_range_is_refused(self, units: Any) -> None:
        with pytest.raises(errors.InvalidSchema, match="number of units"):
            Dataset(SCHEMA, units, [])


# --- records -----------------------------------------------------------------------------------------------------


def block(paths: list[list[int]], endings: list[int], final: list[int] | None = None, **given: Any) -> Block:
    """Trajectories given by their states; action 1 in even states, rewards 0.25."""
    padded = np.array([path + [0] * (HORIZON - len(path)) for path in paths]).T
    return Block(
        units=np.arange(len(paths)) if "units" not in given else np.array(given["units"]),
        lengths=np.array([len(path) for path in paths]),
        states=padded,
        actions=(padded + 1) % 2,
        rewards=np.full(padded.shape, 0.25) if "rewards" not in given else np.array(given["rewards"]).T,
        endings=np.array(endings),
        final=np.zeros(len(paths), dtype=int) if final is None else np.array(final),
    )


def bounded(found: Schema, units: int, held: Block) -> Bounded:
    return next(Dataset(found, units, [held]).bounded())


def successors(found: Block, step: int) -> list[tuple[int, int, bool]]:
    records = bounded(SCHEMA, 10, found).records(step)
    return list(zip(records.rows.tolist(), records.successors.tolist(), records.known.tolist(), strict=True))


class TestRecords:
    def test_each_ending_has_its_successor(self) -> None:
        found = block([[0, 1], [0, 1], [0, 1]], [ENDED, CUT_BEFORE, CUT], final=[2, 2, 2])
        assert successors(found, 0) == [(0, 1, True), (1, 1, True), (2, 1, True)]
        assert successors(found, 1) == [(0, STATES, True), (1, 2, True), (2, UNKNOWN, False)]
        assert successors(found, 2) == []

    def test_the_horizon_ends_like_any_last_step(self) -> None:
        found = block([[0, 1, 2, 0]] * 3, [ENDED, CUT_BEFORE, CUT], final=[1, 1, 1])
        assert successors(found, HORIZON - 1) == [(0, STATES, True), (1, 1, True), (2, UNKNOWN, False)]

    def test_a_successor_outside_the_schema_is_unknown(self) -> None:
        found = block([[0, 7], [0, -1], [0]], [ENDED, ENDED, CUT_BEFORE], final=[0, 0, 9])
        assert [known for _, _, known in successors(found, 0)] == [False, False, False]
        assert successors(found, 1) == []

    @pytest.mark.parametrize("seed", range(20))
    def test_all_steps_at_once_have_the_successors_of_each(self, seed: int) -> None:
        """Whatever the block holds: two ways to find them."""
        rng, size = np.random.default_rng(seed), 50
        wild = Block(
            units=np.arange(size),
            lengths=rng.integers(-2, HORIZON + 3, size),
            states=rng.integers(-1, STATES + 2, (HORIZON, size)),
            actions=rng.integers(0, ACTIONS, (HORIZON, size)),
            rewards=np.zeros((HORIZON, size)),
            endings=rng.integers(-1, 4, size),
            final=rng.integers(-1, STATES + 2, size),
        )
        found = bounded(SCHEMA, size, wild)
        together = found.successors()
        for step in range(HORIZON):
            _, _, counts = found.seen(step)
            for one, other in zip(found.successor(step), together, strict=True):
                np.testing.assert_array_equal(one[counts], other[step][counts])

    def test_a_nameless_ending_is_unknown(self) -> None:
        assert [s for _, s, _ in successors(block([[0]] * 3, [-1, 3, 99]), 0)] == [UNKNOWN] * 3

    def test_only_the_end_is_marked_as_ended(self) -> None:
        records = bounded(SCHEMA, 10, block([[0], [0], [0, 1]], [ENDED, CUT_BEFORE, ENDED])).records(0)
        assert records.ended.tolist() == [True, False, False]

    def test_rewards_are_clipped_and_missing_ones_are_zero(self) -> None:
        found = schema(reward=(-1.0, 3.0))
        given = [[5.0, -5.0, np.nan, 1.0], [np.inf, -np.inf, 0.0, -0.0]]
        seen = bounded(found, 10, block([[0] * 4] * 2, [CUT] * 2, rewards=given))
        assert [seen.records(h).rewards.tolist() for h in range(4)] == [[1, 1], [0, 0], [0.25, 0.25], [0.5, 0.25]]

    def test_vectors_with_a_missing_number_count_nowhere_and_wide_ones_do(self) -> None:
        states = np.array([[[0.5, 0.0], [np.nan, 0.0], [np.inf, -9.0]], [[np.nan, 0.0], [0.5, 0.0], [0.5, 0.0]]])
        found = trajectories.block_of(states, np.zeros((2, 3), dtype=int), np.zeros((2, 3)), final=states[0])
        first, last = (bounded(PLANE, 3, found).records(step) for step in range(2))
        assert first.rows.tolist() == [0, 2]
        assert first.known.tolist() == [False, True]
        assert last.rows.tolist() == [1, 2]
        assert last.known.tolist() == [False, True]
        assert not np.isnan(np.asarray(first.successors, dtype=float)).any()

    def test_a_block_of_arrays_is_one_full_trajectory_for_each_unit(self) -> None:
        found = trajectories.block_of(np.zeros((4, 2), dtype=int), np.zeros((4, 2), dtype=int), np.zeros((4, 2)))
        assert (found.units.tolist(), found.lengths.tolist(), found.endings.tolist()) == ([0, 1], [4, 4], [CUT, CUT])


class TestAdmission:
    def admitted(self, positions: list[int], per_unit: int = 1, units: int = 5) -> list[int]:
        found = block([[0]] * len(positions), [ENDED] * len(positions), units=positions)
        rows = bounded(schema(per_unit=per_unit), units, found).records(0).rows
        return [positions[row] for row in rows]

    def test_a_unit_has_the_trajectories_it_may_have(self) -> None:
        assert self.admitted([0, 0, 0, 1, 2, 2]) == [0, 1, 2]
        assert self.admitted([0, 0, 0, 1, 2, 2], per_unit=2) == [0, 0, 1, 2, 2]

    def test_positions_that_are_nobodys_count_nowhere(self) -> None:
        assert self.admitted([-1, 0, 4, 5, 6]) == [0, 4]

    @pytest.mark.parametrize("between", [1, -1, 2])
    def test_a_unit_has_no_more_of_them_when_they_are_scattered(self, between: int) -> None:
        for per_unit in (1, 2):
            assert self.admitted([3, between] * 6, per_unit).count(3) <= per_unit

    @pytest.mark.parametrize("silent", [0, 1, 2])
    def test_a_unit_without_trajectories_lets_no_other_in_or_out(self, silent: int) -> None:
        positions = [4, 1, 2]
        without = [position for position in positions if position != positions[silent]]
        assert self.admitted(without) == [p for p in self.admitted(positions) if p != positions[silent]]

    def test_a_unit_outside_its_blocks_span_counts_nowhere_and_disturbs_nobody(self) -> None:
        spans = [(0, 2), (2, 4), (3, 5)]  # the last one claims a position that an earlier block is for
        units = [[0, 1, 4], [0, 2, 3], [3, 4]]
        blocks = [
            dataclasses.replace(block([[0]] * len(found), [ENDED] * len(found), units=found), span=span)
            for found, span in zip(units, spans, strict=True)
        ]
        (visits,) = sums.totals([VisitCounts(SCHEMA)], Dataset(SCHEMA, 5, blocks))
        assert visits.sum() == 2 + 2 + 1

    def test_several_blocks_without_spans_are_no_dataset(self) -> None:
        blocks = [block([[0]], [ENDED], units=[position]) for position in (0, 1)]
        with pytest.raises(ValueError, match="spans"):
            sums.totals([VisitCounts(SCHEMA)], Dataset(SCHEMA, 5, blocks))

    @pytest.mark.parametrize("second", [[3], [0, 3], [3, 3, 4]])
    def test_a_unit_that_comes_again_in_a_later_block_counts_once(self, second: list[int]) -> None:
        first, then = (block([[0]] * len(units), [ENDED] * len(units), units=units) for units in ([0, 3], second))
        blocks = [dataclasses.replace(first, span=(0, 4)), dataclasses.replace(then, span=(0, 5))]
        (visits,) = sums.totals([VisitCounts(SCHEMA)], Dataset(SCHEMA, 5, blocks))
        assert visits.sum() == 2 + second.count(4)


class TestTotal:
    def rewards(self, bounds: tuple[float, float], given: list[list[float]], reward: Any = (-1.0, 1.0)) -> Any:
        found = schema(reward=reward, total=bounds)
        seen = bounded(found, 10, block([[0] * 4] * len(given), [CUT] * len(given), rewards=given))
        return np.array([seen.records(h).rewards for h in range(4)]).T * found.width + found.low

    def test_each_trajectorys_running_total_stays_within_its_bounds(self) -> None:
        found = self.rewards((-1.0, 1.0), [[1, 1, -1, -1], [-1, -1, -1, 1], [0.5, 0.25, 0.25, 0.25]])
        assert found.tolist() == [[1, 0, -1, -1], [-1, 0, 0, 1], [0.5, 0.25, 0.25, 0]]

    @untimed
    @given(st.lists(st.lists(st.floats(-9, 9), min_size=4, max_size=4), min_size=1, max_size=4), st.floats(0.1, 3))
    def test_no_trajectory_passes_it_and_each_is_bounded_alone(self, given_: Any, high: float) -> None:
        together = self.rewards((-0.5, high), given_)
        running = together.cumsum(axis=1)
        assert (running <= high + 1e-9).all()
        assert (running >= -0.5 - 1e-9).all()
        alone = [self.rewards((-0.5, high), [one])[0] for one in given_]
        assert (together == np.array(alone)).all()

    def test_the_widest_bounds_there_are_raise_no_warning(self) -> None:
        found = self.rewards((0.0, 1e100), [[0.8e100] * 4], reward=(0.0, 0.8e100))
        assert found[0].tolist() == pytest.approx([0.8e100, 0.2e100, 0, 0])


# --- counting by hand --------------------------------------------------------------------------------------------


def by_hand(found: Block, dynamics: str) -> dict[str, Any]:
    """What the statistics say they count, one trajectory and step at a time."""
    tables = 1 if dynamics == "stationary" else HORIZON
    visits = np.zeros((tables, STATES, ACTIONS), dtype=int)
    moves = np.zeros((tables, STATES, ACTIONS, STATES + 1), dtype=int)
    rewards = np.zeros((tables, STATES, ACTIONS))
    for row, length in enumerate(found.lengths):
        seen = set()
        for step in range(min(length, HORIZON)):
            state, action = int(found.states[step, row]), int(found.actions[step, row])
            last, ending = step == min(length, HORIZON) - 1, found.endings[row]
            following = int(found.final[row] if last else found.states[step + 1, row])
            following = STATES if last and ending == ENDED else following if 0 <= following < STATES else UNKNOWN
            if last and ending not in (ENDED, CUT_BEFORE):
                following = UNKNOWN
            if following == UNKNOWN and step == HORIZON - 1 and dynamics == "per_step":
                following = STATES
            cell = (0 if tables == 1 else step, state, action)
            if not (0 <= state < STATES and 0 <= action < ACTIONS) or following == UNKNOWN:
                continue
            if tables == 1 and cell in seen:
                continue
            seen.add(cell)
            visits[cell] += 1
            moves[(*cell, following)] += 1
            rewards[cell] += found.rewards[step, row] - 0.5
    return {"visits": visits, "moves": moves, "rewards": rewards}


class TestCounting:
    @pytest.mark.parametrize("dynamics", ["per_step", "stationary"])
    @pytest.mark.parametrize("seed", range(8))
    def test_visits_transitions_and_rewards_are_those_counted_by_hand(self, dynamics: Any, seed: int) -> None:
        rng = np.random.default_rng(seed)
        size = 40
        found = Block(
            units=np.arange(size),
            lengths=rng.integers(0, HORIZON + 3, size),
            states=rng.integers(-1 if seed % 2 else 0, STATES + seed % 2, (HORIZON, size)),
            actions=rng.integers(0, ACTIONS + seed % 2, (HORIZON, size)),
            rewards=rng.choice([0.0, 0.25, 0.5, 1.0], (HORIZON, size)),
            endings=rng.integers(0, 4, size),
            final=rng.integers(-1, STATES + 1, size),
        )
        asked: Any = [VisitCounts(SCHEMA, dynamics), TransitionCounts(SCHEMA, dynamics), RewardSums(SCHEMA, dynamics)]
        visits, moves, rewards = sums.totals(asked, Dataset(SCHEMA, size, [found]))
        hand = by_hand(found, dynamics)
        assert (visits.ravel() == hand["visits"].ravel()).all()
        assert (moves.ravel() == hand["moves"].ravel()).all()
        assert (rewards.ravel() == hand["rewards"].ravel() * 2**16).all()

    def test_some_rows_are_those_of_the_whole_table(self) -> None:
        found = Dataset(SCHEMA, 3, [block([[0, 1, 2, 0], [1, 1], [2]], [ENDED, CUT, ENDED])])
        rows = np.array([1, 2, 8, 23])
        whole, some = sums.totals([TransitionCounts(SCHEMA), TransitionCounts(SCHEMA, rows=rows)], found)
        assert (some == whole[rows]).all()
        assert whole.sum() == 6

    @pytest.mark.parametrize("kind", [VisitCounts, TransitionCounts, RewardSums])
    def test_vector_states_are_to_be_binned_first(self, kind: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match="bin the columns"):
            _ = kind(PLANE).shape


class TestExactProduct:
    @pytest.mark.parametrize(
        ("left", "right"), [(2**16, 2**16), (2**31, 2**16), (2**14, 2**33), (2**8, 2**39), (1, 1), (2**45, 1)]
    )
    @pytest.mark.parametrize("rows", [0, 1, 29_999])
    def test_no_digit_is_lost_at_the_largest_numbers(self, left: int, right: int, rows: int) -> None:
        rng = np.random.default_rng(rows)
        a = rng.choice([-left, left, left - 1, 0, 1, -1], (rows, 3))
        b = rng.choice([-right, right, right - 1, 1], (rows, 2))
        a[:, 0], b[:, 0] = left - 1, right - 1  # a sum that grows all along, and is odd on the way
        exact = a.T.astype(object) @ b.astype(object)
        assert (sums.exact_product(a, b, left, right) == exact).all()
        assert (sums.exact_product(a.astype(float), b.astype(float), left, right) == exact).all()
