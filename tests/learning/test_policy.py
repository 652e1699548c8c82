"""The released artefact: its canonical bytes, what it decides, and that nothing else is ever read as one."""

import hashlib
import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import policy, terms
from discretion.learning.features import Bins, Blocks
from discretion.learning.policy import Linear, Policy, Pooled, Table
from discretion.learning.pooled_values import Score
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.values import linear_score

untimed = settings(deadline=None)
# Columns and edges in an order that is not the alphabet's.
VECTOR = Vector(("pulse", "age"), ((-1.0, 3.0), (0.0, 100.0)))
BINS = Bins.of(VECTOR, 3, {"pulse": [0.0, 1.0], "age": [65.0]})


def tabular() -> Policy:
    rule = Table(
        np.array([[0, 2], [1, 0]]), np.array([[True, False], [True, True]]), np.array([[1.5, 0.0], [-2.0, 3.0]])
    )
    return Policy("dp-apvi", 2, Discrete(2), 3, rule, labels=("none", "some", "all"))


def binned() -> Policy:
    rng = np.random.default_rng(0)
    rule = Table(rng.integers(0, 3, (2, 6)), rng.random((2, 6)) < 0.5, np.round(rng.normal(size=(2, 6)), 6), BINS)
    return Policy("dp-vapvi", 2, VECTOR, 3, rule, id="pol_1")


def linear() -> Policy:
    rng = np.random.default_rng(1)
    blocks = Blocks(VECTOR, 3, ("pulse", "1", "age"))
    roots = rng.normal(size=(2, 3, 3, 3))
    scores = tuple(
        linear_score(rng.normal(size=(3, 3)), root @ root.transpose(0, 2, 1), 0.05, 0.01, 2.0 - step, 2.0)
        for step, root in enumerate(roots)
    )
    return Policy("dp-vapvi", 2, VECTOR, 3, Linear(blocks, scores, low=-1.0, width=4.0))


def pooled(informed: bool = True) -> Policy:
    rng = np.random.default_rng(2)
    vector = replace(VECTOR, missing=("age",))
    hinge, seen = terms.Hinge("pulse", 1.0, "above"), terms.Missing("age")
    blocks = Blocks(vector, 3, ("1", "age", hinge, terms.Product(("pulse", seen)), terms.Bin("age", None, 65.0)))
    scores = tuple(
        Score(0.5, 0.4, informed, rng.normal(size=(3, 5)), rng.normal(size=(3, 5)) / 9, np.array([0.25, 0.5, 0.25]))
        for _ in range(2)
    )
    return Policy("dp-vapvi", 2, vector, 3, Pooled(blocks, scores, horizon=2, width=4.0))


MADE = (tabular(), binned(), linear(), pooled())
KINDS = pytest.mark.parametrize("made", MADE, ids=["table", "bins", "linear", "pooled"])
DOCUMENTS = [p.document() for p in MADE]


def states(made: Policy) -> list[Any]:
    if isinstance(made.states, Discrete):
        return list(range(made.states.count))
    grid = itertools.product([-1.0, -0.5, 0.0, 0.7, 1.0, 2.9], [0.0, 30.0, 64.9, 65.0, 99.0])
    return [{"pulse": pulse, "age": age} for pulse, age in grid]


def decisions(made: Policy) -> list[policy.Decision]:
    return [made.decide(step, state) for step in range(1, made.horizon + 1) for state in states(made)]


