"""Policy documents: read back as they were written, and nothing else is ever read as one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import policy
from discretion.learning.policy import Policy
from tests.learning.test_policy import DOCUMENTS, KINDS, MADE, decisions

untimed = settings(deadline=None)


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

    def test_weights_without_noise_are_read_as_they_are_and_every_action_counts(self) -> None:
        document = MADE[2].document()
        for step in document["steps"]:
            del step["noise"]
        read = policy.parse(json.dumps(document))
        assert read.document() == document
        assert isinstance(read.rule, policy.Linear)
        assert [score.noise for score in read.rule.scores] == [0.0, 0.0]
        assert decisions(read) != decisions(MADE[2])

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
            if path and isinstance(path[-1], str) and path[-1] not in ("id", "noise") and "edges" not in path[:-1]:
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
