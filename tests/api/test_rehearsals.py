"""Rehearsals: the same training on a made-up twin, as often as one likes, for nothing."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discretion import catalogue, database, errors, memory, requests, settings
from discretion.api import bodies, rehearsals
from discretion.api.service import Service
from discretion.keys import Key
from tests import services
from tests.api.hospital import Hospital
from tests.dying import Queue

ASKED: dict[str, Any] = services.AUTO | {"privacy": {"rho": "10"}}
READER = Key("key_any", "any", "auditor", "", None)  # who sees everything


def rehearsed(hospital: Hospital, dataset: str, **changes: Any) -> Any:
    return hospital.analyst.post("/v1/rehearsals", json=ASKED | {"dataset": dataset} | changes)


class TestARehearsal:
    @pytest.mark.parametrize("things", ["own", "linear"])
    def test_says_what_would_be_learned_from_the_twin(self, things: str, hospital: Hospital) -> None:
        dataset = getattr(hospital, things).dataset
        found = rehearsed(hospital, dataset).json()
        assert (found["dataset"], found["twin"], found["units"]) == (dataset, 0, 200)
        assert 0 <= found["learned_share"] <= 1
        assert found["chosen"]["by"] == "auto"
        horizon = services.TABULAR["horizon"]
        assert all(0 <= found["value"][name] <= horizon for name in ("behaviour", "policy"))

    def test_costs_nothing(self, hospital: Hospital) -> None:
        path = f"/v1/datasets/{hospital.own.dataset}/ledger"
        before = hospital.analyst.get(path).json()
        assert rehearsed(hospital, hospital.own.dataset).status_code == 200
        assert hospital.analyst.get(path).json() == before

    def test_is_of_public_quantities_only(self, hospital: Hospital) -> None:
        """Two datasets of the same schema and size have the same twins, whoever is in them."""
        other = services.ready_dataset(hospital.custodian, units=200)
        services.grant(hospital.custodian, other, hospital.analyst)
        values = [rehearsed(hospital, dataset).json()["value"] for dataset in (hospital.own.dataset, other)]
        assert values[0]["behaviour"] == values[1]["behaviour"]
        assert values[0]["best"] == values[1]["best"]
        assert rehearsed(hospital, other, twin=1).json()["value"]["best"] != values[0]["best"]
        grant = hospital.custodian.get(f"/v1/datasets/{other}/grants").json()["items"][0]["id"]
        assert hospital.custodian.delete(f"/v1/datasets/{other}/grants/{grant}").status_code == 200

    @pytest.mark.parametrize("change", [{"twin": -1}, {"twin": "x"}, {"seed": 1}, {"parameters": {"seed": 1}}])
    def test_is_refused_like_a_training(self, change: dict[str, Any], hospital: Hospital) -> None:
        assert rehearsed(hospital, hospital.own.dataset, **change).status_code == 422


class TestItsMemory:
    """What a rehearsal may take is what one training may, in the API's container, and what derivations leave of it."""

    @pytest.fixture
    def queue(self, tmp_path: Path) -> Iterator[Queue]:
        with contextlib.closing(Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")) as made:
            yield made

    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """The commands of the processes that would have played."""
        commands: list[list[str]] = []

        def run(command: list[str], **named: Any) -> Any:
            commands.append(command)
            return subprocess.CompletedProcess(command, 0, b"{}", b"")

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    def test_more_than_there_is_is_refused_with_the_figure_before_it_starts(
        self, queue: Queue, started: list[list[str]]
    ) -> None:
        dataset = queue.dataset()
        most = self.enough(queue, dataset) - 1
        figures = rf"A rehearsal .* needs up to {most + 1 - 256} MB of memory and may take {most - 256};"
        with pytest.raises(errors.ProblemTooLarge, match=figures):
            self.rehearse(queue, dataset, most)
        assert started == []

    def test_so_is_what_does_not_fit_into_a_smaller_container(
        self, queue: Queue, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dataset = queue.dataset()
        most = self.enough(queue, dataset) - 1
        monkeypatch.setattr(memory, "machine", lambda: most * memory.MEGABYTE)
        with pytest.raises(errors.ProblemTooLarge):
            self.rehearse(queue, dataset, 2 * most)
        assert started == []

    def test_its_process_is_told_how_much_it_may_take(self, queue: Queue, started: list[list[str]]) -> None:
        dataset = queue.dataset()
        enough = self.enough(queue, dataset)
        self.rehearse(queue, dataset, enough)
        (command,) = started
        assert command[-1] == str((enough - 256) * memory.MEGABYTE)

    def test_what_does_not_fit_beside_derivations_is_told_to_come_again_and_leaves_its_place(
        self, queue: Queue, started: list[list[str]]
    ) -> None:
        dataset = queue.dataset()
        enough = self.enough(queue, dataset)
        service = self.service(queue, enough)
        with service.deriving.one(memory.MEGABYTE), pytest.raises(errors.TooManyRequests):
            self.rehearse(queue, dataset, enough, service)
        assert started == []
        self.rehearse(queue, dataset, enough, service)
        assert len(started) == 1

    def test_two_derivations_still_have_their_places_beside_it(self, queue: Queue) -> None:
        deriving = self.service(queue, 1000).deriving
        with deriving.beside(memory.MEGABYTE), deriving.one(0), deriving.one(0):
            pass

    def enough(self, queue: Queue, dataset: str) -> int:
        """So many megabytes of one training are just enough for the program and the rehearsal beside it."""
        with database.snapshot(queue.engine) as connection:
            asked = requests.asked(catalogue.stored(connection, dataset), ASKED)
        return -(-(memory.rehearsing(asked) + memory.PROGRAM) // memory.MEGABYTE)

    def service(self, queue: Queue, megabytes: int) -> Service:
        return Service(settings.read(queue.environment(training_megabytes=megabytes)), queue.engine)

    def rehearse(self, queue: Queue, dataset: str, megabytes: int, service: Service | None = None) -> None:
        body = bodies.NewRehearsal(dataset=dataset, **ASKED)
        rehearsals.rehearse(body, READER, service or self.service(queue, megabytes))
