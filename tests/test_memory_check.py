"""What plans let through where somebody starts the Compose file as it is."""

import re
from pathlib import Path

import pytest
from benchmarks import scale

from discretion import memory, settings
from discretion.learning import sums

COMPOSE = Path(__file__).parents[1] / "docker" / "compose.yaml"


@pytest.fixture(params=[2, 4], ids=["two processors", "four processors"])
def deployed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> settings.Settings:
    monkeypatch.setattr(sums, "processors", lambda: request.param)
    return settings.read({"DISCRETION_DATA": str(tmp_path), "DISCRETION_TRAINING_MEGABYTES": given()})


def given() -> str:
    (megabytes,) = set(re.findall(r"TRAINING_MEGABYTES:-(\d+)", COMPOSE.read_text(encoding="utf-8")))
    return megabytes


class TestCheck:
    @pytest.mark.parametrize("name", [*scale.COUNTING, scale.ROUND_BY_ROUND])
    @pytest.mark.parametrize("actions_and_steps", [(5, 10), (25, 20)])
    @pytest.mark.parametrize("units", [10**5, 10**7])
    def test_a_hundred_thousand_states_fit(
        self, name: str, actions_and_steps: tuple[int, int], units: int, deployed: settings.Settings
    ) -> None:
        asked = scale.asked(name, scale.discrete(100_000, *actions_and_steps), units)
        memory.check(asked, deployed)
        assert memory.summing(asked) <= memory.USUAL  # of a machine of the cluster in the same file

    @pytest.mark.parametrize("name", [*scale.COUNTING, scale.ROUND_BY_ROUND, scale.BY_TABLE])
    def test_ten_million_stays_of_an_intensive_care_unit_fit(self, name: str, deployed: settings.Settings) -> None:
        memory.check(scale.asked(name, scale.discrete(), 10**7), deployed)

    def test_what_the_file_gives_a_training_is_taken_for_the_usual(self) -> None:
        assert int(given()) * memory.MEGABYTE == memory.USUAL


class TestNeed:
    @pytest.mark.parametrize(("states", "most"), [(100_000, 3584), (716, 3584), (716, 2048)])
    def test_a_table_by_step_is_not_said_to_take_what_blocks_have_left(self, states: int, most: int) -> None:
        """It is one array, and gets pages of its own while theirs stay with the process."""
        asked, most = scale.asked("DP-APVI", scale.discrete(states, 5, 10), 10**7), most * memory.MEGABYTE
        kept = memory.room(asked, 2, most)
        assert kept > 0
        assert memory.need(asked, 2, most) == memory.need(asked, 2, most=0) + kept <= most
