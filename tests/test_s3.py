"""A bucket: signed as others sign, listed whole, and plain words for everything that can be wrong with it."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from discretion import errors, s3
from tests import buckets


@pytest.fixture
def name(s3_server: buckets.Server) -> str:
    return s3_server.bucket()


@pytest.fixture
def bucket(s3_server: buckets.Server, name: str) -> Iterator[s3.Bucket]:
    made = s3.Bucket(s3_server.address(name))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_PAUSE", 0.01)


class TestSigned:
    def test_as_the_specification_shows(self) -> None:
        """AWS's own example: GET of a bucket's listing, "Signature Calculations for the Authorization Header"."""
        secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
        address = s3.Address("https://x", "x", "us-east-1", "AKIAIOSFODNN7EXAMPLE", secret)
        url = httpx.URL("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J")
        said = s3._signed(address, "GET", url, b"", datetime(2013, 5, 24, tzinfo=UTC))["authorization"]
        assert said.endswith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        assert secret not in f"{said} {address!r}"


class TestBucket:
    def test_what_was_put_is_found_listed_and_deleted(
        self, bucket: s3.Bucket, s3_server: buckets.Server, name: str
    ) -> None:
        content = bytes(range(256)) * 5000
        before = datetime.now(UTC) - timedelta(seconds=5)
        bucket.put("a/one", content)
        bucket.put("a/two and ü+=&?", b"")
        bucket.put("b/three", b"3")
        assert (bucket.get("a/one"), bucket.get("a/two and ü+=&?")) == (content, b"")
        assert s3_server.content(name)["a/one"] == content
        assert [found.key for found in bucket.list("a/")] == ["a/one", "a/two and ü+=&?"]
        assert all(found.modified >= before for found in bucket.list(""))
        for _ in range(2):
            bucket.delete("a/one")
        assert s3_server.keys(name) == {"a/two and ü+=&?", "b/three"}

    def test_a_listing_of_several_pages_is_whole(self, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(s3, "_PAGE", 2)
        for index in range(5):
            bucket.put(f"page/{index}", b"")
        assert [found.key for found in bucket.list("page/")] == [f"page/{index}" for index in range(5)]
        assert list(bucket.list("elsewhere/")) == []

    def test_versions_of_several_pages_are_listed_whole_and_deleted_one_by_one(
        self, s3_server: buckets.Server, bucket: s3.Bucket, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3, "_PAGE", 2)
        assert bucket.put("a/0", b"before") is None
        s3_server.keep_versions(name, "Enabled")
        put = [bucket.put(key, b"") for key in ("a/1", "a/1", "a/1", "a/2")]
        bucket.put("b", b"")
        bucket.delete("a/2")
        found = list(bucket.versions("a/"))
        assert {version.id for version in found} > {*put, "null"}
        assert len(found) == len(set(found)) == 6
        for version in found:
            bucket.delete(version.key, version.id)
        assert list(bucket.versions("a/")) == []
        assert len(list(bucket.versions("b"))) == 1

    def test_what_is_not_there_is_said_to_be_so(self, bucket: s3.Bucket) -> None:
        with pytest.raises(errors.NotStored):
            bucket.get("nothing")

    def test_an_object_larger_than_any_is_not_read_into_memory(
        self, bucket: s3.Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket.put("large", bytes(1000))
        monkeypatch.setattr(s3, "_MOST", 999)
        with pytest.raises(errors.StorageFailed, match="larger"):
            bucket.get("large")

    def test_the_environment_of_others_means_nothing(
        self, bucket: s3.Bucket, s3_server: buckets.Server, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "AWS_ENDPOINT_URL"):
            monkeypatch.setenv(variable, "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
        s3.Bucket(s3_server.address(name)).put("a", b"1")
        assert bucket.get("a") == b"1"


class TestTroubles:
    def refused(self, address: s3.Address, word: str) -> None:
        bucket = s3.Bucket(address)
        acts = [lambda: bucket.put("a", b"1"), lambda: bucket.get("a"), lambda: list(bucket.list("a"))]
        for act in [*acts, lambda: bucket.delete("a")]:
            with pytest.raises(errors.StoreUnavailable, match=word) as refusal:
                act()
            assert address.secret_key not in str(refusal.value)
            assert address.access_key not in str(refusal.value)
        bucket.close()

    @pytest.mark.parametrize("changed", [{"secret_key": "wrong-secret"}, {"access_key": "wrong-key"}])
    def test_wrong_credentials(self, changed: dict[str, str], s3_server: buckets.Server, name: str) -> None:
        self.refused(s3_server.address(name, **changed), "credentials")

    def test_no_such_bucket(self, s3_server: buckets.Server) -> None:
        self.refused(s3_server.address("nowhere-to-be-found"), "bucket")

    def test_nobody_listens(self, s3_server: buckets.Server, name: str) -> None:
        self.refused(s3_server.address(name, endpoint="http://127.0.0.1:9"), "does not answer")

    def test_whoever_listens_is_no_store(self, s3_server: buckets.Server, name: str) -> None:
        with _speaking(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello") as endpoint:
            bucket = s3.Bucket(s3_server.address(name, endpoint=endpoint))
            with pytest.raises(errors.StoreUnavailable, match="cannot be read"):
                list(bucket.list(""))

    @pytest.mark.parametrize(
        "listing",
        [
            "<Other/>",
            "<ListBucketResult/>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult>{entry}<IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult>{foreign}<IsTruncated>false</IsTruncated></ListBucketResult>",
            "<ListBucketResult>{nameless}<IsTruncated>false</IsTruncated></ListBucketResult>",
        ],
    )
    def test_a_listing_that_is_not_whole_or_not_ours_is_not_believed(self, listing: str) -> None:
        """Nobody takes a dataset for gone, or deletes another's, because of it."""
        times = "<LastModified>2026-01-02T03:04:05.000Z</LastModified>"
        parts = {"entry": "a/1", "foreign": "b/1", "nameless": ""}
        entries = {name: f"<Contents><Key>{key}</Key>{times}</Contents>" for name, key in parts.items()}
        with pytest.raises(errors.StoreUnavailable):
            s3._listed(listing.format(**entries).encode(), "a/")
        whole = "<ListBucketResult>{entry}<IsTruncated>false</IsTruncated></ListBucketResult>"
        for namespace in ("<ListBucketResult>", '<ListBucketResult xmlns="http://doc.example/2006-03-01">'):
            content = whole.replace("<ListBucketResult>", namespace).format(**entries).encode()
            assert [found.key for found in s3._listed(content, "a/")[0]] == ["a/1"]

    @pytest.mark.parametrize(
        "listing",
        [
            "",
            "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
            "<ListVersionsResult/>",
            "<ListVersionsResult><IsTruncated>true</IsTruncated></ListVersionsResult>",
            "<ListVersionsResult>{foreign}<IsTruncated>false</IsTruncated></ListVersionsResult>",
            "<ListVersionsResult>{nameless}<IsTruncated>false</IsTruncated></ListVersionsResult>",
        ],
    )
    def test_neither_is_one_of_versions(self, listing: str) -> None:
        parts = {"entry": ("a/1", "x"), "foreign": ("b/1", "x"), "nameless": ("a/1", "")}
        entries = {
            name: f"<Version><Key>{key}</Key><VersionId>{version}</VersionId></Version>"
            for name, (key, version) in parts.items()
        }
        with pytest.raises(errors.StoreRefuses):
            s3._listed_versions(listing.format(**entries).encode(), "a/")
        whole = "<ListVersionsResult>{entry}<IsTruncated>false</IsTruncated></ListVersionsResult>"
        assert s3._listed_versions(whole.format(**entries).encode(), "a/") == ([s3.Version("a/1", "x")], {})

    def test_a_redirect_is_not_followed(self, s3_server: buckets.Server, name: str) -> None:
        elsewhere = s3_server.url.encode()
        answer = b"HTTP/1.1 307 Moved\r\nLocation: %s/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % elsewhere
        with _speaking(answer) as endpoint:
            self.refused(s3_server.address(name, endpoint=endpoint), "307")

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n", b""])
    def test_what_passes_is_not_noticed(self, answer: bytes, s3_server: buckets.Server, name: str) -> None:
        """The first request is dropped, or told to come back."""
        way = buckets.gate(s3_server.port)
        first = [answer]

        def look(asked: bytes) -> None:
            if first:
                near = way._open[0]
                if said := first.pop():
                    near.sendall(said)
                near.shutdown(socket.SHUT_RDWR)

        way.look = look
        bucket = s3.Bucket(s3_server.address(name, endpoint=way.url))
        bucket.put("a", b"1")
        assert bucket.get("a") == b"1"
        way.shut()

    def test_a_certificate_that_nobody_vouches_for(self, s3_server: buckets.Server, name: str, tmp_path: Path) -> None:
        with pytest.raises(errors.InvalidSetting, match="DISCRETION_S3_CA_FILE"):
            s3.Bucket(s3_server.address(name, endpoint="https://127.0.0.1:9", ca_file=tmp_path / "missing"))


