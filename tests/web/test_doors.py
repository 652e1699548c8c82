"""Who comes in, who does not, and what nobody can take along."""

import sqlite3
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests import services
from tests.api.hospital import Hospital
from tests.services import Service
from tests.web.conftest import Visits

SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'


class TestSigningIn:
    def test_a_wrong_token_is_refused_in_words(self, visit: Visits, service: Service):
        page = visit().page
        page.goto(service.url)
        page.get_by_label("Your token").fill("dk_this_is_no_token_of_anybody_at_all")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("This token is not valid, or it was revoked")
        expect(page.get_by_role("alert")).not_to_contain_text("Sign in again")  # nobody was signed in
        expect(page.get_by_label("Your token")).to_have_value("")

    def test_the_token_stays_nowhere(self, visit: Visits, service: Service):
        auditor = service.key("auditor")
        visitor = visit().sign_in(auditor)
        visitor.go("audit").go("verify")
        kept = visitor.page.evaluate(
            "() => [document.cookie, location.href, document.documentElement.outerHTML,"
            " JSON.stringify(localStorage), JSON.stringify(sessionStorage), JSON.stringify(history.state)].join('\\n')"
        )
        assert auditor.token not in kept
        assert visitor.page.evaluate("document.cookie") == ""
        carried = [one for one in visitor.requests if auditor.token in f"{one.url}{one.post_data or ''}{one.headers}"]
        assert [(one.method, urlsplit(one.url).path) for one in carried] == [("POST", "/v1/session")]
        cookie = visitor.context.cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert auditor.token not in cookie["value"]

    def test_who_signs_out_is_out_in_every_tab(self, visit: Visits, service: Service):
        visitor = visit().sign_in(service.key("auditor"), "audit")
        other = visitor.context.new_page()
        other.goto(f"{service.url}/#/verify")
        expect(other.get_by_role("heading", name="Verify a file")).to_be_visible()
        visitor.page.get_by_role("button", name="Sign out").click()
        expect(visitor.page.get_by_text("You are signed out.")).to_be_visible()
        other.get_by_role("link", name="Audit").click()
        expect(other.get_by_text("Sign in again to go on where you were.")).to_be_visible()

    def test_who_signs_out_unheard_is_not_told_that_they_are_out(self, visit: Visits, service: Service):
        page = visit().sign_in(service.key("auditor")).page
        page.route("**/v1/session", lambda route: route.abort())
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("your session is still open")).to_be_visible()
        expect(page.get_by_role("navigation")).to_have_count(0)

    def test_a_write_without_the_csrf_header_is_refused(self, visit: Visits, service: Service):
        visitor = visit().sign_in(service.key("custodian"))
        ask = """async headers => (await fetch("/v1/populations", {
            method: "POST", headers: {"Content-Type": "application/json", ...headers},
            body: JSON.stringify({name: "x", budget: {rho: "1"}}),
        })).status"""
        assert visitor.page.evaluate(ask, {}) == 403
        assert visitor.page.evaluate(ask, {"X-CSRF-Token": "0" * 64}) == 403
        csrf = visitor.page.evaluate("async () => (await (await fetch('/v1/session')).json()).csrf")
        assert visitor.page.evaluate(ask, {"X-CSRF-Token": csrf}) == 201


class TestSessionThatEnds:
    def test_by_a_revoked_key_while_a_page_is_open(self, visit: Visits, service: Service):
        analyst = service.key("analyst")
        visitor = visit().sign_in(analyst, "datasets")
        service.admin.delete(f"/v1/keys/{analyst.id}")
        visitor.page.get_by_role("link", name="Policies").click()
        expect(visitor.page.get_by_text("Your session has ended, or your key was revoked.")).to_be_visible()
        expect(visitor.page.get_by_role("navigation")).to_have_count(0)

    def test_by_time_and_who_signs_in_again_is_where_they_were(self, visit: Visits, service: Service):
        auditor = service.key("auditor")
        visitor = visit().sign_in(auditor, "audit")
        with sqlite3.connect(service.folder / "data" / "discretion.db", timeout=30) as database:
            database.execute("UPDATE sessions SET used_at = '2020-01-01T00:00:00.000000+00:00'")
        database.close()
        visitor.page.get_by_role("link", name="Verify a file").click()
        visitor.page.get_by_role("link", name="Audit").click()
        page = visitor.page
        expect(page.get_by_text("Sign in again to go on where you were.")).to_be_visible()
        page.get_by_label("Your token").fill(auditor.token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Audit", exact=True)).to_be_visible()


class TestWhatIsNotYours:
    @pytest.mark.parametrize(
        "address",
        [
            "datasets/{dataset}",
            "datasets/{dataset}/train",
            "trainings/{training}",
            "policies/{policy}",
            "policies/{policy}/certificate",
            "policies/{policy}/evaluate",
            "evaluations/{evaluation}",
        ],
    )
    def test_looks_as_if_it_had_never_been(self, visit: Visits, hospital: Hospital, address: str):
        visitor = visit().sign_in(hospital.analyst)
        ids = hospital.foreign.ids()
        invented = {name: f"{value[:-6]}aaaaaa" for name, value in ids.items() if value}
        shown = []
        for found in (ids, invented):
            visitor.go(address.format(**found))
            text = visitor.page.locator("#main").inner_text()
            for value in filter(None, found.values()):
                text = text.replace(value, "…")
            shown.append(text)
        assert shown[0] == shown[1]

    @pytest.mark.parametrize("address", ["policies/../../etc", "policies/%", "%E0%A4%A"])
    def test_an_address_that_is_no_page_says_so(self, visit: Visits, hospital: Hospital, address: str):
        visitor = visit().sign_in(hospital.analyst).go(address)
        expect(visitor.heading).to_have_text("There is no such page")

    def test_a_page_of_another_role_says_so_in_words(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.analyst)
        said = {
            "audit": "The audit is for auditors.",
            "keys": "Only administrators see keys",
            "datasets/new": "Only custodians make datasets.",
            f"audit/ledgers/{hospital.own.dataset}": "Whole ledgers are for auditors",
        }
        for address, words in said.items():
            expect(visitor.go(address).page.locator("#main")).to_contain_text(words)
            expect(visitor.page.locator("#main form")).to_have_count(0)


class TestNames:
    def test_a_script_in_a_name_stays_a_name(self, visit: Visits, service: Service):
        custodian = service.key("custodian")
        dataset = services.new_dataset(custodian, name=SCRIPT)
        visitor = visit().sign_in(custodian)
        for address in ("", "datasets", f"datasets/{dataset}"):
            expect(visitor.go(address).page.get_by_text(SCRIPT).first).to_be_visible()
        assert visitor.page.evaluate("window.pwned") is None
