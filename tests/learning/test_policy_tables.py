"""Tables of policies are written to the bytes that RFC 8785 asks for, and nothing but numbers is read as one."""

import json

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import policy, policy_tables
from discretion.learning.schemas import Discrete

SCORES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1e-7, 1e16, 1e21, 5e-324, 100.0]
)


def made(scores: list[float]) -> policy.Policy:
    table = np.array([scores])
    learned = np.arange(len(scores)).reshape(1, -1) % 2 == 0
    rule = policy.Table(np.zeros(table.shape, np.int64), learned, table)
    return policy.Policy("dp-pae", 1, Discrete(len(scores)), 2, rule, labels=("true", 'fal"se'))


class TestCanonical:
    @given(st.lists(SCORES, min_size=1, max_size=20))
    def test_is_what_rfc_8785_makes_of_the_document(self, scores):
        assert made(scores).canonical() == rfc8785.dumps(made(scores).document())

    @given(st.lists(SCORES, min_size=1, max_size=20))
    def test_is_read_back(self, scores):
        assert policy.parse(made(scores).canonical()).canonical() == made(scores).canonical()


class TestParse:
    @pytest.mark.parametrize("value", [True, "1", "0", [0], None])
    @pytest.mark.parametrize("name", policy_tables.NAMES)
    def test_what_is_written_as_something_else_is_no_cell(self, name, value):
        document = made([0.0, 1.0]).document()
        document[name][0][1] = value
        with pytest.raises(errors.InvalidPolicy):
            policy.parse(json.dumps(document))

    def test_a_key_beside_the_known_ones_is_refused(self):
        with pytest.raises(errors.InvalidPolicy, match="does not know"):
            policy.parse(json.dumps(made([0.0]).document() | {"seed": 1}))

    def test_numbers_may_be_spelt_otherwise(self):
        text = (
            json.dumps(made([1.0, 2.5]).document())
            .replace("2.5", "25e-1")
            .replace('"decisions": [[0,', '"decisions": [[0.0,')
        )
        assert policy.parse(text).canonical() == made([1.0, 2.5]).canonical()
