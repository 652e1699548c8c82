"""How far an upload is: said truly, and only where somebody looks."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from discretion.client import bars, sources

NAMES = ("unit", "step")


def shares(chunks: list[bytes], parts: int | None) -> list[float | None]:
    told: list[float | None] = []
    assert list(bars.counted(chunks, parts, told.append)) == chunks
    return told


def kept(rows: pa.Table, ending: str, folder: Path) -> Path:
    path = folder / f"rows{ending}"
    if ending == ".csv":
        pyarrow.csv.write_csv(rows, path)
    elif ending == ".parquet":
        pyarrow.parquet.write_table(rows, path, row_group_size=2000)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    return path


class TestCounted:
    def test_a_chunk_counts_once_the_next_is_asked_for(self):
        told: list[float | None] = []
        chunks = bars.counted([b"a", b"b"], 2, told.append)
        next(chunks)
        assert told == [0.0]
        next(chunks)
        assert told == [0.0, 0.5]

    def test_afterwards_nobody_knows_how_long_the_service_checks(self):
        assert shares([b"a", b"b", b"c"], 4) == [0.0, 0.25, 0.5, 0.75, None]

    def test_more_than_was_expected_is_not_more_than_all(self):
        assert shares([b"a", b"b"], 1) == [0.0, 1.0, 1.0, None]
        assert shares([b""], 0) == [0.0, 1.0, None]

    def test_of_an_unknown_number_no_share_is_made_up(self):
        assert shares([b"a", b"b"], None) == [None, None]


class TestParts:
    @pytest.mark.parametrize("ending", [None, ".csv", ".ndjson", ".parquet"])
    def test_are_as_many_as_are_sent(self, ending, tmp_path, monkeypatch):
        monkeypatch.setattr(sources, "_BLOCK", 2**13)
        monkeypatch.setattr(sources, "ROWS", 1000)
        rows = pa.table({"unit": np.arange(5000), "step": np.ones(5000, np.int64)})
        source = sources.of(rows if ending is None else kept(rows, ending, tmp_path))
        assert source.parts is not None
        assert abs(source.parts - len(list(source.slices(NAMES)))) <= 1
        assert source.parts > 2

    def test_of_a_stream_are_not_known(self):
        assert sources.of(pa.RecordBatchReader.from_batches(pa.schema([]), [])).parts is None


class TestBar:
    @pytest.mark.parametrize("wanted", [True, False])
    def test_says_nothing_where_nothing_can_move(self, wanted, capsys):
        with bars.bar("upload", wanted) as show:
            for done in (None, 0.0, 0.5, None):
                show(done)
        assert capsys.readouterr() == ("", "")

    def test_is_drawn_for_who_looks_unless_it_is_not_wanted(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")  # which makes a terminal of anything
        monkeypatch.setenv("TERM", "xterm")
        with bars.bar("upload", wanted=False) as show:
            show(0.5)
        assert capsys.readouterr() == ("", "")
        with bars.bar("upload") as show:
            show(0.5)
        out, drawn = capsys.readouterr()
        assert out == ""
        assert "upload" in drawn
        assert "50%" in drawn