class TestCanonical:
    def test_the_bytes_are_those_written_by_hand(self) -> None:
        assert tabular().canonical().decode() == (
            '{"actions":{"count":3,"labels":["none","some","all"]},"algorithm":"dp-apvi","decisions":[[0,2],[1,0]],'
            '"horizon":2,"pessimistic_score":[[1.5,0],[-2,3]],'
            '"source":[["learned","fallback"],["learned","learned"]],"states":{"count":2,"kind":"discrete"},'
            '"value_lower_bound":null}'
        )

    @KINDS
    def test_the_bytes_are_those_of_the_standard(self, made: Policy) -> None:
        assert made.canonical() == rfc8785.dumps(json.loads(json.dumps(made.document())))
        assert made.digest() == hashlib.sha256(made.canonical()).hexdigest()

    def test_letters_beyond_ascii_are_written_as_they_are(self) -> None:
        made = Policy("x", 2, Discrete(2), 3, tabular().rule, labels=("ä", '"\n', "Ω"))
        assert '["ä","\\"\\n","Ω"]'.encode() in made.canonical()

    @pytest.mark.parametrize("high", [2**60, 1e18, 1e21])
    def test_bounds_that_are_large_whole_numbers_have_bytes_too(self, high: float) -> None:
        wide = Vector(("a",), ((0, high),))
        bins = Bins.of(wide, 1, {"a": [5.0]})
        rule = Table(np.zeros((1, 2), dtype=int), np.ones((1, 2), dtype=bool), np.zeros((1, 2)), bins)
        made = Policy("x", 1, wide, 1, rule)
        assert policy.parse(made.canonical()).digest() == made.digest()


class TestDecide:
    def test_a_table_is_looked_up(self) -> None:
        assert tabular().decide(1, 0) == policy.Decision(0, "none", "learned", 1.5)
        assert tabular().decide(1, 1) == policy.Decision(2, "all", "fallback", 0.0)
        assert tabular().decide(2, 0) == policy.Decision(1, "some", "learned", -2.0)

    def test_a_vector_is_looked_up_in_its_cell(self) -> None:
        made = binned()
        assert isinstance(made.rule, Table)
        assert made.rule.bins is not None
        for state in states(made):
            pulse, age = state["pulse"], state["age"]
            cell = int(made.rule.bins.cells(np.array([pulse, age])))
            found = made.decide(2, state)
            assert (found.action, found.label) == (made.rule.decisions[1, cell], None)
            assert found.pessimistic_score == made.rule.scores[1, cell]
            assert found.source == ("learned" if made.rule.learned[1, cell] else "fallback")

    def test_weights_decide_for_the_best_score_of_what_was_seen_and_else_for_the_best_covered_action(self) -> None:
        made = linear()
        assert isinstance(made.rule, Linear)
        sources = set()
        for step, state in itertools.product((1, 2), states(made)):
            psi = made.rule.features.psi(np.array([[state["pulse"], state["age"]]]))
            scores, spread = (f(psi)[:, 0] for f in (made.rule.scores[step - 1].of, made.rule.scores[step - 1].spread))
            scores = np.where((psi**2).sum() / 2**32 / spread > 2.0, scores, 0.0)
            found = made.decide(step, state)
            assert found.action == (scores.argmax() if scores.max() > 0 else spread.argmin())
            assert found.pessimistic_score == pytest.approx(4 * scores.max() - (3 - step), abs=1e-6)
            sources.add(found.source)
        assert sources == {"learned", "fallback"}

    def test_a_pooled_policy_decides_for_the_best_supported_action(self) -> None:
        made, sources = pooled(), set()
        assert isinstance(made.rule, Pooled)
        for step, state in itertools.product((1, 2), states(made)):
            score = made.rule.groups[step - 1]
            psi = made.rule.features.psi(np.array([[state["pulse"], state["age"]]]))
            mean, share = score.mean(psi)[:, 0], score.share(psi)[:, 0]
            supported = share >= 0.4 * share.max()
            found = made.decide(step, state)
            best = int(np.where(supported, mean, -np.inf).argmax()) if supported.sum() > 1 else int(share.argmax())
            assert (found.action, found.source == "learned") == (best, supported.sum() > 1)
            assert found.pessimistic_score == pytest.approx(4.0 * mean[best], abs=1e-6)
            sources.add(found.source)
        assert sources == {"learned", "fallback"}

    def test_a_pooled_policy_that_learned_nothing_says_so_everywhere(self) -> None:
        assert {decision.source for decision in decisions(pooled(informed=False))} == {"fallback"}

    @KINDS
    def test_many_states_are_decided_as_one_by_one(self, made: Policy) -> None:
        every = [tuple(s.values()) if isinstance(s, dict) else s for s in states(made)]
        actions, learned, scores = made.judge(2, np.array(every))
        for index, state in enumerate(states(made)):
            found = made.decide(2, state)
            assert (found.action, found.pessimistic_score) == (actions[index], scores[index])
            assert (found.source == "learned") == learned[index]

    def test_a_value_that_may_be_missing_is_given_as_none(self) -> None:
        assert pooled().decide(1, {"pulse": 0.0, "age": None}).action in range(3)
        with pytest.raises(errors.InvalidState, match="'pulse' must be a finite number"):
            pooled().decide(1, {"pulse": None, "age": 1.0})

    @pytest.mark.parametrize("made", [binned(), linear(), pooled()], ids=["bins", "linear", "pooled"])
    def test_states_beyond_their_bounds_are_taken_at_the_bounds(self, made: Policy) -> None:
        assert made.decide(1, {"pulse": 1e9, "age": -5}) == made.decide(1, {"pulse": 3.0, "age": 0})

    @KINDS
    @pytest.mark.parametrize("step", [0, 3, -1, 1.0, True, "1", None, 10**400], ids=lambda step: repr(step)[:20])
    def test_a_step_out_of_range_is_refused(self, made: Policy, step: Any) -> None:
        with pytest.raises(errors.InvalidState, match="step must be a whole number from 1 to 2"):
            made.decide(step, states(made)[0])

    @pytest.mark.parametrize("state", [-1, 2, 0.0, True, "0", None, {"pulse": 0}, 10**400], ids=lambda s: repr(s)[:20])
    def test_a_state_out_of_range_is_refused(self, state: Any) -> None:
        with pytest.raises(errors.InvalidState, match="state must be a whole number from 0 to 1"):
            tabular().decide(1, state)

    @pytest.mark.parametrize("made", [binned(), linear()], ids=["bins", "linear"])
    @pytest.mark.parametrize("value", [np.nan, np.inf, "1", None, True, [1], 10**400], ids=lambda v: repr(v)[:20])
    def test_a_column_that_is_no_number_is_refused_by_name(self, made: Policy, value: Any) -> None:
        with pytest.raises(errors.InvalidState, match="'age' must be a finite number"):
            made.decide(1, {"pulse": 0.0, "age": value})
        for state in ({}, {"pulse": 0.0}, {"pulse": 0.0, "age": 1.0, "more": 2.0}, 0, None, [0.0, 1.0]):
            with pytest.raises(errors.InvalidState, match="exactly the columns pulse, age"):
                made.decide(1, state)  # type: ignore[arg-type]


