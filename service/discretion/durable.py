"""Files that are there whole, on the disk, or not at all."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO


def sync(path: Path) -> None:
    """A file's content, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: Path, content: bytes) -> None:
    """In place of whatever was there; readers see the one or the other."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync(path.parent)


def copy(source: IO[bytes], target: Path) -> None:
    """To a new file that only its owner reads."""
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(source, file, 2**20)
        file.flush()
        os.fsync(file.fileno())
