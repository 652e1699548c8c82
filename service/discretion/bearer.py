"""A token of the hospital's identity provider: a signed JWT (RFC 7519), read strictly (RFC 8725).

Of what RFC 7515 allows, little is accepted: three parts, a pinned algorithm, a key that the provider itself publishes
and that fits the algorithm. A key or an address of one inside the token is not looked at, and nothing that a token says
is believed before its signature holds. The signatures are `cryptography`'s; why no JWT library stands between:
docs/decisions/0015-identities.md.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import exceptions
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discretion import errors, signatures
from discretion.oidc import Oidc
from discretion.signatures import Document

LONGEST: Final = 8192  # characters
_LONGEST_NAME: Final = 200
_LONGEST_ID: Final = 255  # of a subject (OpenID Connect Core, 2) and of a key's name
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt", "application/jwt")
_LAST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_RSA_BITS: Final = (2048, 8192)
_LARGEST_EXPONENT: Final = 2**32
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: Final[dict[str, tuple[str, ec.EllipticCurve]]] = {
    "ES256": ("P-256", ec.SECP256R1()),
    "ES384": ("P-384", ec.SECP384R1()),
    "ES512": ("P-521", ec.SECP521R1()),
}
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | Ed25519PublicKey


@dataclass(frozen=True)
class Claims:
    """What the provider says of whoever bears a token."""

    issuer: str
    subject: str
    name: str
    role: str
    issued_at: datetime
    expires_at: datetime


def is_one(token: str) -> bool:
    """By its shape: API keys have no dots."""
    return token.count(".") == 2


def _foreign() -> errors.Unauthenticated:
    return errors.Unauthenticated("This token is not the identity provider's; sign in there for another one.")


def named_key(token: str, found: Oidc) -> tuple[str, str]:
    """The name of the key and the algorithm that a token claims to be signed with, before anything is believed."""
    if len(token) > LONGEST:
        raise errors.Unauthenticated(f"A token has at most {LONGEST} characters; have the provider put less in it.")
    header = _object(token.split(".")[0])
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if algorithm not in found.algorithms or "crit" in header:
        raise _foreign()
    if not isinstance(kind, str) or kind.lower() not in _TYPES:  # one made for another purpose, such as a logout
        raise _foreign()
    if not isinstance(kid, str) or not 0 < len(kid) <= _LONGEST_ID:
        raise _foreign()
    return kid, str(algorithm)


def _object(part: str) -> Document:
    with contextlib.suppress(errors.InvalidCertificate):
        return signatures.parse(signatures.decode(part, "part"), "part")
    raise _foreign()


def read(token: str, key: PublicKey, algorithm: str, found: Oidc, *, at: datetime) -> Claims:
    """What a token says, if its signature is the key's and it is for this service and this moment."""
    signed, _, signature = token.rpartition(".")
    try:
        _verify(key, algorithm, signatures.decode(signature, "signature"), signed.encode("ascii"))
    except (exceptions.InvalidSignature, errors.InvalidCertificate, UnicodeEncodeError):
        raise _foreign() from None
    return _claims(_object(signed.partition(".")[2]), found, at)


def _claims(said: Document, found: Oidc, at: datetime) -> Claims:
    if said.get("iss") != found.issuer:
        raise _foreign()
    audience = said.get("aud")
    if found.audience not in (audience if isinstance(audience, list) else [audience]):
        raise errors.Unauthenticated("Your token is for another service; ask the identity provider for one for this.")
    if "cnf" in said:  # stolen, it would open this door all the same
        raise errors.Unauthenticated(
            "Your token is bound to a key of yours, which is not checked here; get a plain one."
        )
    issued, expires = _time(said, "iat"), _time(said, "exp")
    if expires + found.clock_skew <= at:
        raise errors.Unauthenticated("Your token has expired; get a new one from the identity provider.")
    if max(issued, _time(said, "nbf") if "nbf" in said else issued) - found.clock_skew > at:
        raise errors.Unauthenticated("Your token is not valid yet; compare the provider's clock with this service's.")
    subject = said.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_ID or not _is_plain(subject):
        raise _foreign()
    return Claims(found.issuer, subject, _name(said, found, subject), _role(said, found), issued, expires)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _time(said: Document, name: str) -> datetime:
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LAST:
        raise errors.Unauthenticated(f"Your token does not say its time ({name}); have the provider put it in.")
    return datetime.fromtimestamp(value, UTC)


