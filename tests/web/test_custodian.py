"""The custodian's and the administrator's story: nobody can make a mistake that a page could have kept them from."""

import itertools
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests import services
from tests.api import hospital as hospitals
from tests.api.hospital import Hospital
from tests.services import Client, Service
from tests.web.conftest import Visits
from tests.web.test_auditor import command, saved
from tests.web.visits import Visit

HEADER = "unit,step,state,action,reward"


@pytest.fixture
def custodian(service: Service) -> Client:
    return service.key("custodian")


@pytest.fixture
def analyst(service: Service) -> Client:
    return service.key("analyst")


@pytest.fixture
def dataset(custodian: Client) -> str:
    """Without data yet."""
    return services.new_dataset(custodian, rho="2")


def send(page: Page, content: bytes, name: str = "stays.csv") -> None:
    page.get_by_label("File with the trajectories").set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": content}
    )


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


class TestNewDataset:
    def test_explains_every_mistake_before_anything_is_sent(self, visit: Visits, custodian: Client):
        visitor = visit().sign_in(custodian, "datasets/new")
        page = visitor.page
        page.get_by_label("Budget ρ").fill("0,5")
        page.get_by_label("One reward: least").fill("2")
        page.get_by_label("What the actions are called").fill("wait\n\ntreat")
        page.get_by_role("button", name="Check and make").click()
        expect(page.locator(".fault")).to_have_text(
            [
                "Give it a name that your colleagues will recognise.",
                "Write a point before the decimals, not a comma.",
                re.compile("Write a whole number from 1 to"),
                re.compile("Write a whole number from 1 to"),
                "Line 2 is empty: each line names one action.",
                "The second number must be larger than the first.",
            ]
        )
        expect(page.get_by_label("Name", exact=True)).to_be_focused()
        assert custodian.get("/v1/datasets").json()["items"] == []

    def test_says_no_longer_what_was_mended(self, visit: Visits, custodian: Client):
        page = visit().sign_in(custodian, "datasets/new").page
        page.get_by_role("button", name="Check and make").click()
        name = page.get_by_label("Name", exact=True)
        told = page.get_by_text("Give it a name that your colleagues will recognise.")
        expect(told).to_be_visible()
        faults = page.locator(".fault").count()
        name.fill("icu")
        expect(told).to_have_count(0)
        expect(name).not_to_have_attribute("aria-invalid", "true")
        expect(page.locator(".fault")).to_have_count(faults - 1)
        page.get_by_label("What the actions are called").fill("wait\ntreat")  # which counts them, too
        expect(page.get_by_label("Number of actions")).not_to_have_attribute("aria-invalid", "true")
        expect(page.locator(".fault")).to_have_count(faults - 2)

    def test_of_measurements_is_made_as_it_was_described(self, visit: Visits, custodian: Client):
        page = visit().sign_in(custodian, "datasets/new").page
        page.get_by_label("Name", exact=True).fill("shock")
        page.get_by_label("as ε and δ").check()
        page.get_by_label("Budget ε").fill("4")
        page.get_by_label("Most steps of a stay").fill("6")
        page.get_by_label("Measurements, one column each").check()
        page.get_by_text("Paste many columns").click()
        page.get_by_label("One column per line").fill("age, 0, 120\nlactate; 0; 30; missing")
        page.get_by_role("button", name="Take these columns").click()
        page.get_by_label("What the actions are called").fill("fluids\nvasopressor")
        page.get_by_label("All rewards of one stay together (optional): least").fill("0")
        page.get_by_label("All rewards of one stay together (optional): most").fill("1")
        page.get_by_role("button", name="Check and make").click()
        page.get_by_role("button", name="Make the dataset", exact=True).click()
        expect(page.locator("h1")).to_have_text("shock")
        made = custodian.get("/v1/datasets").json()["items"][0]
        bounds = [[0.0, 120.0], [0.0, 30.0]]
        states = {"kind": "vector", "columns": ["age", "lactate"], "bounds": bounds, "missing": ["lactate"]}
        assert made["states"] == states
        assert made["actions"] == {"count": 2, "labels": ["fluids", "vasopressor"]}
        assert (made["horizon"], made["return"]) == (6, {"low": 0.0, "high": 1.0})

    def test_may_share_the_budget_of_patients_who_are_here_already(
        self, visit: Visits, custodian: Client, dataset: str
    ):
        page = visit().sign_in(custodian, "datasets/new").page
        page.get_by_label("Name", exact=True).fill("follow-up")
        page.get_by_label("Patients of a population that is here already").check()
        page.get_by_label("Population", exact=True).select_option(index=1)
        for label, value in (("Most steps", "3"), ("Number of states", "4"), ("Number of actions", "2")):
            page.get_by_role("textbox", name=label).fill(value)
        page.get_by_role("button", name="Check and make").click()
        page.get_by_role("button", name="Make the dataset", exact=True).click()
        expect(card(page, "Budget")).to_contain_text("Shared with icu: the same patients, one budget.")
        populations = {one["population"] for one in custodian.get("/v1/datasets").json()["items"]}
        assert len(populations) == 1

    def test_shows_what_the_service_refuses_beside_its_field(self, visit: Visits, custodian: Client):
        page = visit().sign_in(custodian, "datasets/new").page
        page.get_by_label("Name", exact=True).fill("tiny")
        page.get_by_label("as ε and δ").check()
        page.get_by_label("Budget ε").fill("1e-30")
        for label, value in (("Most steps", "3"), ("Number of states", "4"), ("Number of actions", "2")):
            page.get_by_role("textbox", name=label).fill(value)
        page.get_by_role("button", name="Check and make").click()
        page.get_by_role("button", name="Make the dataset", exact=True).click()
        expect(page.locator(".field", has=page.get_by_label("Budget ε")).locator(".fault")).to_be_visible()


