"""Sums by several threads, from blocks and pieces of any size: the same integers, and as silent."""

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from discretion.learning import clipped, counts, denoising, sums, trajectories, walks
from discretion.learning.schemas import Discrete, IntArray
from discretion.learning.trajectories import Block, Bounded, Stored, Trajectories
from tests.learning import test_clipped, test_pooled, test_sensitivity, vector_units
from tests.learning.test_sensitivity import ACTIONS, HORIZON, PER_UNIT, STATES, schema_of, wild_unit

UNITS = 60


@dataclass
class Shelf:
    """Blocks that are read when they are asked for, and by whom."""

    blocks: list[Block]

    def __post_init__(self) -> None:
        self.readers: set[int] = set()
        self.read: list[int] = []  # where the spans of what was read begin

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def stored(self) -> Iterator[Stored]:
        for block in self.blocks:
            assert block.span is not None
            yield Stored(block.span, lambda rewards, block=block: self._read(block, rewards))  # type: ignore[misc]

    def give_way(self, size: int | None) -> None:
        """Nothing is kept here."""

    def _read(self, block: Block, rewards: bool) -> Block:
        self.readers.add(threading.get_ident())
        assert block.span is not None
        self.read.append(block.span[0])
        return block if rewards else replace(block, rewards=np.full_like(block.rewards, np.nan))


def cut(data: Trajectories, ends: Sequence[int]) -> Trajectories:
    """The same units in several blocks."""
    (whole,) = data.blocks
    blocks = []
    for start, end in zip((0, *ends), (*ends, data.units), strict=True):
        mine = (whole.units >= start) & (whole.units < end)
        steps: dict[str, Any] = {name: getattr(whole, name)[:, mine] for name in ("states", "actions", "rewards")}
        rest: dict[str, Any] = {name: getattr(whole, name)[mine] for name in ("units", "lengths", "endings", "final")}
        blocks.append(replace(whole, **steps, **rest, span=(start, end)))
    return replace(data, blocks=Shelf(blocks))


def discrete(per_unit: int) -> tuple[Trajectories, list[Any]]:
    schema, draw = schema_of(Discrete(STATES), per_unit), np.random.default_rng(per_unit)
    data = test_sensitivity.dataset(schema, [wild_unit(schema, draw) for _ in range(UNITS)])
    return data, [*test_sensitivity.counted(schema), *test_clipped.statistics(schema)]


def vectors(per_unit: int) -> tuple[Trajectories, list[Any]]:
    schema, draw = vector_units.schema_of(per_unit), np.random.default_rng(per_unit)
    data = vector_units.dataset(schema, [vector_units.wild(draw, per_unit) for _ in range(UNITS)])
    return data, test_pooled.statistics(vector_units.RICH, schema)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # as the curator does
