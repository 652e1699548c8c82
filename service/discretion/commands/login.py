"""Who is signed in where: one address and one token, in a file that only its owner reads.

The environment goes first. A stored token belongs to the address that it was stored with and is shown to no other.
"""

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from discretion import errors, settings

_FILE: Final = "login.json"


@dataclass(frozen=True)
class Login:
    url: str
    token: str = field(repr=False)


class NotSignedIn(errors.Refusal):
    code = "not_signed_in"

    def __init__(self) -> None:
        super().__init__(
            "You are not signed in; run `discretion login URL`, or set DISCRETION_URL and DISCRETION_TOKEN."
        )


def find(environment: Mapping[str, str] = os.environ) -> Login:
    url, token = settings.service_of(environment)
    if url is not None and token is not None:
        return Login(url.rstrip("/"), token)
    kept = _read(settings.config(environment) / _FILE)
    if kept is None or (url is not None and url.rstrip("/") != kept.url):
        raise NotSignedIn
    return Login(kept.url, token or kept.token)


def keep(login: Login, environment: Mapping[str, str] = os.environ) -> Path:
    """Written beside the file and moved into its place, so that nobody ever finds half of it."""
    folder = settings.config(environment)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, made = tempfile.mkstemp(dir=folder, prefix=f".{_FILE}.")  # its mode is 0600 from the beginning
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"url": login.url, "token": login.token}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, folder / _FILE)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)
        raise
    return folder / _FILE


def forget(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there was something to forget."""
    try:
        (settings.config(environment) / _FILE).unlink()
    except FileNotFoundError:
        return False
    return True


def _read(path: Path) -> Login | None:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise errors.InvalidSetting(f"Others can read {path}; run `chmod 600 {path}`, and have the token replaced.")
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Login(str(kept["url"]), str(kept["token"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise errors.InvalidSetting(f"{path} cannot be read; run `discretion login URL` again.") from None
