"""The sums that a policy of vector states is judged with: no patient moves them further than they say, bit for bit."""

import itertools
import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import followed, outcomes, policy, pooled_values, sums, transit_outcomes, transits
from discretion.learning.schemas import Schema, Vector
from discretion.learning.terms import Hinge
from discretion.learning.trajectories import CUT, ENDED, Trajectories
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


def judging(groups: int = 1, seed: int = 0) -> policy.Policy:
    """Decides by the state, differently in each group of steps."""
    rng, shape = np.random.default_rng(seed), (ACTIONS, PLAIN.width)
    learned = tuple(
        pooled_values.Score(0.0, 0.0, True, rng.normal(size=shape), np.zeros(shape), np.full(ACTIONS, 0.5))
        for _ in range(groups)
    )
    return policy.Policy("any", HORIZON, VECTOR, ACTIONS, policy.Pooled(PLAIN, learned, HORIZON, 3.0))


def always(action: int) -> policy.Policy:
    weights = np.zeros((ACTIONS, PLAIN.width))
    learned = pooled_values.Score(0.0, 0.0, False, weights, weights, np.eye(ACTIONS)[action])
    return policy.Policy("any", HORIZON, VECTOR, ACTIONS, policy.Pooled(PLAIN, (learned,), HORIZON, 3.0))


def judged_of(features: maps.Blocks, schema: Schema, groups: int = 1, limit: float = 2.0) -> transits.Judged:
    slopes = np.random.default_rng(9).normal(size=(ACTIONS, features.width)) * 0.4
    behaviour = transits.Behaviour(np.array([0.6, 0.4]), slopes)
    return transits.Judged(schema, features, judging(groups), groups, limit, behaviour)


def values(features: maps.Blocks, size: float = 1.0, wild: bool = False) -> tuple[transits.Value, ...]:
    rng = np.random.default_rng(4)
    weights = rng.normal(size=(HORIZON + 1, features.width)) * size
    if wild:  # what a learner hands over may be anything
        weights[0, 0], weights[1, 1] = np.nan, np.inf
    base = np.append(rng.normal(size=HORIZON), 0.0)
    return tuple(transits.Value(float(b), w, -9.0, 9.0) for b, w in zip(base, weights, strict=True))


def statistics(features: maps.Blocks, schema: Schema, groups: int = 1, limit: float = 2.0) -> list[Any]:
    judged = judged_of(features, schema, groups, limit)
    weights = np.random.default_rng(5).normal(size=(HORIZON, features.width)) * 3
    tame, wild = values(features), values(features, 50.0, wild=True)
    scored = [
        transit_outcomes.Scores(judged, tame, weights, 0.3, 2.0),
        transit_outcomes.Scores(judged, wild, np.where(weights > 2, np.nan, weights), np.nan, 0.1),
    ]
    return [
        transits.UnitSizes(judged),
        followed.Received(schema, -5 / 3, 10 / 3),
        transits.Everyone(judged),
        transits.Actions(judged),
        transits.Followed(judged),
        transit_outcomes.Starts(judged),
        transit_outcomes.Moves(judged, 0.4),
        transit_outcomes.Targets(judged, None, 0, 0.1, 1.0, 0.5),
        transit_outcomes.Targets(judged, tame[1], groups - 1, 0.1, 2.0, 0.7, 1),
        transit_outcomes.Targets(judged, wild[1], 0, np.inf, 0.0, np.nan, 2),
        *scored,
        *(outcomes.ScoreSizes(score) for score in scored),
    ]


def totals(measured: Sequence[Any], data: Trajectories) -> list[Any]:
    with np.errstate(all="ignore"):  # as the curator does
        return sums.totals(measured, data)


