"""Processes that are killed at a named step, and queues of trainings to kill them over.

`python -m tests.dying pool` runs a few workers on one queue, starts another when one dies, and kills a training's
worker or child with SIGKILL when it reaches the step its plan names: once for each step of a plan. `python -m
tests.dying serve` runs the service and kills it when an upload's folder is in its place and the database does not know
yet. What is wrapped here is how the rooms call each other; nothing of what they do is replaced.
"""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import sqlalchemy as sa

from discretion import (
    catalogue,
    cli,
    database,
    datasets,
    ledger,
    logs,
    requests,
    runs,
    serving,
    settings,
    shelves,
    signing,
    tables,
)
from discretion import processes as lifelines
from discretion import trainings as use_cases
from discretion import worker as workers
from discretion.keys import Key
from discretion.learning import documents, sums
from discretion.learning.curator import Curator
from discretion.learning.schemas import Schema
from discretion.privacy import noise, tokens
from discretion.privacy.rho import Rho
from tests import services

WORKER, CHILD = "worker", "child"
LEASE_SECONDS = 4  # long enough that a busy machine does not take a living worker for a dead one
_PLANS, _DRAWS, _EXITS, _LOG = "plans.json", "draws", "exits", "log"
_SIZE = 4  # workers in a pool
_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_OWNER = Key("key_owner", "owner", "custodian", "", None)

# At which step who is killed; "child, always" is killed whenever it gets there, "…, told" is told to stop.
Plan = dict[str, str]


# --- a queue without an API --------------------------------------------------------------------------------------


