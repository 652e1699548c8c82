"""What both evaluators make of patients' scores: their mean, its interval, and the report's numbers.

A score says what a judged policy would have earned one patient (`outcomes`, `transit_outcomes`). Its mean over patients
is the policy's value. Released is z = (score − centre)/radius, cut to [−1, 1]; the radius is chosen on a histogram of
scores that is released before. Everything here is computed from what was released, in widths of the declared reward.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from discretion.learning import asking, followed, outcomes, transit_outcomes
from discretion.learning.asking import Asker
from discretion.learning.curator import Answer, Concentrated
from discretion.learning.schemas import Schema

LEVEL: Final = 0.9
QUANTILE: Final = 1.645  # of the normal distribution, for LEVEL
INFLATION: Final = 1.1  # of deviations that were estimated with noise
# A policy's interval has allowances beside these. That of what patients received has none: holding with 0.93, as these
# two make it, it held in fewer than 90 of 100 runs about once in ten hundreds. With 0.97 that hardly ever happens.
RECEIVED_QUANTILE: Final = 1.96
UNCUT: Final = 1024.0  # the radius on whose grid sizes are measured: a step, 2⁻¹⁰, is below the least of EDGES

Scores = outcomes.Scores | transit_outcomes.Scores


@dataclass(frozen=True)
class Evaluation:
    """In the unit of the declared rewards: a trajectory's expected total over the horizon."""

    value: float
    low: float
    high: float
    behaviour: float  # what the patients in the data received
    behaviour_low: float
    behaviour_high: float
    supported_share: float  # of the policy's expected decisions: those the data says anything about
    level: float = LEVEL

    def document(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "behaviour": {"value": self.behaviour, "low": self.behaviour_low, "high": self.behaviour_high},
            "supported_share": self.supported_share,
        }


@dataclass(frozen=True)
class Received:
    """What the patients in the data received."""

    mean: float
    error: float
    deviation: float


def received_of(asker: Asker) -> Received:
    """Totals may differ by less than their squares' noise; then what it may hide of their variance counts too."""
    low, high = asking.total_range(asker.schema)
    answer = asker.ask(followed.Received(asker.schema, low, high))
    mean, error, deviation = _moments(answer, asker.units)
    hidden = asking.deviation(answer) / asker.units * math.hypot(1.0, 2 * mean)  # of the mean square less the mean's
    error = math.hypot(error, math.sqrt(hidden / asker.units))
    half = (high - low) / 2
    return Received((high + low) / 2 + half * mean, half * error, half * deviation)


def _moments(answer: Answer, units: int, fitted: float = 1.0) -> tuple[float, float, float]:
    """The mean of z, its standard error from sampling (more, if z was fitted to the same patients) and noise, and the
    deviation of z; one that noise made too small is taken for what noise could hide."""
    mean, square = (float(number) / units for number in answer.values[:2])
    noise = asking.deviation(answer) / units
    variance = min(max(square - mean**2, noise), 1.0)
    return mean, math.sqrt(fitted * variance / units + noise**2), math.sqrt(variance)


@dataclass(frozen=True)
class ScoreScale:
    """How large scores are expected to be, before any is seen."""

    large: float  # one that few exceed
    square: float  # the mean square


@dataclass(frozen=True)
class MeanScore:
    """The mean over patients of a score, released as z."""

    centre: float
    radius: float
    mean: float  # of z
    error: float  # the standard error of that
    hidden: float  # by how much cutting at the radius may have changed the mean score
    quarters: tuple[float, ...]  # the means that were released as quarters beside z; the first is what V said of z
    unsure: float  # the deviation of their noise

    @property
    def value(self) -> float:
        return self.centre + self.radius * self.mean

    def spread(self, noise: float) -> float:
        """Half of an interval for sampling, the noise of the mean, that of V so far as it counts, and cutting."""
        return QUANTILE * INFLATION * math.hypot(self.radius * self.error, noise) + self.hidden

    def doubted(self, doubt: float) -> float:
        """A share of what the scores corrected of V: as far as they may be weighed wrongly, so may that be wrong."""
        return doubt * self.radius * max(abs(self.mean - self.quarters[0]) - self.unsure, 0.0)


def mean_score(asker: Asker, score: Scores, scale: ScoreScale, fitted: float = 1.0) -> MeanScore:
    """Ask how large the scores are, then for the scores, cut where noise and cutting do least harm together."""
    histogram = asker.ask(outcomes.ScoreSizes(replace(score, radius=UNCUT)))
    radius, hidden = _radius(asker, histogram, score, scale)
    answer = asker.ask(replace(score, radius=radius))
    mean, error, _ = _moments(answer, asker.units, fitted)
    quarters = tuple(4 * float(number) / asker.units for number in answer.values[2:])
    unsure = 4 * asking.deviation(answer) / asker.units
    return MeanScore(score.centre, radius, mean, error, hidden, quarters, unsure)


def _radius(asker: Asker, histogram: Answer, score: Scores, scale: ScoreScale) -> tuple[float, float]:
    """The radius at which noise and what is cut off are least together, and the latter: what the histogram shows, and
    what its noise may hide."""
    share = asker.shares[score.name]
    assert isinstance(share, Concentrated)
    counts, noise, units = histogram.values, asking.deviation(histogram), asker.units
    above = np.cumsum(counts[::-1])[::-1]
    real = np.logical_and.accumulate(above > 3 * noise * np.sqrt(np.arange(len(counts), 0, -1)))
    middle = np.append(outcomes.EDGES * 2**-0.25, outcomes.EDGES[-1])
    seen = np.where(real, np.maximum(counts, 0.0), 0.0)
    best = (math.inf, 1.0, 0.0)
    for edge in map(float, outcomes.EDGES):
        rare = min(2 * math.sqrt(8) * noise / units, scale.square / edge**2)
        cut = float((seen * np.maximum(middle - edge, 0.0)).sum()) / units + rare * max(scale.large - edge, 0.0)
        cost = edge * math.sqrt(float(score.squared_sensitivity) / (2 * float(share.rho))) / units
        best = min(best, (cost + cut, edge, cut))
    return best[1], best[2]


def scaled(schema: Schema, value: float, half: float, received: Received, share: float) -> Evaluation:
    """In the declared unit, within what is possible. A value beyond it is off by at least as much; where noise left no
    number at all, everything is possible and nothing supported."""
    low, high = asking.total_range(schema)
    if not all(map(math.isfinite, (value, half, share))):
        value, half, share = (low + high) / 2, high - low, 0.0

    def unit(number: float) -> float:
        return round(min(max(number, low), high) * schema.width, 6) + 0.0

    def interval(centre: float, reach: float) -> tuple[float, float, float]:
        inside = min(max(centre, low), high)
        reach += abs(centre - inside)
        return unit(inside), unit(inside - reach), unit(inside + reach)

    behaviour = interval(received.mean, RECEIVED_QUANTILE * INFLATION * received.error)
    return Evaluation(*interval(value, half), *behaviour, round(min(max(share, 0.0), 1.0), 4))
