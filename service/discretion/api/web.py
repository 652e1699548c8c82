"""The dashboard's files: read and compressed once, then answered from memory.

A path is looked up among the files that there are, so that none leads anywhere else.
"""

import functools
import gzip
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from discretion import errors

router = APIRouter(include_in_schema=False)

_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_ALLOWED: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "cache-control": "no-cache",  # kept, and asked about each time: a page never meets another version's script
    "content-security-policy": _ALLOWED,
    "vary": "Accept-Encoding",
}
_GZIP: Final = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?:1(?:\.0*)?|0?\.\d*[1-9]\d*)\s*)?(?:,|$)", re.IGNORECASE)


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    headers: dict[str, str]


def _file(content: bytes, media_type: str, encoding: str | None = None) -> _File:
    headers = _HEADERS | {"etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    return _File(content, media_type, headers | ({"content-encoding": encoding} if encoding else {}))


@dataclass(frozen=True)
class _Asset:
    plain: _File
    compressed: _File

    def for_(self, request: Request) -> _File:
        accepted = _GZIP.search(request.headers.get("accept-encoding", ""))
        return self.compressed if accepted else self.plain


@functools.cache
def _assets() -> dict[str, _Asset]:
    return {path: _asset(path, file) for path, file in _walk(resources.files("discretion") / "web", "")}


def _asset(path: str, file: Traversable) -> _Asset:
    content, media_type = file.read_bytes(), _TYPES[_suffix(path)]
    plain, smaller = _file(content, media_type), gzip.compress(content, mtime=0)
    return _Asset(plain, _file(smaller, media_type, "gzip") if len(smaller) < len(content) else plain)


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir() if folder.is_dir() else ():
        if one.is_dir():
            yield from _walk(one, f"{above}{one.name}/")
        elif _suffix(one.name) in _TYPES:
            yield above + one.name, one


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""


def _answer(request: Request, path: str) -> Response:
    asset = _assets().get(path)
    if asset is None:
        raise errors.NotFound
    file = asset.for_(request)
    if file.headers["etag"] in re.findall(r'"[^"]*"', request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=file.headers)
    return Response(file.content, headers=file.headers, media_type=file.media_type)


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    return _answer(request, _INDEX)


@router.api_route("/assets/{path:path}", methods=["GET", "HEAD"])
async def asset(request: Request, path: str) -> Response:
    return _answer(request, path)
