"""Where datasets lie: a folder of this machine, or a bucket of an S3-compatible store, by one setting.

A dataset is some files under one name. They are written to a `Draft`, the manifest last, and appear together:

* in a folder by one rename. A draft's own folder is locked while its process lives, so that several services may share
  one store and `sweep` it.
* in a bucket each by itself, so there a dataset counts once its manifest is written, and is known once the database
  says so. Nothing can be locked. What a broken upload left is removed when nothing has been added to it for a while,
  by the store's own clock, and the upload's row in the database goes in the same transaction: whoever wakes up later
  than that finds the row gone and is refused.
"""

import contextlib
import glob
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from discretion import errors, scratch
from discretion.privacy import tokens
from discretion.settings import Settings

if TYPE_CHECKING:  # where there is no bucket, nobody waits for what speaks HTTP
    from discretion import s3

_log = logging.getLogger(__name__)

Content = bytes | memoryview
Broken = Callable[[], Collection[str]]  # names that an upload began and did not finish; some may be under way
End = Callable[[str, Callable[[], None]], None]  # forgets a broken upload and cleans up, both or neither

_INCOMING, _RETIRED = "incoming", "retired"
_PROBE: Final = ".probe-"
_THREADS: Final = 8  # that delete objects
_ROUNDS: Final = 3  # of deleting versions: one may fail, or two of a key at once keep each other from it
_GONE: Final = "There is no dataset that can be read here; it was retired or never stored."
_DELETED_IN_PART: Final = "The dataset could not be deleted whole; try again."
_FORM: Final = "DISCRETION_STORE must be file:///path or s3://bucket/prefix?endpoint=https://host:port&region=name"


class Draft(Protocol):
    def write(self, file: str, content: Content) -> None: ...
    def publish(self) -> None:
        """From here on it is there; the last that was written is its manifest."""


class Store(Protocol):
    def draft(self, name: str) -> AbstractContextManager[Draft]:
        """A dataset in the making; nothing stays of it unless it is published."""

    def read(self, name: str, file: str, *, once: bool = False) -> bytes:
        """A whole file; `once` by who would rather be refused soon than wait for a store that is away."""

    def replace(self, name: str, file: str, content: Content) -> None:
        """One file of a dataset that is there, by another or for the first time; it changes whole."""

    def files(self, name: str, *, once: bool = False) -> list[str]: ...
    def is_empty(self) -> bool: ...
    def remove(self, name: str, file: str) -> None: ...
    def delete(self, name: str) -> None:
        """Every file of it, and whatever an upload to it left behind; nothing happens if there is nothing."""

    def sweep(self, broken: Broken, end: End) -> None:
        """Remove what broken uploads left. What is under way stays, and so does what nobody has heard of: it may be
        another database's."""

    def probe(self) -> None:
        """Write a little, read it back and delete it, or refuse."""

    def keeps_what_is_deleted(self) -> bool:
        """Whether something stays of what this service deletes, because it may not delete that."""

    def close(self) -> None: ...


def opened(found: Settings) -> Store:
    """The store that the settings name. Nothing is asked of it yet."""
    if found.store is None:
        return Folder(found.datasets)
    address = urlsplit(found.store)
    if address.scheme == "file" and not address.netloc and address.path.startswith("/") and not address.query:
        return Folder(Path(unquote(address.path)))
    if address.scheme == "s3":
        from discretion import s3

        bucket, prefix = _bucket(found)
        return Bucket(s3.Bucket(bucket), prefix, timedelta(seconds=10 * found.stall_seconds))
    raise errors.InvalidSetting(f"{_FORM}.")


def _bucket(found: Settings) -> tuple["s3.Address", str]:
    address = urlsplit(found.store or "")
    asked = parse_qsl(address.query, keep_blank_values=True)
    named = dict(asked)
    twice = len(named) < len(asked)
    endpoint = urlsplit(named.pop("endpoint", ""))
    region = named.pop("region", "us-east-1")
    try:
        there = endpoint.scheme in ("http", "https") and endpoint.hostname and (endpoint.port is None or endpoint.port)
    except ValueError:  # the port is no number
        there = False
    if named or twice or not there or endpoint.path.strip("/") or endpoint.query or "@" in endpoint.netloc:
        raise errors.InvalidSetting(f"{_FORM}; the endpoint is a scheme, a host and a port.")
    prefix = address.path.strip("/")
    sound = re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", address.netloc) and re.fullmatch(r"[a-z0-9-]+", region)
    if not sound or not re.fullmatch(r"([A-Za-z0-9_-][A-Za-z0-9._-]*(/|$))*", prefix):
        raise errors.InvalidSetting(f"{_FORM}; names hold letters, digits, dots and hyphens.")
    if not found.s3_access_key or not found.s3_secret_key:
        raise errors.InvalidSetting(
            "DISCRETION_STORE names a bucket, so DISCRETION_S3_ACCESS_KEY and DISCRETION_S3_SECRET_KEY must be set."
        )
    where = f"{endpoint.scheme}://{endpoint.netloc}"
    keys = (found.s3_access_key, found.s3_secret_key)
    if any(not key.isascii() or not key.isprintable() or " " in key for key in keys):
        raise errors.InvalidSetting("DISCRETION_S3_ACCESS_KEY and DISCRETION_S3_SECRET_KEY must be printable ASCII.")
    from discretion import s3

    return s3.Address(where, address.netloc, region, *keys, found.s3_ca_file), f"{prefix}/" if prefix else ""


