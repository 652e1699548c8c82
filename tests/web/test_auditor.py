"""The auditor's story: believe nothing, check everything, catch what was tampered with."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from typer.testing import CliRunner, Result

from discretion import cli
from tests.api.hospital import Hospital
from tests.web.conftest import Visits

Files = dict[str, Path]

WITHOUT_ED25519 = """
const known = SubtleCrypto.prototype.importKey;
SubtleCrypto.prototype.importKey = function (format, key, algorithm, ...more) {
  const name = algorithm.name || algorithm;
  if (name === "Ed25519") return Promise.reject(new DOMException("Unrecognized name.", "NotSupportedError"));
  return known.call(this, format, key, algorithm, ...more);
};
"""


def saved(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as begun:
        page.get_by_role("button", name=name).click()
    target = folder / begun.value.suggested_filename
    begun.value.save_as(target)
    return target


def command(*words: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, words)))


class TestCertificate:
    def test_is_judged_by_the_browser_and_can_be_read(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, f"policies/{hospital.own.policy}/certificate").page
        verdict = page.locator(".verdict")
        expect(verdict).to_contain_text("Everything that a browser can check holds.")
        for name in ("Signature", "Content", "Sum", "Ledger"):
            expect(verdict).to_contain_text(f"{name} holds.")
        expect(page.get_by_role("heading", name="What is not covered")).to_be_visible()
        verdict.get_by_text("What was not checked here").click()
        expect(verdict).to_contain_text("are the ones that the request calls for")

    def test_of_a_linear_policy_and_of_an_evaluation_hold_too(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.auditor)
        for address in (f"policies/{hospital.linear.policy}", f"evaluations/{hospital.own.evaluation}"):
            page = visitor.go(f"{address}/certificate").page
            expect(page.locator(".verdict")).to_contain_text("Ledger holds.")
        expect(page.get_by_role("heading", name="What was found")).to_be_visible()

    def test_is_downloaded_and_verified_by_the_command_that_the_page_shows(
        self, visit: Visits, hospital: Hospital, tmp_path: Path
    ):
        page = visit().sign_in(hospital.analyst, f"policies/{hospital.own.policy}/certificate").page
        names = ("Download the policy", "Download the certificate", "Download the public keys")
        files = [saved(page, name, tmp_path).name for name in names]
        shown = page.get_by_role("button", name="Copy discretion verify").inner_text()
        assert shown == f"discretion verify {files[0]} {files[1]} --keys {files[2]} --explain"
        words = shown.removeprefix("discretion ").split()
        words = [str(tmp_path / word) if word.endswith(".json") else word for word in words]
        assert command(*words).exit_code == 0

    def test_prints_on_a4_without_the_menu(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, f"policies/{hospital.own.policy}/certificate").page
        expect(page.locator(".verdict")).to_be_visible()
        page.emulate_media(media="print")
        expect(page.locator("#top")).to_be_hidden()
        expect(page.get_by_role("button", name="Print")).to_be_hidden()
        expect(page.get_by_role("heading", name="What it costs")).to_be_visible()
        assert page.pdf().startswith(b"%PDF")

    def test_without_a_secure_page_the_command_is_shown_instead(self, visit: Visits, hospital: Hospital):
        visitor = visit()
        visitor.context.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined });")
        page = visitor.sign_in(hospital.auditor, f"policies/{hospital.own.policy}/certificate").page
        expect(page.locator(".verdict")).to_contain_text("Nothing was checked here.")
        expect(page.get_by_role("button", name="Copy discretion verify")).to_be_visible()
        visitor.go("verify")
        expect(page.locator(".verdict")).to_contain_text("not loaded over HTTPS")

    def test_in_a_browser_without_ed25519_the_command_is_shown_instead(
        self, visit: Visits, hospital: Hospital, tmp_path: Path
    ):
        """As browsers were until 2025: every other algorithm is there."""
        visitor = visit()
        visitor.context.add_init_script(WITHOUT_ED25519)
        page = visitor.sign_in(hospital.auditor, f"policies/{hospital.own.policy}/certificate").page
        verdict = page.locator(".verdict")
        expect(verdict).to_contain_text("Nothing was checked here.")
        expect(verdict).to_contain_text("This browser does not know Ed25519 signatures yet. Download the files below")
        names = ("Download the policy", "Download the certificate", "Download the public keys")
        files = [saved(page, name, tmp_path).name for name in names]
        shown = page.get_by_role("button", name="Copy discretion verify").inner_text()
        assert shown == f"discretion verify {files[0]} {files[1]} --keys {files[2]} --explain"
        visitor.go("verify")
        expect(verdict).to_contain_text("does not know Ed25519 signatures yet. Check the files with the command below")
        expect(page.get_by_role("button", name="Copy discretion verify POLICY")).to_be_visible()
        expect(page.get_by_role("button", name="Check")).to_have_count(0)
        visitor.go("audit")
        expect(verdict).to_contain_text("Each certificate's own page has its files and the command")
        visitor.go(f"audit/ledgers/{hospital.own.dataset}")
        expect(verdict).to_contain_text("does not know Ed25519 signatures yet. Download the files below")
        head = saved(page, "Download the signed head", tmp_path)
        page.get_by_label("A signed head that you kept").set_input_files(head)
        page.get_by_role("button", name="Compare").click()
        expect(verdict.last).to_contain_text("the head that you kept in place of the new one")
        expect(page.get_by_role("button", name="Copy discretion ledger check")).to_be_visible()

    def test_that_the_service_has_changed_is_caught(self, visit: Visits, hospital: Hospital):
        """A service that lies: the answer is changed on its way to the browser."""
        visitor = visit().sign_in(hospital.auditor)
        policy = hospital.own.policy

        def lie(route: Any) -> None:
            document = route.fetch().json()
            document["decisions"][0][0] = 1 - document["decisions"][0][0]
            route.fulfill(json=document)

        visitor.page.route(f"**/v1/policies/{policy}", lie)
        visitor.go(f"policies/{policy}/certificate")
        expect(visitor.page.locator(".verdict .lead")).to_contain_text("not the one that was certified")


class TestAudit:
    def test_every_certificate_is_verified_at_once(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, "audit").page
        page.get_by_role("button", name="Verify all").click()
        said = page.get_by_text(re.compile("^All [0-9]+ certificates hold"))
        expect(said).to_be_visible()
        count = int(said.inner_text().split()[1])
        assert count >= 7
        expect(page.get_by_text("✓ holds")).to_have_count(count)

    def test_one_that_does_not_hold_is_named_among_those_that_do(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.auditor)
        other = hospital.service.client(hospital.auditor.token).get(
            f"/v1/policies/{hospital.linear.policy}/certificate"
        )
        visitor.page.route(
            f"**/v1/policies/{hospital.own.policy}/certificate", lambda route: route.fulfill(body=other.text)
        )
        page = visitor.go("audit").page
        page.get_by_role("button", name="Verify all").click()
        expect(page.get_by_text(f"certificates does not hold: {hospital.own.policy}.")).to_be_visible()
        expect(page.locator("td .wrong")).to_contain_text("about another policy")

    def test_public_keys_are_shown_with_their_fingerprints(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, "audit").page
        kid = hospital.auditor.get("/v1/certificate-keys").json()["keys"][0]["kid"]
        listed = page.get_by_role("region", name="Every public key")
        expect(listed.get_by_role("cell", name=kid)).to_be_visible()
        expect(page.get_by_text("✓ the name is the key's own")).to_be_visible()

    def test_the_log_says_who_did_what_and_can_be_searched(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, "audit").page
        log = page.get_by_role("region", name="Newest first")
        expect(log).to_contain_text("dataset.upload")
        page.get_by_label("Show only entries with").fill(hospital.own.grant)
        expect(log.locator("tbody tr")).to_have_count(1)
        expect(log).to_contain_text(hospital.custodian.id)
        page.get_by_label("Show only entries with").fill("nothing of the kind")
        expect(page.get_by_text("No entry has that in it.")).to_be_visible()

    def test_the_log_names_a_signing_key_by_its_whole_fingerprint(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, "audit").page
        kid = hospital.auditor.get("/v1/certificate-keys").json()["keys"][0]["kid"]
        page.get_by_label("Show only entries with").fill(kid)
        entries = page.get_by_role("region", name="Newest first").locator("tbody tr")
        expect(entries).to_have_count(1)
        expect(entries).to_contain_text("signing-key.publish")

    def test_an_administrator_sees_the_log_only(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.admin, "audit").page
        expect(page.get_by_role("region", name="Newest first")).to_contain_text("grant.create")
        expect(page.get_by_role("button", name="Verify all")).to_have_count(0)


class TestLedger:
    def test_is_followed_and_added_up_by_the_browser(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.auditor, "audit")
        visitor.page.get_by_role("link", name=hospital.own.dataset, exact=True).click()
        visitor.settle()
        verdict = visitor.page.locator(".verdict")
        expect(verdict).to_contain_text("This ledger holds")
        expect(verdict).to_contain_text("Signed head holds.")
        said = hospital.custodian.get(f"/v1/datasets/{hospital.own.dataset}/budget").json()
        expect(visitor.page.locator(".facts")).to_contain_text(f"Charged{said['charged']}")
        expect(visitor.page.locator(".facts")).to_contain_text(f"Remaining{said['remaining']}")

    def test_of_a_population_is_found_by_any_of_its_datasets(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.auditor, f"audit/ledgers/{hospital.own.population}")
        expect(visitor.heading).to_have_text("Ledger of icu")
        expect(visitor.page.locator("#main > div > p").first).to_contain_text(hospital.own.dataset)
        expect(visitor.page.locator(".verdict")).to_contain_text("This ledger holds")

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            (lambda rows: rows[1].update(rho="0.4"), "Row 2 was changed"),
            (lambda rows: rows.pop(1), "Row 2 does not follow the row before it"),
            (lambda rows: rows.pop(), "The signed head is not part of this ledger"),
        ],
    )
    def test_that_was_tampered_with_is_caught(self, visit: Visits, hospital: Hospital, change: Any, sentence: str):
        visitor = visit().sign_in(hospital.auditor)

        def lie(route: Any) -> None:
            document = route.fetch().json()
            change(document["rows"])
            route.fulfill(json=document)

        visitor.page.route("**/ledger?*", lie)
        visitor.go(f"audit/ledgers/{hospital.own.dataset}")
        expect(visitor.page.locator(".verdict .lead")).to_contain_text(sentence)

    def test_is_downloaded_and_checked_by_the_command_that_the_page_shows(
        self, visit: Visits, hospital: Hospital, tmp_path: Path
    ):
        page = visit().sign_in(hospital.auditor, f"audit/ledgers/{hospital.own.dataset}").page
        names = ("Download the ledger", "Download the signed head", "Download the public keys")
        files = [saved(page, name, tmp_path) for name in names]
        shown = page.get_by_role("button", name="Copy discretion ledger check").inner_text()
        assert shown == f"discretion ledger check {files[0].name} {files[1].name} --keys {files[2].name}"
        assert command("ledger", "check", files[0], files[1], "--keys", files[2]).exit_code == 0
        page.get_by_label("A signed head that you kept").set_input_files(files[1])
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_text("nothing before it was taken back").first).to_be_visible()


@pytest.fixture(scope="module")
def files(hospital: Hospital, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("files")
    policy = f"/v1/policies/{hospital.own.policy}"
    addresses = {"policy": policy, "certificate": f"{policy}/certificate", "keys": "/v1/certificate-keys"}
    for name, address in addresses.items():
        (folder / f"{name}.json").write_bytes(hospital.auditor.get(address).content)
    return {name: folder / f"{name}.json" for name in addresses}


def changed(file: Path, folder: Path, change: Any) -> Path:
    document = json.loads(file.read_text())
    change(document)
    (folder / file.name).write_text(json.dumps(document, indent=1))
    return folder / file.name


class TestVerifyingAFile:
    def check(self, page: Page, files: Files) -> str:
        labels = {"policy": "Policy or report", "certificate": "Certificate", "keys": "Public keys (JWKS)"}
        for name, file in files.items():
            page.get_by_label(labels[name], exact=True).set_input_files(file)
        page.get_by_role("button", name="Check").click()
        lead = page.locator(".verdict .lead")
        expect(lead).to_be_visible()
        return lead.inner_text()

    def test_holds_with_the_services_keys_and_nothing_is_sent(self, visit: Visits, hospital: Hospital, files: Files):
        visitor = visit().sign_in(hospital.auditor, "verify")
        visitor.requests.clear()
        said = self.check(visitor.page, {name: files[name] for name in ("policy", "certificate")})
        assert said == "Everything that a browser can check holds."
        assert visitor.asked() == ["/v1/certificate-keys"]

    def test_spacing_and_the_order_of_keys_do_not_matter(
        self, visit: Visits, hospital: Hospital, files: Files, tmp_path: Path
    ):
        page = visit().sign_in(hospital.auditor, "verify").page
        spaced = changed(files["policy"], tmp_path, lambda document: document.update(id=document.pop("id")))
        assert self.check(page, files | {"policy": spaced}) == "Everything that a browser can check holds."

    def test_a_certificate_that_was_changed_is_caught(
        self, visit: Visits, hospital: Hospital, files: Files, tmp_path: Path
    ):
        def tamper(document: Any) -> None:
            document["payload"] = document["payload"][:-8] + document["payload"][-4:] + document["payload"][-8:-4]

        page = visit().sign_in(hospital.auditor, "verify").page
        tampered = changed(files["certificate"], tmp_path, tamper)
        said = self.check(page, files | {"certificate": tampered})
        assert "The signature does not belong to this certificate" in said

    def test_a_policy_that_was_changed_is_caught(self, visit: Visits, hospital: Hospital, files: Files, tmp_path: Path):
        def tamper(document: Any) -> None:
            document["source"][0][0] = "learned" if document["source"][0][0] == "fallback" else "fallback"

        page = visit().sign_in(hospital.auditor, "verify").page
        said = self.check(page, files | {"policy": changed(files["policy"], tmp_path, tamper)})
        assert "The policy is not the one that was certified: its digest is" in said

    def test_a_key_that_stands_twice_is_caught(self, visit: Visits, hospital: Hospital, files: Files, tmp_path: Path):
        page = visit().sign_in(hospital.auditor, "verify").page
        (tmp_path / "policy.json").write_text('{"algorithm": "x", ' + files["policy"].read_text()[1:])
        assert 'the key "algorithm" stands twice' in self.check(page, files | {"policy": tmp_path / "policy.json"})

    def test_the_keys_of_somebody_else_are_not_enough(
        self, visit: Visits, hospital: Hospital, files: Files, tmp_path: Path
    ):
        page = visit().sign_in(hospital.auditor, "verify").page
        none = changed(files["keys"], tmp_path, lambda document: document["keys"].clear())
        assert "does not hold, exactly once, the key that signed this" in self.check(page, files | {"keys": none})

    def test_what_is_no_json_at_all_is_said_to_be_none(
        self, visit: Visits, hospital: Hospital, files: Files, tmp_path: Path
    ):
        page = visit().sign_in(hospital.auditor, "verify").page
        (tmp_path / "certificate.json").write_bytes(b"\xff\x00 certificate")
        said = self.check(page, files | {"certificate": tmp_path / "certificate.json"})
        assert said == "The file is not a text in UTF-8."

    def test_files_that_are_dropped_find_their_places(self, visit: Visits, hospital: Hospital, files: Files):
        page = visit().sign_in(hospital.auditor, "verify").page
        page.evaluate(
            """texts => {
                const dropped = new DataTransfer();
                for (const [name, text] of Object.entries(texts)) dropped.items.add(new File([text], `${name}.json`));
                document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: dropped }));
            }""",
            {name: file.read_text() for name, file in files.items()},
        )
        expect(page.locator(".drop")).to_contain_text("Certificate: certificate.json")
        assert self.check(page, {}) == "Everything that a browser can check holds."

    def test_without_files_it_says_which_are_missing(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.auditor, "verify").page
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_text("Choose the policy or report and the certificate first.")).to_be_visible()
