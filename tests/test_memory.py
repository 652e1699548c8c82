"""How much memory trainings take: never more than they are said to, and no other's."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from benchmarks import scale, stays
from fastapi.responses import Response

from discretion import cli, database, datasets, errors, memory, requests, runs, settings
from discretion.api import bodies, policies
from discretion.api.service import Service
from discretion.keys import Key
from discretion.learning import documents
from discretion.learning.schemas import Schema
from tests import clusters, hungry, services
from tests.clusters import Cluster
from tests.dying import Queue

READER = Key("key_any", "any", "auditor", "", None)  # who sees everything

pytestmark = pytest.mark.long


@pytest.fixture
def released(tmp_path: Path) -> Iterator[Queue]:
    """A training as if it had ended, of which nothing was drawn."""
    with contextlib.closing(Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")) as queue:
        dataset = queue.stored(hungry.KEPT, hungry.STORED, "nowhere", budget=hungry.RHO)
        training = queue.training(dataset, hungry.request("dp-apvi", {}))
        with database.transaction(queue.engine) as connection:
            runs.claim(connection, actor="worker", at=datetime.now(UTC), lease=timedelta(0))
        queue.change(training, state=runs.RELEASED)
        yield queue


def measured(
    folder: Path, schema: Schema, which: str, case: str, settings: dict[str, str] | None = None
) -> tuple[int, int]:
    """Bytes that were taken, and those that were said."""
    stays.store(folder, schema, hungry.STORED)
    return said_by(which, str(folder), case, settings=settings)


def said_by(*asked: str, settings: dict[str, str] | None = None) -> tuple[int, int]:
    taken, most = map(int, printed(*asked, settings=settings).split())
    return taken, most


def printed(*asked: str, settings: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "tests.hungry", *asked]
    environment = os.environ | cli._RESERVED | (settings or {}) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


class TestNeed:
    @pytest.mark.parametrize("name", scale.PARAMETERS)
    @pytest.mark.parametrize("processors", [1, 2, 8])
    def test_does_not_grow_with_patients_once_there_are_many(self, name: str, processors: int) -> None:
        vector = name in scale.VECTOR
        schema, many = (scale.vector(16), (10**6, 10**7)) if vector else (scale.discrete(), (10**7, 10**8, 10**9))
        asked = [scale.asked(name, schema, units) for units in many]
        assert len({memory.need(each, processors) for each in asked}) == 1
        assert len({memory.summing(each) for each in asked}) == 1

    @pytest.mark.parametrize("name", scale.PARAMETERS)
    def test_nor_does_what_is_taken_by_as_much_as_half_a_byte_for_each_record(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By one thread, of blocks that are small and of which none is kept. Fewer than 262 144 patients are not many:
        so many are asked how long their vectors are."""
        monkeypatch.setattr(datasets, "_BLOCK", 2**22)
        sizes = (150_000, 1_000_000) if name in scale.VECTOR else (300_000, 1_500_000)
        taken = []
        for units in sizes:
            stays.store(tmp_path / str(units), hungry.bare(name), units)
            taken.append(int(printed("bare", str(tmp_path / str(units)), name)))
            shutil.rmtree(tmp_path / str(units))  # or pytest would keep gigabytes of them
        assert taken[1] - taken[0] < hungry.bare(name).horizon * (sizes[1] - sizes[0]) / 2

    @pytest.mark.parametrize("case", hungry.CASES)
    def test_a_learner_takes_no_more_than_that_and_not_much_less(self, case: str, tmp_path: Path) -> None:
        taken, said = measured(tmp_path, hungry.CASES[case][0], "learn", case)
        assert taken <= said < 3 * taken

    @pytest.mark.parametrize("case", hungry.LARGE)
    def test_of_a_hundred_thousand_states_it_takes_no_more_either(self, case: str, tmp_path: Path) -> None:
        taken, said = measured(tmp_path, hungry.LARGE[case][0], "large", case)
        assert taken <= said


class TestRehearsing:
    @pytest.mark.parametrize("case", hungry.REHEARSED)
    def test_a_rehearsal_takes_no_more_than_that_and_not_much_less(self, case: str) -> None:
        schema, units, algorithm, parameters = hungry.REHEARSED[case]
        request = {"algorithm": algorithm, "privacy": {"rho": "1"}, "parameters": parameters}
        said = memory.rehearsing(requests.of(schema, None, units, request))
        question = request | {"schema": documents.schema_document(schema), "units": units}
        taken = self.taken(json.dumps(question), said)
        assert taken <= said < 3 * taken

    def taken(self, question: str, most: int) -> int:
        """Bytes of the program, fenced by so many. It says so itself: what the kernel tells its parent begins with what
        that has."""
        lines = ["import sys", "from benchmarks.rows import peak_megabytes", "from discretion import twin"]
        lines += [f"ended = twin.main({os.getpid()}, {most})", "print(peak_megabytes(), file=sys.stderr)"]
        command = [sys.executable, "-c", "\n".join([*lines, "sys.exit(ended)"])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, input=question, env=environment, check=True, capture_output=True, text=True)
        assert "learned_share" in json.loads(done.stdout)
        return round(float(done.stderr) * memory.MEGABYTE)


