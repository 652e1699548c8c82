"""Pooled statistics: no patient moves one further than it says, in exact integers, and a patient's part is its own."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.blocks import Kept, OfBlock
from discretion.learning import averages, pooled, pooled_records, sums
from discretion.learning import features as maps
from discretion.learning.pooled_values import Score, Value
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import CUT, ENDED, Block, Stored
from tests.learning import test_sums
from tests.learning.vector_units import (
    ACTIONS,
    HORIZON,
    MAPS,
    PER_UNIT,
    PLAIN,
    RICH,
    VECTOR,
    dataset,
    moved,
    schema_of,
    steady,
    wild,
)


def values(features: maps.Blocks, groups: int, seed: int = 0, size: float = 1.0) -> tuple[Value, ...]:
    rng, shape = np.random.default_rng(seed), (ACTIONS, features.width)
    return tuple(
        Value(Score(0.5, 0.3, True, rng.normal(size=shape) * size, rng.normal(size=shape), np.full(2, 0.5)), -2.0, 2.0)
        for _ in range(groups)
    )


def roots(features: maps.Blocks, groups: int, size: float = 1.0) -> Any:
    shape = (groups * ACTIONS, features.width, features.width)
    return np.random.default_rng(7).normal(size=shape) * size


def statistics(features: maps.Blocks, schema: Schema, groups: int = 1, clip: Fraction = Fraction(1)) -> list[Any]:
    shared = (features, groups, clip)
    return [
        averages.RewardsAndEnds(schema),
        pooled.Gram(schema, *shared),
        pooled.Residuals(schema, *shared, radius=0.5, discount=0.9, bound=0.7, values=values(features, groups)),
        pooled.Residuals(
            schema, *shared, radius=0.01, discount=0.9, bound=0.7, values=values(features, groups, 1, 50.0)
        ),
        pooled.Residuals(
            schema, *shared, discount=0.9, values=values(features, groups), roots=roots(features, groups, 30.0)
        ),
        pooled.Residuals(schema, *shared, discount=0.9, trace=0.8, values=values(features, groups, 2, 1e200)),
    ]


_PLENTY = 10**9


class Remembering:
    """One block after another, and what was computed of them as far as there is room."""

    def __init__(self, blocks: list[Block], room: int) -> None:
        self.blocks, self.kept, self.reads = blocks, Kept(room), 0

    def stored(self) -> Iterator[Stored]:
        for index, block in enumerate(self.blocks):
            assert block.span is not None
            yield Stored(block.span, partial(self._read, block), OfBlock(self.kept, index))

    def give_way(self, size: int | None) -> None:
        self.kept.give_way(size)

    def _read(self, block: Block, rewards: bool) -> Block:
        assert rewards
        self.reads += 1
        return block


class TestRemembered:
    @MAPS
    @PER_UNIT
    @pytest.mark.parametrize("groups", [1, 2])
    def test_later_passes_give_the_same_integers_and_read_only_what_there_was_no_room_for(
        self, features: maps.Blocks, per_unit: int, groups: int
    ) -> None:
        rng, schema = np.random.default_rng(per_unit), schema_of(per_unit)
        data = test_sums.cut(dataset(schema, [wild(rng, per_unit, tame=unit % 2 > 0) for unit in range(30)]), (10, 20))
        asked = statistics(features, schema, groups)[1:]
        expected = [sums.totals([each], data) for each in asked]

        def reads(room: int) -> tuple[int, int]:
            """How often blocks were read, and the room that is left."""
            shelf = Remembering(list(data.blocks), room)
            found = [sums.totals([each], replace(data, blocks=shelf)) for each in asked]  # type: ignore[arg-type]
            np.testing.assert_equal(found, expected)
            return shelf.reads, shelf.kept._room

        once, left = reads(_PLENTY)
        some, _ = reads((_PLENTY - left) // 2)
        always, _ = reads(0)
        assert (once, always) == (3, 3 * len(asked))
        assert once < some < always

    @MAPS
    def test_a_part_of_the_patients_is_remembered_for_itself(self, features: maps.Blocks) -> None:
        rng, schema = np.random.default_rng(0), schema_of()
        data = test_sums.cut(dataset(schema, [wild(rng, 1, tame=True) for _ in range(30)]), (10, 20))
        gram = statistics(features, schema)[1:2]
        stored = replace(data, blocks=Remembering(list(data.blocks), _PLENTY))  # type: ignore[arg-type]
        for first, units in ((0, 30), (0, 15), (15, 15), (15, 14), (0, 30)):
            np.testing.assert_equal(
                sums.totals(gram, stored.part(first, units)), sums.totals(gram, data.part(first, units))
            )


class TestPacked:
    """What is kept is in few bytes, and comes back as it was."""

    @pytest.mark.parametrize("largest", [2**15 - 1, 2**15, 2**16, 2**23 - 1, 2**23])
    def test_every_whole_number_comes_back(self, largest: int) -> None:
        numbers = np.array([[-largest, -largest + 1, -65536, -65535], [-1, 0, 65535, largest]], dtype=np.float64)
        numbers = np.clip(numbers, -largest, largest)
        parts = pooled_records._parts(numbers, largest)
        assert (pooled_records._whole(parts) == numbers).all()
        assert sum(part.itemsize for part in parts) == pooled_records._bytes(largest)

    def test_every_field_comes_back_and_takes_what_it_is_said_to(self) -> None:
        rng, schema = np.random.default_rng(3), schema_of()
        (block,) = dataset(schema, [wild(rng, 1) for _ in range(20)]).bounded()
        every = pooled_records.seen_of(block, schema, 2)
        seen, sizes = every.mapped(RICH), (RICH, 4, 2**15)
        packed = pooled_records.Packed.of(seen, *sizes)
        for name, value in vars(packed.opened()).items():
            assert np.array_equal(value, getattr(seen, name)), name
        held = [*packed.here, *packed.beyond, *(value for value in vars(packed).values() if hasattr(value, "nbytes"))]
        assert sum(array.nbytes for array in held) == pooled_records.Packed.size(every, *sizes)


class TestNeverExceeded:
    @MAPS
    @PER_UNIT
    @pytest.mark.parametrize(("groups", "outcome"), [(1, False), (2, False), (2, True)])
    def test_no_replaced_patient_moves_a_statistic_further_than_it_says(
        self, features: maps.Blocks, per_unit: int, groups: int, outcome: bool
    ) -> None:
        rng, schema = np.random.default_rng([per_unit, groups]), schema_of(per_unit, outcome=outcome)
        measured = [s for clip in ("1/3", "2") for s in statistics(features, schema, groups, Fraction(clip))]
        for trial in range(25):
            patients = [wild(rng, per_unit, tame=trial % 2 == 0) for _ in range(3)]
            before = sums.totals(measured, dataset(schema, patients))
            after = sums.totals(measured, dataset(schema, [patients[0], wild(rng, per_unit), patients[2]]))
            assert max(map(moved, measured, before, after)) <= 1

    @MAPS
    @PER_UNIT
    def test_no_two_patients_at_the_extremes_are_further_apart(self, features: maps.Blocks, per_unit: int) -> None:
        schema = schema_of(per_unit)
        measured = statistics(features, schema)
        corners = itertools.product([(-1.0, 0.0), (3.0, 10.0), (3.0, 0.0), (1.0, np.nan)], (0, 1), (-1.0, 2.0))
        alone = [sums.totals(measured, dataset(schema, [steady(*corner, copies=per_unit)])) for corner in corners]
        for one, other in itertools.combinations(alone, 2):
            assert max(map(moved, measured, one, other)) <= 1

    @settings(deadline=None, max_examples=60)
    @given(seed=st.integers(0, 10**6), clip=st.fractions(Fraction(1, 50), 20), per_unit=st.integers(1, 4))
    def test_no_contribution_is_longer_than_its_clip(self, seed: int, clip: Fraction, per_unit: int) -> None:
        schema = schema_of(per_unit)
        gram = pooled.Gram(schema, RICH, 1, clip)
        (total,) = sums.totals([gram], dataset(schema, [wild(np.random.default_rng(seed), per_unit)]))
        square = Fraction(sum(int(x) ** 2 for x in total.ravel())) * gram.resolution**2
        assert square <= clip**2


class TestReached:
    @PER_UNIT
    def test_two_patients_are_as_far_apart_as_the_gram_says(self, per_unit: int) -> None:
        schema = schema_of(per_unit)
        gram = pooled.Gram(schema, PLAIN, 1, Fraction(3, 2))
        corner = (3.0, 10.0)
        one, other = (dataset(schema, [steady(corner, action, 0.0, per_unit)]) for action in (0, 1))
        found = moved(gram, sums.totals([gram], one)[0], sums.totals([gram], other)[0])
        assert Fraction(99, 100) < found <= 1

    def test_two_patients_are_as_far_apart_as_the_residuals_say(self) -> None:
        schema = schema_of()
        residuals: Any = pooled.Residuals(schema, PLAIN, 1, Fraction(3, 2), radius=0.3)
        one, other = (dataset(schema, [steady((3.0, 10.0), 0, reward)]) for reward in (-1.0, 2.0))
        found = moved(residuals, sums.totals([residuals], one)[0], sums.totals([residuals], other)[0])
        assert Fraction(99, 100) < found <= 1

    def test_and_so_they_are_under_a_released_map(self) -> None:
        schema = schema_of()
        residuals: Any = pooled.Residuals(schema, PLAIN, 1, Fraction(3, 2), roots=roots(PLAIN, 1, 30.0))
        one, other = (dataset(schema, [steady((3.0, 10.0), 0, reward)]) for reward in (-1.0, 2.0))
        found = moved(residuals, sums.totals([residuals], one)[0], sums.totals([residuals], other)[0])
        assert Fraction(99, 100) < found <= 1

    def test_two_patients_are_as_far_apart_as_the_averages_say(self) -> None:
        """The best rewards and an end at once, against the worst and none."""
        schema = schema_of()
        measured: Any = averages.RewardsAndEnds(schema)
        ended = steady((0.0, 0.0), 0, 2.0, ending=ENDED)
        ended["lengths"] = np.ones(1, dtype=int)
        one, other = dataset(schema, [ended]), dataset(schema, [steady((0.0, 0.0), 0, -1.0)])
        assert moved(measured, sums.totals([measured], one)[0], sums.totals([measured], other)[0]) == 1

    def test_another_claim_would_be_found_out(self) -> None:
        """Without the weight, a patient of five equal records is five times as long as one of norm one."""
        schema = schema_of()
        gram = replace(pooled.Gram(schema, PLAIN, 1, Fraction(100)))
        (total,) = sums.totals([gram], dataset(schema, [steady((3.0, 10.0), 0, 0.0)]))
        assert Fraction(sum(int(x) ** 2 for x in total.ravel())) * gram.resolution**2 > Fraction(24)


class TestPurity:
    @MAPS
    def test_sums_do_not_depend_on_order_or_blocks_or_company(self, features: maps.Blocks) -> None:
        rng, schema = np.random.default_rng(3), schema_of(2)
        measured = statistics(features, schema, 2)
        patients = [wild(rng, 2, tame=index % 3 == 0) for index in range(40)]
        together = sums.totals(measured, dataset(schema, patients))
        order = rng.permutation(40)
        permuted = sums.totals(measured, dataset(schema, [patients[index] for index in order], order))
        apart = [sums.totals(measured, dataset(schema, [patient])) for patient in patients]
        for index, total in enumerate(together):
            assert (total == permuted[index]).all()
            assert (total == sum(one[index] for one in apart)).all()
            assert total.any()

    def test_many_patients_are_looked_at_in_pieces_with_the_same_sums(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng, schema = np.random.default_rng(4), schema_of(2)
        measured = statistics(RICH, schema)
        data = dataset(schema, [wild(rng, 2) for _ in range(30)])
        whole = sums.totals(measured, data)
        monkeypatch.setattr(pooled, "_RECORDS", 40)
        for one, other in zip(whole, sums.totals(measured, data), strict=True):
            assert (one == other).all()

    def test_values_that_are_no_numbers_do_no_harm(self) -> None:
        schema = schema_of()
        broken = Score(np.nan, 0.3, True, np.full((2, 3), np.nan), np.full((2, 3), np.inf), np.full(2, np.nan))
        nowhere = np.array([[[np.nan, np.inf, -np.inf]] * 3] * 2)
        residuals: Any = pooled.Residuals(schema, PLAIN, values=(Value(broken, np.nan, np.nan),), roots=nowhere)
        with np.errstate(all="ignore"):
            (total,) = sums.totals([residuals], dataset(schema, [wild(np.random.default_rng(0), 1, tame=True)]))
        assert Fraction(sum(int(x) ** 2 for x in total.ravel())) * residuals.resolution**2 <= 1


class TestValues:
    """The sums themselves, record by record in floating point."""

    @MAPS
    def test_a_gram_matrix_is_the_weighted_sum_of_outer_products(self, features: maps.Blocks) -> None:
        rng, schema = np.random.default_rng(5), schema_of()
        patients = [wild(rng, 1, tame=True) for _ in range(6)]
        (found,) = sums.totals([pooled.Gram(schema, features, 1, Fraction(1))], dataset(schema, patients))
        expected = np.zeros((ACTIONS, features.width, features.width))
        for patient in patients:
            own = np.zeros_like(expected)
            for psi, action in zip(
                features.psi(patient["states"][:, 0]) / 2**16, patient["actions"][:, 0], strict=True
            ):
                own[action] += np.outer(psi, psi)
            expected += own * min(1.0, 1.0 / math.sqrt((own**2).sum()))
        assert found / 2.0**32 == pytest.approx(expected, abs=1e-2)

    def test_residuals_are_what_the_value_fails_to_predict(self) -> None:
        rng, schema = np.random.default_rng(6), schema_of()
        released = values(RICH, 2)
        statistic: Any = pooled.Residuals(
            schema, RICH, 2, Fraction(100), radius=100.0, discount=0.9, bound=5.0, values=released
        )
        ended = wild(rng, 1, tame=True) | {"lengths": np.array([3]), "endings": np.array([ENDED])}
        unknown = wild(rng, 1, tame=True) | {"lengths": np.array([2]), "endings": np.array([CUT])}
        for patient, steps in ((wild(rng, 1, tame=True), 5), (ended, 3), (unknown, 1)):
            path = np.concatenate([patient["states"][:, 0], patient["final"]])
            expected = np.zeros((4, RICH.width))
            for step in range(steps):
                group, later, action = step * 2 // 5, min(step + 1, 4) * 2 // 5, patient["actions"][step, 0]
                psi, following = (RICH.psi(path[index : index + 1]) for index in (step, step + 1))
                raw = patient["rewards"][step, 0]
                reward = min(max(0.0 if math.isnan(raw) else raw, -1.0), 2.0) / 3.0
                value = 0.0 if steps == 3 and step == 2 else float(released[later].of(following)[0])
                error = reward + 0.9 * value - float(released[group].score.mean(psi)[action, 0])
                expected[group * 2 + action] += psi[0] / 2**16 * min(max(error / 5.0, -1.0), 1.0)
            (found,) = sums.totals([statistic], dataset(schema, [patient]))
            assert found / 2.0**20 * 100.0 == pytest.approx(expected, abs=1e-2)
            assert found.any()

    def test_what_follows_counts_as_long_as_it_is_what_the_value_is_of(self) -> None:
        rng, schema, trace = np.random.default_rng(7), schema_of(), 0.5
        released = values(RICH, 1)
        shared: Any = {"radius": 100.0, "discount": 0.9, "bound": 50.0, "values": released}
        plain = pooled.Residuals(schema, RICH, 1, Fraction(100), **shared)
        traced = replace(plain, trace=trace)
        broken = 0
        for _ in range(20):
            patient = wild(rng, 1, tame=True)
            path = np.concatenate([patient["states"][:, 0], patient["final"]])
            psi, actions = RICH.psi(path), patient["actions"][:, 0]
            raw = np.nan_to_num(patient["rewards"][:, 0])
            own = np.clip(raw, -1.0, 2.0) / 3.0 + 0.9 * released[0].of(psi[1:])
            own = own - released[0].score.mean(psi[:-1])[actions, np.arange(5)]
            best = released[0].best(psi)[1]
            found = own.copy()
            for step in reversed(range(4)):
                followed = actions[step + 1] == best[step + 1]
                found[step] += 0.9 * trace * found[step + 1] * followed
                broken += not followed
            expected = np.zeros((2, RICH.width))
            for step, error in enumerate(found):
                expected[actions[step]] += psi[step] / 2**16 * error / 50.0
            (total,) = sums.totals([traced], dataset(schema, [patient]))
            assert total / 2.0**20 * 100.0 == pytest.approx(expected, abs=1e-2)
        assert 0 < broken < 80

    def test_a_released_map_is_applied_to_each_cells_sums(self) -> None:
        schema, released = schema_of(), roots(RICH, 1)
        plain: Any = pooled.Residuals(schema, RICH, 1, Fraction(100), radius=100.0, bound=5.0, values=values(RICH, 1))
        mapped: Any = replace(plain, roots=released)
        for seed in range(5):
            data = dataset(schema, [wild(np.random.default_rng(seed), 1, tame=True)])
            before, after = sums.totals([plain, mapped], data)
            assert after == pytest.approx(np.einsum("cij,cj->ci", released, before), abs=2.0**20 * 1e-5)
            assert after.any()

    def test_a_missing_value_is_no_other_state_in_the_next_record(self) -> None:
        schema, patient = schema_of(), steady((1.0, math.nan), 1, 2.0)
        (block,) = dataset(schema, [patient]).bounded()
        assert pooled_records.seen_of(block, schema, 1).again.tolist() == [1, 2, 3, 4, -1]

    def test_a_successor_that_is_not_the_next_recorded_state_is_its_own(self) -> None:
        """Where the next record does not count, the successor's features are computed and not looked up."""
        rng, schema = np.random.default_rng(8), schema_of()
        patient = wild(rng, 1, tame=True)
        outside = patient | {"actions": np.where(np.arange(HORIZON)[:, None] == 2, -1, patient["actions"])}
        statistic: Any = pooled.Residuals(schema, RICH, 1, Fraction(100), 100.0, 0.9, bound=5.0, values=values(RICH, 1))
        (found,) = sums.totals([statistic], dataset(schema, [outside]))
        path, expected = np.concatenate([outside["states"][:, 0], outside["final"]]), np.zeros((ACTIONS, RICH.width))
        for step in (0, 1, 3, 4):
            psi, following = (RICH.psi(path[index : index + 1]) for index in (step, step + 1))
            raw, action = outside["rewards"][step, 0], outside["actions"][step, 0]
            reward = min(max(0.0 if math.isnan(raw) else raw, -1.0), 2.0) / 3.0
            (value,) = statistic.values
            error = reward + 0.9 * float(value.of(following)[0]) - float(value.score.mean(psi)[action, 0])
            expected[action] += psi[0] / 2**16 * min(max(error / 5.0, -1.0), 1.0)
        assert found / 2.0**20 * 100.0 == pytest.approx(expected, abs=1e-2)