def _claim(said: Document, path: str) -> Any:
    """By its name or, where there is none of that name, through objects with a dot for each: `realm_access.roles`."""
    if path in said:
        return said[path]
    value: Any = said
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _name(said: Document, found: Oidc, subject: str) -> str:
    """For people to read. It decides nothing, so one that cannot be read is no reason to refuse."""
    name = _claim(said, found.name_claim)
    readable = isinstance(name, str) and name.isprintable() and name.strip() and len(name.strip()) <= _LONGEST_NAME
    return name.strip() if readable else subject.strip()[:_LONGEST_NAME] or "nameless"


def _role(said: Document, found: Oidc) -> str:
    value = _claim(said, found.role_claim)
    values = value if isinstance(value, list) else [value]
    given = {found.roles[one] for one in values if isinstance(one, str) and one in found.roles}
    if not given:
        raise errors.Unauthenticated("Your token gives you no role here; ask whoever runs the identity provider.")
    if len(given) > 1:
        raise errors.Unauthenticated(
            f"Your token gives you several roles here ({', '.join(sorted(given))}), and roles do not overlap; "
            "ask whoever runs the identity provider for one of them."
        )
    return given.pop()


# --- keys and signatures -----------------------------------------------------------------------------------------


def public_key(jwk: Mapping[str, Any], algorithm: str) -> PublicKey | None:
    """A published key (RFC 7517), if it is one for this algorithm; None for every other."""
    uses = jwk.get("key_ops", ["verify"])
    if jwk.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        return None
    if jwk.get("alg", algorithm) != algorithm or "d" in jwk or "k" in jwk:  # a secret that was published is none
        return None
    with contextlib.suppress(errors.InvalidCertificate, ValueError, exceptions.UnsupportedAlgorithm):
        if algorithm in _CURVES:
            return _elliptic(jwk, *_CURVES[algorithm])
        return _edwards(jwk) if algorithm == "EdDSA" else _rsa(jwk)
    return None


def _rsa(jwk: Mapping[str, Any]) -> PublicKey | None:
    n, e = (int.from_bytes(signatures.decode(jwk.get(name), name)) for name in ("n", "e"))
    least, most = _RSA_BITS
    if jwk.get("kty") != "RSA" or not least <= n.bit_length() <= most or e >= _LARGEST_EXPONENT:
        return None
    return rsa.RSAPublicNumbers(e, n).public_key()


def _elliptic(jwk: Mapping[str, Any], name: str, curve: ec.EllipticCurve) -> PublicKey | None:
    if (jwk.get("kty"), jwk.get("crv")) != ("EC", name):
        return None
    x, y = (int.from_bytes(signatures.decode(jwk.get(name), name)) for name in ("x", "y"))
    return ec.EllipticCurvePublicNumbers(x, y, curve).public_key()


def _edwards(jwk: Mapping[str, Any]) -> PublicKey | None:
    if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
        return None
    return Ed25519PublicKey.from_public_bytes(signatures.decode(jwk.get("x"), "x"))


def _verify(key: PublicKey, algorithm: str, signature: bytes, signed: bytes) -> None:
    """RFC 7518, 3.3 to 3.5, and RFC 8037. Which kind of key it is was settled when the key was read."""
    if isinstance(key, Ed25519PublicKey):
        key.verify(signature, signed)
        return
    hashed = _HASHES[algorithm[2:]]
    if isinstance(key, rsa.RSAPublicKey):
        masked = padding.PSS(padding.MGF1(hashed), hashed.digest_size)
        key.verify(signature, signed, masked if algorithm.startswith("PS") else padding.PKCS1v15(), hashed)
        return
    size = (key.curve.key_size + 7) // 8
    if len(signature) != 2 * size:
        raise exceptions.InvalidSignature
    r, s = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
    key.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashed))
