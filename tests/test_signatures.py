"""Only one form of signature is accepted, and only of a key that is what the list says."""

import base64
import hmac
import json
from typing import Any

import pytest
import rfc8785

from discretion import certificates, errors, signatures
from tests.certified import KEY, KEYS, ROGUE, STRANGER, encoded, made, payload_of, put, refusal, signed, verify


class TestVerifyRefusesSignatures:
    def test_of_a_key_that_is_not_listed(self) -> None:
        certificate = made("gaussian").certify(key=STRANGER)
        assert "key list does not hold" in refusal(certificate)

    def test_of_another_listed_key(self) -> None:
        true = made("gaussian").certificate
        protected = encoded({"alg": "EdDSA", "kid": ROGUE.kid, "typ": signatures.TYPE})
        assert "signature does not belong" in refusal(true | {"protected": protected})

    def test_under_a_changed_payload(self) -> None:
        for change in (put("request", "units", 61), put("ledger", "sequence", 8), put("software", "version", "9")):
            payload = payload_of(made("gaussian").certificate)
            change(payload)
            assert "signature does not belong" in refusal(made("gaussian").certificate | {"payload": encoded(payload)})

    def test_with_a_flipped_bit(self) -> None:
        raw = bytearray(base64.urlsafe_b64decode(made("gaussian").certificate["signature"] + "=="))
        raw[5] ^= 1
        assert "signature does not belong" in refusal(made("gaussian").certificate | {"signature": encoded(bytes(raw))})

    @pytest.mark.parametrize("alg", ["none", "None", "HS256", "ES256", "RS256", "Ed25519", "", None, 1, ["EdDSA"]])
    def test_of_another_algorithm(self, alg: Any) -> None:
        payload = rfc8785.dumps(payload_of(made("gaussian").certificate))
        assert "another algorithm" in refusal(signed(payload, alg=alg))

    def test_none_without_a_signature(self) -> None:
        certificate = signed(rfc8785.dumps(payload_of(made("gaussian").certificate)), alg="none")
        assert refusal(certificate | {"signature": ""})

    def test_made_with_the_public_key_as_a_secret(self) -> None:
        certificate = signed(b"{}", alg="HS256")
        secret = ROGUE.private.public_key().public_bytes_raw()
        text = f"{certificate['protected']}.{certificate['payload']}".encode()
        mac = encoded(hmac.digest(secret, text, "sha256"))
        assert "another algorithm" in refusal(certificate | {"signature": mac})

    def test_with_critical_extensions(self) -> None:
        payload = rfc8785.dumps(payload_of(made("gaussian").certificate))
        assert "crit" in refusal(signed(payload, crit=["b64"], b64=False))

    @pytest.mark.parametrize("header", [{"typ": "JWT"}, {"typ": None}, {"jwk": {}}, {"b64": True}, {"kid": None}])
    def test_with_another_header(self, header: dict[str, Any]) -> None:
        payload = rfc8785.dumps(payload_of(made("gaussian").certificate))
        assert "protected header" in refusal(signed(payload, **header))

    def test_with_an_unprotected_header(self) -> None:
        assert "exactly" in refusal(made("gaussian").certificate | {"header": {"kid": KEY.kid}})

    @pytest.mark.parametrize("part", ["payload", "protected", "signature"])
    def test_with_a_part_that_is_no_base64url(self, part: str) -> None:
        true = made("gaussian").certificate[part]
        for wrong in ("", "*", true + "=", true + "\n", " " + true, true[:-1] + "é", None, 5, [true], true[:-2]):
            assert refusal(made("gaussian").certificate | {part: wrong})

    def test_in_a_text_that_is_truncated_or_no_json(self) -> None:
        text = json.dumps(made("gaussian").certificate)
        for wrong in (text[:-1], text[: len(text) // 2], "", "null", "[]", '"x"', b"\xff\xfe", "[" * 100_000, "{}"):
            with pytest.raises(errors.InvalidCertificate):
                certificates.verify(made("gaussian").text, wrong, KEYS)

    def test_in_a_text_with_a_part_twice(self) -> None:
        text = json.dumps(made("gaussian").certificate)
        with pytest.raises(errors.InvalidCertificate, match="stands twice"):
            certificates.verify(made("gaussian").text, text[:-1] + ', "signature": "AA"}', KEYS)


class TestKeys:
    def test_the_list_is_public(self) -> None:
        listed = certificates.jwks([KEY, ROGUE])
        assert [set(key) for key in listed["keys"]] == [{"kty", "crv", "x", "kid", "alg", "use"}] * 2
        secret = KEY.private.private_bytes_raw()
        assert encoded(secret) not in json.dumps(listed)
        assert secret.hex() not in json.dumps(listed)
        assert encoded(secret) not in repr(KEY)

    def test_a_key_survives_its_file(self) -> None:
        again = certificates.SigningKey.from_pem(KEY.pem())
        assert again.jwk() == KEY.jwk()
        assert made("gaussian").certify(key=again) == made("gaussian").certificate

    def test_what_is_no_key_file_is_refused(self) -> None:
        for text in (b"", b"-----BEGIN PRIVATE KEY-----\n", KEY.pem()[:60]):
            with pytest.raises(errors.InvalidCertificate, match="Ed25519"):
                certificates.SigningKey.from_pem(text)

    def test_the_thumbprint_is_the_one_of_the_standard(self) -> None:
        """RFC 8037, A.3."""
        public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
        assert signatures._thumbprint(public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

    @pytest.mark.parametrize(
        "change",
        [
            {"kty": "oct"},
            {"kty": None},
            {"crv": "X25519"},
            {"alg": "HS256"},
            {"use": "enc"},
            {"x": ROGUE.jwk()["x"]},
            {"x": "AA"},
            {"x": 3},
            {"d": "AA"},
            {"kid": "mine"},
        ],
    )
    def test_a_key_that_is_not_what_it_says_is_refused(self, change: dict[str, Any]) -> None:
        assert refusal(made("gaussian").certificate, keys=json.dumps({"keys": [KEY.jwk() | change]}))

    def test_a_list_that_is_none_is_refused(self) -> None:
        for keys in ("", "[]", "{}", '{"keys": 3}', '{"keys": [3]}', '{"keys": []}'):
            assert refusal(made("gaussian").certificate, keys=keys)
        assert refusal(made("gaussian").certificate, keys=json.dumps({"keys": [KEY.jwk(), KEY.jwk()]}))

    def test_keys_of_other_kinds_beside_it_do_not_matter(self) -> None:
        verify(made("gaussian").certificate, keys=json.dumps({"keys": [{"kty": "RSA", "n": "AQ"}, KEY.jwk()]}))
