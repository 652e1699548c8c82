"""Feature maps at work: binned trajectories, regressions over bins, each record's values its own to the last bit."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import features, sums, vapvi
from discretion.learning.counts import RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Answer, Concentrated, Curator, Query
from discretion.learning.features import ONE, Bins, Blocks, Table
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import Block, Trajectories, block_of
from discretion.learning.values import (
    LinearDeviation,
    LinearScore,
    LinearValue,
    TableDeviation,
    TableValue,
    linear_score,
    on_grid,
)

VECTOR = Vector(("age", "pulse"), ((0.0, 100.0), (-1.0, 3.0)))

# --- binned trajectories -----------------------------------------------------------------------------------------


def vectors(rng: np.random.Generator, *shape: int) -> Any:
    inside = rng.uniform(VECTOR.low, VECTOR.high, (*shape, 2))
    return np.where(rng.random(inside.shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf], inside.shape), inside)


class TestBinned:
    @pytest.mark.parametrize("dynamics", ["per_step", "stationary"])
    def test_binned_trajectories_are_those_of_the_cells(self, dynamics: Any) -> None:
        rng, size = np.random.default_rng(0), 80
        schema = Schema(3, VECTOR, 2)
        block = Block(
            units=np.arange(size),
            lengths=rng.integers(0, 4, size),
            states=vectors(rng, 3, size),
            actions=rng.integers(0, 2, (3, size)),
            rewards=rng.random((3, size)),
            endings=rng.integers(0, 3, size),
            final=vectors(rng, size),
        )

        def cell(state: Any) -> int:
            if any(math.isnan(x) for x in state):
                return -1
            return 2 * (int(state[0] >= 18) + int(state[0] >= 65)) + int(state[1] >= 0.5)

        direct = replace(
            block, states=np.apply_along_axis(cell, -1, block.states), final=np.apply_along_axis(cell, -1, block.final)
        )
        bins = Bins.of(VECTOR, 2, {"age": [18.0, 65.0], "pulse": [0.5]})
        found = features.binned(Trajectories(schema, size, [block]), bins)
        expected = Trajectories(replace(schema, states=Discrete(6)), size, [direct])
        assert found.schema == expected.schema
        asked: Any = [kind(found.schema, dynamics) for kind in (VisitCounts, TransitionCounts, RewardSums)]
        for one, other in zip(sums.totals(asked, found), sums.totals(asked, expected), strict=True):
            assert (one == other).all()
            assert one.any()
        # And what the linear learners count in the same cells is the same.
        if dynamics == "per_step":
            (gram,) = sums.totals([Gram(schema, bins, 2)], Trajectories(schema, size, [block]))
            assert (gram.reshape(6, 2) == sums.totals(asked[:1], found)[0][2] * ONE**2).all()

    def test_they_can_be_read_again_and_must_fit_the_bins(self) -> None:
        schema = Schema(3, VECTOR, 2)
        bins = Bins.of(VECTOR, 2, {"age": [18.0]})
        assert [len(list(features.binned(Trajectories(schema, 1, []), bins).blocks)) for _ in range(2)] == [0, 0]
        with pytest.raises(errors.InvalidFeatures):
            features.binned(Trajectories(Schema(3, Discrete(2), 2), 1, []), bins)


class TestRegressions:
    """Grams and moments, each record by hand: what is truncated is φ/σ̃ and y/σ̃, and nothing after it."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("power", [1, 2])
    def test_a_table_is_summed_record_by_record(self, weighted: bool, power: int) -> None:
        rng, size = np.random.default_rng(power), 50
        table = Table(rng.uniform(-0.5, 0.5, (3, 2, 4)))
        sigma = 1 + rng.random((3, 2)) * weighted
        deviation = TableDeviation(sigma) if weighted else None
        value = TableValue(rng.uniform(0, 2, 4))
        schema = Schema(2, Discrete(3), 2)
        states, actions = rng.integers(0, 3, (2, size)), rng.integers(0, 2, (2, size))
        rewards = rng.random((2, size))
        block = block_of(states, actions, rewards, final=rng.integers(0, 3, size))
        gram, moment = np.zeros((4, 4), dtype=object), np.zeros(4, dtype=object)
        for s, a, r, following in zip(states[1], actions[1], rewards[1], block.final, strict=True):
            psi = np.array([int(x) for x in table.psi[s, a] / sigma[s, a]], dtype=object)
            target = (r + value.values[following] ** power) / sigma[s, a]
            gram += np.outer(psi, psi)
            moment += psi * int(min(target, 2.0) * ONE)
        common = (schema, table, 1, "everyone", deviation)
        asked: Any = [Gram(*common), Moment(*common, bound=2, reward=True, value=value, squared=power == 2)]
        found = sums.totals(asked, Trajectories(schema, size, [block]))
        assert (found[0][0] == gram).all()
        assert (found[1][0] == moment).all()


