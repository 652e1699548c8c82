"""Kernels from noised counts: which rows are trusted, and what a state's actions tell about each other."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion.learning import kernels
from discretion.learning.kernels import Counted
from discretion.privacy import events

STATES, ACTIONS = 40, 3


def event(mechanism: str, scale: int | Fraction) -> events.Event:
    return events.Event(mechanism, "counts", (1,), Fraction(1), Fraction(scale))


def noised(seed: int, *, alike: bool, visits: int = 120, variance: int = 36) -> tuple[Any, Counted]:
    """True kernels (S·A, S+1) whose actions share their successors or not, and noised counts of them."""
    rng = np.random.default_rng(seed)
    kernel = np.zeros((STATES, ACTIONS, STATES + 1))
    for state, action in np.ndindex(STATES, ACTIONS):
        place = np.random.default_rng([seed, state, 0 if alike else action])
        kernel[state, action, place.choice(STATES + 1, 4, replace=False)] = rng.dirichlet(np.ones(4))
    flat = kernel.reshape(-1, STATES + 1)
    deviation = math.sqrt(variance)
    moves = rng.multinomial(visits, flat) + np.round(rng.normal(0, deviation, flat.shape)).astype(np.int64)
    seen = visits + np.round(rng.normal(0, deviation, (STATES, ACTIONS))).astype(np.int64)
    gaussian = event(events.GAUSSIAN, variance)
    return flat, Counted(seen, np.arange(len(flat)), moves, (gaussian, gaussian))


class TestLeastVisits:
    @pytest.mark.parametrize("mechanism", [events.GAUSSIAN, events.LAPLACE])
    def test_with_nothing_but_noise_hardly_a_row_passes(self, mechanism: str) -> None:
        rng, passed = np.random.default_rng(1), []
        for _ in range(50):
            laplace = mechanism == events.LAPLACE
            draw = rng.laplace(0, 100, 2000) if laplace else rng.normal(0, 10, 2000)
            visits = np.round(draw).astype(np.int64).reshape(-1, 4)
            passed.append((visits > kernels.least_visits(visits, event(mechanism, 100), 2.0)).any())
        assert np.mean(passed) < 0.25

    def test_where_visits_abound_the_stated_deviations_suffice(self) -> None:
        visits = np.full((50, 4), 1000)
        visits[0] = [19, 21, 0, -5]
        least = kernels.least_visits(visits, event(events.GAUSSIAN, 100), 2.0)
        assert least == pytest.approx(20)

    @pytest.mark.parametrize(("states", "least"), [(50, 2.5), (500, 25.0), (5000, 40.0)])
    def test_without_noise_to_speak_of_a_visit_for_twenty_states_is_needed(self, states: int, least: float) -> None:
        visits = np.full((states, 4), 1000)
        visits[0] = 1  # the bound is no larger than the least of those that noise cannot have made
        assert kernels.least_visits(visits, event(events.GAUSSIAN, Fraction(1, 100)), 2.0) == least

    def test_no_more_than_a_tenth_of_the_passing_rows_is_expected_to_have_no_visits(self) -> None:
        rng = np.random.default_rng(3)
        truth = np.where(rng.random(20_000) < 0.03, 60, 0)
        visits = (truth + np.round(rng.normal(0, 10, 20_000)).astype(np.int64)).reshape(-1, 40)  # 500 states
        passing = (visits > kernels.least_visits(visits, event(events.GAUSSIAN, 100), 2.0)).ravel()
        assert passing[truth > 0].mean() > 0.9
        assert (truth[passing] == 0).mean() < 0.13


class TestModel:
    @pytest.mark.parametrize("seed", range(3))
    def test_it_is_closer_to_the_truth_than_the_counts_closed_to_one(self, seed: int) -> None:
        truth, release = noised(seed, alike=False)
        model = kernels.model(release, 2.0)
        raw = np.maximum(release.transitions, 0) / np.maximum(release.transitions, 0).sum(axis=1, keepdims=True)
        assert np.abs(model.kernel - truth).sum(axis=1).mean() < np.abs(raw - truth).sum(axis=1).mean() / 2
        np.testing.assert_allclose(model.kernel.sum(axis=1), 1, rtol=1e-5)

    def test_actions_with_the_same_successors_help_each_other(self) -> None:
        errors = []
        for alike in (True, False):
            pairs = [noised(seed, alike=alike, visits=60) for seed in range(3)]
            errors.append(np.mean([np.abs(kernels.model(r, 2.0).kernel - t).sum(axis=1).mean() for t, r in pairs]))
        assert errors[0] < 0.8 * errors[1]

    def test_rows_with_too_few_noised_visits_are_left_out(self) -> None:
        _, release = noised(0, alike=False)
        release.visits[5] = [-1000, 0, 12]
        assert set(range(len(release.rows))) - set(kernels.model(release, 2.0).rows) == {15, 16, 17}

    def test_nothing_to_trust_gives_no_rows(self) -> None:
        _, release = noised(0, alike=False)
        release.visits[:] = -1
        assert kernels.model(release, 2.0).kernel.shape == (0, STATES + 1)

    def test_the_cells_denoised_at_once_change_nothing(self, monkeypatch: Any) -> None:
        _, release = noised(0, alike=True)
        whole = kernels.model(release, 2.0)
        monkeypatch.setattr(kernels, "CELLS", 100)
        parts = kernels.model(release, 2.0)
        np.testing.assert_allclose(parts.kernel, whole.kernel, rtol=1e-5, atol=1e-7)


class TestSpread:
    def test_it_is_the_sum_of_variances_times_squared_distances(self) -> None:
        _, release = noised(0, alike=False)
        model, following = kernels.model(release, 2.0), np.random.default_rng(0).random(STATES + 1)
        mean = model.kernel.astype(np.float64) @ following
        expected = (model.variance * (following - mean[:, None]) ** 2).sum(axis=1)
        np.testing.assert_allclose(model.spread(following, mean), expected, rtol=1e-3, atol=1e-7)
