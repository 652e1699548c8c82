"""A Parquet file is read for the first time in a process of its own, which may crash or run out of memory instead.

Arrow aborts the whole process on some damaged files, and a file whose footer lies about its sizes can take any amount
of memory. `formats` starts this file as a program, by itself so that it starts fast, and reads for the service only
what was read here to the end. What can be refused with a reason is left to `formats`: here it counts as read.
"""

import ctypes
import importlib.util
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

_MEMORY: Final = 4 * 2**30  # bytes of addresses, a third of them the libraries' own
_FOOTER: Final = 2**24  # bytes of the texts, and entries of the lists, in the footer
_SECONDS: Final = 600.0
_PR_SET_PDEATHSIG: Final = 1
_NEIGHBOUR: Final = "discretion.scratch"
_BUFFER: Final = 2**20  # bytes read at a time


def opened(path: Path, key: bytes | None, dictionaries: list[str]) -> Any:
    """The file, which is enciphered if there is a key."""
    return pyarrow.parquet.ParquetFile(
        path if key is None else _scratch().opened(path, "rb", key),
        read_dictionary=dictionaries,
        buffer_size=_BUFFER,
        thrift_string_size_limit=_FOOTER,
        thrift_container_size_limit=_FOOTER,
    )


def _scratch() -> Any:
    """By its path: the program that this is has nothing else of its package."""
    if _NEIGHBOUR not in sys.modules:
        found = importlib.util.spec_from_file_location(_NEIGHBOUR, Path(__file__).with_name("scratch.py"))
        assert found is not None and found.loader is not None  # noqa: PT018
        sys.modules[_NEIGHBOUR] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules[_NEIGHBOUR])
    return sys.modules[_NEIGHBOUR]


def survived(path: Path, key: bytes | None, batch: int, group: int, rows: int) -> bool:
    """Whether a process of its own could read the file, in batches and row groups of these sizes, in time.

    It ends with the thread that started it.
    """
    command = [sys.executable, "-I", __file__, str(path), str(batch), str(group), str(rows), str(os.getpid())]
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # the others reserve addresses they do not use
    quiet = subprocess.DEVNULL  # what a crash prints may hold values
    told = key or b""  # where nobody else can read it, which arguments and environment are not
    try:
        run = subprocess.run(command, env=environment, input=told, stdout=quiet, stderr=quiet, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def _read(path: Path, key: bytes | None, batch: int, group: int, most: int) -> None:
    with opened(path, key, []) as file:
        if file.metadata.num_rows > most:
            return
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        columns = [part.column(index) for part in groups for index in range(part.num_columns)]
        if any(part.total_byte_size > group for part in groups) or any(
            c.total_uncompressed_size > group for c in columns
        ):
            return
        names = [name for name in ("unit", "trajectory") if name in file.schema_arrow.names]
    with opened(path, key, names) as file:
        for rows in file.iter_batches(batch, use_threads=False):
            rows.validate(full=True)


def _main(key: bytes | None, path: str, batch: str, group: str, most: str, parent: str) -> int:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        _read(Path(path), key, int(batch), int(group), int(most))
    except MemoryError:
        return 1
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.stdin.buffer.read() or None, *sys.argv[1:]))
