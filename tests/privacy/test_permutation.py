"""Random positions: a permutation, uniform over all of them, new each time."""

import itertools
import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from discretion import errors
from discretion.privacy import noise
from tests import goodness

ORDERS = list(itertools.permutations(range(4)))


def p_value(draw: Callable[[], tuple[int, ...]], draws: int = 6000) -> float:
    seen = Counter(draw() for _ in range(draws))
    return float(stats.chisquare([seen[order] for order in ORDERS]).pvalue)


def drawn() -> tuple[int, ...]:
    return tuple(noise.permutation(4).tolist())


def carelessly_swapped() -> tuple[int, ...]:
    """The shuffle that swaps each place with any place: 4⁴ ways do not divide evenly among 4! orders."""
    order = list(range(4))
    for place in range(4):
        other = int(noise.permutation(4)[0])
        order[place], order[other] = order[other], order[place]
    return tuple(order)


class TestPermutation:
    @pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, 2**16, 2**16 + 1, 10**6])
    def test_it_holds_every_number_once(self, size: int) -> None:
        order = noise.permutation(size)
        assert order.dtype == np.int64
        assert (np.sort(order) == np.arange(size)).all()

    def test_all_orders_are_equally_likely(self) -> None:
        assert p_value(drawn) > goodness.ALARM

    def test_a_careless_shuffle_would_be_noticed(self) -> None:
        assert p_value(carelessly_swapped) < goodness.ALARM

    def test_it_differs_each_time(self) -> None:
        assert not (noise.permutation(1000) == noise.permutation(1000)).all()

    @pytest.mark.parametrize("size", [-1, 2**32 + 1, 10**400, True, 3.0, "3", None], ids=repr)
    def test_a_size_that_is_none_is_refused(self, size: object) -> None:
        with pytest.raises(errors.InvalidParameter):
            noise.permutation(size)  # type: ignore[arg-type]

    def test_equal_keys_are_drawn_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = iter([[5, 7, 5], [9, 2, 4]])
        monkeypatch.setattr(noise, "_words", lambda source, kind, count: np.array(next(keys), np.uint64))
        assert noise.permutation(3).tolist() == [1, 2, 0]

    def test_a_silent_source_stops_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "urandom", bytes)
        with pytest.raises(errors.RandomnessFailure):
            noise.permutation(3)