class TestUpload:
    def test_is_taken_whole_and_told_to_the_custodian(self, visit: Visits, custodian: Client, dataset: str):
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        send(page, services.csv(50))
        expect(card(page, "Upload")).to_contain_text("stays.csv was accepted whole: 50 patients, 50 stays, 150 steps.")
        expect(card(page, "About")).to_contain_text("ready")

    def test_may_be_dropped(self, visit: Visits, custodian: Client, dataset: str):
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        page.evaluate(
            """text => {
                const dropped = new DataTransfer();
                dropped.items.add(new File([text], "stays.csv"));
                document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: dropped }));
            }""",
            services.csv(50).decode(),
        )
        expect(card(page, "Upload")).to_contain_text("stays.csv was accepted whole: 50 patients")

    def test_of_bad_rows_names_them_and_keeps_nothing(self, visit: Visits, custodian: Client, dataset: str):
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        send(page, f"{HEADER}\na,1,0,0,0.5\na,2,9,0,0.5\nb,1,0,0,7\n".encode())
        refusal = page.locator(".sorry")
        expect(refusal).to_contain_text("stays.csv was refused. Nothing was kept.")
        expect(refusal.locator("tbody tr")).to_have_text(
            [re.compile(r"^2\s*state\s*The value"), re.compile(r"^3\s*reward\s*The value")]
        )
        assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"
        send(page, services.csv(20))
        expect(card(page, "Upload")).to_contain_text("accepted whole")

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("stays.xlsx", b"PK", "This is a spreadsheet: export it as CSV, in UTF-8."),
            ("stays.txt", b"unit\n", "The name must end in .csv, .ndjson or .parquet"),
            ("stays.csv", b"PK\x03\x04\x00\tunit\n", "This is not a text file"),
            ("stays.csv", b"", "The file is empty."),
            ("stays.csv", b"unit;step;;action;reward\n", "separated by something else than commas"),
            ("stays.csv", b"unit,step,,action,reward\n", "This column is missing."),
            ("stays.parquet", b"unit,step\n", "This is not a Parquet file"),
            ("stays.ndjson", b"unit,step\n", "The first line is not a JSON object."),
        ],
    )
    def test_that_cannot_be_right_is_not_sent(
        self, visit: Visits, custodian: Client, dataset: str, name: str, content: bytes, reason: str
    ):
        visitor = visit().sign_in(custodian, f"datasets/{dataset}")
        send(visitor.page, content, name)
        expect(visitor.page.locator(".sorry")).to_contain_text(f"{name} was refused. Nothing was sent.")
        expect(visitor.page.locator(".sorry")).to_contain_text(reason)
        assert [one for one in visitor.asked() if one.endswith("/trajectories")] == []

    def test_that_comes_second_is_told_so(self, visit: Visits, custodian: Client, dataset: str):
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        services.upload(custodian, dataset, services.csv(20))
        send(page, services.csv(30))
        expect(card(page, "Upload")).to_contain_text("This dataset has its data, is being given it, or was retired")
        expect(card(page, "About")).to_contain_text("20")

    def test_goes_on_while_another_page_is_shown(self, visit: Visits, custodian: Client, dataset: str):
        visitor = visit().sign_in(custodian, f"datasets/{dataset}")
        slow(visitor, 30_000)
        send(visitor.page, services.csv(1000))
        expect(visitor.page.get_by_label("Sending stays.csv")).to_be_visible()
        visitor.go("datasets").go(f"datasets/{dataset}")
        expect(visitor.page.get_by_label("Sending stays.csv")).to_be_visible()
        expect(card(visitor.page, "Upload")).to_contain_text("1\u202f000 patients")


