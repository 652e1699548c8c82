"""The identity provider's public keys: read when they are needed, kept while it is away, for a while.

The provider is asked by one thread at a time and at most once in five seconds, whatever strangers send. Its keys are
read anew every five minutes, so that one that it withdrew is soon refused, and at once for a key that is not known yet.
While it does not answer, the keys that it gave last go on for an hour. Only the issuer's own host is asked; no redirect
is followed, no proxy or other setting of the environment is used, and what it says is bounded in size and time.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from discretion import bearer, errors, signatures
from discretion.oidc import Oidc
from discretion.signatures import Document

_log = logging.getLogger(__name__)

PAUSE: Final = 5.0  # seconds from one attempt to the next
FRESH: Final = 300.0  # seconds until keys are read again
STALE: Final = 3600.0  # seconds until keys that could not be read again are forgotten
_TIMEOUT: Final = 3.0  # seconds to connect, and for each piece
_DEADLINE: Final = 8.0  # seconds for both documents
_WAITING: Final = 8  # requests that wait for an answer; more would keep others from their work
_LARGEST: Final = 2**19  # bytes of a document
_MOST: Final = 100  # keys
_WHERE: Final = "/.well-known/openid-configuration"


class Unusable(Exception):
    """An answer that is none."""


@dataclass(frozen=True)
class _Known:
    keys: dict[tuple[str, str], bearer.PublicKey]  # by name and algorithm
    since: float


class Provider:
    def __init__(self, found: Oidc, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = found
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._known: _Known | None = None
        self._reading: threading.Event | None = None
        self._tried: float | None = None
        self._trouble = ""

    def key(self, kid: str, algorithm: str) -> bearer.PublicKey:
        """The key of this name, for this algorithm and no other."""
        wanted, known = (kid, algorithm), self._usable()
        if known is None or wanted not in known.keys:
            self._wait_for(self._ask())
            known = self._usable()
        elif self._clock() - known.since > FRESH:
            self._ask()
        if known is None or (wanted not in known.keys and not self._is_sure()):
            raise errors.ProviderUnavailable(int(PAUSE))
        if wanted not in known.keys:
            raise errors.Unauthenticated("This token is not the identity provider's; sign in there for another one.")
        return known.keys[wanted]

    def _is_sure(self) -> bool:
        """What is not known is not there; else it may be a key that the provider would name if it answered."""
        return self._reading is None and not self._trouble

    def _usable(self) -> _Known | None:
        known = self._known
        return known if known is not None and self._clock() - known.since <= STALE else None

    def _ask(self) -> threading.Event | None:
        """What is set when the keys have been read; None if they were asked for a moment ago."""
        with self._lock:
            now = self._clock()
            late = self._tried is None or now - self._tried >= (PAUSE if self._reading is None else 2 * _DEADLINE)
            if late:
                self._tried, self._reading = now, threading.Event()
                threading.Thread(
                    target=self._read, args=(self._reading,), name="identity provider", daemon=True
                ).start()
            return self._reading

    def _wait_for(self, reading: threading.Event | None) -> None:
        if reading is None or not self._waiting.acquire(blocking=False):
            return
        try:
            reading.wait(_DEADLINE)
        finally:
            self._waiting.release()

    def _read(self, reading: threading.Event) -> None:
        known, trouble = None, ""
        try:
            known = _Known(fetch(self.settings), self._clock())
        except Unusable as unusable:
            trouble = str(unusable)
        except Exception as failure:
            trouble = f"{type(failure).__name__}"
        with self._lock:
            if self._reading is reading:  # else it took so long that another was begun
                self._known, self._reading = known or self._known, None
                self._tell(trouble)
        reading.set()

    def _tell(self, trouble: str) -> None:
        """Once for each change, however often it is tried."""
        if trouble and trouble != self._trouble:
            _log.error("The identity provider cannot be asked for its keys: %s.", trouble)
        elif self._trouble and not trouble:
            _log.info("The identity provider answers again.")
        self._trouble = trouble


def fetch(found: Oidc) -> dict[tuple[str, str], bearer.PublicKey]:
    """The provider's keys, by their names and the algorithms that they are for."""
    end = time.monotonic() + _DEADLINE
    with httpx.Client(verify=found.tls(), trust_env=False, follow_redirects=False, timeout=_TIMEOUT) as client:
        about = _get(client, found.issuer.rstrip("/") + _WHERE, end)
        if about.get("issuer") != found.issuer:
            raise Unusable("it calls itself by another name than DISCRETION_OIDC_ISSUER")
        address = about.get("jwks_uri")
        if not isinstance(address, str) or not found.is_same_place(address):
            raise Unusable("its keys (jwks_uri) are said to be at another host")
        listed = _get(client, address, end).get("keys")
    if not isinstance(listed, list):
        raise Unusable("its list of keys is none")
    return _sorted(listed[:_MOST], found.algorithms)


def _get(client: httpx.Client, address: str, end: float) -> Document:
    asked = {"Accept": "application/json", "Accept-Encoding": "identity"}
    body = bytearray()
    with client.stream("GET", address, headers=asked) as answer:
        if answer.status_code != 200 or answer.headers.get("content-encoding", "identity") != "identity":
            raise Unusable(f"it answered with status {answer.status_code}")
        for piece in answer.iter_raw():
            body += piece
            if len(body) > _LARGEST or time.monotonic() > end:
                raise Unusable("its answer is too large or too slow")
    try:
        return signatures.parse(bytes(body), "answer")
    except errors.InvalidCertificate:
        raise Unusable("its answer is no JSON object") from None


def _sorted(listed: list[Any], algorithms: tuple[str, ...]) -> dict[tuple[str, str], bearer.PublicKey]:
    """Of two keys of one name that are for one algorithm, nobody can say which was meant: neither."""
    made: dict[tuple[str, str], bearer.PublicKey] = {}
    twice: set[tuple[str, str]] = set()
    for jwk in listed:
        for algorithm in algorithms if isinstance(jwk, dict) and isinstance(jwk.get("kid"), str) else ():
            name = (jwk["kid"], algorithm)
            key = bearer.public_key(jwk, algorithm)
            if key is not None:
                twice |= {name} & made.keys()
                made[name] = key
    return {name: key for name, key in made.items() if name not in twice}
