"""Tokens of an identity provider: what is believed, and everything else."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from discretion import bearer, errors, oidc
from tests import providers

ISSUER = "https://id.hospital.example/realms/care"
KEYS = {algorithm: providers.new_key(algorithm) for algorithm in oidc.ALGORITHMS}
KID = "the key"
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a moment of its own: a whole run takes longer than tokens live."""
    monkeypatch.setitem(globals(), "NOW", datetime.now(UTC))


def configured(**more: Any) -> oidc.Oidc:
    usual: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": providers.AUDIENCE,
        "roles": providers.ROLES,
        "role_claim": "roles",
        "name_claim": "preferred_username",
        "algorithms": oidc.ALGORITHMS,
        "clock_skew": timedelta(seconds=60),
        "ca_file": None,
    }
    return oidc.Oidc(**usual | more)


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(algorithm: str = "ES256", headers: dict[str, Any] | None = None, **said: Any) -> str:
    given = {"kid": KID} | (headers or {})
    return jwt.encode(providers.claims(ISSUER, **said), KEYS[algorithm], algorithm, given)


def read(token: str, published: Any = None, **more: Any) -> bearer.Claims:
    """As the service does: by a key that the provider publishes, for the algorithm that the token names."""
    found = configured(**more)
    kid, algorithm = bearer.named_key(token, found)
    assert kid == KID
    key = bearer.public_key(providers.jwk(published or KEYS[algorithm], kid), algorithm)
    if key is None:
        raise errors.Unauthenticated("There is no such key.")
    return bearer.read(token, key, algorithm, found, at=NOW)


def seconds(number: int) -> int:
    return int(NOW.timestamp()) + number


class TestRead:
    @pytest.mark.parametrize("algorithm", oidc.ALGORITHMS)
    def test_says_who_it_is(self, algorithm):
        found = read(signed(algorithm, subject="ada-17"))
        assert (found.issuer, found.subject, found.name, found.role) == (ISSUER, "ada-17", "Dr. ada-17", "analyst")
        assert found.expires_at - found.issued_at == timedelta(seconds=300)

    @pytest.mark.parametrize("algorithm", oidc.ALGORITHMS)
    def test_a_changed_token_is_refused_in_every_part(self, algorithm):
        head, said, signature = signed(algorithm).split(".")
        claims = json.loads(base64.urlsafe_b64decode(said + "=="))
        raised = part(claims | {"roles": "clinic-admin"})
        for changed in (
            f"{head}.{raised}.{signature}",
            f"{head}.{said}.{part(b'x' * len(base64.urlsafe_b64decode(signature + '==')))}",
            f"{head}.{said}.{part(bytes(len(base64.urlsafe_b64decode(signature + '=='))))}",
            f"{head}.{said}.{signature[:-4]}",
            f"{head}.{said}.",
            f"{part(json.loads(base64.urlsafe_b64decode(head + '==')) | {'x': 1})}.{said}.{signature}",
        ):
            with pytest.raises(errors.Unauthenticated):
                read(changed)

    def test_another_key_of_the_same_name_is_refused(self):
        for algorithm in oidc.ALGORITHMS:
            with pytest.raises(errors.Unauthenticated):
                read(signed(algorithm), providers.new_key(algorithm))

    @given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
    def test_no_changed_bit_goes_unnoticed(self, at, bit):
        good = signed("EdDSA").encode()
        place = at % len(good)
        bad = (good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :]).decode("latin-1")
        with pytest.raises((errors.Unauthenticated, AssertionError)):  # another name of a key, perhaps
            read(bad)


