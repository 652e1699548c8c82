"""The product's own commands with a clock that can be put forward and back while they run.

    python -m tests.jumping serve            the API
    python -m tests.jumping work             a worker

The file that JUMP names holds the seconds by which the clock is wrong just now. Rooms ask `datetime.now` what time it
is, and a database by `database.clock`: both are answered from here. How long something takes is asked of another clock
(`time.monotonic`), which nobody can put forward or back.
"""

import os
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import sqlalchemy as sa

from discretion import cli, database
from discretion.api import app, waiting
from discretion.commands import operations

_LOADED = (app, waiting, operations)  # and with them every room that a command would load later


def ahead() -> timedelta:
    return timedelta(seconds=float(Path(os.environ["JUMP"]).read_text()))


class Clock(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + ahead()


def _put_right_nowhere() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("discretion.") and vars(module).get("datetime") is datetime:
            vars(module)["datetime"] = Clock
    asked = database.clock

    def clock(connection: sa.Connection) -> datetime:
        """An embedded database's is this machine's, and wrong already."""
        return asked(connection) + (ahead() if connection.dialect.name == "postgresql" else timedelta())

    database.clock = clock


if __name__ == "__main__":
    _put_right_nowhere()
    cli.app(prog_name="discretion")
