"""Certificates hold for what was done, and for nothing else, whoever signed them."""

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import certificate_page, certificates, errors
from discretion.learning import apvi, auto, forms, learners, policy, vapvi
from discretion.learning import features as maps
from discretion.learning.policy import Policy
from discretion.learning.schemas import Discrete, Schema
from discretion.privacy import events
from discretion.privacy.rho import Rho
from tests.certified import (
    CASES,
    EVERY,
    HASH,
    KEY,
    KEYS,
    RHO,
    ROGUE,
    STRANGER,
    Made,
    forged,
    judged,
    made,
    payload_of,
    put,
    refusal,
    signed,
    verify,
)  # fmt: skip
from tests.worlds import PLANE


class TestRoundTrip:
    @EVERY
    def test_what_was_done_verifies(self, case: str) -> None:
        verified = verify(made(case).certificate, case)
        assert verified.total_rho == events.compose(made(case).log) <= verified.charged_rho.exact
        assert verified.released.canonical() == made(case).text
        assert verified.kid == KEY.kid

    @EVERY
    def test_the_payload_is_canonical_and_has_no_time(self, case: str) -> None:
        text = base64.urlsafe_b64decode(made(case).certificate["payload"] + "==")
        assert rfc8785.dumps(json.loads(text)) == text
        assert not {"iat", "exp", "nbf", "at", "time", "duration", "created"} & set(json.loads(text))

    def test_certifying_twice_gives_the_same_bytes(self) -> None:
        assert made("gaussian").certify() == made("gaussian").certify()

    def test_spacing_and_key_order_of_the_policy_do_not_matter(self) -> None:
        document = json.loads(made("blocks").text)
        text = json.dumps(dict(reversed(document.items())), indent=3)
        certificates.verify(text, json.dumps(made("blocks").certificate, indent=1).encode(), KEYS.encode())

    def test_the_order_of_mechanisms_does_not_matter(self) -> None:
        verify(forged("split", lambda payload: payload["mechanisms"].reverse()), "split")

    def test_earlier_keys_still_verify(self) -> None:
        verify(made("gaussian").certificate, keys=json.dumps(certificates.jwks([STRANGER, KEY])))

    def test_a_dearer_charge_than_the_releases_is_allowed(self) -> None:
        row = certificates.LedgerRow("pop_1", 7, HASH, Rho.parse("2"))
        assert verify(made("gaussian").certify(ledger=row)).charged_rho == Rho.parse("2")

    def test_numbers_of_the_gaussian_case(self) -> None:
        payload = payload_of(made("gaussian").certificate)
        visits = payload["mechanisms"][0]
        assert visits["sensitivity"] == {"norm": "squared l2", "value": "24/1"}  # 2·H·m², H = 3, m = 2
        assert visits["scale"] == {"kind": "variance", "value": "72/1"}  # Δ²/2ρ₀, ρ₀ = 1/6
        assert visits["rho"] == "1/6"
        assert payload["privacy"]["rho"] == "1/2"
        assert payload["privacy"]["epsilon"] == [
            {"delta": "1e-5", "epsilon": "4.729"},
            {"delta": "1e-6", "epsilon": "5.222"},
            {"delta": "1e-9", "epsilon": "6.475"},
        ]
        assert payload["privacy"]["pure_epsilon"] is None
        assert payload["privacy"]["further_rho"] == "0.5"

    def test_a_pure_release_shows_its_epsilon_too(self) -> None:
        privacy = payload_of(made("laplace").certificate)["privacy"]
        assert (privacy["pure_epsilon"], privacy["rho"], privacy["charged_rho"]) == ("3/2", "9/8", "1.125")
        assert {line["epsilon"] for line in privacy["epsilon"]} == {"1.500"}

    def test_a_derived_policy_shows_the_release_and_costs_nothing_further(self) -> None:
        payload = payload_of(made("derived").certificate)
        assert payload["privacy"]["rho"] == "1/2"
        assert payload["privacy"]["further_rho"] == "0"
        assert payload["derived_from"]["training"] == "tr_1"
        assert [m["rho"] for m in payload["mechanisms"]] == ["1/4", "1/8", "1/8"]

    def test_the_sentences_belong_to_version_1(self) -> None:
        """Certificates that were handed out must verify for ever: new sentences need a new version."""
        payload = payload_of(made("gaussian").certificate)
        words = {key: payload[key] for key in ("version", "promise", "composition", "not_covered")}
        digest = hashlib.sha256(rfc8785.dumps(words)).hexdigest()
        assert digest == "dcaebe8639fb86f60ee73b97c735f5bca6b22cf7faa29f40cf668f7dea1dc5a4"


