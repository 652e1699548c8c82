"""Whose turn it is, how many at once, and what does not fit."""

import contextlib
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from discretion import blocks, database, errors, memory, requests, runs, settings, tables, uploads
from discretion.learning import counts, sums
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

    def test_one_that_was_looked_for_before_gets_nothing_out_of_turn(self, queue: Queue) -> None:
        busy, calm = (queue.dataset(units=5) for _ in range(2))
        many, few = [queue.training(busy) for _ in range(2)], queue.training(calm)
        assert [claim(queue, 1, only=each) for each in (few, many[1], many[0])] == [None, None, many[0]]
        assert [claim(queue, 2, only=each) for each in (many[1], few)] == [None, few]
        assert claim(queue, 3, only=many[1]) == many[1]


@pytest.fixture
def shared(postgres: str, tmp_path: Path) -> Iterator[Queue]:
    """On PostgreSQL, where claims do not take turns by themselves."""
    name = f"turns_{uuid.uuid4().hex}"
    server = database.engine(postgres)
    with server.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text(f"CREATE DATABASE {name}"))
    server.dispose()
    made = Queue(tmp_path, sa.make_url(postgres).set(database=name).render_as_string(False))
    yield made
    made.close()


class TestClaimsAtOnce:
    """Several workers, none of which has committed its claim when the next one begins. PostgreSQL only: SQLite lets one
    begin when the other has ended."""

    @contextlib.contextmanager
    def claiming(self, queue: Queue, only: str | None = None) -> Iterator[str | None]:
        """What a worker gets, its transaction open until the block ends. Who had to wait for another would fail."""
        with database.transaction(queue.engine) as connection:
            connection.execute(sa.text("SET LOCAL lock_timeout = '5s'"))
            at = datetime.now(UTC)
            held = runs.claim(connection, actor="worker", at=at, lease=LEASE, only=only)
            yield None if held is None else held.training

    def test_populations_take_turns(self, shared: Queue) -> None:
        busy, calm, late = (shared.dataset(units=5) for _ in range(3))
        many, few = [shared.training(busy) for _ in range(3)], shared.training(calm)
        last = shared.training(late)
        with self.claiming(shared) as first, self.claiming(shared) as second, self.claiming(shared) as third:
            assert [first, second, third] == [many[0], few, last]
        assert [claim(shared, 1), claim(shared, 2), claim(shared, 3)] == [many[1], many[2], None]

    def test_one_that_was_looked_for_before_waits_while_another_serves_its_population(self, shared: Queue) -> None:
        busy, calm = (shared.dataset(units=5) for _ in range(2))
        many, few = [shared.training(busy) for _ in range(2)], shared.training(calm)
        with self.claiming(shared, many[0]) as first:
            with self.claiming(shared, many[1]) as second:
                assert [first, second] == [many[0], None]
            with self.claiming(shared, few) as third:
                assert third == few

    def test_one_that_is_committed_while_another_looks_counts(
        self, shared: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other has seen the queue as it was, and has not said yet what it takes."""
        busy, calm = (shared.dataset(units=5) for _ in range(2))
        many, few = [shared.training(busy) for _ in range(2)], shared.training(calm)
        hold, looks = database.hold, iter((True,))

        def late(connection: sa.Connection, name: str) -> bool:
            if next(looks, False):
                shared.change(many[1], started_at=database.stamp(datetime.now(UTC)), state=runs.RUNNING)
            return hold(connection, name)

        monkeypatch.setattr(database, "hold", late)
        with self.claiming(shared) as got:
            assert got == few

    def test_the_only_population_there_is_has_its_next_training_claimed_as_well(self, shared: Queue) -> None:
        """By a worker that has got so far: the charge itself waits for the first, as it must."""
        dataset = shared.dataset(units=5)
        many = [shared.training(dataset) for _ in range(2)]
        with database.transaction(shared.engine) as one, database.transaction(shared.engine) as two:
            first, second = (runs._taken(each, datetime.now(UTC), ()) for each in (one, two))
            assert [first.id, second.id] == many

    def test_workers_that_race_serve_every_population_before_any_twice(self, shared: Queue) -> None:
        populations = [[shared.training(dataset) for _ in range(3)] for dataset in self.datasets(shared, 8)]
        owner = {training: index for index, asked in enumerate(populations) for training in asked}
        with ThreadPoolExecutor(4) as workers:
            claimed = list(workers.map(lambda _: self.one(shared), range(24)))
        assert sorted(claimed) == sorted(owner)
        with shared.engine.connect() as connection:
            order = sa.select(tables.trainings.c.id).order_by(tables.trainings.c.started_at)
            served = [owner[name] for name in connection.execute(order).scalars()]
        # The moments are taken before the claim: as many may have changed places as claim at once.
        assert all(abs(served[:place].count(each) - place / 8) <= 1 for place in (8, 16) for each in range(8))

    def datasets(self, queue: Queue, many: int) -> list[str]:
        return [queue.dataset(units=5) for _ in range(many)]

    def one(self, queue: Queue) -> str:
        return services.wait_until(lambda: claim(queue, 0))


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

    def test_every_threads_stack_counts_also_of_those_that_make_a_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def needs() -> list[int]:
            found = asked(716, 10**7)
            return [memory.need(found, 1, most=0), memory.need(found, 64, most=0), memory.summing(found)]

        with_them = needs()
        monkeypatch.setattr(memory, "_STACK", 0)
        megabytes = [(one - other) // memory.MEGABYTE for one, other in zip(with_them, needs(), strict=True)]
        assert megabytes == [8 * counts.MAKERS, 8 * 63, 8 * counts.MAKERS]

    def test_so_do_those_of_whoever_denoises_a_table(self) -> None:
        request = {"algorithm": "dp-apvi", "privacy": {"rho": "10"}, "parameters": {"dynamics": "stationary"}}
        found = requests.of(Schema(20, Discrete(716), 25), None, 20_000, request)  # in one block
        more = memory.need(found, 8, most=0) - memory.need(found, 1, most=0)
        assert more == (8 - counts.MAKERS) * 8 * memory.MEGABYTE

    def test_a_machine_of_the_cluster_needs_the_same_whoever_asks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        request = {"algorithm": "dp-apvi", "privacy": {"rho": "10"}, "parameters": {"dynamics": "stationary"}}
        found = requests.of(Schema(20, Discrete(716), 25), None, 20_000, request)
        needs = set()
        for processors in (1, 2, 64):
            monkeypatch.setattr(sums, "processors", lambda many=processors: many)
            needs.add(memory.summing(found))
        assert len(needs) == 1

    def test_what_does_not_fit_is_refused_with_the_figure(self, tmp_path: Path) -> None:
        found = settings.read(services.environment(tmp_path, training_megabytes=1000))
        memory.check(asked(4, 100), found)
        with pytest.raises(errors.ProblemTooLarge, match=r"up to \d+ MB of memory and may take 1000;"):
            memory.check(asked(716, 10**6), found)

    def test_nor_what_does_not_fit_on_a_machine_of_the_cluster_where_that_is_known(self) -> None:
        """Which an API can refuse that does not know the cluster."""
        wanted = asked(716, 10**7)
        least = -(-memory.summing(wanted) // memory.MEGABYTE)

        def check(has: int) -> None:
            given = {"training_megabytes": str(10**5), "cluster_megabytes": str(has)}
            memory.check(wanted, settings.read({f"DISCRETION_{name.upper()}": each for name, each in given.items()}))

        check(0)
        check(least)
        with pytest.raises(errors.ProblemTooLarge, match=rf"up to {least} MB .* the cluster, which has {least - 1};"):
            check(least - 1)

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
