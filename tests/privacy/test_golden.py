"""ρ to (ε, δ) and back, against golden values, a 70-digit optimum, OpenDP, Google's accountant and a real mechanism."""

import decimal
import functools
import math
from fractions import Fraction

import dp_accounting
import mpmath
import opendp.prelude as opendp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.privacy import rho
from discretion.privacy.rho import MOST, NANO, Rho

GOLDEN = {
    ("0.01", "1e-5"): "0.546",
    ("0.01", "1e-6"): "0.622",
    ("0.01", "1e-9"): "0.810",
    ("0.1", "1e-5"): "1.914",
    ("0.1", "1e-6"): "2.142",
    ("0.1", "1e-9"): "2.715",
    ("0.5", "1e-5"): "4.728",
    ("0.5", "1e-6"): "5.222",
    ("0.5", "1e-9"): "6.474",
    ("1", "1e-5"): "7.077",
    ("1", "1e-6"): "7.766",
    ("1", "1e-9"): "9.521",
    ("5", "1e-5"): "19.047",
    ("5", "1e-6"): "20.552",
    ("5", "1e-9"): "24.406",
}
RHOS = (1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0, 5.0, 50.0, 1e3, 1e6)
DELTAS = (0.5, 0.1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-100, 1e-300)
EDGE = [(r, d) for r in RHOS for d in DELTAS]

# Even in the logarithm: an even draw would almost never be small.
rhos = st.floats(-9, 6).map(lambda power: Fraction(10**power))
deltas = st.floats(-300, math.log10(0.5)).map(lambda power: Fraction(10**power))
slow = settings(deadline=None, max_examples=100)


