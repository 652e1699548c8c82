"""The dashboard for people whom the identity provider vouches for."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from tests import providers, services
from tests.api.test_session import aged
from tests.services import Service
from tests.web.conftest import Visits
from tests.web.test_looks import looked_at


@pytest.fixture(scope="module")
def vouching() -> Iterator[providers.Provider]:
    with providers.provider() as real:
        yield real


@pytest.fixture(scope="module")
def clinic(vouching: providers.Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with services.serve(tmp_path_factory.mktemp("identities"), workers=0, **vouching.environment()) as running:
        yield running


class TestSigningIn:
    def test_with_the_providers_token_lasts_as_long_as_the_token(
        self, visit: Visits, vouching: providers.Provider, clinic: Service
    ):
        token = vouching.token("ada", "clinic-admin", preferred_username="Dr. Ada")
        visitor = visit(clinic.url).sign_in(token, "keys")
        expect(visitor.page.get_by_role("navigation").first).to_be_visible()
        expect(visitor.page.get_by_role("cell", name="Dr. Ada identity ada")).to_be_visible()
        assert token not in visitor.page.evaluate("() => document.documentElement.outerHTML + document.cookie")
        (cookie,) = visitor.context.cookies()
        assert 0 < cookie["expires"] - time.time() <= 300
        aged(clinic, cookie["value"], expires_at=timedelta(seconds=1))
        visitor.page.get_by_role("link", name="Audit").click()
        expect(visitor.page.get_by_text("Sign in again to go on where you were.")).to_be_visible()

    def test_a_refusal_is_told_in_words(self, visit: Visits, vouching: providers.Provider, clinic: Service):
        page = visit(clinic.url).page
        page.goto(clinic.url)
        page.get_by_label("Your token").fill(vouching.token("ada", ["clinic-data", "clinic-science"]))
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("several roles here (analyst, custodian)")

    def test_who_comes_with_an_old_token_is_told_where_to_get_another(
        self, visit: Visits, vouching: providers.Provider, clinic: Service
    ):
        visitor, now = visit(clinic.url), int(time.time())
        visitor.page.goto(clinic.url)
        visitor.page.get_by_label("Your token").fill(
            vouching.token("ada", "clinic-admin", iat=now - 7200, exp=now - 3600)
        )
        visitor.page.get_by_role("button", name="Sign in").click()
        told = visitor.page.get_by_role("alert")
        expect(told).to_contain_text("Your token has expired; get a new one from the identity provider.")
        expect(visitor.page.get_by_label("Your token")).to_have_value("")
        assert visitor.context.cookies() == []


class TestKeys:
    def test_say_who_is_an_identity_of_the_provider_and_what_revoking_it_does(
        self, visit: Visits, vouching: providers.Provider, clinic: Service
    ):
        known = clinic.client(vouching.token("grace", "clinic-data", preferred_username="Dr. Grace"))
        assert known.get("/v1/datasets").status_code == 200
        visitor = visit(clinic.url).sign_in(clinic.token, "keys")
        person = visitor.page.get_by_role("row").filter(has_text="Dr. Grace")
        expect(person).to_contain_text(f"identity grace of {vouching.issuer}")
        expect(visitor.page.get_by_role("row").filter(has_text="first administrator")).not_to_contain_text("identity")
        assert not looked_at(visitor, "admin/keys-identities")
        person.get_by_role("button", name="Revoke the identity of Dr. Grace").click()
        dialog = visitor.page.get_by_role("dialog")
        expect(dialog).to_contain_text("no token of the provider lets them in")
        expect(dialog).to_contain_text("discretion keys reopen for this identity")
        dialog.get_by_role("button", name="Revoke").click()
        expect(person).to_contain_text("revoked")
        assert known.get("/v1/datasets").status_code == 401
