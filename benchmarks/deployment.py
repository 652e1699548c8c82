"""What a deployment weighs: how much is installed, how soon it is ready, what it holds while nobody asks. Beside it, a
FastAPI application that says one word, from the same machine and packages.

Where an engine has the image, the image is started; what can be started everywhere is the program outside of it.
"""

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import starting
from benchmarks.rows import Row, row

_BARE = "a FastAPI application that says one word"
_ROUNDS = 5
_IMAGE, _BASE = "discretion", "python:3.11-slim-bookworm"
_ROOT = Path(__file__).parents[1]
_WHOLE = "the image, Debian and Python included"
_VFS = os.environ | {"STORAGE_DRIVER": "vfs"}  # of buildah, where there is no root or no other driver


def _names(what: str) -> tuple[str, str, str]:
    return (
        f"start of {what}, until ready",
        f"memory of the API at rest, of {what}",
        f"memory of a worker at rest, of {what}",
    )


OF_THE_IMAGE = (_WHOLE, *_names("the image"))  # rows that only an engine for containers can measure


def measure() -> Iterator[Row]:
    yield from _sizes()
    yield from _starts([sys.executable], _names("the program outside the image"))
    with _container() as python:
        if python is not None:
            yield from _starts(python, _names("the image"))


# --- size --------------------------------------------------------------------------------------------------------


def _sizes() -> Iterator[Row]:
    ours, theirs = _slim("discretion[cluster]"), _installed("fastapi", "uvicorn", "httptools")
    yield row(
        "packages of the image, as installed", "MB", ours, "fastapi, uvicorn and httptools", theirs, "value < 400"
    )
    image, base = _image_size(_IMAGE), _image_size(_BASE)
    if (
        image is not None and base is not None
    ):  # else no engine here has built it, and its packages are what can be weighed
        yield row(_WHOLE, "MB", image, "its base image, with these three", base + theirs, "value < 600")


def _installed(*names: str) -> float:
    """Megabytes of packages and of everything they need, counted where they are installed; no engine is needed."""
    return sum(path.stat().st_size for name in _needed(*names) for path in _files(name).values()) / 1e6


def _slim(*names: str) -> float:
    """Without what the image leaves behind: taken out of a copy by the program that does it there."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _needed(*names):
            for place, path in _files(name).items():
                (Path(folder) / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, Path(folder) / place)
        subprocess.run([_ROOT / "docker" / "slim", folder], check=True)
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def _needed(*names: str) -> set[str]:
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            if (canonicalize_name(wanted.name), extra) not in found:
                found.add((canonicalize_name(wanted.name), extra))
                waiting += _required(wanted.name, extra)
    return {name for name, _ in found}


def _required(name: str, extra: str) -> Iterator[Requirement]:
    for line in importlib.metadata.requires(name) or ():
        found = Requirement(line)
        if found.marker is None or found.marker.evaluate({"extra": extra}):
            yield found


def _files(name: str) -> dict[str, Path]:
    """Of a package, by their places among all packages."""
    if name == "discretion":  # installed as a link to these folders
        found = [path for folder in ("service", "migrations") for path in (_ROOT / folder).rglob("*.*")]
        return {str(path.relative_to(_ROOT)): path for path in found if path.is_file()}
    listed = importlib.metadata.distribution(name).files or ()
    paths = {str(file): Path(str(file.locate())) for file in listed if ".." not in file.parts}  # programs lie elsewhere
    return {place: path for place, path in paths.items() if path.is_file()}


def _image_size(name: str) -> float | None:
    """Megabytes of the image, base included, if an engine on this machine has it."""
    for engine, field in (("docker", "{{.Size}}"), ("podman", "{{.Size}}")):
        if shutil.which(engine):
            command = [engine, "image", "inspect", "--format", field, name]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip().isdigit():
                return int(done.stdout) / 1e6
    return _built_size(name)


def _built_size(name: str) -> float | None:
    """By buildah, which has no daemon and tells no size without counting."""
    if not shutil.which("buildah"):
        return None
    done = subprocess.run(["buildah", "images", "--json", name], capture_output=True, text=True, env=_VFS)
    with contextlib.suppress(ValueError, KeyError, IndexError):
        number, unit = re.fullmatch(r"([\d.]+) ([KMG])B", json.loads(done.stdout)[0]["size"]).groups()  # type: ignore[union-attr]
        return float(number) * {"K": 1e-3, "M": 1, "G": 1e3}[unit]
    return None


# --- start and rest ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _container() -> Iterator[Sequence[str] | None]:
    """A command that runs the image's Python, where an engine on this machine has the image and may run it."""
    for engine in ("docker", "podman"):
        python = [engine, "run", "--rm", "--pull=never", "--network=none", "--entrypoint=python", _IMAGE]
        if shutil.which(engine) and _runs(*python, "-c", "") is not None:
            yield python
            return
    made = _runs("buildah", "from", "--pull-never", _IMAGE) if shutil.which("buildah") else None
    if made is None:
        yield None
        return
    try:
        yield ["buildah", "run", "--isolation=chroot", made, "--", "python"]
    finally:
        _runs("buildah", "rm", made)


def _runs(*command: str) -> str | None:
    """What it says, None if it ends badly."""
    done = subprocess.run(command, capture_output=True, text=True, env=_VFS)
    return done.stdout.strip() if done.returncode == 0 else None


def _starts(python: Sequence[str], names: tuple[str, str, str]) -> Iterator[Row]:
    script = Path(starting.__file__).read_text(encoding="utf-8")
    done = subprocess.run(
        [*python, "-c", script, str(_ROUNDS)], stdout=subprocess.PIPE, text=True, env=_VFS, check=True
    )
    found = json.loads(done.stdout)
    began, api, worker = (statistics.median(column) for column in zip(*found["service"], strict=True))
    theirs, bare = (statistics.median(column) for column in zip(*found["word"], strict=True))
    start, of_api, of_worker = names
    yield row(start, "s", began, _BARE, theirs, "ratio ≤ 5")
    yield row(of_api, "MB", api, _BARE, bare, "value < 250")
    yield row(of_worker, "MB", worker, _BARE, bare, "value < 250")


if __name__ == "__main__":
    for each in measure():
        print(each)
