"""The privacy boundary: it never fails on what a record holds, pays before it reads, and noises all it says."""

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import curator, sums
from discretion.learning.counts import RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Concentrated, Curator, Pure, Query
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, Schema
from discretion.learning.trajectories import ENDED, Block, Trajectories, block_of
from discretion.learning.values import TableDeviation, TableValue
from discretion.privacy import events
from tests.learning.test_sensitivity import (
    ACTIONS,
    BINS,
    BLOCKS,
    HORIZON,
    STATES,
    VECTOR,
    WILD,
    Statistic,
    Unit,
    dataset,
    regressed,
    schema_of,
    statistics,
    table,
    unit,
    wild_states,
    wild_unit,
)

KINDS = pytest.mark.parametrize("kind", ["counts", "table", "bins", "blocks", "tall"])
RHO = Concentrated(Fraction(1, 100))
PLENTY = Fraction(10**12)
HAIR = Fraction(1, 10**30)


class Opened(Exception):
    """The data was touched."""


@dataclass(frozen=True)
class Sealed:
    """Blocks that may not be looked at."""

    def __iter__(self) -> Iterator[Block]:
        raise Opened


def sealed(units: int = 100, per_unit: int = 1) -> Trajectories:
    return Trajectories(schema_of(Discrete(STATES), per_unit), units, Sealed())


# --- totality ----------------------------------------------------------------------------------------------------


def garbage(schema: Schema, rng: np.random.Generator, size: int) -> Block:
    """Everything out of order and out of range, with a kernel of sense so that some of it counts."""
    positions = rng.integers(-3, 13, size)
    return Block(
        units=[np.sort(positions), positions, np.resize([0, -1], size), np.resize([9, 3], size)][rng.integers(4)],
        lengths=rng.integers(-(10**6), 10**6, size) if rng.random() < 0.5 else rng.integers(0, HORIZON + 1, size),
        states=wild_states(schema, rng, (HORIZON, size)),
        actions=rng.choice([-(2**62), -1, 0, 1, ACTIONS, 2**62], (HORIZON, size)),
        rewards=rng.choice(WILD, (HORIZON, size)),
        endings=rng.choice([-1, 0, 1, 2, 3, 10**9], size),
        final=wild_states(schema, rng, (size,)),
    )


def check_total(schema: Schema, measured: list[Statistic], blocks: Sequence[Block], units: int = 10) -> None:
    data = Trajectories(schema, units, blocks)
    for statistic, total in zip(measured, sums.totals(measured, data), strict=True):
        assert total.dtype == np.int64
        assert np.abs(total).max(initial=0) <= statistic.largest(units)
    answers = Curator(data, PLENTY).ask(*(Query(statistic, RHO) for statistic in measured))
    assert [answer.grid.size for answer in answers] == [np.prod(statistic.shape) for statistic in measured]


class TestTotality:
    @KINDS
    @pytest.mark.parametrize("per_unit", [1, 3])
    def test_nothing_a_block_may_hold_stops_the_curator_or_passes_the_stated_bound(
        self, kind: str, per_unit: int
    ) -> None:
        rng = np.random.default_rng([per_unit, len(kind)])
        schema, measured = statistics(kind, per_unit)
        measured = [s for s in measured if getattr(s, "rows", None) is None]
        for _ in range(5):
            blocks = [garbage(schema, rng, int(size)) for size in rng.integers(0, 40, 4)]
            spans = [(-5, 3), (1, 6), (6, 6), (6, 99)]
            check_total(schema, measured, [replace(b, span=span) for b, span in zip(blocks, spans, strict=True)])

    @KINDS
    def test_it_answers_without_blocks_and_with_empty_ones(self, kind: str) -> None:
        schema, measured = statistics(kind, 2)
        measured = [s for s in measured if getattr(s, "rows", None) is None]
        empty = garbage(schema, np.random.default_rng(0), 0)
        for blocks in ([], [empty], [replace(empty, span=(0, 4)), replace(empty, span=(4, 10))]):
            check_total(schema, measured, blocks)
            assert not any(total.any() for total in sums.totals(measured, Trajectories(schema, 10, blocks)))

    @KINDS
    def test_of_a_crowd_at_one_position_only_the_first_count(self, kind: str) -> None:
        schema, measured = statistics(kind, 2)
        crowd = wild_unit(schema, np.random.default_rng(0), count=50)
        assert same(measured, dataset(schema, [crowd]), dataset(schema, [columns(crowd, slice(2))]))

    def test_what_it_prices_it_also_answers(self) -> None:
        schema = schema_of(VECTOR)
        fine = Moment(schema, BLOCKS, 0, bound=2**24)
        rng = np.random.default_rng(0)
        data = dataset(schema, [wild_unit(schema, rng) for _ in range(3)])
        share = Concentrated(Fraction(2**24))
        keeper = Curator(data, PLENTY)
        (answer,) = keeper.ask(Query(fine, share))
        assert answer.grid.shape == fine.shape
        assert answer.event == keeper.price(Query(fine, share))


