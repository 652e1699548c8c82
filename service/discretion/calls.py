"""Requests over HTTP, with patience: what may be sent again is sent again, and what may not never is.

A request may be repeated if it only reads, or if an `Idempotency-Key` says that it is the same one. Any other is sent
again only if it cannot have been carried out: nobody answered the door, or the answer was "too many requests".
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx

Document = dict[str, Any]

_SECONDS: Final = 60.0  # without a word; a stream of events says one at least every fifteen
_LONGEST: Final = 8.0  # seconds between two attempts, unless the service names another time
_PASSING: Final = ("database_unavailable", "unknown")  # codes of a 503 that may be gone in a moment


class Refused(Exception):
    """The service would not do it: the HTTP status, the stable code, the sentence, and all else it said."""

    def __init__(self, status: int, code: str, detail: str, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail, self.problem = status, code, detail, problem

    def __str__(self) -> str:
        problems = self.problem.get("problems") or ()
        return "\n".join([super().__str__(), *(f"  {_place(problem)}: {problem['reason']}" for problem in problems)])


def _place(problem: Mapping[str, Any]) -> str:
    row = f"row {problem['row']}" if problem["row"] else "header"
    return f"{row}, column {problem['column']}" if problem["column"] else row


class Calls:
    """One address and one token; `options` go to httpx."""

    def __init__(self, base_url: str, token: str | None, patience: float, options: Mapping[str, Any]) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=base_url, headers=headers, **({"timeout": _SECONDS} | dict(options)))
        self.patience = patience

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._ask("GET", path, True, params=query)

    def delete(self, path: str) -> Document:
        found: Document = self._ask("DELETE", path, False).json()
        return found

    def post(self, path: str, body: object, *, key: str | None = None, reads: bool = False) -> Document:
        """`key` names the request, `reads` says that it changes nothing: either way it may be repeated."""
        headers = {} if key is None else {"Idempotency-Key": key}
        repeatable = reads or key is not None
        found: Document = self._ask("POST", path, repeatable, json=body, headers=headers).json()
        return found

    def put(self, path: str, content: Iterator[bytes], media_type: str | None) -> Document:
        """Sent once: what an iterator has given it cannot give again."""
        headers = {} if media_type is None else {"Content-Type": media_type}
        waiting = httpx.Timeout(_SECONDS, read=None)  # the last row may be checked long after it was sent
        found: Document = checked(self.http.put(path, content=content, headers=headers, timeout=waiting)).json()
        return found

    def pages(self, path: str, items: str = "items") -> Iterator[Document]:
        page = self.get(path).json()
        yield from page[items]
        while page["next"] is not None:
            page = self.get(path, after=page["next"]).json()
            yield from page[items]

    def _ask(self, method: str, path: str, repeatable: bool, **request: Any) -> httpx.Response:
        end, pause = time.monotonic() + self.patience, 0.25
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
                passing = refused.status == 503 and refused.code in _PASSING and repeatable
                wait = refused.problem.get("retry_after", pause)
                if not (passing or refused.status == 429) or time.monotonic() + wait > end:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST)


def checked(answer: httpx.Response) -> httpx.Response:
    if not answer.is_error:
        return answer
    try:
        problem = answer.json()
        said = problem["code"], problem["detail"]
    except (ValueError, KeyError, TypeError):  # not this service: a proxy, perhaps
        problem, said = {}, ("unknown", answer.reason_phrase)
    after = answer.headers.get("Retry-After", "")
    raise Refused(answer.status_code, *said, problem | ({"retry_after": int(after)} if after.isdecimal() else {}))
