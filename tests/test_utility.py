"""The evidence about what policies are worth: its verdicts can fail, and its page says what was measured."""

from fractions import Fraction
from typing import Any

import pytest
from benchmarks.utility import coverage, pictures, problems, promises, served, study

from discretion.learning import apvi, apvi_stationary, pae

Document = dict[str, Any]


def _rows(auto: dict[float, list[float]], mode: list[float]) -> list[Document]:
    told: list[tuple[str, float | None, list[float]]] = [(study.AUTO, rho, each) for rho, each in auto.items()]
    told += [(study.MODE, 0.1, mode), (study.UNIFORM, None, [0.0, 0.0, 0.0])]
    return [{"problem": "clinic", "size": 10, "rho": rho, "method": method, "each": each} for method, rho, each in told]


class TestPromises:
    def test_rising_values_above_copying_break_none(self) -> None:
        assert promises.check(_rows({0.1: [0.5, 0.6, 0.7], 1.0: [0.6, 0.7, 0.8]}, [0.4, 0.5, 0.6])) == []

    def test_being_below_copying_at_a_tenth_is_found(self) -> None:
        (wrong,) = promises.check(_rows({0.1: [0.5, 0.6, 0.7], 1.0: [0.6, 0.7, 0.8]}, [0.52, 0.61, 0.71]))
        assert "below copying" in wrong

    def test_losing_by_ten_times_the_budget_is_found(self) -> None:
        (wrong,) = promises.check(_rows({0.1: [0.5, 0.6, 0.7], 1.0: [0.45, 0.551, 0.65]}, [0.4, 0.5, 0.6]))
        assert "from ρ = 0.1 to 1" in wrong

    def test_a_loss_within_three_errors_is_chance(self) -> None:
        assert promises.check(_rows({0.1: [0.5, 0.6, 0.7], 1.0: [0.7, 0.4, 0.6]}, [0.4, 0.5, 0.6])) == []

    def test_a_loss_that_passes_one_of_two_limits_is_told_by_the_strict_reading_alone(self) -> None:
        alike, apart = {0.1: [0.5, 0.6, 0.7], 1.0: [0.499, 0.599, 0.699]}, {0.1: [0.5, 0.6, 0.7], 1.0: [0.7, 0.4, 0.6]}
        for values in (alike, apart):
            assert promises.check(_rows(values, [0.4, 0.5, 0.6])) == []
            (told,) = promises.strictly(_rows(values, [0.4, 0.5, 0.6]))
            assert told.startswith("clinic at 10: auto loses 0.0")
        assert promises.strictly(_rows({0.1: [0.5, 0.6, 0.7], 1.0: [0.6, 0.7, 0.8]}, [0.4, 0.5, 0.6])) == []


class TestGoals:
    @pytest.mark.parametrize(
        ("goal", "kept", "broken"),
        [
            (served.AtLeast(0.5), [0.4, 0.6], [0.4, 0.5]),
            (served.AtMost(0.5), [0.4, 0.6], [0.5, 0.6]),
            (served.Rarely(0.5, 2), [0.4, 0.6], [0.4, 0.4]),
        ],
    )
    def test_a_goal_can_be_kept_and_broken(self, goal: Any, kept: list[float], broken: list[float]) -> None:
        assert goal.held(kept)
        assert not goal.held(broken)


def _measured(by_rho: dict[str, list[float]], copied: list[float]) -> served.Measured:
    """Of a line whose goals are about what is missing to 1, on datasets 7, 8, …"""
    seeds = range(7, 7 + len(copied))
    line = served.Line(
        "clinic",
        "1 − v",
        10,
        {"1": served.AtMost(0.3)},
        seeds,
        made=NotImplemented,
        value=NotImplemented,
        copied=NotImplemented,
        span=lambda seed: 1.0,
        figure=lambda value, seed: 1 - value,
        wide=len(copied),
    )
    values = {rho: dict(zip(seeds, each, strict=True)) for rho, each in by_rho.items()}
    return served.Measured(line, values, dict(zip(seeds, copied, strict=True)))


