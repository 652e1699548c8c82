"""How far one patient can move each statistic: never further than it states, and as far as that for the worst patient.

Neighbours differ in the records of one unit. The sums are integers, so everything here is compared exactly, as
fractions; there is no tolerance for a bound to hide in.
"""

import itertools
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

from discretion.learning import features as maps
from discretion.learning import sums
from discretion.learning.counts import (
    ArrivalCounts,
    ArrivalSums,
    PaidSums,
    RewardSums,
    TransitionCounts,
    VisitCounts,
)
from discretion.learning.horizon_vector import Outcomes
from discretion.learning.joint import Endings, Joint
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import CUT_BEFORE, ENDED, Block, Trajectories
from discretion.learning.values import (
    LinearDeviation,
    LinearValue,
    TableDeviation,
    TableValue,
    linear_score,
    on_grid,
)
from discretion.privacy.events import EVERYONE, FIRST_HALF, PARTS, SECOND_HALF

STATES, ACTIONS, HORIZON = 4, 2, 3
VECTOR = Vector(("a", "b"), ((-1.0, 3.0), (0.0, 10.0)))
Statistic = Any  # sums.Statistic, or the same with another claim


def schema_of(states: Discrete | Vector, per_unit: int = 1) -> Schema:
    return Schema(HORIZON, states, ACTIONS, reward=(-1.0, 2.0), per_unit=per_unit)


# --- units and the datasets made of them -------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """The trajectories of one patient, one column each."""

    states: Any
    actions: Any
    rewards: Any
    lengths: Any
    endings: Any
    final: Any


def dataset(schema: Schema, units: Sequence[Unit]) -> Trajectories:
    def side_by_side(name: str, axis: int) -> Any:
        return np.concatenate([getattr(unit, name) for unit in units], axis=axis)

    positions = np.repeat(np.arange(len(units)), [len(unit.lengths) for unit in units])
    steps = {name: side_by_side(name, 1) for name in ("states", "actions", "rewards")}
    rest = {name: side_by_side(name, 0) for name in ("lengths", "endings", "final")}
    return Trajectories(schema, len(units), [Block(units=positions, **steps, **rest)])


def unit(schema: Schema, states: Any, actions: Any, rewards: Any, final: Any = None, copies: int | None = None) -> Unit:
    """The same full trajectory m times; per-step values or one for all steps."""
    count = schema.per_unit if copies is None else copies
    width = (len(VECTOR.columns),) if isinstance(schema.states, Vector) else ()
    path = np.broadcast_to(np.asarray(states).reshape(-1, *width), (HORIZON, *width))
    last = path[-1] if final is None else np.asarray(final)
    return Unit(
        np.stack([path] * count, axis=1),
        np.stack([np.broadcast_to(actions, HORIZON)] * count, axis=1),
        np.stack([np.broadcast_to(np.asarray(rewards, dtype=float), HORIZON)] * count, axis=1),
        np.full(count, HORIZON),
        np.full(count, CUT_BEFORE),
        np.stack([last] * count),
    )


WILD = [np.nan, np.inf, -np.inf, -1.0, 0.0, 3.0, 10.0, 1e300, -1e300]


