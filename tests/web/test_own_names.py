"""A custodian whose file has names of its own: which column is which is said, and nothing else is sent."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests import services
from tests.services import Client, Service
from tests.web.conftest import Visits
from tests.web.test_custodian import send
from tests.web.visits import Visit

LABELLED = services.TABULAR | {"return": {"low": 0, "high": 1}}
NAMES = {
    "Who the patient is": "stay",
    "Which step of the stay it is": "hour",
    "The state": "cluster",
    "The action": "therapy",
    "What a stay earns": "died",
}
ROWS = "stay;hour;cluster;therapy;died;secret\nb, c;0;1;treat;no;x\nb, c;1;3; wait;no;x\na;0;0;1;yes;x\n"
SENT = "unit,step,state,action,outcome\n" + '"b, c",1,1,1,1\n"b, c",2,3,0,1\na,1,0,1,0\n'
KEEP = """() => {
    const send = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (file) {
        window.sent = file.text();
        return send.call(this, file);
    };
}"""


@pytest.fixture
def custodian(service: Service) -> Client:
    return service.key("custodian")


def began(visit: Visits, custodian: Client, content: bytes, schema: dict[str, Any] = LABELLED) -> tuple[Visit, str]:
    """A file that was dropped and cannot be taken as it is."""
    dataset = services.new_dataset(custodian, schema=schema)
    visitor = visit().sign_in(custodian, f"datasets/{dataset}")
    send(visitor.page, content)
    expect(visitor.page.get_by_text("has columns of its own")).to_be_visible()
    return visitor, dataset


def fill(page: Page, names: dict[str, str] = NAMES, good: str | None = "no") -> None:
    for label, name in names.items():
        page.get_by_label(label, exact=True).select_option(label=name)
    if good is not None:
        page.get_by_label("The column says").select_option(label="how the stay ended")
        page.get_by_label("What stands there after a good end").fill(good)


def go_on(page: Page) -> None:
    page.get_by_role("button", name="Send stays.csv with these columns").click()


class TestOwnNames:
    def test_are_said_once_and_only_what_was_chosen_is_sent(self, visit: Visits, custodian: Client):
        visitor, dataset = began(visit, custodian, ROWS.encode())
        fill(visitor.page)
        visitor.page.evaluate(KEEP)
        go_on(visitor.page)
        expect(visitor.page.get_by_text("was accepted whole: 2 patients, 2 stays, 3 steps.")).to_be_visible()
        assert visitor.page.evaluate("window.sent") == SENT
        assert custodian.get(f"/v1/datasets/{dataset}").json()["units"] == 2

    def test_of_two_doses_are_one_action(self, visit: Visits, custodian: Client):
        rows = "stay,hour,cluster,fluids,vaso,died\na,0,1,2,1,no\nb,0,1,0,0,yes\n"
        six = LABELLED | {"actions": {"count": 6}}
        visitor, _ = began(visit, custodian, rows.encode(), six)
        page = visitor.page
        fill(page, NAMES | {"The action": "fluids", "A second dose of the action": "vaso"})
        page.get_by_label("Levels of the second dose").fill("4")
        go_on(page)
        expect(page.locator(".own .fault:not(:empty)")).to_have_text(
            "Write a whole number from 2 that divides the 6 actions."
        )
        page.get_by_label("Levels of the second dose").fill("2")
        page.evaluate(KEEP)
        go_on(page)
        expect(page.get_by_text("was accepted whole: 2 patients")).to_be_visible()
        assert page.evaluate("window.sent") == "unit,step,state,action,outcome\na,1,1,5,1\nb,1,1,0,0\n"

    def test_of_a_dose_beyond_its_levels_send_nothing(self, visit: Visits, custodian: Client):
        rows = "stay,hour,cluster,fluids,vaso,died\na,0,1,1,2,no\n"
        visitor, _ = began(visit, custodian, rows.encode(), LABELLED | {"actions": {"count": 6}})
        fill(visitor.page, NAMES | {"The action": "fluids", "A second dose of the action": "vaso"})
        visitor.page.get_by_label("Levels of the second dose").fill("2")
        go_on(visitor.page)
        expect(visitor.page.get_by_text("Row 1 has a dose that is not one of its 2 levels")).to_be_visible()
        assert not [one for one in visitor.requests if one.method == "PUT"]

    def test_that_were_not_said_are_asked_for_beside_their_fields(self, visit: Visits, custodian: Client):
        visitor, _ = began(visit, custodian, ROWS.encode())
        go_on(visitor.page)
        expect(visitor.page.locator(".own .fault")).to_have_text(["Choose the column."] * 5)
        assert not [one for one in visitor.requests if one.method == "PUT"]

    def test_come_back_with_what_the_service_refuses(self, visit: Visits, custodian: Client):
        visitor, _ = began(visit, custodian, ROWS.replace(";3;", ";99;").encode())
        fill(visitor.page)
        go_on(visitor.page)
        problem = visitor.page.get_by_role("row").filter(
            has_text="The value is not from 0 to 3; if yours count from 1, subtract 1."
        )
        expect(problem).to_contain_text("cluster for state")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (ROWS.replace("yes", "perhaps") + "c;0;0;1;yes;x\n", "Row 4 has a third way to end."),
            (ROWS + "c;0;0\n", "Row 4 has 3 values, and the header 6."),
        ],
    )
    def test_of_rows_that_cannot_be_meant_send_nothing(
        self, visit: Visits, custodian: Client, content: str, words: str
    ):
        visitor, _ = began(visit, custodian, content.encode())
        fill(visitor.page)
        go_on(visitor.page)
        expect(visitor.page.get_by_text(words)).to_be_visible()
        assert not [one for one in visitor.requests if one.method == "PUT"]

    def test_in_another_encoding_are_not_guessed(self, visit: Visits, custodian: Client):
        """Two patients whose names differ in one letter that cannot be read must not become one."""
        visitor, _ = began(visit, custodian, ROWS.replace("b, c", "Mü").encode("latin-1"))
        fill(visitor.page)
        go_on(visitor.page)
        expect(visitor.page.get_by_text("Export it as CSV in UTF-8.")).to_be_visible()
        assert not [one for one in visitor.requests if one.method == "PUT"]

    def test_of_a_long_file_keep_its_rows(self, visit: Visits, custodian: Client):
        """More than one piece is written, and lines end as on Windows."""
        rows = services.csv(40_000).decode().replace("unit,step", "stay,hour").replace("\n", "\r\n")
        visitor, dataset = began(visit, custodian, rows.encode(), services.TABULAR)
        fill(visitor.page, {"Who the patient is": "stay", "Which step of the stay it is": "hour"}, good=None)
        go_on(visitor.page)
        expect(visitor.page.get_by_text("40\u202f000 patients, 40\u202f000 stays, 120\u202f000 steps.")).to_be_visible()
        assert custodian.get(f"/v1/datasets/{dataset}").json()["units"] == 40_000
