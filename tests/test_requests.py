"""What follows from a request before any patient is read: its cost, and when its result appears."""

import dataclasses
import json
import math

import pytest
from benchmarks import growth, scale
from hypothesis import given
from hypothesis import strategies as st

from discretion import catalogue, errors, requests
from discretion.learning import documents, learners
from discretion.learning.curator import Curator
from discretion.learning.trajectories import Trajectories
from tests import services

REQUESTS = [(services.TABULAR, services.APVI), (services.VECTOR, services.VAPVI)]


def dataset(schema=services.TABULAR, *, units=200, state="ready", folder="up_1", **more):
    parsed, labels = documents.schema_of(schema | more)
    return catalogue.Dataset("ds_1", "icu", "pop_1", "key_1", state, parsed, labels, units, folder, "2026-01-02")


def asked(schema, request, **more):
    return requests.asked(dataset(schema, **more), request)


def is_power_of_two(number: float) -> bool:
    return math.frexp(number)[0] == 0.5


class TestAsked:
    def test_needs_a_dataset_with_data(self):
        for found in (dataset(state="empty", units=None), dataset(state="retired")):
            with pytest.raises(errors.DatasetNotReady):
                requests.asked(found, services.APVI)

    @pytest.mark.parametrize("key", ["algorithm", "privacy", "parameters"])
    def test_a_stored_request_that_lacks_something_is_refused_by_its_name(self, key):
        stored = {name: value for name, value in services.APVI.items() if name != key}
        with pytest.raises(errors.InvalidRequest, match=f"no {key}; another version"):
            asked(services.TABULAR, stored)

    @pytest.mark.parametrize("chosen", [{"by": "auto"}, "auto", ["auto"]])
    def test_so_is_one_that_does_not_say_what_was_chosen_from(self, chosen):
        with pytest.raises(errors.InvalidRequest, match="no parameters; another version"):
            asked(services.TABULAR, services.APVI | {"chosen": chosen})

    def test_a_retired_dataset_still_says_what_was_asked_of_it(self):
        now, then = dataset(), dataset(state="retired")
        assert requests.asked(now, services.APVI) == requests.asked(then, services.APVI, ready=False)

    @pytest.mark.parametrize(("schema", "request_"), REQUESTS)
    def test_costs_what_was_offered_and_counts_every_release_and_the_policy(self, schema, request_):
        found = asked(schema, request_)
        assert str(found.cost) == "0.5"
        assert found.stages == len(found.mechanisms) + 1

    @pytest.mark.parametrize(("schema", "request_"), REQUESTS)
    def test_its_document_is_the_same_request_again(self, schema, request_):
        once = asked(schema, request_).document()
        assert asked(schema, once).document() == once

    def test_a_policy_of_too_many_numbers_is_refused(self):
        with pytest.raises(errors.ProblemTooLarge, match="2000001"):
            asked(services.TABULAR | {"horizon": 1, "states": {"kind": "discrete", "count": 2_000_001}}, services.APVI)

    @pytest.mark.parametrize(
        ("dynamics", "fits", "actions", "numbers"),
        [
            ({"dynamics": "stationary", "time_groups": 100}, 2856, 2857, "2000100"),  # 100·(2·3A + A + 2)
            ({"dynamics": "per_step"}, 1666, 1667, "2000800"),  # 100·(3²A + 3A + 4)
        ],
    )
    def test_weights_for_vector_states_are_counted_as_they_will_stand_in_the_document(
        self, dynamics, fits, actions, numbers
    ):
        def fitting(count):
            request = services.VAPVI | {"parameters": services.VAPVI["parameters"] | dynamics}
            return asked(services.VECTOR | {"horizon": 100, "actions": {"count": count}}, request)

        assert fitting(fits).schema.actions == fits
        with pytest.raises(errors.ProblemTooLarge, match=f"hold {numbers} numbers"):
            fitting(actions)

    @pytest.mark.parametrize(
        "parameters", [{}, {"dynamics": "stationary"}, {"dynamics": "stationary", "time_groups": 2}]
    )
    @pytest.mark.parametrize("actions", [1, 2, 5])
    def test_that_many_numbers_are_in_a_learned_policy(self, parameters, actions):
        request = services.VAPVI | {"parameters": services.VAPVI["parameters"] | parameters}
        found = asked(services.VECTOR | {"actions": {"count": actions}}, request)
        nobody = Curator(Trajectories(found.schema, found.units, []), found.cost.exact)
        document = learners.learn(nobody, found.privacy, found.parameters).document()
        assert numbers_in(document.get("steps", document.get("groups"))) == requests.numbers(found)

    def test_a_report_is_short_whatever_it_is_computed_with(self):
        report = {"algorithm": "dp-fqe", "privacy": {"rho": "0.5"}, "parameters": {}, "policy": "pol_1"}
        found = asked(services.TABULAR, report)
        assert requests.numbers(found) == 0