class TestCertify:
    def test_events_that_are_not_the_requests_are_not_signed(self) -> None:
        for log in (made("gaussian").log[1:], made("gaussian").log * 2, made("laplace").log, ()):
            with pytest.raises(errors.InvalidCertificate, match="nothing was signed"):
                made("gaussian").certify(release_events=log)

    def test_a_charge_below_the_cost_is_not_signed(self) -> None:
        row = certificates.LedgerRow("pop_1", 7, HASH, Rho.parse("0.499999999"))
        with pytest.raises(errors.InvalidCertificate, match="less than the releases cost"):
            made("gaussian").certify(ledger=row)

    def test_a_policy_of_something_else_is_not_signed(self) -> None:
        for other in ("table", "blocks"):
            with pytest.raises(errors.InvalidCertificate):
                made("gaussian").certify(policy=made(other).policy)

    def test_only_counts_can_be_derived_from(self) -> None:
        origin = certificates.Origin("tr_1", made("table").parameters)
        with pytest.raises(errors.InvalidCertificate, match="derived"):
            made("table").certify(derived_from=origin)

    def test_rewards_that_were_never_drawn_cannot_be_used(self) -> None:
        origin = certificates.Origin("tr_1", made("known reward").parameters)
        with pytest.raises(errors.InvalidCertificate, match="no rewards"):
            made("gaussian").certify(derived_from=origin, release_events=made("known reward").log)

    def test_what_could_not_be_verified_is_not_signed(self) -> None:
        unnamed = replace(made("gaussian").policy, labels=("", "treat"))
        with pytest.raises(errors.InvalidCertificate, match="labels"):
            made("gaussian").certify(policy=unnamed)

    def test_names_that_could_pretend_to_be_text_are_not_signed(self) -> None:
        row = certificates.LedgerRow("pop_1\nAll is well.", 7, HASH, Rho.parse("1"))
        with pytest.raises(errors.InvalidCertificate, match="Names"):
            made("gaussian").certify(ledger=row)


def half(ratio: str) -> str:
    value = Fraction(ratio) / 2
    return f"{value.numerator}/{value.denominator}"


def shrink(*path: str) -> Callable[[dict[str, Any]], None]:
    """Halve a number of the first mechanism."""

    def change(payload: dict[str, Any]) -> None:
        inner = payload["mechanisms"][0]
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = half(inner[path[-1]])

    return change


def exchange(payload: dict[str, Any]) -> None:
    request = payload["request"]
    request["algorithm"] = {apvi.NAME: vapvi.NAME, vapvi.NAME: apvi.NAME}[request["algorithm"]]


LIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a smaller noise": (shrink("scale", "value"), "misstates the release of the"),
    "a smaller sensitivity": (shrink("sensitivity", "value"), "misstates the release of the"),
    "a smaller cost of a release": (shrink("rho"), "misstates the release of the"),
    "another resolution": (shrink("resolution"), "misstates the release of the"),
    "another shape": (put("mechanisms", 0, "shape", [7]), "shape"),
    "another part": (put("mechanisms", 0, "part", "first half"), "part"),
    "another norm": (put("mechanisms", 0, "sensitivity", "norm", "sup"), "norm"),
    "an omitted mechanism": (lambda payload: payload["mechanisms"].pop(), "leaves out the release"),
    "no mechanisms": (put("mechanisms", []), "leaves out the release"),
    "mechanisms of another type": (put("mechanisms", {"0": 1}), "no list of mechanisms"),
    "a mechanism of another type": (lambda payload: payload["mechanisms"].append(3), "no list of mechanisms"),
    "a repeated mechanism": (
        lambda payload: payload["mechanisms"].append(payload["mechanisms"][0]),
        "a release that its request does not have",
    ),
    "an added mechanism": (
        lambda payload: payload["mechanisms"].append(payload["mechanisms"][0] | {"statistic": "ages"}),
        "a release that its request does not have",
    ),
    "an unknown field of a mechanism": (put("mechanisms", 0, "note", "x"), "unknown or missing fields"),
    "a smaller total": (put("privacy", "rho", "1/100"), "misstates privacy: rho"),
    "the same total in other words": (put("privacy", "rho", "2/4"), "misstates privacy: rho"),
    "a smaller charge": (put("privacy", "charged_rho", "0.000000001"), "less than the releases cost"),
    "a charge that is no number": (put("privacy", "charged_rho", 1), "plain decimal string"),
    "a smaller further ρ": (put("privacy", "further_rho", "0.1"), "further_rho"),
    "a smaller ε": (put("privacy", "epsilon", 1, "epsilon", "0.100"), "epsilon"),
    "ε at another δ": (put("privacy", "epsilon", 1, "delta", "1e-12"), "epsilon"),
    "fewer ε": (lambda payload: payload["privacy"]["epsilon"].pop(), "epsilon"),
    "a pure ε": (put("privacy", "pure_epsilon", "1/10"), "pure_epsilon"),
    "another budget": (put("request", "privacy", {"rho": "0.25"}), "misstates"),
    "a budget in other words": (put("request", "privacy", {"epsilon": 1, "delta": 1e-6}), "misstates"),
    "no units": (put("request", "units", 0), "number of units"),
    "units in words": (put("request", "units", "sixty"), "number of units"),
    "more units than can be summed": (put("request", "units", 10**14), "number of units"),
    "another horizon": (put("request", "schema", "horizon", 2), ""),
    "one trajectory a unit": (put("request", "schema", "max_trajectories_per_unit", 1), "misstates"),
    "another algorithm": (exchange, "has no key"),
    "no such algorithm": (put("request", "algorithm", "none"), "algorithm must be"),
    "an unknown parameter": (put("request", "parameters", "seed", 3), "'seed'"),
    "a default left out": (lambda payload: payload["request"]["parameters"].pop("delta"), "request: parameters"),
    "another unit of privacy": (put("promise", "unit", "One record."), "misstates promise: unit"),
    "less that is not covered": (put("not_covered", []), "misstates not_covered"),
    "another composition": (put("composition", "The largest counts."), "misstates composition"),
    "a later version": (put("version", 2), "does not know the certificate's version"),
    "no version": (lambda payload: payload.pop("version"), "does not know the certificate's version"),
    "version true": (put("version", True), "does not know the certificate's version"),
    "an unknown field": (put("note", "trust me"), "unknown or missing fields in the payload"),
    "an unknown field inside": (put("policy", "note", "trust me"), "unknown or missing fields in policy"),
    "no ledger row": (put("ledger", None), "lacks something"),
    "a ledger row that is none": (put("ledger", "sequence", "7"), "sequence"),
    "a population of another kind": (put("ledger", "population", None), "Names"),
    "no request": (lambda payload: payload.pop("request"), "lacks something"),
    "a derivation from nothing": (put("derived_from", {}), "lacks something"),
    "another digest": (put("policy", "sha256", "0" * 64), "another policy"),
    "another id": (put("policy", "id", "pol_9"), "another policy"),
}


anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**15), 10**15), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