class TestAlgorithm:
    def test_none_is_none(self):
        said = providers.claims(ISSUER, role="clinic-admin")
        for name in ("none", "None", "NONE", "", None, ["ES256"], {"ES256": 1}, 256):
            for signature in ("", part(b"x")):
                with pytest.raises(errors.Unauthenticated):
                    read(f"{part({'alg': name, 'kid': KID})}.{part(said)}.{signature}")
        with pytest.raises(errors.Unauthenticated):
            read(f"{part({'kid': KID})}.{part(said)}.{part(b'x')}")

    @pytest.mark.parametrize("name", ["HS256", "HS384", "HS512"])
    def test_a_public_key_is_no_secret_to_sign_with(self, name):
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER):
            secret = KEYS["RS256"].public_key().public_bytes(encoding, form)
            body = f"{part({'alg': name, 'kid': KID, 'typ': 'JWT'})}.{part(providers.claims(ISSUER))}"
            made = hmac.new(secret, body.encode(), getattr(hashlib, f"sha{name[2:]}")).digest()
            with pytest.raises(errors.Unauthenticated):
                read(f"{body}.{part(made)}")

    def test_only_the_pinned_ones_are_believed(self):
        pinned = {"algorithms": ("RS256", "ES256")}
        for algorithm in oidc.ALGORITHMS:
            if algorithm in pinned["algorithms"]:
                assert read(signed(algorithm), **pinned).role == "analyst"
            else:
                with pytest.raises(errors.Unauthenticated):
                    read(signed(algorithm), **pinned)

    def test_a_key_is_for_one_kind_of_algorithm(self):
        for algorithm in oidc.ALGORITHMS:
            fitting = {
                other for other in oidc.ALGORITHMS if bearer.public_key(providers.jwk(KEYS[algorithm], "x"), other)
            }
            assert algorithm in fitting
            kinds = {name[:2] if name[:2] in ("ES", "Ed") else "RSA" for name in fitting}
            assert len(kinds) == 1
            if algorithm.startswith("E"):
                assert fitting == {algorithm}

    def test_a_signature_has_the_padding_that_it_names(self):
        hashed, key = hashes.SHA256(), KEYS["RS256"]
        body = f"{part({'alg': 'PS256', 'kid': KID})}.{part(providers.claims(ISSUER))}"
        masked = padding.PSS(padding.MGF1(hashed), hashed.digest_size)
        assert read(f"{body}.{part(key.sign(body.encode(), masked, hashed))}", key).role == "analyst"
        for other in (padding.PKCS1v15(), padding.PSS(padding.MGF1(hashed), 20)):
            with pytest.raises(errors.Unauthenticated):
                read(f"{body}.{part(key.sign(body.encode(), other, hashed))}", key)


class TestHeader:
    def test_a_key_inside_a_token_is_not_looked_at(self):
        mine = providers.new_key("ES256")
        for inside in (
            {"jwk": providers.jwk(mine, KID)},
            {"jku": "https://evil.example/jwks"},
            {"x5u": "https://evil.example/chain"},
            {"x5c": ["MIIB"]},
        ):
            forged = jwt.encode(providers.claims(ISSUER), mine, "ES256", {"kid": KID} | inside)
            with pytest.raises(errors.Unauthenticated):
                read(forged)
            assert read(signed(headers=inside)).role == "analyst"  # the provider's own signature counts, and only that

    @pytest.mark.parametrize(
        "headers",
        [
            {"crit": ["exp"]},
            {"crit": []},
            {"crit": ["b64"], "b64": False},
            {"typ": "logout+jwt"},
            {"typ": "dpop+jwt"},
            {"typ": 1},
            {"kid": ""},
            {"kid": "x" * 256},
        ],
    )
    def test_what_asks_for_more_is_refused(self, headers):
        with pytest.raises(errors.Unauthenticated):
            read(_with_header({"alg": "ES256", "kid": KID} | headers))

    @pytest.mark.parametrize("kid", [None, 1, ["x"]])
    def test_a_token_names_its_key(self, kid):
        with pytest.raises(errors.Unauthenticated):
            read(_with_header({"alg": "ES256", "kid": kid}))
        with pytest.raises(errors.Unauthenticated):
            read(_with_header({"alg": "ES256"}))

    def test_an_access_token_says_so(self):
        assert read(signed(headers={"typ": "at+jwt"})).role == "analyst"

    @pytest.mark.parametrize(
        "token",
        [
            "..",
            "a.b.c",
            "é.é.é",
            f"{part([1])}.{part([1])}.{part(b'x')}",
            f"{part(b'{')}.e30.{part(b'x')}",
            part(b'{"alg":"ES256","alg":"none","kid":"the key"}') + ".e30.eA",
            part(b"[" * 3000) + ".e30.eA",
            part({"alg": "ES256", "kid": KID}) + "=.e30.eA",
        ],
    )
    def test_what_is_no_token_is_refused(self, token):
        with pytest.raises(errors.Unauthenticated):
            read(token)

    def test_a_huge_one_is_refused_before_it_is_read(self):
        with pytest.raises(errors.Unauthenticated, match="at most 8192"):
            read(signed(note="x" * 9000))
        assert read(signed(note="x" * 5000)).role == "analyst"


