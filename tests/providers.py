"""A small identity provider for the tests: real HTTP on loopback, keys that rotate, whatever is wrong on purpose."""

import contextlib
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import algorithms

AUDIENCE = "discretion"
ROLES = {"clinic-admin": "admin", "clinic-data": "custodian", "clinic-science": "analyst", "clinic-audit": "auditor"}
WELL_KNOWN = "/.well-known/openid-configuration"
JWKS = "/jwks"
Answer = tuple[int, dict[str, str], bytes]

_MAKE: dict[str, Callable[[], Any]] = {
    "RS": lambda: rsa.generate_private_key(65537, 2048),
    "PS": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed": ed25519.Ed25519PrivateKey.generate,
}


def new_key(algorithm: str = "ES256") -> Any:
    return next(make for name, make in _MAKE.items() if algorithm.startswith(name))()


def jwk(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    """The public half, as a provider publishes it."""
    public = key.public_key()
    kind: Any = algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else algorithms.ECAlgorithm
    kind = algorithms.OKPAlgorithm if isinstance(key, ed25519.Ed25519PrivateKey) else kind
    written: dict[str, Any] = kind.to_jwk(public, as_dict=True)
    written.pop("key_ops", None)
    return written | {"kid": kid, "use": "sig"} | more


def claims(issuer: str, subject: str = "ada", role: Any = "clinic-science", **more: Any) -> dict[str, Any]:
    """What a good token says; a claim given as None is left out."""
    now = int(time.time())
    said = {"iss": issuer, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 300, "roles": role}
    said |= {"preferred_username": f"Dr. {subject}"} | more
    return {name: value for name, value in said.items() if value is not None}


class Provider:
    def __init__(self) -> None:
        self.keys: dict[str, tuple[Any, str]] = {}
        self.published: list[Any] = []
        self.asked: list[str] = []
        self.instead: dict[str, Callable[[], Answer]] = {}  # answers that are wrong on purpose, by path
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self._server: ThreadingHTTPServer | None = None
        self.rotate("first")

    @property
    def issuer(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}/realms/care"

    def rotate(self, kid: str, algorithm: str = "ES256", *, publish: bool = True) -> None:
        """Sign with another key from now on; earlier ones stay published."""
        self.keys[kid] = (new_key(algorithm), algorithm)
        if publish:
            self.published.append(jwk(self.keys[kid][0], kid))

    def withdraw(self, kid: str) -> None:
        self.published = [one for one in self.published if one["kid"] != kid]

    def token(self, subject: str = "ada", role: Any = "clinic-science", *, kid: str | None = None, **more: Any) -> str:
        """One that is good, but for what is said otherwise."""
        headers = more.pop("headers", {})
        return self.signed(claims(self.issuer, subject, role, **more), kid, **headers)

    def signed(self, said: dict[str, Any], kid: str | None = None, **headers: Any) -> str:
        kid = kid or list(self.keys)[-1]
        key, algorithm = self.keys[kid]
        return jwt.encode(said, key, algorithm, {"kid": kid} | headers)

    def count(self, path: str = JWKS) -> int:
        return sum(asked.endswith(path) for asked in self.asked)

    def answer(self, path: str) -> Answer:
        self.asked.append(path)
        base = path.removeprefix("/realms/care")
        if base in self.instead:
            return self.instead[base]()
        about = {"issuer": self.issuer, "jwks_uri": self.issuer + JWKS}
        documents = {WELL_KNOWN: about, JWKS: {"keys": self.published}}
        if base not in documents:
            return 404, {}, b""
        return 200, {"Content-Type": "application/json"}, json.dumps(documents[base]).encode()

    def start(self) -> None:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, body = provider.answer(self.path)
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):  # whoever asked has heard enough
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """It is away; nobody answers at its address."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def environment(self, **more: object) -> dict[str, Any]:
        """The settings of a service that believes it."""
        mapped = ", ".join(f"{theirs}={ours}" for theirs, ours in ROLES.items())
        return {"oidc_issuer": self.issuer, "oidc_audience": AUDIENCE, "oidc_roles": mapped} | more


@contextlib.contextmanager
def provider(tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    made = Provider()
    made.tls = tls
    made.start()
    try:
        yield made
    finally:
        made.stop()


def certificate(folder: Path, lasts: timedelta = timedelta(days=1)) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS with a certificate of its own, and the file by which it can be believed."""
    key, now = new_key("ES256"), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "provider")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now + lasts)
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context, folder / "ca.pem"
