"""Asking a provider for its keys: seldom, within bounds, nobody else, and not for nothing."""

import logging
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from discretion import errors, oidc, provider, settings
from tests import providers, services
from tests.providers import JWKS, WELL_KNOWN, Provider


class Clock:
    """It goes only when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def real() -> Iterator[Provider]:
    with providers.provider() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


def configured(real: Provider, **more: object) -> oidc.Oidc:
    given = {f"DISCRETION_{name.upper()}": str(value) for name, value in real.environment(**more).items()}
    found = settings.read(given).provider
    assert found is not None
    return found


@pytest.fixture
def asked(real: Provider, clock: Clock) -> provider.Provider:
    return provider.Provider(configured(real), clock)


def settled(asked: provider.Provider) -> None:
    """Whatever is being read in the background has been read."""
    services.wait_until(lambda: asked._reading is None, 10)


class TestKey:
    def test_is_read_once_and_kept(self, real, asked):
        for _ in range(5):
            assert asked.key("first", "ES256").public_numbers() == real.keys["first"][0].public_key().public_numbers()
        assert real.asked == [f"/realms/care{WELL_KNOWN}", f"/realms/care{JWKS}"]

    def test_is_for_its_own_algorithm(self, asked):
        with pytest.raises(errors.Unauthenticated):
            asked.key("first", "RS256")

    def test_a_rotated_one_is_found_without_a_restart(self, real, asked, clock):
        asked.key("first", "ES256")
        real.rotate("second")
        clock.now += provider.PAUSE
        assert asked.key("second", "ES256")
        assert asked.key("first", "ES256")

    def test_unknown_names_ask_once_in_a_while_however_many_there_are(self, real, asked, clock):
        asked.key("first", "ES256")
        for number in range(200):
            with pytest.raises(errors.Unauthenticated):
                asked.key(f"guess {number}", "ES256")
        assert real.count() == 1
        clock.now += provider.PAUSE
        for number in range(200):
            with pytest.raises(errors.Unauthenticated):
                asked.key(f"guess {number}", "ES256")
        assert real.count() == 2

    def test_a_withdrawn_one_is_forgotten_after_five_minutes(self, real, asked, clock):
        real.rotate("second")
        asked.key("first", "ES256")
        real.withdraw("first")
        clock.now += provider.FRESH
        assert asked.key("first", "ES256")
        clock.now += 1
        asked.key("first", "ES256")  # not waited for, but asked
        settled(asked)
        with pytest.raises(errors.Unauthenticated):
            asked.key("first", "ES256")
        assert asked.key("second", "ES256")

    def test_of_two_with_one_name_neither_is_believed(self, real, asked):
        real.published.append(providers.jwk(providers.new_key(), "first"))
        with pytest.raises(errors.Unauthenticated):
            asked.key("first", "ES256")

    def test_one_name_may_stand_for_two_kinds(self, real, asked):
        real.published.append(providers.jwk(providers.new_key("RS256"), "first"))
        for algorithm in ("RS256", "ES256"):
            assert asked.key("first", algorithm)

    def test_what_cannot_be_used_spoils_nothing(self, real, asked):
        real.published = [
            None,
            7,
            [],
            {},
            {"kid": 7},
            {"kid": "x", "key_ops": 1},
            {"kid": "y", "kty": []},
            *real.published,
        ]
        assert asked.key("first", "ES256")

    def test_everybody_waits_for_one_answer(self, real, asked):
        def slowly() -> providers.Answer:
            time.sleep(0.2)
            del real.instead[JWKS]
            return real.answer(JWKS)

        real.instead[JWKS] = slowly
        found: list[object] = []
        threads = [threading.Thread(target=lambda: found.append(asked.key("first", "ES256"))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 6
        assert real.count(WELL_KNOWN) == 1

    def test_more_than_a_few_do_not_wait(self, real, asked):
        """Or those who come with an API key would find every thread taken."""
        go = threading.Event()

        def held() -> providers.Answer:
            go.wait(10)
            return 404, {}, b""

        real.instead[WELL_KNOWN] = held
        said: list[type[BaseException]] = []

        def ask() -> None:
            try:
                asked.key("first", "ES256")
            except errors.Refusal as refusal:
                said.append(type(refusal))

        threads = [threading.Thread(target=ask) for _ in range(30)]
        for thread in threads:
            thread.start()
        services.wait_until(lambda: len(said) == 30 - provider._WAITING, 10)
        go.set()
        for thread in threads:
            thread.join()
        assert set(said) == {errors.ProviderUnavailable}


class TestAway:
    def test_keys_that_are_known_go_on_for_an_hour(self, real, asked, clock):
        asked.key("first", "ES256")
        real.stop()
        for _ in range(12):
            clock.now += provider.FRESH
            assert asked.key("first", "ES256") is not None
            settled(asked)
        clock.now += 1
        with pytest.raises(errors.ProviderUnavailable) as refusal:
            asked.key("first", "ES256")
        assert refusal.value.seconds == 5
        real.start()
        clock.now += provider.PAUSE
        assert asked.key("first", "ES256")

    def test_of_a_key_that_is_not_known_it_cannot_be_said_whether_it_is_the_providers(self, real, asked, clock):
        asked.key("first", "ES256")
        real.rotate("second")
        real.stop()
        clock.now += provider.PAUSE
        with pytest.raises(errors.ProviderUnavailable):
            asked.key("second", "ES256")
        assert asked.key("first", "ES256")
        real.start()
        clock.now += provider.PAUSE
        assert asked.key("second", "ES256")

    def test_nothing_is_known_until_it_comes(self, real, asked, clock):
        real.stop()
        for _ in range(3):
            with pytest.raises(errors.ProviderUnavailable):
                asked.key("first", "ES256")
        real.start()
        with pytest.raises(errors.ProviderUnavailable):  # it was asked a moment ago
            asked.key("first", "ES256")
        assert real.asked == []
        clock.now += provider.PAUSE
        assert asked.key("first", "ES256")

    def test_the_log_says_so_once(self, real, asked, clock, caplog):
        caplog.set_level(logging.INFO, "discretion")
        real.stop()
        for _ in range(3):
            with pytest.raises(errors.ProviderUnavailable):
                asked.key("first", "ES256")
            clock.now += provider.PAUSE
        real.start()
        asked.key("first", "ES256")
        settled(asked)
        said = [record.message for record in caplog.records if record.name == "discretion.provider"]
        assert said == [
            "The identity provider cannot be asked for its keys: ConnectError.",
            "The identity provider answers again.",
        ]


class TestFetch:
    def refused(self, real: Provider, why: str, **more: object) -> None:
        with pytest.raises(provider.Unusable, match=why):
            provider.fetch(configured(real, **more))

    def test_it_must_call_itself_by_its_name(self, real):
        real.instead[WELL_KNOWN] = lambda: (200, {}, b'{"issuer": "https://evil.example", "jwks_uri": "x"}')
        self.refused(real, "another name")

    @pytest.mark.parametrize(
        "where", ["http://127.0.0.1:1/jwks", "https://127.0.0.1/jwks", "file:///etc/passwd", "/jwks"]
    )
    def test_nobody_else_is_asked(self, real, where):
        about = f'{{"issuer": "{real.issuer}", "jwks_uri": "{where}"}}'.encode()
        real.instead[WELL_KNOWN] = lambda: (200, {}, about)
        self.refused(real, "another host")
        assert real.count() == 0

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_no_redirect_is_followed(self, real, status):
        with providers.provider() as other:
            for path in (WELL_KNOWN, JWKS):
                real.instead = {path: lambda: (status, {"Location": other.issuer + JWKS}, b"")}
                self.refused(real, f"status {status}")
            assert other.asked == []

    def test_no_proxy_of_the_environment_is_used(self, real, monkeypatch):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        assert provider.fetch(configured(real))

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ((500, {}, b""), "status 500"),
            ((200, {}, b"<html>"), "no JSON"),
            ((200, {}, b"[]"), "no JSON"),
            ((200, {}, b"[" * 2**18), "no JSON"),
            ((200, {}, b'{"keys": 7}'), "list of keys"),
            ((200, {}, b"{}"), "list of keys"),
            ((200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"), "status 200"),
            ((200, {}, b" " * (2**19 + 1)), "too large"),
        ],
    )
    def test_a_bad_list_is_none(self, real, answer, why):
        real.instead[JWKS] = lambda: answer
        self.refused(real, why)

    def test_an_answer_without_end_is_left(self, real, monkeypatch):
        monkeypatch.setattr(provider, "_DEADLINE", 0.3)

        def late() -> providers.Answer:
            time.sleep(0.5)
            return 200, {}, b'{"keys": []}'

        real.instead[JWKS] = late
        self.refused(real, "too slow")

    def test_of_very_many_keys_the_first_are_read(self, real):
        one = providers.jwk(providers.new_key(), "x")
        real.published = [one | {"kid": str(number)} for number in range(150)]
        assert len(provider.fetch(configured(real))) == 100

    def test_over_tls_the_named_authority_alone_is_believed(self, tmp_path: Path):
        ours, other = tmp_path / "ours", tmp_path / "other"
        ours.mkdir()
        other.mkdir()
        tls, authority = providers.certificate(ours)
        _, another = providers.certificate(other)
        with providers.provider(tls) as real:
            assert provider.fetch(configured(real, oidc_ca_file=authority))
            for more in ({}, {"oidc_ca_file": another}):
                with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                    provider.fetch(configured(real, **more))

    def test_over_tls_a_certificate_that_has_ended_closes_the_way_until_it_is_renewed(self, tmp_path: Path, clock):
        old, new, both = tmp_path / "old", tmp_path / "new", tmp_path / "both.pem"
        old.mkdir()
        new.mkdir()
        (ended, first), (renewed, second) = (
            providers.certificate(old, timedelta(days=-1)),
            providers.certificate(new),
        )
        both.write_bytes(first.read_bytes() + second.read_bytes())
        with providers.provider(ended) as real:
            asked = provider.Provider(configured(real, oidc_ca_file=both), clock)
            with pytest.raises(errors.ProviderUnavailable):
                asked.key("first", "ES256")
            real.stop()
            real.tls = renewed
            real.start()
            clock.now += provider.PAUSE
            assert asked.key("first", "ES256") is not None
