"""What an upload may look like, and what is said about one that does not: each rule, with its row and column."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discretion import datasets, errors, first_reading, formats
from discretion.formats import Limits
from discretion.learning.schemas import Schema, Vector
from discretion.learning.trajectories import CUT, CUT_BEFORE, ENDED
from tests import uploading
from tests.uploading import CSV, NDJSON, PARQUET, PLANE, SCHEMA, TYPES, Row, at, endings, refused, row


@pytest.fixture(autouse=True)
def _without_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each upload takes a while; tests/test_formats.py has them."""
    monkeypatch.setattr(first_reading, "survived", lambda *_: True)


WRONG_IN_ANY_FORMAT: dict[str, tuple[list[Row], list[tuple[int, str]]]] = {
    "no unit": ([row(), row("")], [(2, "unit")]),
    "step 0": ([row(step=0)], [(1, "step")]),
    "step beyond the horizon": ([row(step=s) for s in (1, 2, 3, 4)], [(4, "step")]),
    "starts late": ([row(), row("b", 2)], [(2, "step")]),
    "gap": ([row(), row(step=3)], [(2, "step")]),
    "duplicate step": ([row(), row(step=2), row(step=2)], [(3, "step")]),
    "backwards": ([row(), row(step=2), row(step=3), row(step=2)], [(4, "step")]),
    "sorted by step": (
        [row("a"), row("b"), row("a", 2), row("b", 2)],
        [(3, "step"), (3, "unit"), (4, "step"), (4, "unit")],
    ),
    "state too large": ([row(state=5)], [(1, "state")]),
    "state negative": ([row(state=-1)], [(1, "state")]),
    "action too large": ([row(), row(step=2, action=2)], [(2, "action")]),
    "action negative": ([row(action=-1)], [(1, "action")]),
    "reward too large": ([row(reward=1.5)], [(1, "reward")]),
    "reward not a number": ([row(reward=float("nan"))], [(1, "reward")]),
    "reward infinite": ([row(reward=float("inf"))], [(1, "reward")]),
    "next state too large": ([row(next_state=5)], [(1, "next_state")]),
    "next state of another row": ([row(next_state=1), row(step=2, state=2, next_state=3)], [(1, "next_state")]),
    "ended too early": (
        [row(terminated=False), row(step=2, terminated=True), row(step=3, terminated=True)],
        [(2, "terminated")],
    ),
    "not a flag": ([row(terminated=2)], [(1, "terminated")]),
    "a unit again": ([row("a"), row("b"), row("a"), row("c"), row("b")], [(3, "unit"), (5, "unit")]),
    "too many trajectories": ([row(), row(), row("b"), row("c"), row("c"), row("c")], [(6, "unit")]),
    "a trajectory again": ([row(trajectory=t) for t in "xyx"], [(3, "unit"), (3, "trajectory")]),
    "a trajectory that restarts": ([row(trajectory="x"), row(trajectory="x")], [(2, "step")]),
    "a trajectory that goes on": ([row(trajectory="x"), row(step=2, trajectory="y")], [(2, "step")]),
    "unit too long": ([row(), row("b" * 513), row("b" * 513, 2), row("c")], [(2, "unit"), (3, "unit")]),
    "unit too long for its bytes": ([row(), row("ä" * 300)], [(2, "unit")]),
    "trajectory too long": ([row(trajectory="t" * 513)], [(1, "trajectory")]),
    "unknown column": ([row(), row("b", colour=1)], [(0, "colour")]),
    "several": ([row(state=9), row("b", state=9, action=9)], [(1, "state"), (2, "action"), (2, "state")]),
}


@pytest.mark.parametrize("media_type", TYPES)
@pytest.mark.parametrize("case", WRONG_IN_ANY_FORMAT)
class TestRules:
    def test_what_breaks_one_is_named_by_row_and_column(self, case: str, media_type: str, tmp_path: Path) -> None:
        rows, problems = WRONG_IN_ANY_FORMAT[case]
        if media_type == NDJSON and case == "unknown column":
            problems = [(2, "colour")]  # an object brings its own names
        assert sorted(refused(uploading.written(rows, media_type), media_type, tmp_path)) == sorted(problems)

    def test_it_is_the_same_problem_wherever_a_batch_ends(self, case: str, media_type: str, tmp_path: Path) -> None:
        data = uploading.written(WRONG_IN_ANY_FORMAT[case][0], media_type)
        tiny = Limits(block=1, batch=1)
        assert refused(data, media_type, tmp_path, limits=tiny) == refused(data, media_type, tmp_path)


