"""The released artefact: its canonical bytes, what it decides, and that nothing else is ever read as one."""

import hashlib
import itertools
import json
from collections.abc import Iterator
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
from discretion.learning.scores import Score
from discretion.learning.trajectories import Discrete, Schema, Vector
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
        linear_score(rng.normal(size=(3, 3)), root @ root.transpose(0, 2, 1), 0.05, 0.01, 2.0 - step)
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


def ordered(document: Any, reverse: bool) -> Any:
    if isinstance(document, dict):
        return {key: ordered(document[key], reverse) for key in sorted(document, reverse=reverse)}
    return [ordered(value, reverse) for value in document] if isinstance(document, list) else document


class TestParse:
    @KINDS
    def test_what_was_written_is_read_back(self, made: Policy) -> None:
        read = policy.parse(made.canonical())
        assert read.canonical() == made.canonical()
        assert (read.algorithm, read.horizon, read.actions) == (made.algorithm, made.horizon, made.actions)
        assert (read.states, read.labels, read.id) == (made.states, made.labels, made.id)
        assert decisions(read) == decisions(made)

    @KINDS
    @pytest.mark.parametrize("indent", [None, 4])
    def test_spacing_and_the_order_of_keys_matter_to_nothing(self, made: Policy, indent: Any) -> None:
        for document in (made.document(), *(ordered(made.document(), reverse) for reverse in (True, False))):
            for text in (json.dumps(document, indent=indent), json.dumps(document, ensure_ascii=False).encode()):
                read = policy.parse(text)
                assert read.digest() == made.digest()
                assert decisions(read) == decisions(made)

    @pytest.mark.parametrize(
        "text",
        [
            *["", " ", "{", "null", "[]", "{}", "3", '"policy"', "[" * 100_000, '{"a":' * 100_000, "9" * 5000, "\x00"],
            *["\ud800", b"\xff\xfe", b"\x80", json.dumps(DOCUMENTS[0]).encode("utf-16"), b"\xef\xbb\xbf{}"],
        ],
        ids=lambda text: repr(text)[:20],
    )
    def test_what_is_no_json_document_in_utf_8_is_refused(self, text: Any) -> None:
        with pytest.raises(errors.InvalidPolicy, match="not a policy document"):
            policy.parse(text)

    @pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400])
    def test_a_number_that_is_none_is_refused(self, constant: str) -> None:
        for document in DOCUMENTS:
            for text in numbers_replaced(document, constant):
                with pytest.raises(errors.InvalidPolicy, match="not a policy document"):
                    policy.parse(text)

    def test_a_key_that_stands_twice_is_refused(self) -> None:
        text = json.dumps(DOCUMENTS[0])
        for twice in (text[:-1] + ', "horizon": 2}', text.replace('"count": 3', '"count": 2, "count": 3')):
            with pytest.raises(errors.InvalidPolicy, match="twice"):
                policy.parse(twice)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("decisions",), [[0, 2]]),
            (("decisions",), [[0, 2], [1]]),
            (("decisions",), [[[0], [2]], [[1], [0]]]),
            (("decisions", 0, 0), 3),
            (("decisions", 0, 0), -1),
            (("decisions", 0, 0), 0.5),
            (("decisions", 0, 0), None),
            (("decisions", 0, 0), "1"),
            (("decisions", 0, 0), True),
            (("pessimistic_score", 0), [1.0]),
            (("pessimistic_score", 0, 0), "1.5"),
            (("pessimistic_score", 0, 0), False),
            (("source", 0, 0), "guessed"),
            (("source", 0, 0), True),
            (("source",), [["learned"]]),
            (("horizon",), 3),
            (("horizon",), 0),
            (("horizon",), True),
            (("horizon",), "2"),
            (("actions", "count"), 2),
            (("actions", "count"), 0),
            (("actions", "labels"), ["a"]),
            (("actions", "labels"), "abc"),
            (("actions", "labels"), [1, 2, 3]),
            (("actions", "more"), 1),
            (("states", "count"), 3),
            (("states", "kind"), "Discrete"),
            (("states", "more"), 1),
            (("algorithm",), None),
            (("algorithm",), 5),
            (("algorithm",), "\ud800"),
            (("id",), None),
            (("id",), {"a": 1}),
            (("value_lower_bound",), 0),
            (("unheard_of",), None),
        ],
        ids=str,
    )
    def test_a_field_that_is_wrong_is_refused(self, path: tuple[Any, ...], value: Any) -> None:
        check_refused(DOCUMENTS[0], path, value)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("features", "kind"), "blocks"),
            (("features", "more"), 1),
            (("features", "edges", "pulse"), [1.0, 0.0]),
            (("features", "edges", "pulse"), [-1.0, 0.0]),
            (("features", "edges", "pulse", 0), "0.0"),
            (("features", "edges", "weight"), [1.0]),
            (("features", "edges"), {}),
            (("features", "edges"), []),
            (("states", "columns"), ["pulse", "pulse"]),
            (("states", "columns"), "ab"),
            (("states", "columns", 0), 1),
            (("states", "bounds"), [[0, 1]]),
            (("states", "bounds", 0), [3, -1]),
            (("states", "kind"), "matrix"),
            (("id",), 7),
        ],
        ids=str,
    )
    def test_a_field_of_binned_states_that_is_wrong_is_refused(self, path: tuple[Any, ...], value: Any) -> None:
        check_refused(DOCUMENTS[1], path, value)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("features", "kind"), "bins"),
            (("features", "terms"), ["pulse", "1", "1"]),
            (("features", "terms"), ["pulse", "1", "weight"]),
            (("features", "terms"), ["pulse"]),
            (("steps",), []),
            (("steps", 0), {}),
            (("steps", 0, "more"), 1),
            (("steps", 0, "weights"), [[1.0]]),
            (("steps", 0, "weights", 0, 0), "1.0"),
            (("steps", 0, "bonus"), [1.0]),
            (("steps", 0, "bonus"), True),
            (("steps", 0, "margin"), None),
            (("reward", "low"), "0"),
            (("reward", "more"), 1),
            (("states",), {"kind": "discrete", "count": 2}),
            (("decisions",), [[0, 2], [1, 0]]),
        ],
        ids=str,
    )
    def test_a_field_of_weights_that_is_wrong_is_refused(self, path: tuple[Any, ...], value: Any) -> None:
        check_refused(DOCUMENTS[2], path, value)

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("features", "kind"), "bins"),
            (("features", "terms", 0), "weight"),
            (("features", "terms", 2), {"hinge": "pulse", "at": 9.0, "side": "above"}),
            (("features", "terms", 2), {"hinge": "pulse", "at": 1.0, "side": "above", "more": 1}),
            (("features", "terms", 2), {"hinge": "pulse", "at": 1.0}),
            (("features", "terms", 2), "1"),
            (("groups",), []),
            (("groups",), 4 * [DOCUMENTS[3]["groups"][0]]),
            (("groups", 0, "informed"), 1),
            (("groups", 0, "informed"), None),
            (("groups", 0, "weights"), [[1.0]]),
            (("groups", 0, "shares", 0, 0), "1.0"),
            (("groups", 0, "frequencies"), [0.5, 0.5]),
            (("groups", 0, "base"), None),
            (("groups", 0, "more"), 1),
            (("reward", "width"), True),
            (("reward", "low"), 0.0),
            (("states", "missing"), ["weight"]),
            (("states", "missing"), []),
            (("states",), {"kind": "discrete", "count": 2}),
            (("steps",), []),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_a_field_of_pooled_weights_that_is_wrong_is_refused(self, path: tuple[Any, ...], value: Any) -> None:
        check_refused(DOCUMENTS[3], path, value)

    @pytest.mark.parametrize("index", range(4))
    def test_a_field_that_is_missing_is_refused(self, index: int) -> None:
        for path in places(DOCUMENTS[index]):
            if path and isinstance(path[-1], str) and path[-1] != "id" and "edges" not in path[:-1]:
                document = json.loads(json.dumps(DOCUMENTS[index]))
                del at(document, path[:-1])[path[-1]]
                with pytest.raises(errors.InvalidPolicy):
                    policy.parse(json.dumps(document))

    @settings(deadline=None, max_examples=400)
    @given(data=st.data(), index=st.integers(0, 3))
    def test_a_document_that_was_changed_is_refused_or_read_as_exactly_what_it_says(
        self, data: Any, index: int
    ) -> None:
        document = json.loads(json.dumps(DOCUMENTS[index]))
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from([path for path in places(document) if path]))
            parent = at(document, path[:-1])
            if data.draw(st.booleans()) and data.draw(st.booleans()):
                del parent[path[-1]]
            else:
                parent[path[-1]] = data.draw(ANYTHING)
            if not document:
                break
        check_read_or_refused(json.dumps(document))

    @settings(deadline=None, max_examples=300)
    @given(data=st.data(), index=st.integers(0, 3))
    def test_bytes_that_were_changed_are_refused_or_read_as_exactly_what_they_say(self, data: Any, index: int) -> None:
        raw = bytearray(rfc8785.dumps(DOCUMENTS[index]))
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(raw)))
            raw[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        check_read_or_refused(bytes(raw))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, 3, -1, 2**53, 2**63, 10**400, 0.5, 1e308, "learned", "discrete", "1", "nan", ""])
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from places(value, (*path, key))