# --- purity ------------------------------------------------------------------------------------------------------

WIDTHS = pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 17, 40])


def check_pure(evaluate: Callable[[Any], Any], rows: int) -> None:
    """A record gives the same bits alone, in company, and in any other company; records are along the last axis."""
    everyone = np.arange(rows)
    together = evaluate(everyone)
    for size in (1, 2, 3, 5, 8, 100):
        apart = [evaluate(everyone[start : start + size]) for start in range(0, rows, size)]
        assert np.concatenate(apart, axis=-1).tobytes() == together.tobytes(), f"in groups of {size}"
    turned = evaluate(everyone[::-1].copy())
    assert np.ascontiguousarray(turned[..., ::-1]).tobytes() == together.tobytes()


def continuous(width: int, rows: int = 301) -> tuple[Blocks, Any, Any]:
    names = tuple(f"c{index}" for index in range(width))
    blocks = Blocks(Vector(names, ((-1.0, 1.0),) * width), 3, names)
    rng = np.random.default_rng(width)
    return blocks, rng.uniform(-1.1, 1.1, (rows, width)), rng


class TestPurity:
    @WIDTHS
    def test_features_are_a_records_own(self, width: int) -> None:
        blocks, states, _ = continuous(width)
        check_pure(lambda rows: np.ascontiguousarray(blocks.psi(states[rows]).T), len(states))

    @WIDTHS
    def test_scores_are_a_records_own(self, width: int) -> None:
        blocks, states, rng = continuous(width)
        root = rng.normal(size=(3, width, width))
        inverse = root @ root.transpose(0, 2, 1)
        score = linear_score(rng.normal(size=(3, width)) * 30, inverse, 0.3, -1.0, 1e6, 1.0 / width)
        psi = blocks.psi(states)
        check_pure(lambda rows: score.judged(psi[rows])[0], len(psi))
        check_pure(lambda rows: score.spread(psi[rows]), len(psi))
        check_pure(lambda rows: score.of(psi[rows]), len(psi))

    @WIDTHS
    def test_deviations_are_a_records_own(self, width: int) -> None:
        blocks, states, rng = continuous(width)
        square, mean = (on_grid(rng.normal(size=(3, width)) * scale) for scale in (50, 3))
        deviation = LinearDeviation(square, mean, 9.0)
        psi, actions = blocks.psi(states), rng.integers(0, 3, len(states))
        check_pure(lambda rows: deviation.of(psi[rows], actions[rows]), len(psi))

    def test_the_score_is_the_formula_it_says(self) -> None:
        blocks, states, rng = continuous(4)
        root, weights = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4))
        inverse = root @ root.transpose(0, 2, 1)
        phi = blocks.psi(states) / ONE
        raw = phi @ weights.T - 0.1 * np.sqrt(np.einsum("ri,aij,rj->ra", phi, inverse, phi)) - 0.01
        found = linear_score(weights, inverse, 0.1, 0.01, 0.5).of(blocks.psi(states)).T
        assert found == pytest.approx(np.clip(raw, 0.0, 0.5), abs=1e-7)

    @pytest.mark.parametrize("width", [3, 9])
    def test_what_a_learner_hands_to_the_curator_is_a_records_own(self, width: int) -> None:
        blocks, states, rng = continuous(width)
        asked: list[Any] = []

        class Watched(Curator):
            def ask(self, *queries: Query) -> list[Answer]:
                asked.extend(query.statistic for query in queries)
                return super().ask(*queries)

        schema = Schema(3, blocks.vector, 3)
        parameters = vapvi.Parameters(blocks, variance="estimated", ridge=0.01, e=0.0, c=0.001)
        share = Concentrated(Fraction(1))
        vapvi.learn(Watched(Trajectories(schema, 100, []), share.rho), share, parameters)
        psi, actions = blocks.psi(states), rng.integers(0, 3, len(states))
        deviations = [s.deviation for s in asked if isinstance(s.deviation, LinearDeviation)]
        scores: list[LinearScore] = [
            s.value.score for s in asked if isinstance(s, Moment) and isinstance(s.value, LinearValue)
        ]
        assert deviations
        assert scores
        for deviation in deviations:
            check_pure(lambda rows, d=deviation: d.of(psi[rows], actions[rows]), len(psi))  # type: ignore[misc]
        for score in scores:
            check_pure(lambda rows, s=score: s.of(psi[rows]), len(psi))  # type: ignore[misc]
