"""The analyst's story: plan for nothing, pay once, watch, look around in what was learned."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests import services
from tests.api import hospital as hospitals
from tests.api.hospital import Hospital
from tests.services import Service
from tests.web.conftest import Visits
from tests.web.test_auditor import saved
from tests.web.test_custodian import card


class TestAnalyst:
    def test_plans_trains_watches_explores_asks_and_downloads(self, visit: Visits, service: Service, tmp_path: Path):
        custodian, analyst = service.key("custodian"), service.key("analyst")
        dataset = services.ready_dataset(custodian)
        services.grant(custodian, dataset, analyst, "3")
        visitor = visit().sign_in(analyst)
        page = visitor.page
        page.get_by_role("link", name="icu").click()
        visitor.settle()
        page.get_by_role("link", name="New training").click()
        visitor.settle()

        page.get_by_label("Privacy to spend, ρ").fill("0.75")
        page.get_by_role("radio", name="dp-apvi").check()
        expect(page.get_by_text("Trainings like this left")).to_be_visible()
        expect(page.get_by_text("ρ = 0.75").first).to_be_visible()
        assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0"  # a plan is free

        page.get_by_role("button", name="Train …").click()
        page.get_by_role("dialog").get_by_role("button", name="Charge ρ = 0.75 and train").click()
        expect(page.locator(".badge.released")).to_be_visible(timeout=60_000)
        assert analyst.get(f"/v1/datasets/{dataset}/budget").json()["charged"] == "0.75"

        page.get_by_role("link", name="See the policy").click()
        visitor.settle()
        canvas = page.get_by_role("application", name="Map of decisions")
        canvas.press("ArrowRight")
        canvas.press("ArrowDown")
        policy = analyst.get("/v1/policies").json()["items"][0]["id"]
        document = analyst.get(f"/v1/policies/{policy}").json()
        action = document["decisions"][1][1]
        label = document["actions"]["labels"][action]
        expect(page.locator(".readout")).to_contain_text(f"Step 2, state 1: {label} (action {action})")

        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_text(f"{label} (action {action})", exact=False).last).to_be_visible()

        assert json.loads(saved(page, "Download the policy", tmp_path).read_text()) == document
        certificate = analyst.get(f"/v1/policies/{policy}/certificate").text
        assert saved(page, "Download the certificate", tmp_path).read_text() == certificate

    def test_who_wants_a_linear_model_is_told_what_it_needs(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.analyst, f"datasets/{hospital.linear.dataset}/train").page
        page.get_by_role("radio", name="dp-vapvi").check()
        page.get_by_role("button", name="Take a feature for each column").click()
        expect(page.get_by_text("Trainings like this left")).to_be_visible()
        features = {"features": {"kind": "blocks", "terms": ["1", "age", "lactate"]}}
        assert json.loads(page.get_by_label("Parameters, as JSON").input_value()) == features

    def test_who_wants_one_of_numbered_states_is_sent_elsewhere(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.analyst, f"datasets/{hospital.own.dataset}/train").page
        page.get_by_role("radio", name="dp-vapvi").check()
        expect(page.get_by_text("Choose auto, dp-pae or dp-apvi.")).to_be_visible()

    def test_the_last_question_says_what_is_charged_to_whom(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.analyst, f"datasets/{hospital.own.dataset}/train").page
        page.get_by_label("Privacy to spend, ρ").fill("0.5")
        page.get_by_role("button", name="Train …").click()
        asked = page.get_by_role("dialog")
        expect(asked).to_contain_text("This charges ρ = 0.5 of")
        expect(asked).to_contain_text(f"population {hospital.own.population}: at δ = 10⁻⁶ this is ε = 5.23.")
        asked.get_by_role("button", name="Go back").click()

    def test_who_goes_back_has_paid_nothing(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.analyst, f"datasets/{hospital.own.dataset}/train")
        before = hospital.analyst.get(f"/v1/datasets/{hospital.own.dataset}/budget").json()
        train = visitor.page.get_by_role("button", name="Train …")
        train.press("Enter")
        visitor.page.get_by_role("dialog").get_by_role("button", name="Go back").press("Enter")
        expect(visitor.page.get_by_role("dialog")).to_have_count(0)
        expect(train).to_be_focused()
        assert not [one for one in visitor.requests if one.method == "POST" and one.url.endswith("/v1/trainings")]
        assert hospital.analyst.get(f"/v1/datasets/{hospital.own.dataset}/budget").json() == before

    def test_reads_what_a_policy_is_worth_and_how_fairly_that_was_asked(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.analyst, f"evaluations/{hospital.own.evaluation}").page
        report = hospital.analyst.get(f"/v1/evaluations/{hospital.own.evaluation}/report").json()
        expect(page.locator("#main")).to_contain_text(report["caution"])
        expect(page.locator("#main")).to_contain_text("Such intervals are meant to hold the truth")
        expect(page.locator("#top [aria-current]")).to_have_text("Trainings")  # where it is listed

    def test_is_told_what_judging_a_policy_costs_that_decides_by_the_step(self, visit: Visits, hospital: Hospital):
        visitor = visit().sign_in(hospital.analyst, f"policies/{hospital.linear.policy}/evaluate")
        expect(visitor.page.get_by_text("Evaluations like this left")).to_be_visible()
        assert json.loads(visitor.requests[-1].post_data or "{}")["parameters"] == {"time_groups": 3}

    def test_asks_a_linear_policy_about_measurements(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.analyst, f"policies/{hospital.linear.policy}").page
        page.get_by_label("age", exact=True).fill("61")
        page.get_by_label("lactate", exact=True).fill("4")
        page.get_by_role("button", name="Ask", exact=True).click()
        question = {"step": 1, "state": {"age": 61, "lactate": 4}}
        answer = hospital.analyst.post(f"/v1/policies/{hospital.linear.policy}/decisions", json=question).json()
        expect(page.locator("form")).to_contain_text(f"action {answer['action']}")


def short(number: float) -> str:
    """Three digits, rounded up, as the page writes what it promises."""
    scale = 10.0 ** (2 - math.floor(math.log10(number)))
    return (
        f"{math.ceil(number * scale - 1e-9) / scale:g}"
        if scale >= 1
        else f"{math.ceil(number):,}".replace(",", "\u202f")
    )


def noises(mechanisms: list[dict[str, Any]]) -> dict[str, str]:
    """The standard deviation of the noise on each statistic, or the least and the largest over steps and rounds."""
    found: dict[str, list[float]] = {}
    for one in mechanisms:
        scale = float(Fraction(one["scale"]["value"]))
        spread = math.sqrt(2) * scale if one["mechanism"] == "laplace" else math.sqrt(scale)
        found.setdefault(re.sub(r",( each)? (step|round) .*", "", one["statistic"]), []).append(spread)
    return {name: " – ".join(dict.fromkeys([short(min(all_)), short(max(all_))])) for name, all_ in found.items()}


class TestPlan:
    def fact(self, page: Page, name: str) -> str:
        found = page.locator(".facts > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")
        return found.inner_text()

    @pytest.mark.parametrize("learner", ["auto", "dp-apvi", "dp-pae"])
    def test_follows_the_slider_and_shows_what_the_service_answers(
        self, visit: Visits, hospital: Hospital, learner: str
    ):
        visitor = visit().sign_in(hospital.analyst, f"datasets/{hospital.own.dataset}/train")
        page = visitor.page
        page.locator(f"input[type=radio][value={learner}]").check()
        typed, slider = page.get_by_label("Privacy to spend, ρ"), page.get_by_label("ρ, roughly")
        amounts = [typed.input_value()]
        for way in ("PageDown", "Home", "End"):
            slider.press(way)
            amounts.append(typed.input_value())
            expect(card(page, "The plan: free, and no patient is read")).to_contain_text(f"ρ = {amounts[-1]}at δ")
            visitor.settle()
            asked = {"dataset": hospital.own.dataset, "algorithm": learner, "privacy": {"rho": amounts[-1]}}
            plan = hospital.analyst.post("/v1/plans", json=asked).json()
            assert self.fact(page, "Visits before a decision is trusted") == f"about {short(plan['visits_needed'])}"
            assert self.fact(page, "Trainings like this left") == f"{plan['trainings_left']:,}".replace(",", "\u202f")
            rows = page.locator("table", has_text="Noise, σ").locator("tbody tr")
            cells = rows.evaluate_all("all => all.map((row) => [...row.cells].map((one) => one.textContent))")
            assert {name: noise for name, _, noise, _ in cells} == noises(plan["mechanisms"])
        assert len(set(amounts)) == len(amounts)

    def test_every_position_of_the_slider_is_another_amount(self, visit: Visits, hospital: Hospital):
        page = visit().sign_in(hospital.analyst, f"datasets/{hospital.own.dataset}/train").page
        typed, slider = page.get_by_label("Privacy to spend, ρ"), page.get_by_label("ρ, roughly")
        slider.press("Home")
        amounts = [Fraction(typed.input_value())]
        while slider.input_value() != slider.get_attribute("max"):
            slider.press("ArrowRight")
            amounts.append(Fraction(typed.input_value()))
        assert amounts == sorted(set(amounts))
        budget = hospital.analyst.get(f"/v1/datasets/{hospital.own.dataset}/budget").json()
        assert amounts[-1] == min(Fraction(budget["remaining"]), Fraction(budget["grant"]["remaining"]))


class TestProgress:
    def test_is_told_by_the_services_events_while_it_runs(self, visit: Visits, service: Service):
        custodian, analyst = service.key("custodian"), service.key("analyst")
        dataset = hospitals.slow_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        training = services.submit(analyst, dataset).json()["id"]
        visitor = visit().sign_in(analyst, f"trainings/{training}")
        bar = visitor.page.get_by_role("progressbar", name="Public stages done")
        services.wait_until(lambda: 0 < bar.evaluate("one => one.value") < 1)
        first = bar.evaluate("one => one.value")
        services.wait_until(lambda: first < bar.evaluate("one => one.value") < 1)
        path = f"/v1/trainings/{training}"
        assert f"{path}/events" in visitor.asked(path)
        assert visitor.asked(path).count(path) == 1  # when the page was opened, and never again
        analyst.delete(path)
        expect(visitor.page.locator(".badge.cancelled")).to_be_visible()


BINS = {
    "algorithm": "dp-vapvi",
    "privacy": {"rho": "10"},
    "parameters": {"features": {"kind": "bins", "edges": {"lactate": [2, 4], "age": [65]}}},
}


class TestPolicyOfBins:
    def test_is_a_map_of_cells_that_are_told_by_their_bounds(self, visit: Visits, service: Service):
        custodian, analyst = service.key("custodian"), service.key("analyst")
        dataset = services.ready_dataset(custodian, schema=services.VECTOR)
        services.grant(custodian, dataset, analyst)
        policy = services.ended(analyst, services.submit(analyst, dataset, body=BINS).json()["id"])["policy"]
        page = visit().sign_in(analyst, f"policies/{policy}").page
        cells = [
            (0, "age below 65, lactate below 2", {"age": 64, "lactate": 1}),
            (1, "age below 65, lactate 2 to 4", {"age": 64, "lactate": 2}),
            (3, "age from 65, lactate below 2", {"age": 65, "lactate": 1}),
            (5, "age from 65, lactate from 4", {"age": 65, "lactate": 4}),
        ]
        for cell, words, state in cells:
            page.get_by_label("Go to cell").fill(str(cell))
            page.get_by_role("button", name="Go", exact=True).click()
            found = analyst.post(f"/v1/policies/{policy}/decisions", json={"step": 1, "state": state}).json()
            said = f"Step 1, cell {cell} ({words}): action {found['action']}, {found['source']}, pessimistic score "
            expect(page.locator(".readout")).to_contain_text(said)
            score = float(page.locator(".readout").inner_text().removeprefix(said).rstrip("."))
            assert score == pytest.approx(found["pessimistic_score"], rel=1e-3)


COUNTING = """
window.filled = 0;
const create = CanvasRenderingContext2D.prototype.createImageData;
CanvasRenderingContext2D.prototype.createImageData = function (...sizes) {
  window.filled += 1;
  return create.apply(this, sizes);
};
"""


class TestLargePolicy:
    def test_of_ten_thousand_states_is_shown_and_read(self, visit: Visits, hospital: Hospital):
        """The service's answer is replaced by a larger one: to learn it would take long, to draw it must not."""
        steps, states = 20, 10_000
        visitor = visit().sign_in(hospital.analyst)

        def enlarge(route: Any) -> None:
            document = route.fetch().json()
            document["horizon"], document["states"] = steps, {"kind": "discrete", "count": states}
            document["decisions"] = [[(step + state) % 2 for state in range(states)] for step in range(steps)]
            document["source"] = [["learned" if state % 3 else "fallback" for state in range(states)]] * steps
            document["pessimistic_score"] = [[state / states for state in range(states)]] * steps
            route.fulfill(json=document)

        visitor.page.route(f"**/v1/policies/{hospital.own.policy}", enlarge)
        page = visitor.go(f"policies/{hospital.own.policy}").page
        canvas = page.get_by_role("application", name="Map of decisions")
        expect(canvas).to_be_visible()
        page.get_by_label("Go to state").fill("9999")
        page.get_by_role("button", name="Go", exact=True).click()
        canvas.press("ArrowDown")
        expect(page.locator(".readout")).to_contain_text("Step 2, state 9999: wait (action 0), fallback")
        canvas.press("Home")
        expect(page.locator(".readout")).to_contain_text("Step 2, state 0: treat (action 1), fallback")

        in_sight = page.locator(".map")
        canvas.press("End")
        edge = "one => one.scrollLeft + one.clientWidth >= one.scrollWidth - 1"
        assert in_sight.evaluate(edge)
        page.set_viewport_size({"width": 600, "height": 700})  # and what was chosen is still in sight
        services.wait_until(lambda: in_sight.evaluate("one => one.clientWidth") < 600)
        services.wait_until(lambda: in_sight.evaluate(edge), 10)
        assert in_sight.evaluate(edge)

    def test_of_a_hundred_thousand_states_is_painted_once_however_the_pointer_moves(
        self, visit: Visits, hospital: Hospital
    ):
        """Cells are counted by the images that are filled: to fill one reads every decision in view."""
        steps, states = 5, 100_000
        visitor = visit().sign_in(hospital.analyst)
        visitor.context.add_init_script(COUNTING)
        visitor.page.reload()
        visitor.settle()

        def enlarge(route: Any) -> None:
            document = route.fetch().json()
            document["horizon"], document["states"] = steps, {"kind": "discrete", "count": states}
            document["decisions"] = [[0, 1] * (states // 2)] * steps
            document["source"] = [["learned", "fallback"] * (states // 2)] * steps
            document["pessimistic_score"] = [[0.25, 0.5] * (states // 2)] * steps
            route.fulfill(json=document)

        visitor.page.route(f"**/v1/policies/{hospital.own.policy}", enlarge)
        page = visitor.go(f"policies/{hospital.own.policy}").page
        canvas = page.get_by_role("application", name="Map of decisions")
        expect(canvas).to_be_visible()
        canvas.scroll_into_view_if_needed()
        services.wait_until(lambda: page.evaluate("window.filled") > 0)
        page.evaluate("window.filled = 0")
        box = canvas.bounding_box()
        assert box is not None
        for place in range(30):
            page.mouse.move(box["x"] + 60 + 9 * place, box["y"] + 30 + 3 * place)
        expect(page.locator(".readout")).to_contain_text("Zoom in to see each.")
        assert page.evaluate("window.filled") == 0
        page.get_by_label("the pessimistic score").check()  # another layer is another image, and one is enough
        services.wait_until(lambda: page.evaluate("window.filled") > 0)
        assert page.evaluate("window.filled") == 1
