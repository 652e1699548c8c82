"""Two hosts, a cluster over both, and everything that can be lost: each training ends, was charged once, and made the
integers that its own process makes of the same records.

Here are PostgreSQL, the store, the scheduler and a machine; there, at the other end of a cable, the worker that trains
and another machine. In the middle of a sum, or between two, a machine or the scheduler is killed or the cable is pulled
for ten seconds. What the sums came to, what they come to in one process, and when which machine was in the middle of a
block is written down by `tests.summed` before noise is added, in these races alone.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests import clusters, dying, hosts, services

from benchmarks.evidence import site
from discretion import datasets, runs, tables

SUMMARY: Final = Path(__file__).with_suffix(".json")
_CUT: Final = 10.0  # seconds without a cable
_AWAY: Final = 3.0  # seconds until somebody has started what was killed
_PAUSE: Final = 4.0  # seconds between two sums
_SLOWLY: Final = 1.0  # seconds that a machine takes over a block
_PORT: Final = 8786
_LONG: Final = 600.0
_SOON: Final = 3.0  # seconds, instead of a minute, that a run waits for a scheduler that never comes back
TRIES: Final = 10

Race = tuple[str, str]  # what is lost, and when
_MACHINES: Final = ("a machine here", "a machine there")
WHAT: Final = (*_MACHINES, "the cable for 10 s", "the scheduler", "the scheduler, for good")
WHEN: Final = ("in the middle of a sum", "between two sums")


@dataclass
class Stage:
    folder: Path
    other: hosts.Other
    cluster: clusters.Cluster
    queue: dying.Queue
    url: str  # of the database, from there
    dataset: str = ""
    parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def watched(self) -> dict[str, str]:
        return {"SUMMED": str(self.folder), "PAUSE": str(_PAUSE)}

    def start(self, part: str) -> None:
        there = self.other.prefix if part.endswith("there") else ()
        what = "schedule" if part == "the scheduler" else "work"
        # Who is killed leaves its temporary folder behind, which goes with ours.
        slowly = self.watched | {"SLOWLY": str(_SLOWLY), "TMPDIR": str(self.folder)}
        self.parts[part] = self.cluster.start(what, there, "tests.summed", slowly, host=hosts.HERE)

    def lose(self, what: str) -> None:
        if what.startswith("the cable"):
            self.other.pull()
            time.sleep(_CUT)
            self.other.plug()
            return
        part = what.removesuffix(", for good")
        clusters.kill(self.parts[part])
        if part == what:
            time.sleep(_AWAY)
            self.start(part)

    @contextlib.contextmanager
    def worker(self, what: str) -> Iterator[None]:
        environment = services.environment(self.queue.folder, self.url, **self.cluster.settings) | self.watched
        if what.endswith("for good"):
            environment |= {"AWAY": str(_SOON)}
        with (self.folder / "worker.log").open("ab") as log:
            command = [*self.other.prefix, sys.executable, "-m", "tests.summed", "work"]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    @property
    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def race(self, what: str, when: str) -> dict[str, Any]:
        """One training, and what became of it."""
        for file in ("sums", "reads"):
            (self.folder / file).unlink(missing_ok=True)
        began = time.monotonic()
        training = self.queue.training(self.dataset)
        machines = {self.parts[part].pid for part in _MACHINES if what == part or what not in _MACHINES}
        with self.worker(what):
            services.wait_until(lambda: self._is_time(when, machines, time.monotonic()), _LONG)
            lost = time.monotonic()
            self.lose(what)
            ended = self.queue.ended(training, _LONG)
        if what.endswith("for good"):
            self.start("the scheduler")
        self.queue.check_charged_once(training)
        found = clusters.sums(self.folder)
        return {
            "lost": what,
            "when": when,
            "as_said": self._is_time(when, machines, lost),
            "state": ended.state,
            "code": ended.code,
            "charges": sum(row.kind == "charge" for row in self.queue.rows(tables.ledger, training)),
            "runs": self.log.count(f"Training {training} breaks off") + (ended.state == runs.RELEASED),
            "sums": len({each.number for each in found if each.ended is not None}),
            "broken_off": sum(each.ended is None for each in found),
            "same_integers": clusters.same(found),
            "seconds": round(time.monotonic() - began),
        }

    def _is_time(self, when: str, machines: set[int], at: float) -> bool:
        """Whether that is what was going on: between two sums, or in the middle of one, each of the machines in the
        middle of a block. Asked again of the same moment when all is over and everything has been written down."""
        if when != WHEN[0]:
            return clusters.between(self.folder, at)
        return machines <= clusters.summing(self.folder, at)


@contextlib.contextmanager
def _stage() -> Iterator[Stage]:
    with site.opened() as found:
        tls = clusters.certificates(found.folder / "cluster" / "tls")
        named = {"cluster": f"tls://{hosts.HERE}:{_PORT}"} | tls
        running = clusters.Cluster(found.folder / "cluster", named | found.store)
        found.settle(named)
        stage = Stage(found.folder, found.other, running, found.queue, found.url)
        try:
            datasets._BLOCK = 2**10  # type: ignore[misc]
            stage.dataset = found.queue.dataset(units=100)
            for part in ("the scheduler", *_MACHINES):
                stage.start(part)
            running.ready(2)
            yield stage
        finally:
            running.stop()


def races(wanted: list[Race]) -> list[dict[str, Any]]:
    """On the first host, which the caller must be on."""
    found = []
    with _stage() as stage:
        for what, when in wanted:
            found.append(stage.race(what, when))
            print(json.dumps(found[-1]), flush=True)
    return found


def holds(found: list[dict[str, Any]]) -> bool:
    """For good or not: lost when it was to be, ended, charged once, the same integers; released unless the cluster
    never came back, and then tried as often as it may be."""
    ended = all(race["as_said"] and race["charges"] == 1 and race["same_integers"] for race in found)
    lost = [race for race in found if race["lost"].endswith("for good")]
    came_to = all((race["state"] == runs.FAILED) == (race in lost) for race in found)
    return ended and came_to and all(race["runs"] == TRIES for race in lost)


def run(rounds: int, summary: Path | None) -> bool:
    """Every race so many times, or only two of them."""
    if (why := hosts.missing()) is not None:
        print(f"not run: {why}")
        return True
    wanted = [(what, when) for _ in range(rounds) for what in WHAT for when in WHEN]
    wanted = wanted or [("a machine there", WHEN[0]), ("the scheduler", WHEN[1])]
    done = subprocess.run(
        hosts.command("benchmarks.evidence.cluster", json.dumps(wanted)), check=True, capture_output=True, text=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if summary is not None:
        summary.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return len(found) == len(wanted) and holds(found)


if __name__ == "__main__":
    sys.exit(not holds(races([(what, when) for what, when in json.loads(sys.argv[1])])))
