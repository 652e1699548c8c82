"""The learners without privacy: what privacy costs is measured against them, so they must be right themselves."""

import collections
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import baselines
from discretion.learning import features as maps
from discretion.learning.schemas import Discrete, Schema
from discretion.learning.trajectories import Trajectories, block_of
from tests import curators, transcriptions, worlds
from tests.worlds import END, PLANE, World

RANGES = ((0.0, 1.0), (-1.0, 3.0), (2.0, 4.0))


@functools.cache
def ragged(seed: int) -> World:
    rng = np.random.default_rng(seed)
    mdp = worlds.tabular_mdp(rng, 1 + seed % 5, 4, 3)
    return worlds.sample(rng, mdp, 120, reward=RANGES[seed % 3], per_unit=2)


@functools.cache
def plentiful(kind: str, seed: int) -> tuple[World, worlds.Mdp, maps.Table]:
    """Enough full episodes of a problem for every learner to find its way, and features under which it is linear."""
    rng = np.random.default_rng([seed, len(kind)])
    table = worlds.simplex_features(rng, 5, 3, 4) if kind == "linear" else maps.one_hot(5, 3)
    mdp = worlds.linear_mdp(rng, 4, table) if kind == "linear" else worlds.tabular_mdp(rng, 4, 5, 3)
    return worlds.sample(rng, mdp, 4000, cuts=0.0), mdp, table


def empirical(world: World, penalty: Callable[[int, float], float], table: Any = None) -> Any:
    """Dynamic programming on the model that was seen, in loops; an unseen (s, a) is worth nothing."""
    schema, reward = world.schema, transcriptions.Reward(world, table)
    H, S, A = schema.horizon, 4, schema.actions
    scores, value = np.zeros((H, S, A)), dict.fromkeys([*range(S), END, None], 0.0)
    for h in reversed(range(H)):
        seen = collections.defaultdict(list)
        for record in world.records(h):
            gain = value[record.successor] + reward.arriving(record.successor)
            seen[record.state, record.action].append((gain, record.reward))
        for (s, a), pairs in seen.items():
            gains = [gain for gain, _ in pairs]
            mean = sum(gains) / len(gains)
            variance = sum((gain - mean) ** 2 for gain in gains) / len(gains)
            r = sum(x for _, x in pairs) / len(pairs) if table is None else reward.paid(h, s, a)
            scores[h, s, a] = min(max(r + mean - penalty(len(gains), variance), 0.0), H - h)
        value = {s: scores[h, s].max() for s in range(S)} | {END: world.scaled(0.0) * (H - h), None: 0.0}
    return scores


def assert_decides(found: worlds.Learned, scores: Any) -> None:
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-12)
    alone = worlds.untied(scores)
    np.testing.assert_array_equal(found.rule.decisions[alone], scores.argmax(axis=2)[alone])
    np.testing.assert_array_equal(found.rule.learned, scores.max(axis=2) > 0)
    assert (scores > 0.01).any()


class TestValueIteration:
    @pytest.mark.parametrize("seed", range(10))
    def test_it_is_dynamic_programming_on_the_empirical_model(self, seed: int) -> None:
        world = ragged(seed)
        found = worlds.watched(baselines.value_iteration, world.trajectories)
        assert_decides(found, empirical(world, lambda n, variance: 0.0))

    @pytest.mark.parametrize("form", worlds.FORMS)
    @pytest.mark.parametrize("seed", range(5))
    def test_it_takes_rewards_that_are_known(self, seed: int, form: str) -> None:
        world = ragged(seed)
        reward = worlds.known(np.random.default_rng(seed), world.schema, form)
        found = worlds.watched(baselines.value_iteration, world.trajectories, reward=reward)
        assert_decides(found, empirical(world, lambda n, variance: 0.0, reward.table))

    @pytest.mark.parametrize("seed", range(3))
    def test_it_finds_the_optimum_with_enough_data(self, seed: int) -> None:
        world, mdp, _ = plentiful("tabular", seed)
        decisions, best = mdp.optimum()
        found = worlds.watched(baselines.value_iteration, world.trajectories)
        assert mdp.worth(found.rule.decisions) > best - 0.02
        assert (found.rule.decisions == decisions).mean() > 0.8
        assert mdp.start @ found.rule.scores[0] == pytest.approx(best, abs=0.1)


