"""Two hosts and a cable between them, or three: a cluster over both, and a worker on each. The races are in
`benchmarks/evidence/cluster.py` and `benchmarks/evidence/workers.py`."""

import json
import re
import subprocess
from typing import Any

import pytest
from benchmarks.evidence import cluster, workers

from tests import hosts

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def _allowed() -> None:
    if (why := hosts.missing()) is not None:
        pytest.skip(why)


def raced(module: str, wanted: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """All of them on one stage."""
    done = subprocess.run(hosts.command(module, json.dumps(wanted)), capture_output=True, text=True, cwd=hosts.ROOT)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(race["lost"], race.get("when", "")) for race in found] == wanted, done.stdout + done.stderr
    return found


class TestClusterRaces:
    def test_what_is_lost_in_the_middle_of_a_sum_and_between_two(self) -> None:
        lost = ("a machine there", "the cable for 10 s", "the scheduler")
        for race in raced("benchmarks.evidence.cluster", [(what, when) for when in cluster.WHEN for what in lost]):
            assert race["as_said"]  # in the middle, machines were at a block; between, a sum was there and no next one
            assert (race["state"], race["charges"], race["same_integers"]) == ("released", 1, True)

    def test_what_is_committed_holds(self) -> None:
        found = json.loads(cluster.SUMMARY.read_text(encoding="utf-8"))
        assert {(race["lost"], race["when"]) for race in found} == {(a, b) for a in cluster.WHAT for b in cluster.WHEN}
        assert cluster.holds(found)


@pytest.fixture(scope="module")
def races() -> dict[tuple[str, str], dict[str, Any]]:
    return dict(zip(workers.ALL, raced("benchmarks.evidence.workers", list(workers.ALL)), strict=True))


class TestWorkerRaces:
    def test_whatever_is_lost_all_are_released_charged_once_and_drawn_once(self, races) -> None:
        for race in races.values():
            assert race["trainings"] == race["released"] == race["charges"] == race["releases"]
            assert race["drawn_once"]

    def test_both_hosts_train_and_populations_take_turns(self, races) -> None:
        race = races[workers.NOTHING, ""]
        assert all(race["by_host"].values())
        assert workers.are_in_turn(race["turns"])

    def test_what_was_recorded_before_the_loss_is_used(self, races) -> None:
        for when in workers.WHEN:
            for what in workers.WHAT:
                race = races[what, when]
                assert race["as_said"]
                assert race["recorded_before"]
                assert race["kept"]

    def test_after_a_lease_the_other_host_goes_on_and_the_first_may_write_nothing_more(self, races) -> None:
        for when in workers.WHEN:
            race = races["the cable for 25 s", when]
            assert race["taken_over"]
            assert race["refused"]

    def test_what_a_dead_host_had_the_other_takes_over(self, races) -> None:
        for when in workers.WHEN:
            assert races["the host there", when]["taken_over"]

    def test_what_it_had_locked_when_it_died_is_free_again(self, races) -> None:
        race = races["the host there", workers.CLAIMING]
        assert race["as_said"]
        assert race["taken_over"]

    def test_a_host_that_is_back_trains_again(self, races) -> None:
        assert all(race["works_again"] for race in races.values() if race["lost"] != workers.NOTHING)

    def test_what_is_committed_holds(self) -> None:
        found = json.loads(workers.SUMMARY.read_text(encoding="utf-8"))
        assert [(race["lost"], race.get("when", "")) for race in found] == list(workers.ALL)
        assert workers.holds(found)

    def test_a_queue_in_the_order_of_asking_would_not_be_fair(self) -> None:
        assert not workers.are_in_turn("AAABBB")
        assert workers.are_in_turn("ABABAB")


class TestMachinesThatDoNotReachEachOther:
    def test_it_is_said_before_the_charge_and_ends_a_sum_after_it(self) -> None:
        """All the while both reach the scheduler, and the scheduler both."""
        done = subprocess.run(hosts.command("tests.apart"), capture_output=True, text=True, cwd=hosts.ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = json.loads(done.stdout)
        assert seen["well"].startswith("2 machines")
        for words in (seen["closed"], seen["log"]):
            assert re.search(r"tls://10\.77\.0\.2:\d+ does not reach tls://10\.78\.0\.2:\d+", words)
            assert re.search(r"tls://10\.78\.0\.2:\d+ does not reach tls://10\.77\.0\.2:\d+", words)
        assert seen["before"] == ["reserve"]
        assert "breaks off because the cluster does not answer or has lost a sum" in seen["log"]
        assert (seen["state"], seen["same_integers"]) == ("released", True)