class TestResuming:
    @pytest.mark.parametrize("url", ["postgresql"], indirect=True)  # whose driver holds the most
    def test_what_was_drawn_is_read_again_within_the_same_and_derived_from_within_less(
        self, url: str, tmp_path: Path
    ) -> None:
        with contextlib.closing(Queue(tmp_path, url)) as queue:
            stays.store(tmp_path, hungry.KEPT, hungry.STORED)
            dataset = queue.stored(hungry.KEPT, hungry.STORED, stays.place(tmp_path).name, budget=hungry.RHO)
            queue.training(dataset, hungry.request("dp-apvi", {}))
        for how in ("draw", "resume", "derive"):
            taken, said = said_by(how, str(tmp_path), url)
            assert taken <= said < 3 * taken, how


class TestDeriving:
    WANTED = memory.deriving(requests.of(hungry.KEPT, None, hungry.STORED, hungry.request("dp-apvi", {})))
    ENOUGH = -(-(WANTED + memory.PROGRAM) // memory.MEGABYTE)

    @pytest.mark.parametrize("parameters", [{}, {"dynamics": "stationary"}])
    def test_it_needs_less_than_the_training_did(self, parameters: dict[str, str]) -> None:
        asked = requests.of(hungry.KEPT, None, hungry.STORED, hungry.request("dp-apvi", parameters))
        assert memory.deriving(asked) + memory.PROGRAM < memory.need(asked)

    def test_more_than_there_is_is_refused_with_the_figure_before_anything_is_read(self, released: Queue) -> None:
        most = self.ENOUGH - 1
        figures = rf"needs up to {self.ENOUGH - 256} MB of memory and may take {most - 256};"
        with pytest.raises(errors.ProblemTooLarge, match=figures):
            self.derive(released, most)

    def test_a_container_that_is_smaller_than_a_training_is_kept_to(
        self, released: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory, "machine", lambda: (self.ENOUGH - 1) * memory.MEGABYTE)
        with pytest.raises(errors.ProblemTooLarge):
            self.derive(released, 2 * self.ENOUGH)

    def test_several_at_once_take_no_more_than_that_together(self, released: Queue) -> None:
        with pytest.raises(errors.TooManyRequests):
            self.derive(released, self.ENOUGH, beside=memory.MEGABYTE)
        with pytest.raises(errors.NothingReleased):  # it has come to reading, and here nothing was drawn
            self.derive(released, self.ENOUGH)

    def test_a_third_at_once_is_told_to_come_again_however_small(self, released: Queue) -> None:
        deriving = Service(settings.read(released.environment()), released.engine).deriving
        with deriving.one(0), deriving.one(0), pytest.raises(errors.TooManyRequests), deriving.one(0):
            pass
        with deriving.one(0), deriving.one(0):
            pass

    def derive(self, queue: Queue, megabytes: int, beside: int = 0) -> None:
        """While another takes so many bytes."""
        (training,) = queue.plans
        service = Service(settings.read(queue.environment(training_megabytes=megabytes)), queue.engine)
        with service.deriving.one(beside):
            policies.derive_policy(training, bodies.NewDerivation(parameters={}), READER, service, Response())


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each test brings its machines."""
    with clusters.cluster(tmp_path_factory.mktemp("cluster"), 0) as made:
        yield made


class TestSumming:
    @pytest.mark.parametrize(
        ("case", "spare"),
        [(case, 0) for case in ("apvi", "apvi, a large table", "pae", "vapvi, a table")]
        + [(case, 16) for case in ("pae", "vapvi, pooled")],
    )
    def test_machines_that_have_no_more_make_the_sums_and_who_asks_takes_no_more_either(
        self, case: str, spare: int, scheduler: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two of them, of several blocks each, so that they hand each other what they made. What some spare, in MB, is
        for what they have read."""
        monkeypatch.setattr(datasets, "_BLOCK", 2**20)
        asked = hungry.asked_of(hungry.ELSEWHERE[case])
        least = -(-memory.summing(asked) // memory.MEGABYTE)
        store, begun = f"file://{tmp_path / 'datasets'}", scheduler.log.count("Making sums")
        passing = Path(f"/proc/{scheduler.running[0].pid}")
        (passing / "clear_refs").write_text("5")  # its peak is what it has now
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                stack.callback(clusters.kill, scheduler.start("work", store=store, training_megabytes=least + spare))
            scheduler.ready(begun + 2)
            taken, said = measured(
                tmp_path,
                asked.schema,
                "elsewhere",
                case,
                services.environment(tmp_path, **(scheduler.settings | {"store": store})),
            )
        assert datasets.blocks(stays.place(tmp_path)) > 2
        assert taken <= said
        peak = dict(line.split(":\t") for line in (passing / "status").read_text().splitlines())["VmHWM"]
        assert int(peak.split()[0]) * 1024 <= memory.scheduling(asked)


class TestTheFence:
    @pytest.mark.parametrize("whose", ["what is set", "what the machine has"])
    def test_who_asks_for_more_fails_charged_once_and_harms_nobody(self, whose: str, tmp_path: Path) -> None:
        limit = {"training_megabytes": hungry.LIMIT} if whose == "what is set" else {}
        machine = {} if whose == "what is set" else {"WHOLE": str(hungry.LIMIT)}
        queue = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
        before, hungry_one, after = (queue.training(queue.dataset(units=units)) for units in (20, hungry.UNITS, 21))
        with queue.running("tests.hungry", "work", environment=machine, **limit) as worker:
            for training in (before, after):
                assert queue.ended(training).state == runs.RELEASED
            failed = queue.ended(hungry_one)
            assert worker.poll() is None
        assert (failed.state, failed.code, failed.attempts) == (runs.FAILED, runs.FAILURE, 1)
        assert f"Training {hungry_one} breaks off because there is too little memory here." in queue.log
        for training in (before, hungry_one, after):
            queue.check_charged_once(training)
        queue.close()