class TestMissing:
    def test_a_record_counts_where_only_what_may_be_missing_is(self) -> None:
        schema = schema_of()
        gram: Any = pooled.Gram(schema, RICH, 1, Fraction(100))
        for state, counts in (((1.0, np.nan), True), ((np.nan, 1.0), False), ((np.nan, np.nan), False)):
            (total,) = sums.totals([gram], dataset(schema, [steady(state, 0, 0.0)]))
            assert total.any() == counts

    def test_columns_that_may_be_missing_are_state_columns(self) -> None:
        for wrong in (("c",), ("a", "a"), ["a"]):
            with pytest.raises(errors.InvalidSchema, match="may be missing"):
                Vector(("a", "b"), ((0.0, 1.0), (0.0, 1.0)), missing=wrong)  # type: ignore[arg-type]


class TestRefusals:
    def test_groups_fit_the_horizon(self) -> None:
        for groups in (0, 6):
            with pytest.raises(errors.InvalidParameter, match="groups of steps"):
                pooled.Gram(schema_of(), PLAIN, groups)

    def test_values_fit_the_map(self) -> None:
        for wrong in (values(RICH, 1), values(PLAIN, 2)):
            with pytest.raises(errors.InvalidParameter, match="do not fit"):
                pooled.Residuals(schema_of(), PLAIN, values=wrong)

    def test_a_released_map_fits_the_map_of_features(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="roots"):
            pooled.Residuals(schema_of(), PLAIN, roots=roots(RICH, 1))

    def test_a_patient_with_more_records_than_can_be_summed_is_refused(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="records"):
            pooled.Gram(Schema(10_000, VECTOR, ACTIONS, per_unit=1000), PLAIN)

    def test_the_groups_of_steps_are_even(self) -> None:
        assert pooled_records.group_of(schema_of(), 2).tolist() == [0, 0, 0, 1, 1]
