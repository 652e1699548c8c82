"""Two hosts and a cable between them, or three; all the races are in `benchmarks/evidence/cluster.py`."""

import json
import re
import subprocess
from typing import Any

import pytest
from benchmarks.evidence import cluster

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
