"""What is wrong with a service, and what to do about it: settings, files, clock, database, store, cluster, keys,
provider, disk.

Every check looks and changes nothing but a probe that it removes. None opens a dataset. A check that fails does not
keep the others from being made.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
import sqlalchemy as sa
from cryptography import x509

from discretion import database, datasets, errors, heads, ledger, provider, shelves, signing, summing
from discretion.settings import Settings

OK: Final = "ok"
WARN: Final = "warn"
BAD: Final = "BAD"

_SKEW: Final = timedelta(seconds=2)  # between this machine and the database
_LITTLE: Final = 5 * 2**30  # bytes: an upload takes three times its size while it is checked
_SOON: Final = timedelta(days=30)
_LONG: Final = timedelta(days=2)  # since a backup
# What keeps rows from being changed, by database: as the first migration makes them.
_APPEND_ONLY: Final = ("audit", "drawn", "ledger", "releases", "signing_keys")


@dataclass(frozen=True)
class Finding:
    check: str
    state: str
    words: str


class _Trouble(Exception):
    """Not as it should be; the sentence says what to do."""

    def __init__(self, words: str, state: str = BAD) -> None:
        super().__init__(words)
        self.state = state


def examine(found: Settings, *, tls: Path | None = None) -> Iterator[Finding]:
    """One finding for each check, in an order in which the first that is bad may explain the others."""
    engine = database.engine(found.database_url)
    checks: dict[str, Callable[[], str]] = {
        "data folder": lambda: _private(found.data),
        "database": lambda: _database(engine),
        "triggers": lambda: _triggers(engine),
        "ledger": lambda: _ledger(engine),
        "clock": lambda: _clock(engine),
        "store": lambda: _store(found),
        "signing key": lambda: _signing_key(found, engine),
        "identity provider": lambda: _provider(found),
        "authorities": lambda: _authorities(found),
        "tls certificate": lambda: _tls(tls),
        "heads": lambda: _heads(found, engine),
        "disk": lambda: _disk(found),
        "backup": lambda: _backup(engine),
    }
    if found.cluster is not None:
        checks["cluster"] = lambda: summing.check(found)
    for name, check in checks.items():
        yield _found(name, check)
    engine.dispose()


def _found(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, OK, check())
    except _Trouble as trouble:
        return Finding(name, trouble.state, str(trouble))
    except (errors.Refusal, errors.LedgerDamaged) as refusal:
        return Finding(name, BAD, str(refusal))
    except sa.exc.SQLAlchemyError:
        return Finding(name, BAD, "The database did not answer this; mend the first line about it.")
    except OSError as trouble:
        return Finding(name, BAD, f"{trouble.strerror}: {trouble.filename}.")


def _private(folder: Path) -> str:
    if not folder.is_dir():
        raise _Trouble("DISCRETION_DATA is not there; start the service once, or name the right folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _Trouble("DISCRETION_DATA cannot be written by this user; give it to the service's user.")
    # One level: what lies deeper is behind these.
    for path in (folder, *sorted(folder.iterdir())):
        status = path.lstat()
        if status.st_mode & 0o077 and not stat.S_ISLNK(status.st_mode):
            what = "DISCRETION_DATA" if path == folder else f"{path.name} in DISCRETION_DATA"
            raise _Trouble(f"{what} is open to other users; run: chmod -R go= on it.")
        if status.st_uid != folder.stat().st_uid:
            raise _Trouble(f"{path.name} in DISCRETION_DATA belongs to another user; chown it to the service's.", WARN)
    return "Only its owner can read and write it."


def _database(engine: sa.Engine) -> str:
    database.check(engine)
    with database.snapshot(engine) as connection:
        return f"{engine.dialect.name} answers, at revision {database.revision(connection)}."


def _triggers(engine: sa.Engine) -> str:
    if engine.dialect.name == "sqlite":
        question = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        wanted = {f"{table}_no_{change}" for table in _APPEND_ONLY for change in ("update", "delete")}
    else:
        question = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
        wanted = {f"{table}_append_only" for table in _APPEND_ONLY}
    with database.snapshot(engine) as connection:
        present = set(connection.execute(sa.text(question)).scalars())
    if missing := sorted((wanted | {"ledger_head"}) - present):
        raise _Trouble(f"Somebody has taken away {', '.join(missing)}; restore a backup, and ask who.")
    return "The database refuses to change what must not change."


def _ledger(engine: sa.Engine) -> str:
    with database.snapshot(engine) as connection:
        return f"Ledgers that add up: {ledger.verify_all(connection)}."


def _clock(engine: sa.Engine) -> str:
    """Leases are measured by the database's clock, schedules by this machine's: neither may jump."""
    wall, steady = datetime.now(UTC), time.monotonic()
    with database.snapshot(engine) as connection:
        theirs = database.clock(connection)
    between = wall + timedelta(seconds=time.monotonic() - steady) / 2
    if abs(theirs - between) > _SKEW:
        raise _Trouble(f"This machine and the database are {theirs - between} apart; let both keep time (NTP).")
    newest = sa.text("SELECT max(at) FROM ledger")
    with database.snapshot(engine) as connection:
        last = connection.execute(newest).scalar()
    if last is not None and datetime.fromisoformat(last) > datetime.now(UTC) + _SKEW:
        raise _Trouble(
            "The newest row of the ledger is from the future: the clock was put back; let it keep time.", WARN
        )
    return "This machine, the database and the ledger agree on the time."


def _store(found: Settings) -> str:
    datasets.probe(found)
    with contextlib.closing(shelves.opened(found)) as shelf:
        kept = shelf.store.keeps_what_is_deleted()
    if kept:
        raise _Trouble(
            "The bucket keeps versions, and these credentials may not list and delete them: what is retired stays "
            "there. Allow s3:ListBucketVersions and s3:DeleteObjectVersion, and retire again what was retired "
            "meanwhile; or let a rule of the store delete old versions soon.",
            WARN,
        )
    return "The store can be written."


def _signing_key(found: Settings, engine: sa.Engine) -> str:
    if found.signing_key is None and not found.signing_key_file.exists():
        raise _Trouble("There is no signing key yet; the service makes one when it starts.", WARN)
    key = signing.current(found)
    with database.snapshot(engine) as connection:
        published = signing.published(connection)["keys"]
    if key.kid not in {jwk["kid"] for jwk in published}:  # type: ignore[attr-defined]
        raise _Trouble("The signing key is not published; start the service with it, or put the right one back.", WARN)
    return f"Certificates are signed with {key.kid}, which is published."


def _provider(found: Settings) -> str:
    """Asked as the service asks it, for its public keys alone."""
    if found.provider is None:
        return "None is named (DISCRETION_OIDC_ISSUER): who comes in has an API key."
    try:
        keys = provider.fetch(found.provider)
    except provider.Unusable as unusable:
        raise _Trouble(
            f"The provider cannot be used: {unusable}; mend it, or the DISCRETION_OIDC_… settings."
        ) from None
    except httpx.HTTPError as failure:
        why = "its certificate is not believed" if "CERTIFICATE_VERIFY_FAILED" in str(failure) else "it does not answer"
        raise _Trouble(
            f"The provider cannot be asked for its keys: {why}; nobody comes in with its tokens. Look at "
            "DISCRETION_OIDC_ISSUER, DISCRETION_OIDC_CA_FILE and the way to its host."
        ) from None
    if not keys:
        raise _Trouble("The provider has no key for DISCRETION_OIDC_ALGORITHMS: none of its tokens lets anybody in.")
    return f"Usable keys that it offers: {len(keys)}."


def _authorities(found: Settings) -> str:
    """Files of certificates that the settings believe: one that ends closes the way to a store or a provider."""
    oidc = None if found.provider is None else found.provider.ca_file
    named = {"DISCRETION_S3_CA_FILE": found.s3_ca_file, "DISCRETION_OIDC_CA_FILE": oidc}
    said = [f"{name}: {_lasting(path, 'ask for the new one')}" for name, path in named.items() if path is not None]
    return " ".join(said) or "No setting names a file of them; this machine's own are believed."


def _heads(found: Settings, engine: sa.Engine) -> str:
    heads.check(found.heads)
    heads.refuse_rolled_back(engine, found.heads)
    with database.snapshot(engine) as connection:
        unknown = heads.missing(connection, found.heads)
    if unknown:
        raise _Trouble(
            f"Ledgers without a head in DISCRETION_HEADS: {len(unknown)}, so a restore would have to be told that "
            "nothing is missing; start the service, which puts them there, or bring the folder back.",
            WARN,
        )
    if found.heads.resolve().is_relative_to(found.data.resolve()):
        raise _Trouble(
            "Ledger heads are kept beside what they are about; point DISCRETION_HEADS to another disk, so that a "
            "restore cannot forget a charge.",
            WARN,
        )
    return "Ledger heads are put elsewhere than the data."


def _disk(found: Settings) -> str:
    free = shutil.disk_usage(found.data).free
    if free < _LITTLE:
        raise _Trouble(f"{free >> 20} MB are free in DISCRETION_DATA; make room for uploads.", WARN)
    return f"{free >> 30} GB are free."


def _backup(engine: sa.Engine) -> str:
    with database.snapshot(engine) as connection:
        last = connection.execute(sa.text("SELECT max(at) FROM audit WHERE action = 'service.backup'")).scalar()
    if last is None or datetime.now(UTC) - datetime.fromisoformat(last) > _LONG:
        when = "never" if last is None else f"last on {last[:10]}"
        raise _Trouble(f"A backup was made {when}; run `discretion backup DIR` every day.", WARN)
    return f"Made on {last[:10]}."


def _tls(path: Path | None) -> str:
    if path is None:
        raise _Trouble("Nobody has looked at it; name the proxy's file: discretion doctor --certificate FILE.", WARN)
    return _lasting(path, "put a new one in its place and reload the proxy")


def _lasting(path: Path, advice: str) -> str:
    """Until when certificates last; the first of a file that ends counts."""
    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError:
        raise _Trouble(f"{path.name} holds no certificate in PEM.") from None
    ends = min(each.not_valid_after_utc for each in certificates)
    if ends < datetime.now(UTC):
        raise _Trouble(f"{path.name} ended on {ends:%Y-%m-%d}; {advice}.")
    if ends < datetime.now(UTC) + _SOON:
        raise _Trouble(f"{path.name} ends on {ends:%Y-%m-%d}; order the next one.", WARN)
    return f"It is good until {ends:%Y-%m-%d}."