class TestTabular:
    def test_a_row_of_zeros_is_never_decided_by_its_arg_max(self) -> None:
        scores = np.zeros((2, 3, 4))
        scores[0, 1, 3], scores[1, 2, 1] = 0.5, 1e-12
        fallback = np.array([[2, 2, 2], [3, 3, 3]])
        made = policy.tabular("x", Schema(2, Discrete(3), 4, reward=(-1.0, 3.0)), scores, fallback)
        found = [[made.decide(step, state) for state in range(3)] for step in (1, 2)]
        assert [[d.action for d in row] for row in found] == [[2, 3, 2], [3, 3, 1]]
        assert [[d.source == "learned" for d in row] for row in found] == [[False, True, False], [False, False, True]]
        assert [[d.pessimistic_score for d in row] for row in found] == [[-2, 0, -2], [-1, -1, -1]]

    @untimed
    @given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=12, max_size=12), st.integers(0, 2))
    def test_every_decision_is_the_best_score_or_the_fallback(self, flat: list[float], fallback: int) -> None:
        scores = np.array(flat).reshape(2, 2, 3)
        made = policy.tabular("x", Schema(2, Discrete(2), 3), scores, np.full((2, 2), fallback))
        for step, state in itertools.product(range(2), range(2)):
            found, row = made.decide(step + 1, state), scores[step, state]
            assert (found.source == "learned") == bool(row.any())
            assert row[found.action] == row.max() if row.any() else found.action == fallback
