"""What a plan expects before anything is paid: public arithmetic, and honest about small populations."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import apvi, apvi_stationary, forecast, forms, pae, pae_prospects, policy, rewards
from discretion.learning.curator import Concentrated
from discretion.learning.schemas import Discrete, FloatArray, Schema, Vector

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

    @pytest.mark.parametrize(("low", "ends"), [(0.0, False), (-1.0, True)])
    def test_the_visits_that_a_plan_names_are_those_from_which_scores_are_above_zero(
        self, low: float, ends: bool
    ) -> None:
        """Every visit earns all that it can, and what follows is certain: only the penalty's second term is left."""
        schema = Schema(3, Discrete(1), 1, (low, 1.0))
        asked = schema, 1, RHO, apvi.Parameters(reward=rewards.Known(np.ones((1, 1))))
        needed = apvi.visits_needed(*asked)
        assert needed > apvi.trusted_from(*asked)
        for visits, learned in ((math.floor(needed), False), (math.ceil(needed), True)):
            moves = np.array([[0, visits] if ends else [visits, 0]] * 3)
            counted = tuple(apvi.mechanisms(*asked))
            release = apvi.Release(np.full((3, 1, 1), visits), np.arange(3), moves, counted)
            made = apvi.derive(release, schema, asked[-1]).rule
            assert isinstance(made, policy.Table)
            assert made.learned.any() == learned


