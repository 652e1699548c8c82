"""Pictures of the dashboard, of a made-up clinic: `python -m docs.building.pictures` writes docs/figures/dashboard.

It needs Chromium. Run it again when a page looks different.
"""

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from discretion import embedded
from discretion.client import Client

FIGURES: Final = Path(__file__).parents[1] / "figures" / "dashboard"
_WIDE: Final = 1440
_COLOURS: Final = 128  # more than any page has, but for the edges of letters
_PATIENCE: Final = 60_000
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]

_PATIENTS: Final = 5000
_STEPS: Final = 8
_STATES: Final = 24  # how ill somebody is, from 0
_ACTIONS: Final = ("wait", "fluids", "vasopressor", "fluids and vasopressor", "ventilate")
_SCHEMA: Final[dict[str, Any]] = {
    "horizon": _STEPS,
    "states": {"kind": "discrete", "count": _STATES},
    "actions": {"count": len(_ACTIONS), "labels": list(_ACTIONS)},
    "reward": {"low": 0, "high": 1},
    "return": {"low": 0, "high": 1},
}


def stays(patients: int) -> dict[str, Any]:
    """Every stay has all its steps; the iller somebody is, the more helps, and the fewer there are like them."""
    draw = np.random.default_rng(2)
    ill = np.minimum(draw.geometric(0.14, patients) - 1, _STATES - 1)
    seen, done = np.empty((2, patients, _STEPS), int)
    for step in range(_STEPS):
        helps = ill * len(_ACTIONS) // _STATES
        usual = np.clip(helps + draw.choice((-1, 0, 1), patients, p=(0.3, 0.6, 0.1)), 0, len(_ACTIONS) - 1)
        action = np.where(draw.random(patients) < 0.8, usual, draw.integers(len(_ACTIONS), size=patients))
        seen[:, step], done[:, step] = ill, action
        better = draw.random(patients) < np.where(action == helps, 0.8, 0.3)
        ill = np.clip(ill + np.where(better, -draw.integers(1, 4, patients), draw.integers(0, 3, patients)), 0, _STATES - 1)
    lived = draw.random(patients) < 1 - ill / _STATES
    outcome = np.zeros((patients, _STEPS))
    outcome[:, -1] = lived
    unit, step = np.divmod(np.arange(patients * _STEPS), _STEPS)
    return {"unit": unit, "step": step + 1, "state": seen.ravel(), "action": done.ravel(), "reward": outcome.ravel()}


@dataclass(frozen=True)
class Clinic:
    """A service, the tokens of three people, and what they have made."""

    url: str
    custodian: str
    analyst: str
    auditor: str
    dataset: str
    population: str
    policy: str


@contextmanager
def clinic() -> Iterator[Clinic]:
    """One budget that two policies and a judgement have drawn on, and one that nobody has touched."""
    people = {"custodian": "Data office", "analyst": "Sepsis group", "auditor": "Ethics board"}
    with tempfile.TemporaryDirectory() as folder, embedded.service(Path(folder)) as (url, token):
        with Client(url, token, trust_env=False) as admin:
            keys = {role: admin.add_key(name, role) for role, name in people.items()}
        with Client(url, keys["custodian"]["token"], trust_env=False) as custodian:
            dataset = custodian.add_dataset("icu-2026", budget={"rho": "2"}, **_SCHEMA)
            custodian.upload(dataset["id"], stays(_PATIENTS))
            custodian.add_grant(dataset["id"], keys["analyst"]["id"], "1.5")
            other = custodian.add_dataset("icu-2025", budget={"rho": "1"}, **_SCHEMA)
            custodian.upload(other["id"], stays(_PATIENTS // 2))
        with Client(url, keys["analyst"]["token"], trust_env=False) as analyst:
            policy = analyst.train(dataset["id"], rho="0.5", half="first")
            analyst.evaluate(policy.id, rho="0.25", half="second")
            analyst.train(dataset["id"], rho="0.25")
        tokens = (keys[role]["token"] for role in people)
        yield Clinic(url, *tokens, dataset["id"], dataset["population"], policy.id)


def take(browser: Browser, at: Clinic) -> None:
    with _visit(browser, at.url, at.custodian) as page:
        _go(page, "")
        _write("overview", page)
        _go(page, f"datasets/{at.dataset}")
        _write("dataset", page, most=1150)
    with _visit(browser, at.url, at.analyst) as page:
        _go(page, f"datasets/{at.dataset}/train")
        _write("new-training", page, most=1000)
        _go(page, f"policies/{at.policy}")
        _write("policy", page)
    with _visit(browser, at.url, at.auditor) as page:
        _go(page, f"policies/{at.policy}/certificate")
        _write("certificate", page, most=1200)
        _go(page, f"audit/ledgers/{at.population}")
        _write("audit", page)


@contextmanager
def _visit(browser: Browser, url: str, token: str) -> Iterator[Page]:
    """Somebody who has signed in, in a browser of their own."""
    options: Any = {"viewport": {"width": _WIDE, "height": 900}, "color_scheme": "light", "locale": "en-GB"}
    with browser.new_context(**options) as context:
        context.set_default_timeout(_PATIENCE)
        page = context.new_page()
        page.goto(f"{url}/")
        page.get_by_label("Your token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("button", name="Sign out")).to_be_visible(timeout=_PATIENCE)
        yield page


def _go(page: Page, address: str) -> None:
    """To a page, until it and what it fetches for itself are shown."""
    page.evaluate("address => { location.hash = address }", f"#/{address}")
    page.wait_for_load_state("networkidle") if not address else page.wait_for_timeout(500)
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true", timeout=_PATIENCE)
    expect(page.locator("#main [aria-busy=true]")).to_have_count(0, timeout=_PATIENCE)


def _write(name: str, page: Page, most: int = 2000) -> None:
    """The page from its top, as high as it is or as is worth showing, in few colours."""
    tall = min(most, page.evaluate("Math.ceil(document.getElementById('main').getBoundingClientRect().bottom)"))
    clip: Any = {"x": 0, "y": 0, "width": _WIDE, "height": tall}
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
    few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(FIGURES / f"{name}.png", optimize=True)


def main() -> None:
    found = next(filter(None, map(shutil.which, _NAMES)))
    FIGURES.mkdir(parents=True, exist_ok=True)
    with clinic() as made, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        take(browser, made)
        browser.close()


if __name__ == "__main__":
    main()
