"""What an evaluation makes of noised counts: it neither believes noise nor forgets what noise may hide."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.learning import followed, fqe, occupancy
from discretion.learning.schemas import Discrete, Schema

STATES = 400


def judged() -> followed.Judged:
    """No decision is trusted, and no state is in the pool."""
    decisions, none = np.zeros((3, STATES), dtype=np.int64), np.zeros((STATES, 2), dtype=np.bool_)
    return followed.Judged(Schema(3, Discrete(STATES), 2), decisions, followed.Limits(4, 4), none, np.arange(STATES))


class TestAboveZero:
    @given(z=st.floats(-7.5, 30.0))
    def test_it_is_the_mean_and_variance_of_what_is_above_zero(self, z: float) -> None:
        (mean,), (variance,) = occupancy._above_zero(np.array([z]))
        x = np.linspace(0.0, max(z, 0.0) + 12.0, 200_001)
        weights = np.exp(-((x - z) ** 2) / 2 + min(z, 0.0) ** 2 / 2)
        expected = (x * weights).sum() / weights.sum()
        assert mean == pytest.approx(expected, rel=2e-3, abs=2e-4)
        assert variance == pytest.approx(((x - expected) ** 2 * weights).sum() / weights.sum(), rel=1e-2, abs=1e-3)

    def test_far_below_zero_it_goes_on_smoothly_and_stays_positive(self) -> None:
        mean, variance = occupancy._above_zero(np.array([-1e6, -100.0, -8.001, -7.999]))
        assert (mean > 0).all()
        assert (variance > 0).all()
        assert mean[2] == pytest.approx(mean[3], rel=0.05)
        assert variance[2] == pytest.approx(variance[3], rel=0.1)


class TestFollowers:
    def test_counts_that_were_chosen_for_being_small_are_not_too_small(self) -> None:
        """Each state by itself is noise; those that seem to have few are taken, and their sum is right all the same."""
        rng = np.random.default_rng(1)
        visits, noise = np.full(STATES, 200.0), 30.0
        real = rng.exponential(40.0, STATES)
        noised = real + rng.normal(size=STATES) * noise
        few = noised < 2 * noise
        sure = np.zeros((STATES, 2), dtype=np.bool_)
        sure[~few, 0] = True
        chosen = replace(judged(), trusted=sure)
        counts, unsure = occupancy._followers(chosen, noised, visits, noise)
        assert (counts[:-1][few] > 0).all()
        assert (counts[:-1][~few] == 0).all()
        assert counts.sum() == pytest.approx(real[few].sum(), rel=0.1)
        assert abs(noised[few].sum() - real[few].sum()) > abs(counts.sum() - real[few].sum())
        assert unsure < 0.2

    def test_the_pool_is_left_out(self) -> None:
        pooled = replace(judged(), place=np.where(np.arange(STATES) < 10, STATES, np.arange(STATES)))
        counts, _ = occupancy._followers(pooled, np.full(STATES, 100.0), np.full(STATES, 200.0), 30.0)
        assert (counts[:10] == 0).all()
        assert counts[STATES] == 0
        assert (counts[10:STATES] > 0).all()

    def test_nothing_but_noise_says_nothing(self) -> None:
        noised = -np.abs(np.random.default_rng(2).normal(size=STATES)) * 30.0
        counts, unsure = occupancy._followers(judged(), noised, np.full(STATES, 200.0), 30.0)
        assert (counts == 0).all()
        assert unsure == 1.0


class TestTogether:
    counts = np.array([10.0, 30.0, 0.0])

    def test_a_total_that_is_known_well_is_believed(self) -> None:
        found, unsure = occupancy._together(self.counts, 0.5, 60.0, 0.6)
        assert found == pytest.approx([15.0, 45.0, 0.0], rel=1e-2)
        assert unsure == pytest.approx(1 / 60, rel=1e-2)

    def test_one_that_is_noise_changes_nothing(self) -> None:
        found, unsure = occupancy._together(self.counts, 0.2, -500.0, 1e6)
        assert found == pytest.approx(self.counts, rel=1e-3)
        assert unsure == pytest.approx(0.2, rel=1e-3)

    def test_it_never_leaves_less_than_a_tenth(self) -> None:
        found, _ = occupancy._together(self.counts, 0.5, -500.0, 1.0)
        assert found == pytest.approx(self.counts / 10)

    def test_of_nobody_nothing_is_known(self) -> None:
        found, unsure = occupancy._together(np.zeros(3), 1.0, 50.0, 1.0)
        assert (found == 0).all()
        assert unsure == 1.0


class TestShrunk:
    def test_noise_alone_is_not_believed_but_leaves_room_for_what_it_may_hide(self) -> None:
        raw = np.random.default_rng(3).normal(size=1000)
        found, unsure, most = occupancy._shrunk(raw * 0.9, 1.0, np.ones(1000))
        assert (found == 0).all()
        assert unsure == 0.0  # what is seen is below the noise by more than two errors
        found, unsure, most = occupancy._shrunk(raw / np.sqrt((raw**2).mean()), 1.0, np.ones(1000))
        assert np.abs(found).max() < 1e-9
        assert most == pytest.approx(2 * math.sqrt(2000))
        assert 0.5 * most < unsure < most

    def test_a_signal_far_above_the_noise_is_believed(self) -> None:
        raw = np.random.default_rng(3).normal(size=1000) * 100
        found, unsure, most = occupancy._shrunk(raw, 1.0, np.ones(1000))
        assert np.allclose(found, raw, rtol=1e-3)
        assert unsure == pytest.approx(1000.0, rel=1e-2)  # the noise itself
        assert most == pytest.approx(float((raw**2).sum()), rel=1e-2)


class TestMissed:
    schema = Schema(5, Discrete(3), 2, total=(0.0, 1.0))

    def test_nothing_is_missed_where_every_decision_is_judged(self) -> None:
        assert fqe._missed(self.schema, 0.5, 1.0, 1.0) == 0.0

    def test_the_fewer_are_judged_the_more_may_be_missed_up_to_everything(self) -> None:
        found = [fqe._missed(self.schema, 0.1, share, 1.0) for share in (0.9, 0.7, 0.5, 0.1, 0.0)]
        assert found == sorted(found)
        assert found[0] == pytest.approx(0.7 * 0.1 * (1 / 0.9**4 - 1))  # a third of what was gained, about
        assert found[-2:] == [1.0, 1.0]

    def test_a_policy_that_moves_nobody_elsewhere_misses_nothing(self) -> None:
        assert fqe._missed(self.schema, 0.1, 0.5, 0.0) == 0.0
        assert fqe._missed(self.schema, 0.1, 0.5, 0.1) < fqe._missed(self.schema, 0.1, 0.5, 0.3)
