"""What a plan expects before anything is paid: public arithmetic, and honest about small populations."""

from fractions import Fraction
from typing import Any

import pytest

from discretion import errors
from discretion.learning import apvi, apvi_stationary, forecast, pae, pae_prospects
from discretion.learning.curator import Concentrated
from discretion.learning.trajectories import Discrete, Schema

SCHEMA = Schema(4, Discrete(3), 2)
RHO = Concentrated(Fraction(1))
COUNTED = apvi.Parameters(c1=0.5, c2=0)


def of(units: int, visiting: Any = None, parameters: apvi.Parameters = COUNTED) -> forecast.Forecast:
    found = forecast.visiting_of(visiting, SCHEMA, parameters)
    return forecast.forecast(SCHEMA, units, RHO, parameters, found)


class TestLearnedShare:
    def test_it_grows_with_the_units_from_nothing_to_everything(self) -> None:
        shares = [of(units).learned_share for units in (10, 1_000, 10_000, 10**6)]
        assert shares[0] == 0.0
        assert shares == sorted(shares)
        assert shares[-1] == 1.0

    def test_a_typed_in_profile_counts(self) -> None:
        needed = of(100).visits_needed
        units = int(needed * 4 / 3) + 2  # each step has a quarter of three steps, all in one state with one action
        profile = {"steps": 3, "states": [1, 0, 0], "actions": [1, 0]}
        assert of(units, profile).learned_share == 1.0
        assert of(units, profile | {"states": [1, 1, 1]}).learned_share == 0.0
        assert "as typed in" in of(units, profile).assumption

    @pytest.mark.parametrize(
        "profile",
        [
            {"steps": 0},
            {"steps": 5},
            {"states": [1, 1]},
            {"actions": [1, -1]},
            {"actions": [0, 0]},
            {"seed": 1},
            {"states": "many"},
            [],
        ],
    )
    def test_a_profile_that_cannot_be_is_refused(self, profile: Any) -> None:
        with pytest.raises(errors.InvalidParameter):
            of(100, profile)


class TestWarnings:
    def test_too_small_a_population_is_told_what_would_do(self) -> None:
        (told,) = [text for text in of(50).warnings if "nothing would be learned" in text]
        needed = int(float(told.split("About ")[1].split(" units")[0]))
        assert of(2 * needed).learned_share > 0

    def test_the_papers_constants_clip_everything(self) -> None:
        told = " ".join(of(2_000, parameters=apvi.Parameters()).warnings)
        assert "clipped to zero" in told
        assert "c2 to 0" in told

    def test_so_they_do_under_their_own_name_and_there_they_cannot_be_set(self) -> None:
        (told,) = of(2_000, parameters=apvi.Parameters(calibration="paper")).warnings
        assert "With the paper's constants every score will be clipped to zero" in told
        assert told.endswith('or use dynamics "stationary" (without calibration).')
        assert 'calibration "tight" with c2 = 0' in told
        assert of(10**9, parameters=apvi.Parameters(calibration="paper")).warnings == ()

    def test_a_learner_that_will_only_copy_says_so_and_what_would_do(self) -> None:
        schema, parameters = Schema(20, Discrete(716), 25), pae.Parameters()
        visiting = forecast.visiting_of(None, schema, parameters)
        found = forecast.forecast(schema, 500, RHO, parameters, visiting)
        assert found.learned_share == 0.0
        (told,) = found.warnings
        assert "most frequent action" in told
        assert "from 895 patients on" in told
        assert forecast.forecast(schema, 895, RHO, parameters, visiting).warnings == ()

    def test_what_is_assumed_of_actions_is_said_as_it_is_reckoned(self) -> None:
        schema, parameters = Schema(4, Discrete(6), 3), pae.Parameters()
        found = forecast.forecast(schema, 100, RHO, parameters, forecast.visiting_of(None, schema, parameters))
        assert "differs by a quarter of what it differs between visits" in found.assumption
        assert pae_prospects.DIFFERENCE == 0.25
        assert any("noise would hide how actions differ" in told for told in found.warnings)

    def test_nobody_is_counted_more_often_than_there_are_patients(self) -> None:
        schema, parameters = Schema(40, Discrete(1), 2), apvi_stationary.Parameters()
        visiting = forecast.visiting_of(None, schema, parameters)
        assert forecast.forecast(schema, 10, RHO, parameters, visiting).learned_share == 0.0

    @pytest.mark.parametrize(
        ("outcome", "parameters", "told"),
        [
            (True, apvi_stationary.Parameters(), True),
            (False, apvi_stationary.Parameters(), False),
            (True, pae.Parameters(), False),
            (True, COUNTED, False),
        ],
    )
    def test_pooled_counts_of_stays_that_earn_by_an_outcome_are_warned_about(
        self, outcome: bool, parameters: Any, told: bool
    ) -> None:
        schema = Schema(4, Discrete(3), 2, outcome=outcome)
        found = forecast.forecast(schema, 10**6, RHO, parameters, forecast.visiting_of(None, schema, parameters))
        assert any("use auto or dp-pae" in text for text in found.warnings) == told

    def test_there_is_nothing_to_say_where_all_is_well(self) -> None:
        assert of(10**6).warnings == ()

    def test_enough_data_for_the_papers_constants_is_not_warned_about(self) -> None:
        assert of(10**9, parameters=apvi.Parameters()).warnings == ()