class TestHandedIn:
    """Whatever a learner hands in, the bounds of the sums hold."""

    @pytest.mark.parametrize("deviation", [0.1, 0.0, -3.0, np.nan, np.inf])
    def test_a_deviation_below_one_makes_no_sum_larger(self, deviation: float) -> None:
        schema = schema_of(Discrete(STATES))
        features = table()
        rng = np.random.default_rng(1)
        data = dataset(schema, [wild_unit(schema, rng) for _ in range(20)])
        handed = TableDeviation(np.full((STATES, ACTIONS), deviation))
        gram, moment = Gram(schema, features, 0, deviation=handed), Moment(schema, features, 0, reward=True, bound=2)
        weighted = replace(moment, deviation=handed)
        plain, *found = sums.totals([replace(gram, deviation=None), gram, weighted], data)
        assert np.trace(found[0][0]) <= np.trace(plain[0])
        assert np.abs(found[1]).max() <= 20 * gram.largest(1) * 2

    def test_a_value_that_is_no_number_counts_as_zero(self) -> None:
        schema = schema_of(Discrete(STATES))
        rng = np.random.default_rng(1)
        data = dataset(schema, [wild_unit(schema, rng) for _ in range(20)])
        value = TableValue(np.full(STATES + 1, np.nan))
        (found,) = sums.totals([Moment(schema, table(), 0, bound=2, value=value)], data)
        assert (found == 0).all()


class TestRepr:
    def test_no_record_is_ever_written_out_by_accident(self) -> None:
        canary = 123456789
        states = np.full((HORIZON, 1), canary)
        block = block_of(states, states, states.astype(float), final=states[0])
        data = Trajectories(schema_of(Discrete(STATES)), 1, [block])
        bounded = next(data.bounded())
        records = replace(bounded.records(0), states=states[0])
        assert str(canary) not in f"{block!r} {data!r} {bounded!r} {records!r} {Curator(data, PLENTY)!r}"


# --- the allowance -----------------------------------------------------------------------------------------------