class TestNeverExceeded:
    @MAPS
    @PER_UNIT
    @pytest.mark.parametrize(("groups", "outcome"), [(1, False), (2, False), (2, True)])
    def test_no_replaced_patient_moves_a_statistic_further_than_it_says(
        self, features: maps.Blocks, per_unit: int, groups: int, outcome: bool
    ) -> None:
        rng, schema = np.random.default_rng([per_unit, groups]), schema_of(per_unit, outcome=outcome)
        measured = [s for limit in (0.4, 3.0, np.nan) for s in statistics(features, schema, groups, limit)]
        for trial in range(20):
            patients = [wild(rng, per_unit, tame=trial % 2 == 0) for _ in range(3)]
            before = totals(measured, dataset(schema, patients))
            after = totals(measured, dataset(schema, [patients[0], wild(rng, per_unit), patients[2]]))
            assert max(map(moved, measured, before, after)) <= 1

    @MAPS
    @PER_UNIT
    def test_no_two_patients_at_the_extremes_are_further_apart(self, features: maps.Blocks, per_unit: int) -> None:
        schema = schema_of(per_unit, total=(-9.0, 9.0))
        measured = [s for limit in (0.5, 50.0) for s in statistics(features, schema, 1, limit)]
        corners = itertools.product([(-1.0, 0.0), (3.0, 10.0), (3.0, 0.0), (1.0, np.nan)], (0, 1), (-1.0, 2.0))
        alone = [totals(measured, dataset(schema, [steady(*corner, copies=per_unit)])) for corner in corners]
        for one, other in itertools.combinations(alone, 2):
            assert max(map(moved, measured, one, other)) <= 1

    @settings(deadline=None, max_examples=60)
    @given(seed=st.integers(0, 10**6), limit=st.floats(1e-3, 30), per_unit=st.integers(1, 4))
    def test_no_gram_matrix_of_a_patient_has_a_trace_above_one(self, seed: int, limit: float, per_unit: int) -> None:
        schema = schema_of(per_unit)
        judged = judged_of(RICH, schema, 1, limit)
        data = dataset(schema, [wild(np.random.default_rng(seed), per_unit)])
        for total in totals([transits.Everyone(judged), transits.Followed(judged)], data):
            trace = sum(int(x) for x in np.trace(total.reshape(-1, RICH.width, RICH.width), axis1=1, axis2=2))
            assert trace <= maps.ONE**2


class TestReached:
    """The controls: were any of these bounds stated a hundredth lower, one of these would fail."""

    @PER_UNIT
    def test_two_patients_are_as_far_apart_as_each_sum_says(self, per_unit: int) -> None:
        schema = schema_of(per_unit)
        features = maps.Blocks(VECTOR, ACTIONS, ("a",))
        judged = transits.Judged(schema, features, always(0), 1, 1.0)
        low, high = (-1.0, 0.0), (3.0, 0.0)
        ends = (steady(low, 0, 0.0, per_unit), steady(high, 0, 0.0, per_unit))
        pay = (steady(high, 0, -1.0, per_unit), steady(high, 0, 2.0, per_unit))
        value = transits.Value(0.0, np.array([50.0]), -50.0, 50.0)
        score = transit_outcomes.Scores(judged, (value,) * (HORIZON + 1), np.full((HORIZON, 1), 50.0))
        worst: list[tuple[Any, Unit, Unit]] = [
            (followed.Received(schema, -5 / 3, 10 / 3), *pay),
            (transit_outcomes.Starts(judged), *ends),
            (transits.Actions(judged), *ends),
            (score, *ends),
            (outcomes.ScoreSizes(replace(score, centre=-50.0)), *ends),
        ]
        for statistic, one, other in worst:
            assert Fraction(99, 100) < self._share(statistic, one, other) <= 1, statistic.name

    @PER_UNIT
    def test_a_patient_of_full_stays_that_earned_all_is_as_far_from_none_as_sizes_say(self, per_unit: int) -> None:
        schema = replace(schema_of(per_unit), reward=(0.0, 1.0))
        judged = transits.Judged(schema, maps.Blocks(VECTOR, ACTIONS, ("a",)), always(0), 1, 1.0)
        patients = steady((3.0, 0.0), 0, 1.0, per_unit), wild(np.random.default_rng(0), 0, tame=True)
        assert Fraction(99, 100) < self._share(transits.UnitSizes(judged), *patients) <= 1

    def _share(self, statistic: Any, one: Unit, other: Unit) -> Fraction:
        first, second = (totals([statistic], dataset(statistic.schema, [unit]))[0] for unit in (one, other))
        return moved(statistic, first, second)

    @pytest.mark.parametrize("kind", [transits.Everyone, transits.Followed])
    def test_gram_matrices_of_unlike_states_are_as_far_apart_as_they_say(self, kind: Any) -> None:
        """Two states whose features are at right angles, each as long as the limit."""
        schema = schema_of()
        judged = transits.Judged(schema, maps.Blocks(VECTOR, ACTIONS, ("a", "b")), always(0), 1, 1.0)
        ends = (steady((3.0, 0.0), 0, 0.0), steady((3.0, 10.0), 0, 0.0))
        assert Fraction(99, 100) < self._share(kind(judged), *ends) <= 1

    @PER_UNIT
    def test_moves_and_targets_reach_their_bound_from_both_sides(self, per_unit: int) -> None:
        schema = schema_of(per_unit)
        judged = transits.Judged(schema, maps.Blocks(VECTOR, ACTIONS, ("a", "b")), always(0), 1, 1.0)
        here = (3.0, 5.0)
        ways = [steady(here, 0, 0.0, per_unit, final=far, length=1) for far in ((3.0, 10.0), (3.0, 0.0))]
        assert Fraction(99, 100) < self._share(transit_outcomes.Moves(judged, 0.1), *ways) <= 1
        value = transits.Value(0.0, np.array([0.0, 50.0]), -50.0, 50.0)
        assert Fraction(99, 100) < self._share(transit_outcomes.Targets(judged, value, 0, 0.0, 100.0), *ways) <= 1