def numbers_replaced(document: Any, constant: str) -> Iterator[str]:
    """The document with each kind of number in it replaced by a constant of JSON, one at a time."""
    for path in places(document):
        value = at(document, path)
        if isinstance(value, int | float) and not any(isinstance(key, int) and key > 0 for key in path):
            changed = json.loads(json.dumps(document))
            at(changed, path[:-1])[path[-1]] = "@@"
            yield json.dumps(changed).replace('"@@"', constant)


def check_refused(document: Any, path: tuple[Any, ...], value: Any) -> None:
    changed = json.loads(json.dumps(document))
    at(changed, path[:-1])[path[-1]] = value
    with pytest.raises(errors.InvalidPolicy, match="not a policy document"):
        policy.parse(json.dumps(changed))


def check_read_or_refused(text: bytes | str) -> None:
    """Whatever is read must be all that was written: a digest of less would sign more than it covers."""
    try:
        read = policy.parse(text)
    except errors.InvalidPolicy:
        return
    # A number of JSON is a double, however many digits it was written with.
    document = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 16 else float(digits))
    assert read.canonical() == rfc8785.dumps(document)


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

    def test_weights_decide_for_the_best_score_and_else_for_the_best_covered_action(self) -> None:
        made = linear()
        assert isinstance(made.rule, Linear)
        sources = set()
        for step, state in itertools.product((1, 2), states(made)):
            psi = made.rule.features.psi(np.array([[state["pulse"], state["age"]]]))
            scores, spread = (f(psi)[:, 0] for f in (made.rule.scores[step - 1].of, made.rule.scores[step - 1].spread))
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
