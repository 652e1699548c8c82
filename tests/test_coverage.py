"""The evidence about intervals: its halves share nobody, its best policy is the best, and its verdict can fail."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.utility import coverage, problems

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
