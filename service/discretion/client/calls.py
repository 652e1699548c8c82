"""Requests over HTTP, with patience: what may be sent again is sent again, and what may not never is.

A request may be repeated if it only reads, or if an `Idempotency-Key` says that it is the same one. Any other is sent
again only if it cannot have been carried out: nobody answered the door, or the answer was "too many requests".
"""

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import httpx

Document = dict[str, Any]

_SECONDS: Final = 60.0  # without a word; a stream of events says one at least every fifteen
_SHORTEST: Final = 0.25  # seconds between two attempts at first
_LONGEST: Final = 8.0  # and at last, unless the service names another time
_AWAY: Final = (502, 503, 504)  # said by the service, or by a proxy in front of it
_AFTER: Final = re.compile("[0-9]{1,9}")  # seconds; a date is not what this service says
_PASSING: Final = ("database_unavailable", "unknown")  # codes of these that may be gone in a moment


class Refused(Exception):
    """The service would not do it: the HTTP status, the stable code, the sentence, and all else it said."""

    def __init__(self, status: int, code: str, detail: str, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail, self.problem = status, code, detail, problem

    @property
    def passing(self) -> bool:
        """Whether the same request, sent later, may be granted."""
        return self.status == 429 or (self.status in _AWAY and self.code in _PASSING)

    def under(self, own: Mapping[str, Any]) -> "Refused":
        """The same with the table's own names, as `own`, beside those of the upload's columns."""
        told = [each | {"own": own.get(str(each.get("column")))} for each in self.said]
        return Refused(self.status, self.code, self.detail, {**self.problem, "problems": told}) if told else self

    @property
    def said(self) -> list[dict[str, Any]]:
        """The problems of an upload, each with its row, column and reason."""
        problems = self.problem.get("problems")
        return [each for each in problems if isinstance(each, dict)] if isinstance(problems, list) else []

    def __str__(self) -> str:
        # A mistake is mostly the same one in every row: it is said once.
        alike: dict[tuple[str, str], list[Any]] = {}
        for each in self.said:
            alike.setdefault((_named(each), str(each.get("reason"))), []).append(each.get("row"))
        lines = [f"  {_place(rows, column)}: {reason}" for (column, reason), rows in alike.items()]
        return "\n".join([super().__str__(), *lines])


def _named(problem: Mapping[str, Any]) -> str:
    column, own = problem.get("column") or "", problem.get("own") or ""
    name = ", ".join(map(str, own)) if isinstance(own, tuple | list) else own
    return f"{name} ({column})" if name and name != column else str(column)


def _place(rows: list[Any], column: str) -> str:
    numbered = ", ".join(str(row) for row in rows if row)
    place = f"{'row' if len(rows) == 1 else 'rows'} {numbered}" if numbered else "header"
    return f"{place}, column {column}" if column else place


class Calls:
    """One address and one token; `options` go to httpx."""

    def __init__(self, base_url: str, token: str | None, patience: float, options: Mapping[str, Any]) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=base_url, headers=headers, **({"timeout": _SECONDS} | dict(options)))
        self.patience = patience

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._ask("GET", path, True, params=query)

    def read(self, path: str) -> Document:
        return document(self.get(path))

    def patch(self, path: str, body: object) -> Document:
        return document(self._ask("PATCH", path, False, json=body))

    def delete(self, path: str) -> Document:
        return document(self._ask("DELETE", path, False))

    def post(self, path: str, body: object, *, key: str | None = None, reads: bool = False) -> Document:
        """`key` names the request, `reads` says that it changes nothing: either way it may be repeated."""
        headers = {} if key is None else {"Idempotency-Key": key}
        repeatable = reads or key is not None
        return document(self._ask("POST", path, repeatable, json=body, headers=headers))

    def put(self, path: str, chunks: Iterable[bytes], media_type: str | None) -> Document:
        """Sent once: what an iterator has given it cannot give again.

        The first chunk is made before a request is: what is wrong with it never reaches the service.
        """
        remaining = iter(chunks)
        content = itertools.chain(list(itertools.islice(remaining, 1)), remaining)
        headers = {} if media_type is None else {"Content-Type": media_type}
        waiting = httpx.Timeout(_SECONDS, read=None)  # the last row may be checked long after it was sent
        return document(checked(self.http.put(path, content=content, headers=headers, timeout=waiting)))

    def pages(self, path: str, items: str = "items") -> Iterator[Document]:
        page = document(self.get(path), items, "next")
        yield from page[items]
        while page["next"] is not None:
            page = document(self.get(path, after=page["next"]), items, "next")
            yield from page[items]

    def _ask(self, method: str, path: str, repeatable: bool, **request: Any) -> httpx.Response:
        end, pause = time.monotonic() + self.patience, _SHORTEST
        while True:
            try:
                return checked(self.http.request(method, path, **request))
            except httpx.TransportError as broken:
                # An address that is none, or a proxy that is not allowed, will not be better later.
                lasting = isinstance(broken, httpx.UnsupportedProtocol | httpx.ProxyError)
                again = (repeatable or isinstance(broken, httpx.ConnectError)) and not lasting
                if not again or time.monotonic() + pause > end:
                    raise
                wait = pause
            except Refused as refused:
                wait = max(refused.problem.get("retry_after", pause), _SHORTEST)
                again = refused.passing and (repeatable or refused.status == 429)
                if not again or time.monotonic() + wait > end:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST)


def checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    if not answer.is_error:
        raise _foreign(answer)
    try:
        problem = answer.json()
        said = problem["code"], problem["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):  # not this service: a proxy, perhaps
        problem, said = {}, ("unknown", answer.reason_phrase)
    problem.pop("retry_after", None)  # the header's alone is believed
    after = _AFTER.fullmatch(answer.headers.get("Retry-After", ""))
    raise Refused(answer.status_code, *said, problem | ({"retry_after": int(after[0])} if after else {}))


def document(answer: httpx.Response, *names: str) -> Document:
    """What an answer says, if it has what every answer of its kind has."""
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(name in found for name in names):
        raise _foreign(answer)
    return found


def _foreign(answer: httpx.Response) -> Refused:
    detail = "This is no answer of the service; check the address, and whether it is http:// or https://."
    return Refused(answer.status_code, "unknown", detail, {})
