"""Rows from whatever people keep them in: the same rows give the same upload, and what cannot be meant is refused."""

import io
import json
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import datasets, errors
from discretion.client import Outcome, frames, sources
from discretion.learning import documents
from tests import uploading

DISCRETE = {
    "horizon": 4,
    "states": {"kind": "discrete", "count": 5},
    "actions": {"count": 6},
    "reward": {"low": 0, "high": 1},
}
VECTOR = DISCRETE | {"states": {"kind": "vector", "columns": ["age", "dose"], "bounds": [[0, 100], [-1, 1]]}}
OWN = {"unit": "stay", "step": "hour", "state": "cluster", "action": "choice", "reward": "gain"}

DEEP = b'{"unit":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"  # would end the process that reads it


def table(lengths: list[int], seed: int = 0, first: int = 1) -> pa.Table:
    """Stays of these lengths under names of their own, with a column that nobody asked for."""
    draw, rows = np.random.default_rng(seed), sum(lengths)
    return pa.table(
        {
            "stay": pa.array(np.repeat(np.arange(len(lengths)), lengths)).cast(pa.string()),
            "hour": np.concatenate([np.arange(first, first + length) for length in lengths]),
            "cluster": draw.integers(5, size=rows),
            "choice": draw.integers(6, size=rows),
            "gain": draw.random(rows).round(3),
            "secret": pa.array(["must not be sent"] * rows),
        }
    )


def sent(source: Any, columns: Any = None, dataset: Any = DISCRETE, **more: Any) -> pa.Table:
    """What arrives, read as Parquet."""
    body = frames.parquet(frames.converted(sources.of(source), dataset, columns, **more))
    return pyarrow.parquet.read_table(io.BytesIO(b"".join(body)))


def written(rows: pa.Table, ending: str, folder: Any) -> Any:
    path = folder / f"rows{ending}"
    if ending == ".csv":
        pyarrow.csv.write_csv(rows, path)
    elif ending == ".ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    else:
        pyarrow.parquet.write_table(rows, path)
    return path


