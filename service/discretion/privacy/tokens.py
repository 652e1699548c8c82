"""Identifiers and tokens that are derived from nothing, from the same source as the noise."""

from typing import Final

from discretion.privacy import noise

_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _word(length: int) -> str:
    """Random letters; bytes past the last whole multiple of 62 are dropped, so that all are equally likely."""
    source = noise.Keystream()
    word = ""
    while len(word) < length:
        word += "".join(_LETTERS[byte % 62] for byte in source(64) if byte < 248)
    return word[:length]


def identifier(prefix: str) -> str:
    """An opaque id such as `ds_…`: 22 letters, 131 bits."""
    return f"{prefix}_{_word(22)}"


def identifiers(prefix: str, count: int) -> list[str]:
    """Several at once, of one call to the random source."""
    words = _word(22 * count)
    return [f"{prefix}_{words[start : start + 22]}" for start in range(0, len(words), 22)]


def token(prefix: str = "dk") -> str:
    """A bearer token, or another secret: 43 letters, 256 bits, so that a plain hash of it can be stored."""
    return f"{prefix}_{_word(43)}"
