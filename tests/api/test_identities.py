"""People whom the hospital's provider vouches for, at the door of a real service with a real provider beside it."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from discretion import cli, database, tables
from tests import providers, services
from tests.api.test_session import COOKIE, Browser, aged, morsel
from tests.conftest import new_url
from tests.providers import Provider
from tests.services import Client, Service


@dataclass
class Place:
    provider: Provider
    service: Service

    def come(self, subject: str, role: str, **more: Any) -> Client:
        """Somebody with a token of the provider, and the id that the service gives them."""
        client = self.service.client(self.provider.token(subject, role, **more))
        client.get("/v1/datasets")
        client.id = self.row(subject)["id"]
        return client

    def rows(self) -> list[dict[str, Any]]:
        return services.pages(self.service.admin, "/v1/keys", limit=1000)

    def row(self, subject: str) -> dict[str, Any]:
        (found,) = (one for one in self.rows() if one["subject"] == subject)
        return found

    def audit(self, key: str) -> list[str]:
        rows = services.pages(self.service.admin, "/v1/audit", limit=1000)
        return [row["action"] for row in rows if key in (row["actor"], row["object"])]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("identities")
    with providers.provider() as running:
        running.rotate("rsa", "RS256")
        running.rotate("pinned out", "ES384")
        running.rotate("unpublished", publish=False)
        running.rotate("daily")
        given = running.environment(requests_per_second=100_000)
        with services.serve(folder, new_url(request, folder), **given) as service:
            yield Place(running, service)


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned(real: Provider) -> str:
    return f"{part({'alg': 'none', 'kid': 'daily'})}.{part(providers.claims(real.issuer, 'eve', 'clinic-admin'))}."


def by_public_key(real: Provider) -> str:
    """HS256, with what everybody knows as the secret."""
    public = real.keys["rsa"][0].public_key()
    secret = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    body = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(providers.claims(real.issuer, 'eve', 'clinic-admin'))}"
    return f"{body}.{part(hmac.new(secret, body.encode(), hashlib.sha256).digest())}"


def forged(real: Provider, **headers: Any) -> str:
    """By a key that Eve has made, under a name of the provider's."""
    mine = providers.new_key()
    inside = {"jwk": providers.jwk(mine, "daily")} if headers.pop("jwk", False) else {}
    said = providers.claims(real.issuer, "eve", "clinic-admin")
    return jwt.encode(said, mine, "ES256", {"kid": "daily"} | headers | inside)


def tampered(real: Provider) -> str:
    head, said, signature = real.token("eve", "clinic-science").split(".")
    claims = json.loads(base64.urlsafe_b64decode(said + "=="))
    return f"{head}.{part(claims | {'roles': 'clinic-admin'})}.{signature}"


def at(seconds: int) -> int:
    return int(time.time()) + seconds


REFUSED: dict[str, Callable[[Provider], str]] = {
    "another issuer": lambda real: real.token("eve", iss="https://evil.example"),
    "another audience": lambda real: real.token("eve", aud="other"),
    "no algorithm": unsigned,
    "HS256 by the public key": by_public_key,
    "an algorithm that is not pinned": lambda real: real.token("eve", kid="pinned out"),
    "expired": lambda real: real.token("eve", iat=at(-500), exp=at(-100)),
    "not yet valid": lambda real: real.token("eve", nbf=at(100)),
    "an unknown key": lambda real: real.token("eve", kid="unpublished"),
    "another key of the same name": forged,
    "tampered": tampered,
    "no role": lambda real: real.token("eve", None),
    "a role that is not mapped": lambda real: real.token("eve", "admin"),
    "two roles": lambda real: real.token("eve", ["clinic-data", "clinic-science"]),
    "an embedded key": lambda real: forged(real, jwk=True),
    "an address of a key": lambda real: forged(real, jku="http://127.0.0.1:1/", x5u="http://127.0.0.1:1/"),
    "critical extensions": lambda real: real.token("eve", headers={"crit": ["exp"]}),
    "huge": lambda real: real.token("eve", note="x" * 9000),
    "three dots": lambda real: "a.b.c.d",
    "nonsense": lambda real: "aaaa.bbbb.cccc",
    "no subject": lambda real: real.token("eve", sub=""),
}


