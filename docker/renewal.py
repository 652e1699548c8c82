"""For docker/check: a certificate that expires. The proxy goes on and says what is wrong, and the renewed one is taken
without breaking off a request."""

import http.client
import json
import re
import socket
import ssl
from collections.abc import Sequence
from typing import Any

import asking
import probes

FILES = tuple(asking.SECRETS / name for name in ("tls-certificate", "tls-key"))


def check(token: str, plan: dict[str, Any]) -> None:
    good = [file.read_text() for file in FILES]
    expired = asking.program("api", probes.EXPIRED).split("\0")
    believing = ssl.create_default_context(cadata=expired[0])
    believing.check_hostname, believing.verify_flags = False, ssl.VerifyFlags.VERIFY_DEFAULT
    body = json.dumps(plan).encode()
    try:
        _present(expired)
        asking.until(lambda: "expired" in _refused(believing), "an expired certificate is believed, or is not shown")
        _said(expired[0])
        begun = _begun(token, body[:10], len(body))
    finally:
        _present(good)
    renewed = ssl.create_default_context(cafile=asking.CA)
    asking.until(lambda: not _refused(renewed), "the renewed certificate is not shown")
    begun.send(body[10:])
    status = begun.getresponse().status
    asking.hold(status == 200, f"a request during which the certificate was renewed was answered {status}")
    code, said = asking.inside("proxy", "healthy")
    asking.hold(code == 0, f"the proxy is not healthy with the renewed certificate: {said}")
    asking.say("the certificate expired and was renewed; the proxy said so, went on, and broke off no request")


def _present(pair: Sequence[str]) -> None:
    """As docker/README.md says: into the files that are there, for a container does not see others in their place."""
    for file, content in zip(FILES, pair, strict=True):
        mode = file.stat().st_mode & 0o777
        file.chmod(0o600)
        file.write_text(content)
        file.chmod(mode)
    code, said = asking.inside("proxy", "nginx", "-s", "reload")
    asking.hold(code == 0, f"nginx cannot be told to read its certificate again: {said}")


def _address() -> tuple[str, int]:
    found = re.fullmatch(r"https://([^:/]+):?(\d*)", asking.URL)
    assert found is not None
    return found[1], int(found[2] or 443)


def _refused(context: ssl.SSLContext) -> str:
    """Why nobody connects who trusts as the context says; nothing if somebody does."""
    host, port = _address()
    try:
        with socket.create_connection((host, port), 10) as bare:
            context.wrap_socket(bare, server_hostname=host).close()
    except ssl.SSLError as refusal:
        return str(refusal)
    return ""


def _said(certificate: str) -> None:
    code, said = asking.inside("proxy", "healthy")
    asking.hold(code == 1 and "expired" in said, f"the proxy's health with an expired certificate: {code} {said}")
    asking.inside("api", "tee", "/tmp/check-tls", given=certificate)
    code, said = asking.inside("api", "discretion", "doctor", "--certificate", "/tmp/check-tls")
    asking.hold(code == 1 and "check-tls ended on" in said, f"the doctor, of an expired certificate: {code} {said}")


def _begun(token: str, half: bytes, length: int) -> http.client.HTTPSConnection:
    """A request of somebody who does not look at certificates, half sent: it is answered when the rest has come."""
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    begun = http.client.HTTPSConnection(*_address(), timeout=60, context=careless)
    begun.putrequest("POST", "/v1/plans")
    for name, value in (("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")):
        begun.putheader(name, value)
    begun.putheader("Content-Length", str(length))
    begun.endheaders(half)
    return begun
