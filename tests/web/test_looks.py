"""Every page of every role: no overflow on a telephone, nothing that keeps somebody out, in light and in dark.

With DISCRETION_SCREENSHOTS=build/screenshots in the environment, each is also photographed.
"""

import os
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import ViewportSize, expect

from tests.api.hospital import Hospital
from tests.services import Service
from tests.web.conftest import Visits
from tests.web.visits import Visit

WIDE: Final[ViewportSize] = {"width": 1440, "height": 900}
NARROW: Final[ViewportSize] = {"width": 390, "height": 844}
Screen = tuple[ViewportSize, Literal["light", "dark"]]
SCREENS: Final[tuple[Screen, ...]] = ((WIDE, "light"), (NARROW, "dark"))
# The other two differ from these in colours alone, so nothing but colours is judged on them.
OTHER_COLOURS: Final[tuple[Screen, ...]] = ((NARROW, "light"), (WIDE, "dark"))
OF_COLOURS: Final = ("color-contrast", "link-in-text-block")
TWO_FRAMES: Final = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PAGES = {
    "custodian": [
        "",
        "datasets",
        "datasets/new",
        "datasets/{dataset}",
        "trainings",
        "trainings/{training}",
        "policies",
        "policies/{policy}",
        "policies/{policy}/certificate",
        "evaluations/{evaluation}",
    ],
    "analyst": [
        "",
        "datasets",
        "datasets/{dataset}",
        "datasets/{dataset}/train",
        "trainings",
        "trainings/{training}",
        "policies",
        "policies/{policy}",
        "policies/{policy}/evaluate",
        "evaluations/{evaluation}",
    ],
    "auditor": [
        "",
        "audit",
        "audit/ledgers/{dataset}",
        "verify",
        "policies",
        "policies/{policy}",
        "policies/{policy}/certificate",
        "evaluations/{evaluation}",
        "evaluations/{evaluation}/certificate",
    ],
    "admin": ["", "keys", "datasets", "datasets/{dataset}", "trainings", "trainings/{training}", "audit"],
}


def barriers(visitor: Visit, place: str, rules: tuple[str, ...] | None = None) -> list[str]:
    """What axe-core calls serious or worse, by all of its rules or by some."""
    if not visitor.page.evaluate("'axe' in window"):
        visitor.page.evaluate(AXE_SCRIPT)
    options: dict[str, Any] = {"resultTypes": ["violations"]} | ({} if rules is None else {"runOnly": rules})
    found: list[dict[str, Any]] = visitor.page.evaluate("options => axe.run(options)", options)["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{place}: {one['id']} at {one['nodes'][0]['target']}: {one['nodes'][0]['html'][:120]}" for one in grave]


def overflow(visitor: Visit, place: str) -> list[str]:
    """Of the page, and of every table and question in it: what has to be pulled sideways to be read is not seen."""
    sizes: list[list[Any]] = visitor.page.evaluate(
        """[document.documentElement, ...document.querySelectorAll(".wide, dialog")].map(
            (one) => [one.getAttribute("aria-label") || "page", one.scrollWidth, one.clientWidth])"""
    )
    return [f"{place}: {name} is {wide} px wide in {room}" for name, wide, room in sizes if wide > room]


def photographed(visitor: Visit, name: str) -> None:
    if folder := os.environ.get("DISCRETION_SCREENSHOTS"):
        asked = visitor.page.locator("dialog").count() > 0  # a question stands in the middle of what is in sight
        visitor.page.screenshot(path=Path(folder) / f"{name}.png", full_page=not asked)


def looked_at(visitor: Visit, place: str) -> list[str]:
    found: list[str] = []
    for size, scheme in SCREENS + OTHER_COLOURS:
        visitor.page.set_viewport_size(size)
        visitor.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        visitor.page.evaluate(TWO_FRAMES)  # drawings follow the width one frame later
        here = f"{place} ({size['width']}, {scheme})"
        if (size, scheme) in SCREENS:
            found += barriers(visitor, here) + overflow(visitor, here)
        else:
            found += barriers(visitor, here, OF_COLOURS)
        photographed(visitor, f"{place.replace('/', '-')}-{size['width']}-{scheme}")
    return found