class TestApvi:
    @pytest.mark.parametrize("seed", range(10))
    def test_it_is_value_iteration_with_a_bernstein_penalty(self, seed: int) -> None:
        world = ragged(seed)
        H, iota = world.schema.horizon, math.log(world.schema.horizon * 4 * 3 / 0.2)
        found = worlds.watched(baselines.apvi, world.trajectories, c1=0.4, c2=0.03, delta=0.2)
        expected = empirical(world, lambda n, v: 0.4 * math.sqrt(v * iota / n) + 0.03 * H * iota / n)
        assert_decides(found, expected)

    @pytest.mark.parametrize("seed", range(10))
    def test_it_is_value_iteration_with_a_hoeffding_penalty(self, seed: int) -> None:
        world = ragged(seed)
        H, iota = world.schema.horizon, math.log(world.schema.horizon * 4 * 3 / 0.1)
        found = worlds.watched(baselines.apvi, world.trajectories, c1=0.1, c2=0.03, pessimism="hoeffding")
        expected = empirical(world, lambda n, v: 0.1 * H * math.sqrt(iota / n) + 0.03 * H * iota / n)
        assert_decides(found, expected)

    def test_its_constants_are_those_of_its_authors(self) -> None:
        world = plentiful("tabular", 0)[0]
        plain = worlds.watched(baselines.apvi, world.trajectories)
        stated = worlds.watched(baselines.apvi, world.trajectories, c1=math.sqrt(2), c2=7 / 3, delta=0.1)
        np.testing.assert_array_equal(plain.scores, stated.scores)

    @pytest.mark.parametrize("seed", range(3))
    def test_it_approaches_the_optimum_with_enough_data(self, seed: int) -> None:
        world, mdp, _ = plentiful("tabular", seed)
        found = worlds.watched(baselines.apvi, world.trajectories, c1=0.5, c2=0.1)
        _, best = mdp.optimum()
        assert mdp.worth(found.rule.decisions) > best - 0.1
        assert mdp.start @ found.rule.scores[0] < best

    def test_where_it_knows_nothing_it_does_what_was_done_most(self) -> None:
        world = ragged(4)
        found = worlds.watched(baselines.apvi, world.trajectories, c1=0.0, c2=1e6)
        cloned = baselines.behaviour_cloning(world.trajectories)
        assert not found.rule.learned.any()
        np.testing.assert_array_equal(found.rule.decisions, cloned.rule.decisions)  # type: ignore[union-attr]


class TestBehaviourCloning:
    @pytest.mark.parametrize("seed", range(5))
    def test_it_copies_the_most_frequent_action(self, seed: int) -> None:
        world = ragged(seed)
        released = baselines.behaviour_cloning(world.trajectories)
        for step in range(world.schema.horizon):
            done = collections.Counter((record.state, record.action) for record in world.records(step))
            for state in range(4):
                counts = [done[state, action] for action in range(3)]
                decision = released.decide(step + 1, state)
                assert counts[decision.action] == max(counts)
                assert decision.source == ("learned" if sum(counts) else "fallback")
                assert decision.pessimistic_score == 0

    def test_it_finds_the_behaviour_with_enough_data(self) -> None:
        world, mdp, _ = plentiful("tabular", 1)
        rule: Any = baselines.behaviour_cloning(world.trajectories).rule
        ordered = np.sort(mdp.behaviour, axis=2)
        clear = ordered[..., -1] - ordered[..., -2] > 0.1
        assert clear.mean() > 0.5
        np.testing.assert_array_equal(rule.decisions[clear], mdp.behaviour.argmax(axis=2)[clear])

    def test_vector_states_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="discrete states"):
            baselines.behaviour_cloning(Trajectories(Schema(2, PLANE, 2), 1, []))

    def test_a_hundred_thousand_states_are_copied_and_planned_for(self) -> None:
        """Of which no table over pairs of states could be held."""
        draw, schema = np.random.default_rng(0), Schema(2, Discrete(100_000), 3)
        states, actions = draw.integers(100_000, size=(2, 50)), draw.integers(3, size=(2, 50))
        data = Trajectories(schema, 50, [block_of(states, actions, np.ones((2, 50)))])
        copied: Any = baselines.behaviour_cloning(data).rule
        planned: Any = baselines.value_iteration(data).rule
        for rule in (copied, planned):
            assert (rule.decisions[1][states[1]] == actions[1]).all()
        assert (planned.scores[0][states[0]] == 2.0).all()


def regressed(
    world: World, features: maps.FeatureMap, C: float, D: float, *, split: bool, weighted: bool, table: Any = None
) -> Any:
    """The transcription without noise, as scores of every state or of some places."""
    d = maps.dimension(features)
    constants = transcriptions.LinearConstants(0.7, C, D, split, weighted)
    nothing = transcriptions.no_noise(world, d)
    steps = transcriptions.dp_vapvi(world, curators.flat(features), d, nothing, constants, table)
    return np.array([[step.Q(state) for state in places(world, features)] for step in steps])


def places(world: World, features: maps.FeatureMap) -> list[Any]:
    if isinstance(features, maps.Table):
        return list(range(features.states))
    return [episode.states[0] for episode in world.episodes[:15]]


def mapped(kind: str, seed: int) -> tuple[World, maps.FeatureMap]:
    rng = np.random.default_rng(seed)
    mdp = worlds.tabular_mdp(rng, 6, 4, 2, ends=0.2)
    world = worlds.sample(rng, mdp, 101, reward=RANGES[2 * (seed % 2)], per_unit=2)
    if kind == "table":
        return world, worlds.signed_features(rng, 4, 2, 3)
    scattered = worlds.scattered(rng, world)
    if kind == "bins":
        return scattered, maps.Bins.of(PLANE, 2, {"x": [-0.2, 0.3]})
    return scattered, maps.Blocks(PLANE, 2, ("1", "x"))


