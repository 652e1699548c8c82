"""Requests as JSON documents: what is written is read back the same, and nothing else is read at all."""

import contextlib
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import (
    apvi,
    apvi_stationary,
    documents,
    forms,
    learners,
    pae,
    rewards,
    vapvi,
    vapvi_stationary,
)
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Pure
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.privacy import rho
from tests import worlds

SCHEMA = Schema(3, Discrete(2), 2, (0.0, 1.0))
VECTOR = Vector(("age", "lactate"), ((0.0, 120.0), (0.0, 30.0)))
PLANE = Schema(3, VECTOR, 2, (-1.0, 1.0))
RHO = Concentrated(Fraction(1, 2))
TABLE = {"kind": "table", "values": [[[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.5, 0.5]]]}
DISCRETE: dict[str, Any] = {
    "horizon": 20,
    "states": {"kind": "discrete", "count": 716},
    "actions": {"count": 2, "labels": ["wait", "treat"]},
    "reward": {"low": 0, "high": 1},
    "return": {"low": 0, "high": 1},
    "max_trajectories_per_unit": 3,
}
NESTED: Any = []
for _ in range(100_000):
    NESTED = [NESTED]

anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just(10**4000)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


def some(*likely: Any) -> st.SearchStrategy[Any]:
    """Mostly what belongs there, so that the rest of the document is reached."""
    return st.sampled_from(likely) | anything


def mostly(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=keys) | anything


class TestEveryDocument:
    @pytest.mark.parametrize("document", [NESTED, None, [], "x", 3, {1: 2}])
    def test_it_is_an_object_with_named_keys(self, document: Any) -> None:
        with pytest.raises(errors.InvalidSchema, match="JSON object"):
            documents.schema_of(document)
        with pytest.raises(errors.InvalidPrivacy, match="JSON object"):
            documents.privacy_of(document)
        for algorithm in (apvi.NAME, vapvi.NAME):
            with pytest.raises(errors.InvalidParameter, match="JSON object"):
                forms.read(algorithm, document, SCHEMA)


class TestSchema:
    def test_discrete_states(self) -> None:
        schema, labels = documents.schema_of(DISCRETE)
        assert schema == Schema(20, Discrete(716), 2, (0.0, 1.0), (0.0, 1.0), 3)
        assert labels == ("wait", "treat")

    def test_vector_states_and_defaults(self) -> None:
        states = {"kind": "vector", "columns": ["age", "lactate"], "bounds": [[0, 120], [0, 30]]}
        document = {"horizon": 3, "states": states, "actions": {"count": 2}, "reward": {"low": -1, "high": 1}}
        assert documents.schema_of(document) == (PLANE, None)

    @pytest.mark.parametrize("schema", [SCHEMA, PLANE, Schema(2, VECTOR, 3, (-1, 10**20), (-5, 5), 4)])
    @pytest.mark.parametrize("named", [True, False])
    def test_written_and_read_it_is_the_same(self, schema: Schema, named: bool) -> None:
        labels = tuple(f"action {a}" for a in range(schema.actions)) if named else None
        document = documents.schema_document(schema, labels)
        again = documents.schema_of(json.loads(rfc8785.dumps(document)))
        assert again == (schema, labels)
        assert documents.schema_document(*again) == document

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"seed": 3}, "'seed'"),
            ({"horizon": True}, "horizon"),
            ({"horizon": 2.0}, "horizon"),
            ({"horizon": 10**5000}, "horizon"),
            ({"horizon": 0}, "horizon"),
            ({"states": {"kind": "discrete"}}, "'count'"),
            ({"states": {"kind": "discrete", "count": 3, "columns": ["x"]}}, "'columns'"),
            ({"states": {"kind": "round", "count": 3}}, "states.kind"),
            ({"states": {"kind": "vector", "columns": ["x"], "bounds": [[0, 1, 2]]}}, "states.bounds"),
            ({"states": {"kind": "vector", "columns": ["x"], "bounds": [[0, math.nan]]}}, "states.bounds"),
            ({"states": {"kind": "vector", "columns": ["x", 3], "bounds": [[0, 1], [0, 1]]}}, "states.columns"),
            ({"states": {"kind": "vector", "columns": ["\ud800"], "bounds": [[0, 1]]}}, "states.columns"),
            ({"states": NESTED}, "states"),
            ({"actions": {"count": 2, "labels": ["one"]}}, "actions.labels"),
            ({"actions": {"count": 2, "labels": "no"}}, "actions.labels"),
            ({"actions": {"count": 2, "labels": ["one", ""]}}, "actions.labels"),
            ({"reward": {"low": 0}}, "'high'"),
            ({"reward": {"low": "0", "high": 1}}, "reward.low"),
            ({"reward": {"low": 0, "high": math.inf}}, "reward.high"),
            ({"reward": [0, 1]}, "reward"),
            ({"max_trajectories_per_unit": None}, "max_trajectories_per_unit"),
        ],
    )
    def test_anything_else_is_refused_by_name(self, change: dict[str, Any], named: str) -> None:
        with pytest.raises(errors.InvalidSchema) as refused:
            documents.schema_of(DISCRETE | change)
        assert named in str(refused.value)

    @pytest.mark.parametrize("key", ["horizon", "states", "actions", "reward"])
    def test_what_is_missing_is_named(self, key: str) -> None:
        with pytest.raises(errors.InvalidSchema, match=repr(key)):
            documents.schema_of({k: v for k, v in DISCRETE.items() if k != key})

    @settings(deadline=None)
    @given(
        mostly(
            horizon=some(3),
            states=some(DISCRETE["states"])
            | mostly(kind=some("vector", "discrete"), count=anything, columns=anything, bounds=anything),
            actions=some({"count": 2}) | mostly(count=some(2), labels=anything),
            reward=some({"low": 0, "high": 1}) | mostly(low=anything, high=anything),
        )
    )
    def test_only_refusals_escape(self, document: Any) -> None:
        try:
            schema, labels = documents.schema_of(document)
        except errors.Refusal:
            return
        assert documents.schema_of(documents.schema_document(schema, labels)) == (schema, labels)