class TestDebit:
    def queries(self, schema: Schema) -> list[Query]:
        return [Query(VisitCounts(schema), RHO), Query(RewardSums(schema), Concentrated(Fraction(1, 7)))]

    def test_data_is_not_touched_when_the_allowance_is_passed(self) -> None:
        data = sealed()
        keeper = Curator(data, Fraction(1, 10))
        with pytest.raises(errors.AllowanceExceeded, match="nothing was answered"):
            keeper.ask(*self.queries(data.schema))
        assert keeper.log == ()

    def test_the_allowance_is_debited_before_the_data_is_touched(self) -> None:
        data = sealed()
        keeper = Curator(data, Fraction(1))
        asked = self.queries(data.schema)
        assert keeper.price(asked[0]) == curator.event_of(asked[0], data.units)
        assert keeper.log == ()
        with pytest.raises(Opened):
            keeper.ask(*asked)
        assert keeper.log == tuple(keeper.price(query) for query in asked)

    @pytest.mark.parametrize("share", [RHO, Concentrated(Fraction(1, 3)), Pure(Fraction(1, 7))], ids=str)
    def test_exactly_the_allowance_is_answered_and_a_hair_more_is_not(self, share: Any) -> None:
        schema = schema_of(Discrete(STATES))
        data = Trajectories(schema, 5, [])
        asked = [Query(VisitCounts(schema), share), Query(RewardSums(schema), share)]
        needed = events.compose(curator.event_of(query, 5) for query in asked)
        short = Curator(data, needed - HAIR)
        with pytest.raises(errors.AllowanceExceeded):
            short.ask(*asked)
        assert short.log == ()
        exact = Curator(data, needed)
        assert len(exact.ask(*asked)) == 2
        with pytest.raises(errors.AllowanceExceeded):
            exact.ask(Query(VisitCounts(schema), Concentrated(HAIR**2 * 10**40)))
        assert exact.log == tuple(curator.event_of(query, 5) for query in asked)

    def test_answers_one_by_one_cost_what_they_cost_together(self) -> None:
        schema = schema_of(Discrete(STATES))
        query = Query(VisitCounts(schema), Pure(Fraction(1, 4)))
        keeper = Curator(Trajectories(schema, 5, []), Fraction(9, 32))  # (3 · ¼)² / 2
        for _ in range(3):
            keeper.ask(query)
        with pytest.raises(errors.AllowanceExceeded):
            keeper.ask(query)
        assert len(keeper.log) == 3

    def test_each_half_may_spend_the_whole_allowance_and_no_more(self) -> None:
        schema = schema_of(VECTOR)
        halves = [Query(Gram(schema, BINS, 0, part), RHO) for part in (events.FIRST_HALF, events.SECOND_HALF)]
        keeper = Curator(Trajectories(schema, 5, []), RHO.rho)
        keeper.ask(*halves)
        for part in events.PARTS:
            with pytest.raises(errors.AllowanceExceeded):
                keeper.ask(Query(Gram(schema, BINS, 0, part), Concentrated(Fraction(1, 10**8))))

    @pytest.mark.parametrize("units", [10**10, 2**30])
    def test_a_sum_that_does_not_fit_is_refused_from_what_is_public(self, units: int) -> None:
        data = sealed(units)
        keeper = Curator(data, PLENTY)
        with pytest.raises(errors.ProblemTooLarge, match=f"of {units} units"):
            keeper.ask(Query(Gram(data.schema, table(), 0), Concentrated(Fraction(10**6))))
        for share in (Concentrated(HAIR**2), Pure(HAIR)):  # nor does so much noise
            with pytest.raises(errors.ProblemTooLarge):
                keeper.ask(Query(VisitCounts(data.schema), share))
        assert keeper.log == ()

    @pytest.mark.parametrize("per_unit", [1, 100, 10_000])
    def test_what_fits_is_decided_exactly(self, per_unit: int) -> None:
        """The most units whose sum and 2¹⁰ scales of noise stay below 2⁶² are accepted, and one more is not."""
        data = sealed(per_unit=per_unit)
        query = Query(Gram(data.schema, table(), 0), Concentrated(Fraction(1)))
        event = curator.event_of(query, 1)
        spread = int(np.ceil(np.sqrt(2 * float(event.grid_scale)) * 1.001)) + 2
        most = (2**62 - 2**10 * spread) // (per_unit * 2**32)
        assert curator.event_of(query, most - 1) == event
        with pytest.raises(errors.ProblemTooLarge):
            curator.event_of(query, most + 2)

    @pytest.mark.parametrize("amount", [Fraction(0), Fraction(-1)])
    @pytest.mark.parametrize("kind", [Concentrated, Pure])
    def test_a_share_that_is_not_positive_is_refused(self, kind: Any, amount: Fraction) -> None:
        data = sealed()
        keeper = Curator(data, PLENTY)
        with pytest.raises(errors.InvalidRho, match="above zero"):
            keeper.ask(Query(VisitCounts(data.schema), kind(amount)))
        assert keeper.log == ()

    @pytest.mark.parametrize("allowance", [float("nan"), float("inf"), 1.0, "1", None, True, 0, Fraction(-1)])
    def test_an_allowance_that_is_no_exact_amount_is_refused(self, allowance: Any) -> None:
        with pytest.raises(errors.InvalidRho, match="budget"):
            Curator(sealed(), allowance)

    def test_a_gram_matrix_has_no_pure_release(self) -> None:
        data = sealed()
        for statistic in (Gram(data.schema, table(), 0), Moment(data.schema, table(), 0)):
            with pytest.raises(errors.InvalidParameter, match="zCDP only"):
                Curator(data, PLENTY).ask(Query(statistic, Pure(Fraction(1))))


