"""The custodian's and the administrator's stories as a whole; the pieces of each are tried elsewhere."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests import services
from tests.services import Service
from tests.web.conftest import Visits


def describe(page: Page, name: str) -> None:
    """A new dataset like `services.TABULAR`."""
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Budget ρ", exact=True).fill("2")
    page.get_by_label("Most steps of a stay").fill("3")
    page.get_by_label("Number of states", exact=True).fill("4")
    page.get_by_label("What the actions are called").fill("wait\ntreat")
    page.get_by_role("button", name="Check and make the dataset").click()


def mistaken(file: Path) -> Path:
    """With a state in row 3 and a reward in row 5 that the schema does not know."""
    lines = [line.split(",") for line in services.csv(20).decode().splitlines()]
    lines[2][2], lines[4][4] = "9", "7.5"
    file.write_text("\n".join(map(",".join, lines)))
    return file


class TestCustodian:
    def test_makes_a_dataset_mends_an_upload_and_grants_it(self, visit: Visits, service: Service, tmp_path: Path):
        custodian, analyst = service.key("custodian"), service.key("analyst")
        visitor = visit().sign_in(custodian)
        page = visitor.page
        page.get_by_role("link", name="Make the first dataset").click()
        visitor.settle()
        describe(page, "icu-2019")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("ρ = 2")
        dialog.get_by_role("button", name="Make the dataset").click()
        expect(visitor.heading).to_have_text("icu-2019")

        page.get_by_label("File with the trajectories").set_input_files(mistaken(tmp_path / "stays.csv"))
        problems = page.locator(".sorry")
        expect(problems).to_contain_text("state")
        expect(problems).to_contain_text("reward")
        assert custodian.get("/v1/datasets").json()["items"][0]["state"] == "empty"

        (tmp_path / "mended.csv").write_bytes(services.csv(20))
        page.get_by_label("File with the trajectories").set_input_files(tmp_path / "mended.csv")
        expect(page.get_by_text("was accepted whole")).to_be_visible()
        expect(page.locator(".facts").first).to_contain_text("ready")

        page.get_by_label("Id of the analyst's key").fill(analyst.id)
        page.get_by_label("Cap ρ").fill("0.5")
        page.get_by_role("button", name="Grant", exact=True).click()
        expect(page.get_by_role("cell", name=analyst.id, exact=True)).to_be_visible()
        assert analyst.get("/v1/datasets").json()["items"][0]["name"] == "icu-2019"


class TestAdministrator:
    def test_makes_a_key_and_revokes_another(self, visit: Visits, service: Service):
        left = service.admin.post("/v1/keys", json={"name": "left the house", "role": "analyst"}).json()
        page = visit().sign_in(service.token, "keys").page
        page.get_by_label("Whose key").fill("ethics board")
        page.get_by_role("radio", name="Auditor").check()
        page.get_by_role("button", name="Make the key").click()
        dialog = page.get_by_role("dialog")
        token = dialog.locator("code", has_text="dk_").inner_text()
        dialog.get_by_role("button", name="I have kept the token").click()
        expect(page.get_by_role("cell", name="ethics board", exact=True)).to_be_visible()
        assert service.client(token).get("/v1/ledgers").status_code == 200
        page.get_by_role("button", name="Revoke the key of left the house").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row", name=left["id"])).to_contain_text("revoked")
        assert service.client(left["token"]).get("/v1/datasets").status_code == 401
