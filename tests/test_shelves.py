"""Encryption at rest: nothing readable lies anywhere, what was touched is refused, and keys can be changed."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discretion import datasets, errors, first_reading, sealing, shelves, stores
from discretion.privacy import noise
from tests import buckets, uploading
from tests.uploading import SCHEMA, TYPES, Row, expected, same, some_rows

CANARY = 0.123456789012345  # a reward
MANY = [(0, 4), (4, 8), (8, 9)]


def key_file(folder: Path, *keys: bytes) -> Path:
    path = folder / "store-keys"
    path.write_text("".join(f"{key.hex()}\n" for key in keys))
    return path


@pytest.fixture
def first() -> bytes:
    return sealing.new_key()


@pytest.fixture
def shelf(tmp_path: Path, first: bytes, monkeypatch: pytest.MonkeyPatch) -> shelves.Shelf:
    monkeypatch.setattr(datasets, "_spans", lambda count, schema: MANY)
    return shelves.Shelf(stores.Folder(tmp_path / "store"), tmp_path / "work", key_file(tmp_path, first))


def rows() -> list[Row]:
    return [row | {"reward": CANARY} for row in some_rows(9)]


def accept(place: shelves.Place, media_type: str = uploading.CSV) -> None:
    datasets.accept([uploading.written(rows(), media_type)], media_type, SCHEMA, place)


def units(place: shelves.Place) -> dict[int, Any]:
    return uploading.units_of(datasets.load(place, SCHEMA))


def signs(value: float) -> list[bytes]:
    """How a number may look on a disk."""
    return [repr(value).encode(), np.float64(value).tobytes(), np.float64(value).byteswap().tobytes()]


def looking(look: Callable[[], None], act: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, and a look around before it."""

    def run(*given: Any) -> Any:
        look()
        return act(*given)

    return run


