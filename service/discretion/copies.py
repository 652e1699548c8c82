"""Datasets' files on their way into a backup and back, byte for byte: what is encrypted stays so."""

from pathlib import Path
from typing import Final

from discretion import durable, errors, shelves
from discretion.shelves import Shelf

_ATTEMPTS: Final = 5


class Gone(Exception):
    """A dataset that is not there any more, or not whole."""


def take(shelf: Shelf, name: str, target: Path) -> None:
    """A dataset's files into a new folder. But for another master key they never change, so a manifest that is the same
    before and after is of the files in between."""
    target.mkdir(mode=0o700)
    try:
        for _ in range(_ATTEMPTS):
            before = shelf.store.read(name, shelves.MANIFEST)
            files = _visible(shelf, name)
            for file in files:
                durable.write(target / file, shelf.store.read(name, file))
            if shelf.store.read(name, shelves.MANIFEST) == before and files == _visible(shelf, name):
                durable.sync(target)
                return
            for path in target.iterdir():
                path.unlink()
    except errors.NotStored:
        raise Gone(name) from None
    raise errors.InvalidBackup("A dataset's files changed again and again while they were copied; try once more.")


def _visible(shelf: Shelf, name: str) -> list[str]:
    """Without what is being written at the moment."""
    return [file for file in shelf.store.files(name) if not file.startswith(".")]


def put_back(shelf: Shelf, source: Path, name: str) -> None:
    """Under its old name, whole or not at all; the manifest last."""
    files = sorted(source.iterdir(), key=lambda path: (path.name == shelves.MANIFEST, path.name))
    with shelf.store.draft(name) as draft:
        for path in files:
            draft.write(path.name, path.read_bytes())
        draft.publish()


def refuse_filled(shelf: Shelf) -> None:
    if not shelf.store.is_empty():
        raise errors.NotEmpty("There are datasets in the store of these settings; restore into an empty one.")
