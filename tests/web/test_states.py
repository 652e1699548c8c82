"""What a page looks like on the way from one thing to the next: while it asks, waits, refuses or has failed."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests import services
from tests.api import hospital as hospitals
from tests.api.hospital import Hospital
from tests.services import Client, Service
from tests.web.conftest import Visits
from tests.web.test_custodian import card, send, slow
from tests.web.test_looks import TWO_FRAMES, WIDE, looked_at
from tests.web.test_own_names import NAMES, fill, go_on
from tests.web.visits import Visit

DOSES = services.TABULAR | {"actions": {"count": 6}, "return": {"low": 0, "high": 1}}
OWN = b"stay,hour,cluster,fluids,vaso,died,ward\n1,0,1,2,1,no,7\n1,1,3,0,0,no,7\n2,0,0,1,1,yes,7\n"

# Of so many pixels across the map's first row.
BRIGHTNESS = """(canvas, [left, wide]) => {
    const ratio = devicePixelRatio;
    const { data } = canvas.getContext("2d").getImageData(left * ratio, 38 * ratio, wide, 1);
    const light = (at) => 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2];
    return Array.from({ length: wide }, (_, at) => light(4 * at));
}"""


class Album:
    """Everything that was seen to be wrong, of a page that stays open while it is brought from state to state."""

    def __init__(self, visitor: Visit, who: str) -> None:
        self.visitor, self.who = visitor, who
        self.found: list[str] = []

    @property
    def page(self) -> Page:
        return self.visitor.page

    def look(self, name: str) -> None:
        self.found += looked_at(self.visitor, f"{self.who}-{name}")
        self.page.set_viewport_size(WIDE)

    def ask(self, name: str, opener: Locator) -> Locator:
        """A last question, looked at; what it offers is up to the caller."""
        opener.click()
        asked = self.page.get_by_role("dialog")
        expect(asked).to_be_visible()
        self.look(f"asks-{name}")
        return asked


@pytest.fixture
def custodian(service: Service) -> Client:
    return service.key("custodian")


@pytest.fixture
def analyst(service: Service) -> Client:
    return service.key("analyst")


def go_back(asked: Locator) -> None:
    asked.get_by_role("button", name="Go back").click()
    expect(asked).to_have_count(0)


class TestUpload:
    def test_can_be_read_from_the_empty_dataset_to_the_full_one(self, visit: Visits, custodian: Client):
        dataset = services.new_dataset(custodian, schema=DOSES, rho="2")
        album = Album(visit(viewport=WIDE).sign_in(custodian, f"datasets/{dataset}"), "custodian-upload")
        page = album.page
        page.get_by_text("What the file must look like").click()
        expect(page.get_by_text("Drop a file here")).to_be_visible()
        album.look("empty")
        page.get_by_text("What the file must look like").click()

        send(page, OWN)
        expect(page.get_by_text("has columns of its own")).to_be_visible()
        page.get_by_label("A second dose of the action").select_option(label="vaso")
        page.get_by_label("The column says").select_option(label="how the stay ended")
        go_on(page)
        expect(page.locator(".own .fault:not(:empty)").first).to_be_visible()
        album.look("own-names")

        send(page, services.csv(3, schema=DOSES).replace(b",1,", b",9,").replace(b"0.", b"x."))
        expect(page.locator(".sorry")).to_contain_text("stays.csv was refused. Nothing was kept.")
        album.look("refused")
        send(page, b"PK", "stays.xlsx")
        expect(page.locator(".sorry")).to_contain_text("Nothing was sent.")
        album.look("not-sent")

        slow(album.visitor, 4_000)
        send(page, services.csv(1000, schema=DOSES))
        expect(page.get_by_label("Sending stays.csv")).to_be_visible()
        album.look("sending")
        page.get_by_role("button", name="Stop sending").click()
        slow(album.visitor, -1)
        expect(page.get_by_text("You stopped it. Nothing was kept.")).to_be_visible()
        send(page, OWN)
        fill(page, NAMES | {"The action": "fluids", "A second dose of the action": "vaso"})
        page.get_by_label("Levels of the second dose").fill("2")
        go_on(page)
        expect(page.get_by_text("was accepted whole: 2 patients")).to_be_visible()
        album.look("accepted")
        assert not album.found


class TestLastQuestions:
    def test_of_a_custodian_can_be_read(self, visit: Visits, custodian: Client, analyst: Client):
        dataset = services.ready_dataset(custodian, rho="2")
        services.grant(custodian, dataset, analyst, "1")
        album = Album(visit(viewport=WIDE).sign_in(custodian, f"datasets/{dataset}"), "custodian")
        page = album.page
        go_back(album.ask("revoke-grant", page.get_by_role("button", name="Revoke the grant")))
        page.locator("summary", has_text="Change the budget").click()
        page.get_by_label("New whole budget ρ").fill("3")
        page.get_by_label("Reason").fill("vote of the board")
        go_back(album.ask("raise-budget", page.get_by_role("button", name="Change the budget")))
        page.get_by_text("Delete this dataset's data").click()
        page.get_by_label("Type the name of the dataset").fill("icu")
        album.look("dataset-before-retiring")
        page.get_by_role("button", name="Delete the data for good").click()
        expect(page.get_by_text("This dataset was retired: its data is deleted.")).to_be_visible()
        album.look("dataset-retired")
        assert not album.found

    def test_before_a_dataset_is_made_can_be_read(self, visit: Visits, custodian: Client):
        album = Album(visit(viewport=WIDE).sign_in(custodian, "datasets/new"), "custodian")
        page = album.page
        page.get_by_role("button", name="Check and make").click()
        expect(page.locator(".fault").first).to_be_visible()
        album.look("datasets-new-with-faults")
        page.get_by_label("Name", exact=True).fill("icu-2019")
        page.get_by_label("Budget ρ").fill("2")
        page.get_by_label("Most steps of a stay").fill("6")
        page.get_by_label("Measurements, one column each").check()
        page.get_by_text("Paste many columns").click()
        page.get_by_label("One column per line").fill("age, 0, 120\nlactate; 0; 30; missing")
        page.get_by_role("button", name="Take these columns").click()
        page.get_by_label("What the actions are called").fill("fluids\nvasopressor")
        album.look("datasets-new-filled")
        go_back(album.ask("make-dataset", page.get_by_role("button", name="Check and make")))
        assert not album.found

    def test_of_an_administrator_can_be_read(self, visit: Visits, service: Service):
        album = Album(visit(viewport=WIDE).sign_in(service.token, "keys"), "admin")
        page = album.page
        page.get_by_label("Whose key").fill("night shift")
        page.get_by_label("Custodian: uploads").check()
        token = album.ask("keep-token", page.get_by_role("button", name="Make the key"))
        token.get_by_role("button", name="I have kept the token").click()
        revoke = page.get_by_role("row", name="night shift").get_by_role("button", name="Revoke").first
        go_back(album.ask("revoke-key", revoke))
        assert not album.found

    def test_before_something_is_paid_can_be_read(self, visit: Visits, hospital: Hospital):
        visitor = visit(viewport=WIDE).sign_in(hospital.analyst, f"datasets/{hospital.own.dataset}/train")
        album = Album(visitor, "analyst")
        expect(album.page.get_by_text("Trainings like this left")).to_be_visible()
        go_back(album.ask("train", album.page.get_by_role("button", name="Train …")))
        album.page.get_by_label("Privacy to spend, ρ").fill("0,5")
        expect(album.page.get_by_text("Mend the form to see the plan.")).to_be_visible()
        album.look("train-with-a-fault")
        visitor.go(f"policies/{hospital.own.policy}/evaluate")
        expect(album.page.get_by_text("Evaluations like this left")).to_be_visible()
        go_back(album.ask("evaluate", album.page.get_by_role("button", name=re.compile("^Judge"))))
        assert not album.found


class TestTraining:
    def test_that_waits_runs_and_is_cancelled_can_be_read(self, visit: Visits, custodian: Client, analyst: Client):
        """A worker runs one at a time, and the first takes sixteen seconds by its public schedule."""
        dataset = hospitals.slow_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        running, waiting = (services.submit(analyst, dataset, key=key).json()["id"] for key in ("1", "2"))
        album = Album(visit(viewport=WIDE).sign_in(analyst, f"trainings/{waiting}"), "analyst")
        page = album.page
        expect(page.locator(".badge.queued")).to_be_visible()
        album.look("training-queued")
        asked = album.ask("cancel", page.get_by_role("button", name="Cancel this training"))
        asked.get_by_role("button", name="Cancel it").click()
        expect(page.get_by_text("cancelled before it had started")).to_be_visible()
        album.look("training-cancelled")
        album.visitor.go(f"trainings/{running}")
        expect(page.locator(".badge.running")).to_be_visible()
        album.look("training-running")
        album.visitor.go("trainings")
        album.look("trainings-of-all-kinds")
        analyst.delete(f"/v1/trainings/{running}")
        assert not album.found

    @pytest.mark.parametrize("kind", ["training", "evaluation"])
    def test_that_failed_can_be_read(self, visit: Visits, hospital: Hospital, kind: str):
        """The service's answer is replaced: what fails a training here is a machine without a disk or memory."""
        visitor = visit(viewport=WIDE).sign_in(hospital.analyst)
        job = hospital.own.ids()[kind]

        def fail(route: Any) -> None:
            missing = "policy" if kind == "training" else "report"
            failed = {"state": "failed", "code": "training_failed", "progress": 0.4, missing: None}
            route.fulfill(json=route.fetch().json() | failed)

        visitor.page.route(f"**/v1/{kind}s/{job}", fail)
        visitor.go(f"{kind}s/{job}")
        expect(visitor.page.get_by_text("one code for everything that goes wrong")).to_be_visible()
        assert not looked_at(visitor, f"analyst-{kind}-failed")


