"""The dashboard's first page in a real Chromium, from the address bar to a page that can be used, beside three calls.

Both are measured over a line on which an answer takes a while, for on none the browser's own work is all there is to
see; nothing is in the browser's cache.
"""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from tests import services

from benchmarks.rows import Row, row

LATENCY = 200  # milliseconds until an answer begins
ROUNDS = 7
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Who is signed in, where to go, and the page's own heading: whatever is fetched for itself may still come.
_USABLE = """() => new Promise((done) => {
    const look = () => (document.querySelector("#top nav a") && document.querySelector("#main h1")
        ? done(performance.now()) : requestAnimationFrame(look));
    look();
})"""
_CALLS = """async () => {
    const begun = performance.now();
    for (let call = 0; call < 3; call += 1) await (await fetch(`/v1/datasets?limit=${call + 1}`)).json();
    return performance.now() - begun;
}"""


def browser() -> str | None:
    """The Chromium of this machine, if it has one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def sign_in(page: Page, url: str, token: str) -> None:
    page.goto(url)
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


def measure() -> Iterator[Row]:
    found = browser()
    if found is None:
        print("dashboard: no Chromium here, nothing measured")
        return
    with tempfile.TemporaryDirectory() as folder, services.serve(Path(folder), workers=0) as service:
        custodian = service.key("custodian")
        services.ready_dataset(custodian)
        with sync_playwright() as playwright:
            opened = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
            usable, calls = _compared(opened, service.url, custodian.token)
            opened.close()
    name = f"dashboard: first page can be used, answers taking {LATENCY} ms"
    yield row(name, "ms", usable, "three API calls, one after the other", calls, "<= 1")


def _compared(browser: Browser, url: str, token: str) -> tuple[float, float]:
    """Medians of rounds in which both take turns."""
    with browser.new_context() as context:
        page = context.new_page()
        sign_in(page, url, token)
        network = context.new_cdp_session(page)
        network.send("Network.enable")
        network.send("Network.setCacheDisabled", {"cacheDisabled": True})
        slow = {"offline": False, "latency": LATENCY, "downloadThroughput": -1, "uploadThroughput": -1}
        network.send("Network.emulateNetworkConditions", slow)
        rounds = [_round(page) for _ in range(ROUNDS)]
    first, calls = zip(*rounds, strict=True)
    return statistics.median(first), statistics.median(calls)


def _round(page: Page) -> tuple[float, float]:
    page.reload(wait_until="commit")
    return page.evaluate(_USABLE), page.evaluate(_CALLS)
