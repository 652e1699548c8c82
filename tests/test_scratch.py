"""Scratch files: what was written comes back, from any place, and nobody else can read it or finds it afterwards."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion import scratch

KEY = bytes(range(32))


class TestMade:
    @pytest.mark.parametrize("key", [None, KEY], ids=["plain", "enciphered"])
    def test_its_folder_is_for_its_owner_and_gone_afterwards(self, key: bytes | None, tmp_path: Path) -> None:
        with scratch.made(tmp_path / "work", key) as rough:
            with rough.open("rows", "wb") as file:
                file.write(b"rows of patients")
            for folder in (tmp_path / "work", rough.folder):
                assert folder.stat().st_mode & 0o777 == 0o700
            assert scratch.is_held(rough.folder)
            scratch.sweep(tmp_path / "work")
            with rough.open("rows", "rb") as file:
                assert file.read() == b"rows of patients"
        assert os.listdir(tmp_path / "work") == []

    def test_what_a_crash_left_is_swept_and_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / "upload-of-a-process-that-is-gone" / "names").mkdir(parents=True)
        (tmp_path / "somebody-elses").mkdir()
        scratch.sweep(tmp_path)
        assert os.listdir(tmp_path) == ["somebody-elses"]
        scratch.sweep(tmp_path / "missing")


class TestEnciphered:
    def test_no_byte_of_it_is_on_the_disk_and_two_files_share_nothing(self, tmp_path: Path) -> None:
        rough = scratch.Scratch(tmp_path, KEY)
        for name in ("one", "two"):
            with rough.open(name, "wb") as file:
                file.write(bytes(4096))
        one, two = ((tmp_path / name).read_bytes() for name in ("one", "two"))
        assert len({one[start : start + 16] for start in range(0, 4096, 16)} | {bytes(16)}) == 257
        assert not {one[start : start + 16] for start in range(0, 4096, 16)} & {
            two[start : start + 16] for start in range(0, 4096, 16)
        }

    @given(parts=st.lists(st.binary(max_size=100), max_size=6), start=st.integers(0, 600), count=st.integers(0, 100))
    def test_what_was_appended_is_read_from_any_place(
        self, parts: list[bytes], start: int, count: int, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        rough, whole = scratch.Scratch(tmp_path_factory.mktemp("any"), KEY), b"".join(parts)
        for part in [b"", *parts]:
            with rough.open("rows", "ab") as file:
                file.write(part)
        with rough.open("rows", "rb") as file:
            assert file.read() == whole
            assert file.seek(start) == file.tell() == start
            assert file.read(count) == whole[start : start + count]

    def test_its_key_is_not_shown(self, tmp_path: Path) -> None:
        assert repr(KEY)[2:20] not in repr(scratch.Scratch(tmp_path, KEY))