class TestPolicy:
    def test_scores_and_answers_can_be_read(self, visit: Visits, hospital: Hospital):
        """As it is, every score alike; and as it could be, with scores and sources of both kinds."""
        policy = hospital.own.policy
        album = Album(visit(viewport=WIDE).sign_in(hospital.analyst, f"policies/{policy}"), "analyst")
        self.explore(album, "policy-scores-alike")

        def mix(route: Any) -> None:
            document = route.fetch().json()
            steps, states = len(document["decisions"]), len(document["decisions"][0])
            document["pessimistic_score"] = [[(h + s) / 6 for s in range(states)] for h in range(steps)]
            document["source"] = [["learned" if s % 2 else "fallback" for s in range(states)] for _ in range(steps)]
            route.fulfill(json=document)

        album.page.route(f"**/v1/policies/{policy}", mix)
        album.visitor.go("policies").go(f"policies/{policy}")
        self.explore(album, "policy-scores")
        assert not album.found

    def explore(self, album: Album, name: str) -> None:
        page = album.page
        canvas = page.get_by_role("application", name="Map of decisions")
        canvas.press("ArrowRight")
        canvas.press("ArrowDown")
        expect(page.locator(".readout")).to_contain_text("Step 2, state 1")
        page.get_by_label("the pessimistic score").check()
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(card(page, "What would it do for …")).to_contain_text("Pessimistic score")
        album.look(name)

    def test_a_fallback_is_hatched_whatever_its_score_and_the_scheme(self, visit: Visits, hospital: Hospital):
        """Two colours in a cell that can be told apart, where the lowest score is as dark as a dark page."""
        for scheme in ("light", "dark"):
            visitor = visit(viewport=WIDE, color_scheme=scheme)
            page = visitor.sign_in(hospital.analyst, f"policies/{hospital.own.policy}").page
            page.get_by_label("the pessimistic score").check()
            page.evaluate(TWO_FRAMES)
            seen = page.get_by_role("application", name="Map of decisions").evaluate(BRIGHTNESS, [80, 40])
            assert max(seen) - min(seen) >= 40, (scheme, seen)

    @pytest.mark.parametrize("layer", ["the action", "the pessimistic score"])
    def test_what_was_learned_is_plain_beside_a_fallback_that_is_hatched(
        self, visit: Visits, hospital: Hospital, layer: str
    ):
        """Before the words of the first and the second cell, each 128 pixels wide behind the numbers of the steps."""
        for scheme in ("light", "dark"):
            visitor = visit(viewport=WIDE, color_scheme=scheme).sign_in(hospital.analyst)
            visitor.page.route(f"**/v1/policies/{hospital.own.policy}", halve)
            page = visitor.go(f"policies/{hospital.own.policy}").page
            page.get_by_label(layer).check()
            page.evaluate(TWO_FRAMES)
            canvas = page.get_by_role("application", name="Map of decisions")
            seen = canvas.evaluate(BRIGHTNESS, [48, 168])
            fallback, learned = seen[:40], seen[128:]
            assert max(fallback) - min(fallback) >= 40, (scheme, fallback)
            assert len(set(learned)) == 1, (scheme, learned)