@dataclass
class Queue:
    """A migrated database, the folder beside it, and what a service would have put there."""

    folder: Path
    url: str
    engine: sa.Engine = field(init=False)
    plans: dict[str, Plan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = database.engine(self.url)
        database.migrate(self.engine)
        self.found = settings.read(self.environment())
        self.found.datasets.mkdir(parents=True, exist_ok=True, mode=0o700)

    def environment(self, **more: object) -> dict[str, str]:
        return services.environment(self.folder, self.url, **{"lease_seconds": LEASE_SECONDS} | more)

    def dataset(self, schema: dict[str, Any] = services.TABULAR, units: int = 200) -> str:
        parsed, labels = documents.schema_of(schema)
        folder = tokens.identifier("up")
        upload = [services.csv(units, schema=schema)]
        accepted = datasets.accept(upload, "text/csv", parsed, shelves.opened(self.found).place(folder))
        return self.stored(parsed, accepted.units, folder, labels)

    def stored(
        self,
        schema: Schema,
        units: int,
        folder: str,
        labels: tuple[str, ...] | None = None,
        budget: str = "100",
    ) -> str:
        """A dataset that lies in its place already."""
        with database.transaction(self.engine) as connection:
            population = catalogue.add_population(connection, "clinic", Rho.parse(budget), owner=_OWNER, at=_NOW)
            made = catalogue.add_dataset(connection, "icu", population, schema, labels, owner=_OWNER, at=_NOW)
            catalogue.begin_upload(connection, made, folder)
            catalogue.fill(connection, made, units=units, folder=folder)
        return made

    def training(self, dataset: str, request: dict[str, Any] = services.APVI, plan: Plan | None = None) -> str:
        made = tokens.identifier("tr")
        with database.transaction(self.engine) as connection:
            asked = requests.asked(catalogue.stored(connection, dataset), request)
            use_cases.submit(
                connection,
                made,
                dataset=dataset,
                request=asked.document(),
                rho=asked.cost,
                stages=asked.stages,
                actor="key_analyst",
                idempotency_key=made,
                at=datetime.now(UTC),
            )
        self.plans[made] = plan or {}
        return made

    def row(self, training: str) -> Any:
        with database.snapshot(self.engine) as connection:
            return connection.execute(tables.trainings.select().where(tables.trainings.c.id == training)).one()

    def change(self, training: str, **values: Any) -> None:
        with database.transaction(self.engine) as connection:
            here = tables.trainings.c.id == training
            connection.execute(tables.trainings.update().where(here).values(**values))

    def ended(self, training: str, seconds: float = 240) -> Any:
        return services.wait_until(lambda: self._if_ended(training), seconds)

    def _if_ended(self, training: str) -> Any:
        found = self.row(training)
        return found if found.state in services.ENDED else None

    def rows(self, table: sa.Table, training: str) -> list[Any]:
        with database.snapshot(self.engine) as connection:
            return list(connection.execute(table.select().where(table.c.training == training)))

    def check_charged_once(self, training: str) -> None:
        """Set aside once, spent once, for exactly what was asked; and everything adds up."""
        with database.snapshot(self.engine) as connection:
            ledger.verify_all(connection)
            reserved = connection.execute(sa.select(sa.func.sum(tables.populations.c.reserved))).scalar_one()
        moved = sorted((row.kind, row.rho) for row in self.rows(tables.ledger, training))
        cost = self.row(training).rho
        assert moved == [("charge", cost), ("reserve", cost)]
        assert reserved == 0

    def drawn(self, training: str) -> list[int]:
        """The number of each draw that any process has begun, as often as it was begun."""
        path = self.folder / _DRAWS
        lines = path.read_text().splitlines() if path.exists() else []
        return [int(number) for found, number in (line.split() for line in lines) if found == training]

    def killed(self, training: str) -> set[str]:
        """The steps of its plan at which somebody was killed."""
        return {step for step in self.plans[training] if _mark(self.folder, training, step).exists()}

    @property
    def exits(self) -> set[int]:
        """How the pool's workers ended."""
        path = self.folder / _EXITS
        return {int(line) for line in path.read_text().split()} if path.exists() else set()

    @property
    def log(self) -> str:
        return (self.folder / _LOG).read_text()

    @contextlib.contextmanager
    def running(
        self, *command: str, environment: Mapping[str, str] | None = None, **more: object
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A command beside the queue until the block ends, its words in the log."""
        (self.folder / _PLANS).write_text(json.dumps(self.plans))
        whole = self.environment(**more) | {"DYING": str(self.folder)} | dict(environment or {})
        with (self.folder / _LOG).open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", *command], env=whole, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)

    def pool(self) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        return self.running("tests.dying", "pool")

    def worker(self, **more: Any) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        return self.running("discretion", "work", **more)

    def close(self) -> None:
        self.engine.dispose()


def processes(folder: Path) -> list[int]:
    """Every living process that was started for a folder, however it came to be."""
    wanted, found = f"HOME={folder}".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


# --- in the processes that die -----------------------------------------------------------------------------------


def _mark(folder: Path, training: str, step: str) -> Path:
    return folder / f"{training}.{step.replace(' ', '-')}"


@dataclass
class _Scene:
    """What the process is at; a child inherits it from its worker."""

    folder: Path
    plans: dict[str, Plan]
    training: str = ""
    doing: str = ""
    number: int = 0
    drawing: bool = False

    def reach(self, step: str) -> None:
        who, _, how = self.plans.get(self.training, {}).get(step, "").partition(", ")
        if not who or not (self._first(step) or how == "always"):
            return
        own = CHILD if _in_child() else WORKER
        if how == "told":
            os.kill(os.getpid() if who == own else os.getppid(), signal.SIGTERM)
            services.wait_until(lambda: who == own or workers._told_to_stop, 60)  # until the worker has passed it on
            return
        os.kill(os.getpid() if who == own else os.getppid(), signal.SIGKILL)
        time.sleep(600)  # a child whose worker was killed at this step gets no further

    def _first(self, step: str) -> bool:
        try:
            _mark(self.folder, self.training, step).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def log_draw(self) -> None:
        line = f"{self.training} {self.number}\n".encode()
        descriptor = os.open(self.folder / _DRAWS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


_worker_process = 0


def _in_child() -> bool:
    return os.getpid() != _worker_process


def _wrap(owner: Any, name: str, before: Callable[..., None] | None = None, after: Any = None) -> None:
    """Call `before` with the arguments, and `after` with the result and the arguments."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before(*arguments)
        result = inner(*arguments, **named)
        if after is not None:
            after(result, *arguments)
        return result

    setattr(owner, name, outer)


def _watch_transactions(scene: _Scene) -> None:
    """Before and after each commit, by what is committed; draws by the number of the first of them."""

    @contextlib.contextmanager
    def transaction(made: sa.Engine) -> Iterator[sa.Connection]:
        scene.doing = ""
        with made.begin() as connection:
            yield connection
            scene.reach(f"before {scene.doing} commits")
        scene.reach(f"after {scene.doing} commits")

    database.transaction = transaction

    def doing(name: str) -> Callable[..., None]:
        return lambda *_: setattr(scene, "doing", name)

    def claimed(held: runs.Claim | None, *_: object) -> None:
        if held is not None:
            scene.training, scene.doing = held.training, "claim"

    def numbered(name: str) -> Callable[..., None]:
        return lambda result, connection, held, first, *_: setattr(scene, "doing", f"{name} {first}")

    _wrap(runs, "claim", after=claimed)
    for name in ("keep", "let_go", "fail", "release"):
        _wrap(runs, name, after=doing(name))
    for name in ("intend", "record"):
        _wrap(runs, name, after=numbered(name))


def _watch_learning(scene: _Scene) -> None:
    """The steps between the commits, and every draw of noise."""
    _wrap(requests, "usual_seconds", before=lambda *_: None if _in_child() else scene.reach("before the fork"))
    _wrap(workers, "_silence", before=lambda *_: scene.reach("before the child listens"))
    _wrap(datasets, "load", before=lambda *_: scene.reach("before the data is opened"))
    _wrap(sums, "totals", after=lambda *_: scene.reach("after the sums"))
    _wrap(runs, "record", before=lambda connection, held, first, *_: scene.reach(f"between draw and record {first}"))
    _wrap(use_cases, "certify", lambda *_: scene.reach("before certify"), lambda *_: scene.reach("after certify"))
    _wrap(workers, "_sleep_until", before=lambda *_: scene.reach("while it waits for the schedule"))
    _wrap(signing, "publish", after=lambda *_: scene.reach("after publish"))
    _wrap(runs, "store", after=lambda *_: scene.reach("while the policy is stored"))

    def begin(curator: Curator, queries: Any, asked: Any) -> None:
        scene.number = len(curator.log) - len(asked)

    def draw(*_: object) -> None:
        scene.log_draw()
        scene.drawing = True

    def drawn(*_: object) -> None:
        scene.drawing = False
        scene.number += 1

    def randomness(*_: object) -> None:
        if scene.drawing:
            scene.reach(f"while noise is drawn {scene.number}")

    _wrap(Curator, "_drawn", before=begin)
    for name in ("gaussian", "symmetric_gaussian", "laplace"):
        _wrap(noise, name, draw, drawn)
    _wrap(noise.Keystream, "__call__", after=randomness)


def _work(scene: _Scene, parent: int) -> NoReturn:
    global _worker_process
    code = 1
    try:
        lifelines.die_with_parent(parent)
        _worker_process = os.getpid()
        workers.Worker(settings.read()).run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _pool(folder: Path) -> None:
    """Imports once and forks, so that a death costs no start of an interpreter."""
    scene = _Scene(folder, json.loads((folder / _PLANS).read_text()))
    serving.harden()
    logs.configure("text")
    workers._PAUSE = 0.0  # type: ignore[misc]
    _watch_transactions(scene)
    _watch_learning(scene)
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    parent = os.getpid()
    living: set[int] = set()
    while living or not stopping:
        while len(living) < _SIZE and not stopping:
            living.add(os.fork() or _work(scene, parent))
        for pid in stopping and living:
            os.kill(pid, signal.SIGTERM)
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            living.discard(ended)
            with (folder / _EXITS).open("a") as exits:
                exits.write(f"{os.waitstatus_to_exitcode(status)}\n")
        time.sleep(0.05)


def _serve() -> None:
    _wrap(catalogue, "fill", before=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    cli.app(["serve"])


if __name__ == "__main__":
    if sys.argv[1] == "pool":
        _pool(Path(os.environ["DYING"]))
    else:
        _serve()
