"""The three formats: ordinary ways to write them are read, every fault is named, and nothing crashes or grows."""

import io
import json
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import datasets, errors, first_reading
from discretion.formats import Limits
from discretion.learning.trajectories import CUT, ENDED
from tests import uploading
from tests.uploading import CSV, HEADER, NDJSON, PARQUET, SCHEMA, TYPES, Row, endings, reasons, refused, row

FIRST = first_reading.survived


@pytest.fixture(autouse=True)
def _without_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each upload takes a while; TestGarbage has them."""
    monkeypatch.setattr(first_reading, "survived", lambda *_: True)


class TestCsv:
    @pytest.mark.parametrize(
        "data",
        [
            HEADER + b"a,1,0,0,0.5",
            HEADER + b"a,1,0,0,0.5\n",
            HEADER.replace(b"\n", b"\r\n") + b"a,1,0,0,0.5\r\n",
            b"\xef\xbb\xbf" + HEADER + b"a,1,0,0,0.5\n",
            HEADER + b'"a, ""b""",1,0,0,"0.5"\n',
            HEADER + "ä→\u2028,1,0,0,5e-1\n".encode(),
        ],
    )
    def test_ordinary_ways_to_write_it_are_read(self, data: bytes, tmp_path: Path) -> None:
        assert datasets.accept(
            [data], CSV + "; charset=utf-8", SCHEMA, uploading.place(tmp_path / "set")
        ) == datasets.Accepted(1, 1, 1)

    @pytest.mark.parametrize(
        ("body", "problem", "reason"),
        [
            (b"a,1,0,0,0.5\n\nb,1,0,0,0.5\n", (2, "unit"), "missing"),
            (b"a,1,0,0,0.5\nb,1,0,0\n", (2, ""), "4 values"),
            (b"a,1,0,0,0.5\nb,1,0,0,1,2\n", (2, ""), "6 values"),
            (b'a,1,0,0,0.5\n"b\nc",1,0,0,1\n', (2, ""), "quoted"),
            (b'a,1,0,0,0.5\n"b,1,0,0,1\n', (2, ""), ""),
            (b"a,1,0,0,0.5\nb\0,1,0,0,1\n", (2, ""), "NUL"),
            (b"a,1,0,0,0.5\rb,1,0,0,1\n", (1, ""), "carriage return"),
            (b"a,1,0,0,0.5\nb\xff,1,0,0,1\n", (2, ""), "UTF-8"),
            (b"a,1,0,0,0.5\n" + b"b" * 2000 + b",1,0,0,1\n", (2, ""), "longer"),
            (b"a,1,0,0,0.5\n" + b"b" * 90000, (2, ""), "longer"),
            (b"a,1,0,0,0.5\nb,1,0", (2, ""), "3 values"),
            (b"a,1,0,0,\n", (1, "reward"), "missing"),
            (b"a,one,0,0,1\n", (1, "step"), "whole"),
            (b"a,1,1.0,0,1\n", (1, "state"), "whole"),
            (b"a,1,0x1,0,1\n", (1, "state"), "whole"),
            (b"a,1,0X1,0,1\n", (1, "state"), "whole"),
            (b"a,1, 1,0,1\n", (1, "state"), "whole"),
            (b"a,1,99999999999999999999,0,1\n", (1, "state"), "whole"),
            (b"a,1,0,0,x\n", (1, "reward"), "finite"),
            (b"a,1,0,0,1e999\n", (1, "reward"), "finite"),
            (b"a,1,0,0,-inf\n", (1, "reward"), "finite"),
        ],
    )
    def test_each_fault_is_named(self, body: bytes, problem: tuple[int, str], reason: str, tmp_path: Path) -> None:
        limits = Limits(line=1000)
        assert refused(HEADER + body, CSV, tmp_path, limits=limits)[0] == problem
        assert reason in reasons(HEADER + body, CSV, tmp_path, limits)[0]

    @pytest.mark.parametrize("data", [b"", HEADER, HEADER[:-1], b"\n", HEADER.decode().encode("utf-16")])
    def test_nothing_or_another_encoding_is_a_problem_of_the_file(self, data: bytes, tmp_path: Path) -> None:
        assert refused(data, CSV, tmp_path)[0][0] == 0

    def test_the_first_twenty_problems_are_enough(self, tmp_path: Path) -> None:
        body = b"".join(b"u%d,1,9,9,0\n" % unit for unit in range(100))
        problems = refused(HEADER + body, CSV, tmp_path)
        assert sorted(problems) == sorted((unit, name) for unit in range(1, 11) for name in ("action", "state"))

    def test_a_reason_never_holds_a_value(self, tmp_path: Path) -> None:
        body = b"canary,1,canary,canary,canary\ncanary,7,777,777,777\n"
        assert not any("canary" in reason or "777" in reason for reason in reasons(HEADER + body, CSV, tmp_path))