def halve(route: Any) -> None:
    """Every second state was learned."""
    document = route.fetch().json()
    states = range(len(document["decisions"][0]))
    document["source"] = [["learned" if state % 2 else "fallback" for state in states]] * len(document["decisions"])
    route.fulfill(json=document)


class TestVerdict:
    def test_good_and_bad_can_be_read(self, visit: Visits, hospital: Hospital):
        album = Album(visit(viewport=WIDE).sign_in(hospital.auditor, "audit"), "auditor")
        page = album.page
        page.get_by_role("button", name="Verify all").click()
        expect(page.get_by_text(re.compile("^All [0-9]+ certificates hold"))).to_be_visible()
        album.look("audit-verified")

        def lie(route: Any) -> None:
            document = route.fetch().json()
            document["decisions"][0][0] = 1 - document["decisions"][0][0]
            route.fulfill(json=document)

        page.route(f"**/v1/policies/{hospital.own.policy}", lie)
        album.visitor.go(f"policies/{hospital.own.policy}/certificate")
        expect(page.locator(".verdict .lead")).to_contain_text("not the one that was certified")
        album.look("certificate-tampered-with")
        assert not album.found


class TestNothingThere:
    def test_what_is_not_yours_can_be_read(self, visit: Visits, hospital: Hospital):
        visitor = visit(viewport=WIDE).sign_in(hospital.analyst, f"datasets/{hospital.foreign.dataset}")
        album = Album(visitor, "analyst")
        album.look("dataset-of-others")
        visitor.go("policies/../../etc")
        expect(visitor.heading).to_have_text("There is no such page")
        album.look("no-such-page")
        visitor.page.route("**/v1/policies?*", lambda route: route.abort())
        visitor.go("policies")
        expect(visitor.page.get_by_text("The service does not answer.").first).to_be_visible()
        album.look("no-answer")
        assert not album.found

    def test_a_wrong_token_can_be_read(self, visit: Visits, service: Service):
        visitor = visit(viewport=WIDE)
        visitor.page.goto(service.url)
        visitor.page.get_by_label("Your token").fill("dk_this_is_no_token_of_anybody_at_all")
        visitor.page.get_by_role("button", name="Sign in").click()
        expect(visitor.page.get_by_role("alert")).to_contain_text("This token is not valid")
        assert not looked_at(visitor, "stranger-refused")