class TestCertificates:
    ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"

    def got(self, server: buckets.Server, certificate: Path, trusted: Path | None) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        with _speaking(self.ANSWER, context) as endpoint:
            address = server.address("any-bucket", endpoint=endpoint.replace("http:", "https:"), ca_file=trusted)
            bucket = s3.Bucket(address)
            try:
                return bucket.get("a")
            finally:
                bucket.close()

    def test_one_of_the_named_authority_is_believed(self, s3_server: buckets.Server, tmp_path: Path) -> None:
        certificate = _certificate(tmp_path, "127.0.0.1", timedelta(days=1))
        assert self.got(s3_server, certificate, certificate) == b"x"

    @pytest.mark.parametrize(
        ("host", "valid", "vouched"),
        [("127.0.0.1", 1, False), ("127.0.0.1", -1, True), ("127.0.0.2", 1, True)],
        ids=["unknown", "expired", "of another host"],
    )
    def test_any_other_is_not(
        self, host: str, valid: int, vouched: bool, s3_server: buckets.Server, tmp_path: Path
    ) -> None:
        certificate = _certificate(tmp_path, host, timedelta(days=valid))
        with pytest.raises(errors.StoreUnavailable, match="certificate"):
            self.got(s3_server, certificate, certificate if vouched else None)


def _certificate(folder: Path, host: str, valid: timedelta) -> Path:
    """Signed by itself, with its key, in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=2)).not_valid_after(now + valid)
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "certificate.pem"
    path.write_bytes(plain + made.sign(key, hashes.SHA256()).public_bytes(pem))
    return path


class _speaking:  # noqa: N801 (used like a function)
    """Somebody who gives every connection the same answer."""

    def __init__(self, answer: bytes, context: ssl.SSLContext | None = None) -> None:
        self._answer, self._context = answer, context

    def __enter__(self) -> str:
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._speak, daemon=True).start()
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def _speak(self) -> None:
        try:
            while True:
                near = self._listening.accept()[0]
                with contextlib.suppress(ssl.SSLError, ConnectionError), self._secured(near) as connection:
                    connection.recv(2**16)
                    connection.sendall(self._answer)
        except OSError:
            return

    def _secured(self, near: socket.socket) -> socket.socket:
        return near if self._context is None else self._context.wrap_socket(near, server_side=True)

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
