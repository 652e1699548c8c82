"""What the browser checks by itself, against what the command line checks: the same texts, sums and refusals."""

import base64
import copy
import json
import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import rfc8785
from playwright.sync_api import Page

from discretion import certificates, errors, signatures
from discretion.privacy import events
from tests.api.hospital import Hospital
from tests.services import Service
from tests.web.conftest import Visits

Document = dict[str, Any]

TEXTS = ["", "ρ \u2028 \x7f", '"\\/\b\f\n\r\t\x00\x1f', "\U0001f600", "€", "<script>", "\ufb33"]
NUMBERS = [
    0,
    -0.0,
    1,
    -1,
    1e21,
    1e20,
    1e-6,
    1e-7,
    0.1 + 0.2,
    5e-324,
    1.7976931348623157e308,
    2**53 - 1,
    2.0**53,
    123456789.125,
]


@pytest.fixture
def page(visit: Visits, service: Service) -> Page:
    found = visit().page
    found.goto(service.url)
    return found


def call(page: Page, name: str, *given: Any) -> Any:
    """A function of the page's own module."""
    act = "async ([name, given]) => (await import('/assets/jws.js'))[name](...given)"
    return page.evaluate(act, [name, list(given)])


class TestCanonical:
    def test_is_rfc_8785_to_the_byte(self, page: Page):
        draw = random.Random(8785)
        floats = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(3000)]
        document: Any = {
            "numbers": [*NUMBERS, *filter(math.isfinite, floats)],
            "texts": TEXTS,
            "keys": dict.fromkeys(TEXTS) | {"10": True, "9": False, "__proto__": [[]]},
        }
        # As text, so that no number is rounded on its way into the browser.
        act = (
            "async text => { const jws = await import('/assets/jws.js'); return jws.canonical(jws.parse(text, 'x')); }"
        )
        assert page.evaluate(act, json.dumps(document)).encode() == rfc8785.dumps(document)


class TestComposed:
    def test_adds_up_as_the_service_does(self, page: Page):
        draw = random.Random(1)
        kinds = (events.GAUSSIAN, events.SYMMETRIC_GAUSSIAN, events.LAPLACE)
        for _ in range(20):
            done = [
                events.Event(
                    draw.choice(kinds),
                    f"statistic {number}",
                    (2,),
                    Fraction(draw.randint(1, 10**12), draw.randint(1, 10**9)),
                    Fraction(draw.randint(1, 10**12), draw.randint(1, 10**9)),
                    part=draw.choice(events.PARTS),
                )
                for number in range(draw.randint(1, 8))
            ]
            act = """async mechanisms => {
                const { rho, pure } = (await import("/assets/jws.js")).composed(mechanisms);
                return [rho.join("/"), pure && pure.join("/")];
            }"""
            rho, pure = page.evaluate(act, [certificates.mechanism_document(event) for event in done])
            assert Fraction(rho) == events.compose(done)
            assert (None if pure is None else Fraction(pure)) == certificates.pure_epsilon(done)


