"""What happens while a page is open: restarts, cancellations, withdrawn grants."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests import services
from tests.api.hospital import Hospital
from tests.services import Client, Service
from tests.web.conftest import Visits
from tests.web.test_custodian import send, slow


@dataclass
class Restartable:
    """A service without workers, where a training stays queued, that can be stopped and started in its place."""

    folder: Path
    opened: ExitStack
    running: Service

    def start(self) -> None:
        port = urlsplit(self.running.url).port
        again = services.serve(self.folder, token=self.running.token, workers=0, port=port)
        self.running = self.opened.enter_context(again)

    def stop(self) -> None:
        self.running.stop(9)

    def asking(self, client: Client) -> Client:
        """Stopping a service has closed its clients."""
        return self.running.client(client.token, client.id, client.role)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    folder = tmp_path_factory.mktemp("house")
    with ExitStack() as opened:
        yield Restartable(folder, opened, opened.enter_context(services.serve(folder, workers=0)))


class TestRestart:
    def test_during_a_training_is_told_and_the_page_goes_on(self, visit: Visits, house: Restartable):
        custodian, analyst = house.running.key("custodian"), house.running.key("analyst")
        dataset = services.ready_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        training = services.submit(analyst, dataset).json()["id"]
        page = visit(house.running.url).sign_in(analyst, f"trainings/{training}").page
        expect(page.locator(".badge.queued")).to_be_visible()
        house.stop()
        lost = page.get_by_text("Connection lost, trying again")
        expect(lost).to_be_visible()
        house.start()
        expect(lost).to_be_hidden(timeout=30_000)
        house.asking(analyst).delete(f"/v1/trainings/{training}")
        expect(page.get_by_text("It was cancelled elsewhere")).to_be_visible()
        expect(
            page.get_by_text("cancelled before it had started: the reservation of ρ = 0.5 went back")
        ).to_be_visible()
        expect(page.get_by_role("button", name="Cancel this training")).to_have_count(0)

    def test_during_an_upload_is_told_and_the_file_can_be_sent_again(self, visit: Visits, house: Restartable):
        custodian = house.running.key("custodian")
        dataset = services.new_dataset(custodian)
        visitor = visit(house.running.url).sign_in(custodian, f"datasets/{dataset}")
        page = visitor.page
        slow(visitor, 5_000)
        send(page, services.csv(2000))
        expect(page.get_by_text("Sending. You may look at other pages here")).to_be_visible()
        house.stop()
        expect(page.get_by_text("The connection broke before the service had everything.")).to_be_visible()
        slow(visitor, -1)
        house.start()
        expect(page.get_by_text("The dataset is still empty: nothing was kept.")).to_be_visible()
        page.get_by_role("button", name="Send stays.csv again").click()
        expect(page.get_by_text("was accepted whole: 2\u202f000 patients")).to_be_visible()


class TestStop:
    def test_an_upload_can_be_stopped_and_leaves_the_dataset_empty(self, visit: Visits, service: Service):
        custodian = service.key("custodian")
        dataset = services.new_dataset(custodian)
        visitor = visit().sign_in(custodian, f"datasets/{dataset}")
        slow(visitor, 5_000)
        send(visitor.page, services.csv(2000))
        visitor.page.get_by_role("button", name="Stop sending").click()
        expect(visitor.page.get_by_text("You stopped it. Nothing was kept.")).to_be_visible()
        expect(visitor.page.get_by_role("button", name="Choose a file")).to_be_visible()
        assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"


class TestWithdrawnGrant:
    def test_while_a_training_is_planned_is_told_and_nothing_is_charged(self, visit: Visits, service: Service):
        custodian, analyst = service.key("custodian"), service.key("analyst")
        dataset = services.ready_dataset(custodian)
        grant = services.grant(custodian, dataset, analyst)
        page = visit().sign_in(analyst, f"datasets/{dataset}/train").page
        expect(page.get_by_text("Trainings like this left")).to_be_visible()
        custodian.delete(f"/v1/datasets/{dataset}/grants/{grant}")
        page.get_by_role("button", name="Train …").click()
        expect(page.get_by_text("your grant was withdrawn").first).to_be_visible()
        assert custodian.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0"


class TestUnreachable:
    def test_a_page_that_cannot_be_fetched_says_what_to_do(self, visit: Visits, service: Service):
        visitor = visit().sign_in(service.key("auditor"))
        visitor.page.route("**/v1/policies?*", lambda route: route.abort())
        visitor.go("policies")
        expect(visitor.page.get_by_text("The service does not answer.").first).to_be_visible()

    @pytest.mark.parametrize("role", ["custodian", "analyst", "auditor", "admin"])
    def test_the_overview_says_so_once_and_comes_back(self, visit: Visits, hospital: Hospital, role: str):
        visitor = visit().sign_in(hospital.of(role), "policies" if role != "admin" else "keys")
        page = visitor.page
        page.route("**/v1/**", lambda route: route.abort())
        visitor.go("")
        expect(page.get_by_text("The service does not answer.")).to_have_count(1)
        expect(page.locator(".card:visible")).to_have_count(0)
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        visitor.settle()
        expect(page.get_by_text("The service does not answer.")).to_have_count(0)
        expect(page.locator(".budget").first).to_be_visible()
        expect(page.get_by_role("button", name="Try again")).to_have_count(0)

    def test_what_is_shown_stays_while_the_overview_waits_for_the_rest(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.custodian, "policies")
        visitor.page.route("**/v1/trainings?*", lambda route: route.abort())
        visitor.go("")
        expect(visitor.page.get_by_text("The service does not answer.")).to_have_count(1)
        expect(visitor.page.locator(".budget").first).to_be_visible()
        expect(visitor.page.get_by_role("heading", name="Running and waiting")).to_be_hidden()

    @pytest.mark.parametrize("asked", ["**/assets/pages/policies.js", "**/v1/session"])
    def test_what_the_whole_page_needs_can_be_asked_for_again(self, visit: Visits, service: Service, asked: str):
        """A page is code as well as data, and no browser asks twice for code that did not come."""
        visitor = visit().sign_in(service.key("auditor"))
        page = visitor.page
        page.route(asked, lambda route: route.abort())
        page.evaluate("location.hash = '#/policies'; if (!location.search) location.search = 'anew'")
        expect(visitor.heading).to_have_text("No answer")
        expect(page.get_by_role("alert")).to_contain_text("wait a moment and try again")
        page.unroute(asked)
        page.get_by_role("button", name="Try again").click()
        expect(visitor.heading).to_have_text("Policies")
        visitor.complaints.clear()  # the browser's own, of the code that did not come
