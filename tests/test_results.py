"""What a service gave, asked and drawn without it."""

import dataclasses
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.client import Budget, Policy
from discretion.learning import vapvi
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.features import Blocks
from discretion.learning.policy import of_table
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from tests import certified


class TestPolicy:
    @pytest.mark.parametrize("kind", ["table", "blocks"])
    def test_is_drawn_as_a_map(self, kind, tmp_path):
        policy = drawn(kind)
        figure = policy.plot(tmp_path / "map.png", scores=True)
        assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
        assert [panel.get_xlabel() for panel in figure.axes[:2]] == ["step", "step"]

    def test_shows_every_decision_and_hatches_what_was_not_learned(self):
        policy = drawn("table")
        colours, hatched = policy.plot().axes[0].collections
        shown: Any = colours.get_array()
        rule: Any = policy.rule.rule
        assert shown.reshape(rule.decisions.T.shape).tolist() == rule.decisions.T.tolist()
        assert len(hatched.get_paths()) == (~rule.learned).sum() > 0

    def test_a_dollar_sign_in_a_label_begins_no_formula(self, tmp_path):
        policy = drawn("table")
        named = policy.document | {"actions": {"count": 2, "labels": [r"$\frac{$", "wait"]}}
        figure = dataclasses.replace(policy, text=json.dumps(named)).plot(tmp_path / "map.png")
        assert figure.legends[0].get_texts()[0].get_text() == r"$\frac{$"

    def test_a_column_that_is_none_is_refused(self):
        with pytest.raises(errors.InvalidParameter, match="age"):
            drawn("blocks").plot(column="height")
        with pytest.raises(errors.InvalidParameter, match="leave"):
            drawn("table").plot(column="height")

    def test_changed_by_hand_it_does_not_verify(self):
        with pytest.raises(errors.InvalidCertificate):
            dataclasses.replace(drawn("table"), text=drawn("blocks").text).verify()


def drawn(kind: str) -> Policy:
    """A policy that is partly learned, with another's certificate."""
    draw = np.random.default_rng(0)
    if kind == "table":
        learned = draw.random((3, 4)) < 0.5
        made = of_table(
            "dp-apvi", Schema(3, Discrete(4), 2), draw.integers(2, size=(3, 4)), learned, draw.random((3, 4))
        )
    else:
        vector = Vector(("age", "dose"), ((0.0, 1.0), (0.0, 2.0)))
        block = block_of(draw.random((2, 50, 2)), draw.integers(2, size=(2, 50)), draw.random((2, 50)))
        curator = Curator(Trajectories(Schema(2, vector, 2), 50, [block]), Fraction(1))
        features = Blocks(vector, 2, ("1", "age", "dose"))
        made = vapvi.learn(curator, Concentrated(Fraction(1)), vapvi.Parameters(features))
    other = certified.made("gaussian")
    return Policy(made.canonical().decode(), json.dumps(other.certify()), certified.KEYS)


SAID = {
    "total": "2",
    "charged": "0.5",
    "reserved": "0.25",
    "remaining": "1.25",
    "epsilon": [{"delta": 1e-6, "charged": 5.3, "total": 12.0}],
}


class TestBudget:
    @pytest.mark.parametrize(("granted", "left"), [(None, "1.25"), ("0.3", "0.3"), ("1.5", "1.25")])
    def test_what_is_left_is_the_lesser_of_budget_and_grant(self, granted, left):
        grant = granted and {"rho": "2", "remaining": granted}
        assert Budget.of(SAID | {"grant": grant}).left == Decimal(left)

    def test_what_was_charged_is_said_as_epsilon_at_a_known_delta_only(self):
        found = Budget.of(SAID)
        assert found.epsilon() == 5.3
        with pytest.raises(errors.InvalidParameter, match="1e-06"):
            found.epsilon(delta=0.5)
