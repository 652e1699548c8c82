"""Posteriors against truth: exact where nothing is noisy, nothing where all is noise, and dense algebra in between."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.learning import shrinkage
from discretion.learning.clipped import EDGES, PER_OCTAVE


def histogram(sizes: Any) -> Any:
    return np.bincount(np.searchsorted(EDGES, sizes), minlength=len(EDGES) + 1).astype(float)


class TestCut:
    @given(st.integers(0, 2**32), st.floats(0.1, 0.95))
    def test_it_is_the_quantile_to_within_a_bin(self, seed: int, quantile: float) -> None:
        sizes = np.random.default_rng(seed).lognormal(-1, 0.7, 2000)
        found = shrinkage.cut(histogram(sizes), 0.0, quantile)
        assert abs(math.log2(found.radius / np.quantile(sizes, quantile))) < 1.1 / PER_OCTAVE

    def test_it_knows_what_cutting_does(self) -> None:
        sizes = np.random.default_rng(1).lognormal(-1, 0.7, 20000)
        found = shrinkage.cut(histogram(sizes), 0.0, 0.5)
        short = np.minimum(sizes, found.radius)
        assert found.kept == pytest.approx((short / sizes).mean(), rel=0.05)
        assert found.energy == pytest.approx((short**2).mean(), rel=0.1)

    def test_bins_that_may_be_noise_do_not_move_it(self) -> None:
        noisy = histogram(np.full(1000, 0.3))
        noisy[-5:] = 15.0
        noisy[2:6] = -40.0
        assert 0.2 < shrinkage.cut(noisy, 10.0, 0.9).radius < 0.4

    def test_patients_without_any_size_do_not_count(self) -> None:
        sizes = np.append(np.zeros(5000), np.full(1000, 0.3))
        assert 0.2 < shrinkage.cut(histogram(sizes), 1.0, 0.4).radius < 0.4

    def test_where_all_is_noise_it_is_the_unit(self) -> None:
        assert shrinkage.cut(np.zeros(len(EDGES) + 1), 1.0, 0.4) == shrinkage.Cut(1.0, 1.0, 1.0)

    def test_times_changes_the_unit(self) -> None:
        assert shrinkage.Cut(0.5, 0.8, 0.1).times(2.0) == shrinkage.Cut(1.0, 0.8, 0.4)


def truth(draw: np.random.Generator) -> Any:
    """Many states, each with few of the actions."""
    shares = draw.dirichlet(np.full(12, 0.3), size=300)
    return shares * draw.lognormal(3, 1, 300)[:, None]


class TestCounts:
    def test_without_noise_they_are_what_they_were(self) -> None:
        exact = np.rint(truth(np.random.default_rng(1)))
        np.testing.assert_allclose(shrinkage.counts(exact, 1e-40), exact, atol=1e-9)

    def test_noise_alone_leaves_next_to_nothing(self) -> None:
        noise = np.random.default_rng(2).normal(0, 5, (300, 12))
        assert shrinkage.counts(noise, 5.0).max() < 2.0

    @settings(max_examples=10, deadline=None)
    @given(st.integers(0, 2**32))
    def test_they_are_closer_to_the_truth_than_the_noisy_ones(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        exact = truth(draw)
        noisy = exact + draw.normal(0, 4, exact.shape)
        better = ((shrinkage.counts(noisy, 4.0) - exact) ** 2).mean()
        assert better < 0.8 * ((np.maximum(noisy, 0) - exact) ** 2).mean()

    def test_none_is_negative(self) -> None:
        noisy = np.random.default_rng(3).normal(-3, 9, (50, 4))
        assert (shrinkage.counts(noisy, 9.0) >= 0).all()

    @pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 300), (250, 250)])
    def test_any_table_will_do(self, shape: tuple[int, int]) -> None:
        noisy = np.random.default_rng(4).normal(10, 3, shape)
        found = shrinkage.counts(noisy, 3.0)
        assert found.shape == shape
        assert np.isfinite(found).all()


class TestLowRank:
    def test_noise_alone_is_nothing(self) -> None:
        noise = np.random.default_rng(5).normal(0, 2, (400, 20))
        assert np.linalg.norm(shrinkage.low_rank(noise, 2.0)) < 0.2 * np.linalg.norm(noise)

    def test_one_direction_is_found(self) -> None:
        draw = np.random.default_rng(6)
        exact = np.outer(draw.random(400), draw.random(20)) * 30
        found = shrinkage.low_rank(exact + draw.normal(0, 2, exact.shape), 2.0)
        assert ((found - exact) ** 2).mean() < 0.15 * 4


class TestComponents:
    def test_each_has_mean_square_one_over_visits_and_mean_zero(self) -> None:
        visits = truth(np.random.default_rng(7))
        found = shrinkage.components(visits)
        weights = visits.sum(axis=1) / visits.sum()
        np.testing.assert_allclose(weights @ found**2, np.ones(5), atol=1e-9)
        np.testing.assert_allclose(weights @ found, np.zeros(5), atol=1e-9)

    def test_one_action_or_no_visit_has_none(self) -> None:
        assert shrinkage.components(np.ones((7, 1))).shape == (7, 0)
        assert shrinkage.components(np.zeros((7, 3))).shape == (7, 0)


class TestValues:
    NONE = np.zeros((200, 0))

    def test_many_visits_make_them_their_means(self) -> None:
        means = np.random.default_rng(8).normal(0, 0.3, 200)
        found = shrinkage.values(means * 1e6, 0.0, np.full(200, 1e6), 0.2, self.NONE)
        np.testing.assert_allclose(found.mean, means, atol=1e-3)
        assert (found.deviation < 1e-2).all()

    def test_a_state_without_visits_is_like_the_others(self) -> None:
        visits = np.full(200, 1000.0)
        visits[0] = 0.0
        found = shrinkage.values(0.4 * visits, 1.0, visits, 0.2, self.NONE)
        assert found.mean[0] == pytest.approx(0.4, abs=0.01)

    def test_shrinking_brings_them_closer_to_the_truth(self) -> None:
        draw = np.random.default_rng(9)
        means, visits = draw.normal(0, 0.1, 200), draw.lognormal(3, 1, 200)
        sums = means * visits + draw.normal(0, np.sqrt(40 + visits * 0.2))
        found = shrinkage.values(sums, 40.0, visits, 0.2, self.NONE)
        assert ((found.mean - means) ** 2).mean() < 0.5 * ((sums / visits - means) ** 2).mean()

    def test_features_help_where_they_tell_something(self) -> None:
        draw = np.random.default_rng(10)
        feature = draw.normal(size=(200, 1))
        visits = np.full(200, 20.0)
        sums = 0.2 * feature[:, 0] * visits + draw.normal(0, 10, 200)
        errors = [
            ((shrinkage.values(sums, 100.0, visits, 0.2, f).mean - 0.2 * feature[:, 0]) ** 2).mean()
            for f in (feature, self.NONE)
        ]
        assert errors[0] < 0.3 * errors[1]


def dense(model: Any, seen: Any, variance: Any, design: Any, effect: float, common: float) -> tuple[float, Any]:
    """Log marginal likelihood and posterior mean of the cells without μ_s, by one big covariance matrix."""
    (states, actions), width = seen.shape, design.shape[1]
    cells = states * actions
    state, action = np.divmod(np.arange(cells), actions)
    x = np.zeros((cells, actions * width))
    for column in range(width):
        x[np.arange(cells), action * width + column] = design[state, column]
    scales = np.tile([effect] + [effect * shrinkage._SLOPE] * (width - 1), actions)
    signal = (x * scales**2) @ x.T + model.prior**2 * np.eye(cells)
    total = signal + np.diag(variance.ravel()) + common * (state[:, None] == state)
    solved = np.linalg.solve(total, seen.ravel())
    likelihood = -np.linalg.slogdet(total)[1] - seen.ravel() @ solved
    return float(likelihood), (signal @ solved).reshape(seen.shape)


class TestAdvantages:
    def test_effects_are_the_exact_gaussian_posterior(self) -> None:
        draw = np.random.default_rng(11)
        seen, variance = draw.normal(0, 1, (6, 4)), draw.random((6, 4)) + 0.1
        design = np.column_stack([np.ones(6), draw.normal(size=6)])
        plain = shrinkage._modelled(seen, variance, np.ones((6, 4), dtype=bool), 0.5, 2.0)
        model = shrinkage._with_effects(plain, seen, design, 0.7, 2.0)
        likelihood, mean = dense(model, seen, variance, design, 0.7, 2.0)
        assert model.likelihood == pytest.approx(likelihood, abs=1e-8)
        np.testing.assert_allclose(shrinkage._posterior(model, seen, 2.0)[0], mean, atol=1e-8)

    def test_without_effects_too(self) -> None:
        draw = np.random.default_rng(12)
        seen, variance = draw.normal(0, 1, (6, 4)), draw.random((6, 4)) + 0.1
        model = shrinkage._modelled(seen, variance, np.ones((6, 4), dtype=bool), 0.5, 2.0)
        likelihood, mean = dense(model, seen, variance, np.zeros((6, 1)), 1.0, 2.0)
        assert model.likelihood == pytest.approx(likelihood, abs=1e-8)
        np.testing.assert_allclose(shrinkage._posterior(model, seen, 2.0)[0], mean, atol=1e-8)

    @pytest.mark.parametrize("pooled", [False, True])
    def test_the_best_action_is_found_where_there_is_data(self, pooled: bool) -> None:
        draw = np.random.default_rng(13)
        true = draw.normal(0, 0.1, (100, 5))
        visits = np.full((100, 5), 4000.0)
        sums = true * visits + draw.normal(0, 20, true.shape)
        found = shrinkage.advantages(sums, 400.0, visits, 0.02, draw.random(100) if pooled else None)
        assert found.informed
        assert (found.mean.argmax(axis=1) == true.argmax(axis=1)).mean() > 0.95

    def test_what_actions_have_in_common_is_used_where_cells_know_little(self) -> None:
        draw = np.random.default_rng(14)
        true = np.tile(draw.normal(0, 0.03, 8), (300, 1))
        visits = np.full((300, 8), 20.0)
        sums = true * visits + draw.normal(0, np.sqrt(4 + 20 * 0.02), true.shape)
        chosen = [
            true[0, shrinkage.advantages(sums, 4.0, visits, 0.02, value).mean.argmax(axis=1)].mean()
            for value in (np.linspace(0, 1, 300), None)
        ]
        assert chosen[0] == pytest.approx(true.max(), abs=0.005)
        assert chosen[0] > chosen[1] + 0.005

    @pytest.mark.parametrize("pooled", [False, True])
    def test_noise_alone_informs_of_nothing(self, pooled: bool) -> None:
        informed = 0
        for seed in range(20):
            draw = np.random.default_rng([15, seed])
            visits = draw.lognormal(3, 1, (200, 6))
            sums = draw.normal(0, np.sqrt(9 + visits * 0.02))
            informed += shrinkage.advantages(sums, 9.0, visits, 0.02, draw.random(200) if pooled else None).informed
        assert informed <= 5  # odds of 3 to 1 still err at times

    def test_cells_without_visits_do_no_harm(self) -> None:
        found = shrinkage.advantages(np.full((4, 3), 1e6), 1.0, np.zeros((4, 3)), 0.02, np.zeros(4))
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.deviation).all()
        assert not found.informed
