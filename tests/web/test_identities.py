"""The dashboard for people whom the identity provider vouches for."""

import time
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from tests import providers, services
from tests.api.test_session import aged
from tests.web.conftest import Visits


class TestSigningIn:
    def test_with_the_providers_token_lasts_as_long_as_the_token(
        self, visit: Visits, tmp_path_factory: pytest.TempPathFactory
    ):
        with providers.provider() as real:
            folder = tmp_path_factory.mktemp("identities")
            with services.serve(folder, workers=0, **real.environment()) as service:
                token = real.token("ada", "clinic-admin", preferred_username="Dr. Ada")
                visitor = visit(service.url).sign_in(token, "keys")
                expect(visitor.page.get_by_role("navigation").first).to_be_visible()
                expect(visitor.page.get_by_role("cell", name="Dr. Ada", exact=True)).to_be_visible()
                assert token not in visitor.page.evaluate("() => document.documentElement.outerHTML + document.cookie")
                (cookie,) = visitor.context.cookies()
                assert 0 < cookie["expires"] - time.time() <= 300
                aged(service, cookie["value"], expires_at=timedelta(seconds=1))
                visitor.page.get_by_role("link", name="Audit").click()
                expect(visitor.page.get_by_text("Sign in again to go on where you were.")).to_be_visible()

    def test_a_refusal_is_told_in_words(self, visit: Visits, tmp_path_factory: pytest.TempPathFactory):
        with providers.provider() as real:
            folder = tmp_path_factory.mktemp("refused")
            with services.serve(folder, workers=0, **real.environment()) as service:
                page = visit(service.url).page
                page.goto(service.url)
                page.get_by_label("Your token").fill(real.token("ada", ["clinic-data", "clinic-science"]))
                page.get_by_role("button", name="Sign in").click()
                expect(page.get_by_role("alert")).to_contain_text("several roles here (analyst, custodian)")
