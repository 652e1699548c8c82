"""Which learner is chosen: by public quantities only, exactly, with a reason that a reader can check."""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from discretion import certificates, errors
from discretion.learning import auto, forecast, forms, learners, policy, whereabouts
from discretion.learning.curator import Concentrated, Pure
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.privacy import events
from tests import certified

ICU = Schema(20, Discrete(716), 25)
SMALL = Schema(20, Discrete(100), 6)
PLANE = Schema(5, Vector(("age", "lactate"), ((0.0, 120.0), (0.0, 30.0))), 3)
RHO = Concentrated(Fraction(1))
TABLE: dict[str, Any] = {"kind": "table", "values": [[[1.0, 0.0]] * 25] * 716}


class TestChoose:
    def test_many_states_for_the_data_have_their_advantages_estimated(self) -> None:
        chosen = auto.choose(ICU, 20_000, RHO, {})
        assert chosen.algorithm == "dp-pae"
        assert "below 1/2" in chosen.reason
        assert "n = 20000" in chosen.reason

    def test_no_budget_makes_up_for_transitions_that_are_rare_by_chance(self) -> None:
        chosen = auto.choose(ICU, 50_000, Concentrated(Fraction(100)), {})
        assert chosen.algorithm == "dp-pae"
        assert "S²·A/n is above 60" in chosen.reason
        assert auto.choose(ICU, 214_000, Concentrated(Fraction(100)), {}).algorithm == "dp-apvi"

    def test_few_states_for_the_data_have_their_transitions_counted(self) -> None:
        chosen = auto.choose(SMALL, 50_000, RHO, {})
        assert (chosen.algorithm, chosen.parameters["dynamics"]) == ("dp-apvi", "stationary")

    @given(st.integers(1, 10**6), st.integers(1, 300), st.integers(1, 30), st.fractions(Fraction(1, 10**9), 100))
    def test_the_switch_is_exact(self, units: int, states: int, actions: int, rho: Fraction) -> None:
        chosen = auto.choose(Schema(3, Discrete(states), actions), units, Concentrated(rho), {})
        counted = 4 * units**2 * rho >= states**3 * actions**2 and 60 * units >= states**2 * actions
        assert chosen.algorithm == ("dp-apvi" if counted else "dp-pae")

    def test_pure_noise_is_for_counts(self) -> None:
        assert auto.choose(ICU, 100, Pure(Fraction(1)), {}).algorithm == "dp-apvi"

    def test_what_the_request_says_itself_is_kept(self) -> None:
        per_step = auto.choose(ICU, 100, RHO, {"dynamics": "per_step"})
        assert (per_step.algorithm, per_step.parameters) == ("dp-apvi", {"dynamics": "per_step"})
        assert auto.choose(ICU, 100, RHO, {"features": TABLE}).algorithm == "dp-vapvi"

    @pytest.mark.parametrize(
        "given_", [{}, {"time_groups": 2}, {"features": {"kind": "blocks", "terms": ["1", "age"]}}]
    )
    def test_vector_states_are_pooled(self, given_: dict[str, Any]) -> None:
        chosen = auto.choose(PLANE, 1000, RHO, given_)
        read = forms.read(chosen.algorithm, chosen.parameters, PLANE)
        assert (chosen.algorithm, learners.dynamics_of(read)) == ("dp-vapvi", "stationary")
        assert chosen.given == given_

    def test_bins_of_vector_states_are_learned_step_by_step(self) -> None:
        chosen = auto.choose(PLANE, 1000, RHO, {"features": {"kind": "bins", "edges": {"age": [60]}}})
        assert learners.dynamics_of(forms.read(chosen.algorithm, chosen.parameters, PLANE)) == "per_step"

    def test_steps_that_are_to_be_learned_apart_are_not_said_to_be_pooled(self) -> None:
        chosen = auto.choose(PLANE, 1000, RHO, {"dynamics": "per_step"})
        assert learners.dynamics_of(forms.read(chosen.algorithm, chosen.parameters, PLANE)) == "per_step"
        assert "pooled" not in chosen.reason
        assert "pooled" in auto.choose(PLANE, 1000, RHO, {"dynamics": None}).reason

    @pytest.mark.parametrize("schema", [ICU, PLANE])
    @pytest.mark.parametrize("wrong", ["stochastic", [], 3])
    def test_dynamics_that_there_are_not_are_refused(self, schema: Schema, wrong: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match="dynamics"):
            auto.choose(schema, 100, RHO, {"dynamics": wrong})

    def test_pure_noise_and_vector_states_do_not_go_together(self) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="Gaussian"):
            auto.choose(PLANE, 100, Pure(Fraction(1)), {})

    @pytest.mark.parametrize("schema", [ICU, SMALL, PLANE])
    @pytest.mark.parametrize("units", [1, 1000, 10**7])
    def test_what_is_chosen_can_be_read_and_costs_what_was_asked(self, schema: Schema, units: int) -> None:
        chosen = auto.choose(schema, units, RHO, {})
        read = forms.read(chosen.algorithm, chosen.parameters, schema)
        asked = learners.mechanisms(chosen.algorithm, schema, units, RHO, read)
        assert sum(event.sensitivity > 0 for event in asked) == len(asked) > 0

    @pytest.mark.parametrize("given_", [None, [], "x", 3])
    def test_anything_but_an_object_is_refused(self, given_: Any) -> None:
        with pytest.raises(errors.InvalidParameter):
            auto.choose(ICU, 10, RHO, given_)


