"""What was done to the data, and what it costs.

An event records one noisy release: the mechanism, the statistic it was applied to, the statistic's sensitivity
when one patient's records are replaced, and the scale of the noise. Its cost is *computed* from those numbers,
never stated beside them, so a certificate that lists the events can be re-added by anybody.

| mechanism            | noise on each number                         | sensitivity      | cost                      |
|----------------------|----------------------------------------------|------------------|---------------------------|
| `gaussian`           | discrete Gaussian, variance v                | Δ₂², squared ℓ2  | Δ₂² / 2v        (zCDP)    |
| `symmetric-gaussian` | v off the diagonal, 2v on it, mirrored       | Δ_F², Frobenius  | Δ_F² / 4v       (zCDP)    |
| `laplace`            | discrete Laplace, scale b                    | Δ₁, ℓ1           | ε = Δ₁ / b, then ε² / 2   |

The second line: a symmetric change D costs Σᵢ Dᵢᵢ²/(2·2v) + Σ_{i<j} Dᵢⱼ²/2v = ‖D‖_F²/4v. The discrete Gaussian
costs what the continuous one does (Canonne, Kamath, Steinke 2020, Theorem 4 and Cor. 13), for changes on its grid.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from discretion import errors

GAUSSIAN: Final = "gaussian"
SYMMETRIC_GAUSSIAN: Final = "symmetric-gaussian"
LAPLACE: Final = "laplace"

EVERYONE: Final = "everyone"
FIRST_HALF: Final = "first half"
SECOND_HALF: Final = "second half"
PARTS: Final = (EVERYONE, FIRST_HALF, SECOND_HALF)


@dataclass(frozen=True)
class Event:
    """One noisy release; `sensitivity` and `scale` are in the statistic's own unit, squared where the table says so."""

    mechanism: str
    statistic: str
    shape: tuple[int, ...]
    sensitivity: Fraction
    scale: Fraction
    resolution: Fraction = Fraction(1)  # the statistic is an integer multiple of this, and so is its noise
    part: str = EVERYONE  # the units that were summed; the two halves are disjoint

    def __post_init__(self) -> None:
        if self.mechanism not in (GAUSSIAN, SYMMETRIC_GAUSSIAN, LAPLACE):
            raise errors.UnknownMechanism(f"There is no mechanism {self.mechanism!r} whose cost is known.")
        if self.part not in PARTS:
            raise errors.UnknownMechanism(f"There is no part {self.part!r} of the data; use one of {', '.join(PARTS)}.")
        if self.sensitivity <= 0 or self.scale <= 0 or self.resolution <= 0:
            raise errors.InvalidNoiseScale(
                f"The release of {self.statistic} needs a positive sensitivity, noise scale and resolution."
            )

    @property
    def grid_scale(self) -> Fraction:
        """The scale of the integer noise that is drawn."""
        return self.scale / (self.resolution if self.mechanism == LAPLACE else self.resolution**2)


def pure_epsilon(event: Event) -> Fraction | None:
    """ε of a pure release, None where the mechanism gives no pure guarantee."""
    return event.sensitivity / event.scale if event.mechanism == LAPLACE else None


def _concentrated(event: Event) -> Fraction:
    if event.mechanism == GAUSSIAN:
        return event.sensitivity / (2 * event.scale)
    if event.mechanism == SYMMETRIC_GAUSSIAN:
        return event.sensitivity / (4 * event.scale)
    raise errors.UnknownMechanism(f"The mechanism {event.mechanism!r} has no zCDP cost of its own.")


class Tally:
    """What has been spent so far. A unit sits in one half only, so a release over the other half does not touch it
    (parallel composition): the dearer half counts. zCDP adds; pure releases add their ε, which is charged as ε²/2."""

    def __init__(self) -> None:
        self._rho = {FIRST_HALF: Fraction(0), SECOND_HALF: Fraction(0)}
        self._epsilon = dict(self._rho)

    def add(self, event: Event) -> None:
        pure = pure_epsilon(event)
        for half in self._rho:
            if event.part in (EVERYONE, half):
                if pure is None:
                    self._rho[half] += _concentrated(event)
                else:
                    self._epsilon[half] += pure

    @property
    def rho(self) -> Fraction:
        return max(self._rho[half] + self._epsilon[half] ** 2 / 2 for half in self._rho)


def compose(events: Iterable[Event]) -> Fraction:
    """ρ of all the events together."""
    tally = Tally()
    for event in events:
        tally.add(event)
    return tally.rho


def cost(event: Event) -> Fraction:
    """ρ of one event alone."""
    return compose((event,))


def _scale(sensitivity: Fraction, share: Fraction) -> Fraction:
    """The scale at which the cost is the share, exactly: nothing is wasted, and sums of costs keep short fractions."""
    if sensitivity <= 0 or share <= 0:
        raise errors.InvalidNoiseScale("A release needs a positive sensitivity and a positive share of the budget.")
    return sensitivity / share


def gaussian_scale(squared_sensitivity: Fraction, rho: Fraction) -> Fraction:
    """The variance at which a `gaussian` release costs ρ."""
    return _scale(squared_sensitivity, 2 * rho)


def symmetric_gaussian_scale(squared_sensitivity: Fraction, rho: Fraction) -> Fraction:
    """The off-diagonal variance at which a `symmetric-gaussian` release costs ρ."""
    return _scale(squared_sensitivity, 4 * rho)


def laplace_scale(sensitivity: Fraction, epsilon: Fraction) -> Fraction:
    """The scale b at which a `laplace` release is ε-DP."""
    return _scale(sensitivity, epsilon)
