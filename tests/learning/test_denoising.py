"""Means of shares given noised counts: right where the truth is known, and never worse than doing nothing."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.learning import denoising
from discretion.learning.denoising import Noised

COLUMNS = 50


def rows_of(seed: int, *, successors: int = 4, visits: float = 150.0, deviation: float = 6.0) -> tuple[Any, Noised]:
    """True shares (R, W) with few of them above zero, and their noised counts."""
    rng = np.random.default_rng(seed)
    shares = np.zeros((200, COLUMNS))
    for row in shares:
        row[rng.choice(COLUMNS, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    counts = rng.multinomial(int(visits), shares) + rng.normal(0, deviation, shares.shape)
    size = shares.size
    noise = np.full(size, deviation**2)
    return shares, Noised(counts.ravel(), np.full(size, visits), noise, np.zeros(size, dtype=np.int64))


def learned(cells: Noised, **named: Any) -> denoising.Mixture:
    levels = denoising.levels(0.02)
    return denoising.fit(cells, denoising.sparse_start(levels, COLUMNS), levels, mass=1 / COLUMNS, **named)


class TestLevels:
    @pytest.mark.parametrize("smallest", [1e-3, 0.02, 0.5])
    def test_they_begin_with_zero_and_reach_one_in_small_steps(self, smallest: float) -> None:
        levels = denoising.levels(smallest)
        assert levels[0] == 0
        assert levels[1] == pytest.approx(smallest)
        assert levels[-1] == 1
        assert (levels[2:] / levels[1:-1] < denoising.RATIO + 1e-9).all()

    def test_they_have_the_signs_that_occur(self) -> None:
        assert denoising.levels(0.1, below=True).min() == -1
        assert denoising.levels(0.1, below=True, above=False).max() == 0


class TestFit:
    @pytest.mark.parametrize("seed", range(4))
    def test_most_cells_are_found_to_be_zero(self, seed: int) -> None:
        _, cells = rows_of(seed)
        (weights,) = learned(cells).weights
        assert weights.sum() == pytest.approx(1)
        assert 0.85 < weights[0] < 0.97  # 46 of 50 are

    @pytest.mark.parametrize("seed", range(4))
    def test_the_shares_of_a_row_add_up_to_no_more_than_one(self, seed: int) -> None:
        _, cells = rows_of(seed, deviation=40.0)
        mixture = learned(cells)
        assert float(mixture.weights[0] @ mixture.levels) <= 1 / COLUMNS + 1e-9

    def test_groups_that_differ_get_distributions_of_their_own(self) -> None:
        shares, cells = rows_of(1)
        apart = learned(replace(cells, group=(shares.ravel() > 0).astype(np.int64)), groups=2).weights
        assert apart[0, 0] > 0.97
        assert apart[1, 0] < 0.3

    def test_cells_known_to_be_zero_count(self) -> None:
        _, cells = rows_of(1)
        assert learned(cells, zeros=1e6).weights[0, 0] > learned(cells).weights[0, 0]


class TestPosterior:
    @pytest.mark.parametrize("laplace", [False, True])
    @pytest.mark.parametrize("seed", range(3))
    def test_it_is_far_closer_to_the_truth_than_the_counts(self, seed: int, laplace: bool) -> None:
        shares, cells = rows_of(seed)
        if laplace:
            extra = np.random.default_rng(seed).laplace(scale=6 / math.sqrt(2), size=len(cells))
            counts = np.round(shares.ravel() * 150) + extra
            cells = replace(cells, counts=counts, laplace=True)
        mean, variance = denoising.posterior(cells, learned(cells))
        error = (mean - shares.ravel()) ** 2
        raw = (cells.counts / cells.visits - shares.ravel()) ** 2
        assert error.mean() < raw.mean() / 3
        assert 0.5 < error.mean() / variance.mean() < 2  # it knows how well it knows

    def test_a_share_that_is_surely_not_zero_is_taken_as_it_was_counted(self) -> None:
        _, cells = rows_of(0)
        sure = replace(cells, counts=np.full(len(cells), 100.0))
        mean, variance = denoising.posterior(sure, learned(cells))
        np.testing.assert_allclose(mean, 100 / 150)
        np.testing.assert_allclose(variance, (36 + 100) / 150**2)

    def test_each_cell_is_judged_by_itself(self) -> None:
        _, cells = rows_of(0)
        mixture = learned(cells)
        mean, variance = denoising.posterior(cells, mixture)
        alone = [denoising.posterior(cells.only(slice(at, at + 1)), mixture) for at in (0, 77, 9999)]
        np.testing.assert_allclose([m[0] for m, _ in alone], mean[[0, 77, 9999]], rtol=1e-12)
        np.testing.assert_allclose([v[0] for _, v in alone], variance[[0, 77, 9999]], rtol=1e-9, atol=1e-15)

    @pytest.mark.parametrize("counts", [-1e12, 1e12, 0.0])
    @pytest.mark.parametrize("laplace", [False, True])
    def test_counts_beyond_all_levels_give_numbers(self, counts: float, laplace: bool) -> None:
        _, cells = rows_of(0)
        odd = replace(cells, counts=np.full(len(cells), counts), laplace=laplace)
        assert all(np.isfinite(part).all() for part in denoising.posterior(odd, learned(cells)))

    @pytest.mark.parametrize("laplace", [False, True])
    @pytest.mark.parametrize("sampled", [False, True])
    @pytest.mark.parametrize("zero", [1.0, 0.5, 0.0])
    def test_what_is_clear_without_the_likelihood_is_what_the_likelihood_says(
        self, monkeypatch: pytest.MonkeyPatch, zero: float, sampled: bool, laplace: bool
    ) -> None:
        """Also where nearly all weight is at zero, and the others have the least there is."""
        rng, size, levels = np.random.default_rng(5), 40_000, denoising.levels(0.001)
        weights = np.append(zero, np.full(len(levels) - 1, (1 - zero) / (len(levels) - 1)))[None]
        visits, noise = 10 ** rng.uniform(0, 6, size), 10 ** rng.uniform(-8, 8, size)
        counts = np.where(rng.random(size) < 0.5, visits, np.sqrt(noise)) * 10 ** rng.uniform(-4, 2.5, size)
        cells = Noised(counts, visits, noise, np.zeros(size, dtype=np.int64), laplace, sampled)
        found = denoising.posterior(cells, denoising.Mixture(levels, weights))
        assert denoising._clear(cells, noise + counts, levels).mean() > 0.05
        monkeypatch.setattr(denoising, "_clear", lambda cells, *_: np.zeros(len(cells), np.bool_))
        expected = denoising.posterior(cells, denoising.Mixture(levels, weights))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


class TestSampled:
    @pytest.mark.parametrize("columns", [2, 3, 64, 101, 717])
    def test_every_column_is_learned_from(self, columns: int) -> None:
        size = columns * (denoising.SAMPLE * 5 // columns)
        chosen = np.arange(size)[denoising.sampled(size, columns)]
        assert len(chosen) <= denoising.SAMPLE
        assert len(np.unique(chosen % columns)) == columns


class TestClosed:
    @settings(max_examples=100, deadline=None)
    @given(seed=st.integers(0, 10**6), columns=st.integers(1, 30))
    def test_rows_are_distributions_and_nearest_in_what_is_uncertain(self, seed: int, columns: int) -> None:
        rng = np.random.default_rng(seed)
        mean, variance = rng.normal(0.1, 0.3, (6, columns)), rng.random((6, columns)) ** 4
        shares = denoising.closed(mean, variance)
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        for row, was, unsure in zip(shares, mean, variance + 1e-9, strict=True):
            taken = (was - row) / unsure  # the same for all that stay above zero, and no more for the others
            inside = row > 1e-12
            assert np.ptp(taken[inside]) <= 1e-6 * (1 + np.abs(taken[inside]).max())
            assert (taken[~inside] <= taken[inside].min() + 1e-6 * (1 + np.abs(taken).max())).all()

    def test_what_is_certain_stays(self) -> None:
        shares = denoising.closed(np.array([[0.7, 0.4, 0.1]]), np.array([[0.0, 0.01, 0.0]]))
        np.testing.assert_allclose(shares, [[0.7, 0.2, 0.1]], atol=1e-6)