class TestPrivacy:
    def test_rho_is_a_decimal_string(self) -> None:
        assert documents.privacy_of({"rho": "0.5"}) == RHO
        for wrong in (0.5, 1, "5e-1", "0", "-1", "NaN", None, True, ["0.5"], "0.0000000001"):
            with pytest.raises(errors.InvalidRho):
                documents.privacy_of({"rho": wrong})

    def test_epsilon_and_delta_become_the_largest_rho(self) -> None:
        largest = rho.largest_rho(Fraction(4), Fraction(1, 10**6)).exact
        for epsilon, delta in ((4, 1e-6), ("4", "1e-6"), (4.0, "0.000001")):
            assert documents.privacy_of({"epsilon": epsilon, "delta": delta}) == Concentrated(largest)

    def test_pure_epsilon_is_exact_and_on_the_grid(self) -> None:
        assert documents.privacy_of({"pure_epsilon": 0.1}) == Pure(Fraction(1, 10))
        for wrong in ("0.0000000001", 0, -1, math.nan, math.inf, True, None, "x", 10**5000):
            with pytest.raises(errors.Refusal):
                documents.privacy_of({"pure_epsilon": wrong})

    @pytest.mark.parametrize(
        "document",
        [
            {},
            {"epsilon": 1},
            {"delta": 1e-6},
            {"rho": "1", "pure_epsilon": 1},
            {"rho": "1", "epsilon": 1, "delta": 0.1},
        ],
    )
    def test_exactly_one_kind(self, document: dict[str, Any]) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="exactly one"):
            documents.privacy_of(document)

    def test_unknown_keys_are_refused_by_name(self) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="'seed'"):
            documents.privacy_of({"rho": "1", "seed": 1})

    @pytest.mark.parametrize("share", [RHO, Pure(Fraction(3, 2)), Concentrated(Fraction(1, 10**9)), Pure(Fraction(7))])
    def test_written_and_read_it_is_the_same(self, share: Any) -> None:
        assert documents.privacy_of(documents.privacy_document(share)) == share

    @settings(deadline=None)
    @given(mostly(rho=some("1"), epsilon=some(1, "1e999"), delta=some(1e-6, "1e-999"), pure_epsilon=anything))
    def test_only_refusals_escape(self, document: Any) -> None:
        try:
            share = documents.privacy_of(document)
        except errors.Refusal:
            return
        assert documents.privacy_of(documents.privacy_document(share)) == share