class TestEnds:
    @pytest.mark.parametrize("media_type", TYPES)
    @pytest.mark.parametrize(
        ("steps", "last", "expected"),
        [
            (2, {}, (ENDED, None)),
            (2, {"next_state": 4}, (ENDED, None)),
            (2, {"terminated": True}, (ENDED, None)),
            (2, {"terminated": False}, (CUT, None)),
            (2, {"terminated": 0, "next_state": 4}, (CUT_BEFORE, 4)),
            (3, {}, (CUT, None)),
            (3, {"next_state": 4}, (CUT_BEFORE, 4)),
            (3, {"terminated": False, "next_state": 0}, (CUT_BEFORE, 0)),
            (3, {"terminated": 1, "next_state": 4}, (ENDED, None)),
        ],
    )
    def test_the_last_row_says_how_a_trajectory_ended(
        self, steps: int, last: Row, expected: tuple[int, Any], media_type: str, tmp_path: Path
    ) -> None:
        rows = [row(step=step) for step in range(1, steps)] + [row(step=steps) | last]
        assert endings(rows, media_type, tmp_path) == [expected]

    @pytest.mark.parametrize("media_type", TYPES)
    def test_a_vector_after_a_cut_is_kept(self, media_type: str, tmp_path: Path) -> None:
        rows = [at(1), at(2, next_age=1.0, next_dose=-1.0, terminated=False)]
        assert endings(rows, media_type, tmp_path, PLANE) == [(CUT_BEFORE, (1.0, -1.0))]

    def test_false_may_stand_in_every_row(self, tmp_path: Path) -> None:
        rows = [row(terminated=False), row(step=2, terminated=False)]
        assert endings(rows, CSV, tmp_path) == [(CUT, None)]


class TestVectors:
    @pytest.mark.parametrize("media_type", TYPES)
    @pytest.mark.parametrize(
        ("changed", "column"),
        [
            ({"age": 100.5}, "age"),
            ({"dose": -1.5}, "dose"),
            ({"dose": float("nan")}, "dose"),
            ({"age": None}, "age"),
            ({"next_age": 101.0, "next_dose": 0.0}, "next_age"),
            ({"next_age": 1.0, "next_dose": None}, "next_age"),
        ],
    )
    def test_a_value_outside_its_bounds_is_named(
        self, changed: Row, column: str, media_type: str, tmp_path: Path
    ) -> None:
        data = uploading.written([at(1), at(2) | changed], media_type)
        assert (2, column) in refused(data, media_type, tmp_path, PLANE)

    def test_a_next_column_alone_is_half_a_state(self, tmp_path: Path) -> None:
        assert refused(uploading.as_csv([at(next_age=1.0)]), CSV, tmp_path, PLANE) == [(0, "next_dose")]

    @pytest.mark.parametrize("columns", [("reward",), ("unit",), ("age", "next_age"), ("trajectory", "x")])
    def test_a_state_column_cannot_be_named_like_another(self, columns: tuple[str, ...], tmp_path: Path) -> None:
        schema = Schema(3, Vector(columns, ((0.0, 1.0),) * len(columns)), 2)
        with pytest.raises(errors.InvalidSchema):
            datasets.accept([], CSV, schema, uploading.place(tmp_path / "set"))


class TestHeader:
    @pytest.mark.parametrize("media_type", [CSV, PARQUET])
    @pytest.mark.parametrize("name", ["unit", "step", "state", "action", "reward"])
    def test_a_missing_column_is_named(self, name: str, media_type: str, tmp_path: Path) -> None:
        rows = [{key: value for key, value in row().items() if key != name}]
        assert refused(uploading.written(rows, media_type), media_type, tmp_path) == [(0, name)]

    def test_a_column_that_comes_twice_is_named(self, tmp_path: Path) -> None:
        assert refused(b"unit,step,state,action,reward,step\na,1,0,0,0,1\n", CSV, tmp_path) == [(0, "step")]

    def test_any_order_of_columns_will_do(self, tmp_path: Path) -> None:
        data = b"reward,action,state,step,unit\n0.5,1,4,1,a\n"
        datasets.accept([data], CSV, SCHEMA, uploading.place(tmp_path / "set"))
        assert uploading.stored(tmp_path / "set", SCHEMA) == {0: ((((4, 1, 0.5),), ENDED, None),)}

    def test_another_format_is_refused(self, tmp_path: Path) -> None:
        assert refused(b"PK", "application/zip", tmp_path) == [(0, "")]


