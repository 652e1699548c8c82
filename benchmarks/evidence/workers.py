"""Two hosts with a worker on each, one PostgreSQL and one store: populations take turns, and whatever the second host
loses, each training is released, was charged once, and drew each number once.

Here are PostgreSQL, the store and a worker; there, at the other end of a cable, the other worker. While that one is in
the middle of a training that has drawn something, its cable is pulled for less than a lease or for longer than one, or
its host dies: also in the middle of a claim, with locks in the database that nobody but the database can take from it.
What each worker summed, drew and was refused is written down by `tests.summed`, in these races alone.
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from tests import clusters, hosts, services

from benchmarks.evidence import site
from discretion import database, datasets, runs, tables

SUMMARY: Final = Path(__file__).with_suffix(".json")
NOTHING: Final = "nothing"
WHAT: Final = ("the cable for 10 s", "the cable for 25 s", "the host there")
WHEN: Final = ("in the middle of a sum", "between two draws")
CLAIMING: Final = "in the middle of a claim"
ALL: Final = ((NOTHING, ""), *((what, when) for what in WHAT for when in WHEN), (WHAT[-1], CLAIMING))

_HERE, _THERE = _HOSTS = ("here", "there")
_EACH: Final = 3  # trainings of a population that wait when both hosts begin
_PAUSE: Final = 2.0  # seconds between a sum and its draw
_SLOWLY: Final = 0.1  # seconds that a worker takes over a block
_CLAIM: Final = 2.0  # seconds of a claim there, with its locks
_LEASE: Final = 15  # seconds, as where nobody says anything else
_LONG: Final = 300.0

Race = tuple[str, str]  # what is lost, and when


@dataclass
class Stage:
    given: site.Site
    populations: tuple[str, ...]  # a dataset of each
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def folder(self, host: str) -> Path:
        return self.given.folder / host

    def log(self, host: str) -> str:
        return (self.folder(host) / "log").read_text()

    def start(self, host: str) -> None:
        """With a log of its own, until it waits for trainings."""
        queue, there = self.given.queue, host == _THERE
        self.folder(host).mkdir(exist_ok=True)
        url = self.given.url if there else queue.url
        environment = services.environment(queue.folder, url, lease_seconds=_LEASE, **self.given.store)
        # With nothing kept of the data, every sum reads the store.
        watched = {"SUMMED": str(self.folder(host)), "PAUSE": str(_PAUSE), "SLOWLY": str(_SLOWLY), "KEPT": "0"}
        watched |= {"CLAIM": str(_CLAIM)} if there else {}
        command = [*(self.given.other.prefix if there else ()), sys.executable, "-m", "tests.summed", "work"]
        with (self.folder(host) / "log").open("wb") as log:
            self.workers[host] = subprocess.Popen(command, env=environment | watched, stdout=log, stderr=log)
        services.wait_until(lambda: "Waiting for trainings" in self.log(host), 60)

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.send_signal(signal.SIGTERM)
        self.given.other.plug()
        for worker in self.workers.values():
            try:
                worker.wait(30)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def ask(self, each: int) -> list[str]:
        """So many trainings of each population, all of the first one's before any of the next one's."""
        return [self.given.queue.training(dataset) for dataset in self.populations for _ in range(each)]

    def begun(self, host: str) -> list[str]:
        return re.findall(r"Training (\w+) begins", self.log(host))

    def is_idle(self, host: str) -> bool:
        return len(self.begun(host)) == len(re.findall(r"Training \w+ is left", self.log(host)))

    # --- races ---------------------------------------------------------------------------------------------------

    def race(self, what: str, when: str) -> dict[str, Any]:
        return self._nothing() if what == NOTHING else self._loss(what, when)

    def _nothing(self) -> dict[str, Any]:
        """A queue of two populations, and two hosts that both have nothing else to do."""
        asked = self.ask(_EACH)
        ended = self._ended(asked)
        turns = self._turns(asked)
        return {
            "lost": NOTHING,
            **self._ends(asked, ended),
            "turns": turns,
            "in_turn": are_in_turn(turns),
            "by_host": {host: len(set(asked) & set(self.begun(host))) for host in _HOSTS},
            "drawn_once": all(self._is_drawn_once(training) for training in asked),
        }

    def _loss(self, what: str, when: str) -> dict[str, Any]:
        """One training for each host, of which the one there loses something; then another for each."""
        for file in ("sums", "claims"):
            (self.folder(_THERE) / file).unlink(missing_ok=True)
        asked = self.ask(1)
        services.wait_until(lambda: self._is_time(when, time.monotonic()), _LONG)
        hit = self._lines("claims", _THERE)[-1][0]
        before, lost = self._recorded(hit), time.monotonic()
        self._lose(what, hit)
        ended = self._ended(asked)
        self._bring_back(what)
        services.wait_until(lambda: self.is_idle(_THERE), _LONG)
        more = self.ask(1)
        ended += self._ended(more)
        after = self._recorded(hit)
        return {
            "lost": what,
            "when": when,
            "as_said": self._is_time(when, lost),
            **self._ends(asked + more, ended),
            "taken_over": hit in self.begun(_HERE),
            "attempts": self.given.queue.row(hit).attempts,
            "recorded_before": len({number for number, _ in before}),
            "kept": before.items() <= after.items(),
            "drawn_once": all(self._is_drawn_once(training) for training in asked + more),
            "refused": self._refused(hit),
            "works_again": not set(more).isdisjoint(self.begun(_THERE)),
        }

    def _lose(self, what: str, hit: str) -> None:
        self.given.other.pull()
        if what == WHAT[0]:
            time.sleep(10)
        elif what == WHAT[1]:
            fence, end = self.given.queue.row(hit).fence, time.monotonic() + 25
            # Longer where the other host is so busy that it has not come to it yet.
            services.wait_until(lambda: self.given.queue.row(hit).fence > fence and time.monotonic() > end, _LONG)
        else:
            self.given.other.die()  # nothing of it comes through the cable, as when power fails
            self.workers[_THERE].wait(30)
            return
        self.given.other.plug()

    def _bring_back(self, what: str) -> None:
        if what == WHAT[-1]:
            self.given.other.plug()
            self.start(_THERE)

    # --- what there is to see ------------------------------------------------------------------------------------

    def _is_time(self, when: str, at: float) -> bool:
        """Whether the worker there was in the middle of a claim; or of its second sum or a later one, or had made that
        and not drawn for it. Asked again of the same moment when everything has been written down."""
        if when == CLAIMING:
            return any(float(began) < at < float(began) + _CLAIM for _, began in self._lines("claims", _THERE))
        begun = [each for each in clusters.sums(self.folder(_THERE)) if each.began < at]
        if len(begun) < 2:
            return False
        ended = begun[-1].ended
        if when == WHEN[0]:
            return ended is None or at < ended
        return ended is not None and ended < at < ended + _PAUSE

    def _ended(self, asked: list[str]) -> list[Any]:
        return [self.given.queue.ended(training, _LONG) for training in asked]

    def _ends(self, asked: list[str], ended: list[Any]) -> dict[str, Any]:
        queue = self.given.queue
        for training in asked:
            queue.check_charged_once(training)
        return {
            "trainings": len(asked),
            "released": sum(row.state == runs.RELEASED for row in ended),
            "charges": sum(row.kind == "charge" for each in asked for row in queue.rows(tables.ledger, each)),
            "releases": sum(len(queue.rows(tables.releases, training)) for training in asked),
        }

    def _turns(self, asked: list[str]) -> str:
        """Whose trainings were begun, in that order: a letter for each population."""
        order = sorted((self.given.queue.row(training) for training in asked), key=lambda row: row.started_at)
        return "".join("AB"[self.populations.index(row.dataset)] for row in order)

    def _recorded(self, training: str) -> dict[tuple[int, int], bytes]:
        """What is stored of each draw, by its number and piece."""
        drawn = tables.drawn
        wanted = sa.select(drawn.c.number, drawn.c.piece, drawn.c.content).where(drawn.c.training == training)
        with database.snapshot(self.given.queue.engine) as connection:
            return {(number, piece): bytes(content) for number, piece, content in connection.execute(wanted)}

    def _is_drawn_once(self, training: str) -> bool:
        """Each number that the database has, by all workers together."""
        rows = self.given.queue.rows(tables.draws, training)
        numbers = sorted(row.number for row in rows)
        lines = [line for host in _HOSTS for line in self._lines("draws", host)]
        drawn = sorted(int(number) for name, number in lines if name == training)
        return all(row.recorded for row in rows) and numbers == list(range(len(rows))) == drawn

    def _refused(self, training: str) -> int:
        """How often the worker there wanted to write what another has claimed since."""
        fence = self.given.queue.row(training).fence
        return sum(name == training and int(held) < fence for name, held in self._lines("refused", _THERE))

    def _lines(self, file: str, host: str) -> list[list[str]]:
        path = self.folder(host) / file
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def are_in_turn(turns: str) -> bool:
    """Wherever one looks, two populations have been served equally often, but for the one whose turn it is. Hosts that
    claim at once may change places, because each looks at the clock first: that counts as one more."""
    return all(abs(turns[:place].count("A") - place / 2) <= 1 for place in range(1, len(turns)))


@contextlib.contextmanager
def _stage() -> Iterator[Stage]:
    with site.opened() as given:
        given.settle({"lease_seconds": _LEASE})
        datasets._BLOCK = 2**10  # type: ignore[misc]
        stage = Stage(given, tuple(given.queue.dataset(units=100) for _ in range(2)))
        try:
            for host in _HOSTS:
                stage.start(host)
            yield stage
        finally:
            stage.stop()


def races(wanted: list[Race]) -> list[dict[str, Any]]:
    """On the first host, which the caller must be on."""
    found = []
    with _stage() as stage:
        for what, when in wanted:
            found.append(stage.race(what, when))
            print(json.dumps(found[-1]), flush=True)
    return found


def holds(found: list[dict[str, Any]]) -> bool:
    """Released, charged once and drawn once, all of them; and what a race is about did happen."""
    return all(
        _is_sound(race) and (_is_fair(race) if race["lost"] == NOTHING else _is_recovered(race)) for race in found
    )


def _is_sound(race: dict[str, Any]) -> bool:
    ended = {race["trainings"], race["released"], race["charges"], race["releases"]}
    return len(ended) == 1 and bool(race["drawn_once"])


def _is_fair(race: dict[str, Any]) -> bool:
    return race["in_turn"] and all(race["by_host"].values())


def _is_recovered(race: dict[str, Any]) -> bool:
    """What was recorded before is used; after a lease the other host has it, and this one may write nothing more."""
    begun = race["recorded_before"] > 0 or race["when"] == CLAIMING
    over = race["taken_over"] or race["lost"] == WHAT[0]
    refused = race["refused"] > 0 or race["lost"] != WHAT[1]
    return race["as_said"] and begun and race["kept"] and over and refused and race["works_again"]


def run(rounds: int, summary: Path | None) -> bool:
    """Every race so many times, or only two of them."""
    if (why := hosts.missing()) is not None:
        print(f"not run: {why}")
        return True
    wanted = list(ALL) * rounds or [ALL[0], (WHAT[1], WHEN[1])]
    done = subprocess.run(
        hosts.command("benchmarks.evidence.workers", json.dumps(wanted)), check=True, capture_output=True, text=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if summary is not None:
        summary.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return len(found) == len(wanted) and holds(found)


if __name__ == "__main__":
    sys.exit(not holds(races([(what, when) for what, when in json.loads(sys.argv[1])])))