@functools.cache
def optimum(cost: Fraction, delta: Fraction) -> mpmath.mpf:
    """The formula as printed, minimised by golden section in ln(α−1) without any derivative."""
    with mpmath.workdps(70):
        r, d = (mpmath.mpf(x.numerator) / x.denominator for x in (cost, delta))

        def bound(log_beta: mpmath.mpf) -> mpmath.mpf:
            b = mpmath.exp(log_beta)
            a = 1 + b
            return a * r + (a * mpmath.log(1 - 1 / a) - mpmath.log(b) - mpmath.log(d)) / b

        low, high, ratio = mpmath.mpf(-20), mpmath.mpf(20), (mpmath.sqrt(5) - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = bound(left), bound(right)
        for _ in range(120):
            if at_left < at_right:
                high, right, at_right = right, left, at_left
                left = high - ratio * (high - low)
                at_left = bound(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + ratio * (high - low)
                at_right = bound(right)
        return max(mpmath.mpf(0), at_left)


def opendp_epsilon(cost: float, delta: float) -> float:
    """OpenDP's conversion of a measurement that claims ρ-zCDP: the same Prop. 12, rounded up in floats."""
    opendp.enable_features("contrib", "honest-but-curious")
    claim = opendp.m.make_user_measurement(
        opendp.atom_domain(T=bool),
        opendp.discrete_distance(),
        opendp.zero_concentrated_divergence(),
        lambda _: 0,
        lambda _: cost,
    )
    bound: float = opendp.c.make_fix_delta(opendp.c.make_zCDP_to_approxDP(claim), delta).map(1)[0]
    return bound


def google_epsilon(cost: float, delta: float) -> float:
    """Google's accountant as users call it: Prop. 12 on a fixed grid of orders, so looser between them."""
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(cost))
    return float(accountant.get_epsilon(delta))


def google_epsilon_on_a_fine_grid(cost: float, delta: float) -> float:
    """The same function of Google's on 4,000 orders around the heart of the classical bound."""
    centre = math.sqrt(math.log(1 / delta) / cost)
    orders = [1 + centre * 10 ** (-2 + 2.5 * i / 4000) for i in range(4001)]
    return float(dp_accounting.rdp.compute_epsilon(orders, [cost * a for a in orders], delta)[0])


def gaussian_delta(cost: Fraction, bound: float) -> mpmath.mpf:
    """The exact δ of the Gaussian mechanism that is ρ-zCDP (Balle and Wang 2018, Theorem 8)."""
    with mpmath.workdps(60):
        mu = mpmath.sqrt(2 * mpmath.mpf(cost.numerator) / cost.denominator)
        e = mpmath.mpf(bound)
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


class TestEpsilon:
    @pytest.mark.parametrize(("pair", "golden"), GOLDEN.items(), ids=lambda x: " ".join(x) if len(x) == 2 else None)
    def test_the_golden_values_of_the_design_hold(self, pair: tuple[str, str], golden: str) -> None:
        bound = rho.epsilon(Fraction(pair[0]), Fraction(pair[1]))
        assert abs(bound - float(golden)) < 1e-3
        assert round(bound, 3) == float(golden)

    @pytest.mark.parametrize(("cost", "delta"), [*EDGE, *GOLDEN])
    def test_it_is_the_float_just_above_the_optimum(self, cost: float | str, delta: float | str) -> None:
        bound, best = rho.epsilon(Fraction(cost), Fraction(delta)), optimum(Fraction(cost), Fraction(delta))
        # Twice the unit in the last place is far inside the 1e-9 that would be enough.
        assert best <= bound <= best * (1 + mpmath.mpf(2) ** -51)

    @slow
    @given(rhos, deltas)
    def test_it_is_so_everywhere(self, cost: Fraction, delta: Fraction) -> None:
        bound, best = rho.epsilon(cost, delta), optimum(cost, delta)
        assert best <= bound <= best * (1 + mpmath.mpf(2) ** -51)

    @pytest.mark.parametrize(("cost", "delta"), [(r, d) for r, d in EDGE if r <= 1e3])
    def test_opendp_agrees_and_is_never_below(self, cost: float, delta: float) -> None:
        # At a million ρ OpenDP's exponential overflows and it gives no answer.
        bound, theirs = rho.epsilon(Fraction(cost), Fraction(delta)), opendp_epsilon(cost, delta)
        assert bound <= theirs <= bound * (1 + 1e-13)

    @pytest.mark.parametrize(("cost", "delta"), EDGE)
    def test_googles_accountant_is_never_tighter(self, cost: float, delta: float) -> None:
        # Its second conversion (Bretagnolle and Huber) only ever answers ε = 0, and here only where ours does.
        bound, theirs = rho.epsilon(Fraction(cost), Fraction(delta)), google_epsilon(cost, delta)
        assert bound <= theirs * (1 + 1e-14)

    @pytest.mark.parametrize(("cost", "delta"), [(r, d) for r, d in EDGE if 0.01 <= r <= 50 and 1e-12 <= d <= 1e-3])
    def test_googles_grid_is_looser_by_little_where_it_is_dense(self, cost: float, delta: float) -> None:
        assert google_epsilon(cost, delta) <= rho.epsilon(Fraction(cost), Fraction(delta)) * (1 + 3e-3)

    @pytest.mark.parametrize(("cost", "delta"), [(r, d) for r, d in EDGE if r <= 50])
    def test_googles_formula_agrees_on_a_fine_grid(self, cost: float, delta: float) -> None:
        # Orders up to 1.01 are left out by Google for want of stability; up to ρ = 50 the best order is above that.
        bound, theirs = rho.epsilon(Fraction(cost), Fraction(delta)), google_epsilon_on_a_fine_grid(cost, delta)
        assert bound * (1 - 1e-13) <= theirs <= bound * (1 + 1e-5)

    @slow
    @given(rhos.filter(lambda r: r <= 1000), deltas.filter(lambda d: d >= Fraction("1e-30")))
    def test_the_gaussian_mechanism_keeps_the_promise(self, cost: Fraction, delta: Fraction) -> None:
        # A lower bound by a real mechanism that no conversion can beat, whatever its derivation.
        assert gaussian_delta(cost, rho.epsilon(cost, delta)) <= mpmath.mpf(delta.numerator) / delta.denominator

    @slow
    @given(rhos, rhos, deltas)
    def test_more_rho_never_means_less_epsilon(self, a: Fraction, b: Fraction, delta: Fraction) -> None:
        low, high = sorted((a, b))
        assert rho.epsilon(low, delta) <= rho.epsilon(high, delta)

    @slow
    @given(rhos, deltas, deltas)
    def test_a_larger_delta_never_means_more_epsilon(self, cost: Fraction, a: Fraction, b: Fraction) -> None:
        low, high = sorted((a, b))
        assert rho.epsilon(cost, low) >= rho.epsilon(cost, high)

    @slow
    @given(rhos, deltas)
    def test_it_beats_the_classical_conversion(self, cost: Fraction, delta: Fraction) -> None:
        classical = float(cost) + 2 * math.sqrt(float(cost) * math.log(1 / float(delta)))
        assert rho.epsilon(cost, delta) < classical

    def test_nothing_spent_is_nothing_lost(self) -> None:
        assert rho.epsilon(Fraction(0), Fraction("1e-6")) == 0.0

    @pytest.mark.parametrize("cost", ["1e-400", "1e-30", "1e30", "1e200"])
    @pytest.mark.parametrize("delta", ["1e-999", "0." + "9" * 100])
    def test_numbers_beyond_floats_still_get_an_answer(self, cost: str, delta: str) -> None:
        assert 0 <= rho.epsilon(Fraction(cost), Fraction(delta)) < math.inf

    def test_the_callers_decimal_context_changes_nothing(self) -> None:
        expected = rho.epsilon(Fraction(1, 3), Fraction("1e-6"))
        with decimal.localcontext(prec=3, rounding=decimal.ROUND_DOWN, Emax=5, Emin=-5):
            assert rho.epsilon(Fraction(1, 3), Fraction("1e-6")) == expected

    @pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(2), Fraction(-1, 10), 1e-6, math.nan, "1e-6"])
    def test_a_delta_that_is_no_exact_probability_is_refused(self, delta: Fraction) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="δ"):
            rho.epsilon(Fraction(1), delta)

    @pytest.mark.parametrize("cost", [Fraction(-1), 0.5, math.inf, True, "0.5", Rho(1)], ids=repr)
    def test_a_rho_that_is_no_exact_amount_is_refused(self, cost: Fraction) -> None:
        with pytest.raises(errors.InvalidRho):
            rho.epsilon(cost, Fraction("1e-6"))


