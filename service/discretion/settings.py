"""What the environment says: the only room that reads it.

Every setting is `DISCRETION_NAME`; a secret may stand in a file named by `DISCRETION_NAME_FILE` instead. A name that is
not known is refused: a misspelt setting that is silently ignored is how a service ends up on the wrong database.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from discretion import errors

_PREFIX: Final = "DISCRETION_"
_FILE: Final = "_FILE"
_NAMES: Final = ("DATA", "DATABASE_URL")
_SECRETS: Final = ("DATABASE_URL",)  # it may hold a password


@dataclass(frozen=True)
class Settings:
    data: Path  # the embedded folder: database, datasets, keys
    database_url: str

    def __repr__(self) -> str:
        return f"Settings(data={str(self.data)!r}, database_url=…)"  # a password must not reach a log


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    known = {_PREFIX + name for name in _NAMES} | {_PREFIX + name + _FILE for name in _SECRETS}
    for name in sorted(environment):
        if name.startswith(_PREFIX) and name not in known:
            raise errors.InvalidSetting(f"There is no setting {name}; the settings are {', '.join(sorted(known))}.")
    data = Path(environment.get(_PREFIX + "DATA") or "discretion-data").absolute()
    return Settings(data, _secret(environment, "DATABASE_URL") or f"sqlite:///{data / 'discretion.db'}")


def _secret(environment: Mapping[str, str], name: str) -> str | None:
    plain, file = environment.get(_PREFIX + name), environment.get(_PREFIX + name + _FILE)
    if plain and file:
        raise errors.InvalidSetting(f"Set {_PREFIX}{name} or {_PREFIX}{name}{_FILE}, not both.")
    if not file:
        return plain
    try:
        content = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise errors.InvalidSetting(f"The file named by {_PREFIX}{name}{_FILE} cannot be read.") from None
    if not content:
        raise errors.InvalidSetting(f"The file named by {_PREFIX}{name}{_FILE} is empty.")
    return content