class TestOneStory:
    """What `auto` says and what the plan says of the same training."""

    @staticmethod
    def _plan(schema: Schema, units: int, rho: Fraction) -> tuple[str, forecast.Forecast, dict[str, Fraction]]:
        """The reason, the forecast, and what part of ρ each statistic gets, once it is known where patients are."""
        privacy = Concentrated(rho)
        chosen = auto.choose(schema, units, privacy, {})
        read = learners.resolved(schema, units, privacy, forms.read(chosen.algorithm, chosen.parameters, schema))
        asked = learners.mechanisms(chosen.algorithm, schema, units, privacy, read)
        visiting = forecast.visiting_of(None, schema, read)
        expected = forecast.forecast(schema, units, privacy, read, visiting)
        left = rho - sum(events.cost(event) for event in asked if event.statistic == whereabouts.Whereabouts.name)
        return chosen.reason, expected, {event.statistic: events.cost(event) / left for event in asked}

    @pytest.mark.parametrize("rho", ["0.001", "0.1", "1"])
    @pytest.mark.parametrize("units", [20, 89, 90, 900, 100_000])
    @pytest.mark.parametrize("schema", [ICU, SMALL, PLANE], ids=["many states", "few states", "vector states"])
    def test_the_plan_says_all_are_fallbacks_just_where_nearly_all_is_spent_on_what_is_usually_done(
        self, schema: Schema, units: int, rho: str
    ) -> None:
        reason, expected, parts = self._plan(schema, units, Fraction(rho))
        copying = max(parts.values()) >= Fraction(98, 100)
        told = [warning for warning in expected.warnings if warning.startswith("Every decision will be a fallback")]
        assert bool(told) == copying
        if copying:
            assert expected.learned_share == 0.0
            unsaid = "no advantages are estimated" if "dp-pae" in reason else "from the features"
            assert unsaid in told[0]  # which the reason speaks of

    @pytest.mark.parametrize("rho", ["0.001", "0.1", "1"])
    @pytest.mark.parametrize("schema", [ICU, SMALL, PLANE], ids=["many states", "few states", "vector states"])
    def test_from_the_number_of_patients_that_it_names_on_it_is_otherwise(self, schema: Schema, rho: str) -> None:
        (told,) = self._plan(schema, 10, Fraction(rho))[1].warnings
        (named,) = map(int, re.findall(r"from ([0-9]+) patients on", told))
        parts = [max(self._plan(schema, units, Fraction(rho))[2].values()) for units in (named - 1, named)]
        assert parts[0] >= Fraction(98, 100) > parts[1]
        assert math.isclose(named, self._by_hand(schema, float(rho)), abs_tol=1.0)

    @staticmethod
    def _by_hand(schema: Schema, rho: float) -> float:
        """n√ρ/(S·A) = 1/20 with discrete states, n√ρ/A = 30 with vector states."""
        if isinstance(schema.states, Vector):
            return 30 * schema.actions / math.sqrt(rho)
        return schema.count * schema.actions / 20 / math.sqrt(rho)


class TestCertified:
    """Whoever verifies a certificate chooses again."""

    SCHEMA, UNITS = Schema(3, Discrete(4), 2), 500

    def _made(self, algorithm: str) -> certified.Made:
        read = forms.read(algorithm, {"dynamics": "stationary"}, self.SCHEMA)
        asked = learners.resolved(self.SCHEMA, self.UNITS, RHO, read)
        nothing = np.zeros((3, 4))
        rule = policy.of_table(algorithm, self.SCHEMA, nothing.astype(np.int64), nothing > 0, nothing)
        log = tuple(learners.mechanisms(algorithm, self.SCHEMA, self.UNITS, RHO, asked))
        return certified.Made(replace(rule, id="pol_1"), self.SCHEMA, self.UNITS, RHO, asked, log)

    def test_what_it_would_not_have_chosen_is_not_signed(self) -> None:
        chosen = auto.choose(self.SCHEMA, self.UNITS, RHO, {})
        assert chosen.algorithm == "dp-apvi"
        with pytest.raises(errors.InvalidCertificate, match="would have chosen otherwise"):
            self._made("dp-pae").certify(chosen=chosen)

    @pytest.mark.parametrize(
        "change", [{}, {"reason": "Because."}, {"rule": 2}, {"by": "us"}, {"parameters": {"dynamics": "per_step"}}]
    )
    def test_another_reason_or_rule_than_its_own_is_found_out(self, change: dict[str, Any]) -> None:
        made, chosen = self._made("dp-apvi"), auto.choose(self.SCHEMA, self.UNITS, RHO, {})
        payload = certified.payload_of(made.certify(chosen=chosen))
        payload["request"]["chosen"] |= change
        told = json.dumps(certified.signed(rfc8785.dumps(payload)))
        if not change:
            assert (
                certificates.verify(made.text, told, certified.KEYS).payload["request"]["chosen"] == chosen.document()
            )
            return
        with pytest.raises(errors.InvalidCertificate):
            certificates.verify(made.text, told, certified.KEYS)
