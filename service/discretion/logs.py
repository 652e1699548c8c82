"""What is written to standard error: one line for each event, with ids and verbs, never a value.

Lines for people, or (`DISCRETION_LOG_FORMAT=json`) one JSON object each: `time`, `level`, `logger`, `event` and, where
they are known, `request`, `key`, `method`, `route` and `status`. Of an exception only its kind is written, whoever
logs it: its text may quote what a patient's row said.
"""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

FIELDS: Final = ("request", "key", "method", "route", "status")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


def configure(form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for library in ("alembic", "httpx"):  # which tells of every step, and of every request
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.captureWarnings(True)  # a library's may quote what it was given: only that there was one is written


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    known = {name: getattr(record, name) for name in FIELDS if getattr(record, name, None) is not None}
    return ({"request": request_id.get()} if request_id.get() is not None else {}) | known


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _event(record: logging.LogRecord) -> str:
    if record.name == "py.warnings":
        return "A library has warned."
    kind = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
    said = record.msg if kind is not None else record.getMessage()
    return str(said) if kind is None else f"{record.name} failed: {kind.__name__}."


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname, "logger": record.name, "event": _event(record)}
        return json.dumps(line | _fields(record))


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        # One line, whatever it says.
        event = _event(record).replace("\r", " ").replace("\n", " ")
        return f"{_time(record)} {record.levelname} {record.name}: {event}{fields}"
