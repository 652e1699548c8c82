"""Terms: the value of each, the forms that are refused, and that what a record gets is its own."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import terms
from discretion.learning.schemas import Vector
from discretion.learning.terms import Bin, Cosine, Hinge, Missing, Product

untimed = settings(deadline=None)
VECTOR = Vector(("age", "lactate", "pulse"), ((0.0, 100.0), (0.0, 16.0), (-1.0, 3.0)), missing=("lactate",))
EVERY: list[Any] = [
    "1",
    "age",
    {"hinge": "lactate", "at": 4.0, "side": "above"},
    {"hinge": "age", "at": 18.0, "side": "below"},
    {"bin": "lactate", "from": 2.0, "to": 4.0},
    {"bin": "age", "from": 65.0, "to": None},
    {"cosine": {"age": 0.1, "pulse": 1.0}, "phase": 0.5},
    {"missing": "lactate"},
    {"product": ["age", {"hinge": "lactate", "at": 4.0, "side": "above"}]},
    {"product": ["pulse", "pulse"]},
    {"product": [{"missing": "lactate"}, "age"]},
]


def values(term: Any, *states: tuple[float, ...]) -> list[float]:
    checked = terms.check([terms.of(term)], VECTOR)
    (row,) = terms.Evaluation(VECTOR, np.array(states)).rows(checked)
    return [float(x) for x in row]


def every() -> tuple[terms.Term, ...]:
    return terms.check([terms.of(term) for term in EVERY], VECTOR)


class TestOf:
    @pytest.mark.parametrize("document", EVERY, ids=str)
    def test_a_term_is_written_as_it_is_read(self, document: Any) -> None:
        (read,) = terms.check([terms.of(json.loads(json.dumps(document)))], VECTOR)
        assert json.loads(json.dumps(terms.document(read))) == document or isinstance(read, Product)
        assert terms.of(terms.document(read)) == read

    @pytest.mark.parametrize(
        "document",
        [
            None,
            1,
            ["age"],
            {},
            {"hinge": "age"},
            {"hinge": "age", "at": 5, "side": "over"},
            {"hinge": "age", "at": "5", "side": "above"},
            {"hinge": "age", "at": math.nan, "side": "above"},
            {"hinge": "age", "at": True, "side": "above"},
            {"hinge": ["age"], "at": 5, "side": "above"},
            {"hinge": "age", "at": 5, "side": "above", "more": 1},
            {"bin": "age", "from": 1, "until": 2},
            {"bin": 3, "from": 1},
            {"cosine": ["age"]},
            {"cosine": {"age": math.inf}},
            {"cosine": {"age": 1}, "phase": None},
            {"missing": None},
            {"missing": "lactate", "bin": "age"},
            {"product": "age"},
            {"product": ["age", {"product": ["age", "pulse"]}]},
            {"sine": {"age": 1}},
        ],
        ids=str,
    )
    def test_what_has_none_of_the_forms_is_refused(self, document: Any) -> None:
        with pytest.raises(errors.InvalidFeatures):
            terms.of(document)


class TestCheck:
    @pytest.mark.parametrize(
        ("document", "text"),
        [
            ("weight", "'weight'"),
            ({"hinge": "weight", "at": 1, "side": "above"}, "'weight'"),
            ({"product": ["age", "weight"]}, "'weight'"),
            ({"missing": "weight"}, "'weight'"),
            ({"hinge": "age", "at": 0, "side": "above"}, "strictly inside its bounds 0 to 100"),
            ({"hinge": "age", "at": 100, "side": "below"}, "strictly inside"),
            ({"hinge": "age", "at": 101, "side": "above"}, "strictly inside"),
            ({"bin": "age", "from": 0, "to": 100}, "not all of them"),
            ({"bin": "age"}, "not all of them"),
            ({"bin": "age", "from": 100, "to": 200}, "must hold some"),
            ({"bin": "age", "from": -5, "to": 0}, "must hold some"),
            ({"bin": "age", "from": 50, "to": 50}, "must hold some"),
            ({"bin": "age", "from": 60, "to": 50}, "must hold some"),
            ({"cosine": {}}, "turn it"),
            ({"cosine": {"age": 0}}, "turn it"),
            ({"cosine": {"age": 1, "pulse": 0}}, "turn it"),
            ({"cosine": {"age": 1e-6}}, "turn it"),
            ({"cosine": {"age": 1e3}}, "turn it"),
            ({"cosine": {"age": 1.0}, "phase": 10}, "within one turn"),
            ({"missing": "age"}, "not declared"),
            ({"product": ["age"]}, "two factors"),
            ({"product": ["age", "1"]}, "two factors"),
            ({"product": [{"missing": "lactate"}, "lactate"]}, "zero for every state"),
            ({"product": [{"missing": "lactate"}, {"cosine": {"age": 1, "lactate": 1}}]}, "zero for every state"),
            ({"product": [{"bin": "age", "to": 20}, {"hinge": "age", "at": 30, "side": "above"}]}, "leave no value"),
            ({"product": [{"bin": "age", "to": 20}, {"bin": "age", "from": 20}]}, "leave no value"),
        ],
        ids=str,
    )
    def test_a_term_that_says_nothing_about_any_state_is_refused(self, document: Any, text: str) -> None:
        with pytest.raises(errors.InvalidFeatures, match=text):
            terms.check([terms.of(document)], VECTOR)

    @pytest.mark.parametrize(
        "twice",
        [
            ("age", "age"),
            (Product(("age", "pulse")), Product(("pulse", "age"))),
            (Bin("age", 20.0, None), Bin("age", 20.0, 300.0)),
            (Cosine((("age", 1.0), ("pulse", 1.0))), Cosine((("pulse", 1.0), ("age", 1.0)))),
        ],
        ids=str,
    )
    def test_a_term_that_stands_twice_in_whatever_form_is_refused(self, twice: Any) -> None:
        with pytest.raises(errors.InvalidFeatures, match="each of them once"):
            terms.check(twice, VECTOR)


class TestEvaluation:
    def test_a_hinge_rises_from_its_cut_off_to_the_bound(self) -> None:
        states = [(0.0, 0.0, 0.0), (18.0, 4.0, 0.0), (59.0, 10.0, 0.0), (100.0, 16.0, 0.0), (1e9, math.inf, 0.0)]
        assert values({"hinge": "lactate", "at": 4, "side": "above"}, *states) == [0, 0, 0.5, 1, 1]
        assert values({"hinge": "age", "at": 18, "side": "below"}, *states, (9.0, 0.0, 0.0)) == [1, 0, 0, 0, 0, 0.5]

    def test_a_bin_holds_its_lower_edge_and_the_bound(self) -> None:
        ages = [(age, 0.0, 0.0) for age in (-5.0, 0.0, 19.9, 20.0, 64.9, 65.0, 100.0, 1e300)]
        assert values({"bin": "age", "from": 20, "to": 65}, *ages) == [0, 0, 0, 1, 1, 0, 0, 0]
        assert values({"bin": "age", "from": 65, "to": 100}, *ages) == [0, 0, 0, 0, 0, 1, 1, 1]
        assert values({"bin": "age", "from": -1, "to": 20}, *ages) == [1, 1, 1, 0, 0, 0, 0, 0]

    def test_a_product_multiplies(self) -> None:
        state = (75.0, 10.0, 2.0)
        assert values({"product": ["age", "pulse"]}, state) == [0.5 * 0.5]
        assert values({"product": ["age", "age", {"bin": "pulse", "from": 1}]}, state) == [0.25]

    def test_a_term_that_needs_a_missing_value_is_zero(self) -> None:
        there, missing = (50.0, 16.0, 1.0), (50.0, math.nan, 1.0)
        assert values({"missing": "lactate"}, there, missing) == [0, 1]
        for term in (
            "lactate",
            {"hinge": "lactate", "at": 4, "side": "above"},
            {"bin": "lactate", "from": 4},
            {"cosine": {"lactate": 0.1, "age": 0.01}},
            {"product": ["lactate", "lactate"]},
        ):
            found = values(term, there, missing)
            assert found[0] != 0
            assert found[1] == 0
        assert values({"product": [{"missing": "lactate"}, "pulse"]}, (0.0, math.nan, 3.0), (0.0, 1.0, 3.0)) == [1, 0]

    def test_a_cosine_is_in_the_columns_own_units(self) -> None:
        found = values({"cosine": {"age": 0.1, "pulse": -2.0}, "phase": 1.5}, (40.0, 0.0, 0.5), (0.0, 0.0, 0.0))
        assert found == pytest.approx([math.cos(4.0 - 1.0 + 1.5), math.cos(1.5)], abs=1e-10)

    @untimed
    @given(st.lists(st.tuples(*[st.floats()] * 3), min_size=1, max_size=5))
    def test_no_state_there_is_takes_a_term_beyond_one(self, states: list[tuple[float, ...]]) -> None:
        states = [(0.0 if math.isnan(a) else a, b, 0.0 if math.isnan(c) else c) for a, b, c in states]
        for row in terms.Evaluation(VECTOR, np.array(states)).rows(every()):
            assert (np.abs(row) <= 1).all()

    def test_a_records_terms_are_its_own_in_any_company(self) -> None:
        rng = np.random.default_rng(0)
        states = rng.uniform(VECTOR.low, VECTOR.high, (1003, 3))
        states[::7, 1] = np.nan
        together = np.array(list(terms.Evaluation(VECTOR, states).rows(every())))
        for size in (1, 2, 3, 7, 8, 64):
            pieces = [states[start : start + size] for start in range(0, 100, size)]
            apart = [np.array(list(terms.Evaluation(VECTOR, piece).rows(every()))) for piece in pieces]
            found = np.concatenate(apart, axis=1)
            assert found.tobytes() == together[:, : found.shape[1]].tobytes()
        backwards = np.array(list(terms.Evaluation(VECTOR, states[::-1]).rows(every())))
        assert backwards[:, ::-1].tobytes() == together.tobytes()


class TestCosine:
    @untimed
    @given(st.floats(-7000, 7000))
    def test_it_is_the_cosine(self, angle: float) -> None:
        assert float(terms.cosine(np.array([angle]))[0]) == pytest.approx(math.cos(angle), abs=1e-10)

    def test_it_stays_within_one_where_the_cosine_is_one(self) -> None:
        found = terms.cosine(np.arange(-50.0, 50.0, dtype=np.float64) * math.pi)
        assert np.abs(found).max() <= 1
        assert np.abs(found).min() > 1 - 1e-10


class TestMissing:
    def test_the_columns_of_a_term_are_those_whose_value_it_needs(self) -> None:
        assert terms.columns(Product((Missing("lactate"), Hinge("age", 1.0, "above"), "pulse"))) == {"age", "pulse"}
        assert terms.columns("1") == frozenset()
