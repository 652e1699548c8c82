"""Datasets on disk: the same whatever the format, at random positions, all or nothing, in bounded memory."""

import contextlib
import errno
import gc
import itertools
import json
import os
import shutil
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from benchmarks import scale
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discretion import blocks, datasets, errors, first_reading, stores, uploads
from discretion.formats import Limits
from discretion.learning import clipped, counts, followed, outcomes, sums
from discretion.learning import features as maps
from discretion.learning.counts import TransitionCounts, VisitCounts
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import ENDED
from discretion.privacy import noise
from tests import goodness, uploading
from tests.learning import test_sensitivity
from tests.uploading import CSV, PARQUET, PLANE, SCHEMA, TYPES, Row, expected, same, some_rows, trajectory

TINY = Limits(block=1, batch=1)


@pytest.fixture(autouse=True)
def _without_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each upload takes a while; tests/test_formats.py has them."""
    monkeypatch.setattr(first_reading, "survived", lambda *_: True)


def accept(rows: list[Row], folder: Path, media_type: str = CSV, schema: Schema = SCHEMA, **named: Any) -> Any:
    return datasets.accept(
        uploading.pieces(uploading.written(rows, media_type)), media_type, schema, uploading.place(folder), **named
    )


def sweep(folder: Path, broken: Callable[[], list[str]]) -> None:
    datasets.sweep(uploading.shelf(folder), broken, lambda name, clean_up: clean_up())


def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "permutation", np.arange)


class TestKept:
    @pytest.mark.parametrize("per_unit", [1, 2])
    @pytest.mark.parametrize("digits", [3, 17])  # few rewards, and as many as there are records
    def test_blocks_held_in_small_numbers_sum_to_the_same_integers(
        self, tmp_path: Path, per_unit: int, digits: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """There are more cells than the numbers that hold states and actions can count."""
        monkeypatch.setattr(blocks, "_FEW", 2**16 if digits == 3 else 1)
        schema, draw = Schema(3, Discrete(300), 250, (0.0, 1.0), per_unit=per_unit), np.random.default_rng(0)
        rows = [
            {"unit": str(unit), "step": step, "state": int(draw.integers(300)), "action": int(draw.integers(250))}
            | {"reward": round(draw.random(), digits)}
            for unit in range(60)
            for step in range(1, 2 + unit % 3)
        ]
        accept(rows, tmp_path, schema=schema)
        stored = datasets.load(uploading.place(tmp_path), schema, room=blocks.KEPT)
        plain = list(datasets.load(uploading.place(tmp_path), schema).blocks)
        assert plain[0].prices is None
        surprises = clipped.Surprises(schema, 0.9, draw.normal(size=300), 0.3)
        asked: list[Any] = [*test_sensitivity.counted(schema), clipped.Coverage(schema), surprises]
        asked += [clipped.Returns(schema, 0.9, 0.1, 0.3), clipped.Lengths(surprises)]
        expected = sums.totals(asked, replace(stored, blocks=plain))
        for _ in range(2):  # the second time from what was kept
            for one, other in zip(sums.totals(asked, stored), expected, strict=True):
                assert np.array_equal(one, other)
        assert {block.prices is None for block in stored.blocks} == {digits == 17}

    @pytest.mark.parametrize("columns", [1, 2])
    @pytest.mark.parametrize("actions", [3, 300])
    def test_blocks_of_vectors_that_stay_sum_to_the_same_integers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, actions: int
    ) -> None:
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(0, 15), (15, 30), (30, 40)])
        draw, names = np.random.default_rng(5), ("x", "y")[:columns]
        vector = Vector(names, ((-1.0, 1.0),) * columns)
        schema = Schema(6, vector, actions)
        rows = [
            {"unit": str(unit), "step": step, "action": int(draw.integers(actions)), "reward": float(draw.random())}
            | {name: float(draw.uniform(-1, 1)) for name in names}
            for unit in range(40)
            for step in range(1, 2 + unit % 6)
        ]
        accept(rows, tmp_path, schema=schema)
        asked: list[Any] = []
        for features in (
            maps.Blocks(vector, actions, ("1", *names)),
            maps.Bins.of(vector, actions, {"x": [0.0]}),
        ):
            for step in range(6):
                asked += [Gram(schema, features, step), Moment(schema, features, step, bound=2, reward=True)]
        anew = datasets.load(uploading.place(tmp_path), schema)
        expected = sums.totals(asked, anew)
        assert not anew.blocks.kept._blocks  # type: ignore[attr-defined]
        for room, kept in ((3500, range(1, 3)), (blocks.KEPT, range(3, 4))):
            stored = datasets.load(uploading.place(tmp_path), schema, room=room)
            for _ in range(3):  # after the first time from what was kept
                for one, other in zip(sums.totals(asked, stored), expected, strict=True):
                    np.testing.assert_array_equal(one, other)
            held = stored.blocks.kept._blocks.values()  # type: ignore[attr-defined]
            assert len(held) in kept
            assert sum(map(blocks._bytes, held)) <= room
            smallest = np.int8 if actions < 128 else np.int16
            assert {block.actions.dtype for block in held} == {np.dtype(smallest)}  # by the schema alone

    def test_room_for_what_is_computed_is_not_taken_by_blocks(self, tmp_path: Path) -> None:
        accept(some_rows(9, PLANE), tmp_path / "set", schema=PLANE)
        stored = datasets.load(uploading.place(tmp_path / "set"), PLANE, room=1000, whole=False)
        (block,) = stored.blocks.stored()  # type: ignore[attr-defined]
        block.read(True)
        assert not stored.blocks.kept._blocks  # type: ignore[attr-defined]
        assert block.memory.reserve(1000)

    @pytest.mark.parametrize("room", [0, blocks.KEPT])
    def test_what_lies_outside_the_schema_does_not_wrap_into_it(self, tmp_path: Path, room: int) -> None:
        """No upload has such a state; whoever reads one all the same must find it nowhere, like any other."""
        wide, narrow = Schema(1, Discrete(70_000), 300), Schema(1, Discrete(5), 2)
        found = [(2, 1), (256, 0), (257, 1), (1, 256), (65_536, 0), (65_538, 257)]
        rows = [
            {"unit": str(unit), "step": 1, "state": state, "action": action, "reward": 0.5}
            for unit, (state, action) in enumerate(found)
        ]
        accept(rows, tmp_path, schema=wide)
        (visits,) = sums.totals(
            [counts.VisitCounts(narrow)], datasets.load(uploading.place(tmp_path), narrow, room=room)
        )
        assert (visits.sum(), visits[0, 2, 1]) == (1, 1)

    @pytest.mark.parametrize("room", [0, blocks.KEPT])
    @pytest.mark.parametrize("states", [Discrete(5), Vector(("x",), ((0.0, 9.0),))])
    def test_a_step_beyond_the_horizon_counts_nowhere_and_moves_nobody(
        self, tmp_path: Path, states: Any, room: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No upload has such a step. Stays of 7, 5, 5 and 3 rows are as many rows as four of 5."""
        in_order(monkeypatch)
        column = "state" if isinstance(states, Discrete) else "x"
        rows = [
            {"unit": str(unit), "step": step, column: unit + 1, "action": step % 2, "reward": 0.5}
            for unit, length in enumerate((7, 5, 5, 3))
            for step in range(1, length + 1)
        ]
        accept(rows, tmp_path, schema=Schema(10, states, 2))
        short = Schema(5, states, 2)
        found = uploading.units_of(datasets.load(uploading.place(tmp_path), short, room=room))
        paths = {unit: [(np.ravel(state)[0], action) for state, action, _ in found[unit][0][0]] for unit in range(4)}
        assert paths == {
            unit: [(unit + 1, step % 2) for step in range(1, length + 1)] for unit, length in enumerate((5, 5, 5, 3))
        }

    @pytest.mark.parametrize("states", [256, 300, 2**15, 2**16, 70_000])
    def test_one_patient_in_the_last_state_changes_nothing_for_the_others(
        self, tmp_path: Path, states: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Types that held just what is there made the end of everybody's stay another state."""
        in_order(monkeypatch)
        schema = Schema(4, Discrete(states), 2)
        judged = followed.Judged(
            schema,
            np.zeros((4, states), dtype=np.int64),
            trusted=np.ones((states, 2), dtype=np.bool_),
            place=np.arange(states),
            limits=followed.Limits(4, 4),
        )
        values = np.zeros(states + 1)
        values[states % 256] = 1.0
        asked: list[Any] = [outcomes.Targets(judged, values, 0.0, 1.0), clipped.Coverage(schema)]
        if states < 1000:
            asked.append(outcomes.Transitions(judged))
        found = []
        for last in ([1, 2], [1, 2, states - 1]):
            paths = [*[[5, 6]] * 50, last]
            rows = [
                {"unit": str(unit), "step": step, "state": state, "action": 0, "reward": 0.5}
                for unit, path in enumerate(paths)
                for step, state in enumerate(path, 1)
            ]
            folder = tmp_path / str(len(last))
            accept(rows, folder, schema=schema)
            stored = datasets.load(uploading.place(folder), schema, room=blocks.KEPT)
            assert all(block.prices is not None for block in stored.blocks)
            found.append(sums.totals(asked, stored))
        for statistic, one, other in zip(asked, *found, strict=True):
            moved = (one - other) * float(statistic.resolution)
            assert (moved**2).sum() <= float(statistic.squared_sensitivity)


class TestAccept:
    @pytest.mark.parametrize("media_type", TYPES)
    @pytest.mark.parametrize("limits", [None, TINY], ids=["at once", "a row at a time"])
    @pytest.mark.parametrize("schema", [SCHEMA, PLANE], ids=["discrete", "vector"])
    def test_what_was_sent_is_what_is_stored(
        self, schema: Schema, limits: Limits | None, media_type: str, tmp_path: Path
    ) -> None:
        rows = some_rows(9, schema)
        accepted = accept(rows, tmp_path / "set", media_type, schema, limits=limits)
        starts = sum(row["step"] == 1 for row in rows)
        assert accepted == datasets.Accepted(9, starts, len(rows))
        assert same(uploading.stored(tmp_path / "set", schema), expected(rows, schema))
        assert datasets.units(uploading.place(tmp_path / "set")) == 9

    def test_all_formats_and_batches_give_the_same_bytes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        in_order(monkeypatch)
        for index, (media_type, limits) in enumerate(itertools.product(TYPES, [None, TINY])):
            accept(some_rows(), tmp_path / str(index), media_type, limits=limits)
        contents = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in tmp_path.iterdir()]
        assert contents[1:] == contents[:-1]

    def test_trajectories_may_be_named(self, tmp_path: Path) -> None:
        rows = [row | {"trajectory": "x"} for row in trajectory("a", 2)]
        rows += [row | {"trajectory": "y"} for row in trajectory("a", 3)]
        rows += [row | {"trajectory": "x"} for row in trajectory("b", 1)]
        assert accept(rows, tmp_path / "set") == datasets.Accepted(2, 3, 6)
        assert same(uploading.stored(tmp_path / "set", SCHEMA), expected(rows))

    @pytest.mark.parametrize("at_once", [2, 3, 4096])
    @pytest.mark.parametrize("length", [1, 2, 5])
    def test_spans_divide_the_positions_and_blocks_follow_them(
        self, length: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spans = [(start, min(start + length, 9)) for start in range(0, 9, length)]
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: spans)
        monkeypatch.setattr(datasets, "_CHUNK", 100)
        monkeypatch.setattr(datasets, "_AT_ONCE", at_once)
        rows = some_rows(9)
        accept(rows, tmp_path / "set")
        stored = datasets.load(uploading.place(tmp_path / "set"), SCHEMA)
        held = list(stored.blocks)
        assert [block.span for block in held] == spans
        assert same(uploading.stored(tmp_path / "set", SCHEMA), expected(rows))
        assert len(list(stored.blocks)) == len(held)

    @pytest.mark.parametrize("room", [0, 1, 700, 2**29])
    def test_what_stays_in_memory_is_what_was_read(
        self, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(0, 4), (4, 8), (8, 9)])
        rows = some_rows(9)
        accept(rows, tmp_path / "set")
        stored = datasets.load(uploading.place(tmp_path / "set"), SCHEMA, room=room)
        for _ in range(3):
            assert same(uploading.units_of(stored), expected(rows))
        kept = stored.blocks.kept._blocks  # type: ignore[attr-defined]
        assert sum(blocks._bytes(block) for block in kept.values()) <= room
        assert bool(kept) is (room > 1)

    @pytest.mark.parametrize("room", [0, 2**29])
    def test_what_is_read_without_rewards_is_the_same_otherwise(self, room: int, tmp_path: Path) -> None:
        accept(some_rows(9), tmp_path / "set")
        stored = datasets.load(uploading.place(tmp_path / "set"), SCHEMA, room=room)
        (whole,), (held,) = stored.blocks, stored.blocks.stored()  # type: ignore[attr-defined]
        without = held.read(False)
        for name in ("units", "lengths", "states", "actions", "endings", "final"):
            np.testing.assert_array_equal(getattr(without, name), getattr(whole, name))
        assert (without.rewards == 0).all() == (room == 0)  # what is kept is kept with them

    @pytest.mark.parametrize("slots", [1, 20])  # nearly all share a place, and hardly any
    def test_rewards_by_number_are_the_same_rewards(self, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blocks, "_SLOTS", slots)
        monkeypatch.setattr(blocks, "_LOOKED_AT", 50)
        draw = np.random.default_rng(0)
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-310])
        values = np.append(odd, np.round(draw.random(500), 1))
        draw.shuffle(values)
        values = np.concatenate((values, draw.random(40)))  # not among the first
        for some in (values, values[:1], values[:0]):
            numbers, prices = blocks._numbered(some)
            np.testing.assert_array_equal(prices[numbers], some)
        assert len(set(values.tolist())) <= len(blocks._numbered(values)[1]) + 1

    def test_rewards_that_all_differ_stay_in_memory_in_half_their_bytes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One patient's reward must not decide whether everybody's are read again."""
        monkeypatch.setattr(blocks, "_FEW", 1)
        accept(some_rows(9), tmp_path / "set")
        stored = datasets.load(uploading.place(tmp_path / "set"), SCHEMA, room=blocks.KEPT)
        (read,), _ = datasets.load(uploading.place(tmp_path / "set"), SCHEMA).blocks, list(stored.blocks)
        (kept,) = stored.blocks.kept._blocks.values()  # type: ignore[attr-defined]
        assert kept.prices is None
        assert kept.rewards.dtype == np.float32
        np.testing.assert_array_equal(kept.rewards, SCHEMA.rounded(read.rewards))

    @pytest.mark.parametrize(("different", "many"), [(9, False), (40, False), (41, True), (400, True)])
    def test_rewards_of_which_too_many_differ_are_not_numbered_first(
        self, different: int, many: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "_FEW", 40)
        monkeypatch.setattr(blocks, "_LOOKED_AT", 20)
        values = np.resize(np.random.default_rng(0).permutation(different) / different, 400)
        assert blocks._many(values) is many
        assert not many or len(blocks._numbered(values)[1]) > blocks._FEW

    def test_blocks_give_way_to_a_table_and_are_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(0, 4), (4, 8), (8, 9)])
        accept(some_rows(9), tmp_path / "set")
        stored = datasets.load(uploading.place(tmp_path / "set"), SCHEMA, room=blocks.KEPT)
        expected, kept = uploading.units_of(stored), stored.blocks.kept  # type: ignore[attr-defined]
        sizes = [blocks._bytes(block) for block in kept._blocks.values()]
        for size, left in ((0, 3), (blocks.KEPT - sum(sizes), 3), (blocks.KEPT - sum(sizes) + 1, 2), (None, 0)):
            stored.give_way(size)
            assert len(kept._blocks) == left
        assert uploading.units_of(stored) == expected

    def test_spans_depend_on_public_sizes_only(self) -> None:
        assert datasets._spans(10**5, SCHEMA) == [(0, 10**5)]
        wide = Schema(10_000, Discrete(5), 2, per_unit=10_000)
        spans = datasets._spans(10**6, wide)
        assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]

    def test_10_to_the_9_stays_are_dealt_out_twice_to_blocks_that_are_no_larger(self) -> None:
        schema = scale.discrete()
        spans, (rows, size) = datasets._spans(10**9, schema), datasets.block_rows(schema, 10**9)
        assert datasets._AT_ONCE < len(spans) < datasets._MOST_BLOCKS
        assert 2**25 - schema.horizon * size < rows * size <= 2**25

    def test_the_last_of_the_most_blocks_keeps_its_number(self, tmp_path: Path) -> None:
        last, kind = datasets._MOST_BLOCKS - 1, uploads.record(SCHEMA)
        records = np.zeros(2, kind)
        records["unit"] = [0, last]
        (tmp_path / "rows").write_bytes(records.tobytes())
        with (tmp_path / "rows").open("rb") as rows:
            ((parts),) = datasets._parts(rows, kind, None, 1)
        assert [(span, part["unit"].tolist()) for span, part in parts] == [(0, [0]), (last, [last])]
        assert len(datasets._spans(10**9, Schema(10_000, Discrete(5), 2, per_unit=10_000))) <= last + 1

    def test_no_identifier_is_on_disk_once_positions_are_drawn(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def draw(size: int) -> Any:
            files = [path for path in tmp_path.parent.rglob("*") if path.is_file()]
            assert files
            assert not any(b"canary" in path.read_bytes() for path in files)
            return np.arange(size)

        monkeypatch.setattr(noise, "permutation", draw)
        for media_type in TYPES:
            accept(trajectory("canary", 2), tmp_path / media_type.replace("/", ""), media_type)
        assert not any(b"canary" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    def test_the_manifest_says_what_is_public(self, tmp_path: Path) -> None:
        accept(some_rows(), tmp_path / "set")
        manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
        assert manifest == {"version": 1, "units": 4, "spans": [[0, 4]]}


values = st.fixed_dictionaries(
    {"state": st.integers(0, 4), "action": st.integers(0, 1), "reward": st.floats(0, 1)},
)
ends = st.fixed_dictionaries({}, optional={"terminated": st.booleans(), "next_state": st.integers(0, 4)})
episodes = st.tuples(st.lists(values, min_size=1, max_size=3), ends)
patients = st.lists(st.lists(episodes, min_size=1, max_size=2), min_size=1, max_size=5)


class TestRoundTrip:
    @settings(deadline=None, max_examples=60)
    @given(patients=patients, names=st.data(), media_type=st.sampled_from(TYPES), tiny=st.booleans())
    def test_any_small_dataset_survives(
        self, patients: Any, names: Any, media_type: str, tiny: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        text = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=20)
        units = names.draw(st.lists(text, min_size=len(patients), max_size=len(patients), unique=True))
        rows = [
            {"unit": unit, "step": step, **value, **(end if step == len(steps) else {})}
            for unit, trajectories in zip(units, patients, strict=True)
            for steps, end in trajectories
            for step, value in enumerate(steps, 1)
        ]
        folder = tmp_path_factory.mktemp("trip") / "set"
        accept(rows, folder, media_type, limits=TINY if tiny else None)
        assert same(uploading.stored(folder, SCHEMA), expected(rows))
        shutil.rmtree(folder.parent)


def order_p(folder: Path, uploads: int = 150) -> float:
    """Chi-square of the order in which three units, sent in the same order each time, are stored."""
    rows = [row for state in range(3) for row in trajectory(str(state), 1, state=state)]
    data = uploading.as_csv(rows)
    seen: Counter[tuple[int, ...]] = Counter()
    for index in range(uploads):
        datasets.accept([data], CSV, SCHEMA, uploading.place(folder / str(index)))
        (block,) = datasets.load(uploading.place(folder / str(index)), SCHEMA).blocks
        seen[tuple(block.states[0].tolist())] += 1
    return float(stats.chisquare([seen[order] for order in itertools.permutations(range(3))]).pvalue)


class TestPositions:
    def test_every_order_is_equally_likely(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds of uploads: the disk is not what is tested
        assert order_p(tmp_path) > goodness.ALARM

    def test_a_rotation_instead_would_be_noticed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        draw = noise.permutation
        monkeypatch.setattr(noise, "permutation", lambda size: np.roll(np.arange(size), draw(size)[0]))
        assert order_p(tmp_path, 60) < goodness.ALARM


class TestSums:
    def test_the_curator_counts_what_the_rows_say(self, tmp_path: Path) -> None:
        rows = some_rows(40)
        rows += [row for unit in "abc" for row in trajectory(unit, 2, next_state=3, terminated=False)]
        accept(rows, tmp_path / "set")
        visits = np.zeros((3, 5, 2), np.int64)
        transitions = np.zeros((3, 5, 2, 6), np.int64)
        for unit in expected(rows):
            for records, ending, final in unit:
                for step, (state, action, _) in enumerate(records):
                    after = records[step + 1][0] if step + 1 < len(records) else 5 if ending == ENDED else final
                    if after is None and step + 1 < SCHEMA.horizon:
                        continue  # nobody recorded what followed; at the horizon that counts as the end
                    visits[step, state, action] += 1
                    transitions[step, state, action, 5 if after is None else after] += 1
        data = datasets.load(uploading.place(tmp_path / "set"), SCHEMA)
        for statistic, table in (
            (VisitCounts(SCHEMA), visits),
            (TransitionCounts(SCHEMA, rows=np.arange(30)), transitions),
        ):
            (found,) = sums.totals([statistic], data)
            assert found.reshape(-1).tolist() == table.reshape(-1).tolist()


class Vanished(ConnectionError):
    pass


class TestAllOrNothing:
    @pytest.mark.parametrize("media_type", TYPES)
    @pytest.mark.parametrize("sent", [0, 1, 20])
    def test_a_client_that_vanishes_leaves_nothing(self, sent: int, media_type: str, tmp_path: Path) -> None:
        def chunks() -> Iterator[bytes]:
            yield from itertools.islice(uploading.pieces(uploading.written(some_rows(), media_type)), sent)
            raise Vanished

        with pytest.raises(Vanished):
            datasets.accept(chunks(), media_type, SCHEMA, uploading.place(tmp_path / "set"), TINY)
        assert list(tmp_path.iterdir()) == []

    def test_an_interrupt_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(datasets, "_block_file", interrupt)
        with pytest.raises(KeyboardInterrupt):
            accept(some_rows(), tmp_path / "set")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("media_type", TYPES)
    def test_a_full_disk_leaves_nothing_whenever_it_is_noticed(
        self, media_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = [(datasets, "_append"), (datasets, "_block_file"), (stores, "_sync"), (stores, "_write")]
        steps += [(os, "rename"), (os, "fsync")]
        failures = 0
        for (module, name), call in itertools.product(steps, range(4)):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, failing(getattr(module, name), call))
                try:
                    accept(some_rows(), tmp_path / "set", media_type)
                except errors.StorageFailed:
                    failures += 1
                    assert list(tmp_path.iterdir()) == []
            datasets.retire(uploading.place(tmp_path / "set"))
        assert failures >= 10

    def test_a_dataset_is_not_stored_over_another(self, tmp_path: Path) -> None:
        accept(some_rows(2), tmp_path / "set")
        with pytest.raises(errors.StorageFailed):
            accept(some_rows(3), tmp_path / "set")
        assert datasets.units(uploading.place(tmp_path / "set")) == 2
        assert [path.name for path in tmp_path.iterdir()] == ["set"]


def failing(work: Callable[..., Any], call: int) -> Callable[..., Any]:
    """The same function, but the disk is full the call-th time."""
    calls = itertools.count()

    def run(*arguments: Any) -> Any:
        if next(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return work(*arguments)

    return run


class TestCrashes:
    def test_one_between_any_two_steps_leaves_all_or_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outcomes = []
        for call in range(30):
            parent = tmp_path / str(call)
            parent.mkdir()
            with monkeypatch.context() as patch:
                die_at(call, patch)
                with contextlib.suppress(Crash):
                    accept(some_rows(), parent / "set")
            sweep(parent, list)
            outcomes.append([path.name for path in parent.iterdir()])
            if outcomes[-1]:
                assert same(uploading.stored(parent / "set", SCHEMA), expected(some_rows()))
        assert outcomes[0] == []
        assert outcomes[-1] == ["set"]
        assert outcomes == sorted(outcomes)

    def test_sweeping_spares_what_is_whole(self, tmp_path: Path) -> None:
        accept(some_rows(), tmp_path / "set")
        (tmp_path / ".other.incoming-abc").mkdir()
        sweep(tmp_path, lambda: ["other"])
        assert [path.name for path in tmp_path.iterdir()] == ["set"]
        sweep(tmp_path / "missing", list)

    def test_sweeping_removes_what_an_upload_left_that_broke_off(self, tmp_path: Path) -> None:
        accept(some_rows(), tmp_path / "set")
        sweep(tmp_path, lambda: ["set"])
        assert list(tmp_path.iterdir()) == []

    def test_what_may_have_been_made_known_stays(self, tmp_path: Path) -> None:
        def then(_: object) -> None:
            raise ConnectionError("the answer to the commit was lost")

        with pytest.raises(errors.StorageFailed):
            accept(some_rows(), tmp_path / "set", then=then)
        assert [path.name for path in tmp_path.iterdir()] == ["set"]

    def test_sweeping_spares_an_upload_that_is_under_way(self, tmp_path: Path) -> None:
        def then(_: object) -> None:
            sweep(tmp_path, lambda: ["set"])
            assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == {"set", ".set.incoming"}

        accept(some_rows(), tmp_path / "set", then=then)
        assert [path.name for path in tmp_path.iterdir()] == ["set"]

    def test_what_could_not_be_made_known_does_not_stay(self, tmp_path: Path) -> None:
        def then(_: object) -> None:
            raise errors.DatasetNotEmpty

        with pytest.raises(errors.DatasetNotEmpty):
            accept(some_rows(), tmp_path / "set", then=then)
        assert list(tmp_path.iterdir()) == []


class Crash(BaseException):
    pass


def die_at(call: int, patch: pytest.MonkeyPatch) -> None:
    """Stop before the call-th step on the disk, and do none of the clean-up: a process that is gone cannot."""
    calls = itertools.count()

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            now = next(calls)
            if now == call:
                raise Crash
            return work(*arguments, **named) if now < call else None

        return run

    steps = [(os, "rename"), (os, "fsync"), (shutil, "rmtree"), (Path, "mkdir"), (Path, "unlink"), (stores, "_write")]
    for module, name in [*steps, (datasets, "_append"), (datasets, "_block_file")]:
        patch.setattr(module, name, counted(getattr(module, name)))


class TestRetire:
    def test_everything_goes_and_again_nothing_happens(self, tmp_path: Path) -> None:
        accept(some_rows(), tmp_path / "set")
        accept(some_rows(), tmp_path / "set-2")
        (tmp_path / ".set.incoming-abc").mkdir()
        (tmp_path / ".set-2.incoming-abc").mkdir()
        for _ in range(2):
            datasets.retire(uploading.place(tmp_path / "set"))
            assert sorted(path.name for path in tmp_path.iterdir()) == [".set-2.incoming-abc", "set-2"]
        with pytest.raises(errors.StorageFailed):
            datasets.load(uploading.place(tmp_path / "set"), SCHEMA)
        datasets.retire(uploading.place(tmp_path / "never" / "was"))

    def test_a_failure_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        accept(some_rows(), tmp_path / "set")
        monkeypatch.setattr(os, "rename", failing(os.rename, 0))
        with pytest.raises(errors.StorageFailed):
            datasets.retire(uploading.place(tmp_path / "set"))
        monkeypatch.undo()
        datasets.retire(uploading.place(tmp_path / "set"))
        assert list(tmp_path.iterdir()) == []

    def test_another_layout_is_refused(self, tmp_path: Path) -> None:
        accept(some_rows(), tmp_path / "set")
        (tmp_path / "set" / "manifest.json").write_text('{"version": 2}')
        with pytest.raises(errors.StorageFailed):
            datasets.units(uploading.place(tmp_path / "set"))


class TestCheckBlocks:
    """Plans count on blocks that are no longer than `_length` says."""

    def test_what_is_stored_today_is_as_plans_count(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "_BLOCK", 4 * datasets._largest(SCHEMA))
        accept(some_rows(9), tmp_path / "set")
        datasets.check_blocks(uploading.place(tmp_path / "set"), SCHEMA)
        assert datasets.blocks(uploading.place(tmp_path / "set")) == 3

    def test_longer_blocks_of_an_earlier_version_are_refused_with_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datasets, "_BLOCK", 4 * datasets._largest(SCHEMA))
        accept(some_rows(9), tmp_path / "set")
        monkeypatch.setattr(datasets, "_BLOCK", 3 * datasets._largest(SCHEMA))
        with pytest.raises(errors.ProblemTooLarge, match=r"earlier version .* upload it again as a new dataset"):
            datasets.check_blocks(uploading.place(tmp_path / "set"), SCHEMA)


class TestMemory:
    @pytest.mark.parametrize("media_type", [CSV, PARQUET])
    def test_ten_times_the_rows_take_hardly_more(
        self, media_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datasets, "_BLOCK", 2**18)
        monkeypatch.setattr(datasets, "_CHUNK", 2**18)
        limits = Limits(block=2**17, batch=2**12)
        schema = Schema(50, Discrete(5), 2)
        few, many = (
            # Another test's threads may allocate meanwhile, so the lesser of two peaks counts.
            min(self.peak(media_type, schema, limits, tmp_path / f"{units}-{turn}", units) for turn in range(2))
            for units in (600, 6000)
        )
        assert many <= 1.5 * few

    def peak(self, media_type: str, schema: Schema, limits: Limits, folder: Path, units: int) -> int:
        steps = np.tile(np.arange(1, 51), units)
        names = pa.array(np.repeat(np.arange(units), 50)).cast(pa.string())
        rows = {"unit": names, "step": steps, "state": steps % 5, "action": steps % 2, "reward": steps % 2}
        source = folder.with_suffix(".source")
        if media_type == CSV:
            pyarrow.csv.write_csv(pa.table(rows), source)
        else:
            pyarrow.parquet.write_table(pa.table(rows), source, row_group_size=2**13)
        del rows, names, steps
        default = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(default)  # counts from here on
        pa.set_memory_pool(pool)
        gc.collect()
        tracemalloc.start()
        try:
            with source.open("rb") as file:
                datasets.accept(
                    iter(lambda: file.read(2**14), b""), media_type, schema, uploading.place(folder), limits
                )
            return tracemalloc.get_traced_memory()[1] + int(pool.max_memory())
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(default)
