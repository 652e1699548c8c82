"""What the environment says: the only room that reads it.

Every setting is `DISCRETION_NAME`; a secret may stand in a file named by `DISCRETION_NAME_FILE` instead. A name that is
not known is refused: a misspelt setting that is silently ignored is how a service ends up on the wrong database.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from discretion import errors, oidc

_PREFIX: Final = "DISCRETION_"
_FILE: Final = "_FILE"
_SECRETS: Final = ("DATABASE_URL", "SIGNING_KEY", "METRICS_TOKEN", "S3_ACCESS_KEY", "S3_SECRET_KEY")
_TLS: Final = ("CLUSTER_CA_FILE", "CLUSTER_CERTIFICATE_FILE", "CLUSTER_KEY_FILE")
_PATHS: Final = ("WORK", "STORE_KEY_FILE", "S3_CA_FILE", *_TLS)
_SHORTEST_TOKEN: Final = 24
_MOST_PORT: Final = 65535

# name: (default, least, most, what it means)
_NUMBERS: Final = {
    "PORT": (8000, 0, _MOST_PORT, "the port to listen on; 0 takes a free one"),
    "WORKERS": (1, 0, 64, "trainings that one `discretion serve` or `discretion work` runs at once"),
    "TRAINING_PROCESSORS": (0, 0, 65536, "of one training; 0 is an equal share of what the process may use"),
    "TRAINING_MEGABYTES": (0, 0, 100_000_000, "memory of one training; 0 is what the machine has"),
    "CLUSTER_MEGABYTES": (0, 0, 100_000_000, "memory that each machine of the cluster has at least; 0 is unknown"),
    "LEASE_SECONDS": (15, 2, 3600, "how long after a worker's death its training is taken over"),
    "REQUESTS_PER_SECOND": (200, 1, 1_000_000, "of one key, before it is told to wait"),
    "MAX_BODY_MEGABYTES": (32, 1, 1024, "of a JSON request"),
    "MAX_UPLOAD_MEGABYTES": (65536, 1, 10_000_000, "of an upload"),
    "UPLOADS": (4, 1, 64, "at once"),
    "STALL_SECONDS": (60, 1, 3600, "an upload may pause before it is given up"),
}
# name: (default, every other value, what it means)
_CHOICES: Final = {
    "LOG_FORMAT": ("text", ("json",), "lines for people, or one JSON object a line"),
    "MIGRATE": ("true", ("false",), "whether `discretion serve` brings the database up to its own version"),
}
_NAMES: Final = ("DATA", "HOST", "STORE", "HEADS", "CLUSTER", *_PATHS, *_NUMBERS, *_CHOICES, *_SECRETS, *oidc.NAMES)
_CLIENT: Final = ("URL", "TOKEN", "TOKEN" + _FILE)  # of commands that speak to a service; the service itself has no use


@dataclass(frozen=True)
class Cluster:
    """Where sums are made instead of in the training's own process, and what this machine shows there."""

    address: str  # of the scheduler
    ca_file: Path
    certificate_file: Path
    key_file: Path

    @property
    def host(self) -> str:
        return str(urlsplit(self.address).hostname)

    @property
    def port(self) -> int:
        return int(urlsplit(self.address).port or 0)


@dataclass(frozen=True)
class Settings:
    data: Path  # the embedded folder: database, datasets, signing key
    store: str | None  # a URL; None is the folder's own `datasets`
    work: Path  # where uploads are while they are checked
    store_key_file: Path | None  # the master keys of datasets; None leaves them in the clear
    s3_access_key: str | None = field(repr=False)
    s3_secret_key: str | None = field(repr=False)
    s3_ca_file: Path | None
    heads: Path  # where signed heads of the ledgers are put after each charge
    database_url: str = field(repr=False)  # may hold a password, which must not reach a log
    signing_key: str | None = field(repr=False)
    metrics_token: str | None = field(repr=False)
    host: str
    port: int
    workers: int
    training_processors: int
    training_megabytes: int
    cluster_megabytes: int
    lease_seconds: int
    requests_per_second: int
    max_body_megabytes: int
    max_upload_megabytes: int
    uploads: int
    stall_seconds: int
    log_format: str
    migrates: bool
    provider: oidc.Oidc | None = None  # of identities, beside API keys
    cluster: Cluster | None = None  # None: Dask is not even imported

    @property
    def datasets(self) -> Path:
        """Where they lie unless `store` says otherwise."""
        return self.data / "datasets"

    @property
    def processors_file(self) -> Path:
        """By which workers know whose processors are whose."""
        return self.data / "processors"

    @property
    def signing_key_file(self) -> Path:
        return self.data / "signing-key.pem"


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    known = {_PREFIX + name for name in _NAMES} | {_PREFIX + name + _FILE for name in _SECRETS}
    for name in sorted(environment):
        if name.startswith(_PREFIX) and name not in known and name.removeprefix(_PREFIX) not in _CLIENT:
            raise errors.InvalidSetting(f"There is no setting {name}; the settings are {', '.join(sorted(known))}.")
    data = _folder(environment, "DATA") or Path("discretion-data").absolute()
    token = _secret(environment, "METRICS_TOKEN")
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise errors.InvalidSetting(f"DISCRETION_METRICS_TOKEN needs at least {_SHORTEST_TOKEN} characters.")
    return Settings(
        data=data,
        store=environment.get(_PREFIX + "STORE") or None,
        work=_path(environment, "WORK") or data / "work",
        store_key_file=_path(environment, "STORE_KEY_FILE"),
        s3_ca_file=_path(environment, "S3_CA_FILE"),
        s3_access_key=_secret(environment, "S3_ACCESS_KEY"),
        s3_secret_key=_secret(environment, "S3_SECRET_KEY"),
        heads=_folder(environment, "HEADS") or data / "heads",
        database_url=_secret(environment, "DATABASE_URL") or f"sqlite:///{data / 'discretion.db'}",
        signing_key=_secret(environment, "SIGNING_KEY"),
        metrics_token=token,
        host=environment.get(_PREFIX + "HOST") or "127.0.0.1",
        provider=oidc.read({name: environment.get(_PREFIX + name, "") for name in oidc.NAMES}),
        cluster=_cluster(environment),
        log_format=_choice(environment, "LOG_FORMAT"),
        migrates=_choice(environment, "MIGRATE") == "true",
        **{name.lower(): _number(environment, name) for name in _NUMBERS},
    )