RNG = np.random.default_rng(0)
COUNTED = [apvi.Parameters(), apvi.Parameters(c1=0, c2=3, delta=0.5, pessimism="hoeffding", shares=(3, 2, 1))]
COUNTED += [apvi.Parameters(calibration="paper"), apvi.Parameters(calibration="paper", pessimism="hoeffding")]
COUNTED += [apvi.Parameters(reward=worlds.known(RNG, SCHEMA, form)) for form in worlds.FORMS]
COUNTED += [apvi.Parameters(reward=rewards.Known(np.array([[0, 1], [1, 0]])))]
PHI = maps.Table(np.array(TABLE["values"]))
REGRESSED: list[tuple[vapvi.Parameters, Schema]] = [
    (vapvi.Parameters(PHI), SCHEMA),
    (vapvi.Parameters(PHI, reward=worlds.known(RNG, SCHEMA, "step"), e=0.5, d=2), SCHEMA),
    (vapvi.Parameters(PHI, calibration="paper", split=True), SCHEMA),
    (vapvi.Parameters(PHI, variance="estimated", shares=(5, 4, 3, 2, 1)), SCHEMA),
    (vapvi.Parameters(maps.Blocks(VECTOR, 2, ("lactate", "1"))), PLANE),
    (vapvi.Parameters(maps.Bins.of(VECTOR, 2, {"lactate": [2.0], "age": [40, 65]}), ridge=2), PLANE),
]
POOLED: list[tuple[learners.Parameters, Schema]] = [
    (apvi_stationary.Parameters(), SCHEMA),
    (apvi_stationary.Parameters(pessimism=1, trust=3.0, reward_on="arrival", shares=(1, 2, 3)), SCHEMA),
    (apvi_stationary.Parameters(reward=worlds.known(RNG, SCHEMA, "next")), SCHEMA),
    (pae.Parameters(), SCHEMA),
    (pae.Parameters(pessimism=0.1, reward=worlds.known(RNG, SCHEMA, "state-action")), SCHEMA),
    (vapvi_stationary.Parameters(maps.Blocks(VECTOR, 2, ("lactate", "1"))), PLANE),
    (vapvi_stationary.Parameters(maps.usual(VECTOR, 2, 1000, Fraction(1)), time_groups=3, clip=2.0), PLANE),
]
EVERY: list[tuple[str, learners.Parameters, Schema]] = [(apvi.NAME, p, SCHEMA) for p in COUNTED]
EVERY += [(vapvi.NAME, p, s) for p, s in REGRESSED]
EVERY += [(learners.algorithm_of(p), p, s) for p, s in POOLED]


