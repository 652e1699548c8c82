"""A bucket of an S3-compatible store: put, get, list and delete, each signed (AWS Signature Version 4), and no more;
list and delete also by version, where a bucket keeps older ones.

It speaks to the one host that the settings name: no redirects, no proxies, no look at anybody's environment, no
question to a cloud's metadata service. An object appears whole or not at all, because it is sent in one request, whose
digest is signed. There are no threads, so a process that forks may use it. docs/decisions/0016 says why it is not
pyarrow's.
"""

import contextlib
import hashlib
import hmac
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree

import httpx

from discretion import errors

_ATTEMPTS: Final = 4
_PAUSE: Final = 0.2  # seconds before the second attempt; three times as long before each further one
_MOST: Final = 2**31  # bytes of an object that is read: no dataset's are as large
_TIMES: Final = httpx.Timeout(30.0, connect=5.0)
_TIMES_ONCE: Final = httpx.Timeout(5.0, connect=3.0)
_PAGE: Final = 1000  # objects that are listed at a time
_ERROR: Final = 2**16  # bytes of an answer that says what went wrong
_CREDENTIALS: Final = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken")


@dataclass(frozen=True)
class Address:
    """Which bucket, where, and as whom."""

    endpoint: str
    bucket: str
    region: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    ca_file: Path | None = None


@dataclass(frozen=True)
class Object:
    key: str
    modified: datetime  # by the store's clock


@dataclass(frozen=True)
class Version:
    """One content that an object has or had, or the mark that it was deleted."""

    key: str
    id: str


