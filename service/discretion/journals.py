"""What a run is told, written down so that it is never told anything else: in the database, and outside of it.

The database has the intent before a draw and the values right after it (`runs`). Where somebody puts the database back,
the folder of the ledgers' heads still has a mark of each number that was drawn (`heads`), and it is not drawn again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from discretion import database, heads, runs
from discretion.learning.schemas import IntArray
from discretion.privacy import events
from discretion.runs import Claim


@dataclass(frozen=True)
class Journal:
    """What the curator is asked and answers, each in a transaction of its own."""

    engine: sa.Engine
    held: Claim
    outside: Path  # DISCRETION_HEADS
    pause: Callable[[], None]  # raises between two draws if the run is to stop there

    def recall(self, first: int, asked: Sequence[events.Event]) -> list[IntArray] | None:
        with database.snapshot(self.engine) as connection:
            return runs.recall(connection, self.held.training, first, asked)

    def intend(self, first: int, asked: Sequence[events.Event]) -> None:
        """A folder that is away is found out before the intent, which would end the training if it stayed alone."""
        self.pause()
        heads.check(self.outside)
        with database.transaction(self.engine) as connection:
            runs.intend(connection, self.held, first, asked)
        heads.mark(self.outside, self.held.training, range(first, first + len(asked)))

    def record(self, first: int, values: Sequence[IntArray]) -> None:
        with database.transaction(self.engine) as connection:
            runs.record(connection, self.held, first, values)
