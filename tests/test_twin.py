"""Twins: made of the public schema alone, true to it, and valued rightly."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import requests, twin
from discretion.learning import policy, vapvi
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import CUT, ENDED
from discretion.privacy import events

WARDS = Schema(8, Discrete(12), 3, (0.0, 1.0), total=(0.0, 1.0))
STEPS = Schema(8, Discrete(12), 3, (-1.0, 2.0))
GAPS = Schema(6, Vector(("age", "lactate"), ((0.0, 120.0), (0.0, 30.0)), ("lactate",)), 3, (-1.0, 1.0))
PLANE = Schema(6, Vector(("age", "lactate"), ((0.0, 120.0), (0.0, 30.0))), 3, (-1.0, 1.0))
SETTLED = replace(WARDS, outcome=True)
WATCHED = replace(PLANE, outcome=True)
EVERY = pytest.mark.parametrize(
    "schema",
    [WARDS, STEPS, PLANE, GAPS, SETTLED, WATCHED],
    ids=["total", "rewards", "vector", "gaps", "outcome", "vector outcome"],
)


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
            allowed = np.isnan(stays.states) & ~schema.states.complete
            assert (allowed | (stays.states >= schema.states.low) & (stays.states <= schema.states.high)).all()
        else:
            assert ((stays.states >= 0) & (stays.states < schema.states.count)).all()

    @pytest.mark.parametrize("schema", [WARDS, STEPS, SETTLED, replace(STEPS, outcome=True)])
    def test_what_the_behaviour_is_worth_is_what_it_earns(self, schema: Schema) -> None:
        found = clinic(schema)
        shape = (schema.horizon, 12)
        anything = policy.of_table("any", schema, np.zeros(shape, int), np.ones(shape, bool), np.zeros(shape))
        stays = found.stays(40_000, np.random.default_rng(1))
        earned = np.where(np.arange(schema.horizon)[:, None] < stays.lengths, stays.rewards, 0.0).sum(axis=0)
        worth = found.values(anything)
        assert worth["behaviour"] == pytest.approx(earned.mean(), abs=4 * earned.std() / 200)
        assert worth["best"] >= max(worth["behaviour"], worth["policy"])

    @pytest.mark.parametrize("schema", [SETTLED, WATCHED])
    def test_where_stays_earn_by_an_outcome_so_they_do_here(self, schema: Schema) -> None:
        stays = clinic(schema).stays(4000, np.random.default_rng(1))
        paid = stays.rewards != 0.0
        assert (paid.sum(axis=0) <= 1).all()
        assert (paid.argmax(axis=0)[paid.any(axis=0)] == stays.lengths[paid.any(axis=0)] - 1).all()
        cut = stays.endings != ENDED
        assert (stays.endings[cut] == CUT).all()
        assert len(np.unique(stays.rewards[-1, cut])) == 2

    def test_about_a_quarter_of_them_is_settled_at_the_horizon(self) -> None:
        found = [clinic(SETTLED, number).stays(1000, np.random.default_rng(number)).endings for number in range(10)]
        assert np.mean(np.array(found) == CUT) == pytest.approx(0.25, abs=0.05)

    def test_a_tenth_is_missing_of_what_may_be_and_nothing_else(self) -> None:
        stays = clinic(GAPS).stays(4000, np.random.default_rng(2))
        for states in (stays.states, stays.final):
            share = np.isnan(states).reshape(-1, 2).mean(axis=0)
            assert share == pytest.approx([0.0, 0.1], abs=0.02)
        assert not np.isnan(clinic(PLANE).stays(400, np.random.default_rng(2)).states).any()

    def test_a_policy_is_judged_by_what_it_would_be_told(self) -> None:
        """In a clinic with gaps, one that waits for the column with gaps finds it empty now and then."""
        told = []

        class Asking:
            class rule:  # noqa: N801
                @staticmethod
                def judge(step: int, states: Any) -> Any:
                    told.append(np.isnan(states).mean(axis=0))
                    return (np.zeros(len(states), dtype=int),)

        clinic(GAPS).values(Asking())
        assert np.mean(told, axis=0) == pytest.approx([0.0, 0.1], abs=0.01)

    def test_it_is_another_one_for_another_number(self) -> None:
        assert clinic(WARDS, 0).habit.tolist() != clinic(WARDS, 1).habit.tolist()


class TestRehearse:
    @EVERY
    def test_it_says_what_was_learned_and_what_it_is_worth(self, schema: Schema) -> None:
        found = twin.rehearse(asked(schema))
        assert set(found) == {"twin", "units", "privacy", "note", "value", "learned_share"}
        assert found["note"] is None
        assert 0.0 <= found["learned_share"] <= 1.0

    def test_much_data_and_budget_beat_the_behaviour(self) -> None:
        found = twin.rehearse(asked(WARDS, units=20_000, rho="100"))["value"]
        assert found["policy"] > found["behaviour"] + 0.5 * (found["best"] - found["behaviour"])

    def test_too_many_rows_are_rehearsed_with_fewer_units_and_more_budget(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(requests, "MOST_ROWS", 8 * 100)
        found = requests.rehearsed(asked(WARDS, units=1000))
        assert (found.units, found.privacy) == (100, Concentrated(Fraction(500)))
        few = asked(WARDS, units=100)
        assert requests.rehearsed(few) is few
        most = requests.rehearsed(replace(few, units=10**9))
        assert most.privacy == Concentrated(Fraction(10**6))
        assert "noise has more say" in str(twin._note(most, replace(few, units=10**9)))

    def test_a_budget_that_just_reaches_the_largest_is_not_said_to_fall_short(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """ρ = 5 for 100 of n units is enlarged to 5·(n/100)²: 10⁶ at n = 44721.36."""
        monkeypatch.setattr(requests, "MOST_ROWS", 8 * 100)
        exact = replace(asked(WARDS, units=1000), privacy=Concentrated(Fraction(10_000)))
        played = requests.rehearsed(exact)
        assert played.privacy == Concentrated(Fraction(10**6))
        assert "noise" not in str(twin._note(played, exact))
        for units, short in ((44_721, False), (44_722, True)):
            larger = asked(WARDS, units=units, rho="5")
            assert ("noise" in str(twin._note(requests.rehearsed(larger), larger))) == short

    def test_shares_and_switches_are_those_of_the_true_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        schema = replace(WARDS, states=Discrete(90))
        real = asked(schema, units=1000, rho="1")
        assert real.algorithm == "dp-pae"
        monkeypatch.setattr(requests, "MOST_ROWS", 8 * 100)
        curators: list[Curator] = []

        def remembered(*given: Any) -> Curator:
            curators.append(Curator(*given))
            return curators[-1]

        monkeypatch.setattr(twin, "Curator", remembered)
        found = twin.rehearse(real)
        assert found["units"] == 100
        assert "100 of 1000 units" in found["note"]
        played = {event.statistic: events.cost(event) / 100 for event in curators[0].log}
        assert played == {event.statistic: events.cost(event) for event in real.mechanisms}
        alone = {event.statistic: events.cost(event) / 100 for event in requests.rehearsed(real).mechanisms}
        assert played != alone  # of a hundred units with a hundred times the ρ, less is known

    def test_a_margin_is_what_the_true_size_makes_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests, "MOST_ROWS", 8 * 100)
        cells = {"kind": "table", "values": np.eye(36).reshape(12, 3, 36).tolist()}
        request = {"algorithm": "dp-vapvi", "privacy": {"rho": "1"}, "parameters": {"features": cells, "d": 3.0}}
        real = requests.of(WARDS, None, 1000, request)
        played = requests.rehearsed(real)
        assert isinstance(real.parameters, vapvi.Parameters)
        assert isinstance(played.parameters, vapvi.Parameters)
        assert played.parameters.margin(100) == pytest.approx(real.parameters.margin(1000))


class TestTheProgram:
    def played(self, monkeypatch: pytest.MonkeyPatch, question: Any) -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(question)))
        return twin.main()

    def test_it_answers_on_its_standard_output(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.played(monkeypatch, QUESTION) == 0
        assert json.loads(capsys.readouterr().out)["units"] == 50

    @pytest.mark.parametrize(("megabytes", "ended"), [(1, 1), (1000, 0)])
    def test_it_takes_no_more_than_it_is_told(self, megabytes: int, ended: int) -> None:
        command = [sys.executable, "-m", "discretion.twin", str(os.getpid()), str(megabytes * 2**20)]
        large = QUESTION | {"units": 100_000}
        done = subprocess.run(command, input=json.dumps(large).encode(), capture_output=True, check=False)
        assert done.returncode == ended
        assert (b"MemoryError" in done.stderr) is bool(ended)

    @pytest.mark.parametrize("change", [{"dataset": "ds_1"}, {"units": 0}, {"privacy": {}}, {"algorithm": "x"}])
    def test_a_refusal_is_one_sentence_and_no_stored_dataset_can_be_named(
        self, change: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.played(monkeypatch, QUESTION | change) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert len(told.err.splitlines()) == 1
