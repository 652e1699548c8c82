"""The dashboard's files: for everybody, kept in check by the browser, and nothing else of the disk."""

import gzip
import http.client
import json
import re
from importlib import resources
from urllib.parse import urlsplit

import httpx
import pytest

from tests import services
from tests.services import Service

POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "font-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
}
TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FOLDER = resources.files("discretion") / "web"


def get(service: Service, path: str, **headers: str) -> httpx.Response:
    headers.setdefault("Accept-Encoding", "identity")
    return service.client(None).get(path, headers=headers)


def parts(service: Service) -> list[str]:
    """The files that the page asks for, besides who is signed in."""
    found = re.findall(r'(?:src|href)="(/[^"]+)"', get(service, "/").text)
    found.remove("/v1/session")
    assert found
    return found


class TestThePage:
    def test_is_for_everybody(self, service: Service) -> None:
        answer = get(service, "/")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert answer.content == (FOLDER / "index.html").read_bytes()
        assert service.client(None).head("/").status_code == 200
        services.refused(service.client(None).post("/"), 405, "method_not_allowed")

    def test_asks_for_nothing_but_its_own_files(self, service: Service) -> None:
        for path in parts(service):
            assert path.startswith("/assets/")
            answer = get(service, path)
            assert answer.status_code == 200, path
            assert answer.headers["content-type"] == TYPES[path.rsplit(".", 1)[1]]

    def test_has_nothing_that_its_policy_forbids(self, service: Service) -> None:
        page = get(service, "/").text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|https?://", page)
        assert not re.search(r"<script(?![^>]*\ssrc=)", page)


class TestHeaders:
    def test_forbid_everything_that_the_page_does_not_need(self, service: Service) -> None:
        for path in ("/", *parts(service)):
            headers = get(service, path).headers
            assert {part.strip() for part in headers["content-security-policy"].split(";")} == POLICY
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            for power in ("camera", "geolocation", "microphone", "usb"):
                assert f"{power}=()" in headers["permissions-policy"].split(", ")

    @pytest.mark.parametrize(
        "path", ["/v1/session", "/v1/datasets", "/v1/certificate-keys", "/healthz", "/assets/none"]
    )
    def test_of_other_answers_forbid_everything(self, path: str, service: Service) -> None:
        answer = get(service, path)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; form-action 'none'")
        assert "-src 'self'" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.headers.get_list("content-security-policy")) == 1


class TestKeeping:
    def test_a_file_that_has_not_changed_is_not_sent_again(self, service: Service) -> None:
        for path in ("/", *parts(service)):
            for encoding in ("identity", "gzip"):
                first = get(service, path, **{"Accept-Encoding": encoding})
                assert first.headers["cache-control"] == "no-cache"
                tag = first.headers["etag"]
                for given in (tag, f"W/{tag}", f'"other", {tag}'):
                    again = get(service, path, **{"Accept-Encoding": encoding, "If-None-Match": given})
                    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
                    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
                assert get(service, path, **{"If-None-Match": '"other"'}).status_code == 200

    def test_what_can_be_smaller_is_compressed_for_whoever_takes_it(self, service: Service) -> None:
        plain = get(service, "/")
        assert "content-encoding" not in plain.headers
        for accepted in ("gzip", "br, gzip", "gzip;q=0.5", "deflate, GZIP ;q=1.0, br"):
            with service.client(None).stream("GET", "/", headers={"Accept-Encoding": accepted}) as small:
                raw = b"".join(small.iter_raw())
            assert small.headers["content-encoding"] == "gzip", accepted
            assert small.headers["vary"] == "Accept-Encoding"
            assert small.headers["etag"] != plain.headers["etag"]
            assert len(raw) < len(plain.content)
            assert gzip.decompress(raw) == plain.content
        for refused in ("", "br", "gzip;q=0", "gzip;q=0.000, br", "xgzip"):
            assert "content-encoding" not in get(service, "/", **{"Accept-Encoding": refused}).headers, refused


class TestNothingElse:
    @pytest.mark.parametrize(
        "path",
        [
            "",
            "none.js",
            "pages",
            "pages/",
            "/index.html",
            "./index.html",
            "index.html/",
            "index.html%00.js",
            "INDEX.HTML",
            "../app.py",
            "..%2fapp.py",
            "%2e%2e/%2e%2e/keys.py",
            "pages/..%2f..%2fkeys.py",
            "..%5ckeys.py",
            "%2fetc%2fpasswd",
            "/etc/passwd",
            "....//keys.py",
            "%252e%252e%252fkeys.py",
            "x" * 5000,
        ],
    )
    def test_is_answered(self, path: str, service: Service) -> None:
        """Sent as it stands: other clients tidy a path up."""
        connection = http.client.HTTPConnection(urlsplit(service.url).netloc)
        connection.request("GET", f"/assets/{path}")
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.status, json.loads(body)["code"]) == (404, "not_found")
