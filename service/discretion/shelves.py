"""Where datasets are, and what opens them: a store, and a manifest for each dataset in it.

The manifest says what is public: how many units, in which spans of positions. With a master key it also holds the
dataset's own key, wrapped, and every block is sealed with that one. Blocks are bound to their dataset and their index,
and the wrapped key to everything else that the manifest says: what was changed, cut short, or put in the place of
another is refused, and so is a dataset in the clear where there is a master key.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from discretion import errors, sealing, stores
from discretion.settings import Settings

Span = tuple[int, int]  # the first position, and the one after the last

_CLEAR, _SEALED = 1, 2  # versions of the stored layout
MANIFEST: Final = "manifest.json"
_IN_THE_CLEAR: Final = re.compile(r"\d+\.parquet")


@dataclass(frozen=True)
class Shelf:
    """Everything that the settings say about where datasets are."""

    store: stores.Store
    work: Path  # for scratch files
    key_file: Path | None = None  # of master keys; None leaves datasets in the clear

    def place(self, name: str) -> "Place":
        return Place(self, name)

    def close(self) -> None:
        self.store.close()

    def look(self) -> None:
        """Refuse if the store does not answer. Nothing is written: who makes sums may only read."""
        try:
            if self.store.is_empty() and isinstance(self.store, stores.Folder):
                next(self.store.root.iterdir(), None)  # or it is empty because it is not there
        except OSError:
            raise errors.StorageFailed(
                "The store's folder is not there or cannot be read; check DISCRETION_STORE, its disk and whose it is."
            ) from None

    def master_keys(self) -> tuple[bytes, ...]:
        """Read anew each time: a key that was added is used by whoever runs."""
        return () if self.key_file is None else sealing.master_keys(self.key_file)


@dataclass(frozen=True)
class Place:
    """Of one dataset."""

    shelf: Shelf
    name: str


def opened(found: Settings) -> Shelf:
    """A setting that cannot be meant is refused here; whether the store answers is not asked."""
    shelf = Shelf(stores.opened(found), found.work, found.store_key_file)
    shelf.master_keys()
    return shelf


@dataclass(frozen=True)
class Manifest:
    units: int
    spans: list[Span]
    key: bytes | None = field(default=None, repr=False)  # the dataset's own; None if it lies in the clear
    master: str = ""  # the name of the key that wraps it

    def document(self, place: Place) -> tuple[str, bytes]:
        """As a file: its name and its content."""
        public = {"version": _CLEAR if self.key is None else _SEALED, "units": self.units, "spans": self.spans}
        if self.key is None:
            return MANIFEST, json.dumps(public).encode()
        masters = place.shelf.master_keys()
        if not masters:
            raise errors.InvalidSetting("DISCRETION_STORE_KEY_FILE is not set: there is no key to encrypt with.")
        return MANIFEST, json.dumps(public | sealing.wrap(masters[0], self.key, self._about(place))).encode()

    def block(self, place: Place, index: int, content: bytes | memoryview) -> tuple[str, bytes | memoryview]:
        """The same for one span's units."""
        if self.key is not None:
            content = sealing.seal(self.key, content, _about(place, index))
        return self._file(index), content

    def check_whole(self, place: Place) -> None:
        """Refuse if the store does not list every file; none is opened."""
        there = set(place.shelf.store.files(place.name, once=True))
        missing = [file for file in map(self._file, range(len(self.spans))) if file not in there]
        if missing:
            raise errors.NotStored(
                f"{len(missing)} of {len(self.spans)} files of the dataset are missing from the store, {missing[0]} "
                "first; restore them from a backup."
            )

    def read(self, place: Place, index: int) -> bytes:
        content = place.shelf.store.read(place.name, self._file(index))
        return content if self.key is None else sealing.unseal(self.key, content, _about(place, index))

    def _file(self, index: int) -> str:
        return f"{index:04}.parquet" if self.key is None else f"{index:04}.parquet.sealed"

    def _about(self, place: Place) -> list[Any]:
        return ["manifest", place.name, _SEALED, self.units, [list(span) for span in self.spans]]

    def opened(self, place: Place, wrapped: Any, masters: Sequence[bytes]) -> "Manifest":
        key = sealing.unwrap(masters, wrapped, self._about(place))
        return replace(self, key=key, master=str(wrapped["key"]))


def _about(place: Place, index: int) -> list[Any]:
    return ["block", place.name, index]


def manifest(place: Place, *, once: bool = False, clear: bool = False) -> Manifest:
    """`clear` if it may be one that is not encrypted although there is a master key."""
    content, masters = place.shelf.store.read(place.name, MANIFEST, once=once), place.shelf.master_keys()
    try:
        document = json.loads(content)
        version = document.get("version")
        if version not in (_CLEAR, _SEALED):
            raise errors.StorageFailed("The dataset was stored by another version of the service.")
        found = Manifest(int(document["units"]), [(int(start), int(end)) for start, end in document["spans"]])
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise errors.StorageFailed("What is stored about a dataset cannot be read; restore it.") from failure
    if version == _SEALED and not masters:
        raise errors.StorageFailed("The dataset is encrypted, and DISCRETION_STORE_KEY_FILE is not set.")
    if version == _SEALED:
        return found.opened(place, document, masters)
    if masters and not clear:
        raise errors.StorageFailed("The dataset is not encrypted, and must be: run `discretion store rotate`.")
    return found


def rotate(place: Place) -> bool:
    """Bring a dataset under the first master key; False if it is there already. Who reads it does not notice.

    What lies in the clear is encrypted: who reads it meanwhile, without a key, does not find its files again.
    """
    store, masters = place.shelf.store, place.shelf.master_keys()
    found = manifest(place, clear=True)
    made = found if found.key is not None else replace(found, key=sealing.new_key())
    if found.key is None:
        for index in range(len(found.spans)):
            store.replace(place.name, *made.block(place, index, found.read(place, index)))
    changed = not masters or made.master != sealing.name_of(masters[0])
    if changed:
        store.replace(place.name, *made.document(place))
    for file in filter(_IN_THE_CLEAR.fullmatch, store.files(place.name)):  # also of one that was interrupted here
        store.remove(place.name, file)
    return changed