class TestWarnings:
    def test_too_small_a_population_is_told_what_would_do(self) -> None:
        (told,) = [text for text in of(50).warnings if "nothing would be learned" in text]
        needed = int(float(told.split("About ")[1].split(" units")[0]))
        assert of(2 * needed).learned_share > 0

    @pytest.mark.parametrize(
        ("parameters", "units", "rho", "helps"),
        [
            (COUNTED, 50, "1", True),
            (apvi_stationary.Parameters(), 20, "0.001", True),
            (pae.Parameters(), 3000, "0.0001", True),
            (pae.Parameters(), 5, "100", False),  # it is chance, and not noise, that hides everything
        ],
    )
    def test_more_budget_is_advised_where_it_would_do(self, parameters: Any, units: int, rho: str, helps: bool) -> None:
        def found(budget: Fraction) -> forecast.Forecast:
            visiting = forecast.visiting_of(None, SCHEMA, parameters)
            return forecast.forecast(SCHEMA, units, Concentrated(budget), parameters, visiting)

        told = found(Fraction(rho)).warnings[0]
        assert ("times the ρ" in told) is helps
        assert "units would do" in told
        if helps:
            times = int(told.split("or ")[1].split(" times")[0])
            assert found(Fraction(rho) * times).learned_share > 0

    @pytest.mark.parametrize(("rho", "learned"), [("0.0002", False), ("0.1", True)])
    def test_noise_that_hides_every_reward_leaves_nothing_to_learn(self, rho: str, learned: bool) -> None:
        schema, parameters = Schema(4, Discrete(5), 2), apvi_stationary.Parameters()
        visiting = forecast.visiting_of(None, schema, parameters)
        found = forecast.forecast(schema, 3000, Concentrated(Fraction(rho)), parameters, visiting)
        assert (found.learned_share > 0) is learned
        assert bool(found.warnings) is not learned
        known = replace(parameters, reward=rewards.Known(np.ones((5, 2))))
        assert forecast.forecast(schema, 3000, Concentrated(Fraction(rho)), known, visiting).learned_share > 0

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

    def test_they_are_named_where_everybody_could_meet_and_nobody_is_expected_to(self) -> None:
        named, written = apvi.Parameters(calibration="paper"), apvi.Parameters()
        units = int(of(1, parameters=written).visits_needed) + 1
        for parameters, advice in ((named, "(without calibration)."), (written, 'Set c2 to 0, or use dynamics "stat')):
            found = of(units, parameters=parameters)
            assert found.learned_share == 0.0
            few, clipped = found.warnings
            assert "nothing would be learned" in few
            assert "clips every score to zero" in clipped
            assert advice in clipped

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

    @pytest.mark.parametrize("dynamics", ["per_step", "stationary"])
    def test_more_features_than_the_budget_can_carry_are_told_how_many_it_can(self, dynamics: str) -> None:
        ages = [{"hinge": "age", "at": at / 2, "side": "above"} for at in range(1, 149)]
        expected = partial(self._of_terms, dynamics, 20_000, Concentrated(Fraction(1, 100)))
        found = expected(["1", "age", *ages])
        assert found.learned_share == 0.0
        said = re.search(r"or fewer features \(about ([0-9]+) of them can be carried, not 150\)", found.warnings[0])
        assert said is not None
        most = int(said[1])
        assert expected(["1", "age", *ages[: most // 2 - 2]]).learned_share > 0
        assert expected(["1", "age", *ages[: 2 * most]]).learned_share == 0

    def test_where_hardly_any_can_be_carried_there_are_too_many(self) -> None:
        found = self._of_terms("per_step", 20, Concentrated(Fraction(1, 100)), ["1", "age"])
        assert "fewer features (these are too many)" in found.warnings[0]

    @staticmethod
    def _of_terms(dynamics: str, units: int, privacy: Concentrated, terms: list[Any]) -> forecast.Forecast:
        schema = Schema(4, Vector(("age",), ((0.0, 100.0),)), 2)
        document = {"features": {"kind": "blocks", "terms": terms}, "dynamics": dynamics}
        parameters = forms.read("dp-vapvi", document, schema)
        return forecast.forecast(schema, units, privacy, parameters, forecast.visiting_of(None, schema, parameters))

    @pytest.mark.parametrize("calibration", ["tight", "paper"])
    @pytest.mark.parametrize(
        ("value", "told"), [(0.0, "always zero, and so of no use"), (0.3, "the same for every state and action")]
    )
    def test_a_coordinate_that_tells_nothing_apart_is_named(self, value: float, told: str, calibration: str) -> None:
        values = np.random.default_rng(0).uniform(-0.2, 0.2, (3, 2, 9))
        assert not any("Coordinates" in one for one in self._of_table(values, calibration))
        values[:, :, 1] = value
        (found,) = (one for one in self._of_table(values, calibration) if "Coordinates" in one)
        assert told in found
        assert ": 1. Leave them out" in found
        values[:, :, 2:] = value
        (found,) = (one for one in self._of_table(values, calibration) if "Coordinates" in one)
        assert ": 1, 2, 3, 4, 5 and 3 more. Leave" in found

    @staticmethod
    def _of_table(values: FloatArray, calibration: str) -> tuple[str, ...]:
        document = {"calibration": calibration, "features": {"kind": "table", "values": values.tolist()}}
        parameters = forms.read("dp-vapvi", document, SCHEMA)
        visiting = forecast.visiting_of(None, SCHEMA, parameters)
        return forecast.forecast(SCHEMA, 100, RHO, parameters, visiting).warnings

    def test_there_is_nothing_to_say_where_all_is_well(self) -> None:
        assert of(10**6).warnings == ()

    def test_enough_data_for_the_papers_constants_is_not_warned_about(self) -> None:
        assert of(10**9, parameters=apvi.Parameters()).warnings == ()


class TestRowsThatAreNotDrawn:
    @pytest.mark.parametrize(
        ("parameters", "most"), [(COUNTED, 2684), (apvi_stationary.Parameters(), 671)], ids=["per step", "first visits"]
    )
    def test_the_plan_says_how_many_there_may_be(
        self, parameters: apvi.Parameters | apvi_stationary.Parameters, most: int
    ) -> None:
        def told(states: int, units: int) -> list[str]:
            schema = Schema(20, Discrete(states), 5)
            visiting = forecast.visiting_of(None, schema, parameters)
            warnings = forecast.forecast(schema, units, RHO, parameters, visiting).warnings
            return [warning for warning in warnings if "rows of transitions" in warning]

        (warning,) = told(100_000, 10**7)
        assert f"at most {most} rows of 100001 successors are drawn" in warning
        assert not told(100_000, 1000)
        assert not told(100, 10**7)

    @pytest.mark.parametrize("visited", [1.0, 0.05])
    def test_no_more_are_drawn_than_are_likely(self, visited: float) -> None:
        """Of visits that spread so that as many rows as can be have enough."""
        schema, rng = Schema(1, Discrete(4000), 1), np.random.default_rng(3)
        parameters = apvi_stationary.Parameters(trust=12.0)
        noise = math.sqrt(apvi_stationary.mechanisms(schema, 10, RHO, parameters)[0].scale)
        enough = apvi_stationary.visits_needed(schema, 10, RHO, parameters)
        each = math.ceil(enough)
        rows = int(4000 * visited)
        visits = np.zeros((4000, 1))
        visits[:rows] = each
        drawn = np.count_nonzero(visits + rng.normal(size=visits.shape) * noise > enough)
        likely = apvi_stationary.likely_rows(schema, rows * each, RHO, parameters)
        assert 0 < drawn <= likely
        assert likely == min(4000, math.floor(rows * each / (enough / 2)))

    def test_where_noise_alone_may_lift_rows_all_count(self) -> None:
        schema, parameters = Schema(4, Discrete(4000), 5), apvi_stationary.Parameters(trust=2.0)
        assert apvi_stationary.likely_rows(schema, 100, RHO, parameters) == 20_000
