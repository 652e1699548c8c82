"""What every request shares: the settings, the database, the pace, and whether the ledger is intact."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from discretion import (
    audit,
    catalogue,
    certificates,
    database,
    datasets,
    errors,
    heads,
    ledger,
    memory,
    shelves,
    signing,
)
from discretion.oidc import Oidc
from discretion.settings import Settings

if TYPE_CHECKING:  # where there is none, nobody waits for what speaks HTTP
    from discretion.provider import Provider

_log = logging.getLogger(__name__)

_DERIVATIONS: Final = 2  # at once: each takes a processor, and holds a whole release in memory
_SOON_DERIVED: Final = 5  # seconds after which one that found no place may be asked for again
BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 2.5)  # seconds that an answer took, coarse on purpose
_SOON: Final = 2.0  # seconds that a question about readiness waits for an answer
_LONGEST: Final = 10.0  # seconds that an answer about the store is believed


class Pace:
    """A bucket of a second's requests for each name, refilled at a steady rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, name: str) -> None:
        now = time.monotonic()
        if len(self._buckets) > 10_000:
            # Whoever paused for a second has a full bucket again, and need not be remembered; whoever did not must be,
            # or a crowd of names would set everybody free.
            self._buckets = {name: held for name, held in list(self._buckets.items()) if now - held[1] < 1}
        left, since = self._buckets.get(name, (float(self._rate), now))
        left = min(self._rate, left + (now - since) * self._rate)
        # A refusal takes nothing, or whoever keeps asking too fast would be refused for ever.
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise errors.TooManyRequests(1)


class _Check:
    """A question that strangers may ask as often as they like: one thread at a time finds the answer, for at most a
    tenth of the time. Who asks while that takes long is told what was found last."""

    def __init__(self, find: Callable[[], bool], longest: float = float("inf")) -> None:
        self._find, self._longest = find, longest
        self._checking = threading.Lock()
        self._found: bool | None = None
        self._until = 0.0

    def __call__(self) -> bool:
        if not self._checking.acquire(timeout=-1 if self._found is None else _SOON):
            return bool(self._found)
        try:
            began = time.monotonic()
            if self._found is None or began >= self._until:
                self._found = self._find()
                ended = time.monotonic()
                self._until = ended + min(9 * (ended - began), self._longest)
            return self._found
        finally:
            self._checking.release()


