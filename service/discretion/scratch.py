"""Files that live as long as an upload: its rows between their arrival and the store, in a folder of their own.

The folder has mode 700, is locked while its process lives, and is gone afterwards; `sweep` removes what a crash left.
With a key they are enciphered (AES-256-CTR, a key for each file, none of them ever written down): what a crash leaves,
or a disk keeps of a deleted file, is noise. They are not authenticated: who can change them can change the program.

This file imports nothing of the program, because `first_reading` takes it into a process of its own.
"""

import contextlib
import fcntl
import hmac
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_PREFIX: Final = "upload-"


@dataclass(frozen=True)
class Scratch:
    folder: Path
    key: bytes | None = field(default=None, repr=False)

    def open(self, name: str, mode: str) -> IO[bytes]:
        """To write ("wb"), to append ("ab") or to read ("rb"). No name is written anew once it was deleted."""
        path, key = self.folder / name, self.key_of(name)
        return open(path, mode) if key is None else opened(path, mode, key)  # type: ignore[return-value]

    def key_of(self, name: str) -> bytes | None:
        return None if self.key is None else hmac.digest(self.key, name.encode(), "sha256")

    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


@contextmanager
def made(work: Path, key: bytes | None) -> Iterator[Scratch]:
    lock, folder = -1, None
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=work))
        lock = hold(folder)
        yield Scratch(folder, key)
    finally:
        try:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            if lock >= 0:
                os.close(lock)


def sweep(work: Path) -> None:
    for leftover in work.glob(f"{_PREFIX}*"):
        if not is_held(leftover):
            shutil.rmtree(leftover, ignore_errors=True)


def hold(folder: Path) -> int:
    """A lock that ends with this process, whatever happens to it; to be closed by whoever asked for it."""
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def is_held(folder: Path) -> bool:
    lock = -1
    with contextlib.suppress(FileNotFoundError):  # whoever held it has just cleaned up
        lock = os.open(folder, os.O_RDONLY)
    if lock < 0:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def opened(path: Path, mode: str, key: bytes) -> "_Enciphered":
    return _Enciphered(path, mode, key)


class _Enciphered(io.RawIOBase):
    """A file whose every byte is changed by its place: it can be appended to, and read from anywhere."""

    def __init__(self, path: Path, mode: str, key: bytes) -> None:
        self._file: Any = open(path, mode)  # noqa: SIM115 (closed by `close`)
        self._key, self._writes = key, "r" not in mode
        self.seek(0, io.SEEK_END if "a" in mode else io.SEEK_SET)

    def readable(self) -> bool:
        return not self._writes

    def writable(self) -> bool:
        return self._writes

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = int(self._file.seek(offset, whence))
        block, within = divmod(place, 16)
        self._cipher = Cipher(algorithms.AES(self._key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
        self._cipher.update(bytes(within))
        return place

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = int(self._file.readinto(view))
        view[:count] = self._cipher.update(view[:count])
        return count

    def write(self, content: Any) -> int:
        enciphered = self._cipher.update(memoryview(content).cast("B"))
        self._file.write(enciphered)
        return len(enciphered)

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            super().close()
