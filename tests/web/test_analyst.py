"""The analyst's story: plan for nothing, pay once, watch, look around in what was learned."""

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests import services
from tests.api.hospital import Hospital
from tests.services import Service
from tests.web.conftest import Visits


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

        with page.expect_download() as begun:
            page.get_by_role("button", name="Download the policy").click()
        begun.value.save_as(tmp_path / "policy.json")
        assert json.loads((tmp_path / "policy.json").read_text()) == document

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
