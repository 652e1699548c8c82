"""Whose turn it is, how many at once, and what does not fit."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from discretion import blocks, database, errors, memory, requests, runs, settings, tables, uploads
from discretion.learning.schemas import Discrete, Schema, Vector
from tests import services
from tests.dying import Queue

LEASE = timedelta(minutes=5)


@pytest.fixture
def queue(url: str, tmp_path: Path):
    made = Queue(tmp_path, url)
    yield made
    made.close()


def claim(queue: Queue, seconds: float, **more) -> str | None:
    """The training that a worker gets, so many seconds from now."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    with database.transaction(queue.engine) as connection:
        held = runs.claim(connection, actor="worker", at=at, lease=LEASE, **more)
    return None if held is None else held.training


class TestTurns:
    def test_populations_take_turns_however_many_trainings_one_of_them_has(self, queue: Queue) -> None:
        busy, calm, late = (queue.dataset(units=5) for _ in range(3))
        many = [queue.training(busy) for _ in range(5)]
        few = [queue.training(calm) for _ in range(2)]
        assert claim(queue, 1) == many[0]
        assert claim(queue, 2) == few[0]
        last = queue.training(late)
        assert [claim(queue, second) for second in range(3, 9)] == [last, many[1], few[1], many[2], many[3], many[4]]
        assert claim(queue, 9) is None

    def test_datasets_of_one_population_are_one(self, queue: Queue) -> None:
        first, second, other = (queue.dataset(units=5) for _ in range(3))
        with database.transaction(queue.engine) as connection:
            named = connection.execute(sa.select(tables.datasets.c.population).where(tables.datasets.c.id == first))
            population = named.scalar_one()
            here = tables.datasets.c.id == second
            connection.execute(tables.datasets.update().where(here).values(population=population))
        asked = [queue.training(dataset) for dataset in (first, second, other)]
        assert [claim(queue, moment) for moment in (1, 2, 3)] == [asked[0], asked[2], asked[1]]

    def test_what_was_charged_and_left_comes_first(self, queue: Queue) -> None:
        abandoned = queue.training(queue.dataset(units=5))
        assert claim(queue, -3600) == abandoned
        queue.training(queue.dataset(units=5))
        assert claim(queue, 1) == abandoned

    def test_one_that_a_worker_cannot_carry_out_holds_up_nobody(self, queue: Queue) -> None:
        unfit, other = queue.training(queue.dataset(units=5)), queue.training(queue.dataset(units=5))
        assert claim(queue, 1, without=[unfit]) == other
        assert claim(queue, 2, only=other) is None
        assert claim(queue, 3, only=unfit) == unfit


def asked(states: int, units: int) -> requests.Asked:
    request = {"algorithm": "dp-apvi", "privacy": {"rho": "0.5"}, "parameters": {}}
    return requests.of(Schema(20, Discrete(states), 25), None, units, request)


class TestMemory:
    def test_a_need_grows_with_public_sizes_alone(self) -> None:
        small, large = memory.need(asked(4, 100)), memory.need(asked(716, 10**6))
        assert small < large
        assert large == memory.need(asked(716, 10**6))

    @pytest.mark.parametrize(("states", "units"), [(4, 100), (716, 10**6), (716, 10**7), (50_000, 10**6)])
    def test_fewer_processors_never_need_more(self, states: int, units: int) -> None:
        needs = [memory.need(asked(states, units), many) for many in (1, 2, 3, 8, 64)]
        assert needs == sorted(needs)

    def test_what_does_not_fit_is_refused_with_the_figure(self, tmp_path: Path) -> None:
        found = settings.read(services.environment(tmp_path, training_megabytes=1000))
        memory.check(asked(4, 100), found)
        with pytest.raises(errors.ProblemTooLarge, match=r"up to \d+ MB of memory and may take 1000;"):
            memory.check(asked(716, 10**6), found)

    def test_vectors_stay_in_memory_as_far_as_they_may_and_are_not_refused_for_it(self, tmp_path: Path) -> None:
        columns = tuple(f"x{index}" for index in range(12))
        schema = Schema(20, Vector(columns, ((0.0, 1.0),) * 12), 4)
        parameters = {"features": {"kind": "blocks", "terms": ["1", *columns]}}
        request = {"algorithm": "dp-vapvi", "privacy": {"rho": "1"}, "parameters": parameters}
        found = requests.of(schema, None, 100_000, request)
        least = memory.need(found, 1, most=0)
        assert memory.room(found, 1, most=least) == 0
        assert memory.room(found, 1, most=least + 1000) == 1000
        stored = 100_000 * 20 * uploads.record(schema).itemsize
        assert memory.room(found, 1) == min(stored, blocks.KEPT)
        small = settings.read(
            services.environment(tmp_path, training_megabytes=1 + (least >> 20), training_processors=1)
        )
        memory.check(found, small)

    def test_a_feature_table_counts_with_all_that_is_made_of_it(self) -> None:
        def needed(states: int, width: int) -> int:
            table = np.eye(width)[np.arange(states * 2) % width].reshape(states, 2, width) / 2
            parameters = {"features": {"kind": "table", "values": table.tolist()}}
            request = {"algorithm": "dp-vapvi", "privacy": {"rho": "1"}, "parameters": parameters}
            return memory.need(requests.of(Schema(3, Discrete(states), 2), None, 100, request))

        more = needed(2000, 10) - needed(1000, 10)
        assert more > 20 * 8 * 1000 * 2 * 10  # twenty copies

    def test_the_decisions_of_bins_count_as_those_of_states_do(self) -> None:
        def needed(cells: int) -> int:
            edges = np.linspace(0, 1, cells + 1)[1:-1].tolist()
            parameters = {"features": {"kind": "bins", "edges": {"x": edges}}, "calibration": "paper"}
            request = {"algorithm": "dp-vapvi", "privacy": {"rho": "1"}, "parameters": parameters}
            return memory.need(requests.of(Schema(50, Vector(("x",), ((0.0, 1.0),)), 2), None, 100, request))

        assert needed(2000) - needed(1000) > 50 * 1000 * 100

    def test_the_plan_and_the_training_say_so_before_anything_is_reserved(self, tmp_path: Path) -> None:
        with services.serve(tmp_path, workers=0, training_megabytes=200) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian)
            services.grant(custodian, dataset, analyst)
            plan = analyst.post("/v1/plans", json={"dataset": dataset} | services.APVI)
            for answer in (plan, services.submit(analyst, dataset)):
                refused = services.refused(answer, 422, "problem_too_large")
                assert "may take 200;" in refused["detail"]
            assert analyst.get("/v1/trainings").json()["items"] == []


class TestCrew:
    def test_several_trainings_at_once_and_all_end_with_the_command(self, tmp_path: Path) -> None:
        queue = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
        trainings = [queue.training(queue.dataset(units=20)) for _ in range(2)]
        with queue.worker(workers=2) as process:
            services.wait_until(lambda: len(services.children(process.pid)) == 2)
            for training in trainings:
                assert queue.ended(training).state == runs.RELEASED
        assert process.returncode == 0
        for training in trainings:
            queue.check_charged_once(training)
        queue.close()