class TestNdjson:
    @pytest.mark.parametrize(
        "line",
        [
            b"null", b"7", b"[]", b"[" * 5000, b'{"unit": ' + b"[" * 5000, b"{", b"", b"{}{}", b'"{"', b"nul", b"\xff",
            b'{"unit": "b", "unit": "c"}', b'{"step": ' + b"1" * 5000 + b"}",
        ],
    )  # fmt: skip
    def test_a_line_that_is_no_object_is_named(self, line: bytes, tmp_path: Path) -> None:
        data = uploading.as_ndjson([row()]) + line + b"\n"
        assert refused(data, NDJSON, tmp_path) == [(2, "")]

    @pytest.mark.parametrize(
        ("changed", "column"),
        [
            ({"unit": 5}, "unit"), ({"unit": None}, "unit"), ({"unit": "\ud800"}, "unit"), ({"unit": ["b"]}, "unit"),
            ({"step": "1"}, "step"), ({"step": True}, "step"), ({"step": 10**30}, "step"), ({"state": 1.0}, "state"),
            ({"reward": "0"}, "reward"), ({"reward": 10**400}, "reward"), ({"reward": {}}, "reward"),
            ({"terminated": "true"}, "terminated"), ({"terminated": 1.0}, "terminated"),
            ({"trajectory": 1.5}, "trajectory"),
            ({"extra": 1}, "extra"), ({"next_state": False}, "next_state"),
        ],
    )  # fmt: skip
    def test_a_value_of_another_type_is_named(self, changed: Row, column: str, tmp_path: Path) -> None:
        assert refused(uploading.as_ndjson([row(), row("b") | changed]), NDJSON, tmp_path) == [(2, column)]

    def test_a_missing_name_is_a_missing_value(self, tmp_path: Path) -> None:
        assert refused(b'{"unit": "a", "step": 1, "state": 0, "action": 0}\n', NDJSON, tmp_path) == [(1, "reward")]

    def test_flags_and_labels_may_be_mixed(self, tmp_path: Path) -> None:
        rows = [row("{[", trajectory=1, terminated=1), row("{[", trajectory="2", terminated=False), row("c")]
        assert sorted(endings(rows, NDJSON, tmp_path), key=str) == sorted(
            [(ENDED, None), (CUT, None), (ENDED, None)], key=str
        )


class TestParquet:
    def table(self, **columns: Any) -> bytes:
        sink = io.BytesIO()
        ordinary = {"unit": ["a"], "step": [1], "state": [0], "action": [0], "reward": [0.5]}
        pyarrow.parquet.write_table(pa.table(ordinary | columns), sink)
        return sink.getvalue()

    @pytest.mark.parametrize(
        ("column", "values"),
        [
            ("unit", [1]), ("unit", pa.array([b"a"])), ("step", ["1"]), ("step", [1.0]), ("state", [[0]]),
            ("state", [None]), ("action", [True]), ("reward", ["0"]), ("terminated", ["true"]), ("trajectory", [0.5]),
        ],
    )  # fmt: skip
    def test_a_column_of_another_type_is_named(self, column: str, values: Any, tmp_path: Path) -> None:
        assert refused(self.table(**{column: values}), PARQUET, tmp_path) == [(0, column)]

    @pytest.mark.parametrize(
        "columns",
        [
            {"unit": pa.array(["a"], pa.large_string())},
            {"unit": pa.array(["a"]).dictionary_encode()},
            {"step": pa.array([1], pa.uint8()), "reward": pa.array([1], pa.int16())},
            {"reward": pa.array([0.5], pa.float32()), "trajectory": [7], "terminated": [True]},
            {"next_state": pa.nulls(1), "terminated": pa.nulls(1), "trajectory": pa.nulls(1)},
        ],
    )
    def test_other_widths_of_a_type_are_read(self, columns: Any, tmp_path: Path) -> None:
        assert datasets.accept([self.table(**columns)], PARQUET, SCHEMA, uploading.place(tmp_path / "set")).units == 1

    def test_a_number_too_large_for_its_type_is_named(self, tmp_path: Path) -> None:
        assert refused(self.table(state=pa.array([2**64 - 1], pa.uint64())), PARQUET, tmp_path) == [(1, "state")]

    @pytest.mark.parametrize("cut", [0, 3, 4, 8, 100, -1, -9])
    def test_a_truncated_file_is_refused(self, cut: int, tmp_path: Path) -> None:
        assert refused(self.table()[:cut], PARQUET, tmp_path)[0][1] == ""

    def test_names_that_are_not_utf8_are_refused(self, tmp_path: Path) -> None:
        broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"], pa.binary()).buffers())
        assert refused(self.table(unit=broken), PARQUET, tmp_path) == [(1, "")]

    def test_a_small_file_that_unpacks_to_a_large_group_is_refused(self, tmp_path: Path) -> None:
        size = 200_000
        rewards = {"reward": np.zeros(size), "state": np.zeros(size, int), "action": np.zeros(size, int)}
        table = pa.table({"unit": ["a"] * size, "step": np.ones(size, int)} | rewards)
        sink = io.BytesIO()
        pyarrow.parquet.write_table(table, sink, use_dictionary=False, compression="zstd")
        with pytest.raises(errors.UploadTooLarge):
            datasets.accept([sink.getvalue()], PARQUET, SCHEMA, uploading.place(tmp_path / "set"), Limits(group=10**6))
        assert list(tmp_path.iterdir()) == []

    def test_texts_that_repeat_what_stood_before_are_refused(self, tmp_path: Path) -> None:
        encoding = {"unit": "DELTA_BYTE_ARRAY"}
        data = uploading.as_parquet([row("n" * 99)], use_dictionary=False, column_encoding=encoding)
        assert refused(data, PARQUET, tmp_path) == [(0, "unit")]

    def test_a_long_name_repeated_by_a_dictionary_is_not_written_out(self, tmp_path: Path) -> None:
        size, name = 100_000, "n" * 1_000_000  # 100 GB, in a file of a few kilobytes
        units = pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([name]))
        numbers = {key: np.zeros(size, int) for key in ("step", "state", "action", "reward")}
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({"unit": units} | numbers), sink, write_statistics=False)
        problems = refused(sink.getvalue(), PARQUET, tmp_path)
        assert (1, "unit") in problems


