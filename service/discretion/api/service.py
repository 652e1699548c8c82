"""What every request shares: the settings, the database, the pace, and whether the ledger is intact."""

import asyncio
import contextlib
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from discretion import certificates, database, errors, ledger, signing
from discretion.settings import Settings

_DERIVATIONS: Final = 2  # at once: each holds a whole release in memory
_SOON: Final = 2.0  # seconds that a question about readiness waits for an answer


class Pace:
    """A bucket of a second's requests for each name, refilled at a steady rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, name: str) -> None:
        now = time.monotonic()
        if len(self._buckets) > 10_000:
            self._buckets.clear()  # everybody starts with a full bucket again
        left, since = self._buckets.get(name, (float(self._rate), now))
        left = min(self._rate, left + (now - since) * self._rate)
        # A refusal takes nothing, or whoever keeps asking too fast would be refused for ever.
        self._buckets[name] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise errors.TooManyRequests(1)


class Readiness:
    """Whether everything is as it must be.

    Strangers may ask as often as they like: one thread at a time adds the ledgers up, for at most a tenth of the time.
    Who asks while a long check is under way is told what the last one found.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._checking = threading.Lock()
        self._intact: bool | None = None
        self._until = 0.0

    def __call__(self) -> dict[str, bool]:
        found = {"database": self._answers(), "store": self._writes()}
        return found | {"ledger": found["database"] and self._adds_up()}

    def _answers(self) -> bool:
        try:
            database.check(self._service.engine)
        except (errors.Refusal, sa.exc.SQLAlchemyError):
            return False
        return True

    def _writes(self) -> bool:
        place = self._service.settings.datasets
        with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=place, prefix=".probe-") as file:
            file.write(b"\0")
            file.flush()
            return True
        return False

    def _adds_up(self) -> bool:
        if not self._checking.acquire(timeout=-1 if self._intact is None else _SOON):
            return bool(self._intact)
        try:
            began = time.monotonic()
            if self._intact is None or began >= self._until:
                self._intact = self._verified()
                self._until = time.monotonic() + 9 * (time.monotonic() - began)
            return self._intact and not self._service.damaged
        finally:
            self._checking.release()

    def _verified(self) -> bool:
        try:
            with self._service.reading() as connection:
                ledger.verify_all(connection)
        except errors.LedgerDamaged:
            self._service.damaged = True
        except sa.exc.SQLAlchemyError:
            return False
        return not self._service.damaged


class Service:
    def __init__(self, found: Settings, engine: sa.Engine) -> None:
        self.settings = found
        self.engine = engine
        self.pace = Pace(found.requests_per_second)
        self.damaged = False
        self._published: str | None = None
        self.answered: Counter[tuple[str, str]] = Counter()
        self.parsing = asyncio.Semaphore(1)
        self.deriving = threading.BoundedSemaphore(_DERIVATIONS)
        self.rehearsing = threading.BoundedSemaphore(1)
        self.readiness = Readiness(self)
        self.uploading: set[str] = set()  # datasets that this process is receiving

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with database.snapshot(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with database.transaction(self.engine) as connection:
            yield connection

    def signing_key(self) -> certificates.SigningKey:
        """Read anew each time, so that a rotated key signs at once; its public half is made known first."""
        key = signing.current(self.settings)
        if key.kid != self._published:
            with self.writing() as connection:
                signing.publish(connection, key, at=datetime.now(UTC))
            self._published = key.kid
        return key
