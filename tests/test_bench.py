"""The benchmarks: a fall is named, a part can be measured again, and made-up stays are stored as uploads are."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as bench
from benchmarks import history, scale, stays
from benchmarks.rows import peak_megabytes, row

from discretion import datasets
from discretion.learning import sums
from discretion.learning.counts import VisitCounts
from discretion.learning.schemas import Discrete, Schema


def measured(ratio: float, goal: str = "<= 3", name: str = "work") -> dict[str, Any]:
    return row(name, "s", ratio, "peer", 1.0, goal)


class TestFallen:
    @pytest.mark.parametrize(("ratio", "falls"), [(1.0, False), (1.29, False), (1.31, True), (0.2, False)])
    def test_what_should_be_small_falls_by_growing(self, ratio: float, falls: bool) -> None:
        assert bool(history.fallen([measured(ratio)], [{"work | peer": 1.0}])) is falls

    @pytest.mark.parametrize(("ratio", "falls"), [(1.0, False), (0.71, False), (0.69, True), (5.0, False)])
    def test_what_should_be_large_falls_by_shrinking(self, ratio: float, falls: bool) -> None:
        assert bool(history.fallen([measured(ratio, "ratio ≥ 0.5")], [{"work | peer": 1.0}])) is falls

    def test_it_is_named_with_what_it_was(self) -> None:
        (sentence,) = history.fallen([measured(2.0)], [{"work | peer": 1.0}])
        assert sentence == "work: 2 times peer, and 1 before"

    def test_what_is_new_or_has_no_goal_does_not_fall(self) -> None:
        assert not history.fallen([measured(9.0)], [])
        assert not history.fallen([measured(9.0, "none: for scale")], [{"work | peer": 1.0}])

    def test_one_busy_run_before_hides_nothing(self) -> None:
        before = [{"work | peer": ratio} for ratio in (1.0, 1.0, 9.0)]
        assert history.fallen([measured(2.0)], before)

    def test_what_was_appended_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "history.jsonl"
        history.append([measured(1.5)], file)
        history.append([measured(2.0)], file)
        assert history.read(file) == [{"work | peer": 1.5}, {"work | peer": 2.0}]


class TestMerged:
    def test_a_part_that_was_measured_again_takes_its_old_place(self) -> None:
        stored = [measured(1.0, name=name) for name in ("a", "b", "c")]
        found = bench.merged(stored, [measured(7.0, name="b"), measured(8.0, name="d")])
        assert [(each["name"], each["ratio"]) for each in found] == [("a", 1.0), ("b", 7.0), ("c", 1.0), ("d", 8.0)]


class TestStays:
    def test_they_are_read_like_an_upload(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        schema = Schema(4, Discrete(5), 3)
        monkeypatch.setattr(datasets, "_BLOCK", 10 * datasets._largest(schema))
        stays.store(tmp_path, schema, 25)
        data = datasets.load(stays.place(tmp_path), schema)
        assert data.units == 25
        assert len(list(data.blocks)) == len(stays.files(tmp_path)) == 3
        (counts,) = sums.totals([VisitCounts(schema)], data)
        assert counts.sum(axis=(1, 2)).tolist() == [25] * 4

    @pytest.mark.parametrize("job", ["read", "DP-APVI", "DP-PAE", "pooled"])
    def test_every_job_runs_on_them(self, job: str, tmp_path: Path) -> None:
        schema = scale.vector(2) if job == "pooled" else scale.discrete(6, 3, 4)
        stays.store(tmp_path, schema, 50)
        scale._job(job, tmp_path, schema)()


class TestProducts:
    def test_they_are_of_the_features_of_all_rows(self) -> None:
        scale._products(50, 3)()
        assert peak_megabytes() > 1