def slow(visitor: Visit, upload: int) -> None:
    """To so many bytes a second; −1 takes that back."""
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": upload}
    visitor.context.new_cdp_session(visitor.page).send("Network.emulateNetworkConditions", limits)


class TestGrants:
    def test_are_given_used_and_revoked(self, visit: Visits, custodian: Client, analyst: Client):
        dataset = services.ready_dataset(custodian, rho="2")
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        expect(card(page, "Grants")).to_contain_text("Nobody may use this dataset yet.")
        page.get_by_label("Id of the analyst's key").fill(analyst.id)
        page.get_by_label("Cap ρ").fill("1")
        page.get_by_role("button", name="Grant", exact=True).click()
        expect(page.get_by_role("button", name=f"Revoke the grant of {analyst.id}")).to_be_visible()
        theirs = visit().sign_in(analyst, f"datasets/{dataset}").page
        expect(card(theirs, "Budget")).to_contain_text("Your grant: ρ = 1 left of 1")
        page.get_by_role("button", name="Revoke the grant").click()
        page.get_by_role("button", name="Revoke", exact=True).click()
        expect(card(page, "Grants")).to_contain_text("revoked")
        expect(
            theirs.get_by_text("Your grant on this dataset was revoked while you were looking at it.")
        ).to_be_visible()
        expect(theirs.get_by_role("link", name="New training")).to_have_count(0)

    def test_refuse_a_secret_and_do_not_keep_it_on_the_page(self, visit: Visits, custodian: Client, dataset: str):
        visitor = visit().sign_in(custodian, f"datasets/{dataset}")
        visitor.page.get_by_label("Id of the analyst's key").fill("dk_somebodys_secret")
        visitor.page.get_by_label("Cap ρ").fill("1")
        visitor.page.get_by_role("button", name="Grant", exact=True).click()
        expect(visitor.page.locator(".fault")).to_contain_text("That was a secret token, not an id")
        expect(visitor.page.get_by_label("Id of the analyst's key")).to_have_value("")

    def test_are_refused_beside_the_key_that_is_no_analysts(self, visit: Visits, custodian: Client, dataset: str):
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        page.get_by_label("Id of the analyst's key").fill(custodian.id)
        page.get_by_label("Cap ρ").fill("3")
        page.get_by_role("button", name="Grant", exact=True).click()
        expect(page.locator(".fault")).to_contain_text("The whole budget is ρ = 2")
        page.get_by_label("Cap ρ").fill("1")
        page.get_by_role("button", name="Grant", exact=True).click()
        expect(page.locator(".fault")).to_contain_text("the id of an analyst's key")


class TestBudget:
    def test_is_changed_with_a_reason_and_stays_readable(
        self, visit: Visits, custodian: Client, dataset: str, tmp_path: Path
    ):
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        page.locator("summary", has_text="Change the budget").click()
        page.get_by_label("New whole budget ρ").fill("2")
        page.get_by_role("button", name="Change the budget").click()
        expect(page.locator(".fault")).to_have_text(["The budget is that already.", "Say why; auditors will ask."])
        page.get_by_label("New whole budget ρ").fill("1.5")
        page.get_by_label("Reason").fill("vote of the board")
        page.get_by_role("button", name="Change the budget").click()
        page.get_by_role("button", name="Change it").click()
        expect(card(page, "Budget")).to_contain_text("remaining 1.5")
        history = card(page, "Budget over time")
        expect(history).to_contain_text("The ledger adds up: 2 rows")
        expect(history).to_contain_text("vote of the board")
        expect(history.get_by_role("img")).to_have_attribute("aria-label", re.compile("of ρ = 1.5"))
        ledger, head = (saved(page, f"Download {name}", tmp_path) for name in ("ledger", "signed head"))
        keys = tmp_path / "keys.json"
        keys.write_text(custodian.get("/v1/certificate-keys").text)
        checked = command("ledger", "check", ledger, head, "--keys", keys)
        assert (checked.exit_code, checked.stdout) == (0, "2 rows add up: 0 of 1.5 charged.\n")

    def test_of_a_running_training_changes_by_itself(self, visit: Visits, custodian: Client, analyst: Client):
        dataset = services.ready_dataset(custodian, rho="2")
        services.grant(custodian, dataset, analyst, "1")
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        expect(card(page, "Budget")).to_contain_text("Nothing has been charged yet.")
        services.ended(analyst, services.submit(analyst, dataset).json()["id"])
        expect(card(page, "Budget")).to_contain_text("ρ = 0.5 has been charged: at δ = 10⁻⁶ this is ε = 5.23.")
        expect(card(page, "Grants")).to_contain_text("0.5")

    def test_over_time_is_a_staircase(self, visit: Visits, hospital: Hospital):
        """Nothing is charged little by little, so no line is slanted; a path that is closed goes back to its start."""
        page = visit().sign_in(hospital.custodian, f"datasets/{hospital.own.dataset}").page
        paths = {name: page.locator(f".steps path.{name}") for name in ("charged", "reserved", "total")}
        for name, found in paths.items():
            drawn = found.get_attribute("d") or ""
            corners = [tuple(map(float, one.split())) for one in drawn.strip("MZ").split("L")]
            corners += corners[:1] if drawn.endswith("Z") else []
            moves = [(x1 != x0, y1 != y0) for (x0, y0), (x1, y1) in itertools.pairwise(corners)]
            assert (True, True) not in moves, name
            assert (True, False) in moves, name
            assert ((False, True) in moves) == (name != "total"), name  # nobody changed the whole budget


