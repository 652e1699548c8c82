"""How much a browser has to fetch before somebody can begin: counted, never timed."""

from pathlib import Path

import pytest
from playwright.sync_api import Request, expect

import discretion
from tests.api.hospital import Hospital
from tests.web.conftest import Visits

WEB = Path(discretion.__file__).parent / "web"
MOST_BYTES = 300_000
MOST_ROUNDS = 3


def rounds(asked: list[Request]) -> int:
    """The longest chain of requests of which each began only when the one before it had been answered."""
    spans = sorted((one.timing["startTime"], one.timing["startTime"] + one.timing["responseEnd"]) for one in asked)
    depth: list[int] = []
    for begun, _ in spans:
        depth.append(1 + max((depth[at] for at in range(len(depth)) if spans[at][1] <= begun), default=0))
    return max(depth)


class TestWeight:
    def test_all_assets_together_are_small(self):
        assert sum(file.stat().st_size for file in WEB.rglob("*") if file.is_file()) < MOST_BYTES

    @pytest.mark.parametrize("role", ["custodian", "analyst", "auditor", "admin"])
    def test_the_overview_needs_three_rounds_of_questions_at_most(self, visit: Visits, hospital: Hospital, role: str):
        visitor = visit().sign_in(hospital.of(role))
        visitor.requests.clear()
        visitor.page.reload()
        visitor.settle()
        expect(visitor.page.locator("#main .card").first).to_be_visible()
        asked: dict[str, Request] = {}  # a page that is there for a while asks the same again, to keep up
        for one in visitor.requests:
            if "/v1/" in one.url and (answer := one.response()):
                answer.finished()  # before that its end is not known, and would count as before its beginning
                asked.setdefault(one.url, one)
        assert 1 <= rounds(list(asked.values())) <= MOST_ROUNDS

    def test_who_is_signed_in_is_asked_once_and_with_the_code(self, visit: Visits, hospital: Hospital):
        """Not after it: a round is saved only if the code takes what was fetched beside it."""
        visitor = visit().sign_in(hospital.auditor)
        visitor.requests.clear()
        visitor.page.reload()
        visitor.settle()
        assert len(visitor.asked("/v1/session")) == 1
        paths = visitor.asked("/")
        assert paths.index("/v1/session") < paths.index("/assets/pages/overview.js")
