"""Whose token it is: an API key's, or one of the hospital's identity provider. They are told apart by their shape."""

from dataclasses import dataclass
from datetime import UTC, datetime

from discretion import audit, bearer, errors, identities, keys, sessions
from discretion.api.service import Service
from discretion.keys import Key


@dataclass(frozen=True)
class Bearer:
    key: Key
    until: datetime | None  # the token expires; an API key's does not


def unknown_token() -> errors.Unauthenticated:
    return errors.Unauthenticated("This token is not valid, or it was revoked; ask an administrator for a new key.")


def find(service: Service, token: str) -> Bearer:
    if bearer.is_one(token):
        return _identity(service, token)
    with service.glancing() as connection:
        found = keys.authenticate(connection, token)
    if found is None:
        raise unknown_token()
    return Bearer(found, None)


def _identity(service: Service, token: str) -> Bearer:
    """Nothing is asked of the provider or the database before the token has the right form."""
    if service.provider is None:
        raise errors.Unauthenticated("This service has no identity provider; ask an administrator for a key.")
    found, now = service.provider.settings, datetime.now(UTC)
    kid, algorithm = bearer.named_key(token, found)
    claims = bearer.read(token, service.provider.key(kid, algorithm), algorithm, found, at=now)
    with service.glancing() as connection:
        key = identities.find(connection, claims)
    if key is None:
        with service.writing() as connection:
            key = identities.admit(connection, claims, at=now)
    return Bearer(key, claims.expires_at)


def begin_session(service: Service, token: str, before: str | None) -> sessions.Session:
    """One of the token's bearer, in the place of the one that the browser had before."""
    found = find(service, token)  # only reads: whoever guesses tokens must not take turns with those who write
    service.pace.check(found.key.id)
    now = datetime.now(UTC)
    if found.until is not None and found.until <= now:  # which a clock's difference excuses, but for one request only
        raise errors.Unauthenticated("Your token has expired; get a new one from the identity provider.")
    with service.writing() as connection:
        if before is not None:
            sessions.end(connection, before)
        if found.until is None:
            made = sessions.begin(connection, token, at=now)
        else:
            made = sessions.begin_for(connection, found.key, at=now, until=found.until)
        if made is not None:
            audit.record(connection, made.key.id, "session.begin", made.key.id, at=now)
    if made is None:  # revoked since the lines above
        raise unknown_token()
    return made


def is_vouched_for(service: Service, key: Key) -> bool:
    """A key is by itself; an identity as long as its provider is this service's."""
    return key.issuer is None or (service.provider is not None and service.provider.settings.issuer == key.issuer)