class TestLargestRho:
    few = settings(deadline=None, max_examples=60)
    epsilons = st.floats(-3, 4).map(lambda power: Fraction(10**power))
    # Below this δ the smallest ε above needs less than a nano-ρ.
    chances = st.floats(-12, math.log10(0.5)).map(lambda power: Fraction(10**power))

    @few
    @given(epsilons, chances)
    def test_it_keeps_the_promise_and_one_nano_more_would_not(self, bound: Fraction, delta: Fraction) -> None:
        granted = rho.largest_rho(bound, delta)
        assert rho.epsilon(granted.exact, delta) <= bound < rho.epsilon((granted + Rho(1)).exact, delta)

    @few
    @given(epsilons, chances)
    def test_one_nano_more_would_break_it_by_the_true_optimum_too(self, bound: Fraction, delta: Fraction) -> None:
        # The slack is that of rounding ε up to a float: two units in the last place.
        more = rho.largest_rho(bound, delta) + Rho(1)
        assert optimum(more.exact, delta) * (1 + mpmath.mpf(2) ** -51) > mpmath.mpf(bound.numerator) / bound.denominator

    @few
    @given(st.integers(1, MOST), chances)
    def test_what_a_rho_implies_gives_that_rho_back(self, nano: int, delta: Fraction) -> None:
        implied = Fraction(rho.epsilon(Fraction(nano, NANO), delta))
        if implied > 0:
            assert rho.largest_rho(implied, delta) == Rho(nano)

    def test_the_largest_budget_can_be_stated(self) -> None:
        assert rho.largest_rho(Fraction(rho.epsilon(Fraction(10**6), Fraction("1e-6"))), Fraction("1e-6")) == Rho(MOST)

    @pytest.mark.parametrize(("pair", "golden"), GOLDEN.items(), ids=lambda x: " ".join(x) if len(x) == 2 else None)
    def test_the_golden_values_lead_back_to_their_rho(self, pair: tuple[str, str], golden: str) -> None:
        granted = rho.largest_rho(Fraction(golden), Fraction(pair[1]))
        assert float(granted.exact) == pytest.approx(float(pair[0]), rel=3e-3)

    @pytest.mark.parametrize(
        "bound", [Fraction(0), Fraction(-1), 1.0, math.inf, -math.inf, math.nan, True, "1"], ids=repr
    )
    def test_an_epsilon_that_is_no_exact_positive_number_is_refused(self, bound: Fraction) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="ε"):
            rho.largest_rho(bound, Fraction("1e-6"))

    @pytest.mark.parametrize(
        "delta", [Fraction(0), Fraction(1), Fraction(-1), Fraction(3, 2), 1e-6, math.nan], ids=repr
    )
    def test_a_delta_that_is_no_exact_probability_is_refused(self, delta: Fraction) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="δ"):
            rho.largest_rho(Fraction(1), delta)

    def test_less_than_one_nano_is_refused(self) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="less than one nano-ρ"):
            rho.largest_rho(Fraction("1e-6"), Fraction("1e-12"))

    def test_more_than_a_budget_may_hold_is_refused(self) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="more than a million ρ"):
            rho.largest_rho(Fraction(10**300), Fraction("1e-6"))
