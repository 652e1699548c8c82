"""Encryption at rest: each dataset under a random key of its own, which is stored wrapped by a master key from a file.

AES-256-GCM throughout. What is sealed is bound to what it is *about* (which dataset, which file), so that a part that
was changed, cut short, or put in another's place is refused. A master key is a line of 64 hexadecimal digits; the file
may hold several: the first wraps, each of them opens. It is read anew each time, so that a key that was added is used
by services that run.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import rfc8785
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discretion import errors
from discretion.privacy import noise

_BYTES: Final = 32
_NONCE: Final = 12
_FEWEST: Final = 8  # different bytes: fewer in 32 random ones happen once in 10^20, and in a made-up key soon
_SETTING: Final = "DISCRETION_STORE_KEY_FILE"


def new_key() -> bytes:
    return noise.Keystream()(_BYTES)


def master_keys(path: Path) -> tuple[bytes, ...]:
    """Every master key of the file, the one that wraps first."""
    try:
        lines = path.read_text(encoding="ascii").split()
        found = tuple(bytes.fromhex(line) for line in lines)
    except (OSError, ValueError):
        raise errors.InvalidSetting(f"The file named by {_SETTING} cannot be read as keys, one a line.") from None
    if not found or any(len(key) != _BYTES for key in found):
        raise errors.InvalidSetting(
            f"The file named by {_SETTING} must hold keys of 64 hexadecimal digits, one a line."
        )
    if any(len(set(key)) < _FEWEST for key in found):
        raise errors.InvalidSetting(
            f"A key in the file named by {_SETTING} is not random; make one: discretion store key"
        )
    return found


def name_of(master: bytes) -> str:
    """So that it can be told which key is meant; nothing about the key follows from it."""
    return hashlib.sha256(b"discretion store key\0" + master).hexdigest()[:16]


def wrap(master: bytes, key: bytes, about: Sequence[Any]) -> dict[str, str]:
    name = name_of(master)
    return {"key": name, "wrapped": seal(master, key, ["key", name, *about]).hex()}


def unwrap(masters: Sequence[bytes], wrapped: Any, about: Sequence[Any]) -> bytes:
    """The dataset's key; `about` must be what it was wrapped with, to the last word."""
    try:
        name, content = str(wrapped["key"]), bytes.fromhex(wrapped["wrapped"])
    except (KeyError, TypeError, ValueError):
        raise errors.StorageFailed("What is stored about a dataset was changed or damaged; restore it.") from None
    for master in masters:
        if name_of(master) == name:
            return unseal(master, content, ["key", name, *about])
    raise errors.StorageFailed(f"A dataset is encrypted under a key that is not in the file named by {_SETTING}.")


def seal(key: bytes, content: bytes | memoryview, about: Sequence[Any]) -> bytes:
    nonce = noise.Keystream()(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, rfc8785.dumps(list(about)))


def unseal(key: bytes, content: bytes, about: Sequence[Any]) -> bytes:
    try:
        return AESGCM(key).decrypt(content[:_NONCE], memoryview(content)[_NONCE:], rfc8785.dumps(list(about)))
    except (InvalidTag, ValueError):
        raise errors.StorageFailed("What is stored of a dataset was changed or damaged; restore it.") from None