def _with_header(header: dict[str, Any]) -> str:
    """Signed by the provider's own key, whatever the header says."""
    body = f"{part(header)}.{part(providers.claims(ISSUER))}"
    signature = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).sign(body.encode(), KEYS["ES256"])
    return f"{body}.{part(signature)}"


class TestClaims:
    @pytest.mark.parametrize("issuer", [ISSUER + "/", ISSUER.upper(), "https://evil.example", "", None, [ISSUER]])
    def test_another_issuer_is_refused(self, issuer):
        with pytest.raises(errors.Unauthenticated):
            read(_plain(iss=issuer))

    @pytest.mark.parametrize(
        "audience", ["other", None, [], ["other"], [["discretion"]], {"discretion": 1}, "DISCRETION"]
    )
    def test_another_audience_is_refused(self, audience):
        with pytest.raises(errors.Unauthenticated, match="another service"):
            read(_plain(aud=audience))

    def test_one_of_several_audiences_may_be_ours(self):
        assert read(_plain(aud=["account", "discretion"])).role == "analyst"

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (lambda: {"exp": seconds(-61)}, "expired"),
            (lambda: {"exp": seconds(-60 * 60)}, "expired"),
            (lambda: {"nbf": seconds(62)}, "not valid yet"),
            (lambda: {"iat": seconds(62)}, "not valid yet"),
            ({"exp": None}, "exp"),
            ({"iat": None}, "iat"),
            ({"exp": "tomorrow"}, "exp"),
            ({"exp": True}, "exp"),
            ({"exp": -1}, "exp"),
            ({"exp": 10**15}, "exp"),
            ({"exp": 10**400}, "exp"),
            ({"nbf": "x"}, "nbf"),
            ({"nbf": [1]}, "nbf"),
        ],
    )
    def test_its_time_must_be_now(self, said, why):
        with pytest.raises(errors.Unauthenticated, match=why):
            read(_plain(**(said() if callable(said) else said)))  # the former by the time it is then

    def test_clocks_may_differ_by_what_is_set_and_no_more(self):
        edges = [{"exp": seconds(-58)}, {"nbf": seconds(58)}, {"iat": seconds(58)}]
        for said in edges:
            assert read(_plain(**said)).role == "analyst"
            with pytest.raises(errors.Unauthenticated):
                read(_plain(**said), clock_skew=timedelta(0))

    @pytest.mark.parametrize("subject", [None, "", 17, "x" * 256, "a\nb", "é", ["ada"]])
    def test_it_is_about_somebody(self, subject):
        with pytest.raises(errors.Unauthenticated):
            read(_plain(sub=subject))

    def test_one_that_is_bound_to_a_key_is_refused(self):
        with pytest.raises(errors.Unauthenticated, match="bound"):
            read(_plain(cnf={"jkt": "x"}))

    def test_claims_are_an_object_in_which_nothing_stands_twice(self):
        for said in (b"[]", b'"x"', b"{", b'{"sub":"a","sub":"b"}', b'{"exp":NaN}'):
            body = f"{part({'alg': 'EdDSA', 'kid': KID})}.{part(said)}"
            with pytest.raises(errors.Unauthenticated):
                read(f"{body}.{part(KEYS['EdDSA'].sign(body.encode()))}")


def _plain(**said: Any) -> str:
    """Signed by hand: a library that writes tokens refuses some of these."""
    claims = {name: value for name, value in (providers.claims(ISSUER) | said).items() if value is not None}
    body = f"{part({'alg': 'EdDSA', 'kid': KID})}.{part(claims)}"
    return f"{body}.{part(KEYS['EdDSA'].sign(body.encode()))}"