_RISING = {"0.01": [0.5, 0.6], "0.1": [0.6, 0.7], "1": [0.7, 0.8], "10": [0.8, 0.9], "100": [0.8, 0.9]}


class TestServed:
    def test_every_line_has_its_goals_copying_and_more_budget(self) -> None:
        goal, copying, budget = _measured(_RISING, [0.5, 0.6]).rows()
        assert (goal["problem"], goal["mean"], goal["held"]) == ("clinic: 1 − v", 0.25, True)
        assert (copying["rho"], copying["mean"], copying["held"]) == ("0.1", 0.1, True)
        assert (budget["rho"], budget["mean"], budget["runs"], budget["held"]) == ("0.01 to 100", 0.0, 10, True)

    def test_being_worth_less_than_copying_is_found(self) -> None:
        _, copying, _ = _measured(_RISING, [0.61, 0.71]).rows()
        assert (copying["mean"], copying["held"]) == (-0.01, False)

    def test_a_budget_that_hurts_is_found(self) -> None:
        *_, budget = _measured(_RISING | {"100": [0.75, 0.851]}, [0.5, 0.6]).rows()
        assert (budget["mean"], budget["held"]) == (-0.0495, False)

    def test_every_budget_is_asked_for_on_the_first_datasets_only(self) -> None:
        line = served.lines(sample=False)[0]
        assert line.rhos(line.seeds.start) == ("0.1", "1", "0.01", "10", "100")
        assert line.rhos(line.seeds.start + line.wide) == ("0.1", "1")

    def test_every_line_is_held_against_copying(self) -> None:
        assert all(served.SMALL in line.rhos(line.seeds[-1]) for line in served.lines(sample=False))


class TestStudy:
    def test_the_runs_of_auto_are_also_those_of_the_learner_it_takes(self) -> None:
        drawn = iter(range(100))
        methods: dict[str, Any] = {study.AUTO: pae.Parameters(), "DP-PAE": pae.Parameters(), "other": apvi.Parameters()}
        found = list(study.worths(methods, Fraction(1), 2, lambda rho, given: next(drawn)))
        assert [(one.method, one.value) for one in found] == [
            *((study.AUTO, 0), ("DP-PAE", 0), (study.AUTO, 1), ("DP-PAE", 1)),
            *(("other", 2), ("other", 3)),
        ]

    def test_a_sample_takes_no_reported_seed(self) -> None:
        tried = [one.seeds for one in study.cells(sample=True)] + [one.seeds for one in served.lines(sample=True)]
        assert all(seed >= study.TRIED for seeds in tried for seed in seeds)
        for first, told in ((study.FIRST, study.cells(sample=False)), (served.FIRST, served.lines(sample=False))):
            assert all(first <= seed < first + 100 for one in told for seed in one.seeds)

    def test_a_small_cell_runs_every_learner(self) -> None:
        cell = study.tabular(problems.windows, 50, range(study.TRIED, study.TRIED + 1), 1)
        found = {one.method for one in cell.runs(study.TRIED)}
        assert {study.PAE, study.FIRST_VISITS, study.PER_STEP, study.PRINTED, study.CELLS} <= found
        assert isinstance(study.chosen(problems.random_mdp().schema, 10**6, Fraction(1)), apvi_stationary.Parameters)


class TestThePage:
    def test_its_tables_are_what_was_measured(self) -> None:
        page = pictures.PAGE.read_text(encoding="utf-8")
        assert pictures.filled(page, pictures.read()) == page

    def test_it_has_a_table_and_a_picture_for_each_problem(self) -> None:
        page = pictures.PAGE.read_text(encoding="utf-8")
        for problem in {row["problem"] for row in pictures.read().studied}:
            assert f"<!-- table: {problem} -->" in page
            assert f"figures/utility/{pictures.file(problem)}" in page
            assert (pictures.FIGURES / pictures.file(problem)).exists()

    def test_every_promise_was_kept_when_it_was_measured(self) -> None:
        found = pictures.read()
        assert [row for row in found.promised if not row["held"]] == []
        assert promises.check(found.studied) == []
        assert [row for row in found.covered if row["held"] < coverage.PROMISED * row["runs"]] == []