def scores_of(world: World, features: maps.FeatureMap, learn: Any, **constants: Any) -> Any:
    if isinstance(features, maps.Blocks):
        rule = learn(world.trajectories, features, ridge=0.7, **constants).rule
        return np.stack([score.of(features.psi(np.array(places(world, features)))).T for score in rule.scores])
    found = worlds.watched(learn, world.trajectories, features, ridge=0.7, **constants)
    return found.scores[:, [curators.cell(features, place) for place in places(world, features)]]


KINDS = pytest.mark.parametrize(("kind", "precision"), [("table", 1e-10), ("bins", 1e-10), ("blocks", 1e-8)])


class TestVapvi:
    @KINDS
    @pytest.mark.parametrize("split", [False, True])
    def test_it_is_the_paper_s_algorithm_without_noise(self, split: bool, kind: str, precision: float) -> None:
        for seed in range(2):
            world, features = mapped(kind, seed)
            ours = scores_of(world, features, baselines.vapvi, c=0.05, d=2.0, split=split)
            theirs = regressed(world, features, 0.05, 2.0, split=split, weighted=True)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=precision)
            assert (ours > 0.05).any()

    @pytest.mark.parametrize("form", worlds.FORMS)
    def test_it_takes_rewards_that_are_known(self, form: str) -> None:
        world, features = mapped("table", 1)
        reward = worlds.known(np.random.default_rng(1), world.schema, form)
        ours = scores_of(world, features, baselines.vapvi, c=0.05, reward=reward)
        theirs = regressed(world, features, 0.05, 0.0, split=False, weighted=True, table=reward.table)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
        assert (ours > 0.05).any()

    @pytest.mark.parametrize("kind", ["tabular", "linear"])
    @pytest.mark.parametrize("seed", range(2))
    def test_it_approaches_the_optimum_with_enough_data(self, seed: int, kind: str) -> None:
        world, mdp, table = plentiful(kind, seed)
        found = worlds.watched(baselines.vapvi, world.trajectories, table, c=0.02)
        assert mdp.worth(found.rule.decisions) > mdp.optimum()[1] - 0.1

    def test_a_map_of_another_schema_is_refused(self) -> None:
        with pytest.raises(errors.InvalidFeatures, match="discrete states"):
            baselines.vapvi(ragged(0).trajectories, maps.one_hot(9, 3))


class TestPevi:
    @KINDS
    def test_it_is_vapvi_with_unit_weights_and_its_own_penalty(self, kind: str, precision: float) -> None:
        """C·d·H where VAPVI has C·√d."""
        for seed in range(2):
            world, features = mapped(kind, seed)
            ours = scores_of(world, features, baselines.pevi, c=0.002)
            c = 0.002 * math.sqrt(maps.dimension(features)) * world.schema.horizon
            theirs = regressed(world, features, c, 0.0, split=False, weighted=False)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=precision)
            assert (ours > 0.05).any()

    def test_on_two_steps_vapvi_is_the_same_up_to_the_penalty(self) -> None:
        """The value of one step lies in [0, 1], so no variance passes 1."""
        rng = np.random.default_rng(8)
        world = worlds.sample(rng, worlds.tabular_mdp(rng, 2, 4, 2), 100)
        features = worlds.signed_features(rng, 4, 2, 3)
        weighted = worlds.watched(baselines.vapvi, world.trajectories, features, c=0.06)
        plain = worlds.watched(baselines.pevi, world.trajectories, features, c=0.06 / (math.sqrt(3) * 2))
        np.testing.assert_allclose(weighted.scores, plain.scores, rtol=0, atol=1e-12)

    def test_on_many_steps_vapvi_is_not_the_same(self) -> None:
        rng = np.random.default_rng(9)
        long = worlds.sample(rng, worlds.tabular_mdp(rng, 9, 4, 2, ends=0.2), 300)
        features = worlds.simplex_features(rng, 4, 2, 3)
        weighted = worlds.watched(baselines.vapvi, long.trajectories, features, c=0.01)
        plain = worlds.watched(baselines.pevi, long.trajectories, features, c=0.01 / (math.sqrt(3) * 9))
        assert np.abs(weighted.scores - plain.scores).max() > 1e-3

    @pytest.mark.parametrize("kind", ["tabular", "linear"])
    @pytest.mark.parametrize("seed", range(2))
    def test_it_approaches_the_optimum_with_enough_data(self, seed: int, kind: str) -> None:
        world, mdp, table = plentiful(kind, seed)
        found = worlds.watched(baselines.pevi, world.trajectories, table, c=0.001)
        assert mdp.worth(found.rule.decisions) > mdp.optimum()[1] - 0.1