class TestRetire:
    def test_asks_for_the_name_and_says_what_stays(self, visit: Visits, custodian: Client):
        dataset = services.ready_dataset(custodian)
        page = visit().sign_in(custodian, f"datasets/{dataset}").page
        page.get_by_text("Delete this dataset's data").click()
        end = page.get_by_role("button", name="Delete the data for good")
        expect(end).to_be_disabled()
        page.get_by_label("Type the name of the dataset").fill("ic")
        expect(end).to_be_disabled()
        page.get_by_label("Type the name of the dataset").fill("icu")
        end.click()
        expect(page.get_by_text("This dataset was retired: its data is deleted.")).to_be_visible()
        expect(card(page, "Budget over time")).to_contain_text("The ledger adds up")
        assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "retired"


class TestKeys:
    def test_show_a_token_once(self, visit: Visits, service: Service):
        visitor = visit().sign_in(service.token, "keys")
        page = visitor.page
        page.get_by_role("button", name="Make the key").click()
        expect(page.locator(".fault")).to_have_count(2)
        page.get_by_label("Whose key").fill("night shift")
        page.get_by_label("Analyst: plans").check()
        page.get_by_role("button", name="Make the key").click()
        token = page.get_by_role("dialog").locator("code").first.inner_text()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.get_by_role("button", name="I have kept the token").click()
        expect(page.get_by_role("row", name="night shift")).to_be_visible()
        assert token not in page.content()
        assert service.client(token).get("/v1/datasets").status_code == 200


class TestOverview:
    def test_of_every_role_has_something_to_do_when_nothing_is_there(self, visit: Visits, service: Service):
        for role, link in (("custodian", "Make the first dataset"), ("analyst", "Copy key_")):
            page = visit().sign_in(service.key(role)).page
            expect(page.get_by_role("link", name=link).or_(page.get_by_role("button", name=link))).to_be_visible()

    def test_shows_budgets_and_releases_to_who_may_see_them(self, visit: Visits, hospital: Hospital):
        for role in ("custodian", "analyst", "auditor"):
            visitor = visit().sign_in(getattr(hospital, role))
            expect(visitor.page.get_by_role("img").first).to_have_attribute("aria-label", re.compile("^charged "))
            expect(visitor.page.get_by_role("link", name=hospital.own.policy)).to_be_visible()
        expect(visitor.page.get_by_text("Adds up:").first).to_be_visible()
        admin = visit().sign_in(hospital.admin).page
        expect(admin.get_by_role("img").first).to_be_visible()
        expect(admin.get_by_text("Newest releases")).to_have_count(0)

    def test_follows_a_training_without_being_asked(self, visit: Visits, custodian: Client, analyst: Client):
        dataset = hospitals.slow_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        visitor = visit().sign_in(custodian)
        running = card(visitor.page, "Running and waiting")
        expect(running).to_contain_text("Nothing is running.")
        training = services.submit(analyst, dataset).json()["id"]
        expect(running.get_by_role("link", name=training)).to_be_visible()
        services.ended(analyst, training)
        expect(running).to_contain_text("Nothing is running.")
        expect(card(visitor.page, "Newest releases").get_by_role("link", name="read")).to_be_visible()
        visitor.go("datasets")
        before = len(visitor.asked("/v1/trainings"))
        visitor.page.wait_for_timeout(4000)
        assert len(visitor.asked("/v1/trainings")) == before