class TestRole:
    @pytest.mark.parametrize("role", ["clinic-data", ["clinic-data"], ["other", "clinic-data", 7, "clinic-data"]])
    def test_is_what_the_mapping_says(self, role):
        assert read(signed(role=role)).role == "custodian"

    @pytest.mark.parametrize(
        "role",
        [None, [], "", "custodian", "Clinic-Data", "clinic-data clinic-audit", {"clinic-data": 1}, [["clinic-data"]]],
    )
    def test_none_is_refused_in_words(self, role):
        with pytest.raises(errors.Unauthenticated, match="no role here"):
            read(signed(role=role))

    def test_two_are_refused_in_words(self):
        with pytest.raises(errors.Unauthenticated, match=r"several roles here \(analyst, custodian\)"):
            read(signed(role=["clinic-data", "clinic-science"]))
        both = {"a": "analyst", "b": "analyst"}
        assert read(signed(role=["a", "b"]), roles=both).role == "analyst"

    def test_stands_where_the_settings_say(self):
        inside: dict[str, Any] = {
            "realm_access": {"roles": ["clinic-audit"]},
            "https://h.example/roles": "clinic-admin",
        }
        for claim, role in (("realm_access.roles", "auditor"), ("https://h.example/roles", "admin")):
            assert read(signed(role=None, **inside), role_claim=claim).role == role
        for claim in ("realm_access.nothing", "realm_access.roles.x", "sub.x", "x"):
            with pytest.raises(errors.Unauthenticated, match="no role here"):
                read(signed(role=None, **inside), role_claim=claim)

    def test_a_name_itself_goes_before_a_path(self):
        said: dict[str, Any] = {"a.b": "clinic-audit", "a": {"b": "clinic-admin"}}
        assert read(signed(role=None, **said), role_claim="a.b").role == "auditor"


class TestName:
    @pytest.mark.parametrize("name", [None, "", "  ", 7, "x" * 201, "a\nb", "\u202eada", ["Ada"]])
    def test_one_that_cannot_be_read_is_the_subject(self, name):
        assert read(signed(subject="ada-17", preferred_username=name)).name == "ada-17"

    def test_may_stand_elsewhere(self):
        assert read(signed(email=" ada@h.example "), name_claim="email").name == "ada@h.example"


class TestPublicKey:
    def test_one_for_something_else_is_none(self):
        for more in (
            {"use": "enc"},
            {"use": None},
            {"key_ops": ["encrypt"]},
            {"key_ops": 7},
            {"alg": "ES384"},
            {"alg": 7},
            {"d": "x"},
            {"kty": "oct", "k": "eHh4"},
            {"kty": "RSA"},
            {"crv": "P-384"},
            {"x": "!"},
            {"x": None},
            {"y": "AAAA"},
        ):
            assert bearer.public_key(providers.jwk(KEYS["ES256"], KID, **more), "ES256") is None
        assert (
            bearer.public_key(providers.jwk(KEYS["ES256"], KID, alg="ES256", key_ops=["verify"]), "ES256") is not None
        )
        assert bearer.public_key({}, "ES256") is None

    def test_a_weak_or_absurd_rsa_key_is_none(self):
        weak = providers.jwk(rsa.generate_private_key(65537, 1024), KID)
        good = providers.jwk(KEYS["RS256"], KID)
        for bad in (
            weak,
            good | {"e": "AQ"},
            good | {"e": "Ag"},
            good | {"e": part(b"\xff" * 9)},
            good | {"n": part(b"\xff" * 2000)},
        ):
            assert bearer.public_key(bad, "RS256") is None
        assert bearer.public_key(good, "RS256") is not None

    def test_the_library_that_signs_agrees_who_may(self):
        """Whatever it refuses, we refuse; what we accept, it accepts."""
        for algorithm in oidc.ALGORITHMS:
            token = signed(algorithm)
            public = KEYS[algorithm].public_key()
            theirs = jwt.decode(token, public, [algorithm], audience=providers.AUDIENCE, issuer=ISSUER)
            assert theirs["sub"] == read(token).subject
            other = providers.new_key(algorithm).public_key()
            with pytest.raises(jwt.InvalidSignatureError):
                jwt.decode(token, other, [algorithm], audience=providers.AUDIENCE)