GAPS = Schema(3, Vector(("age", "dose"), ((0.0, 100.0), (-1.0, 1.0)), missing=("dose",)), 2)


@pytest.mark.parametrize("media_type", TYPES)
class TestMissingValues:
    def test_a_column_that_may_be_missing_is_kept_as_such(self, media_type: str, tmp_path: Path) -> None:
        rows = [at(1, dose=None, next_age=51.0, next_dose=None), at(2, age=51.0, dose=None, next_age=52, next_dose=0.5)]
        rows.append(at(3, age=52.0, dose=0.5, next_age=50.0, next_dose=None) | {"terminated": False})
        datasets.accept([uploading.written(rows, media_type)], media_type, GAPS, uploading.place(tmp_path / "set"))
        (block,) = datasets.load(uploading.place(tmp_path / "set"), GAPS).blocks
        assert np.isnan(block.states[:, 0, 1]).tolist() == [True, True, False]
        assert block.states[:, 0, 0].tolist() == [50.5, 51.0, 52.0]
        assert (block.final[0, 0], np.isnan(block.final[0, 1])) == (50.0, True)

    def test_the_others_may_not(self, media_type: str, tmp_path: Path) -> None:
        rows = [at(1, dose=None), at(2, age=None)]
        assert refused(uploading.written(rows, media_type), media_type, tmp_path, GAPS) == [(2, "age")]

    def test_another_next_state_is_named(self, media_type: str, tmp_path: Path) -> None:
        rows = [at(1, next_age=50.5, next_dose=0.25), at(2, dose=None, next_age=50.5, next_dose=None)]
        assert refused(uploading.written(rows, media_type), media_type, tmp_path, GAPS) == [(1, "next_age")]


def ended(unit: str, step: int, outcome: float | None) -> Row:
    """A row with an outcome where a reward would stand."""
    return {"unit": unit, "step": step, "state": 0, "action": 0, "outcome": outcome}


@pytest.mark.parametrize("media_type", TYPES)
@pytest.mark.parametrize("limits", [Limits(), Limits(block=1, batch=1)])
class TestOutcomes:
    @pytest.mark.parametrize("everywhere", ["all", "last", "first"])
    def test_the_last_row_earns_it_and_the_others_nothing(
        self, everywhere: str, limits: Limits, media_type: str, tmp_path: Path
    ) -> None:
        rows = []
        for unit, (length, outcome) in enumerate([(3, 1.0), (1, 0.25), (2, 0.5)]):
            for step in range(1, length + 1):
                here = everywhere == "all" or step == {"last": length, "first": 1}[everywhere]
                rows.append(ended(f"unit-{unit}", step, outcome if here else None))
        datasets.accept(
            [uploading.written(rows, media_type)], media_type, SCHEMA, uploading.place(tmp_path / "set"), limits
        )
        found = uploading.stored(tmp_path / "set", SCHEMA).values()
        earned = sorted([record[2] for record in unit[0][0]] for unit in found)
        assert earned == [[0.0, 0.0, 1.0], [0.0, 0.5], [0.25]]

    def test_what_is_missing_at_the_end_or_said_twice_is_named(
        self, limits: Limits, media_type: str, tmp_path: Path
    ) -> None:
        rows = [ended("a", 1, None), ended("a", 2, None), ended("b", 1, 1.0), ended("b", 2, None), ended("b", 3, 0.0)]
        rows.append(ended("c", 1, 2.0))
        problems = refused(uploading.written(rows, media_type), media_type, tmp_path, limits=limits)
        assert sorted(set(problems)) == [(2, "outcome"), (5, "outcome"), (6, "outcome")]


@pytest.mark.parametrize("media_type", TYPES)
def test_rewards_and_outcomes_do_not_go_together(media_type: str, tmp_path: Path) -> None:
    data = uploading.written([row(outcome=1.0)], media_type)
    assert refused(data, media_type, tmp_path)[0][1] in ("outcome", "reward")


def test_every_column_has_one_kind() -> None:
    assert set(formats.kinds(PLANE)) >= {"age", "next_age", "dose", "next_dose", "unit", "terminated"}