class Readiness:
    """Whether everything is as it must be."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._adds_up = _Check(self._verified)
        self._keeps = _Check(self._writes, _LONGEST)
        self._trouble = ""

    def __call__(self) -> dict[str, bool]:
        found = {"database": self._answers(), "store": self._keeps()}
        return found | {"ledger": found["database"] and self._adds_up() and not self._service.damaged}

    def _answers(self) -> bool:
        try:
            database.check(self._service.engine)
        except (errors.Refusal, sa.exc.SQLAlchemyError):
            return False
        return True

    def _writes(self) -> bool:
        trouble = ""
        try:
            self._service.shelf.master_keys()
            self._service.shelf.store.probe()
        except (errors.StorageFailed, errors.InvalidSetting) as failure:
            trouble = str(failure)
        if trouble != self._trouble:  # once, not each time that somebody asks
            _log.error("%s", trouble) if trouble else _log.info("The store can be written again.")
            self._trouble = trouble
        return not trouble

    def _verified(self) -> bool:
        try:
            with self._service.reading() as connection:
                ledger.verify_all(connection)
        except errors.LedgerDamaged:
            self._service.damaged = True
        except sa.exc.SQLAlchemyError:
            return False
        return not self._service.damaged


class Measured:
    """What this process has answered, for Prometheus."""

    def __init__(self) -> None:
        self.responses: Counter[tuple[str, str]] = Counter()  # by route and status
        self.seconds: dict[str, list[int]] = {}  # by route: how many took no longer than each of BOUNDS, and all
        self.sums: Counter[str] = Counter()  # by route, in microseconds
        self.uploads = 0

    def answered(self, method: str, route: str, status: str, seconds: float) -> None:
        self.responses[(route, status)] += 1
        if method != "GET" or route == "other":  # what changes or computes something may touch patients' files
            return
        counts = self.seconds.setdefault(route, [0] * (len(BOUNDS) + 1))
        for index, bound in enumerate(BOUNDS):
            counts[index] += seconds <= bound
        counts[-1] += 1
        self.sums[route] += round(seconds * 1e6)


class Derivations:
    """As many at once as fit into memory together, by what each needs at most, and no more than two: others are told to
    come again, for a thread that waits would be missing elsewhere."""

    def __init__(self, most: int) -> None:
        self._places, self._left = _DERIVATIONS, most
        self._counting = threading.Lock()

    def one(self, wanted: int) -> AbstractContextManager[None]:
        return self._taken(1, wanted)

    def beside(self, wanted: int) -> AbstractContextManager[None]:
        """Memory alone, of a process that has a place elsewhere."""
        return self._taken(0, wanted)

    @contextmanager
    def _taken(self, places: int, wanted: int) -> Iterator[None]:
        self._take(places, wanted)
        try:
            yield
        finally:
            self._take(-places, -wanted)

    def _take(self, places: int, wanted: int) -> None:
        with self._counting:
            if places > self._places or wanted > self._left:
                raise errors.TooManyRequests(_SOON_DERIVED)
            self._places, self._left = self._places - places, self._left - wanted


def _asked(found: Oidc) -> "Provider":
    from discretion.provider import Provider

    return Provider(found)


class Service:
    def __init__(self, found: Settings, engine: sa.Engine) -> None:
        self.settings = found
        self.shelf = shelves.opened(found)
        self.engine = engine
        self.pace = Pace(found.requests_per_second)
        self.provider = None if found.provider is None else _asked(found.provider)
        self.damaged = False
        self._published: str | None = None
        self.measured = Measured()
        self.parsing = asyncio.Semaphore(1)
        self.deriving = Derivations(memory.deriving_limit(found))
        self.rehearsing = threading.BoundedSemaphore(1)
        self.readiness = Readiness(self)
        self.uploading: set[str] = set()  # datasets that this process is receiving

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with database.snapshot(self.engine) as connection:
            yield connection

    @contextmanager
    def glancing(self) -> Iterator[sa.Connection]:
        """For a single question."""
        with database.glance(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with database.transaction(self.engine) as connection:
            yield connection

    def sweep(self) -> None:
        """Remove what broken uploads left; a store that is away is left for another time."""
        try:
            datasets.sweep(self.shelf, self._broken_uploads, self._end_upload)
        except (errors.StorageFailed, errors.InvalidSetting, OSError, sa.exc.SQLAlchemyError) as failure:
            said = failure if isinstance(failure, errors.Refusal) else type(failure).__name__
            _log.warning("What broken uploads left could not be removed: %s", said)

    def _broken_uploads(self) -> list[str]:
        with self.reading() as connection:
            return catalogue.broken_uploads(connection)

    def _end_upload(self, folder: str, clean_up: Callable[[], None]) -> None:
        """In one transaction: should the upload wake up after all, it waits for this and then finds that it ended."""
        with self.writing() as connection:
            if catalogue.end_upload(connection, folder):
                clean_up()

    def export_missing_heads(self) -> None:
        """Of populations that were opened while the folder was away, or by a program that put away no head then."""
        try:
            with self.reading() as connection:
                unknown = heads.missing(connection, self.settings.heads)
        except OSError as trouble:
            _log.error("DISCRETION_HEADS cannot be read: %s.", trouble.strerror)
            return
        for population in unknown:
            self.export_head(population)

    def export_head(self, population: str) -> None:
        """A population that was opened, or a budget that was lowered, must not be forgotten by a restore; where this
        fails, the next charge or the next start does it."""
        try:
            with self.reading() as connection:
                heads.export(connection, self.settings.heads, population, self.signing_key(), at=datetime.now(UTC))
        except errors.Refusal as refusal:
            _log.error("%s", refusal)

    def signing_key(self) -> certificates.SigningKey:
        """Read anew each time, so that a rotated key signs at once; its public half is made known first."""
        key = signing.current(self.settings)
        if key.kid != self._published:
            with self.writing() as connection:
                if signing.publish(connection, key, at=datetime.now(UTC)):
                    audit.published(connection, key.kid)
            self._published = key.kid
        return key
