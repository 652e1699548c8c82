"""Signatures under certificates: Ed25519 keys, their public list, and one strict form of JWS.

A JWS (RFC 7515) in flattened JSON serialisation with EdDSA (RFC 8037) over canonical JSON (RFC 8785), and nothing else
that RFC 7515 would allow: no other algorithm, no unprotected header, no extension, one spelling of every byte.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import rfc8785
from cryptography import exceptions
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discretion import errors

TYPE: Final = "discretion-certificate+jws"
LEDGER_HEAD: Final = "discretion-ledger-head+jws"  # so that neither can be passed off as the other
Document = dict[str, Any]


@dataclass(frozen=True, repr=False)
class SigningKey:
    """An Ed25519 key; `kid` is its RFC 7638 thumbprint, so a key cannot go by another's name."""

    private: Ed25519PrivateKey

    @classmethod
    def from_pem(cls, pem: bytes) -> "SigningKey":
        try:
            private = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, exceptions.UnsupportedAlgorithm):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise errors.InvalidCertificate("A signing key must be an Ed25519 private key in PEM, without a password.")
        return cls(private)

    def pem(self) -> bytes:
        """The private key, for a file that nobody else can read."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def jwk(self) -> Document:
        """The public half."""
        public = _base64(self.private.public_key().public_bytes_raw())
        return {"kty": "OKP", "crv": "Ed25519", "x": public, "kid": _thumbprint(public), "alg": "EdDSA", "use": "sig"}

    @property
    def kid(self) -> str:
        return str(self.jwk()["kid"])


def generate_key() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.generate())


def jwks(keys: Iterable[SigningKey]) -> Document:
    """The public key list: the key in use, and earlier ones whose certificates must still verify."""
    return {"keys": [key.jwk() for key in keys]}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode(text: object, name: str) -> bytes:
    """Strictly: of several spellings of the same bytes only one is accepted."""
    data = b""
    if isinstance(text, str):
        with contextlib.suppress(ValueError):
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not data or _base64(data) != text:
        raise errors.InvalidCertificate(f"The {name} is not base64url text without padding.")
    return data


def _thumbprint(public: str) -> str:
    return _base64(hashlib.sha256(rfc8785.dumps({"crv": "Ed25519", "kty": "OKP", "x": public})).digest())


def sign(payload: Document, key: SigningKey, kind: str = TYPE) -> Document:
    protected = _base64(rfc8785.dumps({"alg": "EdDSA", "kid": key.kid, "typ": kind}))
    body = _base64(rfc8785.dumps(payload))
    signature = key.private.sign(f"{protected}.{body}".encode("ascii"))
    return {"payload": body, "protected": protected, "signature": _base64(signature)}


def parse(text: bytes | str, name: str) -> Document:
    """A JSON object in which no key stands twice, for readers differ in which of two they believe."""

    def once(pairs: Sequence[tuple[str, Any]]) -> Document:
        if len(dict(pairs)) != len(pairs):
            raise errors.InvalidCertificate(f"In the {name} a key stands twice.")
        return dict(pairs)

    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    def integer(digits: str) -> int | float:  # RFC 8785 writes large floats without a point
        return float(digits) if len(digits) > 15 else int(digits)

    try:
        written = text.decode("utf-8") if isinstance(text, bytes) else text
        document = json.loads(written, object_pairs_hook=once, parse_constant=refuse, parse_int=integer)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise errors.InvalidCertificate(f"The {name} is not a JSON object.")
    return document


def _public_key(listed: Document, kid: object) -> Ed25519PublicKey:
    keys = listed.get("keys")
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise errors.InvalidCertificate("The key list is not a JWKS document.")
    if any("d" in key for key in keys):
        raise errors.InvalidCertificate("The key list holds a private key; it must hold public ones only.")
    found = [key for key in keys if key.get("kid") == kid]
    if len(found) != 1 or not isinstance(kid, str):
        raise errors.InvalidCertificate("The key list does not hold, exactly once, the key that the certificate names.")
    key = found[0]
    expected = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig"}
    if any(key.get(name, value if name in ("alg", "use") else None) != value for name, value in expected.items()):
        raise errors.InvalidCertificate("The key in the key list is not an Ed25519 key for signatures.")
    public = decode(key.get("x"), "public key")
    if len(public) != 32 or _thumbprint(str(key["x"])) != kid:
        raise errors.InvalidCertificate("The key in the key list goes by a name that is not its own.")
    return Ed25519PublicKey.from_public_bytes(public)


def read(text: bytes | str, listed: bytes | str | None, kind: str = TYPE) -> tuple[Document, str]:
    """The payload and who signed it; the signature is checked before the payload is read."""
    parts = parse(text, "certificate")
    if set(parts) != {"payload", "protected", "signature"}:
        raise errors.InvalidCertificate("A certificate has exactly a payload, a protected header and a signature.")
    header = parse(decode(parts["protected"], "protected header"), "protected header")
    if "crit" in header:
        raise errors.InvalidCertificate("The certificate asks for extensions (crit), and there are none.")
    if header.get("alg") != "EdDSA":
        raise errors.InvalidCertificate("The certificate is signed with another algorithm than EdDSA.")
    if header.get("typ") != kind or set(header) != {"alg", "kid", "typ"}:
        raise errors.InvalidCertificate("The protected header is not one of a certificate.")
    body, signature = decode(parts["payload"], "payload"), decode(parts["signature"], "signature")
    if listed is not None:
        try:
            signed = f"{parts['protected']}.{parts['payload']}".encode("ascii")
            _public_key(parse(listed, "key list"), header["kid"]).verify(signature, signed)
        except exceptions.InvalidSignature:
            raise errors.InvalidCertificate("The signature does not belong to this certificate.") from None
    payload = parse(body, "payload")
    if canonical(payload) != body:
        raise errors.InvalidCertificate("The payload is not canonical JSON.")
    return payload, header["kid"]


def canonical(value: object) -> bytes | None:
    """RFC 8785; None for what has no canonical form."""
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        return None
