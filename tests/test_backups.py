"""Backups under load, and the way back: what was charged is never forgotten."""

import contextlib
import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from discretion import (
    audit,
    backups,
    certificates,
    copies,
    database,
    datasets,
    doctor,
    dumps,
    errors,
    heads,
    journals,
    ledger,
    restores,
    runs,
    settings,
    shelves,
    signatures,
    signing,
    tables,
)
from discretion.api import app as application
from discretion.learning import documents
from discretion.privacy import events
from tests import dying, services
from tests.conftest import new_url
from tests.test_serving import run

EVENT = events.Event(events.GAUSSIAN, "visits", (2,), Fraction(2), Fraction(4))
OTHER = {"sqlite": "postgresql", "postgresql": "sqlite"}


class _Param:
    """A request for a database of a named kind."""

    def __init__(self, request: pytest.FixtureRequest, kind: str) -> None:
        self.param, self.getfixturevalue = kind, request.getfixturevalue


def another(request: pytest.FixtureRequest, folder: Path, kind: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return new_url(_Param(request, kind), folder)  # type: ignore[arg-type]


def found(folder: Path, url: str, **more: object) -> settings.Settings:
    return settings.read(services.environment(folder, url, **more))


@pytest.fixture
def queue(tmp_path: Path, url: str) -> Iterator[dying.Queue]:
    made = dying.Queue(tmp_path / "origin", url)
    (tmp_path / "origin").mkdir(exist_ok=True)
    yield made
    made.close()


def charged(queue: dying.Queue, dataset: str) -> str:
    """A training whose charge is on record, and its head outside; no patient was read."""
    training = queue.training(dataset)
    at = datetime.now(UTC)
    with database.transaction(queue.engine) as connection:
        held = runs.claim(connection, actor="worker", at=at, lease=timedelta(seconds=60))
        assert held is not None
    export(queue, dataset)
    return training


def claimed(queue: dying.Queue, training: str) -> runs.Claim:
    """Taken over from whoever had it."""
    queue.change(training, lease_until="2000")
    with database.transaction(queue.engine) as connection:
        held = runs.claim(connection, actor="worker", at=datetime.now(UTC), lease=timedelta(seconds=60))
    assert held is not None
    return held


def snapshot(url: str, folder: Path) -> str:
    """A database as it is now, by the means of its own server."""
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
        with contextlib.closing(sqlite3.connect(str(made.database))) as old:
            old.execute("VACUUM INTO ?", [str(folder / "snapshot.db")])
        return f"sqlite:///{folder / 'snapshot.db'}"
    name = f"{made.database}_old"
    maintenance = database.engine(made.set(database="postgres").render_as_string(False))
    with maintenance.connect() as connection:
        plain = connection.execution_options(isolation_level="AUTOCOMMIT")
        plain.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE {made.database}"))
    maintenance.dispose()
    return made.set(database=name).render_as_string(False)


def export(queue: dying.Queue, dataset: str) -> None:
    key = signing.current(queue.found)
    with database.transaction(queue.engine) as connection:
        signing.publish(connection, key, at=datetime.now(UTC))
        heads.export(connection, queue.found.heads, population(connection, dataset), key, at=datetime.now(UTC))


def population(connection: sa.Connection, dataset: str) -> str:
    return str(
        connection.execute(sa.select(tables.datasets.c.population).where(tables.datasets.c.id == dataset)).scalar_one()
    )


def keys_of(*queues: dying.Queue) -> str:
    return json.dumps(certificates.jwks(signing.current(each.found) for each in queues))


def balances(url: str) -> dict[str, dict[str, Any]]:
    engine = database.engine(url)
    with database.snapshot(engine) as connection:
        ledger.verify_all(connection)
        names = connection.execute(sa.select(tables.populations.c.id)).scalars().all()
        found = {name: ledger.head(connection, name) for name in names}
    engine.dispose()
    return found


def check_papers(url: str) -> int:
    """Every certificate of a database holds, by its own public keys."""
    engine = database.engine(url)
    with database.snapshot(engine) as connection:
        keys = json.dumps(signing.published(connection))
        released = connection.execute(tables.releases.select()).all()
    engine.dispose()
    for row in released:
        certificates.verify(row.document, row.certificate, keys)
    return len(released)


def check_data(where: settings.Settings) -> int:
    """Every dataset that is ready can be read to its end."""
    engine = database.engine(where.database_url)
    with database.snapshot(engine) as connection:
        ready = connection.execute(tables.datasets.select().where(tables.datasets.c.state == "ready")).all()
    engine.dispose()
    for row in ready:
        stored = datasets.load(shelves.opened(where).place(row.folder), documents.schema_of(json.loads(row.schema))[0])
        assert sum(len(set(block.units)) for block in stored.blocks) == row.units
    return len(ready)


class Load:
    """Clients that train, upload, retire and change budgets until they are told to stop."""

    def __init__(self, custodian: Any, analyst: Any, dataset: str) -> None:
        self._stop = threading.Event()
        self.failures: list[str] = []
        self.rounds = dict.fromkeys(("train", "upload", "adjust"), 0)
        self._custodian, self._analyst, self._dataset = custodian, analyst, dataset

    def _train(self, number: int) -> None:
        if number <= 8:  # a worker has to get through them
            self._expect(services.submit(self._analyst, self._dataset, f"load {number}"), 202)
        time.sleep(0.1)

    def _upload(self, number: int) -> None:
        made = services.new_dataset(self._custodian, rho="1")
        self._expect(services.upload(self._custodian, made, services.csv(50)), 201)
        if number % 2:
            self._expect(self._custodian.delete(f"/v1/datasets/{made}"), 200)

    def _adjust(self, number: int) -> None:
        where = self._custodian.get(f"/v1/datasets/{self._dataset}").json()["population"]
        body = {"rho": str(1000 + number), "reason": "under load"}
        self._expect(self._custodian.patch(f"/v1/populations/{where}/budget", json=body), 200)

    def _expect(self, answer: Any, status: int) -> None:
        if answer.status_code != status:
            self.failures.append(answer.text)

    def _repeat(self, name: str) -> None:
        while not self._stop.is_set():
            self.rounds[name] += 1
            getattr(self, f"_{name}")(self.rounds[name])

    @contextlib.contextmanager
    def __call__(self) -> Iterator["Load"]:
        threads = [threading.Thread(target=self._repeat, args=(name,)) for name in self.rounds]
        for thread in threads:
            thread.start()
        try:
            services.wait_until(lambda: min(self.rounds.values()) > 2, 120)
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


def service_says(custodian: Any, dataset: str) -> float:
    return float(custodian.get(f"/v1/datasets/{dataset}/budget").json()["charged"])


@pytest.mark.long
class TestUnderLoad:
    def test_everything_comes_back_and_nothing_charged_is_forgotten(self, tmp_path, url, request):
        outside = tmp_path / "outside"
        with services.serve(tmp_path, url, heads=outside, requests_per_second=100_000) as service:
            custodian, analyst = service.key("custodian"), service.key("analyst")
            dataset = services.ready_dataset(custodian, rho="1000")
            services.grant(custodian, dataset, analyst, "900")
            first = services.submit(analyst, dataset).json()["id"]
            assert services.ended(analyst, first)["state"] == "released"
            with Load(custodian, analyst, dataset)() as load:
                done = run(tmp_path, "backup", str(tmp_path / "early"), url=url, heads=outside)
                assert done.returncode == 0, done.stderr
            assert load.failures == []
            spent = service_says(custodian, dataset)
            services.submit(analyst, dataset, "later")
            services.wait_until(lambda: service_says(custodian, dataset) > spent, 120)
        assert run(tmp_path, "backup", str(tmp_path / "late"), url=url, heads=outside).returncode == 0
        before, papers = balances(url), check_papers(url)
        early, late = (backups.verify(tmp_path / name) for name in ("early", "late"))
        assert min(one["sequence"] for one in early.heads.values()) > 0
        shutil.rmtree(tmp_path / "data")  # everything but the heads, which stand elsewhere

        kind = sa.make_url(url).get_backend_name()
        target = found(tmp_path / "new", another(request, tmp_path / "new", OTHER[kind]), heads=outside)
        self.check_refused(target, tmp_path / "early", early, before)
        done = run(tmp_path / "new", "restore", str(tmp_path / "late"), url=target.database_url, heads=outside)
        assert done.returncode == 0, done.stderr
        assert balances(target.database_url) == before == late.heads
        assert check_papers(target.database_url) == papers >= 1
        assert check_data(target) >= 1
        self.check_works(tmp_path / "new", target, service, analyst, dataset, outside)

        # What was taken under load is one moment, whichever.
        lonely = found(tmp_path / "lonely", another(request, tmp_path / "lonely", kind))
        restores.restore(lonely, tmp_path / "early", kept=[], listed=None, settle=False, unseen=True)
        assert balances(lonely.database_url) == early.heads
        assert check_papers(lonely.database_url) >= 1
        assert check_data(lonely) == len(early.datasets)

    def check_refused(self, target: Any, folder: Path, early: backups.Backup, before: Any) -> None:
        with pytest.raises(errors.WouldForget) as refusal:
            restores.restore(target, folder, kept=[], listed=None, settle=False)
        behind = [name for name, head in early.heads.items() if head["charged"] != before[name]["charged"]]
        assert behind
        for name in behind:
            assert f"of {name} it has {early.heads[name]['sequence']} rows" in str(refusal.value)
        assert not target.datasets.exists()

    def check_works(self, folder: Path, target: Any, service: Any, analyst: Any, dataset: str, outside: Path) -> None:
        with services.serve(folder, target.database_url, token=service.token, heads=outside) as again:
            asking = again.client(analyst.token, analyst.id, "analyst")
            training = services.submit(asking, dataset, "after the restore").json()["id"]
            assert services.ended(asking, training, 240)["state"] == "released"
            custodian = again.key("custodian")
            assert services.new_dataset(custodian).startswith("ds_")
            assert again.admin.get("/readyz").status_code == 200


class TestCreate:
    def test_leaves_sessions_and_uploads_out_and_nothing_else(self, queue, tmp_path):
        queue.dataset()
        made = backups.create(queue.found, tmp_path / "b")
        inspected = set(sa.inspect(queue.engine).get_table_names()) - {"alembic_version", *dumps.LEFT_OUT}
        assert {path.name.split(".")[0] for path in made.tables.iterdir()} == inspected
        assert {path.name for path in made.folder.iterdir()} == {"manifest.json", "tables", "datasets"}
        assert made.folder.stat().st_mode & 0o077 == 0

    def test_takes_the_signing_key_along_only_if_it_is_asked_to(self, queue, tmp_path):
        assert backups.create(queue.found, tmp_path / "a").signing_key is None
        with_key = backups.create(queue.found, tmp_path / "b", with_signing_key=True)
        assert with_key.signing_key is not None
        assert with_key.signing_key.stat().st_mode & 0o077 == 0
        (tmp_path / "new").mkdir()
        target = found(tmp_path / "new", f"sqlite:///{tmp_path / 'new.db'}")
        restores.restore(target, tmp_path / "b", kept=[], listed=None, settle=False, unseen=True)
        assert signing.current(target).kid == signing.current(queue.found).kid

    def test_begins_again_if_a_dataset_is_retired_meanwhile(self, queue, tmp_path, monkeypatch):
        kept, gone = queue.dataset(), queue.dataset()
        take = copies.take
        retired: list[str] = []

        def late(where: shelves.Shelf, folder: str, target: Path) -> None:
            if not retired:
                with database.transaction(queue.engine) as connection:
                    row = connection.execute(tables.datasets.select().where(tables.datasets.c.id == gone)).one()
                    connection.execute(
                        tables.datasets.update().where(tables.datasets.c.id == gone).values(state="retired")
                    )
                datasets.retire(where.place(row.folder))
                retired.append(row.folder)
            take(where, folder, target)

        monkeypatch.setattr(copies, "take", late)
        made = backups.create(queue.found, tmp_path / "b")
        states = {row["id"]: row["state"] for row in dumps.rows(made.tables, "datasets")}
        assert states == {kept: "ready", gone: "retired"}
        assert retired[0] not in made.datasets

    def test_refuses_a_dataset_whose_files_are_gone_and_leaves_nothing(self, queue, tmp_path):
        dataset = queue.dataset()
        shutil.rmtree(queue.found.datasets)
        with pytest.raises(errors.InvalidBackup, match=dataset):
            backups.create(queue.found, tmp_path / "b")
        assert not [path for path in tmp_path.iterdir() if "b" in path.name.split(".")]

    def test_refuses_a_folder_that_is_there(self, queue, tmp_path):
        (tmp_path / "b").mkdir()
        with pytest.raises(errors.NotEmpty):
            backups.create(queue.found, tmp_path / "b")

    def test_is_on_record(self, queue, tmp_path):
        made = backups.create(queue.found, tmp_path / "b")
        with database.snapshot(queue.engine) as connection:
            last = audit.listed(connection, limit=100)[-1]
        assert (last.action, last.object) == ("service.backup", made.at)


class TestVerify:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        queue = dying.Queue(tmp_path / "origin", f"sqlite:///{tmp_path / 'origin.db'}")
        queue.dataset()
        backups.create(queue.found, tmp_path / "b")
        queue.close()
        return tmp_path / "b"

    def test_every_file_counts_to_the_last_byte(self, folder):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
                with pytest.raises(errors.InvalidBackup):
                    backups.verify(folder)
                path.write_bytes(content)
        backups.verify(folder)

    def test_what_is_missing_or_was_added_is_named(self, folder):
        (folder / "datasets" / "more").touch()
        with pytest.raises(errors.InvalidBackup, match="datasets/more was added"):
            backups.verify(folder)
        (folder / "datasets" / "more").unlink()
        (folder / "tables" / "keys.jsonl.gz").unlink()
        with pytest.raises(errors.InvalidBackup, match=r"keys\.jsonl\.gz is missing"):
            backups.verify(folder)

    def test_a_link_that_leads_elsewhere_is_refused(self, folder, tmp_path):
        (folder / "link").symlink_to(tmp_path)
        with pytest.raises(errors.InvalidBackup, match="neither a file nor a folder"):
            backups.verify(folder)

    @pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere", ".", "a/b", ""])
    def test_a_dataset_that_would_be_put_elsewhere_is_refused(self, folder, monkeypatch, name):
        """Whoever signs a backup anew could otherwise write wherever the service may."""
        read = signatures.read

        def forged(*arguments: Any) -> Any:
            document, kid = read(*arguments)
            return document | {"datasets": [name]}, kid

        monkeypatch.setattr(signatures, "read", forged)
        with pytest.raises(errors.InvalidBackup, match="datasets"):
            backups.verify(folder)

    def test_keys_from_elsewhere_find_who_signed_it_anew(self, folder):
        other = json.dumps(certificates.jwks([certificates.generate_key()]))
        with pytest.raises(errors.InvalidBackup, match="believed"):
            backups.verify(folder, other)


class TestRestore:
    def restored(self, folder: Path, backup: Path, **more: Any) -> tuple[settings.Settings, restores.Restored]:
        folder.mkdir(exist_ok=True)
        target = found(folder, f"sqlite:///{folder / 'restored.db'}")
        options = {"kept": [], "listed": None, "settle": False} | more
        return target, restores.restore(target, backup, **options)

    def test_an_older_backup_than_the_head_is_refused_with_both_numbers_and_nothing_is_written(self, queue, tmp_path):
        dataset = queue.dataset()
        charged(queue, dataset)
        backups.create(queue.found, tmp_path / "b")
        charged(queue, dataset)
        with pytest.raises(
            errors.WouldForget, match=r"it has 3 rows, and the signed head of .* is row 5, with 1 of 100"
        ):
            self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])
        assert list((tmp_path / "new").iterdir()) == []

    def test_a_backup_as_new_as_the_head_is_taken(self, queue, tmp_path):
        charged(queue, queue.dataset())
        backups.create(queue.found, tmp_path / "b")
        target, _ = self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])
        assert balances(target.database_url) == balances(queue.url)

    def test_without_any_head_it_must_be_said(self, queue, tmp_path):
        backups.create(queue.found, tmp_path / "b")
        with pytest.raises(errors.WouldForget, match="--without-heads"):
            self.restored(tmp_path / "new", tmp_path / "b")
        self.restored(tmp_path / "new", tmp_path / "b", unseen=True)

    def test_settling_takes_off_the_budget_what_was_charged_since(self, queue, tmp_path):
        dataset = queue.dataset()
        backups.create(queue.found, tmp_path / "b")
        charged(queue, dataset)
        charged(queue, dataset)
        (name,) = balances(queue.url)
        remaining = 100 - float(balances(queue.url)[name]["charged"])
        target, made = self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads], settle=True)
        assert [(lost.had, lost.head["sequence"]) for lost in made.settled] == [(1, 5)]
        after = balances(target.database_url)[name]
        assert float(after["total"]) - float(after["charged"]) == remaining == 99
        assert after["reserved"] == "0"
        # The next backup and restore need not settle again.
        backups.create(target, tmp_path / "c")
        self.restored(tmp_path / "newer", tmp_path / "c", kept=[target.heads])

    def test_a_head_of_one_ledger_does_not_speak_for_another(self, queue, tmp_path):
        """One file of the folder is lost: of that ledger nobody can tell what was charged since."""
        kept, lost = queue.dataset(), queue.dataset()
        charged(queue, kept)
        charged(queue, lost)
        backups.create(queue.found, tmp_path / "b")
        charged(queue, lost)
        with database.snapshot(queue.engine) as connection:
            name = population(connection, lost)
        (path,) = queue.found.heads.glob(f"{name}.*")
        path.unlink()
        for settle in (False, True):
            with pytest.raises(errors.WouldForget, match=f"{name}.*--without-heads"):
                self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads], settle=settle)
        self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads], unseen=True)

    def test_a_lost_head_is_noticed_of_a_ledger_without_charges_too(self, queue, tmp_path):
        """Its first charge may have come after the backup, and its head have been lost since."""
        kept, lost = queue.dataset(), queue.dataset()
        for dataset in (kept, lost):
            export(queue, dataset)
        backups.create(queue.found, tmp_path / "b")
        charged(queue, lost)
        with database.snapshot(queue.engine) as connection:
            name = population(connection, lost)
        (path,) = queue.found.heads.glob(f"{name}.*")
        path.unlink()
        with pytest.raises(errors.WouldForget, match=f"{name}.*--without-heads"):
            self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])

    def test_afterwards_every_ledger_has_its_head_in_the_new_place(self, queue, tmp_path):
        for _ in range(2):
            charged(queue, queue.dataset())
        backups.create(queue.found, tmp_path / "b")
        target, _ = self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])
        engine = database.engine(target.database_url)
        with database.snapshot(engine) as connection:
            told = heads.newest([target.heads], json.dumps(signing.published(connection)))
        engine.dispose()
        assert {name: head["sequence"] for name, head in told.items()} == dict.fromkeys(balances(queue.url), 3)

    def test_every_head_must_be_in_the_ledger_not_only_the_newest(self, queue, tmp_path):
        """Of two copies that ran side by side, the longer ledger must not pass for both."""
        dataset = queue.dataset()
        backups.create(queue.found, tmp_path / "b")
        charged(queue, dataset)
        clone, _ = self.restored(tmp_path / "clone", tmp_path / "b", unseen=True)
        other = dying.Queue(tmp_path / "clone", clone.database_url)
        charged(other, dataset)
        charged(other, dataset)
        other.close()
        backups.create(other.found, tmp_path / "c")
        places = [queue.found.heads, other.found.heads]
        for kept in (places, places[::-1]):
            with pytest.raises(errors.WouldForget, match="went apart"):
                self.restored(tmp_path / "new", tmp_path / "c", kept=kept, listed=keys_of(queue, other))

    def test_the_head_of_a_ledger_that_was_given_up_still_speaks_for_it(self, queue, tmp_path):
        """Settling for a backup that is older than a population must not open the way for one that has it."""
        backups.create(queue.found, tmp_path / "a")
        dataset = queue.dataset()
        charged(queue, dataset)
        backups.create(queue.found, tmp_path / "b")
        charged(queue, dataset)
        shared = tmp_path / "heads"
        shutil.copytree(queue.found.heads, shared)
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        listed = keys_of(queue)
        first, second = (
            found(tmp_path / name, f"sqlite:///{tmp_path / name / 'restored.db'}", heads=shared)
            for name in ("first", "second")
        )
        restores.restore(first, tmp_path / "a", kept=[], listed=listed, settle=True)
        with pytest.raises(errors.WouldForget, match="it has 3 rows"):
            restores.restore(second, tmp_path / "b", kept=[], listed=listed, settle=False, unseen=True)

    def test_of_two_at_once_the_second_does_no_harm_to_the_first(self, queue, tmp_path, monkeypatch):
        charged(queue, queue.dataset())
        backups.create(queue.found, tmp_path / "b")
        look = restores._refuse_filled

        def late(*places: Any) -> None:
            """Both have found the place empty; then the other one is quicker."""
            look(*places)
            monkeypatch.setattr(restores, "_refuse_filled", look)
            self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])

        monkeypatch.setattr(restores, "_refuse_filled", late)
        with pytest.raises(errors.NotEmpty):
            self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])
        target = found(tmp_path / "new", f"sqlite:///{tmp_path / 'new' / 'restored.db'}")
        assert balances(target.database_url) == balances(queue.url)
        assert check_data(target) == 1

    def test_settling_cancels_what_waited_for_it_may_have_been_done(self, queue, tmp_path):
        dataset = queue.dataset()
        training = queue.training(dataset)
        backups.create(queue.found, tmp_path / "b")
        charged(queue, dataset)
        target, _ = self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads], settle=True)
        engine = database.engine(target.database_url)
        with database.snapshot(engine) as connection:
            rows = connection.execute(tables.trainings.select()).all()
        engine.dispose()
        assert [(row.id, row.state) for row in rows] == [(training, "cancelled")]

    def test_two_histories_that_went_apart_are_never_added_up(self, queue, tmp_path):
        dataset = queue.dataset()
        backups.create(queue.found, tmp_path / "b")
        charged(queue, dataset)
        clone, _ = self.restored(tmp_path / "clone", tmp_path / "b", unseen=True)
        other = dying.Queue(tmp_path / "clone", clone.database_url)
        charged(other, dataset)
        other.close()
        backups.create(other.found, tmp_path / "c")
        for settle in (False, True):
            with pytest.raises(errors.WouldForget, match="went apart"):
                self.restored(tmp_path / "new", tmp_path / "c", kept=[queue.found.heads], settle=settle, listed=None)

    def test_a_run_that_was_drawing_has_failed_and_one_that_had_drawn_goes_on(self, queue, tmp_path):
        dataset = queue.dataset(services.SLOW)
        done = queue.training(dataset)
        with queue.worker():
            services.wait_until(lambda: len(queue.rows(tables.draws, done)) == queue.row(done).stages - 1, 120)
            services.wait_until(lambda: all(row.recorded for row in queue.rows(tables.draws, done)), 120)
        queue.change(done, lease_until="3000")
        undrawn = charged(queue, dataset)
        queue.change(done, lease_until="2000")
        assert [queue.row(one).state for one in (done, undrawn)] == ["running", "running"]
        backups.create(queue.found, tmp_path / "b")
        target, made = self.restored(tmp_path / "new", tmp_path / "b", kept=[queue.found.heads])
        again = dying.Queue(tmp_path / "new", target.database_url)
        assert made.failed == 1
        assert (again.row(undrawn).state, again.row(undrawn).code) == ("failed", runs.FAILURE)
        with again.worker():
            assert again.ended(done).state == "released"
        for training in (done, undrawn):
            again.check_charged_once(training)
        again.close()

    def test_what_is_there_is_never_overwritten(self, queue, tmp_path, url):
        queue.dataset()
        backups.create(queue.found, tmp_path / "b")
        before = balances(url)
        with pytest.raises(errors.NotEmpty, match="DISCRETION_DATABASE_URL"):
            restores.restore(
                found(tmp_path / "new", url), tmp_path / "b", kept=[], listed=None, settle=False, unseen=True
            )
        with pytest.raises(errors.NotEmpty, match="store"):
            restores.restore(queue.found, tmp_path / "b", kept=[], listed=None, settle=False, unseen=True)
        assert balances(url) == before

    def test_one_that_fails_leaves_the_place_empty(self, queue, tmp_path, monkeypatch):
        queue.dataset()
        backups.create(queue.found, tmp_path / "b")
        monkeypatch.setattr(ledger, "verify_all", lambda connection: (_ for _ in ()).throw(errors.LedgerDamaged("x")))
        with pytest.raises(errors.LedgerDamaged):
            self.restored(tmp_path / "new", tmp_path / "b", unseen=True)
        monkeypatch.undo()
        target, _ = self.restored(tmp_path / "new", tmp_path / "b", unseen=True)
        assert check_data(target) == 1

    def test_numbers_of_the_audit_log_go_on(self, queue, tmp_path, request):
        backups.create(queue.found, tmp_path / "a")
        backups.create(queue.found, tmp_path / "b")
        kind = sa.make_url(queue.url).get_backend_name()
        target = found(tmp_path / "new", another(request, tmp_path / "new", OTHER[kind]))
        restores.restore(target, tmp_path / "b", kept=[], listed=None, settle=False, unseen=True)
        engine = database.engine(target.database_url)
        with database.transaction(engine) as connection:
            audit.record(connection, "key_1", "key.create", "key_2", at=datetime.now(UTC))
            numbers = [entry.sequence for entry in audit.listed(connection, limit=100)]
        engine.dispose()
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 3