def wild_states(schema: Schema, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    if isinstance(schema.states, Discrete):
        return rng.integers(-2, STATES + 2, shape)
    shape = (*shape, len(VECTOR.columns))
    inside = rng.uniform(VECTOR.low, VECTOR.high, shape)
    return np.where(rng.random(shape) < 0.3, rng.choice(WILD, shape), inside)


def wild_unit(schema: Schema, rng: np.random.Generator, count: int | None = None) -> Unit:
    """Any number of trajectories, of any length, with anything in them."""
    count = int(rng.integers(0, schema.per_unit + 3)) if count is None else count
    rewards = np.where(
        rng.random((HORIZON, count)) < 0.5, rng.choice(WILD, (HORIZON, count)), rng.choice([-1.0, 2.0], (1, count))
    )
    return Unit(
        wild_states(schema, rng, (HORIZON, count)),
        rng.integers(-1, ACTIONS + 1, (HORIZON, count)),
        rewards,
        rng.integers(-1, HORIZON + 3, count),
        rng.integers(-1, 4, count),
        wild_states(schema, rng, (count,)),
    )


# --- the statistics ----------------------------------------------------------------------------------------------


def table() -> maps.Table:
    """Features of norm 1, with an opposite and an orthogonal pair among them, and some shorter ones."""
    values = np.random.default_rng(7).normal(size=(STATES, ACTIONS, 3))
    values /= np.sqrt((values**2).sum(axis=-1, keepdims=True))
    values[0, 0], values[1, 0], values[2, 0] = (0.6, 0.8, 0.0), (-0.6, -0.8, 0.0), (0.8, -0.6, 0.0)
    values[0, 1], values[1, 1] = (1.0, 0.0, 0.0), (0.0, -1.0, 0.0)
    values[3] *= 0.7
    return maps.Table(values)


BINS = maps.Bins.of(VECTOR, ACTIONS, {"a": [0.0, 1.0], "b": [5.0]})
BLOCKS = maps.Blocks(VECTOR, ACTIONS, ("a", "b"))
TALL = maps.Blocks(VECTOR, ACTIONS, ("1", "a", "b"))


def counted(schema: Schema) -> list[Statistic]:
    kinds = (VisitCounts, TransitionCounts, RewardSums)
    some_rows = np.array([0, 1, 4, 5])
    return [kind(schema, dynamics) for kind in kinds for dynamics in ("per_step", "stationary")] + [
        TransitionCounts(schema, rows=some_rows),
        TransitionCounts(schema, "stationary", some_rows),
        *paid(schema),
    ]


def paid(schema: Schema) -> list[Statistic]:
    return [PaidSums(schema), ArrivalSums(schema), ArrivalCounts(schema)]


def regressed(schema: Schema, features: maps.FeatureMap, part: str = EVERYONE, step: int = 1) -> list[Statistic]:
    """Grams and moments, weighted and not; targets beyond their bound on purpose, and of both signs."""
    rng = np.random.default_rng(11)
    deviation: TableDeviation | LinearDeviation
    value: TableValue | LinearValue
    if isinstance(features, maps.Blocks):
        size, p = (ACTIONS, features.width), features.width
        deviation = LinearDeviation(on_grid(rng.normal(size=size) * 9), on_grid(rng.normal(size=size)), 4.0)
        root = rng.normal(size=(ACTIONS, p, p))
        score = linear_score(rng.normal(size=size) * 3, root @ root.transpose(0, 2, 1), 0.5, 0.0, 3.0)
        value = LinearValue(score, end=-2.0)
    else:
        deviation = TableDeviation(1 + rng.random((features.states, ACTIONS)) * 2)
        value = TableValue(rng.uniform(-3, 3, features.states + 1))
    common = (schema, features, step, part)
    both: list[Statistic] = [Endings(schema)]
    if isinstance(features, maps.Blocks):
        both.append(Outcomes(schema, features))
    if not isinstance(features, maps.Blocks):
        assert isinstance(value, TableValue)
        for weight, alpha in ((None, maps.ONE), (deviation, maps.ONE), (None, 2 * maps.ONE)):
            both.append(Joint(*common, weight, weight=alpha, share=0.7, value=value))
    return [
        statistic
        for weight in (None, deviation)
        for statistic in (
            Gram(*common, weight),
            Moment(*common, weight, bound=1, reward=True),
            Moment(*common, weight, bound=2, value=value),
            Moment(*common, weight, bound=4, value=value, squared=True),
            Moment(*common, weight, bound=3, reward=True, value=value),
        )
    ] + both


def statistics(kind: str, per_unit: int) -> tuple[Schema, list[Statistic]]:
    if kind == "counts":
        schema = schema_of(Discrete(STATES), per_unit)
        return schema, counted(schema)
    features: Any = {"table": table(), "bins": BINS, "blocks": BLOCKS, "tall": TALL}[kind]
    schema = schema_of(Discrete(STATES) if kind == "table" else VECTOR, per_unit)
    last = regressed(schema, features, step=HORIZON - 1)
    return schema, [s for part in PARTS for s in regressed(schema, features, part)] + last


# --- the measure -------------------------------------------------------------------------------------------------


def movement(statistic: Statistic, before: Any, after: Any) -> tuple[Fraction, Fraction]:
    """‖change‖₂² and ‖change‖₁ in the statistic's own unit, exactly."""
    change = [int(a) - int(b) for a, b in zip(after.ravel(), before.ravel(), strict=True)]
    return (
        sum(c * c for c in change) * statistic.resolution**2,
        sum(abs(c) for c in change) * statistic.resolution,
    )


def check_movement(statistic: Statistic, before: Any, after: Any) -> Fraction:
    """The share of the stated squared sensitivity that was used; an assertion where one of the two was passed."""
    squared, absolute = movement(statistic, before, after)
    assert squared <= statistic.squared_sensitivity, statistic
    if statistic.absolute_sensitivity is not None:
        assert absolute <= statistic.absolute_sensitivity, statistic
    return Fraction(squared, statistic.squared_sensitivity)


def worst(statistic: Statistic, schema: Schema, one: Unit, other: Unit, position: int = 0) -> Fraction:
    """The same, for a unit at `position` of five that is replaced."""
    idle = [wild_unit(schema, np.random.default_rng(seed)) for seed in range(5)]
    datasets = [dataset(schema, [*idle[:position], patient, *idle[position + 1 :]]) for patient in (one, other)]
    (before,), (after,) = (sums.totals([statistic], data) for data in datasets)
    return check_movement(statistic, before, after)


@dataclass(frozen=True)
class Claiming:
    """A statistic whose stated sensitivities are multiplied: the controls."""

    true: Statistic
    squared: Fraction = Fraction(1)
    absolute: Fraction = Fraction(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)

    @property
    def squared_sensitivity(self) -> Fraction:
        return self.true.squared_sensitivity * self.squared

    @property
    def absolute_sensitivity(self) -> Fraction | None:
        stated = self.true.absolute_sensitivity
        return None if stated is None else stated * self.absolute


# --- constructed worst cases -------------------------------------------------------------------------------------

# H different (state, action) cells and H others, so that first visits meet no cell twice.
SOME, OTHERS = ([0, 1, 2], 0), ([0, 1, 2], 1)
LOW, HIGH = (-1.0, 0.0), (3.0, 10.0)


def extremes(statistic: Statistic) -> tuple[Unit, Unit]:
    """The two patients between whom the statistic should move as far as it says."""
    schema: Schema = statistic.schema
    if isinstance(statistic, RewardSums):
        return unit(schema, *SOME, rewards=2.0), unit(schema, *SOME, rewards=-1.0)
    if isinstance(statistic, VisitCounts):
        return unit(schema, *SOME, rewards=0.0), unit(schema, *OTHERS, rewards=0.0)
    if isinstance(statistic.features, maps.Table):
        if isinstance(statistic, Gram):  # orthogonal
            return unit(schema, 0, 1, 0.0), unit(schema, 1, 1, 0.0)
        return unit(schema, 0, 1, 0.0, final=0), unit(schema, 0, 1, 0.0, final=1)
    if isinstance(statistic, Gram):  # different groups
        return unit(schema, HIGH, 0, 0.0), unit(schema, HIGH, 1, 0.0)
    if isinstance(statistic.features, maps.Bins):
        return unit(schema, HIGH, 0, 0.0, final=LOW), unit(schema, HIGH, 0, 0.0, final=HIGH)
    return unit(schema, HIGH, 0, 0.0), unit(schema, LOW, 0, 0.0)  # opposite features


def extreme_moment(schema: Schema, features: maps.FeatureMap, bound: int, weighted: bool) -> Moment:
    """A moment whose target is +bound or −bound, by the successor (for blocks: +bound, with opposite features)."""
    common = {"step": HORIZON - 1, "bound": bound}
    if isinstance(features, maps.Blocks):
        size, p = (ACTIONS, features.width), features.width
        value = LinearValue(linear_score(np.zeros(size), np.zeros((ACTIONS, p, p)), 0.0, -bound, bound), end=0.0)
        flat = LinearDeviation(np.zeros(size), np.zeros(size), 1.0) if weighted else None
        return Moment(schema, features, value=value, deviation=flat, **common)  # type: ignore[arg-type]
    values = np.full(features.states + 1, 2.0 * bound)
    values[0] = -2.0 * bound
    one = TableDeviation(np.ones((features.states, ACTIONS))) if weighted else None
    return Moment(schema, features, value=TableValue(values), deviation=one, **common)  # type: ignore[arg-type]


EXACT = {"counts", "table", "bins"}
PER_UNIT = pytest.mark.parametrize("per_unit", [1, 2, 3])


def reaching(kind: str, per_unit: int) -> list[Statistic]:
    schema, found = statistics(kind, per_unit)
    if kind == "counts":
        return found[:6]
    features = found[0].features
    grams = [Gram(schema, features, step) for step in range(HORIZON)]
    return grams + [extreme_moment(schema, features, bound, w) for bound in (1, 3) for w in (False, True)]


class TestReached:
    @PER_UNIT
    @pytest.mark.parametrize("kind", ["counts", "table", "bins", "blocks"])
    def test_the_worst_patient_moves_a_statistic_as_far_as_it_says(self, kind: str, per_unit: int) -> None:
        for statistic in reaching(kind, per_unit):
            share = worst(statistic, statistic.schema, *extremes(statistic))
            # Features of blocks are cut to the grid: each of p coordinates of 1/√p loses less than 2⁻¹⁶.
            assert share == 1 if kind in EXACT else 1 - Fraction(1, 2**12) < share <= 1, statistic

    @PER_UNIT
    @pytest.mark.parametrize("dynamics", ["per_step", "stationary"])
    def test_the_absolute_sensitivities_are_reached_too(self, per_unit: int, dynamics: Any) -> None:
        schema = schema_of(Discrete(STATES), per_unit)
        for kind in (VisitCounts, TransitionCounts, RewardSums):
            statistic = kind(schema, dynamics)
            (before,), (after,) = (sums.totals([statistic], dataset(schema, [p])) for p in extremes(statistic))
            assert movement(statistic, before, after)[1] == statistic.absolute_sensitivity

    @pytest.mark.parametrize("kind", ["counts", "table", "bins", "blocks"])
    def test_a_sensitivity_halved_is_found_out(self, kind: str) -> None:
        """The control: the same patients, the same check."""
        for statistic in reaching(kind, 2):
            with pytest.raises(AssertionError):
                worst(Claiming(statistic, squared=Fraction(1, 2)), statistic.schema, *extremes(statistic))
            if statistic.absolute_sensitivity is not None:
                with pytest.raises(AssertionError):
                    worst(Claiming(statistic, absolute=Fraction(1, 2)), statistic.schema, *extremes(statistic))

    @pytest.mark.parametrize("extra", [1, 5, 50])
    def test_trajectories_beyond_those_a_unit_may_have_move_nothing(self, extra: int) -> None:
        for statistic in reaching("counts", 2) + reaching("bins", 2):
            schema = statistic.schema
            one, other = (
                Unit(*(np.concatenate([f] * (1 + extra), int(f.ndim > 1 and len(f) == HORIZON)) for f in astuple(u)))
                for u in extremes(statistic)
            )
            assert len(one.lengths) == 2 * (1 + extra)
            assert worst(statistic, schema, one, other) == 1


class TestHalves:
    @pytest.mark.parametrize("kind", ["table", "bins", "blocks"])
    def test_a_patient_moves_the_half_it_is_in_and_never_the_other(self, kind: str) -> None:
        for statistic in reaching(kind, 2):
            patients = extremes(statistic)
            for position in range(5):
                mine, others = (FIRST_HALF, SECOND_HALF) if position < 2 else (SECOND_HALF, FIRST_HALF)
                schema = statistic.schema
                assert worst(replace(statistic, part=mine), schema, *patients, position) > Fraction(99, 100)
                assert worst(replace(statistic, part=others), schema, *patients, position) == 0


# --- search ------------------------------------------------------------------------------------------------------

KINDS = pytest.mark.parametrize("kind", ["counts", "table", "bins", "blocks", "tall"])


class TestNeverExceeded:
    @KINDS
    @PER_UNIT
    def test_no_two_patients_at_the_extremes_are_further_apart(self, kind: str, per_unit: int) -> None:
        """The same or different cells, all along or step by step, with the highest or lowest rewards and successors."""
        schema, measured = statistics(kind, per_unit)
        discrete = isinstance(schema.states, Discrete)
        paths: list[Any] = [[0, 1, 2], [1, 2, 3], 0, 1, 2] if discrete else [HIGH, LOW, (3.0, 0.0), [HIGH, LOW, HIGH]]
        ends: list[Any] = [0, 3] if discrete else [HIGH, LOW]
        choices = itertools.product(paths, range(ACTIONS), (-1.0, 2.0), ends)
        alone = [sums.totals(measured, dataset(schema, [unit(schema, *chosen)])) for chosen in choices]
        for one, other in itertools.combinations(alone, 2):
            for statistic, was, now in zip(measured, one, other, strict=True):
                check_movement(statistic, was, now)

    @KINDS
    @PER_UNIT
    def test_no_replaced_patient_moves_a_statistic_further_than_it_says(self, kind: str, per_unit: int) -> None:
        rng = np.random.default_rng([per_unit, len(kind)])
        schema, measured = statistics(kind, per_unit)
        for _ in range(15):
            patients = [wild_unit(schema, rng) for _ in range(5)]
            before = sums.totals(measured, dataset(schema, patients))
            for position in range(5):
                replaced = [*patients[:position], wild_unit(schema, rng), *patients[position + 1 :]]
                after = sums.totals(measured, dataset(schema, replaced))
                for statistic, was, now in zip(measured, before, after, strict=True):
                    check_movement(statistic, was, now)

    @settings(deadline=None, max_examples=60)
    @given(data=st.data(), kind=st.sampled_from(["counts", "table", "bins", "blocks"]), per_unit=st.integers(1, 3))
    def test_no_two_patients_of_any_shape_are_further_apart(self, data: Any, kind: str, per_unit: int) -> None:
        schema, measured = statistics(kind, per_unit)
        discrete = isinstance(schema.states, Discrete)
        state = st.integers(-1, STATES) if discrete else st.tuples(*[st.sampled_from(WILD)] * 2)
        width = () if discrete else (2,)

        def draw(elements: Any, *shape: int) -> Any:
            size = int(np.prod(shape, dtype=int))
            return data.draw(st.lists(elements, min_size=size, max_size=size))

        def patient() -> Unit:
            count = data.draw(st.integers(0, per_unit + 1))
            return Unit(
                np.array(draw(state, HORIZON, count)).reshape(HORIZON, count, *width),
                np.array(draw(st.integers(-1, ACTIONS), HORIZON, count), dtype=int).reshape(HORIZON, count),
                np.array(draw(st.sampled_from(WILD), HORIZON, count)).reshape(HORIZON, count),
                np.array(draw(st.integers(-1, HORIZON + 1), count), dtype=int),
                np.array(draw(st.integers(ENDED, 3), count), dtype=int),
                np.array(draw(state, count)).reshape(count, *width),
            )

        before, after = (sums.totals(measured, dataset(schema, [patient()])) for _ in range(2))
        moved = [check_movement(s, was, now) for s, was, now in zip(measured, before, after, strict=True)]
        target(float(max(moved)))


# --- rewards of one sign -----------------------------------------------------------------------------------------

ONE_SIGNED: list[tuple[tuple[float, float], tuple[float, float] | None]] = [
    ((0.0, 1.0), None),
    ((0.0, 1.0), (0.0, 1.0)),
    ((0.0, 1.0), (-5.0, 1.25)),
    ((0.0, 0.7), (0.0, 1.1)),
    ((-2.0, 0.0), (-3.0, 0.0)),
    ((-0.3, -0.1), (-0.7, 4.0)),
    ((0.0, 1.0), (0.0, 1e-9)),
    ((-1.0, 2.0), (-1.0, 2.0)),
    ((-1e-9, 1.0), (-1.0, 1.0)),
]
PAID = pytest.mark.parametrize(("reward", "total"), ONE_SIGNED)


def paying(schema: Schema, first: float, others: float, path: Any = SOME, final: int = 3) -> Unit:
    return unit(schema, path[0], path[1], [first, others, others], final=final)


class TestOneSigned:
    @PER_UNIT
    @PAID
    def test_no_two_patients_are_further_apart(self, reward: Any, total: Any, per_unit: int) -> None:
        schema = replace(schema_of(Discrete(STATES), per_unit), reward=reward, total=total)
        rng = np.random.default_rng([per_unit, ONE_SIGNED.index((reward, total))])
        patients = [wild_unit(schema, rng) for _ in range(12)]
        for path, rate in itertools.product((SOME, OTHERS, ([0, 1, 0], 1)), np.linspace(-0.5, 1.2, 5)):
            patients.append(unit(schema, *path, rewards=rng.permutation([rate, 1.0 - rate, rate / 3]), final=3))
            patients.append(unit(schema, *path, rewards=rate * reward[int(rate > 0)], final=3))
        measured = paid(schema)
        alone = [sums.totals(measured, dataset(schema, [patient])) for patient in patients]
        for one, other in itertools.combinations(alone, 2):
            for statistic, was, now in zip(measured, one, other, strict=True):
                check_movement(statistic, was, now)

    @PER_UNIT
    @pytest.mark.parametrize("kind", [PaidSums, ArrivalSums])
    def test_a_small_total_is_what_one_patient_can_move(self, kind: Any, per_unit: int) -> None:
        for reward, most in (((0.0, 1.0), 1.0), ((-1.0, 0.0), -1.0)):
            bounds = (min(most, 0.0), max(most, 0.0))
            schema = replace(schema_of(Discrete(STATES), per_unit), reward=reward, total=bounds)
            one, other = paying(schema, most, 0.0), paying(schema, most, 0.0, ([3, 1, 2], 0), final=0)
            if kind is ArrivalSums:  # arrive elsewhere
                other = paying(schema, most, 0.0, ([0, 2, 1], 0))
            assert kind(schema).squared_sensitivity == 2 * per_unit**2
            assert kind(schema).absolute_sensitivity == 2 * per_unit
            assert worst(kind(schema), schema, one, other) == 1
            with pytest.raises(AssertionError):
                worst(Claiming(kind(schema), squared=Fraction(999, 1000)), schema, one, other)

    @PER_UNIT
    def test_without_a_total_every_step_may_pay(self, per_unit: int) -> None:
        schema = replace(schema_of(Discrete(STATES), per_unit), reward=(0.0, 1.0))
        one, other = paying(schema, 1.0, 1.0), paying(schema, 1.0, 1.0, OTHERS)
        assert PaidSums(schema).squared_sensitivity == 2 * HORIZON * per_unit**2
        assert worst(PaidSums(schema), schema, one, other) == 1

    @PER_UNIT
    @pytest.mark.parametrize("kind", [PaidSums, ArrivalSums])
    def test_rewards_of_both_signs_move_a_sum_by_their_whole_range(self, kind: Any, per_unit: int) -> None:
        schema = schema_of(Discrete(STATES), per_unit)
        assert worst(kind(schema), schema, paying(schema, 2.0, 2.0), paying(schema, -1.0, -1.0)) == 1

    @PER_UNIT
    def test_two_patients_can_arrive_at_all_states(self, per_unit: int) -> None:
        schema = schema_of(Discrete(STATES), per_unit)
        one, other = paying(schema, 0.0, 0.0), paying(schema, 0.0, 0.0, (0, 0), final=0)
        statistic = ArrivalCounts(schema)
        assert statistic.squared_sensitivity == STATES * per_unit**2
        assert worst(statistic, schema, one, other) == 1
        (before,), (after,) = (sums.totals([statistic], dataset(schema, [p])) for p in (one, other))
        assert movement(statistic, before, after)[1] == statistic.absolute_sensitivity

    @PER_UNIT
    def test_of_many_states_two_patients_arrive_at_as_many_as_they_have_steps(self, per_unit: int) -> None:
        schema = schema_of(Discrete(3 * HORIZON), per_unit)
        one, other = paying(schema, 0.0, 0.0, final=3), paying(schema, 0.0, 0.0, ([0, 4, 5], 0), final=6)
        statistic = ArrivalCounts(schema)
        assert statistic.squared_sensitivity == 2 * HORIZON * per_unit**2
        assert worst(statistic, schema, one, other) == 1

    @PER_UNIT
    def test_order_and_blocks_change_no_integer(self, per_unit: int) -> None:
        schema = schema_of(Discrete(STATES), per_unit)
        rng = np.random.default_rng(per_unit)
        patients = [wild_unit(schema, rng) for _ in range(12)]
        whole = sums.totals(paid(schema), dataset(schema, patients))
        shuffled = sums.totals(paid(schema), dataset(schema, [patients[i] for i in rng.permutation(12)]))
        parts = [sums.totals(paid(schema), dataset(schema, patients[i : i + 5])) for i in (0, 5, 10)]
        for position, total in enumerate(whole):
            np.testing.assert_array_equal(total, shuffled[position])
            np.testing.assert_array_equal(total, sum(part[position] for part in parts))