# --- a folder ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    root: Path

    @contextmanager
    def draft(self, name: str) -> Iterator[Draft]:
        place, lock = None, -1
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = self._temporary(name, _INCOMING)
            lock = scratch.hold(place)
            yield _FolderDraft(place / "data", self.root / name)
        finally:
            try:
                if place is not None:
                    shutil.rmtree(place, ignore_errors=True)
            finally:
                if lock >= 0:
                    os.close(lock)

    def read(self, name: str, file: str, *, once: bool = False) -> bytes:
        try:
            return (self.root / name / file).read_bytes()
        except OSError as failure:
            raise errors.NotStored(_GONE) from failure

    def replace(self, name: str, file: str, content: Content) -> None:
        path = self.root / name / file
        beside = path.with_name(f".{file}.{os.getpid()}")
        try:
            _write(beside, content)
            os.replace(beside, path)
            _sync(path.parent)
        except OSError as failure:
            beside.unlink(missing_ok=True)
            raise errors.StorageFailed("A file of a dataset could not be written.") from failure

    def files(self, name: str, *, once: bool = False) -> list[str]:
        try:
            return sorted(path.name for path in (self.root / name).iterdir())
        except OSError as failure:
            raise errors.NotStored(_GONE) from failure

    def is_empty(self) -> bool:
        return not (self.root.is_dir() and any(self.root.iterdir()))

    def remove(self, name: str, file: str) -> None:
        (self.root / name / file).unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        if not self.root.is_dir():
            return
        folder = self.root / name
        try:
            if folder.exists():
                # One rename takes it out of sight whole; deleting takes a while and may be interrupted.
                os.rename(folder, self._temporary(name, _RETIRED) / "data")
            self._remove(glob.escape(name))
        except OSError as failure:
            raise errors.StorageFailed(_DELETED_IN_PART) from failure

    def sweep(self, broken: Broken, end: End) -> None:
        """Which uploads broke off is asked last: a folder that lay there with nobody at work on it has been made known
        by then, or never will be."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = [path.name for path in self.root.iterdir() if path.is_dir() and not path.name.startswith(".")]
        self._remove("*", held=False)
        orphans = {name for name in whole if not list(self.root.glob(f".{glob.escape(name)}.{_INCOMING}-*"))}
        for orphan in orphans & set(broken()):
            end(orphan, lambda name=orphan: shutil.rmtree(self.root / name))  # type: ignore[misc]

    def probe(self) -> None:
        try:  # a folder that is gone is not made anew here: it may be a disk that is
            with tempfile.NamedTemporaryFile(dir=self.root, prefix=_PROBE) as file:
                file.write(b"\0")
                file.flush()
                if Path(file.name).read_bytes() != b"\0":
                    raise OSError
        except OSError as failure:
            raise errors.StorageFailed(
                "The store's folder cannot be written; check whose it is and its disk."
            ) from failure

    def keeps_what_is_deleted(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def _temporary(self, name: str, purpose: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f".{name}.{purpose}-", dir=self.root))

    def _remove(self, pattern: str, *, held: bool = True) -> None:
        for purpose in (_INCOMING, _RETIRED):
            for leftover in self.root.glob(f".{pattern}.{purpose}-*"):
                if held or not scratch.is_held(leftover):
                    shutil.rmtree(leftover)
        _sync(self.root)


@dataclass(frozen=True)
class _FolderDraft:
    data: Path
    place: Path

    def write(self, file: str, content: Content) -> None:
        self.data.mkdir(mode=0o700, exist_ok=True)
        _write(self.data / file, content)

    def publish(self) -> None:
        _sync(self.data)
        os.rename(self.data, self.place)
        try:
            _sync(self.place.parent)
        except OSError:
            shutil.rmtree(self.place)
            raise


def _write(path: Path, content: Content) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- a bucket ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bucket:
    bucket: "s3.Bucket"
    prefix: str
    stale: timedelta  # nothing was added to what an upload has written for so long: it broke off

    @contextmanager
    def draft(self, name: str) -> Iterator[Draft]:
        if self._objects(name):
            raise errors.StorageFailed("There is something in the place of a dataset that is being stored.")
        draft = _BucketDraft(self, name)
        try:
            yield draft
        finally:
            if draft.written and not draft.published:
                self.delete(name)

    def read(self, name: str, file: str, *, once: bool = False) -> bytes:
        return self.bucket.get(self._key(name, file), once=once)

    def replace(self, name: str, file: str, content: Content) -> None:
        self.bucket.put(self._key(name, file), bytes(content))

    def files(self, name: str, *, once: bool = False) -> list[str]:
        within = self._key(name, "")
        return sorted(found.key.removeprefix(within) for found in self.bucket.list(within, once=once))

    def is_empty(self) -> bool:
        return next(iter(self.bucket.list(self.prefix)), None) is None

    def remove(self, name: str, file: str) -> None:
        key = self._key(name, file)
        self._delete_versions(key, lambda found: found == key)
        self.bucket.delete(key)

    def delete(self, name: str) -> None:
        """It is gone when the store lists nothing any more: an answer to a deletion alone does not say so.

        Version by version first, which in a bucket that keeps none is the same; then whatever is left. Versions that
        these credentials may not delete stay, hidden, until the store's own rules take them.
        """
        try:
            kept = self._delete_versions(self._key(name, ""), lambda found: True)
            with ThreadPoolExecutor(_THREADS) as pool:
                for key in [found.key for found in self._objects(name)]:
                    pool.submit(self.bucket.delete, key)
            left = self._objects(name)
        except errors.StoreUnavailable as failure:
            raise errors.StorageFailed(f"{_DELETED_IN_PART} {failure}") from failure
        if left:
            raise errors.StorageFailed(_DELETED_IN_PART)
        if kept:
            _log.warning("The bucket keeps older versions of what was deleted; `discretion doctor` says what to do.")

    def _delete_versions(self, prefix: str, wanted: Callable[[str], bool]) -> bool:
        """Of the keys that are wanted; whether some stay that the store lists and does not delete for this service."""

        def left() -> list["s3.Version"]:
            with contextlib.suppress(errors.StoreRefuses):  # it has none, or does not say
                return [found for found in self.bucket.versions(prefix) if wanted(found.key)]
            return []

        for _ in range(_ROUNDS):
            versions = left()
            if not versions:
                return False
            with ThreadPoolExecutor(_THREADS) as pool:
                for found in versions:
                    pool.submit(self.bucket.delete, found.key, found.id)
        return bool(left())

    def sweep(self, broken: Broken, end: End) -> None:
        now = None
        for name in sorted(broken()):
            objects = self._objects(name)
            if not objects:
                continue
            now = now or self._now()
            if max(found.modified for found in objects) <= now - self.stale:
                end(name, lambda name=name: self.delete(name))  # type: ignore[misc]
        for probe in list(self.bucket.list(self.prefix + _PROBE)):
            if probe.modified <= (now := now or self._now()) - self.stale:
                self.bucket.delete(probe.key)

    def probe(self) -> None:
        key, content = self.prefix + tokens.identifier(_PROBE), b"\0"
        version = self.bucket.put(key, content, once=True)
        with contextlib.ExitStack() as after:
            after.callback(self._delete_probe, key, version)
            if self.bucket.get(key, once=True) != content:
                raise errors.StorageFailed("The store does not give back what was put there.")

    def keeps_what_is_deleted(self) -> bool:
        key = self.prefix + tokens.identifier(_PROBE)
        version = self.bucket.put(key, b"\0")
        self._delete_probe(key, version)
        try:
            return version is not None and any(self.bucket.versions(key))
        except errors.StoreRefuses:  # then nobody can say which versions a dataset has
            return True

    def _delete_probe(self, key: str, version: str | None) -> None:
        """Or a bucket that keeps versions would soon be full of them."""
        if version is not None:
            with contextlib.suppress(errors.StoreRefuses):
                self.bucket.delete(key, version, once=True)
                return
        self.bucket.delete(key, once=True)

    def close(self) -> None:
        self.bucket.close()

    def _now(self) -> datetime:
        """The store's own time, which this machine's clock need not agree with."""
        key = self.prefix + tokens.identifier(_PROBE)
        version = self.bucket.put(key, b"\0")
        try:
            return next(self.bucket.list(key)).modified
        except StopIteration:
            raise errors.StorageFailed("The store does not list what was put there.") from None
        finally:
            self._delete_probe(key, version)

    def _key(self, name: str, file: str) -> str:
        return f"{self.prefix}{name}/{file}"

    def _objects(self, name: str) -> list["s3.Object"]:
        return list(self.bucket.list(self._key(name, "")))


@dataclass
class _BucketDraft:
    store: Bucket
    name: str
    written: bool = False
    published: bool = field(default=False)

    def write(self, file: str, content: Content) -> None:
        self.written = True  # also if it fails: then nobody knows
        self.store.replace(self.name, file, content)

    def publish(self) -> None:
        self.published = True