class Exchanged:
    """A dataframe that knows the interchange protocol and nothing else."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __dataframe__(self, *_: Any, **__: Any) -> Any:
        return self._rows.__dataframe__()


KINDS = {
    "arrow": lambda rows: rows,
    "reader": lambda rows: rows.to_reader(),
    "pandas": lambda rows: rows.to_pandas(),
    "pandas index": lambda rows: rows.to_pandas().set_index("stay"),
    "polars": polars.from_arrow,
    "exchanged": Exchanged,
    "arrays": lambda rows: {name: rows.column(name).to_numpy() for name in rows.column_names},
}
LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=30)


class TestEveryKind:
    @given(lengths=LENGTHS, seed=st.integers(0, 99), kind=st.sampled_from(sorted(KINDS)))
    @settings(deadline=None)
    def test_gives_the_same_rows_and_nothing_else(self, lengths, seed, kind):
        rows = table(lengths, seed)
        found = sent(KINDS[kind](rows), OWN)
        assert found.column_names == ["unit", "step", "state", "action", "reward"]
        assert found.to_pylist() == sent(rows, OWN).to_pylist()
        assert found.column("reward").to_pylist() == rows.column("gain").to_pylist()

    @pytest.mark.parametrize("ending", [".csv", ".ndjson", ".parquet"])
    def test_files_do_too(self, ending, tmp_path):
        rows = table([3, 1, 4])
        assert sent(written(rows, ending, tmp_path), OWN).to_pylist() == sent(rows, OWN).to_pylist()
        assert sent(str(tmp_path / f"rows{ending}"), OWN).num_rows == 8

    @pytest.mark.parametrize("kind", sorted(KINDS))
    def test_over_many_slices(self, kind, monkeypatch):
        monkeypatch.setattr(sources, "ROWS", 7)
        rows = table([4, 3, 2, 1] * 10)
        found = sent(KINDS[kind](rows), OWN)
        assert found.column("unit").to_pylist() == rows.column("stay").to_pylist()

    def test_what_is_sent_is_what_the_service_stores(self, tmp_path):
        rows = sent(table([4, 2, 3, 4]), OWN)
        schema, _ = documents.schema_of(DISCRETE)
        body = frames.parquet(frames.converted(sources.of(rows), DISCRETE))
        datasets.accept(body, uploading.PARQUET, schema, uploading.place(tmp_path / "set"))
        records = [
            record
            for unit in uploading.stored(tmp_path / "set", schema).values()
            for stay in unit
            for record in stay[0]
        ]
        names = ("state", "action", "reward")
        assert sorted(records) == sorted(tuple(row[name] for name in names) for row in rows.to_pylist())

    def test_categories_and_numbers_with_gaps_are_read_as_what_they_are(self):
        frame = table([2, 2]).to_pandas()
        frame["stay"] = frame["stay"].astype("category")
        frame["cluster"] = [0.0, None, 2.0, 3.0]
        found = sent(frame, OWN)
        assert found.column("unit").to_pylist() == ["0", "0", "1", "1"]
        assert found.column("state").to_pylist() == [0, None, 2, 3]

    @pytest.mark.parametrize("sign", [";", "\t"])
    def test_whatever_stands_between_the_columns_of_a_file(self, sign, tmp_path):
        rows = table([2, 3]).drop_columns(["secret"])
        lines = [rows.column_names, *([str(value) for value in row.values()] for row in rows.to_pylist())]
        (tmp_path / "rows.csv").write_text("".join(sign.join(line) + "\n" for line in lines))
        assert sent(tmp_path / "rows.csv", OWN).equals(sent(rows, OWN))

    def test_names_keep_their_zeros(self, tmp_path):
        (tmp_path / "a.csv").write_text("unit,step,state,action,reward\n007,1,0,0,1\n")
        assert sent(tmp_path / "a.csv").column("unit").to_pylist() == ["007"]


class TestStays:
    @given(lengths=LENGTHS, first=st.integers(0, 1), slice_rows=st.integers(1, 9))
    @settings(deadline=None)
    def test_without_an_id_begin_where_the_step_falls_back(self, lengths, first, slice_rows):
        rows = table(lengths, first=first).drop_columns("stay")
        columns = {name: own for name, own in OWN.items() if name != "unit"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "ROWS", slice_rows)
            found = sent(rows, columns)
        assert found.column("unit").to_pylist() == [
            str(number) for number, length in enumerate(lengths, 1) for _ in range(length)
        ]
        assert found.column("step").to_pylist() == [step for length in lengths for step in range(1, length + 1)]

    def test_an_id_can_be_left_out_by_name(self):
        rows = table([2, 2]).rename_columns(["unit", "step", "state", "action", "reward", "secret"])
        assert set(sent(rows, {"unit": None}).column("unit").to_pylist()) == {"1", "2"}

    def test_rows_out_of_order_are_refused_by_row(self):
        rows = table([4]).set_column(1, "hour", pa.array([1, 2, 3, 2]))
        with pytest.raises(errors.InvalidSource, match="Row 4: 'hour', for 'unit', falls"):
            sent(rows, OWN | {"unit": None})

    def test_steps_that_begin_elsewhere_are_refused(self):
        with pytest.raises(errors.InvalidSource, match=r"Row 1: 'hour', for 'step', .*0 or 1"):
            sent(table([3], first=2), OWN)


class TestDoses:
    def test_several_columns_are_one_action(self):
        rows = (
            table([3, 3]).append_column("iv", pa.array([0, 0, 1, 1, 2, 2])).append_column("vaso", pa.array([0, 1] * 3))
        )
        found = sent(rows, OWN | {"action": ("iv", "vaso")}, levels=(3, 2))
        assert found.column("action").to_pylist() == [0, 1, 2, 3, 4, 5]

    def test_a_level_that_is_none_is_refused_and_never_read_as_another_action(self):
        rows = table([2]).append_column("iv", pa.array([0, 0])).append_column("vaso", pa.array([1, 2]))
        with pytest.raises(errors.InvalidSource, match=r"Row 2: 'vaso', for 'action', .* 2 levels, .*from 0 to 1"):
            sent(rows, OWN | {"action": ("iv", "vaso")}, levels=(3, 2))

    @pytest.mark.parametrize(
        ("levels", "words"), [(None, "how many levels"), ((3,), "how many"), ((5, 5), "25 actions")]
    )
    def test_their_numbers_of_levels_must_fit(self, levels, words):
        with pytest.raises(errors.InvalidSource, match=words):
            sent(table([2]), OWN | {"action": ("choice", "cluster")}, levels=levels)


class TestLabels:
    LABELLED = DISCRETE | {"actions": {"count": 6, "labels": ["wait", "2", "fluids", "5 mg", "more", "most"]}}

    def test_what_an_action_is_called_stands_for_its_number(self):
        rows = table([4]).set_column(3, "choice", pa.array(["fluids", " wait ", "5 mg", "5"]))
        assert sent(rows, OWN, self.LABELLED).column("action").to_pylist() == [2, 0, 3, 5]

    def test_a_whole_number_is_that_number_even_if_an_action_is_called_so(self):
        rows = table([2]).set_column(3, "choice", pa.array(["2", "1"]))
        assert sent(rows, OWN, self.LABELLED).column("action").to_pylist() == [2, 1]

    def test_gaps_stay_gaps(self):
        rows = table([2]).set_column(3, "choice", pa.array(["fluids", None]))
        assert sent(rows, OWN, self.LABELLED).column("action").to_pylist() == [2, None]

    @pytest.mark.parametrize(("dataset", "words"), [(LABELLED, "wait, 2, fluids"), (DISCRETE, "among its labels")])
    def test_what_none_is_called_is_refused_with_those_there_are(self, dataset, words):
        rows = table([2]).set_column(3, "choice", pa.array(["1", "surgery"]))
        with pytest.raises(errors.InvalidSource, match=rf"Row 2: 'choice', for 'action', is not .*{words}"):
            sent(rows, OWN, dataset)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("ends", "good"),
        [([0, 0, 1, 1], 0), ([False, False, True, True], False), (["home", "home", "died", "died"], "home")],
    )
    def test_the_good_end_earns_the_most_that_is_declared(self, ends, good):
        rows = table([2, 2]).append_column("ended", pa.array(ends))
        found = sent(rows, OWN_WITHOUT_REWARD, outcome=Outcome("ended", good))
        assert found.column("outcome").to_pylist() == [1.0, 1.0, 0.0, 0.0]
        assert "reward" not in found.column_names

    def test_both_bounds_of_the_schema_are_kept(self):
        dataset = DISCRETE | {"reward": {"low": -5, "high": 9}, "return": {"low": -1, "high": 10}}
        rows = table([1, 1]).append_column("died", pa.array([0, 1]))
        found = sent(rows, OWN_WITHOUT_REWARD, dataset, outcome=Outcome("died", good=0))
        assert found.column("outcome").to_pylist() == [9.0, -1.0]

    def test_in_a_file_of_text_too_and_where_it_is_said_once(self, tmp_path):
        (tmp_path / "a.csv").write_text("unit,step,state,action,died\na,1,0,0,\na,2,0,0,1\nb,1,0,0,0\n")
        found = sent(tmp_path / "a.csv", outcome=Outcome("died", good=0))
        assert found.column("outcome").to_pylist() == [None, 0.0, 1.0]

    @pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
    def test_flags_in_a_file_of_text_are_read_however_they_are_written(self, tmp_path, yes, no):
        (tmp_path / "a.csv").write_text(f"unit,step,state,action,died\na,1,0,0,{yes}\nb,1,0,0,{no}\n")
        found = sent(tmp_path / "a.csv", outcome=Outcome("died", good=False))
        assert found.column("outcome").to_pylist() == [0.0, 1.0]

    @pytest.mark.parametrize(
        ("ends", "good", "words"),
        [
            ([0, 1, 2], 0, "Row 3: .* third"),
            ([0, 1, 1], "home", "as it stands"),
            (["Home", "died", "died"], "home", "no row so far has 'home'; give the good end as it is written"),
        ],
    )
    def test_a_third_end_or_one_that_cannot_be_is_refused(self, ends, good, words):
        rows = table([1, 1, 1]).append_column("ended", pa.array(ends))
        with pytest.raises(errors.InvalidSource, match=words):
            sent(rows, OWN_WITHOUT_REWARD, outcome=Outcome("ended", good))

    def test_with_rewards_beside_it_is_refused(self):
        with pytest.raises(errors.InvalidSource, match="not both"):
            sent(table([1]), OWN, outcome=Outcome("choice", good=0))


OWN_WITHOUT_REWARD = {name: own for name, own in OWN.items() if name != "reward"}


class TestVectors:
    ROWS = table([2, 1]).append_column("years", pa.array([50, 51, 7])).append_column("mg", pa.array([0.5, None, -1.0]))

    @pytest.mark.parametrize("named", [{"age": "years", "dose": "mg"}, {"state": ("years", "mg")}])
    def test_columns_are_named_one_by_one_or_in_their_order(self, named):
        columns = {name: own for name, own in OWN.items() if name != "state"} | named
        found = sent(self.ROWS, columns, VECTOR)
        assert found.select(["age", "dose"]).to_pylist()[0] == {"age": 50.0, "dose": 0.5}
        assert found.column("dose").to_pylist() == [0.5, None, -1.0]

    def test_rows_of_an_array_are_states(self):
        arrays = {"unit": ["a", "a"], "step": [1, 2], "action": [0, 1], "reward": [0.0, 1.0]}
        found = sent(arrays | {"measured": np.array([[50, 0.5], [51, np.nan]])}, {"state": "measured"}, VECTOR)
        assert found.select(["age", "dose"]).to_pylist() == [{"age": 50.0, "dose": 0.5}, {"age": 51.0, "dose": None}]

    def test_too_few_columns_are_refused(self):
        with pytest.raises(errors.InvalidSource, match="2 columns, for age, dose"):
            sent(self.ROWS, OWN | {"state": ("years",)}, VECTOR)
        with pytest.raises(errors.InvalidSource, match="Say which column holds 'dose'"):
            sent(self.ROWS, {name: own for name, own in OWN.items() if name != "state"} | {"age": "years"}, VECTOR)
        with pytest.raises(errors.InvalidSource, match="as long as a state"):
            sent({"unit": ["a"], "step": [1], "action": [0], "reward": [0.0], "state": np.ones((1, 1))}, None, VECTOR)


class TestRefused:
    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({}, "Say which column holds 'step'"),
            (OWN | {"heart": "rate"}, "'heart' is no column of this dataset's uploads; they are unit, step"),
            (OWN | {"state": "kluster"}, "no column 'kluster'; it has stay, hour"),
            (OWN_WITHOUT_REWARD, "Say which column holds 'reward'.*or give outcome="),
            (OWN | {"state": ("cluster", "choice")}, "Name one column for 'state'"),
            (OWN | {"state": "secret"}, "Row 1: 'secret', for 'state', is not a whole number"),
            (OWN | {"state": "gain"}, "Row 1: 'gain', for 'state', is not a whole number"),
            (OWN | {"outcome": "gain"}, "rewards and outcomes"),
        ],
    )
    def test_says_what_to_do(self, columns, words):
        with pytest.raises(errors.InvalidSource, match=words):
            sent(table([3]), columns)

    def test_a_type_that_holds_no_numbers_is_named(self):
        rows = table([1]).append_column("when", pa.array([pandas.Timestamp("2020-01-01")]))
        with pytest.raises(errors.InvalidSource, match="'reward' must be a number, and 'when' holds timestamp"):
            sent(rows, OWN | {"reward": "when"})

    @pytest.mark.parametrize("source", [object(), 7, polars.LazyFrame({"a": [1]}), {"a": 3}, {"a": [1], "b": [1, 2]}])
    def test_what_holds_no_rows(self, source):
        with pytest.raises(errors.InvalidSource):
            sent(source, OWN)

    def test_a_table_without_rows(self):
        with pytest.raises(errors.InvalidSource, match="no rows"):
            sent(table([1]).slice(0, 0), OWN)

    @pytest.mark.parametrize(
        ("name", "content"),
        [("a.csv", b'a,"b\n\xff'), ("a.ndjson", b"null\n"), ("deep.ndjson", DEEP), ("a.parquet", b"PAR1")],
    )
    def test_a_damaged_file(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(errors.InvalidSource, match=name):
            sent(tmp_path / name, OWN)
        with pytest.raises(errors.InvalidSource, match="Cannot read"):
            sent(tmp_path / f"other-{name}", OWN)

    @pytest.mark.parametrize("name", ["rows.CSV", "rows.jsonl"])
    def test_but_not_a_file_whose_ending_is_written_otherwise(self, tmp_path, name):
        csv = "unit,step,state,action,reward\na,1,0,0,1\n"
        json = '{"unit": "a", "step": 1, "state": 0, "action": 0, "reward": 1}\n'
        (tmp_path / name).write_text(csv if name.endswith("CSV") else json)
        assert sent(tmp_path / name).num_rows == 1

    def test_a_file_that_is_damaged_further_down(self, tmp_path):
        pyarrow.parquet.write_table(table([1] * 5000), tmp_path / "a.parquet")
        content = bytearray((tmp_path / "a.parquet").read_bytes())
        content[4:2000] = b"\xee" * 1996  # the footer, and so the names of the columns, can still be read
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(errors.InvalidSource, match=r"a\.parquet cannot be read"):
            sent(tmp_path / "a.parquet", OWN)