class TestSealed:
    @pytest.mark.parametrize("media_type", TYPES)
    def test_a_value_is_in_no_file_while_it_is_stored_nor_afterwards(
        self, media_type: str, shelf: shelves.Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also a real first reading, by a process of its own, sees the upload enciphered and reads it."""
        looked: list[int] = []
        monkeypatch.setattr(datasets, "_THREADS", 1)  # several would take files away while one looks at them

        def look(*_: object) -> None:
            files = [path for folder in ("store", "work") for path in (tmp_path / folder).rglob("*") if path.is_file()]
            looked.append(len(files))
            for path in files:
                content = path.read_bytes()
                assert not any(sign in content for sign in [*signs(CANARY), b"unit-3"]), path

        for module, name in ((noise, "permutation"), (datasets, "_block_file"), (first_reading, "survived")):
            monkeypatch.setattr(module, name, looking(look, getattr(module, name)))
        accept(shelf.place("set"), media_type)
        look()
        assert len(looked) >= 5
        assert max(looked) >= 4
        assert os.listdir(tmp_path / "work") == []
        assert same(units(shelf.place("set")), expected(rows()))

    def test_in_the_clear_it_would_be_found(self, tmp_path: Path) -> None:
        accept(uploading.place(tmp_path / "set"))
        assert any(sign in path.read_bytes() for path in (tmp_path / "set").iterdir() for sign in signs(CANARY))

    def test_the_same_integers_are_stored(self, shelf: shelves.Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(noise, "permutation", np.arange)
        accept(shelf.place("sealed"))
        plain = shelves.Shelf(shelf.store, shelf.work)
        accept(plain.place("plain"))
        there = [shelves.manifest(shelf.place("sealed")).read(shelf.place("sealed"), index) for index in range(3)]
        here = [plain.store.read("plain", f"{index:04}.parquet") for index in range(3)]
        assert there == here

    def test_each_dataset_has_a_key_of_its_own_which_is_not_shown(self, shelf: shelves.Shelf) -> None:
        for name in ("one", "two"):
            accept(shelf.place(name))
        one, two = (shelves.manifest(shelf.place(name)) for name in ("one", "two"))
        assert one.key is not None
        assert one.key != two.key
        assert repr(one.key)[2:-1] not in repr(one)
        written = shelf.store.read("one", "manifest.json")
        assert one.key.hex().encode() not in written
        assert json.loads(written).keys() == {"version", "units", "spans", "key", "wrapped"}


def changed(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def swap(one: Path, two: Path) -> None:
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def renamed(folder: Path, **values: Any) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | values))


class TestLook:
    def test_a_store_that_holds_nothing_yet_is_well(self, shelf: shelves.Shelf, tmp_path: Path) -> None:
        (tmp_path / "store").mkdir()
        shelf.look()

    def test_a_folder_that_is_not_there_is_not_an_empty_one(self, shelf: shelves.Shelf, tmp_path: Path) -> None:
        with pytest.raises(errors.StorageFailed, match="is not there or cannot be read"):
            shelf.look()
        (tmp_path / "store").write_text("a file")
        with pytest.raises(errors.StorageFailed, match="is not there or cannot be read"):
            shelf.look()

    def test_nothing_is_written(self, shelf: shelves.Shelf, tmp_path: Path) -> None:
        """A machine of a cluster may only read."""
        (tmp_path / "store").mkdir()
        before = os.stat(tmp_path / "store").st_mtime_ns
        shelf.look()
        assert os.stat(tmp_path / "store").st_mtime_ns == before


class TestTampering:
    """`there` is the dataset, `other` another one under the same master key."""

    @pytest.mark.parametrize(
        "tamper",
        [
            lambda there, other: changed(there / "0001.parquet.sealed", lambda c: c[:50] + bytes([c[50] ^ 1]) + c[51:]),
            lambda there, other: changed(there / "0001.parquet.sealed", lambda c: c[:-1]),
            lambda there, other: changed(there / "0001.parquet.sealed", lambda c: c + b"\0"),
            lambda there, other: changed(there / "0001.parquet.sealed", lambda c: b""),
            lambda there, other: changed(there / "0001.parquet.sealed", lambda c: c[:5]),
            lambda there, other: (there / "0001.parquet.sealed").unlink(),
            lambda there, other: swap(there / "0000.parquet.sealed", there / "0001.parquet.sealed"),
            lambda there, other: swap(there / "0000.parquet.sealed", other / "0000.parquet.sealed"),
            lambda there, other: shutil.copy(there / "0000.parquet.sealed", there / "0001.parquet.sealed"),
        ],
        ids=["a bit", "cut", "longer", "empty", "a stump", "gone", "reordered", "another's", "twice"],
    )
    def test_of_a_block_is_refused(self, tamper: Callable[..., None], shelf: shelves.Shelf, tmp_path: Path) -> None:
        for name in ("there", "other"):
            accept(shelf.place(name))
        tamper(tmp_path / "store" / "there", tmp_path / "store" / "other")
        with pytest.raises(errors.StorageFailed):
            units(shelf.place("there"))

    @pytest.mark.parametrize(
        "tamper",
        [
            lambda there, other: swap(there / "manifest.json", other / "manifest.json"),
            lambda there, other: renamed(there, units=8),
            lambda there, other: renamed(there, spans=[[0, 4], [4, 8]]),
            lambda there, other: renamed(there, spans=[[0, 8], [8, 9]]),
            lambda there, other: renamed(there, version=1),
            lambda there, other: renamed(there, version=3),
            lambda there, other: renamed(there, key="0" * 16),
            lambda there, other: renamed(there, wrapped="00"),
            lambda there, other: renamed(there, wrapped=None),
            lambda there, other: renamed(there, wrapped="not hexadecimal"),
            lambda there, other: (there / "manifest.json").write_text("[]"),
            lambda there, other: swap_all(there, other),
        ],
    )
    def test_of_a_manifest_is_refused_before_anything_is_charged(
        self, tamper: Callable[..., None], shelf: shelves.Shelf, tmp_path: Path
    ) -> None:
        for name in ("there", "other"):
            accept(shelf.place(name))
        tamper(tmp_path / "store" / "there", tmp_path / "store" / "other")
        with pytest.raises(errors.StorageFailed):
            datasets.units(shelf.place("there"))

    def test_a_dataset_in_the_clear_is_not_taken_for_one_of_ours(self, shelf: shelves.Shelf) -> None:
        accept(shelves.Shelf(shelf.store, shelf.work).place("slipped-in"))
        with pytest.raises(errors.StorageFailed, match="not encrypted"):
            datasets.units(shelf.place("slipped-in"))


def swap_all(there: Path, other: Path) -> None:
    """Two whole datasets change places."""
    for name in os.listdir(there):
        swap(there / name, other / name)


class TestCheckWhole:
    def test_of_the_files_that_are_missing_the_one_with_the_smallest_number_is_named(self, tmp_path: Path) -> None:
        place = uploading.place(tmp_path / "set")
        (tmp_path / "set").mkdir()
        manifest = shelves.Manifest(10_002, [(unit, unit + 1) for unit in range(10_002)])
        for index in range(9_999):
            (tmp_path / "set" / f"{index:04}.parquet").touch()
        with pytest.raises(errors.NotStored, match=r"^3 of 10002 files .* store, 9999\.parquet first"):
            manifest.check_whole(place)


class TestKeys:
    def test_another_key_opens_nothing(self, shelf: shelves.Shelf, tmp_path: Path, first: bytes) -> None:
        accept(shelf.place("set"))
        key_file(tmp_path, sealing.new_key())
        with pytest.raises(errors.StorageFailed, match="DISCRETION_STORE_KEY_FILE") as refusal:
            datasets.units(shelf.place("set"))
        assert first.hex() not in str(refusal.value)

    def test_without_any_nothing_is_opened(self, shelf: shelves.Shelf) -> None:
        accept(shelf.place("set"))
        with pytest.raises(errors.StorageFailed, match="DISCRETION_STORE_KEY_FILE"):
            datasets.units(shelves.Shelf(shelf.store, shelf.work).place("set"))

    @pytest.mark.parametrize(
        "content", ["", "\n", "00" * 32, "ab" * 32, "0123", "x" * 64, "é", "0123456789abcdef" * 4 + "\nshort"]
    )
    def test_a_file_that_holds_none_is_refused_by_its_setting(self, content: str, tmp_path: Path) -> None:
        path = tmp_path / "keys"
        path.write_text(content)
        with pytest.raises(errors.InvalidSetting, match="DISCRETION_STORE_KEY_FILE") as refusal:
            sealing.master_keys(path)
        assert not content.strip() or content not in str(refusal.value)
        with pytest.raises(errors.InvalidSetting, match="DISCRETION_STORE_KEY_FILE"):
            sealing.master_keys(tmp_path / "missing")


class TestRotate:
    def test_the_old_key_is_not_needed_any_more_and_no_block_was_written(
        self, shelf: shelves.Shelf, tmp_path: Path, first: bytes
    ) -> None:
        accept(shelf.place("set"))
        before, blocks = units(shelf.place("set")), tmp_path / "store" / "set" / "0000.parquet.sealed"
        content = blocks.read_bytes()
        reading = datasets.load(shelf.place("set"), SCHEMA)
        second = sealing.new_key()
        key_file(tmp_path, second, first)
        assert shelves.rotate(shelf.place("set"))
        assert not shelves.rotate(shelf.place("set"))
        assert uploading.units_of(reading) == before  # who was reading goes on
        key_file(tmp_path, second)
        assert units(shelf.place("set")) == before
        assert blocks.read_bytes() == content
        key_file(tmp_path, first)
        with pytest.raises(errors.StorageFailed):
            datasets.units(shelf.place("set"))

    def test_what_lies_in_the_clear_is_encrypted(self, shelf: shelves.Shelf, tmp_path: Path) -> None:
        accept(shelves.Shelf(shelf.store, shelf.work).place("set"))
        assert shelves.rotate(shelf.place("set"))
        assert same(units(shelf.place("set")), expected(rows()))
        names = os.listdir(tmp_path / "store" / "set")
        assert sorted(names) == ["0000.parquet.sealed", "0001.parquet.sealed", "0002.parquet.sealed", "manifest.json"]
        for name in names:
            content = (tmp_path / "store" / "set" / name).read_bytes()
            assert not any(sign in content for sign in signs(CANARY))

    @pytest.mark.parametrize("call", range(8))
    def test_one_that_is_interrupted_loses_nothing_and_is_done_by_the_next(
        self, call: int, shelf: shelves.Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clear = shelves.Shelf(shelf.store, shelf.work)
        accept(clear.place("set"))
        calls = iter(range(100))

        def counted(act: Any) -> Any:
            def run(*given: Any) -> Any:
                if next(calls) == call:
                    raise KeyboardInterrupt
                return act(*given)

            return run

        with monkeypatch.context() as patch:
            for name in ("replace", "remove"):
                patch.setattr(stores.Folder, name, counted(getattr(stores.Folder, name)))
            with pytest.raises(KeyboardInterrupt) if call < 7 else open(os.devnull):
                shelves.rotate(shelf.place("set"))
        shelves.rotate(shelf.place("set"))
        assert same(units(shelf.place("set")), expected(rows()))
        assert not list((tmp_path / "store" / "set").glob("*.parquet"))

    def test_in_a_bucket_it_is_the_same(
        self, shelf: shelves.Shelf, s3_server: buckets.Server, tmp_path: Path, first: bytes
    ) -> None:
        bucket = s3_server.bucket()
        there = shelves.Shelf(buckets.store(s3_server, bucket, timedelta(0)), shelf.work, shelf.key_file)
        accept(there.place("sealed"))
        accept(shelves.Shelf(there.store, shelf.work).place("clear"))
        second = sealing.new_key()
        key_file(tmp_path, second, first)
        assert [shelves.rotate(there.place(name)) for name in ("sealed", "clear", "clear")] == [True, True, False]
        key_file(tmp_path, second)
        for name in ("sealed", "clear"):
            assert same(units(there.place(name)), expected(rows()))
        content = s3_server.content(bucket)
        assert len(content) == 8
        assert not any(sign in file for file in content.values() for sign in signs(CANARY))
        there.close()

    def test_without_a_key_there_is_nothing_to_do_it_with(self, shelf: shelves.Shelf) -> None:
        clear = shelves.Shelf(shelf.store, shelf.work).place("set")
        accept(clear)
        with pytest.raises(errors.InvalidSetting, match="DISCRETION_STORE_KEY_FILE"):
            shelves.rotate(clear)
        assert same(units(clear), expected(rows()))
