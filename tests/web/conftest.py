"""The dashboard in a real Chromium, against a real service; whatever the browser complains of fails the test."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests import services
from tests.api import hospital as hospitals
from tests.services import Service
from tests.web.visits import Visit

# Chromium without its window first: the whole program draws toolbars for every visit, which takes four times as long.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing but what a test asks for: a browser that looks for updates would be seen as a request that leaves.
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
]

Visits = Callable[..., Visit]


# As long as it runs, no test of this process can have an event loop of its own: it ends with this folder's tests.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("tests/web needs Chromium: put `chromium` or `google-chrome` on the PATH.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=_QUIET)
        yield started
        started.close()


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Shared by everything here that stops no service: building what a hospital has takes longer than most tests."""
    with services.serve(tmp_path_factory.mktemp("web"), requests_per_second=100_000) as running:
        yield running


@pytest.fixture(scope="package")
def hospital(service: Service) -> hospitals.Hospital:
    """Somebody of every role and something of each one's; nothing in it is changed by a test."""
    return hospitals.build(service)


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visits]:
    """Makes visits, each in a browser of its own; at the end none of them may have had a complaint."""
    with ExitStack() as opened:
        made: list[Visit] = []

        def begin(url: str | None = None, **options: Any) -> Visit:
            context = opened.enter_context(browser.new_context(**options))
            made.append(Visit.begin(context, url or request.getfixturevalue("service").url))
            return made[-1]

        yield begin
        complaints = [complaint for one in made for complaint in one.noticed()]
    assert not complaints