class TestPurity:
    @MAPS
    @pytest.mark.parametrize("outcome", [False, True])
    def test_sums_do_not_depend_on_order_or_blocks_or_company(self, features: maps.Blocks, outcome: bool) -> None:
        rng, schema = np.random.default_rng(3), schema_of(2, outcome=outcome)
        measured = statistics(features, schema, 2)
        patients = [wild(rng, 2, tame=index % 3 == 0) for index in range(40)]
        together = totals(measured, dataset(schema, patients))
        order = rng.permutation(40)
        permuted = totals(measured, dataset(schema, [patients[index] for index in order], order))
        apart = [totals(measured, dataset(schema, [patient])) for patient in patients]
        for index, total in enumerate(together):
            assert (total == permuted[index]).all()
            assert (total == sum(one[index] for one in apart)).all()

    def test_many_patients_are_looked_at_in_pieces_with_the_same_sums(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng, schema = np.random.default_rng(4), schema_of(2)
        measured = statistics(RICH, schema)
        data = dataset(schema, [wild(rng, 2) for _ in range(30)])
        whole = totals(measured, data)
        monkeypatch.setattr(transits, "_ENTRIES", 60)
        monkeypatch.setattr(transits, "_RECORDS", 7)
        for one, other in zip(whole, totals(measured, data), strict=True):
            assert (one == other).all()

    def test_what_is_counted_is_something(self) -> None:
        schema = schema_of(2)
        patients = [wild(np.random.default_rng(seed), 2, tame=True) for seed in range(20)]
        for statistic, total in zip(
            statistics(RICH, schema), totals(statistics(RICH, schema), dataset(schema, patients)), strict=True
        ):
            assert total.any() or statistic.name.endswith("round 3")  # of which nothing is a number


class TestMemory:
    """How much is held at once follows from public sizes, not from what a patient has."""

    def _largest(self, monkeypatch: pytest.MonkeyPatch, statistic: Any, data: Trajectories) -> tuple[int, int]:
        """Entries of the largest table, and units in the largest piece."""
        tables, pieces, zeros, visits = [0], [0], np.zeros, transits.Visits

        def counted(shape: Any, *rest: Any, **named: Any) -> Any:
            tables.append(math.prod(shape) if isinstance(shape, tuple) else int(shape))
            return zeros(shape, *rest, **named)

        def seen(units: Any, *rest: Any) -> transits.Visits:
            pieces.append(len(set(units.tolist())))
            return visits(units, *rest)

        with monkeypatch.context() as patched:
            patched.setattr(np, "zeros", counted)
            patched.setattr(transits, "Visits", seen)
            totals([statistic], data)
        return max(tables), max(pieces)

    def test_a_stay_of_many_visits_takes_what_its_features_take(self) -> None:
        """Not the product of every two of them. All visits are taken, as ψ = 0 counts nothing towards the limit."""
        many, wide = 10_000, maps.Blocks(VECTOR, ACTIONS, tuple(Hinge("b", (i + 1) / 5, "above") for i in range(40)))
        judged = transits.Judged(Schema(many, VECTOR, ACTIONS), wide, always(0), 1, 2.0)
        none, zero = np.zeros(many, dtype=np.int64), np.zeros((many, 40))
        seen = transits.Visits(none, np.arange(many), none, zero[:, 0], none > 0, zero, zero, none, none > 0, 1)
        assert len(judged.taken(seen).rows) == many
        tracemalloc.start()
        try:
            transit_outcomes.Moves(judged).gather(seen, np.zeros((1, 40, 40), dtype=np.int64))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 10 * zero.nbytes  # the outer products would be 40

    @pytest.mark.parametrize("kind", [transits.Actions, transit_outcomes.Moves, transit_outcomes.Starts])
    @pytest.mark.parametrize("groups", [1, 5])
    def test_short_stays_of_many_are_no_more_units_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch, kind: Any, groups: int
    ) -> None:
        monkeypatch.setattr(transits, "_ENTRIES", 300)
        monkeypatch.setattr(transits, "_RECORDS", 8 * HORIZON)
        schema = schema_of()
        statistic = kind(judged_of(RICH, schema, groups, 100.0))
        for length in (1, HORIZON):
            units = [steady((1.0, 5.0), 0, 0.0, length=length) for _ in range(100)]
            table, together = self._largest(monkeypatch, statistic, dataset(schema, units))
            assert together == 8
            assert table <= 300

    def test_a_missing_value_is_no_other_state_in_the_next_record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No feature is computed twice: those of a stay's states, and of the last one's successor."""
        schema, psi, computed = schema_of(), maps.Blocks.psi, []

        def counted(features: maps.Blocks, states: Any) -> Any:
            computed.append(len(states))
            return psi(features, states)

        (block,) = dataset(schema, [steady((1.0, math.nan), 1, 2.0)]).bounded()
        monkeypatch.setattr(maps.Blocks, "psi", counted)
        (seen,) = transits.Judged(schema, RICH).pieces(block)
        assert computed == [HORIZON, 1]
        assert (seen.following == seen.psi).all()

    def test_runs_are_of_so_many_units_whatever_they_have(self) -> None:
        owners = np.array([3, 3, 3, 4, 7, 7, 9])
        found = [(units.tolist(), part.start, part.stop) for units, part in transits.runs(owners, 2)]
        assert found == [([0, 0, 0, 1], 0, 4), ([0, 0, 1], 4, 7)]
        assert not list(transits.runs(owners[:0], 2))


class TestWithin:
    @settings(max_examples=80, deadline=None)
    @given(seed=st.integers(0, 2**32 - 1), limit=st.floats(0.1, 5.0))
    def test_whether_a_visit_is_taken_does_not_depend_on_later_ones(self, seed: int, limit: float) -> None:
        rng = np.random.default_rng(seed)
        units = np.sort(rng.integers(0, 4, 30))
        sizes, counted = rng.integers(1, maps.ONE**2, 30), rng.random(30) < 0.7
        taken = transits.within(units, sizes, counted, limit)
        cut = int(rng.integers(1, 30))
        assert (transits.within(units[:cut], sizes[:cut], counted[:cut], limit) == taken[:cut]).all()
        assert not (taken & ~counted).any()
        for unit in range(4):
            mine = np.flatnonzero(counted & (units == unit))
            assert sizes[taken & (units == unit)].sum() <= limit * maps.ONE**2
            assert taken[mine].tolist() == sorted(taken[mine].tolist(), reverse=True)


class TestValues:
    """The sums themselves, record by record in floating point."""

    def _records(self, patient: Unit, features: maps.Blocks, judged: policy.Policy) -> list[Any]:
        path = np.concatenate([patient["states"][:, 0], patient["final"]])
        found = []
        for step in range(HORIZON):
            psi, following = (features.psi(path[i : i + 1])[0] / 2**16 for i in (step, step + 1))
            action = int(judged.judge(step + 1, path[step : step + 1])[0][0])
            raw = patient["rewards"][step, 0]
            reward = min(max(0.0 if math.isnan(raw) else raw, -1.0), 2.0) / 3.0
            found.append((psi, following, reward, action == patient["actions"][step, 0]))
        return found

    def test_followed_visits_are_weighed_and_summed(self) -> None:
        rng, schema = np.random.default_rng(6), schema_of()
        judged = judged_of(RICH, schema, 1, 100.0)
        assert judged.behaviour is not None
        assert judged.policy is not None
        value = values(RICH)[1]
        asked = [
            transits.Followed(judged),
            transit_outcomes.Moves(judged, 100.0),
            transit_outcomes.Targets(judged, value, 0, 0.2, 50.0, 100.0),
            transit_outcomes.Starts(judged),
        ]
        patients = [wild(rng, 1, tame=True) for _ in range(6)]
        gram, change, target, start = (np.zeros(s.shape) for s in asked)
        for patient in patients:
            records = self._records(patient, RICH, judged.policy)
            start += records[0][0]
            for psi, following, reward, follows in records:
                if follows:
                    raw = psi[None] * 2**16
                    own = np.array([patient["actions"][len(records) - 1, 0]])
                    action = self._action(patient, psi, records, judged)
                    share = float(judged.behaviour.of(raw, np.full_like(own, action))[0])
                    weight = math.floor(64 / share) / 64
                    gram[0] += weight * np.outer(psi, psi)
                    change[0] += weight * np.outer(psi, following - psi)
                    error = reward + float(value.of(following[None] * 2**16)[0]) - float(value.predicted(raw)[0]) - 0.2
                    target += weight * psi * error
        found = totals(asked, dataset(schema, patients))
        assert found[0] / 2.0**32 * 100.0 == pytest.approx(gram, abs=2e-2)
        assert found[1] / 2.0**20 * 100.0 == pytest.approx(change, abs=2e-2)
        assert found[2] / 2.0**20 * 100.0 == pytest.approx(target, abs=0.1)
        assert found[3] / 2.0**16 == pytest.approx(start, abs=1e-3)
        assert gram.any()

    def _action(self, patient: Unit, psi: Any, records: list[Any], judged: transits.Judged) -> int:
        (step,) = [index for index, record in enumerate(records) if record[0] is psi]
        return int(patient["actions"][step, 0])

    def test_a_perfect_value_leaves_nothing_to_correct(self) -> None:
        """With V_h = (H − h)/3 of a reward of one third a step, every score is V₁."""
        schema = schema_of()
        judged = transits.Judged(schema, PLAIN, always(0), 1, 100.0)
        exact = tuple(transits.Value((HORIZON - h) / 3, np.zeros(3), 0.0, 9.0) for h in range(HORIZON + 1))
        score = transit_outcomes.Scores(judged, exact, np.ones((HORIZON, 3)), 0.0, 8.0)
        (found,) = totals([score], dataset(schema, [steady((1.0, 5.0), 0, 1.0)]))
        assert found[0] / 2.0**20 * 8 == pytest.approx(5 / 3, abs=1e-4)
        assert found[2] / 2.0**20 * 32 == pytest.approx(5 / 3, abs=1e-4)

    def test_the_end_is_worth_nothing_and_an_unknown_successor_does_not_count(self) -> None:
        schema = schema_of()
        judged = transits.Judged(schema, PLAIN, always(0), 1, 100.0)
        value = transits.Value(3.0, np.zeros(3), 0.0, 9.0)
        target = transit_outcomes.Targets(judged, value, 0, 0.0, 10.0, 10.0)
        ended, unknown = (steady((3.0, 10.0), 0, 0.0, ending=ending, length=1) for ending in (ENDED, CUT))
        psi = PLAIN.psi(np.array([[3.0, 10.0]]))[0] / 2**16
        assert totals([target], dataset(schema, [ended]))[0] / 2.0**20 * 10 == pytest.approx(-3.0 * psi, abs=1e-2)
        assert not totals([target], dataset(schema, [unknown]))[0].any()


class TestRefusals:
    def test_a_patient_with_more_records_than_can_be_summed_is_refused(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="records"):
            transits.Judged(Schema(10_000, VECTOR, ACTIONS, per_unit=1000), PLAIN)

    def test_a_map_of_other_columns_is_refused(self) -> None:
        other = Vector(("a",), ((0.0, 1.0),))
        with pytest.raises(errors.InvalidFeatures, match="other state columns"):
            transits.Judged(Schema(HORIZON, other, ACTIONS), PLAIN)
