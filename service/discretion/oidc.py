"""The hospital's identity provider, as the settings name it. What cannot be meant is refused by the setting's name.

Nothing about who comes in has a default: whose tokens, for which audience, and which of their roles is which of ours.
"""

import ipaddress
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import SplitResult, urlsplit

from discretion import errors, roles

# Signatures by a private key that only the provider holds. One by a shared secret, or none, is not offered: whoever
# knows what verifies it could sign.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_ISSUER: Final = "OIDC_ISSUER"
_AUDIENCE: Final = "OIDC_AUDIENCE"
_ROLES: Final = "OIDC_ROLES"
_ROLE_CLAIM: Final = "OIDC_ROLE_CLAIM"
_NAME_CLAIM: Final = "OIDC_NAME_CLAIM"
_ALGORITHMS: Final = "OIDC_ALGORITHMS"
_SKEW: Final = "OIDC_CLOCK_SKEW_SECONDS"
_CA_FILE: Final = "OIDC_CA_FILE"
NAMES: Final = (_ISSUER, _AUDIENCE, _ROLES, _ROLE_CLAIM, _NAME_CLAIM, _ALGORITHMS, _SKEW, _CA_FILE)
_DEFAULTS: Final = {
    _ROLE_CLAIM: "roles",
    _NAME_CLAIM: "preferred_username",
    _ALGORITHMS: "RS256,ES256",
    _SKEW: "60",
}
_MOST_SKEW: Final = 300  # seconds
_LONGEST: Final = 255


@dataclass(frozen=True)
class Oidc:
    issuer: str
    audience: str
    roles: Mapping[str, str]  # what their claim says: what it means here
    role_claim: str
    name_claim: str
    algorithms: tuple[str, ...]
    clock_skew: timedelta
    ca_file: Path | None

    def is_same_place(self, address: str) -> bool:
        """Whether an address is at the issuer's own scheme, host and port."""
        try:
            return _place(urlsplit(address)) == _place(urlsplit(self.issuer))
        except ValueError:
            return False

    def tls(self) -> ssl.SSLContext | bool:
        """Whose certificates are believed: the named authority's alone, or else those this machine believes."""
        if self.issuer.startswith("http://"):
            return False
        return ssl.create_default_context(cafile=self.ca_file)


def read(given: Mapping[str, str]) -> Oidc | None:
    """The provider that settings name, without their prefix; None if they name none."""
    found = {name: given[name].strip() for name in NAMES if given.get(name, "").strip()}
    if not found:
        return None
    for needed in (_ISSUER, _AUDIENCE, _ROLES):
        if needed not in found:
            _refuse(needed, f"is missing, and {_spelt(next(iter(found)))} is set; give both or neither")
    found = _DEFAULTS | found
    for name in (_AUDIENCE, _ROLE_CLAIM, _NAME_CLAIM):
        if len(found[name]) > _LONGEST or not found[name].isprintable():
            _refuse(name, f"must be at most {_LONGEST} printable characters")
    return Oidc(
        issuer=_issuer(found[_ISSUER]),
        audience=found[_AUDIENCE],
        roles=_roles(found[_ROLES]),
        role_claim=found[_ROLE_CLAIM],
        name_claim=found[_NAME_CLAIM],
        algorithms=_algorithms(found[_ALGORITHMS]),
        clock_skew=_skew(found[_SKEW]),
        ca_file=_authority(found.get(_CA_FILE)),
    )


def _spelt(name: str) -> str:
    return f"DISCRETION_{name}"


def _refuse(name: str, why: str) -> NoReturn:
    raise errors.InvalidSetting(f"{_spelt(name)} {why}.")


def _place(address: SplitResult) -> tuple[str, str, int | None]:
    usual = {"https": 443, "http": 80}.get(address.scheme)
    return address.scheme, address.hostname or "", address.port or usual


def _issuer(text: str) -> str:
    try:
        address = urlsplit(text)
        scheme, host, _ = _place(address)
    except ValueError:
        _refuse(_ISSUER, "is no address")
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= _LONGEST
    if not plain or not host or address.username is not None or "?" in text or "#" in text:
        _refuse(
            _ISSUER, "must be an address such as https://id.hospital.example/realms/care, without ?, # or a password"
        )
    if scheme != "https" and not (scheme == "http" and _is_loopback(host)):
        _refuse(_ISSUER, "must begin with https://; http:// is for this machine's own loopback address only")
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _roles(text: str) -> dict[str, str]:
    """`theirs=ours, …`; or a JSON object, for values with commas in them."""
    made: dict[str, str] = {}
    for value, role in _pairs(text):
        if role not in roles.ROLES:
            _refuse(_ROLES, f"gives a role that there is not; the roles are {', '.join(roles.ROLES)}")
        if not value or value in made:
            _refuse(_ROLES, "must name each value of the claim once")
        made[value] = role
    return made


def _pairs(text: str) -> list[tuple[str, Any]]:
    if not text.startswith("{"):
        parts = [entry.rpartition("=") for entry in text.split(",")]
        return [(value.strip(), role.strip()) for value, _, role in parts]
    try:
        pairs = json.loads(text, object_pairs_hook=lambda found: found)
    except (ValueError, RecursionError):
        _refuse(_ROLES, 'is neither `value=role, …` nor a JSON object such as {"value": "role"}')
    if not pairs:
        _refuse(_ROLES, "names no role")
    return [(value, role if isinstance(role, str) else None) for value, role in pairs]


def _algorithms(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not set(found) <= set(ALGORITHMS):
        _refuse(_ALGORITHMS, f"must be some of {', '.join(ALGORITHMS)}, with commas between them")
    return found


def _skew(text: str) -> timedelta:
    if not text.isascii() or not text.isdigit() or len(text) > 4 or int(text) > _MOST_SKEW:
        _refuse(_SKEW, f"(how far clocks may be apart) must be a whole number from 0 to {_MOST_SKEW}")
    return timedelta(seconds=int(text))


def _authority(text: str | None) -> Path | None:
    if text is None:
        return None
    try:
        ssl.create_default_context(cafile=text)
    except OSError:  # that of a file that holds no certificate, too
        _refuse(_CA_FILE, "must name a file of certificates in PEM that can be read")
    return Path(text).absolute()