def bytes_of(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def header(**changes: Any) -> Callable[[Document, Document], None]:
    def change(certificate: Document, keys: Document) -> None:
        said = json.loads(bytes_of(certificate["protected"])) | changes
        certificate["protected"] = base64.urlsafe_b64encode(rfc8785.dumps(said)).rstrip(b"=").decode()

    return change


def renamed(certificate: Document, keys: Document) -> None:
    keys["keys"][0]["x"] = signatures.generate_key().jwk()["x"]


SPOILT: dict[str, Callable[[Document, Document], Any]] = {
    "no algorithm": header(alg="none"),
    "another algorithm": header(alg="HS256"),
    "another type": header(typ=signatures.LEDGER_HEAD),
    "an extension": header(crit=["x"]),
    "another key's name": header(kid="x"),
    "padding": lambda certificate, keys: certificate.update(signature=certificate["signature"] + "=="),
    "another alphabet": lambda certificate, keys: certificate.update(payload="+" + certificate["payload"][1:]),
    "an unprotected header": lambda certificate, keys: certificate.update(header={}),
    "no signature": lambda certificate, keys: certificate.update(signature=""),
    "another signature": lambda certificate, keys: certificate.update(signature="A" * 86),
    "a payload of somebody else's": lambda certificate, keys: certificate.update(payload="e30"),
    "no keys": lambda certificate, keys: keys.update(keys=[]),
    "the key twice": lambda certificate, keys: keys["keys"].append(keys["keys"][0]),
    "a list among the keys": lambda certificate, keys: keys["keys"].append([]),
    "a private key": lambda certificate, keys: keys["keys"][0].update(d="x"),
    "a key for something else": lambda certificate, keys: keys["keys"][0].update(use="enc"),
    "a key under another's name": renamed,
}


@pytest.fixture(scope="module")
def papers(hospital: Hospital) -> tuple[str, Document, Document]:
    path = f"/v1/policies/{hospital.own.policy}"
    found = (hospital.auditor.get(address) for address in (path, f"{path}/certificate", "/v1/certificate-keys"))
    policy, certificate, keys = found
    return policy.text, certificate.json(), keys.json()


def examined(page: Page, policy: str, certificate: Document, keys: Document) -> Document:
    return call(page, "examined", policy, json.dumps(certificate), keys, None)


class TestSignature:
    def test_whatever_the_command_refuses_the_browser_refuses(self, page: Page, papers: tuple[str, Document, Document]):
        for name, spoil in SPOILT.items():
            policy, certificate, keys = copy.deepcopy(papers)
            spoil(certificate, keys)
            with pytest.raises(errors.InvalidCertificate):
                certificates.verify(policy, json.dumps(certificate), json.dumps(keys))
            found = examined(page, policy, certificate, keys)
            assert found["payload"] is None, name
            assert [check["state"] for check in found["checks"]] == ["fails", "open", "open", "open"], name


def smaller(text: str) -> str:
    value = Fraction(text) / 2
    return f"{value.numerator}/{value.denominator}"


def noisier(payload: Document) -> None:
    """A smaller cost in one place only, as if there had been more noise."""
    payload["mechanisms"][0]["rho"] = smaller(payload["mechanisms"][0]["rho"])


FORGED: dict[str, tuple[Callable[[Document], Any], str]] = {
    "a release left out": (lambda payload: payload["mechanisms"].pop(), "add up to"),
    "a release that costs less": (noisier, "misstates what the release"),
    "a smaller sum": (lambda payload: payload["privacy"].update(rho=smaller(payload["privacy"]["rho"])), "add up to"),
    "less charged": (lambda payload: payload["privacy"].update(charged_rho="0.1"), "less than the releases cost"),
    "nothing further": (lambda payload: payload["privacy"].update(further_rho="0"), "charged further"),
    "a smaller ε": (lambda payload: payload["privacy"]["epsilon"][1].update(epsilon="1.000"), "the ρ means ε"),
    "another mechanism": (lambda payload: payload["mechanisms"][0].update(mechanism="magic"), "no mechanism"),
    "another version": (lambda payload: payload.update(version=2), "version"),
    "no ε": (lambda payload: payload["privacy"].update(epsilon=[]), "leaves out an ε"),
    "a promise of its own": (lambda payload: payload.update(better_promise="ε = 0"), "unknown or missing fields"),
    "two things at once": (lambda payload: payload.update(evaluation=payload["policy"]), "unknown or missing fields"),
    "nothing at all": (lambda payload: payload.update(mechanisms=[]), "lists no mechanism"),
}


class TestSum:
    @pytest.mark.parametrize("name", FORGED)
    def test_that_was_misstated_is_found_whoever_signed_it(
        self, page: Page, papers: tuple[str, Document, Document], name: str
    ):
        policy, certificate, _ = papers
        forge, sentence = FORGED[name]
        payload = json.loads(bytes_of(certificate["payload"]))
        forge(payload)
        key = signatures.generate_key()
        found = examined(page, policy, signatures.sign(payload, key), signatures.jwks([key]))
        assert [check["state"] for check in found["checks"]] == ["holds", "holds", "fails", "open"]
        assert sentence in found["checks"][2]["says"]
