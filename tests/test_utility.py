"""The evidence about what policies are worth: its verdicts can fail, and its page says what was measured."""

from typing import Any

import pytest
from benchmarks.utility import coverage, pictures, promises, served, study

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