class TestVerifyRefusesWhatIsFalse:
    """Every certificate here has a valid signature of a listed key."""

    @pytest.mark.parametrize("lie", LIES)
    @EVERY
    def test_a_lie_is_found(self, case: str, lie: str) -> None:
        change, reason = LIES[lie]
        found = refusal(forged(case, change), case)
        if case == "gaussian":  # elsewhere something else may be noticed first
            assert reason in found

    @EVERY
    def test_unchanged_it_verifies_under_the_rogue_key(self, case: str) -> None:
        assert verify(forged(case, lambda payload: None), case).kid == ROGUE.kid

    def test_a_certificate_of_another_policy(self) -> None:
        for case in CASES:
            for other in CASES:
                if case != other:
                    assert "another policy" in refusal(made(other).certificate, case)

    def test_another_policy_under_a_true_request(self) -> None:
        for case, other, reason in (
            ("gaussian", "table", "another algorithm"),
            ("table", "gaussian", "another algorithm"),
            ("bins", "table", "other states"),
            ("bins", "blocks", "other features"),
            ("gaussian", "laplace", "calls its actions otherwise"),
        ):
            policy_facts = {"id": made(other).policy.id, "sha256": made(other).policy.digest()}
            assert reason in refusal(forged(case, put("policy", policy_facts)), other)

    def test_a_derived_release_is_rebuilt_from_its_own_parameters(self) -> None:
        lie = put("derived_from", "parameters", "shares", [1, 1, 1])
        assert "misstates the release" in refusal(forged("derived", lie), "derived")

    def test_a_training_cannot_pass_as_derived(self) -> None:
        def change(payload: dict[str, Any]) -> None:
            payload["privacy"]["further_rho"] = "0"

        assert "further_rho" in refusal(forged("gaussian", change))

    def test_other_units_change_no_cost_and_are_left_to_the_signature(self) -> None:
        """Replacing one patient moves a sum by as much among sixty as among seventy: n is in no mechanism."""
        assert verify(forged("split", put("request", "units", 70)), "split").total_rho == Fraction(1, 2)

    def test_a_changed_decision(self) -> None:
        document = json.loads(made("gaussian").text)
        document["decisions"][0][0] = 1 - document["decisions"][0][0]
        with pytest.raises(errors.InvalidCertificate, match="another policy"):
            certificates.verify(json.dumps(document), json.dumps(made("gaussian").certificate), KEYS)

    def test_what_is_no_policy(self) -> None:
        for text in (b"", b"{}", "null", b"\xff", made("gaussian").text[:-1]):
            with pytest.raises(errors.InvalidCertificate, match="not a policy document"):
                certificates.verify(text, json.dumps(made("gaussian").certificate), KEYS)

    @pytest.mark.parametrize("listed", [[], [{}] * 9999, [{"statistic": "ages"}] * 50_000])
    def test_a_few_bytes_cannot_make_the_reader_work_out_a_long_horizon(
        self, listed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def change(payload: dict[str, Any]) -> None:
            payload["request"]["schema"]["horizon"] = 10_000
            payload["mechanisms"] = listed

        def worked(*_: object) -> Any:
            raise AssertionError("The mechanisms were worked out.")

        certificate = forged("paper", change)
        monkeypatch.setattr(learners, "mechanisms", worked)
        assert refusal(certificate, "paper").startswith(
            ("The certificate leaves out the releases of some steps", "There are unknown or missing fields")
        )

    @EVERY
    def test_what_holds_is_worked_out_once(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        certificate, calls = made(case).certificate, list[Any]()
        mechanisms = learners.mechanisms

        def counted(*given: Any) -> Any:
            calls.append(given)
            return mechanisms(*given)

        monkeypatch.setattr(learners, "mechanisms", counted)
        verify(certificate, case)
        assert len(calls) == 1

    @EVERY
    def test_no_request_has_fewer_mechanisms_than_its_reader_expects_at_least(self, case: str) -> None:
        request, _ = certificates.checked(payload_of(made(case).certificate))
        assert request.fewest <= len(request.mechanisms) <= 5 * (request.fewest + 1)

    def test_a_payload_that_is_not_canonical(self) -> None:
        payload = json.dumps(payload_of(made("gaussian").certificate)).encode()
        assert "canonical" in refusal(signed(payload))

    def test_a_key_that_stands_twice(self) -> None:
        payload = rfc8785.dumps(payload_of(made("gaussian").certificate))
        assert "stands twice" in refusal(signed(payload[:-1] + b',"version":1}'))

    def test_numbers_that_are_none(self) -> None:
        for number in (b"NaN", b"1e999", b"-Infinity", b"9" * 5000):
            assert refusal(signed(b'{"version":' + number + b"}"))

    def test_a_payload_of_great_depth(self) -> None:
        assert refusal(signed(b'{"version":' + b"[" * 100_000 + b"]" * 100_000 + b"}"))
        assert refusal(signed(b'{"version":1,"request":' + b"[" * 900 + b"]" * 900 + b"}"))

    @settings(deadline=None, max_examples=300)
    @given(st.data())
    def test_nothing_else_than_its_refusal_escapes(self, data: st.DataObject) -> None:
        """Put any JSON anywhere: either it is refused, or the mechanisms are the true ones."""
        payload = copy.deepcopy(payload_of(made("split").certificate))
        inner: Any = payload
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            key = data.draw(st.sampled_from(keys))
            if not (isinstance(inner[key], dict | list) and inner[key] and data.draw(st.booleans())):
                break
            inner = inner[key]
        inner[key] = data.draw(anything)
        try:
            body = rfc8785.dumps(payload)
        except ValueError:
            return
        try:
            verified = certificates.verify(made("split").text, json.dumps(signed(body)), KEYS)
        except errors.InvalidCertificate:
            return
        assert verified.payload["mechanisms"] == payload_of(made("split").certificate)["mechanisms"]


class TestExplain:
    @EVERY
    def test_it_is_one_page(self, case: str) -> None:
        page = certificate_page.explain(json.dumps(made(case).certificate), KEYS)
        lines = page.splitlines()
        assert len(lines) <= 60
        assert max(map(len, lines)) <= 100
        for words in ("60 patients", "pop_1", "standard deviation", "δ = 1e-6", "What is not covered", KEY.kid, HASH):
            assert words in " ".join(page.split())

    def test_a_long_horizon_is_still_one_page(self) -> None:
        features = maps.Blocks(PLANE, 2, ("1", "y", "x"))
        schema = Schema(200, PLANE, 2)
        asked = vapvi.Parameters(features, variance="estimated", split=True)
        log = tuple(vapvi.mechanisms(schema, 1000, RHO, asked))
        short = made("blocks").policy.rule
        assert isinstance(short, policy.Linear)
        rule = policy.Linear(features, short.scores[:1] * 200, schema.low, schema.width)
        long = Made(Policy(vapvi.NAME, 200, PLANE, 2, rule), schema, 1000, RHO, asked, log)
        assert len(certificate_page.explain(json.dumps(long.certificate)).splitlines()) <= 60

    def test_an_evaluation_is_one_page_too(self) -> None:
        assert len(certificate_page.explain(judged()[1], KEYS).splitlines()) <= 60

    def test_the_noise_stands_beside_what_one_patient_can_change(self) -> None:
        """Variance 72 and squared sensitivity 24, as the certificate has it."""
        page = " ".join(certificate_page.explain(json.dumps(made("gaussian").certificate)).split())
        assert "Gaussian noise of standard deviation 8.49; one patient moves at most 4.9; ρ = 0.167." in page
        assert "Standard deviations are in the unit of these numbers" in page
        pure = " ".join(certificate_page.explain(json.dumps(made("laplace").certificate)).split())
        event = next(iter(made("laplace").log))
        assert f"one patient moves at most {float(event.sensitivity):.3g}." in pure
        assert "with Laplace noise the sum" in pure
        assert "Laplace" not in page.replace(certificates.COMPOSITION, "")

    @EVERY
    def test_features_are_explained_where_they_are_spoken_of_and_nowhere_else(self, case: str) -> None:
        page = " ".join(certificate_page.explain(json.dumps(made(case).certificate)).split())
        spoken = any("feature" in event.statistic for event in made(case).log)
        assert ("Features are numbers that a public formula" in page) == spoken

    def test_one_trajectory_is_singular(self) -> None:
        asked = apvi.Parameters()
        for per_unit, words in (
            (1, "at most one recorded trajectory each."),
            (2, "at most 2 recorded trajectories each."),
        ):
            schema = replace(made("gaussian").schema, per_unit=per_unit)
            log = tuple(apvi.mechanisms(schema, 60, RHO, asked))
            page = certificate_page.explain(
                json.dumps(replace(made("gaussian"), schema=schema, parameters=asked, log=log).certificate)
            )
            assert words in " ".join(page.split())

    @pytest.mark.parametrize(("units", "few"), [(20, True), (5000, False)])
    def test_where_only_the_usual_was_asked_for_the_page_says_so_beside_the_reason(self, units: int, few: bool) -> None:
        """The reason of `auto` speaks of advantages, which are not estimated for so few."""
        schema = Schema(3, Discrete(300), 4)
        chosen = auto.choose(schema, units, RHO, {})
        asked = learners.resolved(schema, units, RHO, forms.read(chosen.algorithm, chosen.parameters, schema))
        log = tuple(learners.mechanisms(chosen.algorithm, schema, units, RHO, asked))
        nothing = np.zeros((3, 300))
        rule = policy.of_table(chosen.algorithm, schema, nothing.astype(np.int64), nothing > 0, nothing)
        certificate = Made(rule, schema, units, RHO, asked, log).certify(chosen=chosen)
        page = " ".join(certificate_page.explain(json.dumps(certificate)).split())
        assert "so dp-pae is taken" in page
        assert ("every decision is a fallback" in page) == few

    def test_without_keys_it_says_that_nobody_checked(self) -> None:
        assert "signature was not checked" in certificate_page.explain(json.dumps(made("gaussian").certificate))

    def test_it_does_not_explain_a_lie(self) -> None:
        for change, _ in (LIES["an omitted mechanism"], LIES["a smaller ε"]):
            with pytest.raises(errors.InvalidCertificate):
                certificate_page.explain(json.dumps(forged("gaussian", change)))

    def test_an_evaluation_is_called_an_estimate_and_not_a_policy(self) -> None:
        page = " ".join(certificate_page.explain(judged()[1], KEYS).split())
        for words in ("An estimate (ev_1)", "whatever is done with this estimate", "verify REPORT CERTIFICATE"):
            assert words in page
        assert "this policy" not in page
        assert "from the policy" not in page
        policy_page = " ".join(certificate_page.explain(json.dumps(made("gaussian").certificate)).split())
        assert "whatever is done with this policy" in policy_page
        assert "verify POLICY CERTIFICATE" in policy_page

    def test_a_derived_policy_names_its_release(self) -> None:
        page = " ".join(certificate_page.explain(json.dumps(made("derived").certificate)).split())
        assert "training tr_1" in page
        assert "further ρ: 0" in page


class TestFindings:
    def test_a_report_is_read_out(self) -> None:
        written, _ = judged()
        found, text = written.found, certificate_page.findings(written)
        page = " ".join(text.split())
        assert max(map(len, text.splitlines())) <= 100
        for words in (
            f"The policy {made('gaussian').policy.id}, whose SHA-256 digest is {made('gaussian').policy.digest()}",
            f"Value: {found['value']:.6g},",
            f"Interval: {found['low']:.6g} to {found['high']:.6g}, at level 0.9.",
            f"supported_share: {found['supported_share']:.4g}.",
            "Train on one half and judge on the other.",
        ):
            assert words in page

    @pytest.mark.parametrize("found", [{}, {"value": "1"}, [], None, {"value": None}])
    def test_a_report_that_says_something_else_is_refused(self, found: Any) -> None:
        with pytest.raises(errors.InvalidCertificate, match="lacks a number"):
            certificate_page.findings(replace(judged()[0], found=found))
