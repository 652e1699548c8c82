"""Exact amounts of ρ: reading, writing, adding, rounding, and the pure ε they stand for."""

import decimal
import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.privacy import rho
from discretion.privacy.rho import MOST, NANO, Rho

Operation = Callable[[object, object], object]
untimed = settings(deadline=None)
amounts = st.integers(0, MOST).map(Rho)
fractions = st.fractions(0, 1000, max_denominator=10**30)


class TestRho:
    @pytest.mark.parametrize("nano", [-1, True, False, 1.0, "1", None, Fraction(1), numpy.int64(1)], ids=repr)
    def test_only_a_whole_number_that_is_not_negative_is_an_amount(self, nano: int) -> None:
        with pytest.raises(errors.InvalidRho, match="whole number of nano-ρ"):
            Rho(nano)

    def test_it_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Rho(1).nano = 2  # type: ignore[misc]

    @untimed
    @given(amounts, amounts)
    def test_it_is_ordered_and_equal_as_its_exact_value_is(self, a: Rho, b: Rho) -> None:
        assert (a < b, a == b) == (a.exact < b.exact, a.exact == b.exact)

    @untimed
    @given(amounts, amounts)
    def test_adding_and_taking_away_are_exact(self, a: Rho, b: Rho) -> None:
        assert (a + b).exact == a.exact + b.exact
        assert a + b - b == a

    @untimed
    @given(amounts, amounts.filter(lambda r: r.nano > 0))
    def test_taking_more_than_is_there_is_refused(self, a: Rho, b: Rho) -> None:
        with pytest.raises(errors.InvalidRho, match="at most"):
            a - (a + b)

    @pytest.mark.parametrize("operate", [operator.add, operator.sub, operator.lt, operator.ge])
    @pytest.mark.parametrize("other", [0, 1, 0.5, Fraction(1, 2), "0.5"], ids=repr)
    def test_it_does_not_mix_with_other_numbers(self, operate: Operation, other: object) -> None:
        with pytest.raises(TypeError):
            operate(Rho(NANO), other)
        with pytest.raises(TypeError):
            operate(other, Rho(NANO))

    def test_a_tenth_and_two_tenths_are_three_tenths(self) -> None:
        assert Rho.parse("0.1") + Rho.parse("0.2") == Rho.parse("0.3")


