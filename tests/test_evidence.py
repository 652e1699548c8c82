"""The evidence about privacy: nothing that can be asked for is left out of it, and what it found holds."""

from typing import Any

import numpy as np
import pytest
from benchmarks.evidence import asked, attack, neighbours
from benchmarks.evidence.asked import Asked

from discretion.learning import clipped


class TestAttack:
    rows = attack.stored()

    def test_every_statistic_that_can_be_asked_for_was_attacked(self) -> None:
        for halved in (False, True):
            assert not attack.unattacked([row for row in self.rows if row["halved"] == halved])

    def test_one_that_was_not_is_named(self) -> None:
        left_out = Asked(**self.rows[0]["asked"])
        rows = [row for row in self.rows if Asked(**row["asked"]) != left_out]
        assert attack.unattacked(rows) == {left_out}

    def test_none_shows_more_than_its_share_unless_its_sensitivity_is_halved(self) -> None:
        for row in self.rows:
            shows = any(bound["found"] > bound["claimed"] for bound in row["bounds"])
            assert shows == row["broken"] == row["halved"], row["name"]

    def test_what_is_written_down_is_what_is_stored(self) -> None:
        names = {row["name"] for row in self.rows}
        assert {case.name for case in attack.cases()} <= names

    def test_a_pair_that_was_written_down_differs(self) -> None:
        assert all(np.any(moved.change) for moved in attack.written())


class TestNeighbours:
    rows = neighbours.stored()

    def test_there_is_a_row_of_ten_thousand_pairs_for_each_learner_and_mode(self) -> None:
        assert [row["pairs"] for row in self.rows.values()] == [10_000] * len(neighbours.cases())
        assert list(self.rows) == [case.name for case in neighbours.cases()]

    def test_no_pair_passes_a_claim(self) -> None:
        for row in self.rows.values():
            assert row["worst_share_of_claim"] <= 1
            assert max(row["worst_share_of_each"].values()) <= 1

    def test_every_statistic_that_can_be_asked_for_was_moved(self) -> None:
        farthest: dict[Asked, float] = dict.fromkeys(asked.everything(), 0.0)
        for case in neighbours.cases():
            row: dict[str, Any] = self.rows[case.name]
            for name, what in case.asked().items():
                farthest[what] = max(farthest[what], row["worst_share_of_each"][name])
        assert {what for what, share in farthest.items() if share == 0} == set()

    def test_a_sensitivity_that_is_half_of_what_it_should_be_is_found_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (case,) = (case for case in neighbours.cases() if case.name == "DP-PAE, many patients")
        assert max(move.share for move in neighbours.worst(case, 40)[1].values()) <= 1
        for statistic in (clipped.Coverage, clipped.Surprises):
            monkeypatch.setattr(statistic, "squared_sensitivity", statistic.squared_sensitivity / 4)
        assert neighbours.worst(case, 40)[0] > 1
