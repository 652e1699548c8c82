"""What every request shares: the settings, the database, the pace, and whether the ledger is intact."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa

from discretion import certificates, database, errors, signing
from discretion.settings import Settings


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


class Service:
    def __init__(self, found: Settings, engine: sa.Engine) -> None:
        self.settings = found
        self.engine = engine
        self.pace = Pace(found.requests_per_second)
        self.damaged = False
        self._published: str | None = None
        self.answered: Counter[tuple[str, int]] = Counter()
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
