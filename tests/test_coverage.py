"""The evidence about intervals: its halves share nobody, its best policy is the best, and its verdict can fail."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.utility import coverage, problems, windows_vector

from discretion.learning import judgements

FOUND = judgements.Evaluation(0.5, 0.4, 0.6, 0.3, 0.2, 0.4, 0.9)


def judged(policy: str, truth: float) -> coverage.Judged:
    return coverage.Judged(policy, FOUND, truth, 0.35, 1.0)


class TestHalves:
    def test_they_are_the_two_parts_of_one_dataset(self) -> None:
        problem = problems.grid()
        whole = problem.sample(20, 1000)
        blocks = [block for half in coverage.halves(problem, 20, 1000) for block in half.blocks]
        assert [len(block.units) for block in blocks] == [10, 10]
        for name in ("states", "actions", "rewards"):
            assert (np.concatenate([getattr(block, name) for block in blocks], axis=1) == getattr(whole, name)).all()


class TestBest:
    @pytest.mark.parametrize("make", [problems.grid, problems.random_mdp, problems.windows])
    def test_no_policy_is_worth_more(self, make: type) -> None:
        problem = make(1000)
        assert problem.value(coverage.best(problem)) == pytest.approx(problem.best)


class TestSummary:
    cell = coverage.Cell("clinic", problems.grid, 100, Fraction(1), 2, ("auto", "best"))

    def test_a_truth_outside_the_interval_is_counted_as_missed(self) -> None:
        auto, best = coverage.summary(
            self.cell, [judged("auto", 0.41), judged("auto", 0.61), judged("best", 0.5), judged("best", 0.6)]
        )
        assert (auto["held"], auto["runs"]) == (1, 2)
        assert (best["held"], best["runs"]) == (2, 2)
        assert auto["half_width"] == 0.1
        assert auto["error"] == pytest.approx(-0.01)
        assert best["behaviour_held"] == 2

    def test_a_small_run_judges_every_policy(self) -> None:
        cell = replace(self.cell, make=problems.random_mdp, size=200, runs=1, policies=coverage.POLICIES)
        rows = coverage.summary(cell, list(coverage.measured(cell, 1000)))
        assert [row["policy"] for row in rows] == list(coverage.POLICIES)
        assert all(0 <= row["supported_share"] <= 1 for row in rows)


class TestReceived:
    @pytest.mark.parametrize("make", [problems.windows, lambda _: windows_vector.UNKNOWN])
    def test_what_patients_received_is_measured_by_itself(self, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(windows_vector.UNKNOWN), "received", lambda _: 0.51)
        cell = coverage.Cell("clinic", make, 4_000, Fraction(100), 1)
        (row,) = coverage.summary(cell, [coverage.received(cell, 2000)])
        assert (row["policy"], row["runs"]) == (coverage.RECEIVED, 1)
        assert row["held"] == row["behaviour_held"]
        assert abs(row["error"]) < 5 * row["half_width"] < 0.3


class TestBeside:
    def test_new_rows_replace_those_about_the_same_and_stay_in_their_cell(self) -> None:
        def row(problem: str, policy: str, held: int) -> coverage.Document:
            return {"problem": problem, "size": 10, "rho": 1.0, "policy": policy, "held": held}

        stored = [row("grid", "auto", 1), row("random", "auto", 2)]
        found = coverage.beside(stored, [row("grid", coverage.RECEIVED, 3), row("grid", "auto", 4)])
        assert [(one["problem"], one["held"]) for one in found] == [("grid", 4), ("grid", 3), ("random", 2)]
