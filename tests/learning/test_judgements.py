"""What evaluators make of patients' scores: the interval of what patients received holds as often as it says."""

from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from discretion.learning import asking, followed, judgements
from discretion.learning.asking import Asker
from discretion.learning.curator import Answer
from discretion.learning.schemas import Discrete, FloatArray, Schema
from discretion.privacy import events

SCHEMA = Schema(4, Discrete(2), 2, (0.0, 1.0), total=(0.0, 1.0))
RUNS = 2000
UNITS = 500


@dataclass(frozen=True)
class _Seeded:
    """Answers as the curator would, about these totals, with noise that a test can draw again."""

    totals: FloatArray
    deviation: float
    draw: np.random.Generator

    schema = SCHEMA

    @property
    def units(self) -> int:
        return len(self.totals)

    def ask(self, statistic: followed.Received) -> Answer:
        z = 2 * self.totals - 1
        sums = np.array([z.sum(), (z * z).sum()]) + self.draw.normal(0.0, self.deviation, 2)
        scale, fine = Fraction(self.deviation) ** 2, statistic.resolution
        event = events.Event(events.GAUSSIAN, statistic.name, statistic.shape, Fraction(4), scale, fine)
        return Answer(np.rint(sums / float(fine)).astype(np.int64), event)


def _held(totals: FloatArray, truth: float, deviation: float, draw: np.random.Generator) -> bool:  # (n,)
    received = judgements.received_of(cast(Asker, _Seeded(totals, deviation, draw)))
    found = judgements.scaled(SCHEMA, 0.0, 0.0, received, 1.0)
    return found.behaviour_low <= truth <= found.behaviour_high


def _hundreds(spread: float, deviation: float) -> FloatArray:  # (RUNS / 100,)
    """In how many of each hundred runs it held, of totals that lie so far from ½ on either side."""
    draw = np.random.default_rng([1, int(1000 * spread), int(deviation)])
    drawn = (np.where(draw.random(UNITS) < 0.5, 0.5 - spread, 0.5 + spread) for _ in range(RUNS))
    return np.reshape([_held(totals, 0.5, deviation, draw) for totals in drawn], (-1, 100)).sum(axis=1)


class TestReceived:
    @pytest.mark.parametrize(
        ("spread", "deviation"), [(0.5, 1.0), (0.5, 6.0), (0.05, 6.0), (0.05, 20.0), (0.005, 20.0)]
    )
    def test_it_holds_in_ninety_of_every_hundred_runs_and_not_in_all(self, spread: float, deviation: float) -> None:
        found = _hundreds(spread, deviation)
        assert (found >= 90).all()
        assert found.mean() < 99

    @pytest.mark.parametrize(("spread", "deviation"), [(0.5, 1.0), (0.5, 6.0)])
    def test_holding_in_ninety_on_average_would_not_do(
        self, spread: float, deviation: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(judgements, "RECEIVED_QUANTILE", judgements.QUANTILE)
        assert (_hundreds(spread, deviation) < 90).any()

    def test_a_mean_far_from_the_middle_makes_the_variance_noisier(self) -> None:
        draw = np.random.default_rng(2)
        held = [_held(draw.choice([0.05, 0.15], UNITS), 0.1, 6.0, draw) for _ in range(RUNS)]
        assert (np.reshape(held, (-1, 100)).sum(axis=1) >= 90).all()

    def test_it_lies_within_what_is_possible(self) -> None:
        draw = np.random.default_rng(3)
        low, high = asking.total_range(SCHEMA)
        received = judgements.received_of(cast(Asker, _Seeded(np.ones(20), 20.0, draw)))
        found = judgements.scaled(SCHEMA, 0.0, 0.0, received, 1.0)
        assert low <= found.behaviour_low <= found.behaviour <= found.behaviour_high <= high