# --- noise on everything -----------------------------------------------------------------------------------------

REPEATS = 400


def released() -> list[Any]:
    discrete, vector = schema_of(Discrete(STATES), 2), schema_of(VECTOR, 2)
    counts = [
        kind(discrete, dynamics)
        for kind in (VisitCounts, TransitionCounts, RewardSums)
        for dynamics in ("per_step", "stationary")
    ]
    counts.append(TransitionCounts(discrete, rows=np.array([2, 3, 11])))
    counts.append(TransitionCounts(discrete, rows=np.array([2, 3, 11]), narrow=True))
    regressions = [
        statistic
        for schema, features in ((discrete, table()), (vector, BINS), (vector, BLOCKS))
        for statistic in (*regressed(schema, features)[:2], *regressed(schema, features, events.SECOND_HALF)[5:7])
    ]
    shares: list[Any] = [Concentrated(Fraction(1, 50)), Pure(Fraction(3))]
    pairs = [(s, share) for s in counts for share in shares] + [(s, shares[0]) for s in regressions]
    return [
        pytest.param(Query(s, share), id=f"{i}-{type(s).__name__}-{type(share).__name__}")
        for i, (s, share) in enumerate(pairs)
    ]


def expected_variance(answer: curator.Answer) -> Any:
    """Of each number on its grid."""
    scale = float(answer.event.grid_scale)
    variance = np.full(answer.grid.shape, scale)
    if answer.event.mechanism == events.LAPLACE:
        return np.full(answer.grid.shape, 1 / (np.cosh(1 / scale) - 1))
    if answer.event.mechanism == events.SYMMETRIC_GAUSSIAN:
        diagonal = np.arange(answer.grid.shape[-1])
        variance[..., diagonal, diagonal] = 2 * scale
    return variance


class TestNoise:
    @pytest.mark.parametrize("query", released())
    def test_every_number_carries_noise_of_the_stated_scale(self, query: Any) -> None:
        """False alarms: less than one in 10⁶ for the whole test."""
        schema = query.statistic.schema
        rng = np.random.default_rng(3)
        data = dataset(schema, [wild_unit(schema, rng) for _ in range(6)])
        answers = Curator(data, PLENTY).ask(*[query] * REPEATS)
        (exact,) = sums.totals([query.statistic], data)
        noise = np.stack([answer.grid - exact for answer in answers]).astype(np.float64)
        assert (noise != noise[0]).any(axis=0).all()
        variance = expected_variance(answers[0])
        # The spread of a squared deviation: kurtosis 3, or 6 and a little more for Laplace noise.
        heavy = answers[0].event.mechanism == events.LAPLACE
        error = np.sqrt(((6.5 if heavy else 3.0) - 1) / REPEATS)
        ratio = (noise**2).mean(axis=0) / variance
        assert (np.abs(ratio - 1) < (10 if heavy else 6.5) * error).all()  # squares of Laplace noise have a long tail
        pooled = ratio[..., *np.triu_indices(ratio.shape[-1])] if query.statistic.symmetric else ratio
        assert abs(pooled.mean() - 1) < 6 * error / np.sqrt(pooled.size)
        assert (np.abs(noise.mean(axis=0)) < 6.5 * np.sqrt(variance / REPEATS)).all()

    @pytest.mark.parametrize("query", released())
    def test_no_two_numbers_share_their_noise_unless_mirrored(self, query: Any) -> None:
        schema = query.statistic.schema
        answers = Curator(Trajectories(schema, 6, []), PLENTY).ask(*[query] * 12)
        grid = np.stack([answer.grid for answer in answers])
        if query.statistic.symmetric:
            assert (grid == grid.swapaxes(-1, -2)).all()
            grid = grid[..., *np.triu_indices(grid.shape[-1])]
        columns = grid.reshape(12, -1)
        assert len(np.unique(columns, axis=1).T) == columns.shape[1]
        assert len(np.unique(columns, axis=0)) == 12