class TestParse:
    @pytest.mark.parametrize(
        ("text", "nano"),
        [
            ("0.5", NANO // 2),
            ("1", NANO),
            ("1.0", NANO),
            ("0.50", NANO // 2),
            ("0.000000001", 1),
            ("0.123456789", 123456789),
            ("10", 10 * NANO),
            ("1000000", MOST),
            ("1000000.000000000", MOST),
            ("999999.999999999", MOST - 1),
        ],
    )
    def test_a_plain_decimal_is_read_exactly(self, text: str, nano: int) -> None:
        assert Rho.parse(text) == Rho(nano)

    NOT_STRINGS = (None, 1, 0.5, True, b"0.5", ["0.5"], decimal.Decimal("0.5"), Fraction(1, 2), float("nan"))
    NOT_NUMBERS = (
        "",
        "rho",
        "nan",
        "NaN",
        "sNaN",
        "inf",
        "-inf",
        "Infinity",
        "0x1",
        "1/2",
        "0.5.0",
        ".",
        "\u00bd",
        "\U0001d7d9",
    )
    NOT_POSITIVE = ("0", "0.0", "0.000000000", "-0", "-0.0", "-1", "-0.5", "+0.5", "+1", "\u22121")
    NOT_PLAIN = ("1e0", "1E-3", "5e-1", "1_000", "1,5", "1'000", "0.5ρ", ".5", "5.", "00.5", "01", "1\x00", "1 000")
    NOT_TRIMMED = (" 0.5", "0.5 ", "\t0.5", "0.5\n", "\n", " ", "\u00a00.5", "0.5\u200b", "\ufeff0.5", "0 .5")
    NOT_ASCII = ("\u0660.\u0665", "\u0966.\u096b", "\uff10.\uff15", "1\u0662", "0\uff0e5", "\u00b2", "\u2460")
    TOO_FINE = ("0.0000000001", "0.1234567891", "1.0000000000", "0." + "0" * 400 + "1")
    TOO_MUCH = ("1000000.000000001", "1000001", "9999999", "10000000", "1" + "0" * 30, "9" * 5000, "0" * 5000)

    @pytest.mark.parametrize(
        "text",
        [*NOT_STRINGS, *NOT_NUMBERS, *NOT_POSITIVE, *NOT_PLAIN, *NOT_TRIMMED, *NOT_ASCII, *TOO_FINE, *TOO_MUCH],
        ids=lambda text: ascii(text)[:20],
    )
    def test_anything_else_is_refused_with_an_example(self, text: str) -> None:
        with pytest.raises(errors.InvalidRho, match=r'for example "0\.5"'):
            Rho.parse(text)

    @untimed
    @given(st.text(alphabet="0123456789.eE+-_ n\u0663", max_size=24))
    def test_whatever_is_accepted_is_the_decimal_it_looks_like(self, text: str) -> None:
        try:
            amount = Rho.parse(text)
        except errors.InvalidRho:
            return
        assert amount.exact == Fraction(text)
        assert set(text) <= set("0123456789.")
        assert 0 < amount.nano <= MOST


class TestStr:
    @pytest.mark.parametrize(
        ("nano", "text"),
        [(0, "0"), (1, "0.000000001"), (NANO // 2, "0.5"), (NANO, "1"), (10 * NANO, "10"), (MOST, "1000000")],
    )
    def test_it_is_the_shortest_decimal(self, nano: int, text: str) -> None:
        assert str(Rho(nano)) == text

    @untimed
    @given(st.integers(1, MOST).map(Rho))
    def test_it_reads_back_as_the_same_amount(self, amount: Rho) -> None:
        assert Rho.parse(str(amount)) == amount

    @untimed
    @given(amounts)
    def test_no_digit_is_superfluous(self, amount: Rho) -> None:
        text = str(amount)
        assert "." not in text or not text.endswith(("0", "."))


class TestCeilingAndFloor:
    @untimed
    @given(fractions)
    def test_a_charge_covers_its_cost_by_less_than_a_nano(self, value: Fraction) -> None:
        assert 0 <= Rho.ceiling(value).exact - value < Fraction(1, NANO)

    @untimed
    @given(fractions)
    def test_a_remainder_never_exceeds_what_is_left_by_less_than_a_nano(self, value: Fraction) -> None:
        assert 0 <= value - Rho.floor(value).exact < Fraction(1, NANO)

    @untimed
    @given(amounts)
    def test_an_exact_amount_is_not_moved(self, amount: Rho) -> None:
        assert Rho.ceiling(amount.exact) == Rho.floor(amount.exact) == amount

    def test_the_smallest_cost_is_still_charged(self) -> None:
        assert Rho.ceiling(Fraction(1, 10**100)) == Rho(1)
        assert Rho.floor(Fraction(1, 10**100)) == Rho(0)

    @pytest.mark.parametrize(
        "value", [Fraction(-1, 10**10), Fraction(-1), 0.5, math.nan, math.inf, True, "1"], ids=repr
    )
    def test_negative_and_inexact_values_are_refused(self, value: Fraction) -> None:
        for rounding in (Rho.ceiling, Rho.floor):
            with pytest.raises(errors.InvalidRho, match="exact fraction"):
                rounding(value)

    def test_the_integers_of_numpy_do_not_wrap_around(self) -> None:
        value = Fraction(numpy.int64(10**11), numpy.int64(3))  # type: ignore[call-overload]
        assert Rho.ceiling(value).nano == -(-(10**20) // 3)


class TestTotal:
    @untimed
    @given(st.lists(amounts))
    def test_amounts_add_up_exactly(self, some: list[Rho]) -> None:
        assert rho.total(some).exact == sum(amount.exact for amount in some)

    def test_nothing_adds_up_to_zero(self) -> None:
        assert rho.total([]) == Rho(0)


class TestExact:
    @pytest.mark.parametrize(
        ("value", "fraction"),
        [
            (1, Fraction(1)),
            (0.1, Fraction(1, 10)),
            (1e-6, Fraction(1, 10**6)),
            (5e-324, Fraction(5, 10**324)),
            (1e22, Fraction(10**22)),
            (numpy.float64(0.1), Fraction(1, 10)),
            ("0.1", Fraction(1, 10)),
            ("1e-6", Fraction(1, 10**6)),
            ("1E+2", Fraction(100)),
            ("-3", Fraction(-3)),
            (10**400, Fraction(10**400)),
        ],
        ids=str,
    )
    def test_a_number_is_what_was_written(self, value: object, fraction: Fraction) -> None:
        assert rho.exact(value, "ε") == fraction

    NUMBERS = (math.nan, math.inf, -math.inf, True, False, None, 1j, decimal.Decimal(1), numpy.int64(1), numpy.True_)
    TEXTS = (
        "",
        "nan",
        "inf",
        "-Infinity",
        "1/3",
        " 1",
        "1\n",
        "1_0",
        "\u0661",
        "0x1",
        ".5",
        "5.",
        "+1",
        "--1",
        "1e",
        b"1",
    )
    BOMBS = ("1e999999999", "1e-999999999", "1e1000", "9" * 41, "0." + "1" * 41, "1" * 10**6)

    @pytest.mark.parametrize("value", [*NUMBERS, *TEXTS, *BOMBS], ids=lambda value: ascii(value)[:20])
    def test_anything_else_is_refused_by_name(self, value: object) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="Give delta as a finite decimal"):
            rho.exact(value, "delta")

    @untimed
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_a_float_reads_back_as_itself(self, value: float) -> None:
        assert float(rho.exact(value, "ε")) == value


class TestPure:
    @untimed
    @given(fractions)
    def test_a_pure_loss_costs_half_its_square_exactly(self, bound: Fraction) -> None:
        assert rho.of_pure(bound) * 2 == bound * bound

    @pytest.mark.parametrize("bound", [Fraction(-1), 1.0, math.inf, math.nan, True, "1"], ids=repr)
    def test_a_loss_that_is_no_exact_amount_is_refused(self, bound: Fraction) -> None:
        with pytest.raises(errors.InvalidPrivacy, match="ε"):
            rho.of_pure(bound)

    @untimed
    @given(fractions)
    def test_the_pure_loss_of_a_rho_is_the_largest_on_its_grid(self, cost: Fraction) -> None:
        bound = rho.pure_of(cost)
        assert (bound * NANO).denominator == 1
        assert rho.of_pure(bound) <= cost < rho.of_pure(bound + Fraction(1, NANO))

    @untimed
    @given(st.integers(0, 10**18).map(lambda n: Fraction(n, NANO)))
    def test_a_pure_loss_on_the_grid_comes_back_exactly(self, bound: Fraction) -> None:
        assert rho.pure_of(rho.of_pure(bound)) == bound

    def test_known_values(self) -> None:
        assert rho.of_pure(Fraction(1)) == Fraction(1, 2)
        assert rho.pure_of(Fraction(2)) == 2
        assert rho.pure_of(Fraction(1)) == Fraction(1414213562, NANO)
        assert rho.pure_of(Fraction(0)) == 0

    @pytest.mark.parametrize("cost", [Fraction(-1), 0.5, math.nan, True], ids=repr)
    def test_a_rho_that_is_no_exact_amount_is_refused(self, cost: Fraction) -> None:
        with pytest.raises(errors.InvalidRho):
            rho.pure_of(cost)
