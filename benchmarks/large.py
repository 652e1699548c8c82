"""A policy of 10⁵ states, as a hospital meets it: learned by a real service, asked, downloaded, drawn in a browser.

Everything is beside the same of a policy of four states, in one service and one browser: what a size costs is what the
two differ by. A page that freezes shows in the longest task of its main thread, in which nothing else is answered.
"""

import functools
import http.server
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from tests import services
from tests.services import Client, Service

from benchmarks import dashboard
from benchmarks.rows import Row, row

STATES, ACTIONS, HORIZON, UNITS = 100_000, 5, 10, 5_000
SCHEMA: Final = {
    "horizon": HORIZON,
    "states": {"kind": "discrete", "count": STATES},
    "actions": {"count": ACTIONS},
    "reward": {"low": 0, "high": 1},
}
_NAME: Final = "a policy of 10⁵ states"
_SMALL: Final = "a policy of 4 states"
_TIMES: Final = 200
_ROUNDS: Final = 5


def measure() -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        services.serve(Path(folder), requests_per_second=1_000_000, max_body_megabytes=1024) as service,
    ):
        analyst = service.key("analyst")
        small = _trained(service, analyst, services.TABULAR, 200)
        large = _trained(service, analyst, SCHEMA, UNITS)
        yield from _asked(analyst, large, small)
        yield from _downloaded(analyst, large)
        yield from _shown(service, analyst, large, small)


def _trained(service: Service, analyst: Client, schema: dict[str, Any], units: int) -> str:
    custodian = service.key("custodian")
    dataset = services.ready_dataset(custodian, schema=schema, units=units)
    services.grant(custodian, dataset, analyst)
    training = services.submit(analyst, dataset, key=dataset, body=services.AUTO).json()["id"]
    found = services.ended(analyst, training, 1800)
    assert found["state"] == "released", found
    return str(found["policy"])


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - began)


# --- asked -------------------------------------------------------------------------------------------------------


def _asked(analyst: Client, large: str, small: str) -> Iterator[Row]:
    """The first decision of a policy reads it, and the service keeps it for those that follow."""

    def ask(policy: str, state: int) -> None:
        answer = analyst.post(f"/v1/policies/{policy}/decisions", json={"step": 1, "state": state})
        assert answer.status_code == 200, answer.text

    first = _milliseconds(lambda: ask(large, STATES - 1))
    document = analyst.get(f"/v1/policies/{large}").content
    reading = min(_milliseconds(lambda: json.loads(document)) for _ in range(3))
    yield row(f"{_NAME}: the first decision", "ms", first, "json.loads of the same document", reading, "<= 5")
    taken: dict[str, list[float]] = {large: [], small: []}
    for state in range(_TIMES):
        for policy, times in taken.items():
            times.append(_milliseconds(functools.partial(ask, policy, state % 4)))
    ours, peer = (statistics.median(times) for times in taken.values())
    yield row(f"{_NAME}: a decision", "ms", ours, _SMALL, peer, "<= 1.5")


# --- downloaded --------------------------------------------------------------------------------------------------


def _downloaded(analyst: Client, large: str) -> Iterator[Row]:
    document = analyst.get(f"/v1/policies/{large}").content
    with tempfile.TemporaryDirectory() as folder, _files(Path(folder)) as url:
        (Path(folder) / "policy.json").write_bytes(document)
        plain = httpx.Client(trust_env=False)
        rounds = [
            (
                _milliseconds(lambda: analyst.get(f"/v1/policies/{large}").content),
                _milliseconds(lambda: plain.get(f"{url}/policy.json").content),
            )
            for _ in range(_ROUNDS)
        ]
        plain.close()
    ours, peer = map(min, zip(*rounds, strict=True))
    yield row(f"{_NAME}: its download", "ms", ours, "the same bytes as a file, by http.server", peer, "<= 3")


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def _files(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# --- shown -------------------------------------------------------------------------------------------------------


def _shown(service: Service, analyst: Client, large: str, small: str) -> Iterator[Row]:
    found = dashboard.browser()
    if found is None:
        print("large: no Chromium here, no page measured")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=dashboard.ARGUMENTS)
        with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
            page = context.new_page()
            dashboard.sign_in(page, service.url, analyst.token)
            visits = [[_visit(browser, page, policy) for policy in (large, small)] for _ in range(_ROUNDS)]
        browser.close()
    ours, peer = (tuple(map(statistics.median, zip(*each, strict=True))) for each in zip(*visits, strict=True))
    yield row(f"{_NAME}: its map is drawn", "ms", ours[0], _SMALL, peer[0], "value <= 2000")
    name = f"{_NAME}: the longest task of its page, opened, pointed at, zoomed, coloured"
    yield row(name, "ms", ours[1], _SMALL, peer[1], "value <= 200")


# Functions, and no text to be evaluated: the page's own policy of what may run forbids that.
_LEFT: Final = """() => new Promise((done) => {
    const look = () => (document.querySelector(".map canvas") ? requestAnimationFrame(look) : done());
    look();
})"""
_PAINTED: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_DRAWN: Final = """() => new Promise((done) => {
    const look = () => (document.querySelector(".map canvas") ? requestAnimationFrame(() => requestAnimationFrame(done))
        : requestAnimationFrame(look));
    look();
})"""


def _visit(browser: Browser, page: Page, policy: str) -> tuple[float, float]:
    """Milliseconds until the map is there, and of the longest task from the beginning until everything was tried."""
    page.evaluate("() => { location.hash = '#/policies'; }")
    page.evaluate(_LEFT)
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    began = time.perf_counter()
    page.evaluate("(policy) => { location.hash = `#/policies/${policy}`; }", policy)
    page.evaluate(_DRAWN)
    drawn = 1000 * (time.perf_counter() - began)
    canvas = page.get_by_role("application", name="Map of decisions")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    for place in range(10):
        page.mouse.move(box["x"] + 60 + 40 * place, box["y"] + 30 + 5 * place)
    for name in ("Zoom in", "Zoom in", "Zoom out", "Whole policy"):
        page.get_by_role("button", name=name).click()
    page.get_by_label("the pessimistic score").check()
    page.get_by_label("Go to state").fill("3")
    page.get_by_role("button", name="Go", exact=True).click()
    page.evaluate(_PAINTED)
    return drawn, _longest(browser.stop_tracing())


def _longest(trace: bytes) -> float:
    """Milliseconds of the longest task of a page's main thread."""
    events = json.loads(trace)["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event["dur"] / 1000
        for event in events
        if event["ph"] == "X" and "RunTask" in event["name"] and (event["pid"], event["tid"]) in main
    ]
    assert tasks, "the browser's trace has no tasks"
    return float(max(tasks))


if __name__ == "__main__":
    for measured in measure():
        print(measured, flush=True)