class Bucket:
    def __init__(self, address: Address) -> None:
        self._address = address
        plain = {"accept-encoding": "identity"}  # what was put is what is wanted
        self._client = httpx.Client(headers=plain, verify=_trusted(address), trust_env=False, follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def put(self, key: str, content: bytes, *, once: bool = False) -> str | None:
        """Under which version it is kept, None by a bucket that keeps none."""
        return self._ask("PUT", key, content=content, once=once)[1]

    def get(self, key: str, *, once: bool = False) -> bytes:
        return self._ask("GET", key, once=once)[0]

    def delete(self, key: str, version: str | None = None, *, once: bool = False) -> None:
        """Also if it is not there. Without a version, a bucket that keeps them only hides what it has."""
        self._ask("DELETE", key, query={} if version is None else {"versionId": version}, once=once)

    def list(self, prefix: str, *, once: bool = False) -> Iterator[Object]:
        asked = {"list-type": "2", "max-keys": str(_PAGE), "prefix": prefix}
        while True:
            found, following = _listed(self._ask("GET", "", query=asked, once=once)[0], prefix)
            yield from found
            if not following:
                return
            asked["continuation-token"] = following

    def versions(self, prefix: str) -> Iterator[Version]:
        """Everything under a prefix that the bucket still keeps, what was deleted included."""
        asked, following = {"max-keys": str(_PAGE), "prefix": prefix, "versions": ""}, dict[str, str]()
        while True:
            found, following = _listed_versions(self._ask("GET", "", query=asked | following)[0], prefix)
            yield from found
            if not following:
                return

    def _ask(
        self, method: str, key: str, *, content: bytes = b"", query: Mapping[str, str] | None = None, once: bool = False
    ) -> tuple[bytes, str | None]:
        """What the store answers, and of which version; what may be gone in a moment is tried again, unless it is asked
        `once`."""
        attempts, pause = 1 if once else _ATTEMPTS, _PAUSE
        while True:
            attempts -= 1
            try:
                return self._asked(method, key, content, query or {}, _TIMES_ONCE if once else _TIMES)
            except _Again as trouble:
                if not attempts:
                    raise errors.StoreUnavailable(str(trouble)) from None
            time.sleep(pause)
            pause *= 3

    def _asked(
        self, method: str, key: str, content: bytes, query: Mapping[str, str], times: httpx.Timeout
    ) -> tuple[bytes, str | None]:
        path = "/".join(("", self._address.bucket, key)) if key else f"/{self._address.bucket}"
        named = "&".join(f"{quote(name, '')}={quote(value, '')}" for name, value in sorted(query.items()))
        url = f"{self._address.endpoint}{quote(path, '/')}" + (f"?{named}" if named else "")
        request = self._client.build_request(method, url, content=content or None, timeout=times)
        request.headers.update(_signed(self._address, method, request.url, content, datetime.now(UTC)))
        try:
            with contextlib.closing(self._client.send(request, stream=True)) as answer:
                if answer.is_success:
                    return _whole(answer, _MOST), answer.headers.get("x-amz-version-id")
                raise _failure(answer, bool(key) and method == "GET")
        except httpx.HTTPError:  # its text may quote the address, which is the operator's business alone
            raise _Again(
                "The store does not answer; check DISCRETION_STORE, its certificate and the network."
            ) from None


def _listed(content: bytes, prefix: str) -> tuple[list[Object], str]:
    """A page, and where the next one begins. What is listed here is deleted on the strength of it, and what is not is
    taken for gone: an answer that is not quite as it must be is refused."""
    try:
        page = ElementTree.fromstring(content)
        found = []
        for entry in page.findall("{*}Contents"):
            modified = datetime.fromisoformat(entry.findtext("{*}LastModified", ""))
            found.append(Object(entry.findtext("{*}Key", ""), modified.astimezone(UTC)))
        truncated, following = page.findtext("{*}IsTruncated"), page.findtext("{*}NextContinuationToken", "")
        sound = page.tag.rpartition("}")[2] == "ListBucketResult" and truncated == ("true" if following else "false")
    except (ElementTree.ParseError, ValueError):
        sound = False
    if not sound or not all(entry.key and entry.key.startswith(prefix) for entry in found):
        raise errors.StoreUnavailable(
            "The store's answer cannot be read; check that DISCRETION_STORE names an S3 endpoint."
        )
    return found, following


def _listed_versions(content: bytes, prefix: str) -> tuple[list[Version], dict[str, str]]:
    """The same; a store that knows no versions may answer with a listing of another kind."""
    try:
        page = ElementTree.fromstring(content)
        entries = [*page.findall("{*}Version"), *page.findall("{*}DeleteMarker")]
        found = [Version(entry.findtext("{*}Key", ""), entry.findtext("{*}VersionId", "")) for entry in entries]
        named = {"key-marker": "{*}NextKeyMarker", "version-id-marker": "{*}NextVersionIdMarker"}
        following = {name: text for name, element in named.items() if (text := page.findtext(element, ""))}
        agrees = page.findtext("{*}IsTruncated") == ("true" if "key-marker" in following else "false")
        sound = page.tag.rpartition("}")[2] == "ListVersionsResult" and agrees
    except ElementTree.ParseError:
        sound = False
    if not sound or not all(entry.key.startswith(prefix) and entry.id for entry in found):
        raise errors.StoreRefuses("The store does not list versions of objects in a way that can be read.")
    return found, following


class _Again(Exception):
    """May be gone in a moment."""


def _trusted(address: Address) -> ssl.SSLContext | bool:
    if not address.endpoint.startswith("https:"):
        return False
    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except (OSError, ssl.SSLError):
        raise errors.InvalidSetting("The file named by DISCRETION_S3_CA_FILE holds no certificates in PEM.") from None


def _whole(answer: httpx.Response, most: int) -> bytes:
    content = bytearray()
    for piece in answer.iter_raw():
        content += piece
        if len(content) > most:
            raise errors.StorageFailed("An object of the store is larger than any that was put there.")
    return bytes(content)


def _failure(answer: httpx.Response, reading: bool) -> Exception:
    """In words for whoever runs the service; the store's own might say anything."""
    try:
        found = ElementTree.fromstring(_whole(answer, _ERROR))
        code = found.findtext("{*}Code", "")
    except (ElementTree.ParseError, errors.StorageFailed):
        code = ""
    if code == "NoSuchBucket":
        return errors.StoreUnavailable("The store has no such bucket; make it, or mend DISCRETION_STORE.")
    if reading and answer.status_code == 404:
        return errors.NotStored("There is no such object in the store.")
    if code == "RequestTimeTooSkewed":
        return errors.StoreUnavailable("The store's clock and this machine's differ too much; set both right.")
    if code in _CREDENTIALS or answer.status_code in (401, 403):
        return errors.StoreRefuses(
            "The store refuses the credentials; check DISCRETION_S3_ACCESS_KEY, DISCRETION_S3_SECRET_KEY and what "
            "they allow."
        )
    if answer.status_code == 429 or (answer.status_code >= 500 and answer.status_code != 501):
        return _Again("The store answers, but not now: it is overloaded, full or broken.")
    return errors.StoreRefuses(
        f"The store refuses what it is asked (status {answer.status_code}); check DISCRETION_STORE."
    )


def _signed(address: Address, method: str, url: httpx.URL, content: bytes, at: datetime) -> dict[str, str]:
    """The headers that say who asks; the names of the steps are those of the specification."""
    moment, digest = at.strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(content).hexdigest()
    scope = f"{moment[:8]}/{address.region}/s3/aws4_request"
    path, _, query = url.raw_path.decode("ascii").partition("?")
    headers = {"host": url.netloc.decode("ascii"), "x-amz-content-sha256": digest, "x-amz-date": moment}
    names = ";".join(headers)
    canonical = "\n".join(
        [method, path, query, *(f"{name}:{value}" for name, value in headers.items()), "", names, digest]
    )
    to_sign = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + address.secret_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    said = f"Credential={address.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return headers | {"authorization": f"AWS4-HMAC-SHA256 {said}"}