class TestHeads:
    def test_nothing_is_read_before_the_charge_is_on_record_outside(self, queue, tmp_path):
        """Where the folder cannot be written nothing is charged; and what is charged has its head there."""
        outside = tmp_path / "outside"
        dataset = queue.dataset()
        training = queue.training(dataset)
        outside.write_text("in the way")
        with queue.running("discretion", "work", heads=tmp_path / "outside" / "heads"):
            services.wait_until(lambda: "DISCRETION_HEADS" in queue.log)
        assert queue.row(training).state == "queued"
        outside.unlink()
        with queue.worker(heads=outside):
            queue.ended(training)
        with database.snapshot(queue.engine) as connection:
            listed = json.dumps(signing.published(connection))
            (head,) = heads.newest([outside], listed).values()
            name = population(connection, dataset)
            assert (head["population"], head["sequence"], head["hash"]) == (name, *ledger.newest(connection, name))

    def test_an_older_head_that_comes_late_replaces_nothing(self, queue):
        dataset = queue.dataset()
        charged(queue, dataset)
        (old,) = queue.found.heads.iterdir()
        content = old.read_bytes()
        charged(queue, dataset)
        assert [path.name[-17:] for path in queue.found.heads.iterdir()] == ["000000000005.json"]
        old.write_bytes(content)
        with database.snapshot(queue.engine) as connection:
            (head,) = heads.newest([queue.found.heads], json.dumps(signing.published(connection))).values()
        assert head["sequence"] == 5

    def test_a_forged_one_is_refused(self, queue, tmp_path):
        charged(queue, queue.dataset())
        (_path,) = queue.found.heads.iterdir()
        other = json.dumps(certificates.jwks([certificates.generate_key()]))
        with pytest.raises(errors.InvalidCertificate, match="--keys"):
            heads.newest([queue.found.heads], other)
        (tmp_path / "nonsense.json").write_text("{}")
        with pytest.raises(errors.InvalidCertificate, match=r"nonsense\.json"):
            heads.newest([tmp_path / "nonsense.json"], other)

    def test_a_database_that_was_put_back_otherwise_spends_nothing(self, queue, tmp_path):
        """By a copy of its file or a dump of the server's: no restore was asked, but the heads still tell."""
        dataset = queue.dataset()
        charged(queue, dataset)
        copied = tmp_path / "copied"
        shutil.copytree(queue.found.heads, copied)
        for path in copied.iterdir():  # as if five rows more had been charged
            path.rename(copied / path.name.replace(".000000000003.", ".000000000008."))
        with database.snapshot(queue.engine) as connection:
            head = ledger.newest_document(connection, population(connection, dataset)) | {"sequence": 8}
        signed = signatures.sign(head | {"at": "x"}, signing.current(queue.found), signatures.LEDGER_HEAD)
        (path,) = copied.iterdir()
        path.write_text(json.dumps(signed))
        training = queue.training(dataset)
        with queue.running("discretion", "work", heads=copied) as process:
            services.wait_until(lambda: process.poll() is not None)
        assert "row 8" in queue.log
        assert queue.row(training).state == "queued"

    @pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
    def test_one_that_cannot_be_read_keeps_trainings_waiting(self, queue, content):
        dataset = queue.dataset()
        charged(queue, dataset)
        (path,) = queue.found.heads.iterdir()
        path.write_bytes(content)
        training = queue.training(dataset)
        with queue.running("discretion", "work"):
            services.wait_until(lambda: path.name in queue.log)
        assert queue.row(training).state == "queued"

    @pytest.mark.parametrize("kept", [True, False], ids=["marks kept", "marks lost"])
    def test_a_database_that_was_put_back_to_before_a_draw_does_not_draw_again(self, queue, tmp_path, kept):
        """By its server's own tools, to a moment when the training was charged: the ledger misses no row. Without the
        marks, nobody can tell: so it is they who do."""
        dataset = queue.dataset()
        training = charged(queue, dataset)
        queue.change(training, lease_until="2000")
        queue.close()  # nobody may be connected to what PostgreSQL copies
        old = dying.Queue(queue.folder, snapshot(queue.url, tmp_path))
        with queue.worker():
            assert queue.ended(training).state == "released"
        if not kept:
            shutil.rmtree(queue.found.heads / "draws")
        with old.worker():
            assert old.ended(training).state == ("failed" if kept else "released")
        assert bool(old.rows(tables.drawn, training)) is not kept
        old.check_charged_once(training)
        old.close()

    def test_a_folder_that_is_away_before_a_draw_costs_nothing(self, queue):
        """It is claimed again, and draws, when the folder is back."""
        training = charged(queue, queue.dataset())
        held = claimed(queue, training)
        journal = journals.Journal(queue.engine, held, queue.folder / "log" / "heads", lambda: None)
        (queue.folder / "log").write_text("in the way")
        with pytest.raises(errors.HeadsUnavailable):
            journal.intend(0, [EVENT])
        assert queue.rows(tables.draws, training) == []
        replace(journal, outside=queue.found.heads).intend(0, [EVENT])
        assert [(row.number, row.recorded) for row in queue.rows(tables.draws, training)] == [(0, False)]

    def test_a_draw_is_marked_once_whatever_else_is_drawn_with_it(self, queue):
        heads.mark(queue.found.heads, "tr_1", [0, 1])
        heads.mark(queue.found.heads, "tr_1", [2])
        heads.mark(queue.found.heads, "tr_2", [0])
        for again in ([0, 1], [1], [2, 3]):
            with pytest.raises(errors.DrawInterrupted):
                heads.mark(queue.found.heads, "tr_1", again)

    def test_one_that_is_missing_is_put_there_at_the_next_start(self, queue):
        for _ in range(2):
            export(queue, queue.dataset())
        before = {path.name for path in queue.found.heads.iterdir()}
        next(queue.found.heads.iterdir()).unlink()
        state = {finding.check: finding.state for finding in doctor.examine(queue.found)}
        assert state["heads"] == doctor.WARN
        application.create(queue.found).state.service.engine.dispose()
        assert {path.name for path in queue.found.heads.iterdir()} == before

    def test_whose_row_the_ledger_holds_is_no_trouble(self, queue):
        dataset = queue.dataset()
        charged(queue, dataset)
        queue.training(dataset)  # a row after the head
        heads.refuse_rolled_back(queue.engine, queue.found.heads)
