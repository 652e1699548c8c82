"""Sessions of a browser: their cookie, what they need beside it to change anything, and how they end."""

from datetime import UTC, datetime, timedelta
from http.cookies import Morsel, SimpleCookie
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from discretion import database, keys, tables
from tests import services
from tests.api.hospital import METRICS_TOKEN, Hospital
from tests.services import Client, Service

COOKIE = "discretion_session"
BUDGET = {"name": "icu", "budget": {"rho": "1"}}


class Browser:
    """It keeps the cookie, as a browser does, and sends the header, as the service's page does."""

    def __init__(self, service: Service, token: str) -> None:
        self.client = service.client(None)
        self.answer = self.client.post("/v1/session", json={"token": token})
        assert self.answer.status_code == 201, self.answer.text
        self.said: dict[str, Any] = self.answer.json()
        self.client.http.headers["X-CSRF-Token"] = self.said["csrf"]

    @property
    def secret(self) -> str:
        return str(self.client.cookies[COOKIE])

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def post(self, **headers: str) -> httpx.Response:
        return self.client.post("/v1/populations", json=BUDGET, headers=headers)


def morsel(answer: httpx.Response) -> Morsel[str]:
    (found,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return found


def aged(service: Service, secret: str, **ages: timedelta) -> None:
    """The same session, as if that long had passed."""
    engine = database.engine(service.database)
    values = {name: database.stamp(datetime.now(UTC) - age) for name, age in ages.items()}
    with database.transaction(engine) as connection:
        here = tables.sessions.c.hash == keys.digest(secret)
        assert connection.execute(tables.sessions.update().where(here).values(**values)).rowcount == 1
    engine.dispose()


def used_at(service: Service, secret: str) -> datetime:
    engine = database.engine(service.database)
    with database.snapshot(engine) as connection:
        here = tables.sessions.c.hash == keys.digest(secret)
        found = connection.execute(sa.select(tables.sessions.c.used_at).where(here)).scalar_one()
    engine.dispose()
    return datetime.fromisoformat(found)


@pytest.fixture
def custodian(service: Service) -> Client:
    return service.key("custodian")


@pytest.fixture
def browser(service: Service, custodian: Client) -> Browser:
    return Browser(service, custodian.token)


class TestSigningIn:
    def test_says_whose_session_it_is(self, browser: Browser, custodian: Client) -> None:
        assert set(browser.said) == {"id", "name", "role", "csrf", "expires_at"}
        assert (browser.said["id"], browser.said["role"]) == (custodian.id, "custodian")
        left = datetime.fromisoformat(browser.said["expires_at"]) - datetime.now(UTC)
        assert timedelta(minutes=55) < left <= timedelta(hours=1)
        assert browser.get("/v1/session").json() == browser.said

    def test_the_cookie_is_for_this_service_only_and_for_no_script(self, browser: Browser) -> None:
        made = morsel(browser.answer)
        assert made.key == COOKIE
        assert (made["httponly"], made["samesite"].lower(), made["path"]) == (True, "strict", "/")
        assert (made["max-age"], made["secure"], made["domain"]) == ("43200", "", "")

    def test_over_tls_it_is_sent_over_tls_only(self, service: Service, custodian: Client) -> None:
        """As a proxy on this host says it."""
        over_tls = {"X-Forwarded-Proto": "https"}
        client = service.client(None)
        answer = client.post("/v1/session", json={"token": custodian.token}, headers=over_tls)
        made = morsel(answer)
        assert (made.key, made["secure"], made["path"], made["domain"]) == (f"__Host-{COOKIE}", True, "/", "")
        sent = over_tls | {"Cookie": f"__Host-{COOKIE}={made.value}", "X-CSRF-Token": answer.json()["csrf"]}
        client = service.client(None)
        assert client.get("/v1/datasets", headers=sent).status_code == 200
        # A neighbouring host can set the cookie without the prefix: over TLS nobody looks at it.
        planted = over_tls | {"Cookie": f"{COOKIE}={made.value}"}
        services.refused(client.get("/v1/datasets", headers=planted), 401, "unauthenticated")
        gone = morsel(client.delete("/v1/session", headers=sent))
        assert (gone.key, gone["secure"], gone["max-age"]) == (f"__Host-{COOKIE}", True, "0")

    @pytest.mark.parametrize("token", ["dk_" + "x" * 43, "x", METRICS_TOKEN])
    def test_needs_a_token_that_opens(self, token: str, service: Service) -> None:
        answer = service.client(None).post("/v1/session", json={"token": token})
        services.refused(answer, 401, "unauthenticated")
        assert "set-cookie" not in answer.headers

    @pytest.mark.parametrize(
        "body", [b"{}", b'{"token": 1}', b'{"token": "x", "seed": 1}', b"[]", b"{", b'{"token": ""}']
    )
    def test_a_body_is_read_strictly(self, body: bytes, service: Service) -> None:
        client = service.client(None)
        answer = client.post("/v1/session", content=body, headers={"Content-Type": "application/json"})
        services.refused(answer, 422, "invalid_request")
        services.refused(client.post("/v1/session", content=body), 422, "invalid_request")

    def test_strangers_cannot_send_much(self, service: Service) -> None:
        answer = service.client(None).post("/v1/session", json={"token": "x" * 10_000})
        assert "8 kB" in services.refused(answer, 413, "body_too_large")["detail"]

    def test_a_page_of_somebody_elses_cannot_sign_anybody_in(self, service: Service, custodian: Client) -> None:
        for site in ("cross-site", "same-site"):
            answer = service.client(None).post(
                "/v1/session", json={"token": custodian.token}, headers={"Sec-Fetch-Site": site}
            )
            services.refused(answer, 403, "csrf")
            assert "set-cookie" not in answer.headers

    def test_again_ends_the_session_before(self, service: Service, browser: Browser, custodian: Client) -> None:
        before = browser.secret
        assert browser.client.post("/v1/session", json={"token": custodian.token}).status_code == 201
        assert browser.secret != before
        stale = service.client(None).get("/v1/session", headers={"Cookie": f"{COOKIE}={before}"})
        services.refused(stale, 401, "unauthenticated")
        assert browser.get("/v1/session").status_code == 200

    def test_guesses_are_slowed_down_like_wrong_tokens(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        with services.serve(tmp_path_factory.mktemp("guessed"), requests_per_second=5, workers=0) as slow:
            stranger = slow.client(None)
            for body in ('{"token": "dk_guess"}', "{}"):
                for _ in range(1000):
                    answer = stranger.post("/v1/session", content=body, headers={"Content-Type": "application/json"})
                    if answer.status_code not in (401, 422):
                        break
                services.refused(answer, 429, "too_many_requests")


class TestWithASession:
    def test_reading_needs_the_cookie_only(self, browser: Browser) -> None:
        del browser.client.http.headers["X-CSRF-Token"]
        assert browser.get("/v1/datasets").status_code == 200
        services.refused(browser.get("/v1/keys"), 403, "forbidden")

    def test_writing_needs_the_header_too(self, service: Service, browser: Browser, custodian: Client) -> None:
        assert browser.post().status_code == 201
        other = Browser(service, custodian.token)
        for wrong in ("", "x", browser.said["csrf"][:-1], browser.said["csrf"].upper(), other.said["csrf"], "é"):
            answer = browser.client.post("/v1/populations", json=BUDGET, headers={"X-CSRF-Token": wrong.encode()})
            services.refused(answer, 403, "csrf")
        del browser.client.http.headers["X-CSRF-Token"]
        services.refused(browser.post(), 403, "csrf")
        services.refused(browser.client.delete("/v1/session"), 403, "csrf")
        assert browser.get("/v1/session").status_code == 200
        assert len(browser.get("/v1/populations").json()["items"]) == 1

    @pytest.mark.parametrize(
        ("site", "may"),
        [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False), ("", False)],
    )
    def test_a_page_of_somebody_elses_gets_nothing(self, site: str, may: bool, browser: Browser) -> None:
        sent = {"Sec-Fetch-Site": site}
        for answer, status in ((browser.get("/v1/populations", **sent), 200), (browser.post(**sent), 201)):
            if may:
                assert answer.status_code == status
            else:
                services.refused(answer, 403, "csrf")

    def test_a_token_beside_it_is_what_counts(self, service: Service, browser: Browser) -> None:
        auditor = service.key("auditor")
        del browser.client.http.headers["X-CSRF-Token"]
        mine = {"Authorization": f"Bearer {auditor.token}"}
        assert browser.get("/v1/ledgers", **mine).status_code == 200
        services.refused(browser.post(**mine), 403, "forbidden")
        services.refused(browser.get("/v1/datasets", Authorization="Bearer dk_nonsense"), 401, "unauthenticated")
        services.refused(browser.get("/v1/datasets", Authorization="nonsense"), 401, "unauthenticated")

    def test_its_secret_is_no_token(self, service: Service, browser: Browser) -> None:
        services.refused(service.client(browser.secret).get("/v1/datasets"), 401, "unauthenticated")
        again = service.client(None).post("/v1/session", json={"token": browser.secret})
        services.refused(again, 401, "unauthenticated")

    def test_the_metrics_stay_for_tokens(self, service: Service, small: Service) -> None:
        for running in (service, small):
            services.refused(Browser(running, running.token).get("/metrics"), 401, "unauthenticated")

    def test_data_is_uploaded_and_a_training_is_followed(self, hospital: Hospital) -> None:
        custodian = Browser(hospital.service, hospital.custodian.token)
        made = custodian.client.post("/v1/datasets", json={"name": "icu", "budget": {"rho": "9"}} | services.TABULAR)
        dataset = made.json()["id"]
        foreign = {"Content-Type": "text/csv", "X-CSRF-Token": "x"}
        path = f"/v1/datasets/{dataset}/trajectories"
        services.refused(custodian.client.put(path, content=services.csv(50), headers=foreign), 403, "csrf")
        assert services.upload(custodian.client, dataset, services.csv(50)).status_code == 201
        services.grant(custodian.client, dataset, hospital.analyst)
        analyst = Browser(hospital.service, hospital.analyst.token)
        training = services.submit(analyst.client, dataset, key=dataset).json()["id"]
        assert services.events(analyst.client, training)[-1]["state"] == "released"

    def test_a_stream_ends_with_the_session(self, unattended: Service) -> None:
        custodian, analyst = unattended.key("custodian"), unattended.key("analyst")
        dataset = services.ready_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        browser = Browser(unattended, analyst.token)
        training = services.submit(browser.client, dataset).json()["id"]
        with browser.client.stream("GET", f"/v1/trainings/{training}/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: training"
            assert browser.client.delete("/v1/session").status_code == 204
            assert sum(line.startswith("data: ") for line in lines) == 1


class TestTheEnd:
    def test_signing_out_ends_one_session_and_takes_its_cookie_back(
        self, service: Service, browser: Browser, custodian: Client
    ) -> None:
        other, secret = Browser(service, custodian.token), browser.secret
        answer = browser.client.delete("/v1/session")
        assert (answer.status_code, answer.content) == (204, b"")
        gone = morsel(answer)
        assert (gone.key, gone.value, gone["max-age"], gone["path"]) == (COOKIE, "", "0", "/")
        assert COOKIE not in browser.client.cookies
        services.refused(browser.get("/v1/session"), 401, "unauthenticated")
        kept = service.client(None).get("/v1/datasets", headers={"Cookie": f"{COOKIE}={secret}"})
        assert "sign in again" in services.refused(kept, 401, "unauthenticated")["detail"]
        assert other.get("/v1/datasets").status_code == 200
        assert custodian.get("/v1/datasets").status_code == 200

    def test_it_comes_with_the_keys(self, service: Service, browser: Browser, custodian: Client) -> None:
        assert service.admin.delete(f"/v1/keys/{custodian.id}").status_code == 200
        for answer in (browser.get("/v1/datasets"), browser.get("/v1/session"), browser.post()):
            assert "sign in again" in services.refused(answer, 401, "unauthenticated")["detail"]

    def test_it_comes_with_another_token_of_the_key(
        self, service: Service, browser: Browser, custodian: Client
    ) -> None:
        engine = database.engine(service.database)
        with database.transaction(engine) as connection:
            token = keys.replace(connection, custodian.id)
        engine.dispose()
        services.refused(browser.get("/v1/datasets"), 401, "unauthenticated")
        assert Browser(service, token).get("/v1/datasets").status_code == 200

    @pytest.mark.parametrize(
        "ages",
        [
            {"used_at": timedelta(minutes=61), "created_at": timedelta(minutes=61)},
            {"used_at": timedelta(0), "created_at": timedelta(hours=12)},
        ],
        ids=["unused", "old"],
    )
    def test_it_comes_with_time(self, ages: dict[str, timedelta], service: Service, browser: Browser) -> None:
        aged(service, browser.secret, **ages)
        for answer in (browser.get("/v1/datasets"), browser.get("/v1/session"), browser.post()):
            assert "sign in again" in services.refused(answer, 401, "unauthenticated")["detail"]
            assert answer.headers["www-authenticate"] == "Bearer"

    def test_it_moves_with_every_use(self, service: Service, browser: Browser) -> None:
        aged(service, browser.secret, used_at=timedelta(minutes=59))
        assert browser.get("/v1/datasets").status_code == 200
        assert datetime.now(UTC) - used_at(service, browser.secret) < timedelta(minutes=5)
        aged(service, browser.secret, used_at=timedelta(minutes=59))
        left = datetime.fromisoformat(browser.get("/v1/session").json()["expires_at"]) - datetime.now(UTC)
        assert left > timedelta(minutes=55)

    @pytest.mark.parametrize("secret", ["", "x", "ses_" + "x" * 43, '"', "a" * 5000])
    def test_a_cookie_that_was_made_up_opens_nothing(self, secret: str, service: Service) -> None:
        answer = service.client(None).get("/v1/datasets", headers={"Cookie": f"{COOKIE}={secret}"})
        services.refused(answer, 401, "unauthenticated")


class TestSecrets:
    def test_are_in_no_answer_no_log_and_no_row(self, service: Service, browser: Browser, custodian: Client) -> None:
        answers = [browser.answer, browser.get("/v1/session"), browser.post(), browser.get("/v1/keys")]
        answers.append(browser.client.post("/v1/session", json={"token": [custodian.token]}))
        answers.append(service.client(None).post("/v1/session", json={"token": custodian.token + "x"}))
        said = [f"{answer.text} {answer.headers}" for answer in answers[1:]] + [answers[0].text, service.log]
        engine = database.engine(service.database)
        with database.snapshot(engine) as connection:
            said += [str(connection.execute(sa.select(table)).all()) for table in (tables.sessions, tables.keys)]
        engine.dispose()
        for secret in (browser.secret, custodian.token):
            assert not [text[:200] for text in said if secret in text]