class TestEveryPage:
    @pytest.mark.long
    @pytest.mark.parametrize("role", PAGES)
    def test_can_be_read_by_everybody_on_every_screen(self, visit: Visits, hospital: Hospital, role: str):
        visitor = visit(viewport=WIDE, color_scheme="light").sign_in(hospital.of(role))
        found: list[str] = []
        for page in PAGES[role]:
            visitor.page.set_viewport_size(WIDE)
            visitor.page.emulate_media(color_scheme="light")
            visitor.go(page.format(**hospital.own.ids()))
            found += looked_at(visitor, f"{role}/{page.replace('{', '').replace('}', '') or 'overview'}")
        assert not found

    def test_of_a_linear_policy_too(self, visit: Visits, hospital: Hospital):
        visitor = visit(viewport=WIDE).sign_in(hospital.analyst, f"policies/{hospital.linear.policy}")
        assert not looked_at(visitor, "analyst/policies-linear")

    def test_for_strangers_too(self, visit: Visits, service: Service):
        visitor = visit(viewport=WIDE)
        visitor.page.goto(service.url)
        visitor.page.get_by_label("Your token").wait_for()
        assert not looked_at(visitor, "stranger/sign_in")

    def test_for_who_has_nothing_yet_says_what_to_do(self, visit: Visits, service: Service):
        for role in ("custodian", "analyst"):
            visitor = visit(viewport=WIDE).sign_in(service.key(role))
            for page in ("", "datasets", "trainings", "policies"):
                visitor.go(page)
                assert visitor.page.locator(".empty").count() >= 1, (role, page)
                assert not looked_at(visitor, f"{role}-new/{page or 'overview'}")

    @pytest.mark.parametrize(
        ("role", "page"), [("custodian", "datasets/{dataset}"), ("auditor", "audit/ledgers/{dataset}")]
    )
    def test_an_id_in_a_ledger_stands_in_one_line(self, visit: Visits, hospital: Hospital, role: str, page: str):
        visitor = visit(viewport=WIDE).sign_in(hospital.of(role), page.format(**hospital.own.ids()))
        lines = visitor.page.locator("td code, td a").evaluate_all(
            "all => all.map((one) => one.getClientRects().length)"
        )
        assert len(lines) > 5
        assert set(lines) == {1}

    @pytest.mark.parametrize("page", ["verify", "policies/{policy}/certificate"])
    def test_a_command_is_broken_between_its_words_only(self, visit: Visits, hospital: Hospital, page: str):
        """A browser would end a line between `--` and `keys`, in the certificate's own words, too."""
        visitor = visit(viewport=NARROW).sign_in(hospital.auditor, page.format(**hospital.own.ids()))
        options = visitor.page.get_by_text("--keys", exact=True)
        expect(options.first).to_be_visible()
        assert options.count() == (1 if page == "verify" else 2)
        lines = "all => all.map((one) => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight))"
        assert max(options.evaluate_all(lines)) < 1.5

    def test_a_command_is_copied_whole(self, visit: Visits, hospital: Hospital):
        visitor = visit(viewport=NARROW).sign_in(hospital.auditor, "verify")
        visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        visitor.page.locator(".commands button").click()
        expect(visitor.page.get_by_text("Copied.")).to_be_visible()
        copied = visitor.page.evaluate("navigator.clipboard.readText()")
        assert copied == "discretion verify POLICY CERTIFICATE --keys JWKS"

    def test_what_is_wrong_in_a_form_has_another_border(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.custodian, "datasets/new").page
        name = page.get_by_label("Name", exact=True)
        border = "one => getComputedStyle(one).borderColor"
        before = name.evaluate(border)
        page.get_by_role("button", name="Check and make").click()
        expect(name).to_have_attribute("aria-invalid", "true")
        assert name.evaluate(border) != before

    def test_with_the_keyboard_the_content_comes_first(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.analyst)
        page = visitor.page
        page.reload()
        visitor.settle()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"

    def test_is_looked_at_by_something_that_sees(self, visit: Visits, service: Service):
        """The same looks at a page that was spoilt on purpose."""
        visitor = visit(viewport=NARROW)
        visitor.page.goto(service.url)
        visitor.page.get_by_label("Your token").wait_for()
        visitor.page.evaluate(
            """() => {
                const [nameless, wide] = [document.createElement("button"), document.createElement("div")];
                wide.append("x".repeat(200));
                document.querySelector("main").append(nameless, wide);
            }"""
        )
        assert [one for one in barriers(visitor, "spoilt") if "button-name" in one]
        assert overflow(visitor, "spoilt")

    def test_a_table_that_must_be_pulled_sideways_is_seen(self, visit: Visits, hospital: Hospital):
        visitor = visit(viewport=NARROW).sign_in(hospital.analyst, "trainings")
        assert not overflow(visitor, "as it is")
        visitor.page.evaluate("for (const one of document.querySelectorAll('.wide td')) one.style.width = '60rem'")
        assert [one for one in overflow(visitor, "spoilt") if "newest first is" in one]
