"""How many threads BLAS has. A product of integers that fit is the same by any number of them."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

_LOADED: Final = Path("/proc/self/maps")
_NAMES: Final = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


def tell(threads: int) -> None:
    """BLAS counted processors when it was loaded. More threads than there are would wait for each other."""
    _libraries.cache_clear()
    _tell(threads)


def _tell(threads: int) -> None:
    for library in _libraries():
        _call(library, "set_num_threads", threads)


@contextmanager
def one_each() -> Iterator[None]:
    """While several threads multiply: else each of them would hand its small products to the threads of BLAS, which
    serve one at a time, and would wait for its turn."""
    before = [(library, _call(library, "get_num_threads")) for library in _libraries()]
    _tell(1)
    try:
        yield
    finally:
        for library, threads in before:
            if threads is not None:
                _call(library, "set_num_threads", threads)


@cache
def _libraries() -> list[ctypes.CDLL]:
    """Looked for once, and again when somebody tells them: a training by step asks for thousands of sums."""
    found: list[ctypes.CDLL] = []
    with suppress(OSError):
        for path in sorted({line.split()[-1] for line in _LOADED.read_text().splitlines() if "openblas" in line}):
            with suppress(OSError):
                found.append(ctypes.CDLL(path))
    return found


def _call(library: ctypes.CDLL, what: str, *arguments: int) -> int | None:
    """None where this BLAS has no such function."""
    for name in _NAMES:
        with suppress(AttributeError):
            return int(library[name.format(what)](*arguments))
    return None
