"""The service's signing key: a file nobody else reads, and the public halves of it and of its predecessors.

The private half is a PEM file of mode 600 in the data folder, or wherever the settings say. The public halves stay in
the database for good, so that a certificate outlives the key that signed it.
"""

import contextlib
import json
import os
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from discretion import database, errors, signatures
from discretion.settings import Settings
from discretion.tables import signing_keys


def current(found: Settings) -> signatures.SigningKey:
    """The key that signs from now on: the one the settings give, or the data folder's own."""
    if found.signing_key is not None:
        try:
            return signatures.SigningKey.from_pem(found.signing_key.encode())
        except errors.InvalidCertificate as refusal:
            raise errors.InvalidSetting(f"DISCRETION_SIGNING_KEY cannot be used: {refusal}") from None
    return ensure(found.signing_key_file)


def load(path: Path) -> signatures.SigningKey:
    try:
        if path.stat().st_mode & 0o077:
            raise errors.InvalidSetting("The signing key can be read by others; set its mode to 600.")
        return signatures.SigningKey.from_pem(path.read_bytes())
    except errors.InvalidCertificate as refusal:
        raise errors.InvalidSetting(f"{path.name} in DISCRETION_DATA cannot be used: {refusal}") from None
    except OSError:
        raise errors.InvalidSetting("The signing key in the data folder cannot be read; check whose it is.") from None


def ensure(path: Path) -> signatures.SigningKey:
    """The key in `path`, made now if there is none; whoever comes first makes it."""
    if not path.exists():
        _write(path, signatures.generate_key(), exclusively=True)
    return load(path)


def rotate(found: Settings) -> signatures.SigningKey:
    """Another key from now on; what the old one signed stays valid."""
    if found.signing_key is not None:
        raise errors.InvalidSetting("The settings give the signing key: put another there and restart.")
    made = signatures.generate_key()
    _write(found.signing_key_file, made, exclusively=False)
    return made


def _write(path: Path, key: signatures.SigningKey, *, exclusively: bool) -> None:
    """Whole or not at all: written beside its place, then linked to it (which fails if it is taken) or renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.pem())
        file.flush()
        os.fsync(file.fileno())
    if not exclusively:
        os.replace(temporary, path)
        return
    with contextlib.suppress(FileExistsError):  # another process was quicker, and its key is as good
        os.link(temporary, path)
    temporary.unlink()


def publish(connection: sa.Connection, key: signatures.SigningKey, *, at: datetime) -> bool:
    """Make the public half known, before anything that it signed; whether nobody had done so yet."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    values = {"kid": key.kid, "jwk": json.dumps(key.jwk()), "created_at": database.stamp(at)}
    made = insert(signing_keys).values(values).on_conflict_do_nothing().returning(signing_keys.c.kid)
    return connection.execute(made).one_or_none() is not None


def published(connection: sa.Connection) -> dict[str, object]:
    """Every public half, as a JWKS."""
    wanted = sa.select(signing_keys.c.jwk).order_by(signing_keys.c.created_at, signing_keys.c.kid)
    return {"keys": [json.loads(jwk) for jwk in connection.execute(wanted).scalars()]}