class TestTotals:
    @PER_UNIT
    @pytest.mark.parametrize("made", [discrete, vectors])
    @pytest.mark.parametrize("threads", [1, 2, 5])
    @pytest.mark.parametrize("ends", [(), (1, 2, 30), tuple(range(1, UNITS))])
    def test_threads_and_blocks_change_no_integer(
        self, per_unit: int, made: Any, threads: int, ends: tuple[int, ...]
    ) -> None:
        data, asked = made(per_unit)
        for one, other in zip(
            sums.partials(asked, data, 1), sums.partials(asked, cut(data, ends), threads), strict=True
        ):
            np.testing.assert_array_equal(one, other)

    @PER_UNIT
    @pytest.mark.parametrize("records", [1, HORIZON * 7, 10**6])
    def test_nor_do_the_pieces_of_a_block(self, per_unit: int, records: int, monkeypatch: pytest.MonkeyPatch) -> None:
        data, asked = discrete(per_unit)
        whole = sums.totals(asked, data)
        monkeypatch.setattr(trajectories, "_PIECE", records)
        for one, other in zip(whole, sums.totals(asked, data), strict=True):
            np.testing.assert_array_equal(one, other)

    @PER_UNIT
    @pytest.mark.parametrize("total", [None, (0.0, 2.0)])
    def test_nor_do_rewards_that_are_stored_by_number(self, per_unit: int, total: tuple[float, float] | None) -> None:
        data, _ = discrete(per_unit)
        schema = replace(data.schema, total=total)
        asked = [*test_sensitivity.counted(schema), *test_clipped.statistics(schema)]
        (block,) = data.blocks
        prices, numbers = np.unique(block.rewards, return_inverse=True)
        assert np.isnan(prices).any()
        assert prices[0] < schema.low
        numbered = replace(block, rewards=numbers.reshape(block.rewards.shape).astype(np.uint16), prices=prices)
        for one, other in zip(
            sums.totals(asked, replace(data, schema=schema)),
            sums.totals(asked, replace(data, schema=schema, blocks=[numbered])),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)

    @PER_UNIT
    @pytest.mark.parametrize("made", [discrete, vectors])
    @pytest.mark.parametrize("total", [None, (0.0, 2.0)])
    def test_nor_do_rewards_that_are_stored_rounded(
        self, per_unit: int, made: Any, total: tuple[float, float] | None
    ) -> None:
        data, asked = made(per_unit)
        (block,) = data.blocks
        different = replace(block, rewards=block.rewards + np.random.default_rng(0).random(block.rewards.shape))
        kept = replace(different, rewards=data.schema.rounded(different.rewards))
        assert kept.rewards.dtype == np.float32
        assert (kept.rewards != different.rewards).any()
        schema = replace(data.schema, total=total)
        asked = [replace(each, schema=schema) if "schema" in vars(each) else each for each in asked]
        one, other = (sums.totals(asked, replace(data, schema=schema, blocks=[each])) for each in (different, kept))
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)

    @PER_UNIT
    def test_rewards_are_read_for_whoever_looks_at_them(self, per_unit: int) -> None:
        data, asked = discrete(per_unit)
        many = cut(data, (30,))
        for statistic in asked:
            np.testing.assert_array_equal(sums.totals([statistic], many)[0], sums.totals([statistic], data)[0])
        assert 0 < sum(not getattr(statistic, "rewarded", True) for statistic in asked) < len(asked)

    @pytest.mark.parametrize("reach", [1, 30, 31, UNITS, 10 * UNITS])
    def test_a_statistic_that_needs_only_the_first_units_reads_no_others(
        self, reach: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data, asked = discrete(1)
        sizes = next(each for each in asked if isinstance(each, clipped.Lengths))
        (every,) = sums.totals([sizes], data.part(0, min(reach, UNITS)))
        monkeypatch.setattr(clipped.Lengths, "reach", reach)
        many = cut(data, (30,))
        whole, some = sums.totals([asked[0], sizes], many)
        np.testing.assert_array_equal(some, every)
        np.testing.assert_array_equal(whole, sums.totals(asked[:1], data)[0])
        assert isinstance(many.blocks, Shelf)
        many.blocks.read.clear()
        sums.totals([sizes], many)
        assert sorted(many.blocks.read) == ([0] if reach <= 30 else [0, 30])

    def test_a_unit_with_too_many_trajectories_is_left_out_across_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        schema, draw = schema_of(Discrete(STATES)), np.random.default_rng(0)
        monkeypatch.setattr(trajectories, "_PIECE", 1)
        data = test_sensitivity.dataset(schema, [wild_unit(schema, draw, 3)])
        (block,) = data.bounded()
        assert sum(int(piece.seen(0)[2].sum()) for piece in block.pieces()) == int(block.seen(0)[2].sum()) <= 1

    def test_blocks_are_read_by_the_threads_that_add_them(self) -> None:
        data, _ = discrete(1)
        many = cut(data, tuple(range(1, UNITS)))
        waiting = threading.Barrier(2, timeout=60)

        class Together:
            """Adds nothing before two threads have come."""

            locked = False

            def partial(self) -> IntArray:
                return np.zeros(1, dtype=np.int64)

            def add(self, block: Bounded, units: int, partial: IntArray) -> None:
                if not waiting.broken and not partial[0]:
                    waiting.wait()
                partial += 1

            def finish(self, partial: IntArray) -> IntArray:
                return partial

        (count,) = sums.partials([Together()], many, 2)  # type: ignore[list-item]
        assert count[0] == UNITS
        assert isinstance(many.blocks, Shelf)
        assert len(many.blocks.readers) == 2

    def test_what_goes_wrong_in_a_thread_is_not_lost(self) -> None:
        data, asked = discrete(1)
        many = cut(data, (10, 20))

        def broken(rewards: bool) -> Block:
            raise OSError("gone")

        class Gone(Shelf):
            def stored(self) -> Iterator[Stored]:
                return iter([Stored((0, 10), broken), Stored((10, UNITS), broken)])

        with pytest.raises(OSError, match="gone"):
            sums.partials(asked, replace(many, blocks=Gone([])), 2)


class TestTables:
    def test_few_threads_make_one_however_many_processors_there_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each takes a stack of what a fence leaves."""
        asked: list[int] = []

        def pool(threads: int) -> ThreadPoolExecutor:
            asked.append(threads)
            return ThreadPoolExecutor(threads)

        monkeypatch.setattr(sums, "processors", lambda: 64)
        monkeypatch.setattr(counts, "ThreadPoolExecutor", pool)
        table = counts.TransitionCounts(schema_of(Discrete(STATES))).partial()
        assert asked == [4]
        assert not table.any()


class TestSilence:
    def test_no_thread_warns_of_a_record(self) -> None:
        """What numpy is told to ignore holds for one thread only, unless it is handed on."""
        seen: list[str] = []
        lock = threading.Barrier(2, timeout=60)

        class Dividing:
            def partial(self) -> IntArray:
                return np.zeros(1, dtype=np.int64)

            def add(self, block: Bounded, units: int, partial: IntArray) -> None:
                if len(seen) < 2:
                    lock.wait()
                seen.append(np.geterr()["divide"])
                np.ones(1) / np.zeros(1)

            def finish(self, partial: IntArray) -> IntArray:
                return partial

        data, _ = discrete(1)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            sums.partials([Dividing()], cut(data, (30,)), 2)  # type: ignore[list-item]
        assert set(seen) == {"ignore"}


class TestWalks:
    @pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64])
    def test_comparing_and_sorting_look_back_equally_far(self, kind: type) -> None:
        cells: walks.Cells = np.random.default_rng(0).integers(6, size=(17, 400)).astype(kind)
        found = walks.back(cells)
        np.testing.assert_array_equal(found, walks._back_by_sorting(cells))
        column = cells[:, 7].tolist()
        assert found[:, 7].tolist() == [step - column.index(cell) for step, cell in enumerate(column)]

    def test_the_longest_way_back_that_is_compared_is_found(self) -> None:
        cells: walks.Cells = np.arange(walks._COMPARED, dtype=np.int16)[:, None].copy()
        cells[-1] = 0
        np.testing.assert_array_equal(walks.back(cells), walks._back_by_sorting(cells))

    def test_where_a_unit_is_one_trajectory_sorting_gives_the_same_vectors(self) -> None:
        data, _ = discrete(1)
        (block,) = data.bounded()
        cells, size = walks.cells(block), STATES * ACTIONS
        values = np.trunc(np.random.default_rng(1).normal(0, 1000, cells.shape))
        other = clipped._entries(block, cells, values.copy(), size)
        found = clipped._vectors(block, cells, values, size)
        assert isinstance(found, clipped._Columns)
        place = np.flatnonzero(found.sums)
        columns = np.cumsum(found.anywhere)[place % cells.shape[1]] - 1
        assert _as_sets(columns, cells.ravel()[place], found.sums.ravel()[place]) == _as_sets(
            other.owners, other.cells, other.sums
        )
        assert len(place) > 20
        np.testing.assert_allclose(found.norms, other.norms, rtol=1e-12)
        # Norms that were added up in another order may differ in their last bit, and so an entry by a step of the grid.
        np.testing.assert_allclose(found.shortened(size), other.shortened(size), atol=cells.shape[1])


def _as_sets(owners: Any, cells: Any, values: Any) -> list[tuple[int, int, float]]:
    return sorted(each for each in zip(owners.tolist(), cells.tolist(), values.tolist(), strict=True) if each[2])


class TestAlike:
    def test_cells_that_are_alike_have_the_same_posterior_as_each_by_itself(self) -> None:
        draw = np.random.default_rng(0)
        kind = np.repeat(np.arange(9), 80)
        visits = draw.uniform(1, 3000, 9)[kind]
        counts = np.where(draw.random(720) < 0.1, draw.integers(-900, 3000, 720), draw.integers(-9, 9, 720))
        cells = denoising.Noised(counts.astype(float), visits, np.full(720, 27.0), draw.integers(0, 3, 720))
        levels = denoising.levels(1e-3)
        mixture = denoising.Mixture(levels, draw.dirichlet(np.ones(len(levels)), 3))
        for one, other in zip(
            denoising.posterior(cells, mixture), denoising.posterior(cells, mixture, kind), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


class TestByRun:
    @pytest.mark.parametrize("lengths", [[1], [7], [1, 1, 1], [3, 1, 20, 2, 1, 20], list(range(1, 40))])
    def test_adds_what_a_loop_adds(self, lengths: list[int]) -> None:
        draw, size = np.random.default_rng(len(lengths)), sum(lengths)
        factors = draw.integers(-(2**15), 2**15, size).astype(np.float64)
        vectors = draw.integers(-(2**16), 2**16, (size, 3)).astype(np.float64)
        starts = np.cumsum([0, *lengths[:-1]])
        found = sums.by_run(factors, vectors, starts)
        for run, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            rows = range(start, start + length)
            assert found[run].tolist() == [sum(int(factors[i]) * int(vectors[i, j]) for i in rows) for j in range(3)]
