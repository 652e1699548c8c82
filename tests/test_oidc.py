"""What the settings may say about an identity provider."""

from datetime import timedelta
from pathlib import Path

import pytest

from discretion import errors, oidc, settings
from tests import providers

ISSUER = "https://id.hospital.example/realms/care"
GIVEN = {
    "DISCRETION_OIDC_ISSUER": ISSUER,
    "DISCRETION_OIDC_AUDIENCE": "discretion",
    "DISCRETION_OIDC_ROLES": "clinic-data=custodian, CN=science=analyst",
}


def read(**more: str) -> oidc.Oidc:
    found = settings.read(GIVEN | {f"DISCRETION_OIDC_{name.upper()}": value for name, value in more.items()}).provider
    assert found is not None
    return found


class TestRead:
    def test_nothing_is_set_and_nobody_is_believed(self):
        assert settings.read({}).provider is None
        assert settings.read({"DISCRETION_OIDC_ISSUER": " "}).provider is None

    def test_what_is_not_said_is_narrow(self):
        found = read()
        assert (found.issuer, found.audience) == (ISSUER, "discretion")
        assert found.roles == {"clinic-data": "custodian", "CN=science": "analyst"}
        assert (found.role_claim, found.name_claim) == ("roles", "preferred_username")
        assert found.algorithms == ("RS256", "ES256")
        assert found.clock_skew == timedelta(seconds=60)
        assert found.ca_file is None

    def test_everything_can_be_said(self, tmp_path):
        _, authority = providers.certificate(tmp_path)
        found = read(
            role_claim="realm_access.roles",
            name_claim="email",
            algorithms="PS512, EdDSA",
            clock_skew_seconds="0",
            ca_file=str(authority),
            roles='{"CN=data,OU=icu": "custodian", "CN=books,OU=icu": "auditor"}',
        )
        assert found.roles == {"CN=data,OU=icu": "custodian", "CN=books,OU=icu": "auditor"}
        assert (found.role_claim, found.name_claim) == ("realm_access.roles", "email")
        assert found.algorithms == ("PS512", "EdDSA")
        assert found.clock_skew == timedelta(0)
        assert found.ca_file == authority

    @pytest.mark.parametrize(
        "issuer", ["http://127.0.0.1:8080/x", "http://localhost", "http://[::1]:80/", ISSUER + "/"]
    )
    def test_plain_http_is_for_this_machine(self, issuer):
        assert read(issuer=issuer).issuer == issuer

    @pytest.mark.parametrize("name", ["ISSUER", "AUDIENCE", "ROLES"])
    def test_each_needs_the_others(self, name):
        left = {key: value for key, value in GIVEN.items() if not key.endswith(name)}
        with pytest.raises(errors.InvalidSetting, match=f"DISCRETION_OIDC_{name} is missing"):
            settings.read(left)

    @pytest.mark.parametrize("name", ["ROLE_CLAIM", "NAME_CLAIM", "ALGORITHMS", "CLOCK_SKEW_SECONDS", "CA_FILE"])
    def test_without_a_provider_nothing_else_can_be_meant(self, name):
        with pytest.raises(errors.InvalidSetting, match=f"OIDC_ISSUER is missing, and DISCRETION_OIDC_{name} is set"):
            settings.read({f"DISCRETION_OIDC_{name}": "1"})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("issuer", "http://id.hospital.example"),
            ("issuer", "http://127.0.0.1.example.org"),
            ("issuer", "id.hospital.example"),
            ("issuer", "https://"),
            ("issuer", "https://user:pass@id.hospital.example"),
            ("issuer", "https://id.hospital.example/?x=1"),
            ("issuer", "https://id.hospital.example/#x"),
            ("issuer", "https://id.hospital.example:port"),
            ("issuer", "https://[::1"),
            ("issuer", "https://id.hospital.example/" + "x" * 300),
            ("issuer", "https://id.hospital.example/a b"),
            ("issuer", "file:///etc/passwd"),
            ("audience", "x" * 300),
            ("audience", "a\nb"),
            ("roles", "clinic-data"),
            ("roles", "clinic-data=owner"),
            ("roles", "=admin"),
            ("roles", "a=admin,a=auditor"),
            ("roles", "a=admin,"),
            ("roles", "{}"),
            ("roles", "{"),
            ("roles", '{"a": ["admin"]}'),
            ("roles", '{"a": {"b": "admin"}}'),
            ("roles", '{"a": "admin", "a": "auditor"}'),
            ("algorithms", "none"),
            ("algorithms", "HS256"),
            ("algorithms", "RS256,HS256"),
            ("algorithms", "RS256,"),
            ("algorithms", "rs256"),
            ("clock_skew_seconds", "301"),
            ("clock_skew_seconds", "-1"),
            ("clock_skew_seconds", "1.5"),
            ("clock_skew_seconds", "²"),
            ("ca_file", "/nowhere/at/all"),
            ("ca_file", str(Path(__file__))),
        ],
    )
    def test_what_cannot_be_meant_is_refused_by_name(self, name, value):
        with pytest.raises(errors.InvalidSetting, match=f"^DISCRETION_OIDC_{name.upper()} .*\\.$"):
            read(**{name: value})


class TestSamePlace:
    def test_is_scheme_host_and_port(self):
        found = read()
        assert found.is_same_place("https://id.hospital.example/keys")
        assert found.is_same_place("https://ID.hospital.example:443/keys")
        for other in (
            "http://id.hospital.example/keys",
            "https://id.hospital.example:8443/keys",
            "https://id.hospital.example.evil.org/keys",
            "https://id.hospital.example@evil.org/keys",
            "//id.hospital.example/keys",
            "/keys",
            "https://[",
            "",
        ):
            assert not found.is_same_place(other)