class TestParameters:
    @pytest.mark.parametrize(("algorithm", "parameters", "schema"), EVERY)
    def test_written_and_read_the_mechanisms_are_the_same(
        self, algorithm: str, parameters: learners.Parameters, schema: Schema
    ) -> None:
        document = forms.write(parameters)
        again = forms.read(algorithm, json.loads(rfc8785.dumps(document)), schema)
        asked = [learners.mechanisms(algorithm, schema, 100, RHO, p) for p in (parameters, again)]
        assert asked[0] == asked[1]
        assert forms.write(again) == document

    def test_nothing_said_means_the_defaults(self) -> None:
        assert forms.read("dp-apvi", {}, SCHEMA) == apvi.Parameters()
        read = forms.read("dp-vapvi", {"features": TABLE}, SCHEMA)
        written = forms.write(read)
        assert written == forms.write(vapvi.Parameters(PHI))
        assert (written["calibration"], written["variance"], written["shares"]) == ("tight", "one", [1, 1, 1, 1, 2])

    @pytest.mark.parametrize("schema", [SCHEMA, PLANE])
    @pytest.mark.parametrize("algorithm", ["dp-apvi", "dp-vapvi", "dp-pae", "dp-fqe"])
    @pytest.mark.parametrize("dynamics", ["per_step", "stationary", None])
    def test_nothing_more_than_the_dynamics_is_read_or_refused(
        self, schema: Schema, algorithm: str, dynamics: str | None
    ) -> None:
        """Anything but a refusal is a failure of the test."""
        with contextlib.suppress(errors.Refusal):
            assert learners.algorithm_of(forms.read(algorithm, {"dynamics": dynamics}, schema)) == algorithm

    def test_the_example_of_the_contract(self) -> None:
        said = {"dynamics": "per_step", "pessimism": "bernstein", "reward": {"table": [[0.1, 0.2]]}}
        read = forms.read("dp-apvi", said | {"calibration": "tight"}, Schema(3, Discrete(1), 2))
        assert isinstance(read, apvi.Parameters)
        assert read.reward is not None
        assert read.reward.table.tolist() == [[0.1, 0.2]]

    @pytest.mark.parametrize(
        ("document", "named"),
        [
            ({"seed": 1}, "'seed'"),
            ({"features": TABLE}, "'features'"),
            ({"x" * 10**6: 1}, "xxx"),
            ({"dynamics": "stochastic"}, "dynamics"),
            ({"dynamics": ["per_step"]}, "dynamics"),
            ({"calibration": "loose"}, "calibration"),
            ({"calibration": "paper", "c2": 0}, "paper's calibration"),
            ({"calibration": "paper", "shares": [1, 2, 1]}, "paper's calibration"),
            ({"calibration": "paper", "dynamics": "stationary"}, "leave calibration out"),
            ({"pessimism": ["bernstein"]}, "pessimism"),
            ({"c1": "1"}, "c1"),
            ({"c1": math.nan}, "c1"),
            ({"c2": 10**5000}, "c2"),
            ({"c": 0.5}, "c "),
            ({"delta": 1}, "delta"),
            ({"delta": None}, "delta"),
            ({"shares": [1, 1]}, "shares"),
            ({"shares": [1, True, 1]}, "shares"),
            ({"shares": "111"}, "shares"),
            ({"reward": {}}, "reward"),
            ({"reward": {"table": [[0, 0], [0, 0]], "next_state": [0, 0]}}, "reward"),
            ({"reward": {"table": [[0, 0], [0]]}}, "reward.table"),
            ({"reward": {"table": [[0, 0], [0, True]]}}, "reward.table"),
            ({"reward": {"table": [[0, 0], [0, "1"]]}}, "reward.table"),
            ({"reward": {"table": [[0, 0], [0, math.nan]]}}, "reward.table"),
            ({"reward": {"table": []}}, "reward.table"),
            ({"reward": {"table": NESTED}}, "reward.table"),
            ({"reward": {"next_state": [[0, 0]]}}, "reward.next_state"),
            ({"reward": {"next_state": [0]}}, "reward table"),
            ({"reward": {"next_state": [0, 7]}}, "reward table"),
        ],
    )
    def test_anything_else_is_refused_by_name(self, document: dict[str, Any], named: str) -> None:
        with pytest.raises(errors.InvalidParameter) as refused:
            forms.read("dp-apvi", document, SCHEMA)
        assert named in str(refused.value)
        assert len(str(refused.value)) < 300

    @pytest.mark.parametrize(
        ("width", "calibration", "fits"), [(999, "tight", True), (1000, "tight", False), (1001, "paper", False)]
    )
    def test_a_table_with_a_feature_for_each_of_too_many_cells_says_what_to_use_instead(
        self, width: int, calibration: str, fits: bool
    ) -> None:
        hot = {"kind": "table", "values": np.eye(2, width)[:, None, :].repeat(2, axis=1).tolist()}
        hot["values"][1][1][-1] = 0.5
        hot["values"][1][1][1] = 0.5
        said = {"features": hot, "calibration": calibration}
        if fits:
            assert forms.read("dp-vapvi", said, SCHEMA).features.width == width  # type: ignore[union-attr]
            return
        with pytest.raises(errors.ProblemTooLarge, match=r"999 features at most.* use dp-apvi or dp-pae"):
            forms.read("dp-vapvi", said, SCHEMA)

    @pytest.mark.parametrize(
        ("document", "schema"),
        [
            ({}, SCHEMA),
            ({"features": TABLE, "pessimism": "bernstein"}, SCHEMA),
            ({"features": TABLE, "split": 1}, SCHEMA),
            ({"features": TABLE, "split": True}, SCHEMA),
            ({"features": TABLE, "variance": "two"}, SCHEMA),
            ({"features": TABLE, "calibration": "paper", "shares": [1, 1, 1, 1, 1]}, SCHEMA),
            ({"features": TABLE, "e": "1"}, SCHEMA),
            ({"features": TABLE}, PLANE),
            ({"features": TABLE | {"terms": ["1"]}}, SCHEMA),
            ({"features": {"kind": "table", "values": [[[3.0]]]}}, SCHEMA),
            ({"features": {"kind": "table", "values": [[1.0]]}}, SCHEMA),
            ({"features": {"kind": "table", "values": [[[0.5]] * 2] * 2}}, SCHEMA),
            ({"features": {"kind": "blocks", "terms": ["1"]}}, SCHEMA),
            ({"features": {"kind": "blocks", "terms": []}}, PLANE),
            ({"features": {"kind": "blocks", "terms": [["age"]]}}, PLANE),
            ({"features": {"kind": "blocks", "terms": "age"}}, PLANE),
            ({"features": {"kind": "bins", "edges": {}}}, PLANE),
            ({"features": {"kind": "bins", "edges": {"weight": [3]}}}, PLANE),
            ({"features": {"kind": "bins", "edges": {"age": "40"}}}, PLANE),
            ({"features": {"kind": "bins", "edges": {"age": [65, 40]}}}, PLANE),
        ],
    )
    def test_regressions_are_read_as_strictly(self, document: dict[str, Any], schema: Schema) -> None:
        with pytest.raises((errors.InvalidParameter, errors.InvalidFeatures)):
            forms.read("dp-vapvi", document, schema)

    @pytest.mark.parametrize(
        ("features", "schema", "told"),
        [
            ({"kind": "table", "values": [[[0.5]] * 2, [[0.1]] * 2]}, SCHEMA, "all actions have the same features"),
            ({"kind": "blocks", "terms": ["1"]}, PLANE, "Every state has the same features"),
        ],
    )
    def test_features_that_tell_nothing_apart_are_refused(self, features: Any, schema: Schema, told: str) -> None:
        with pytest.raises(errors.InvalidFeatures, match=told):
            forms.read("dp-vapvi", {"features": features}, schema)

    @pytest.mark.parametrize("algorithm", ["auto", "", None, 3, [], NESTED])
    def test_there_are_three_algorithms(self, algorithm: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match="algorithm"):
            forms.read(algorithm, {}, SCHEMA)

    def test_counting_needs_discrete_states(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="discrete"):
            forms.read("dp-apvi", {}, PLANE)

    @settings(deadline=None, max_examples=300)
    @given(
        st.sampled_from([apvi.NAME, vapvi.NAME, pae.NAME]),
        st.sampled_from([SCHEMA, PLANE]),
        mostly(
            features=some(TABLE, {"kind": "blocks", "terms": ["age"]})
            | mostly(kind=some("table", "blocks", "bins"), values=anything, terms=anything, edges=anything)
            | mostly(kind=st.just("bins"), edges=mostly(age=some([40]), lactate=anything)),
            reward=mostly(table=anything, next_state=anything),
            shares=anything | st.lists(st.integers(1, 3), min_size=3, max_size=5),
            pessimism=some("hoeffding", 0.5),
            dynamics=some("per_step", "stationary"),
            time_groups=some(2),
            trust=some(3.0),
            calibration=some("tight", "paper"),
            variance=some("estimated"),
            split=some(True),
            c1=anything,
            e=anything,
            delta=some(0.5),
        ),
    )
    def test_only_refusals_escape(self, algorithm: str, schema: Schema, document: Any) -> None:
        try:
            parameters = forms.read(algorithm, document, schema)
        except errors.Refusal:
            return
        written = forms.write(parameters)
        assert forms.write(forms.read(algorithm, written, schema)) == written