def _cluster(environment: Mapping[str, str]) -> Cluster | None:
    """All of it or nothing: sums that fell back on plain TCP would show patients' totals to the network."""
    address, files = environment.get(_PREFIX + "CLUSTER"), [_path(environment, name) for name in _TLS]
    named = [file for file in files if file is not None]
    if not address and not named:
        return None
    named_port = re.fullmatch(r"tls://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):([1-9][0-9]{0,4})", address or "")
    if named_port is None or int(named_port[1]) > _MOST_PORT:
        raise errors.InvalidSetting(f"{_PREFIX}CLUSTER must be tls://host:port, the address of Dask's scheduler.")
    if len(named) < len(_TLS):
        raise errors.InvalidSetting(
            f"{_PREFIX}CLUSTER needs the cluster's authority and this machine's certificate and key: set "
            f"{', '.join(_PREFIX + name for name in _TLS)}."
        )
    return Cluster(str(address), *named)


def _folder(environment: Mapping[str, str], name: str) -> Path | None:
    """A folder that is there, or may be made."""
    text = environment.get(_PREFIX + name)
    if not text:
        return None
    path = Path(text).absolute()
    if "\0" in text or (path.exists() and not path.is_dir()):
        raise errors.InvalidSetting(f"{_PREFIX}{name} must name a folder, and what it names is none.")
    return path


def _choice(environment: Mapping[str, str], name: str) -> str:
    default, others, meaning = _CHOICES[name]
    text = environment.get(_PREFIX + name) or default
    if text not in (default, *others):
        raise errors.InvalidSetting(f"{_PREFIX}{name} ({meaning}) must be {' or '.join((default, *others))}.")
    return text


def service_of(environment: Mapping[str, str] = os.environ) -> tuple[str | None, str | None]:
    """The address and the token of the service that commands speak to, where the environment names them."""
    return environment.get(_PREFIX + "URL") or None, _secret(environment, "TOKEN")


def config(environment: Mapping[str, str] = os.environ) -> Path:
    """A person's own folder for what this program keeps between commands (XDG)."""
    given = environment.get("XDG_CONFIG_HOME", "")
    home = Path(given) if given.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".config"
    return home / "discretion"


def _number(environment: Mapping[str, str], name: str) -> int:
    default, least, most, meaning = _NUMBERS[name]
    text = environment.get(_PREFIX + name) or str(default)
    if not text.isascii() or not text.isdigit() or len(text) > 12 or not least <= int(text) <= most:
        raise errors.InvalidSetting(f"{_PREFIX}{name} ({meaning}) must be a whole number from {least} to {most}.")
    return int(text)


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    given = environment.get(_PREFIX + name)
    return Path(given).absolute() if given else None


def _secret(environment: Mapping[str, str], name: str) -> str | None:
    plain, file = environment.get(_PREFIX + name), environment.get(_PREFIX + name + _FILE)
    if plain and file:
        raise errors.InvalidSetting(f"Set {_PREFIX}{name} or {_PREFIX}{name}{_FILE}, not both.")
    if not file:
        return plain or None
    try:
        content = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise errors.InvalidSetting(f"The file named by {_PREFIX}{name}{_FILE} cannot be read.") from None
    if not content:
        raise errors.InvalidSetting(f"The file named by {_PREFIX}{name}{_FILE} is empty.")
    return content