class TestLimits:
    @pytest.mark.parametrize("media_type", TYPES)
    @pytest.mark.parametrize("limits", [Limits(bytes=50), Limits(rows=2)])
    def test_more_than_is_allowed_is_refused(self, limits: Limits, media_type: str, tmp_path: Path) -> None:
        data = uploading.written([row(unit) for unit in "abc"], media_type)
        with pytest.raises(errors.UploadTooLarge):
            datasets.accept(uploading.pieces(data), media_type, SCHEMA, uploading.place(tmp_path / "set"), limits)
        assert list(tmp_path.iterdir()) == []

    def test_an_endless_line_is_refused_before_it_ends(self, tmp_path: Path) -> None:
        def endless() -> Any:
            yield HEADER
            while True:
                yield b"a" * 1000

        with pytest.raises(errors.InvalidUpload):
            datasets.accept(endless(), CSV, SCHEMA, uploading.place(tmp_path / "set"), Limits(line=2000, block=4000))


SIGNS = [b"a", b"1", b",", b'"', b"\n", b"\r", b"{", b"}", b":", b"\0"]


def hungry(*_: object) -> None:
    raise MemoryError


def mutated(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for place, byte in changes:
        changed[place % len(changed)] = byte
    return bytes(changed)


class TestGarbage:
    @pytest.fixture(autouse=True)
    def _with_rehearsal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(first_reading, "survived", FIRST)

    def test_a_file_that_crashes_arrow_crashes_another_process(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = uploading.as_parquet([row()])
        assert datasets.accept([data], PARQUET, SCHEMA, uploading.place(tmp_path / "set")).units == 1
        datasets.retire(uploading.place(tmp_path / "set"))
        monkeypatch.setattr(first_reading, "__file__", str(tmp_path / "crash.py"))
        (tmp_path / "crash.py").write_text("import os; os.abort()")
        (tmp_path / "sets").mkdir()
        assert refused(data, PARQUET, tmp_path / "sets") == [(0, "")]

    def test_too_much_memory_is_a_refusal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_bytes(uploading.as_parquet([row()]))
        limits: list[tuple[int, int]] = []
        monkeypatch.setattr(resource, "setrlimit", lambda which, to: limits.append(to))
        monkeypatch.setattr(first_reading, "_read", hungry)
        monkeypatch.setattr(first_reading, "_PR_SET_PDEATHSIG", -1)  # this process is not to die with its parent
        assert first_reading._main(None, str(tmp_path / "file"), "1", "1", "1", str(os.getppid())) == 1
        assert limits == [(0, 0), (4 * 2**30, 4 * 2**30)]

    @settings(deadline=None, max_examples=50)
    @given(
        data=st.binary(max_size=300) | st.lists(st.sampled_from(SIGNS)).map(b"".join),
        media_type=st.sampled_from(TYPES),
        header=st.booleans(),
    )  # fmt: skip
    def test_it_is_always_refused_as_a_refusal(
        self, data: bytes, media_type: str, header: bool, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("garbage")
        with pytest.raises(errors.Refusal):
            datasets.accept([HEADER + data if header else data], media_type, SCHEMA, uploading.place(folder / "set"))
        assert list(folder.iterdir()) == []

    @settings(deadline=None, max_examples=50)
    @given(
        media_type=st.sampled_from(TYPES),
        changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=5),
    )
    def test_a_damaged_upload_is_read_or_refused(
        self, media_type: str, changes: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("damaged")
        data = mutated(uploading.written([row(u, s) for u in "abc" for s in (1, 2)], media_type), changes)
        try:
            datasets.accept([data], media_type, SCHEMA, uploading.place(folder / "set"))
        except errors.Refusal:
            assert list(folder.iterdir()) == []

    def test_json_keys_of_any_kind_are_named_safely(self, tmp_path: Path) -> None:
        line = json.dumps(row() | {"\ud800": 1}).encode() + b"\n"
        assert refused(line, NDJSON, tmp_path) == [(1, "?")]
