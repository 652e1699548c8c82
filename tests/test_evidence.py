"""The evidence about privacy: nothing that can be asked for is left out of it, and what it found holds."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.evidence import asked, attack, neighbours, patients
from benchmarks.evidence.asked import Asked

from discretion.learning import clipped, fqe, learners, pooled, vapvi_stationary
from discretion.learning.curator import Curator


def _case(name: str) -> neighbours.Case:
    (found,) = (case for case in neighbours.cases() if case.name == name)
    return found


def _resolved(case: neighbours.Case) -> vapvi_stationary.Parameters:
    found = learners.resolved(case.schema, case.units, case.privacy, case.parameters)
    assert isinstance(found, vapvi_stationary.Parameters)
    return found


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

    @pytest.mark.parametrize(
        ("name", "statistics"),
        [
            ("DP-PAE, many patients", (clipped.Coverage, clipped.Surprises)),
            ("DP-VAPVI, pooled", (pooled.Residuals,)),
        ],
    )
    def test_a_sensitivity_that_is_half_of_what_it_should_be_is_found_out(
        self, name: str, statistics: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert max(move.share for move in neighbours.worst(_case(name), 40)[1].values()) <= 1
        for statistic in statistics:
            monkeypatch.setattr(statistic, "squared_sensitivity", statistic.squared_sensitivity / 4)
        assert neighbours.worst(_case(name), 40)[0] > 1

    def test_a_patient_who_is_replaced_by_itself_moves_nothing(self) -> None:
        for name in ("DP-VAPVI, pooled, missing values", "DP-FQE, by rounds", "DP-APVI, first visits"):
            case, draw = _case(name), np.random.default_rng(0)
            one, *rest = (patients.patient(case.schema, draw) for _ in range(4))
            shares, _ = neighbours.costs(case, rest, [one], [one])
            assert shares.tolist() == [[0.0]]

    def test_the_pooled_learner_is_searched_where_it_learns_and_where_it_only_copies(self) -> None:
        found = [case for case in neighbours.cases() if isinstance(case.parameters, vapvi_stationary.Parameters)]
        copies = [case.name for case in found if _resolved(case).shares == vapvi_stationary.COPYING]
        assert copies == ["DP-VAPVI, pooled, too few patients"]
        learning = [case for case in found if _resolved(case).shares == vapvi_stationary.SHARES]
        assert len(learning) == len(found) - 1
        whitened = [_resolved(case) for case in learning if not _resolved(case).features.plain]
        assert {parameters.time_groups for parameters in whitened} == {1, 2}
        assert {parameters.parts for parameters in whitened} == {1, 8}
        assert {case.schema.outcome for case in learning if not _resolved(case).features.plain} == {False, True}

    def test_where_patients_are_is_found_in_that_search(self) -> None:
        """Noise hides it once in 24 times: half of eight are as good as certain."""
        case, draw = _case("DP-VAPVI, pooled, where patients are"), np.random.default_rng(0)
        anybody = [patients.patient(case.schema, draw) for _ in range(4)]
        near = [patients.telling(case.schema, draw) for _ in range(case.telling)]
        data, found = patients.dataset(case.schema, [*near, *anybody], case.units), 0
        for _ in range(8):
            rule: Any = learners.learn(Curator(data, Fraction(100)), case.privacy, case.parameters).rule
            bounds = zip(rule.features.within, rule.features.vector.bounds, strict=True)
            found += any(within != whole for within, whole in bounds)
        assert found >= 4

    def test_values_are_missing_in_the_searches_that_say_so(self) -> None:
        named = [case for case in neighbours.cases() if case.name.endswith("missing values")]
        assert [type(case.parameters) for case in named] == [vapvi_stationary.Parameters, fqe.Parameters]
        for case in named:
            draw = np.random.default_rng(0)
            states = [patients.patient(case.schema, draw).states for _ in range(50)]
            first, second = np.mean([np.isnan(each).mean(axis=(0, 1)) for each in states], axis=0)
            assert (first, 0.2 < second < 0.8) == (0, True)

    def test_where_dp_pae_only_counts_it_asks_for_nothing_else(self) -> None:
        assert set(_case("DP-PAE, what is usually done").asked()) == {clipped.Coverage.name}
