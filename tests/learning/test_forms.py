"""What a request for a learner says wrongly is told in words that say what to do."""

from typing import Any

import pytest

from discretion import errors
from discretion.learning import forms
from discretion.learning.schemas import Discrete, Schema, Vector

WARD = Schema(3, Discrete(4), 2)
BEDSIDE = Schema(3, Vector(("age", "lactate"), ((0, 120), (0, 30))), 2)
TABLE = {"kind": "table", "values": [[[1.0, 0.0], [0.0, 1.0]]] * 4}


def blocks(*terms: Any) -> dict[str, Any]:
    return {"kind": "blocks", "terms": ["1", *terms]}


class TestRead:
    @pytest.mark.parametrize(
        ("schema", "features", "more", "told"),
        [
            (
                WARD,
                TABLE,
                {"dynamics": "stationary"},
                "is for vector states, and these are discrete: leave dynamics out",
            ),
            (BEDSIDE, TABLE, {"dynamics": "stationary"}, 'needs features of kind "blocks", not "table"'),
            (BEDSIDE, TABLE, {}, 'use "blocks" or "bins" for vectors'),
            (WARD, blocks("age"), {}, 'use a "table" for discrete ones'),
            (BEDSIDE, {"kind": "bins", "edges": {"age": []}}, {}, "give the numbers at which it is cut, or leave"),
            (
                BEDSIDE,
                {"kind": "bins", "edges": {"age": ["65"]}},
                {},
                r"edges\.age must be finite numbers without quotes",
            ),
            (
                BEDSIDE,
                blocks({"hinge": "age", "at": "65", "side": "above"}),
                {},
                '"at" of a term must be a finite number',
            ),
            (
                BEDSIDE,
                blocks({"bin": "age", "from": "65"}),
                {},
                '"from" of a term must be a finite number, without quotes',
            ),
            (BEDSIDE, blocks({"cosine": {"age": "1"}}), {}, '"cosine" of a term must be a finite number'),
            (BEDSIDE, blocks({"hinge": "age", "at": 65}), {}, 'written {"hinge": COLUMN, "at": NUMBER, "side"'),
            (BEDSIDE, blocks({"product": [["age"]]}), {}, "A term must be a column"),
            (BEDSIDE, blocks({"product": "age"}), {}, "A product is written"),
        ],
    )
    def test_says_what_is_wrong_and_what_to_do(
        self, schema: Schema, features: dict[str, Any], more: dict[str, Any], told: str
    ) -> None:
        with pytest.raises((errors.InvalidParameter, errors.InvalidFeatures), match=told):
            forms.read("dp-vapvi", {"features": features} | more, schema)

    def test_what_is_right_beside_it_is_taken(self) -> None:
        assert forms.read("dp-vapvi", {"features": TABLE}, WARD) is not None
        for dynamics in ("stationary", "per_step"):
            assert forms.read("dp-vapvi", {"features": blocks("age"), "dynamics": dynamics}, BEDSIDE) is not None
        assert forms.read("dp-vapvi", {"features": {"kind": "bins", "edges": {"age": [65]}}}, BEDSIDE) is not None