class TestRefused:
    @pytest.mark.parametrize("wrong", REFUSED)
    def test_with_401_at_both_doors_and_without_a_row(self, wrong: str, place: Place) -> None:
        token = REFUSED[wrong](place.provider)
        for path in ("/v1/datasets", "/v1/keys", "/metrics"):
            answer = place.service.client(token).get(path)
            problem = services.refused(answer, 401, "unauthenticated")
            assert token not in problem["detail"]
            assert answer.headers["www-authenticate"] == "Bearer"
        stranger = place.service.client(None)
        answer = stranger.post("/v1/session", json={"token": token})
        assert answer.status_code == (413 if wrong == "huge" else 401)
        assert "set-cookie" not in answer.headers
        assert not [row for row in place.rows() if row["subject"] == "eve"]
        assert token not in place.service.log

    @pytest.mark.parametrize("name", ["token", "access_token", "id_token"])
    def test_in_an_address_or_another_header(self, name: str, place: Place) -> None:
        token = place.provider.token("nobody", "clinic-admin")
        stranger = place.service.client(None)
        services.refused(stranger.get(f"/v1/keys?{name}={token}"), 401, "unauthenticated")
        for header in ("X-Remote-User", "X-Forwarded-User", "X-Forwarded-Access-Token", "X-Auth-Request-Access-Token"):
            answer = stranger.get("/v1/keys", headers={header: token})
            services.refused(answer, 401, "unauthenticated")
        assert not [row for row in place.rows() if row["subject"] == "nobody"]

    def test_for_a_person_whose_role_may_not_with_403(self, place: Place) -> None:
        analyst = place.come("ann", "clinic-science")
        assert "your role is analyst" in services.refused(analyst.get("/v1/keys"), 403, "forbidden")["detail"]

    def test_strangers_do_not_make_us_ask_the_provider(self, place: Place) -> None:
        place.come("ann", "clinic-science")
        before, began = place.provider.count(), time.monotonic()
        client = place.service.client(None)
        for number in range(100):
            header = part({"alg": "ES256", "kid": f"guess {number}"})
            sent = {"Authorization": f"Bearer {header}.e30.{part(b'x' * 64)}"}
            services.refused(client.get("/v1/datasets", headers=sent), 401, "unauthenticated")
        passed = time.monotonic() - began
        assert place.provider.count() - before <= 1 + passed / 5

    def test_strangers_are_slowed_down(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        with providers.provider() as real:
            given = real.environment(requests_per_second=5, workers=0)
            with services.serve(tmp_path_factory.mktemp("slow"), **given) as slow:
                stranger = slow.client(forged(real))
                for _ in range(1000):
                    answer = stranger.get("/v1/datasets")
                    if answer.status_code != 401:
                        break
                services.refused(answer, 429, "too_many_requests")
                known = slow.client(real.token("ann", "clinic-science"))
                assert known.get("/v1/datasets").status_code == 200
                for _ in range(1000):
                    answer = known.get("/v1/datasets")
                    if answer.status_code != 200:
                        break
                services.refused(answer, 429, "too_many_requests")


class TestAnIdentity:
    def test_is_a_row_of_its_own(self, place: Place) -> None:
        ann = place.come("ann-row", "clinic-science", preferred_username="Dr. Ann")
        found = place.row("ann-row")
        assert (found["kind"], found["name"], found["role"]) == ("identity", "Dr. Ann", "analyst")
        assert (found["issuer"], found["revoked_at"]) == (place.provider.issuer, None)
        assert place.audit(ann.id) == ["identity.create"]
        assert ann.get("/v1/datasets").status_code == 200
        assert place.audit(ann.id) == ["identity.create"]

    def test_comes_with_either_kind_of_key(self, place: Place) -> None:
        for kid in ("rsa", "daily"):
            client = place.service.client(place.provider.token("kim", "clinic-audit", kid=kid))
            assert client.get("/v1/ledgers").status_code == 200
        assert place.row("kim")["role"] == "auditor"

    def test_of_many_first_tokens_at_once_one_makes_the_row(self, place: Place) -> None:
        tokens = [place.provider.token("twin", "clinic-science") for _ in range(8)]
        gate, answers = threading.Barrier(8), []

        def come(token: str) -> None:
            client = place.service.client(token)
            gate.wait()
            answers.append(client.get("/v1/datasets").status_code)

        threads = [threading.Thread(target=come, args=(token,)) for token in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 8
        assert place.audit(place.row("twin")["id"]) == ["identity.create"]

    def test_changes_its_role_with_a_newer_token(self, place: Place) -> None:
        past = int(time.time()) - 30
        old = place.come("zoe", "clinic-science", iat=past)
        new = place.come("zoe", "clinic-audit", iat=past + 10)
        assert old.id == new.id
        assert new.get("/v1/ledgers").status_code == 200
        refusal = services.refused(old.get("/v1/datasets"), 401, "unauthenticated")
        assert "role has changed" in refusal["detail"]
        assert place.audit(new.id) == ["identity.create", "identity.become-auditor"]

    def test_is_revoked_at_once(self, place: Place) -> None:
        gone = place.come("gone", "clinic-science")
        browser = Browser(place.service, gone.token)
        answer = place.service.admin.delete(f"/v1/keys/{gone.id}")
        assert (answer.status_code, answer.json()["kind"]) == (200, "identity")
        for client in (gone, browser, place.service.client(place.provider.token("gone", "clinic-data"))):
            services.refused(client.get("/v1/datasets"), 401, "unauthenticated")
        again = place.service.client(None).post("/v1/session", json={"token": place.provider.token("gone")})
        assert "revoked" in services.refused(again, 401, "unauthenticated")["detail"]
        assert place.audit(gone.id) == ["identity.create", "session.begin", "identity.revoke"]
        assert place.row("gone")["revoked_at"] is not None
        services.refused(place.service.admin.delete(f"/v1/keys/{gone.id}"), 404, "no_such_key")

    def test_a_revoked_one_is_reopened_on_the_machine(self, place: Place) -> None:
        back = place.come("back", "clinic-science")
        environment = services.environment(place.service.folder, place.service.database)

        def run(*words: str) -> Any:
            return CliRunner().invoke(cli.app, ["keys", *words], env=environment)

        assert run("revoke", back.id).exit_code == 0
        services.refused(back.get("/v1/datasets"), 401, "unauthenticated")
        refused = run("replace", back.id)
        assert (refused.exit_code, "keys reopen" in refused.output) == (2, True)
        assert run("reopen", back.id).output == f"{back.id} may come in again.\n"
        assert back.get("/v1/datasets").status_code == 200
        assert place.audit(back.id) == ["identity.create", "identity.revoke", "identity.reopen"]
        assert "(identity" in run("list").output

    def test_a_key_and_a_person_are_two(self, place: Place) -> None:
        key = place.service.key("analyst")
        assert key.get("/v1/datasets").status_code == 200
        assert next(row for row in place.rows() if row["id"] == key.id)["kind"] == "key"


class TestRotation:
    def test_needs_no_restart(self, place: Place) -> None:
        name = f"rotated {time.monotonic()}"
        place.provider.rotate(name)
        try:
            client = place.service.client(place.provider.token("ann", "clinic-science", kid=name))
            services.wait_until(lambda: client.get("/v1/datasets").status_code == 200, 30)
            older = place.service.client(place.provider.token("ann", "clinic-science", kid="daily"))
            assert older.get("/v1/datasets").status_code == 200
        finally:
            place.provider.withdraw(name)
            del place.provider.keys[name]


class TestTheStart:
    def test_stops_with_one_sentence_for_what_cannot_be_meant(self, tmp_path: Path) -> None:
        wrong = {"oidc_issuer": "https://id.hospital.example", "oidc_audience": "discretion"}
        environment = services.environment(tmp_path, None, **wrong)
        command = [sys.executable, "-m", "discretion", "serve"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert done.stderr == (
            "DISCRETION_OIDC_ROLES is missing, and DISCRETION_OIDC_ISSUER is set; give both or neither.\n"
        )
        assert done.stdout == ""
        assert not (tmp_path / "data").exists()


class TestAway:
    def test_keys_go_on_and_people_come_when_the_provider_does(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        with providers.provider() as real:
            real.stop()
            with services.serve(tmp_path_factory.mktemp("away"), workers=0, **real.environment()) as service:
                client = service.client(real.token("ann", "clinic-science"))
                for answer in (
                    client.get("/v1/datasets"),
                    service.client(None).post("/v1/session", json={"token": client.token}),
                ):
                    services.refused(answer, 503, "provider_unavailable")
                    assert answer.headers["retry-after"] == "5"
                assert service.admin.get("/v1/keys").status_code == 200
                assert service.client(None).get("/readyz").status_code == 200
                real.start()
                services.wait_until(lambda: client.get("/v1/datasets").status_code == 200, 30)
                real.stop()
                assert client.get("/v1/datasets").status_code == 200
                other = service.client(real.token("bob", "clinic-science"))
                assert other.get("/v1/datasets").status_code == 200
                assert real.issuer not in str(other.get("/v1/keys").text)

    def test_without_a_provider_its_tokens_are_nothing(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("changed")
        with providers.provider() as real:
            with services.serve(folder, workers=0, **real.environment()) as service:
                token = service.token
                browser = Browser(service, real.token("ann", "clinic-science"))
                assert browser.get("/v1/datasets").status_code == 200
                secret = browser.secret
            with services.serve(folder, None, token, workers=0) as service:
                answer = service.client(real.token("ann", "clinic-science")).get("/v1/datasets")
                assert "no identity provider" in services.refused(answer, 401, "unauthenticated")["detail"]
                kept = service.client(None).get("/v1/datasets", headers={"Cookie": f"{COOKIE}={secret}"})
                services.refused(kept, 401, "unauthenticated")
                assert [row["kind"] for row in services.pages(service.admin, "/v1/keys")] == ["key", "identity"]


class TestASession:
    def test_ends_with_the_token(self, place: Place) -> None:
        browser = Browser(place.service, place.provider.token("short", "clinic-data", exp=at(120)))
        left = datetime.fromisoformat(browser.said["expires_at"]) - datetime.now(UTC)
        assert left <= timedelta(seconds=120)
        assert 0 < int(morsel(browser.answer)["max-age"]) <= 120
        assert browser.post().status_code == 201
        aged(place.service, browser.secret, expires_at=timedelta(seconds=1))
        for answer in (browser.get("/v1/datasets"), browser.get("/v1/session"), browser.post()):
            assert "sign in again" in services.refused(answer, 401, "unauthenticated")["detail"]
        # Clocks may differ by a minute: the token itself still opens, and no session begins that would outlive it.
        token = place.provider.token("short", "clinic-data", iat=at(-300), exp=at(-10))
        assert place.service.client(token).get("/v1/datasets").status_code == 200
        answer = place.service.client(None).post("/v1/session", json={"token": token})
        assert "expired" in services.refused(answer, 401, "unauthenticated")["detail"]

    def test_is_in_the_audit_log(self, place: Place) -> None:
        browser = Browser(place.service, place.provider.token("signs", "clinic-data"))
        assert browser.client.delete("/v1/session").status_code == 204
        key = place.row("signs")["id"]
        assert place.audit(key) == ["identity.create", "session.begin", "session.end"]


class TestTheStory:
    def test_is_told_by_people_alone(self, place: Place) -> None:
        """A custodian, an analyst, an auditor and an administrator, with tokens and with the dashboard's sessions."""
        custodian, auditor = place.come("data", "clinic-data"), place.come("books", "clinic-audit")
        analyst, admin = place.come("science", "clinic-science"), place.come("boss", "clinic-admin")
        signed_in = Browser(place.service, place.provider.token("data", "clinic-data")).client
        dataset = services.ready_dataset(signed_in, rho="2")
        services.grant(custodian, dataset, analyst, "1")
        training = services.submit(analyst, dataset, key=dataset).json()["id"]
        with place.service.client(analyst.token).stream("GET", f"/v1/trainings/{training}/events") as stream:
            assert stream.status_code == 200
        ended = services.ended(Browser(place.service, analyst.token).client, training)
        assert ended["state"] == "released"
        assert analyst.get(f"/v1/policies/{ended['policy']}").status_code == 200

        ledger = auditor.get(f"/v1/datasets/{dataset}/ledger").json()
        assert ledger["intact"]
        actors = {row["kind"]: row["actor"] for row in ledger["rows"]}
        assert (actors["open"], actors["reserve"]) == (custodian.id, analyst.id)
        assert [row["key"] for row in services.pages(admin, f"/v1/datasets/{dataset}/grants")] == [analyst.id]
        services.refused(admin.post(f"/v1/datasets/{dataset}/grants", json={}), 403, "forbidden")
        services.refused(place.come("other", "clinic-data").get(f"/v1/datasets/{dataset}"), 404, "not_found")
        acts = [row["action"] for row in services.pages(auditor, "/v1/audit", 1000) if row["actor"] == analyst.id]
        assert acts == ["identity.create", "training.submit", "session.begin"]
        assert admin.delete(f"/v1/keys/{analyst.id}").status_code == 200
        services.refused(analyst.get(f"/v1/policies/{ended['policy']}"), 401, "unauthenticated")

    def test_no_token_is_kept_anywhere(self, place: Place) -> None:
        client = place.come("secretive", "clinic-data")
        Browser(place.service, client.token)
        services.refused(place.service.client(client.token + "x").get("/v1/datasets"), 401, "unauthenticated")
        engine = database.engine(place.service.database)
        with database.snapshot(engine) as connection:
            said = [str(connection.execute(sa.select(table)).all()) for table in tables.metadata.sorted_tables]
        engine.dispose()
        for secret in (client.token, client.token.split(".")[1], client.token.split(".")[2]):
            assert not [text[:200] for text in [*said, place.service.log] if secret in text]
        assert hashlib.sha256(client.token.encode()).hexdigest() not in str(said)
