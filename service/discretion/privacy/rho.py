"""How much privacy: exact amounts of ρ (zero-concentrated differential privacy), and what they mean as (ε, δ).

A ρ is a decimal string at the edge and an integer number of nano-ρ everywhere else, so that sums never drift.
Whatever must be rounded is rounded against the spender: charges and shown ε up, what remains or is granted down.
"""

import bisect
import decimal
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from discretion import errors

NANO = 10**9
# Thousands of amounts of this size still add up within a signed 64-bit column.
MOST = 10**6 * NANO

_PLAIN_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,6})(?:\.([0-9]{1,9}))?")
# Three digits of exponent keep "1e-999999999" from becoming a number of a gigabyte.
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")

# Exponents without limit in practice: nothing overflows, and an underflow still rounds the stated way.
_UP, _DOWN, _SEARCH = (
    decimal.Context(prec=prec, rounding=rounding, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    for prec, rounding in ((60, decimal.ROUND_CEILING), (60, decimal.ROUND_FLOOR), (20, decimal.ROUND_HALF_EVEN))
)
_ONE = Decimal(1)


@dataclass(frozen=True, order=True, slots=True)
class Rho:
    """An exact, non-negative amount of ρ."""

    nano: int

    def __post_init__(self) -> None:
        # The type itself and not isinstance: a bool or a numpy integer would wrap or lie in later sums.
        if type(self.nano) is not int or self.nano < 0:
            raise errors.InvalidRho("Give ρ as a whole number of nano-ρ that is not negative.")

    @classmethod
    def parse(cls, text: str) -> "Rho":
        """Read the decimal string of a request, which is always more than zero."""
        match = _PLAIN_DECIMAL.fullmatch(text) if isinstance(text, str) else None
        nano = int(match[1]) * NANO + int((match[2] or "").ljust(9, "0")) if match else 0
        if not 0 < nano <= MOST:
            raise errors.InvalidRho(
                'Write ρ as a plain decimal string from "0.000000001" to "1000000" with at most nine decimals, '
                'for example "0.5".'
            )
        return cls(nano)

    @classmethod
    def ceiling(cls, value: Fraction) -> "Rho":
        """The smallest amount that covers `value`: for charges."""
        return cls(math.ceil(_amount(value) * NANO))

    @classmethod
    def floor(cls, value: Fraction) -> "Rho":
        """The largest amount within `value`: for what remains."""
        return cls(math.floor(_amount(value) * NANO))

    @property
    def exact(self) -> Fraction:
        return Fraction(self.nano, NANO)

    def __add__(self, other: "Rho") -> "Rho":
        if not isinstance(other, Rho):
            return NotImplemented
        return Rho(self.nano + other.nano)

    def __sub__(self, other: "Rho") -> "Rho":
        if not isinstance(other, Rho):
            return NotImplemented
        if other.nano > self.nano:
            raise errors.InvalidRho(f"Take at most the ρ that is there: {self} is less than {other}.")
        return Rho(self.nano - other.nano)

    def __str__(self) -> str:
        whole, part = divmod(self.nano, NANO)
        return f"{whole}.{part:09d}".rstrip("0").rstrip(".")


def total(amounts: Iterable[Rho]) -> Rho:
    """Composition: adaptively chosen ρ's add up. The built-in sum() would make an empty total the integer 0."""
    return Rho(sum(amount.nano for amount in amounts))


def exact(value: object, name: str) -> Fraction:
    """The number a person wrote, from JSON (int, float) or a decimal string: 0.1 is one tenth."""
    if type(value) is int:
        return Fraction(value)
    # The shortest text that reads back as this float is what was written, the binary value is not.
    text = float.__repr__(value) if isinstance(value, float) else value
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise errors.InvalidPrivacy(f"Give {name} as a finite decimal number, for example 0.5 or 1e-6.")
    return Fraction(text)


def epsilon(rho: Fraction, delta: Fraction) -> float:
    """The smallest ε such that ρ-zCDP is known to imply (ε, δ), rounded up.

    Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), Prop. 12 in v4: for every α > 1,
    ε(α) = αρ + (α ln(1−1/α) − ln(α−1) − ln δ)/(α−1). The best α is taken, and never less than ε = 0.
    """
    return _epsilon(_amount(rho), _probability(delta))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Rho:
    """The largest ρ that implies (ε, δ) by the conversion above, rounded down."""
    bound, chance = _loss(epsilon), _probability(delta)
    if bound == 0:
        raise errors.InvalidPrivacy("Choose a finite ε above zero and give it exactly, for example 1.")
    # Each nano-ρ raises ε by at least 1e-9 once it is above zero, far more than rounding does: the grid is sorted.
    grid = range(1, MOST + 2)
    nano = bisect.bisect_right(grid, bound, key=lambda n: Fraction(_epsilon(Fraction(n, NANO), chance)))
    if nano == 0:
        raise errors.InvalidPrivacy("Choose a larger ε or δ: this pair allows less than one nano-ρ.")
    if nano > MOST:
        raise errors.InvalidPrivacy("Choose a smaller ε or δ: this pair allows more than a million ρ.")
    return Rho(nano)


def of_pure(epsilon: Fraction) -> Fraction:
    """What a purely ε-private mechanism costs in ρ: ε²/2 (Bun and Steinke 2016, Prop. 1.4)."""
    return _loss(epsilon) ** 2 / 2


def pure_of(rho: Fraction) -> Fraction:
    """The largest ε, in steps of 1e-9, at which a purely private mechanism costs at most ρ."""
    return Fraction(math.isqrt(math.floor(2 * NANO**2 * _amount(rho))), NANO)


def _rational(value: object) -> Fraction | None:
    """With Python's own integers inside, for those of numpy wrap around. A float's low bits are nobody's intention."""
    if isinstance(value, bool) or not isinstance(value, Rational):
        return None
    return Fraction(int(value.numerator), int(value.denominator))


def _amount(rho: Fraction) -> Fraction:
    value = _rational(rho)
    if value is None or value < 0:
        raise errors.InvalidRho("Give ρ as an exact fraction that is not negative.")
    return value


def _loss(epsilon: Fraction) -> Fraction:
    value = _rational(epsilon)
    if value is None or value < 0:
        raise errors.InvalidPrivacy("Choose a finite ε above zero and give it exactly, for example 1.")
    return value


def _probability(delta: Fraction) -> Fraction:
    value = _rational(delta)
    if value is None or not 0 < value < 1:
        raise errors.InvalidPrivacy("Choose a δ above zero and below one and give it exactly, for example 1e-6.")
    return value


def _epsilon(rho: Fraction, delta: Fraction) -> float:
    """Any α gives a true bound, so the search for it may be rough; the bound at that α is rounded up throughout.

    With β = α − 1, ε(α) = (1+β)ρ + (ln(1/δ) − ln(1+β))/β − ln(1+1/β), which does not cancel for large or small α.
    """
    if rho == 0:
        return 0.0
    cost = _UP.divide(Decimal(rho.numerator), Decimal(rho.denominator))
    # ln rounds to nearest in every context, so one step further is needed for a bound.
    log_inverse_delta = _UP.next_plus(_UP.ln(_UP.divide(Decimal(delta.denominator), Decimal(delta.numerator))))
    beta = _best_beta(cost, log_inverse_delta)
    divergence = _UP.multiply(_UP.add(_ONE, beta), cost)
    tail = _UP.divide(_UP.subtract(log_inverse_delta, _log1p_down(beta)), beta)
    gain = _log1p_down(_DOWN.divide(_ONE, beta))
    return _float_up(max(Decimal(0), _UP.subtract(_UP.add(divergence, tail), gain)))


def _best_beta(cost: Decimal, log_inverse_delta: Decimal) -> Decimal:
    """The root of dε/dα = ρ − (ln(1/δ) − ln(1+β))/β², by Newton's method in ln β.

    There ρβ² + ln(1+β) − ln(1/δ) is convex and increasing, and the start is right of the root: each step is safe.
    """
    with decimal.localcontext(_SEARCH):
        beta = (log_inverse_delta / cost).sqrt()
        for _ in range(100):
            square = cost * beta * beta
            step = (square + (1 + beta).ln() - log_inverse_delta) / (2 * square + beta / (1 + beta))
            beta *= (-step).exp()
            if abs(step) < Decimal("1e-15"):
                break
        return beta


def _log1p_down(value: Decimal) -> Decimal:
    return _DOWN.next_minus(_DOWN.ln(_DOWN.add(_ONE, value)))


def _float_up(value: Decimal) -> float:
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
