"""A folder or a bucket: the same datasets, all or nothing, swept without a race, gone when they are deleted."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from discretion import catalogue, database, datasets, errors, first_reading, s3, settings, shelves, stores
from discretion.api.service import Service
from discretion.keys import Key
from discretion.privacy import noise
from discretion.privacy.rho import Rho
from tests import buckets, uploading
from tests.uploading import CSV, SCHEMA, expected, same, some_rows

embedded = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
SECRETS = {"DISCRETION_S3_ACCESS_KEY": "key", "DISCRETION_S3_SECRET_KEY": "secret-of-the-store"}


@pytest.fixture(autouse=True)
def _without_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_reading, "survived", lambda *_: True)


@pytest.fixture(params=["folder", "bucket"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[shelves.Shelf]:
    if request.param == "folder":
        yield shelves.Shelf(stores.Folder(tmp_path / "store"), tmp_path / "work")
        return
    server = request.getfixturevalue("s3_server")
    store = buckets.store(server, server.bucket(), timedelta(0))
    yield shelves.Shelf(store, tmp_path / "work")
    store.close()


def accept(place: shelves.Place, units: int = 9, **named: Any) -> Any:
    return datasets.accept([uploading.as_csv(some_rows(units))], CSV, SCHEMA, place, **named)


def units(place: shelves.Place) -> dict[int, Any]:
    return uploading.units_of(datasets.load(place, SCHEMA))


def files(place: shelves.Place) -> list[str]:
    try:
        return place.shelf.store.files(place.name)
    except errors.NotStored:
        return []


class TestOpened:
    def found(self, store: str, **more: str) -> stores.Store:
        return stores.opened(settings.read({"DISCRETION_STORE": store} | SECRETS | more))

    def test_without_a_setting_it_is_the_data_folders_own(self, tmp_path: Path) -> None:
        found = settings.read({"DISCRETION_DATA": str(tmp_path)})
        assert stores.opened(found) == stores.Folder(tmp_path / "datasets")
        assert found.work == tmp_path / "work"

    def test_a_folder_may_be_named(self) -> None:
        assert self.found("file:///srv/our%20store") == stores.Folder(Path("/srv/our store"))

    def test_a_bucket_may_be_named(self) -> None:
        found = self.found("s3://clinic-1/some/prefix?endpoint=https://store.example:9000&region=eu-west-2")
        assert isinstance(found, stores.Bucket)
        assert found.prefix == "some/prefix/"
        wanted = s3.Address("https://store.example:9000", "clinic-1", "eu-west-2", "key", "secret-of-the-store")
        assert found.bucket._address == wanted
        found.close()

    @pytest.mark.parametrize(
        "store",
        [
            "datasets",
            "/srv/store",
            "file://host/path",
            "file:store",
            "http://store.example",
            "s3://clinic-1",
            "s3://clinic-1?endpoint=store.example",
            "s3://clinic-1?endpoint=ftp://store.example",
            "s3://clinic-1?endpoint=https://store.example:port",
            "s3://clinic-1?endpoint=https://key:secret@store.example",
            "s3://clinic-1?endpoint=https://store.example/path",
            "s3://clinic-1?endpoint=https://store.example&endpoint=https://other.example",
            "s3://clinic-1?endpoint=https://store.example&secret=hunter2",
            "s3://clinic-1?endpoint=https://store.example&region=",
            "s3://key:hunter2@clinic-1?endpoint=https://store.example",
            "s3://CLINIC?endpoint=https://store.example",
            "s3://clinic-1/../other?endpoint=https://store.example",
            "s3://?endpoint=https://store.example",
        ],
    )
    def test_what_cannot_be_meant_is_refused_by_name_and_not_repeated(self, store: str) -> None:
        with pytest.raises(errors.InvalidSetting, match="DISCRETION_STORE") as refusal:
            self.found(store)
        assert "hunter2" not in str(refusal.value)

    @pytest.mark.parametrize("missing", SECRETS)
    def test_a_bucket_needs_credentials_of_its_own(self, missing: str) -> None:
        """None are looked for elsewhere."""
        with pytest.raises(errors.InvalidSetting, match=missing):
            self.found("s3://clinic-1?endpoint=https://store.example", **{missing: ""})

    def test_secrets_are_not_shown(self) -> None:
        store = "s3://clinic-1?endpoint=https://store.example"
        found = settings.read({"DISCRETION_STORE": store} | SECRETS)
        opened = stores.opened(found)
        assert SECRETS["DISCRETION_S3_SECRET_KEY"] not in f"{found!r} {opened!r}"
        opened.close()


def noting(names: list[str], write: Callable[..., None]) -> Callable[..., None]:
    def run(draft: object, file: str, content: bytes) -> None:
        names.append(file)
        write(draft, file, content)

    return run


class TestDatasets:
    def test_what_was_sent_is_what_is_stored(self, shelf: shelves.Shelf) -> None:
        place = shelf.place("set")
        assert accept(place).units == 9
        assert datasets.units(place) == 9
        assert same(units(place), expected(some_rows(9)))
        assert list(shelf.work.iterdir()) == []

    def test_one_that_lacks_a_file_is_refused_by_one_look_at_the_list(
        self, shelf: shelves.Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(0, 4), (4, 8), (8, 9)])
        place, asked, ask = shelf.place("set"), list[bool](), s3.Bucket._ask
        accept(place)
        shelf.store.remove("set", "0001.parquet")

        def counted(bucket: s3.Bucket, *given: str, **more: Any) -> Any:
            asked.append(more["once"])  # who waits would rather be refused soon
            return ask(bucket, *given, **more)

        monkeypatch.setattr(s3.Bucket, "_ask", counted)
        with pytest.raises(errors.NotStored, match=r"^1 of 3 files of .* missing .* 0001\.parquet first; restore"):
            datasets.units(place)
        assert asked == ([True] * 2 if isinstance(shelf.store, stores.Bucket) else [])

    def test_folder_and_bucket_hold_the_same_bytes(
        self, s3_server: buckets.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(noise, "permutation", np.arange)
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(0, 4), (4, 8), (8, 9)])
        bucket = s3_server.bucket()
        accept(uploading.place(tmp_path / "set"))
        accept(shelves.Shelf(buckets.store(s3_server, bucket, timedelta(0)), tmp_path / "work").place("set"))
        here = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
        there = {key.removeprefix("clinic/set/"): content for key, content in s3_server.content(bucket).items()}
        assert here == there
        assert len(here) == 4

    def test_nothing_is_stored_over_another(self, shelf: shelves.Shelf) -> None:
        place = shelf.place("set")
        accept(place, 2)
        with pytest.raises(errors.StorageFailed):
            accept(place, 3)
        assert datasets.units(place) == 2

    def test_the_manifest_is_written_last(self, shelf: shelves.Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[str] = []
        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(0, 4), (4, 9)])
        for kind in (stores._FolderDraft, stores._BucketDraft):
            monkeypatch.setattr(kind, "write", noting(written, kind.write))
        accept(shelf.place("set"))
        assert len(written) == 3
        assert written[-1] == "manifest.json"

    def test_an_upload_that_breaks_while_it_is_stored_leaves_nothing(
        self, shelf: shelves.Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def document(self: object, place: object) -> Any:
            assert files(shelf.place("set")) or isinstance(shelf.store, stores.Folder)
            raise OSError("no more")

        monkeypatch.setattr(shelves.Manifest, "document", document)
        with pytest.raises(errors.StorageFailed):
            accept(shelf.place("set"))
        assert files(shelf.place("set")) == []
        assert list(shelf.work.iterdir()) == []

    def test_nothing_more_is_sent_to_a_store_that_has_failed(
        self, shelf: shelves.Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each block would wait until the store is given up, and there may be 65 536 of them."""
        tried: list[str] = []

        def write(draft: object, file: str, content: object) -> None:
            tried.append(file)
            time.sleep(0.05)
            raise OSError("no more")

        monkeypatch.setattr(datasets, "_spans", lambda count, schema: [(unit, unit + 1) for unit in range(count)])
        for kind in (stores._FolderDraft, stores._BucketDraft):
            monkeypatch.setattr(kind, "write", write)
        with pytest.raises(errors.StorageFailed):
            accept(shelf.place("set"), 60)
        assert "0000.parquet" in tried
        assert len(tried) < 20

    def test_what_could_not_be_made_known_does_not_stay(self, shelf: shelves.Shelf) -> None:
        def then(_: object) -> None:
            raise errors.DatasetNotEmpty

        with pytest.raises(errors.DatasetNotEmpty):
            accept(shelf.place("set"), then=then)
        assert files(shelf.place("set")) == []

    def test_what_may_have_been_made_known_stays(self, shelf: shelves.Shelf) -> None:
        def then(_: object) -> None:
            raise ConnectionError("the answer to the commit was lost")

        with pytest.raises(errors.StorageFailed):
            accept(shelf.place("set"), then=then)
        assert datasets.units(shelf.place("set")) == 9

    def test_a_retired_one_is_gone_and_its_neighbour_is_not(self, shelf: shelves.Shelf) -> None:
        for name in ("set", "set-2"):
            accept(shelf.place(name))
        for _ in range(2):
            datasets.retire(shelf.place("set"))
        assert files(shelf.place("set")) == []
        assert datasets.units(shelf.place("set-2")) == 9
        with pytest.raises(errors.NotStored):
            datasets.load(shelf.place("set"), SCHEMA)

    def test_one_that_could_not_be_deleted_whole_is_said_to_be_so(
        self, s3_server: buckets.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = s3_server.bucket()
        place = shelves.Shelf(buckets.store(s3_server, bucket, timedelta(0)), tmp_path / "work").place("set")
        accept(place)
        with monkeypatch.context() as patch:
            patch.setattr(s3.Bucket, "delete", lambda *_, **named: None)  # the store says yes and does nothing
            with pytest.raises(errors.StorageFailed, match="try again"):
                datasets.retire(place)
        datasets.retire(place)
        assert s3_server.keys(bucket) == set()

    @pytest.mark.parametrize("state", ["Enabled", "Suspended"])
    def test_of_a_retired_one_no_version_stays_in_a_bucket_that_keeps_them(
        self, state: str, s3_server: buckets.Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        bucket = s3_server.bucket("Enabled")
        store = buckets.store(s3_server, bucket, timedelta(0))
        shelf = shelves.Shelf(store, tmp_path / "work")
        for name in ("set", "set-2"):
            accept(shelf.place(name))
        store.replace("set", "manifest.json", b"{}")
        s3_server.client.delete_object(Bucket=bucket, Key="clinic/set/0.parquet")  # as an older program did
        s3_server.keep_versions(bucket, state)
        datasets.retire(shelf.place("set"))
        assert {key.split("/")[1] for key in s3_server.versions(bucket)} == {"set-2"}
        assert datasets.units(shelf.place("set-2")) == 9
        store.probe()
        assert not store.keeps_what_is_deleted()
        assert {key.split("/")[1] for key in s3_server.versions(bucket)} == {"set-2"}
        assert caplog.text == ""

    def test_a_version_whose_deletion_failed_is_deleted_again(
        self, s3_server: buckets.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = s3_server.bucket("Enabled")
        place = shelves.Shelf(buckets.store(s3_server, bucket, timedelta(0)), tmp_path / "work").place("set")
        accept(place)
        delete, failed = s3.Bucket.delete, set()

        def fail_once(self: s3.Bucket, key: str, version: str | None = None, **more: bool) -> None:
            if version is not None and (key, version) not in failed:
                failed.add((key, version))
                raise errors.StoreUnavailable("away for a moment")
            delete(self, key, version, **more)

        monkeypatch.setattr(s3.Bucket, "delete", fail_once)
        datasets.retire(place)
        assert failed
        assert s3_server.versions(bucket) == set()

    def test_removing_a_file_leaves_no_version_and_spares_names_that_begin_alike(
        self, s3_server: buckets.Server, tmp_path: Path
    ) -> None:
        """A block in the clear goes when it was encrypted, and what it is encrypted as begins with its name."""
        bucket = s3_server.bucket("Enabled")
        store = buckets.store(s3_server, bucket, timedelta(0))
        for file in ("0.parquet", "0.parquet.sealed"):
            for content in (b"1", b"2"):
                store.replace("set", file, content)
        store.remove("set", "0.parquet")
        assert s3_server.versions(bucket) == {"clinic/set/0.parquet.sealed"}
        assert store.read("set", "0.parquet.sealed") == b"2"

    @pytest.mark.parametrize("denied", ["s3:DeleteObjectVersion", "s3:ListBucketVersions"])
    def test_versions_that_may_not_be_deleted_are_told_and_hinder_nobody(
        self, denied: str, s3_server: buckets.Server, tmp_path: Path
    ) -> None:
        bucket = s3_server.bucket("Enabled")
        allowed, limited = (
            buckets.store(each, bucket, timedelta(0)) for each in (s3_server, s3_server.limited(denied))
        )
        shelf = shelves.Shelf(limited, tmp_path / "work")
        accept(shelf.place("set"))
        assert limited.keeps_what_is_deleted()
        limited.probe()
        datasets.retire(shelf.place("set"))
        assert s3_server.keys(bucket) == set()
        assert s3_server.versions(bucket)
        datasets.retire(shelves.Shelf(allowed, tmp_path / "work").place("set"))  # again, by who may
        assert not [key for key in s3_server.versions(bucket) if "/set/" in key]

    def test_a_store_that_knows_no_versions_is_no_trouble(
        self, s3_server: buckets.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = s3_server.bucket()
        store = buckets.store(s3_server, bucket, timedelta(0))
        assert not store.keeps_what_is_deleted()
        place = shelves.Shelf(store, tmp_path / "work").place("set")
        accept(place)
        monkeypatch.setattr(s3.Bucket, "versions", lambda *_: s3._listed_versions(b"<ListBucketResult/>", ""))
        datasets.retire(place)
        assert s3_server.keys(bucket) == set()

    def test_a_probe_leaves_nothing(self, s3_server: buckets.Server, tmp_path: Path) -> None:
        bucket = s3_server.bucket()
        environment = {f"DISCRETION_{n.upper()}": str(v) for n, v in s3_server.settings(bucket).items()}
        datasets.probe(settings.read(environment))
        assert s3_server.keys(bucket) == set()
        with pytest.raises(errors.StorageFailed):  # it may be a disk that is not there
            datasets.probe(settings.read({"DISCRETION_DATA": str(tmp_path)}))
        (tmp_path / "datasets").mkdir()
        datasets.probe(settings.read({"DISCRETION_DATA": str(tmp_path)}))
        assert list((tmp_path / "datasets").iterdir()) == []
        (tmp_path / "file").touch()
        with pytest.raises(errors.StorageFailed):
            datasets.probe(settings.read({"DISCRETION_STORE": f"file://{tmp_path}/file/set"}))
        s3_server.client.delete_bucket(Bucket=bucket)
        with pytest.raises(errors.StoreUnavailable, match="bucket"):
            datasets.probe(settings.read(environment))


@pytest.fixture
def service(url: str, s3_server: buckets.Server, tmp_path: Path) -> Iterator[Service]:
    """What an API shares, on a bucket, without an API."""
    engine = database.engine(url)
    database.migrate(engine)
    named = s3_server.settings(s3_server.bucket()) | {"data": tmp_path, "database_url": url, "stall_seconds": 1}
    made = Service(settings.read({f"DISCRETION_{n.upper()}": str(v) for n, v in named.items()}), engine)
    yield made
    engine.dispose()
    made.shelf.close()


def stale(service: Service, age: timedelta) -> None:
    object.__setattr__(service.shelf.store, "stale", age)


def begun(service: Service, folder: str) -> None:
    with service.writing() as connection:
        catalogue.begin_upload(connection, _dataset(connection), folder)


def _dataset(connection: sa.Connection) -> str:
    owner, now = Key("key_owner", "owner", "custodian", "", None), datetime.now(UTC)
    population = catalogue.add_population(connection, "clinic", Rho.parse("1"), owner=owner, at=now)
    return catalogue.add_dataset(connection, "icu", population, SCHEMA, None, owner=owner, at=now)


def left(service: Service, folder: str) -> tuple[list[str], bool]:
    with service.reading() as connection:
        return files(service.shelf.place(folder)), folder in catalogue.broken_uploads(connection)


class TestSweep:
    def test_removes_what_a_broken_upload_left_with_its_row(self, service: Service) -> None:
        begun(service, "up_broken")
        service.shelf.store.replace("up_broken", "0000.parquet", b"rows")
        stale(service, timedelta(0))
        service.sweep()
        assert left(service, "up_broken") == ([], False)

    def test_spares_what_was_written_to_lately(self, service: Service) -> None:
        begun(service, "up_busy")
        service.shelf.store.replace("up_busy", "0000.parquet", b"rows")
        service.sweep()
        assert left(service, "up_busy") == (["0000.parquet"], True)

    def test_spares_what_it_has_never_heard_of_and_what_has_not_written_yet(self, service: Service) -> None:
        service.shelf.store.replace("up_foreign", "0000.parquet", b"rows")
        begun(service, "up_early")
        stale(service, timedelta(0))
        service.sweep()
        assert left(service, "up_foreign") == (["0000.parquet"], False)
        assert left(service, "up_early") == ([], True)

    def test_an_upload_that_wakes_up_too_late_is_refused_and_nothing_is_ready(self, service: Service) -> None:
        """Swept while it paused between its manifest and the database; it must not come alive without its blocks."""
        begun(service, "up_late")
        with service.reading() as connection:
            dataset = connection.execute(sa.text("SELECT dataset FROM uploads")).scalar_one()

        def then(accepted: datasets.Accepted) -> None:
            stale(service, timedelta(0))
            service.sweep()
            with service.writing() as connection:
                catalogue.fill(connection, dataset, units=accepted.units, folder="up_late")

        with pytest.raises(errors.UploadInterrupted):
            accept(service.shelf.place("up_late"), then=then)
        with service.reading() as connection:
            assert catalogue.stored(connection, dataset).state == catalogue.EMPTY
        assert left(service, "up_late") == ([], False)

    def test_of_a_sweep_and_the_end_of_an_upload_at_once_one_wins(self, service: Service) -> None:
        """Either the dataset is ready and whole, or it is not ready and gone."""
        begun(service, "up_race")
        with service.reading() as connection:
            dataset = connection.execute(sa.text("SELECT dataset FROM uploads")).scalar_one()
        stale(service, timedelta(0))
        both = threading.Barrier(2)

        def sweep() -> None:
            both.wait()
            service.sweep()

        sweeper = threading.Thread(target=sweep)
        sweeper.start()

        def then(accepted: datasets.Accepted) -> None:
            both.wait()
            with service.writing() as connection:
                catalogue.fill(connection, dataset, units=accepted.units, folder="up_race")

        try:
            accept(service.shelf.place("up_race"), then=then)
        except errors.UploadInterrupted:
            assert left(service, "up_race") == ([], False)
        else:
            assert datasets.units(service.shelf.place("up_race")) == 9
            assert len(units(service.shelf.place("up_race"))) == 9
        sweeper.join()

    @embedded
    def test_a_store_that_is_away_is_left_for_another_time(
        self, service: Service, s3_server: buckets.Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun(service, "up_broken")
        store = service.shelf.store
        assert isinstance(store, stores.Bucket)
        s3_server.client.delete_bucket(Bucket=store.bucket._address.bucket)
        service.sweep()
        assert "no such bucket" in caplog.text

    def test_a_folder_loses_the_rows_of_what_it_removed_too(self, url: str, tmp_path: Path) -> None:
        engine = database.engine(url)
        database.migrate(engine)
        made = Service(settings.read({"DISCRETION_DATA": str(tmp_path), "DISCRETION_DATABASE_URL": url}), engine)
        begun(made, "up_broken")
        accept(made.shelf.place("up_broken"))
        (tmp_path / "work" / "upload-left-by-a-crash").mkdir()
        made.sweep()
        assert left(made, "up_broken") == ([], False)
        assert os.listdir(tmp_path / "work") == []
        engine.dispose()