# --- exact sums --------------------------------------------------------------------------------------------------


def some_patients(schema: Schema, count: int = 61) -> list[Unit]:
    rng = np.random.default_rng(count)
    return [wild_unit(schema, rng, int(rng.integers(0, schema.per_unit + 1))) for _ in range(count)]


def ended_early(schema: Schema) -> Unit:
    """Somebody within the schema whose only stay was over after a step; among the wild ones there may be none."""
    inside = np.array([1.0, 5.0]) if not isinstance(schema.states, Discrete) else 1
    plain = unit(schema, inside, 0, 0.5, copies=1)
    return replace(plain, lengths=np.ones(1, dtype=np.int64), endings=np.full(1, ENDED))


def columns(patient: Unit, index: slice) -> Unit:
    """Some of the patient's trajectories."""
    steps = (getattr(patient, name)[:, index] for name in ("states", "actions", "rewards"))
    return Unit(*steps, *(getattr(patient, name)[index] for name in ("lengths", "endings", "final")))


def same(measured: list[Statistic], one: Trajectories, other: Trajectories) -> bool:
    pairs = zip(sums.totals(measured, one), sums.totals(measured, other), strict=True)
    return all((a == b).all() for a, b in pairs)


def at_positions(data: Trajectories, low: int, high: int) -> Block:
    """The trajectories of the units at some positions."""
    (block,) = data.blocks
    keep = (block.units >= low) & (block.units < high)
    steps = {name: getattr(block, name)[:, keep] for name in ("states", "actions", "rewards")}
    rest = {name: getattr(block, name)[keep] for name in ("units", "lengths", "endings", "final")}
    return Block(**steps, **rest, span=(low, high))


class TestNarrow:
    @pytest.mark.parametrize(
        ("units", "share", "narrow"),
        [
            (10**7, Concentrated(Fraction(1)), True),
            (2**31 - 2**14, Concentrated(Fraction(1)), True),
            (2**31, Concentrated(Fraction(1)), False),
            (10, Concentrated(Fraction(1, 10**15)), False),  # noise of 10⁹
            (10, Pure(Fraction(1)), True),
            (10, Pure(Fraction(1, 10**7)), False),
        ],
    )
    def test_32_bits_hold_whatever_can_be_counted_and_drawn(self, units: int, share: Any, narrow: bool) -> None:
        schema = schema_of(Discrete(STATES), 1)
        assert curator.is_narrow(Query(TransitionCounts(schema), share), units) is narrow

    @pytest.mark.parametrize("dynamics", ["per_step", "stationary"])
    def test_the_same_integers_in_half_the_memory(self, dynamics: Any) -> None:
        schema = schema_of(Discrete(STATES), 2)
        data = dataset(schema, some_patients(schema))
        rows = np.array([1, 2, 5])
        wide, narrow = (TransitionCounts(schema, dynamics, rows, small) for small in (False, True))
        one, other = sums.totals([wide, narrow], data)
        np.testing.assert_array_equal(one, other)
        assert one.any()
        assert (str(one.dtype), str(other.dtype), wide.bytes) == ("int64", "int32", 2 * narrow.bytes)


