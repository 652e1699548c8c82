"""The benchmarks: falls and missed goals are named, a part can be measured again, made-up stays are stored as uploads
are."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import __main__ as bench
from benchmarks import deployment, goals, growth, history, scale, stays
from benchmarks.rows import in_turns, peak_megabytes, quickest, quickest_and_largest, row

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

    def test_a_slow_decline_does_not_become_normal(self) -> None:
        """Each step is a twenty-fifth: a run is never more than an eighth above the middle of the five before it."""
        steps = [1.04**step for step in range(20)]
        said = [bool(self.after(steps[:count], steps[count])) for count in range(20)]
        assert said == [False] * 11 + [True] * 9  # from when the middle of five is 30 % above the first such middle

    def test_nor_does_one_of_what_should_be_large(self) -> None:
        steps = [0.96**step for step in range(20)]
        assert self.after(steps[:19], steps[19], "ratio ≥ 0.1")
        assert not self.after(steps[::-1], 1.0, "ratio ≥ 0.1")

    def test_a_decline_is_named_with_the_best_that_it_was(self) -> None:
        (sentence,) = self.after([1.0] * 5 + [1.25] * 5 + [1.4] * 4, 1.4)
        assert sentence == "work: 1.4 times peer in the last 5 runs, and 1 in its best 5"

    def test_one_lucky_run_long_ago_is_not_what_others_are_measured_by(self) -> None:
        assert not self.after([1.0, 0.2, 1.0, 1.0, 1.0, 1.0, 1.2], 1.2)

    def test_what_is_made_worse_on_purpose_begins_anew(self, tmp_path: Path) -> None:
        file = tmp_path / "history.jsonl"
        for ratio in [1.0] * 6:
            history.append([measured(ratio), measured(ratio, name="other")], file)
        with file.open("a") as lines:
            lines.write(json.dumps({"anew": {"work | peer": "the peer has learned something"}}) + "\n")
        rows = [measured(2.0), measured(2.0, name="other")]
        assert [sentence[:5] for sentence in history.fallen(rows, history.read(file))] == ["other"]

    def after(self, before: list[float], ratio: float, goal: str = "<= 3") -> list[str]:
        return history.fallen([measured(ratio, goal)], [{"work | peer": each} for each in before])

    def test_what_was_appended_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "history.jsonl"
        history.append([measured(1.5)], file)
        history.append([measured(2.0)], file)
        assert history.read(file) == [{"work | peer": 1.5}, {"work | peer": 2.0}]


class TestMissed:
    @pytest.mark.parametrize(
        ("goal", "met", "missed"),
        [
            ("<= 3", 3.0, 3.1),
            ("ratio ≤ 2", 2.0, 2.1),
            ("ratio ≥ 0.4", 0.4, 0.39),
            ("ratio > 1", 1.1, 1.0),
            ("value < 600", 599.0, 600.0),
            ("value <= 2048", 2048.0, 2049.0),
        ],
    )
    def test_a_goal_is_judged_as_it_says(self, goal: str, met: float, missed: float) -> None:
        assert goals.missed([measured(met, goal)]) == []
        (sentence,) = goals.missed([measured(missed, goal)])
        assert sentence.startswith("work: ")
        assert sentence.endswith(f", and its goal is {goal}")

    def test_what_it_names_is_judged_and_not_the_other(self) -> None:
        slow = row("work", "MB", 100.0, "peer", 1.0, "value < 600")
        assert goals.missed([slow]) == []
        assert goals.missed([slow | {"goal": "< 6"}]) == ["work: 100 times peer, and its goal is < 6"]
        assert goals.missed([slow | {"goal": "value < 60"}]) == ["work: 100 MB, and its goal is value < 60"]

    def test_what_is_there_for_scale_misses_nothing(self) -> None:
        assert goals.missed([measured(9.0, "none: for scale")]) == []

    @pytest.mark.parametrize("goal", ["about 3", "nonesuch", "seconds < 3", "<= 3 or so", ""])
    def test_a_goal_that_nobody_can_judge_is_not_met(self, goal: str) -> None:
        with pytest.raises(ValueError, match="nobody can judge"):
            goals.missed([measured(1.0, goal)])

    def test_every_goal_that_is_stored_can_be_judged(self) -> None:
        goals.missed(json.loads(bench.RESULTS.read_text(encoding="utf-8")))


class TestJudge:
    def test_it_is_zero_if_all_is_well(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert bench.judge([measured(1.0)], [{"work | peer": 1.0}], [measured(1.0)]) == 0
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize(("ratio", "said"), [(2.0, "FELL work"), (3.5, "MISSED work")])
    def test_a_fall_and_a_goal_that_is_missed_are_said_and_fail(
        self, ratio: float, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert bench.judge([measured(ratio)], [{"work | peer": 1.0}], []) == 1
        assert said in capsys.readouterr().out

    def test_a_row_that_is_no_longer_measured_is_named_and_fails(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert bench.judge([measured(1.0, name="renamed")], [], [measured(1.0), measured(1.0, name="renamed")]) == 1
        assert capsys.readouterr().out == "MISSING work, beside peer\n"

    @pytest.mark.parametrize("name", deployment.OF_THE_IMAGE)
    def test_one_that_needs_an_engine_for_containers_is_named_only(
        self, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert bench.judge([measured(1.0)], [], [measured(1.0), measured(1.0, name=name)]) == 0
        assert capsys.readouterr().out == f"MISSING {name}, beside peer\n"
        assert name in {row["name"] for row in json.loads(bench.RESULTS.read_text(encoding="utf-8"))}


class TestGrowth:
    @pytest.mark.parametrize(
        ("seconds", "exponent"), [((1, 10, 100), 1.0), ((1, 10, 1000), 2.0), ((1, 100, 1000), 1.5), ((5, 5, 5), 0.1)]
    )
    def test_the_last_decade_counts_if_it_is_steeper(self, seconds: tuple[int, ...], exponent: float) -> None:
        assert growth.exponent((3, 30, 300), seconds) == pytest.approx(exponent)


class TestRounds:
    def test_all_take_turns(self) -> None:
        said: list[str] = []
        found = in_turns({"peer": lambda: said.append("peer"), "ours": lambda: said.append("ours")}, rounds=2)
        assert said == ["peer", "ours"] * 2
        assert found == {"peer": [None] * 2, "ours": [None] * 2}

    def test_the_best_round_of_each_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter([0.0, 5.0, 10.0, 11.0, 20.0, 23.0, 30.0, 34.0])
        monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
        assert quickest({"peer": int, "ours": int}, rounds=2) == {"peer": 3.0, "ours": 1.0}

    def test_the_time_is_the_shortest_and_the_memory_the_most(self) -> None:
        assert quickest_and_largest([(3.0, 10.0), (1.0, 20.0), (2.0, 90.0)]) == (1.0, 90.0)


class TestCompleted:
    def test_what_only_an_engine_for_containers_can_measure_stays_and_nothing_else(self) -> None:
        image = [measured(float(index), name=name) for index, name in enumerate(deployment.OF_THE_IMAGE)]
        stored = [measured(1.0, name="gone"), *image, measured(1.0, name="work")]
        again = measured(7.0, name=deployment.OF_THE_IMAGE[0])
        assert bench.completed(stored, [measured(2.0), again]) == [measured(2.0), again, *image[1:]]

    def test_so_does_what_is_stored_after_a_whole_run_that_names_it_as_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        results, image = tmp_path / "results.json", measured(1.0, name=deployment.OF_THE_IMAGE[0])
        results.write_text(json.dumps([image, measured(1.0)]))
        monkeypatch.setattr(bench, "RESULTS", results)
        monkeypatch.setattr(bench, "PARTS", {"work": lambda: [measured(2.0)]})
        monkeypatch.setattr(history, "read", list)
        monkeypatch.setattr(history, "append", lambda rows: None)
        monkeypatch.setattr(sys, "argv", ["benchmarks"])
        assert bench.main() == 0
        assert f"MISSING {image['name']}, beside peer" in capsys.readouterr().out
        assert json.loads(results.read_text()) == [measured(2.0), image]


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

    @pytest.mark.parametrize(("digits", "most"), [(1, 11), (None, 1000)])
    def test_rewards_have_as_many_digits_as_is_said(self, digits: int | None, most: int, tmp_path: Path) -> None:
        schema = Schema(4, Discrete(5), 3)
        stays.store(tmp_path, schema, 250, digits)
        (block,) = datasets.load(stays.place(tmp_path), schema).blocks
        assert len(np.unique(block.rewards)) == most

    @pytest.mark.parametrize("job", ["read", *scale.PARAMETERS])
    def test_every_job_runs_on_them(self, job: str, tmp_path: Path) -> None:
        regresses = job in (scale.POOLED, scale.BY_STEP, scale.REGRESSING)
        schema = scale.vector(2, 3, 4) if regresses else scale.discrete(6, 3, 4)
        stays.store(tmp_path, schema, 50)
        scale._job(job, tmp_path, schema)()

    def test_vector_states_are_read_as_well(self, tmp_path: Path) -> None:
        schema = scale.vector(2, 3, 4)
        stays.store(tmp_path, schema, 50)
        scale._job("read", tmp_path, schema)()


class TestProducts:
    def test_they_are_of_the_features_of_all_rows(self) -> None:
        scale._products(50, 3)()
        assert peak_megabytes() > 1
