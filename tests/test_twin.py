"""Twins: made of the public schema alone, true to it, and valued rightly."""

import io
import json
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import requests, twin
from discretion.learning import policy
from discretion.learning.curator import Concentrated
from discretion.learning.trajectories import Discrete, Schema, Vector

WARDS = Schema(8, Discrete(12), 3, (0.0, 1.0), total=(0.0, 1.0))
STEPS = Schema(8, Discrete(12), 3, (-1.0, 2.0))
PLANE = Schema(6, Vector(("age", "lactate"), ((0.0, 120.0), (0.0, 30.0))), 3, (-1.0, 1.0))
EVERY = pytest.mark.parametrize("schema", [WARDS, STEPS, PLANE], ids=["outcome", "rewards", "vector"])


def asked(schema: Schema, units: int = 400, rho: str = "5") -> requests.Asked:
    return requests.of(schema, None, units, {"algorithm": "auto", "privacy": {"rho": rho}, "parameters": {}})


def clinic(schema: Schema, number: int = 0) -> Any:
    make = twin._wards if isinstance(schema.states, Discrete) else twin._bedside
    return make(schema, np.random.default_rng([twin._CLINIC, number]))


QUESTION: Any = {
    "schema": {
        "horizon": 3,
        "states": {"kind": "discrete", "count": 4},
        "actions": {"count": 2},
        "reward": {"low": 0, "high": 1},
    },
    "units": 50,
    "algorithm": "auto",
    "privacy": {"rho": "1"},
}


class TestAClinic:
    @EVERY
    def test_its_stays_keep_to_the_schema(self, schema: Schema) -> None:
        stays = clinic(schema).stays(300, np.random.default_rng(0))
        recorded = np.arange(schema.horizon)[:, None] < stays.lengths
        assert (stays.rewards[recorded] >= schema.reward[0]).all()
        assert (stays.rewards[recorded] <= schema.reward[1]).all()
        assert ((stays.actions >= 0) & (stays.actions < schema.actions)).all()
        if schema.total is not None:
            assert (stays.rewards.sum(axis=0) <= schema.total[1]).all()
        if isinstance(schema.states, Vector):
            assert ((stays.states >= schema.states.low) & (stays.states <= schema.states.high)).all()
        else:
            assert ((stays.states >= 0) & (stays.states < schema.states.count)).all()

    @pytest.mark.parametrize("schema", [WARDS, STEPS])
    def test_what_the_behaviour_is_worth_is_what_it_earns(self, schema: Schema) -> None:
        found = clinic(schema)
        shape = (schema.horizon, 12)
        anything = policy.of_table("any", schema, np.zeros(shape, int), np.ones(shape, bool), np.zeros(shape))
        stays = found.stays(40_000, np.random.default_rng(1))
        earned = np.where(np.arange(schema.horizon)[:, None] < stays.lengths, stays.rewards, 0.0).sum(axis=0)
        worth = found.values(anything)
        assert worth["behaviour"] == pytest.approx(earned.mean(), abs=4 * earned.std() / 200)
        assert worth["best"] >= max(worth["behaviour"], worth["policy"])

    def test_it_is_another_one_for_another_number(self) -> None:
        assert clinic(WARDS, 0).habit.tolist() != clinic(WARDS, 1).habit.tolist()


class TestRehearse:
    @EVERY
    def test_it_says_what_was_learned_and_what_it_is_worth(self, schema: Schema) -> None:
        found = twin.rehearse(asked(schema))
        assert set(found) == {"twin", "units", "privacy", "value", "learned_share"}
        assert 0.0 <= found["learned_share"] <= 1.0

    def test_much_data_and_budget_beat_the_behaviour(self) -> None:
        found = twin.rehearse(asked(WARDS, units=20_000, rho="100"))["value"]
        assert found["policy"] > found["behaviour"] + 0.5 * (found["best"] - found["behaviour"])

    def test_too_many_rows_are_rehearsed_with_fewer_units_and_more_budget(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(twin, "MOST_ROWS", 8 * 100)
        found = twin._shrunk(asked(WARDS, units=1000))
        assert (found.units, found.privacy) == (100, Concentrated(Fraction(500)))
        few = asked(WARDS, units=100)
        assert twin._shrunk(few) is few
        assert twin._shrunk(replace(few, units=10**9)).privacy == Concentrated(Fraction(1000))


class TestTheProgram:
    def played(self, monkeypatch: pytest.MonkeyPatch, question: Any) -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(question)))
        return twin.main()

    def test_it_answers_on_its_standard_output(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.played(monkeypatch, QUESTION) == 0
        assert json.loads(capsys.readouterr().out)["units"] == 50

    @pytest.mark.parametrize("change", [{"dataset": "ds_1"}, {"units": 0}, {"privacy": {}}, {"algorithm": "x"}])
    def test_a_refusal_is_one_sentence_and_no_stored_dataset_can_be_named(
        self, change: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.played(monkeypatch, QUESTION | change) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert len(told.err.splitlines()) == 1