@KINDS
class TestTotals:
    def test_the_order_of_patients_within_a_half_changes_no_integer(self, kind: str) -> None:
        schema, measured = statistics(kind, 3)
        patients, rng = some_patients(schema), np.random.default_rng(1)
        halves = [rng.permutation(30), 30 + rng.permutation(31)]
        moved = [patients[index] for index in np.concatenate(halves)]
        assert same(measured, dataset(schema, patients), dataset(schema, moved))

    def test_the_order_of_a_patients_trajectories_changes_no_integer(self, kind: str) -> None:
        schema, measured = statistics(kind, 3)
        patients = some_patients(schema)
        turned = [columns(patient, slice(None, None, -1)) for patient in patients]
        assert same(measured, dataset(schema, patients), dataset(schema, turned))

    @pytest.mark.parametrize("size", [1, 7, 20])
    def test_the_size_of_blocks_changes_no_integer(self, kind: str, size: int) -> None:
        schema, measured = statistics(kind, 3)
        whole = dataset(schema, some_patients(schema))
        blocks = [at_positions(whole, low, low + size) for low in range(0, 61, size)]
        assert same(measured, whole, replace(whole, blocks=blocks))

    @pytest.mark.parametrize("integer", [np.int8, np.uint8, np.int16, np.int32])
    def test_the_width_of_numbers_changes_no_integer(self, kind: str, integer: Any) -> None:
        schema, measured = statistics(kind, 3)
        rng = np.random.default_rng(5)
        discrete = isinstance(schema.states, Discrete)
        states = rng.integers(0, STATES, (HORIZON, 30)) if discrete else rng.integers(-1, 11, (HORIZON, 30, 2))
        plain = Block(
            units=np.sort(rng.integers(0, 21, 30)),
            lengths=rng.integers(0, HORIZON + 1, 30),
            states=states,
            actions=rng.integers(0, ACTIONS, (HORIZON, 30)),
            rewards=rng.choice([-1.0, -0.375, 0.0, 1.5, 2.0], (HORIZON, 30)),
            endings=rng.integers(0, 3, 30),
            final=states[0],
        )
        kept = integer if discrete else np.float32
        numbers = ("units", "lengths", "actions", "endings")
        narrow = {name: getattr(plain, name).astype(integer) for name in numbers}
        narrow |= {"states": states.astype(kept), "final": states[0].astype(kept)}
        narrowed = Block(**narrow, rewards=plain.rewards.astype(np.float32))
        assert same(measured, Trajectories(schema, 21, [plain]), Trajectories(schema, 21, [narrowed]))

    def test_the_sum_is_the_sum_of_each_patient_alone(self, kind: str) -> None:
        schema, measured = statistics(kind, 3)
        whole = dataset(schema, [*some_patients(schema), ended_early(schema)])
        alone = [sums.totals(measured, replace(whole, blocks=[at_positions(whole, u, u + 1)])) for u in range(62)]
        for index, total in enumerate(sums.totals(measured, whole)):
            assert (total == sum(parts[index] for parts in alone)).all()
            assert total.any() or getattr(measured[index], "rows", None) is not None


@dataclass(frozen=True)
class Generated:
    """Blocks that exist one at a time."""

    count: int

    def __iter__(self) -> Iterator[Block]:
        for index in range(self.count):
            rng, size = np.random.default_rng(index), 2000
            states = rng.integers(0, STATES, (HORIZON, size))
            start = index * size
            units, span = start + np.arange(size), (start, start + size)
            yield block_of(states, states % ACTIONS, rng.random((HORIZON, size)), units=units, span=span)


class TestMemory:
    def test_it_does_not_grow_with_the_number_of_trajectories(self, monkeypatch: pytest.MonkeyPatch) -> None:
        few, many = (self.peak(count, 1, monkeypatch) for count in (10, 100))
        assert many < 1.5 * few

    def test_nor_with_two_threads_which_hold_a_block_each(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beside one thread at ten blocks: whether two hold theirs at once is luck."""
        few, many = self.peak(10, 1, monkeypatch), self.peak(100, 2, monkeypatch)
        assert many < 2.5 * few

    def peak(self, count: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> int:
        """Bytes, of which none are what is made once in a process."""
        monkeypatch.setattr(sums, "processors", lambda: threads)
        self.ask(1)
        tracemalloc.start()
        try:
            self.ask(count)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def ask(self, count: int) -> None:
        schema = schema_of(Discrete(STATES))
        asked = [Query(s, RHO) for s in (VisitCounts(schema), RewardSums(schema), Gram(schema, table(), 1))]
        Curator(Trajectories(schema, 2000 * count, Generated(count)), PLENTY).ask(*asked)
