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
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from discretion import embedded
from discretion.client import Client

FIGURES: Final = Path(__file__).parents[1] / "figures" / "dashboard"
_WIDE: Final = 1440
_BELOW: Final = 14  # pixels under the last thing that is shown
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
    """The iller somebody is, the more helps, and the fewer there are like them; most leave, or die, before the end."""
    draw = np.random.default_rng(2)
    ill = np.minimum(draw.geometric(0.12, patients) - 1, _STATES - 1)
    here, rows = np.arange(patients), []
    for step in range(1, _STEPS + 1):
        helps = ill[here] * len(_ACTIONS) // _STATES
        action = np.where(draw.random(len(here)) < 0.45, helps, draw.integers(len(_ACTIONS), size=len(here)))
        chance, well = draw.random(len(here)), action == helps
        left = (ill[here] < 5) & (chance < np.where(well, 0.6, 0.2))
        died = (ill[here] > 9) & (chance < np.where(well, 0.02, 0.25))
        rows.append(np.stack([here, np.full(len(here), step), ill[here], action, left, left | died]))
        change = np.where(draw.random(len(here)) < np.where(well, 0.8, 0.2), -3, 2)
        ill[here] = np.clip(ill[here] + change, 0, _STATES - 1)
        here = here[~(left | died)]
    table = np.concatenate(rows, axis=1)
    table = table[:, np.lexsort(table[1::-1])]
    return dict(zip(("unit", "step", "state", "action", "reward", "terminated"), table, strict=True))


@dataclass(frozen=True)
class Clinic:
    """A service, the tokens of three people by their role, and what they have made."""

    url: str
    tokens: dict[str, str]
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
            custodian.add_grant(dataset["id"], keys["analyst"]["id"], "1.75")
            other = custodian.add_dataset("icu-2025", budget={"rho": "1"}, **_SCHEMA)
            custodian.upload(other["id"], stays(_PATIENTS // 2))
        with Client(url, keys["analyst"]["token"], trust_env=False) as analyst:
            policy = analyst.train(dataset["id"], rho="1", half="first")
            analyst.evaluate(policy.id, rho="0.25", half="second")
            analyst.train(dataset["id"], rho="0.1")
        tokens = {role: key["token"] for role, key in keys.items()}
        yield Clinic(url, tokens, dataset["id"], dataset["population"], policy.id)


def take(browser: Browser, at: Clinic, folder: Path) -> None:
    with _visit(browser, at.url, at.tokens["custodian"]) as page:
        _go(page, "")
        _write(folder / "overview.png", page, page.locator(".card").last)
        _go(page, f"datasets/{at.dataset}")
        _write(folder / "dataset.png", page, page.locator(".card", has_text="Analyst's key").last)
    with _visit(browser, at.url, at.tokens["analyst"]) as page:
        _go(page, f"datasets/{at.dataset}/train")
        page.get_by_label("Privacy to spend, ρ").fill("0.2")
        page.get_by_role("heading", name="New training").click()  # away from the field
        expect(page.get_by_text("ρ = 0.2", exact=True)).to_be_visible(timeout=_PATIENCE)
        _write(folder / "new-training.png", page, page.locator(".sides"))
        _go(page, f"policies/{at.policy}")
        page.locator(".map canvas").click(position={"x": 476, "y": 92})  # a decision in the middle, to be read out
        page.mouse.move(0, 0)
        _write(folder / "policy.png", page, page.locator(".card", has_text="What it decides"))
    with _visit(browser, at.url, at.tokens["auditor"]) as page:
        _go(page, f"policies/{at.policy}/certificate")
        _write(folder / "certificate.png", page, page.locator(".certificate p").nth(1))
        _go(page, f"audit/ledgers/{at.population}")
        _write(folder / "audit.png", page, page.locator(".card", has_text="Movements of the budget"))


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
    page.reload(wait_until="networkidle")
    expect(page.locator("#main")).not_to_have_attribute("aria-busy", "true", timeout=_PATIENCE)
    expect(page.locator("#main [aria-busy=true]")).to_have_count(0, timeout=_PATIENCE)


def _write(file: Path, page: Page, last: Locator) -> None:
    """The page from its top to the last thing that is worth showing, in few colours."""
    box = last.bounding_box()
    assert box is not None, file.name
    clip: Any = {"x": 0, "y": 0, "width": _WIDE, "height": round(box["y"] + box["height"]) + _BELOW}
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
    _few_colours(picture.convert("RGB")).save(file, optimize=True)


def _few_colours(picture: Image.Image) -> Image.Image:
    """The most frequent ones as they are; the others, at the edges of letters, go to the nearest of these."""
    pixels = np.asarray(picture).astype(int)
    colours, which, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = colours[np.argsort(-counts)[:256]]
    nearest = np.square(colours[:, None] - kept).sum(axis=-1).argmin(axis=1).astype(np.uint8)
    made = Image.fromarray(nearest[which].reshape(pixels.shape[:2]))
    made.putpalette(kept.astype(np.uint8).tobytes())
    return made


def main() -> None:
    found = next(filter(None, map(shutil.which, _NAMES)))
    FIGURES.mkdir(parents=True, exist_ok=True)
    with clinic() as made, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        take(browser, made, FIGURES)
        browser.close()


if __name__ == "__main__":
    main()