def numbers_in(document):
    if isinstance(document, dict | list):
        return sum(map(numbers_in, document.values() if isinstance(document, dict) else document))
    return int(isinstance(document, int | float) and not isinstance(document, bool))


class TestUsualSeconds:
    @pytest.mark.parametrize(("schema", "request_"), REQUESTS)
    @given(units=st.integers(2, 10**8), per_unit=st.integers(1, 20), more=st.integers(0, 10**8))
    def test_is_a_power_of_two_that_grows_with_the_public_sizes(self, schema, request_, units, per_unit, more):
        found = asked(schema, request_, units=units)
        wider = dataclasses.replace(found, schema=dataclasses.replace(found.schema, per_unit=per_unit))
        larger = dataclasses.replace(found, units=units + more)
        usual = requests.usual_seconds(found)
        assert usual >= 2
        for other in (wider, larger):
            assert requests.usual_seconds(other) >= usual
            assert is_power_of_two(requests.usual_seconds(other))

    @pytest.mark.parametrize(("schema", "request_"), REQUESTS)
    def test_grows_at_some_point(self, schema, request_):
        few, many = (requests.usual_seconds(asked(schema, request_, units=units)) for units in (200, 10**8))
        assert many > few == 2

    @pytest.mark.parametrize(("schema", "request_"), REQUESTS)
    def test_knows_neither_where_the_data_lies_nor_whose_it_is(self, schema, request_):
        parsed, labels = documents.schema_of(schema)
        one, other = (
            catalogue.Dataset(name, name, name, name, "ready", parsed, labels, 200, name, name) for name in ("a", "b")
        )
        assert requests.asked(one, request_) == requests.asked(other, request_)

    def test_a_larger_budget_makes_no_difference(self):
        rich = services.APVI | {"privacy": {"rho": "50"}}
        for units in (200, 10**7):
            usual = [requests.usual_seconds(asked(services.TABULAR, one, units=units)) for one in (services.APVI, rich)]
            assert usual[0] == usual[1]

    def test_is_at_least_twice_what_was_measured_of_every_learner_and_size(self):
        """Whatever comes late tells of how long the data took: a doubling has to be rare."""
        points = json.loads(growth.POINTS.read_text(encoding="utf-8"))
        measured = [
            (scale.asked(point["learner"], curve.schema(size), curve.units(size)), seconds)
            for curve in growth.CURVES
            for point in points
            if (point["letter"], point["learner"]) in curve.drawn
            for size, seconds in zip(point["sizes"], point["seconds"], strict=True)
        ]
        assert len(measured) == 3 * len(points)
        for found, seconds in measured:
            assert requests.usual_seconds(found) >= 2 * seconds, found


class TestDue:
    @given(exponent=st.integers(1, 20), elapsed=st.floats(0, 1e9))
    def test_is_the_first_doubling_that_is_not_over(self, exponent, elapsed):
        usual = 2.0**exponent
        due = requests.due(usual, elapsed)
        assert is_power_of_two(due)
        assert due >= max(usual, elapsed)
        assert due == usual or due / 2 < elapsed

    def test_everything_that_is_ready_in_time_appears_at_the_same_moment(self):
        assert {requests.due(8.0, elapsed) for elapsed in (0.0, 0.1, 7.9, 8.0)} == {8.0}
        assert {requests.due(8.0, elapsed) for elapsed in (8.1, 12.0, 16.0)} == {16.0}
