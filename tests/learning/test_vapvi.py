"""DP-VAPVI against its non-private counterpart, against the paper line by line, and against its own promises."""

import functools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discretion import errors
from discretion.learning import baselines, policy, rewards, values, vapvi
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Pure
from discretion.learning.schemas import Discrete, Schema
from discretion.privacy import events
from tests import curators, transcriptions, worlds
from tests.curators import Attentive, Coupled, FloatCoupled, FloatZeroNoise, ZeroNoise, regression_noise
from tests.worlds import PLANE, World

RHO = Concentrated(Fraction(5))
RANGES = ((0.0, 1.0), (-1.0, 3.0), (2.0, 4.0))
KINDS = ("mixtures", "signed", "one-hot", "bins", "blocks")
FINITE = KINDS[:4]
TABLES = KINDS[:3]
# `tight` on finite maps is another estimator; see test_vapvi_finite.py.
MODES: dict[str, dict[str, Any]] = {
    "paper": {"calibration": "paper"},
    "paper, split": {"calibration": "paper", "split": True},
    "tight": {"calibration": "tight", "variance": "estimated"},
    "tight, split": {"calibration": "tight", "variance": "estimated", "split": True},
}
PAPERS = [mode for mode in MODES if mode.startswith("paper")]
AS_PRINTED = [(kind, mode) for kind in KINDS for mode in MODES if kind == "blocks" or mode in PAPERS]


@functools.cache
def problem(kind: str, seed: int = 0, units: int = 151) -> tuple[World, maps.FeatureMap]:
    """Ragged data of a random problem, several trajectories in some units and none in others, and a map for it.

    Rewards are high and many trajectories end early, so that the variance of the next value often passes 1.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    horizon, states, actions = 6 + seed % 2, 5, 2 + seed % 2
    table = {
        "mixtures": functools.partial(worlds.simplex_features, rng, states, actions, 4),
        "signed": functools.partial(worlds.signed_features, rng, states, actions, 4),
    }.get(kind, functools.partial(maps.one_hot, states, actions))()
    linear = worlds.linear_mdp(rng, horizon, table, ends=0.2) if kind == "mixtures" else None
    mdp = linear or worlds.tabular_mdp(rng, horizon, states, actions, ends=0.2)
    mdp = replace(mdp, reward=0.7 + 0.3 * mdp.reward)
    world = worlds.sample(rng, mdp, units, reward=RANGES[seed % 3], per_unit=2 - seed % 2, cuts=0.02)
    if kind in TABLES:
        return world, table
    scattered = worlds.scattered(rng, world)
    if kind == "bins":
        return scattered, maps.Bins.of(PLANE, actions, {"y": [2.0, 5.0, 7.5], "x": [0.1]})
    return scattered, maps.Blocks(PLANE, actions, ("1", "y", "x"))


def parameters_of(features: maps.FeatureMap, **constants: Any) -> vapvi.Parameters:
    return vapvi.Parameters(features, **({"c": 0.05, "d": 1.5, "e": 0.0, "ridge": 0.7} | constants))


def places(world: World) -> list[Any]:
    """States to look at: all of them, or those the episodes visited."""
    if isinstance(world.schema.states, Discrete):
        return list(range(world.schema.states.count))
    return [state for episode in world.episodes[:20] for state in episode.states]


def learned(features: maps.FeatureMap, world: World, learn: Any, *arguments: Any, **named: Any) -> tuple[Any, Any]:
    """Exact scores (H, places, A) and decisions (H, places) of whatever was learned."""
    if not isinstance(features, maps.Blocks):
        watched = worlds.watched(learn, *arguments, **named)
        cells = [curators.cell(features, state) for state in places(world)]
        return watched.scores[:, cells], watched.rule.decisions[:, cells]
    rule = learn(*arguments, **named).rule
    assert isinstance(rule, policy.Linear)
    psi, states = features.psi(np.array(places(world))), [np.array(state) for state in places(world)]
    decisions = [[rule.decide(step, state)[0] for state in states] for step in range(len(rule.scores))]
    return np.stack([score.of(psi).T for score in rule.scores]), np.array(decisions)


def assert_same(ours: tuple[Any, Any], theirs: tuple[Any, Any], tolerance: float) -> None:
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=tolerance)
    alone = worlds.untied(theirs[0], 10 * tolerance)
    np.testing.assert_array_equal(ours[1][alone], theirs[1][alone])
    ceilings = np.arange(len(ours[0]), 0, -1)[:, None, None]
    assert ((ours[0] > 0.01) & (ours[0] < ceilings - 0.01)).mean() > 0.2, "too few scores between the bounds"


def precision(features: maps.FeatureMap, finest: float) -> float:
    return 1e-8 if isinstance(features, maps.Blocks) else finest  # blocks round weights to 2⁻³⁴ of the largest


class TestLearnWithoutNoise:
    def check(self, kind: str, mode: str, form: str | None = None) -> None:
        for seed in range(3):
            world, features = problem(kind, seed)
            reward = None if form is None else worlds.known(np.random.default_rng(seed), world.schema, form)
            parameters = parameters_of(features, reward=reward, **MODES[mode])
            ours = learned(features, world, vapvi.learn, FloatZeroNoise(world), RHO, parameters)
            theirs = learned(
                features, world, baselines.vapvi, world.trajectories, features, ridge=0.7, c=0.05, d=1.5,
                split=parameters.split, reward=reward,
            )  # fmt: skip
            assert_same(ours, theirs, precision(features, 1e-12))

    @pytest.mark.parametrize(("kind", "mode"), AS_PRINTED)
    def test_it_is_vapvi(self, kind: str, mode: str) -> None:
        self.check(kind, mode)

    @pytest.mark.parametrize("kind", FINITE)
    def test_the_estimated_variance_has_an_effect_in_these_problems(self, kind: str) -> None:
        world, features = problem(kind, 2)
        curator = Attentive(world.trajectories)
        vapvi.learn(curator, RHO, parameters_of(features, **MODES["paper"]))
        assert len(curator.deviations) == world.schema.horizon
        assert (curator.deviations[-1].values > 1.05).mean() > 0.2

    def test_it_is_vapvi_with_a_deviation_of_one_by_default(self) -> None:
        """PEVI is that, once its penalty C·d·H is divided by √d·H."""
        for seed in range(3):
            world, features = problem("blocks", seed)
            parameters = parameters_of(features, d=0.0)
            ours = learned(features, world, vapvi.learn, FloatZeroNoise(world), RHO, parameters)
            c = 0.05 / (math.sqrt(maps.dimension(features)) * world.schema.horizon)
            theirs = learned(features, world, baselines.pevi, world.trajectories, features, ridge=0.7, c=c)
            assert_same(ours, theirs, precision(features, 1e-12))

    @pytest.mark.parametrize("mode", PAPERS)
    @pytest.mark.parametrize("form", worlds.FORMS)
    @pytest.mark.parametrize("kind", TABLES)
    def test_it_is_vapvi_with_known_rewards(self, kind: str, form: str, mode: str) -> None:
        self.check(kind, mode, form)

    @pytest.mark.parametrize(("kind", "mode"), AS_PRINTED)
    def test_the_integer_path_is_close_to_the_real_numbers(self, kind: str, mode: str) -> None:
        for seed in range(3):
            world, features = problem(kind, seed)
            parameters = parameters_of(features, **MODES[mode])
            ours = learned(features, world, vapvi.learn, ZeroNoise(world.trajectories), RHO, parameters)
            assert_same(ours, learned(features, world, vapvi.learn, FloatZeroNoise(world), RHO, parameters), 1e-3)


def literally(
    world: World, parameters: vapvi.Parameters, noise: curators.Noise, *, weighted: bool, E: float
) -> tuple[Any, Any]:
    features, reward = parameters.features, parameters.reward
    constants = transcriptions.LinearConstants(
        parameters.ridge, parameters.c, parameters.d, parameters.split, weighted, parameters.calibration == "tight"
    )
    d, given = maps.dimension(features), curators.as_in_the_paper(noise, features, world.schema.horizon, E)
    table = None if reward is None else reward.table
    steps = transcriptions.dp_vapvi(world, curators.flat(features), d, given, constants, table)
    scores = np.array([[step.Q(state) for state in places(world)] for step in steps])
    coverage = np.array([[step.coverage(state) for state in places(world)] for step in steps])
    best = scores
    if parameters.calibration == "tight":  # of actions that were seen
        phi, actions = curators.flat(features), range(world.schema.actions)
        lengths = [[float(phi(state, a) @ phi(state, a)) for a in actions] for state in places(world)]
        asked = vapvi.mechanisms(world.schema, world.units, RHO, parameters)
        v, p = next(float(event.scale) for event in asked if "weighted Gram" in event.statistic), features.width
        alone = parameters.ridge + E / 2 + 2 * math.sqrt(p * v) + 3 * math.sqrt(2 * v)
        best = np.where(np.array(lengths) / coverage >= alone, scores, 0.0)
    return scores, np.where(best.max(axis=2) > 0, best.argmax(axis=2), coverage.argmin(axis=2))


class TestLearnAgainstThePaper:
    @pytest.mark.parametrize(("kind", "mode"), [*AS_PRINTED, ("blocks", "one")])
    def test_it_agrees_line_by_line_on_the_same_noise(self, kind: str, mode: str) -> None:
        world, features = problem(kind, 2)
        parameters = parameters_of(features, e=2.0, **MODES.get(mode, {}))
        noise = regression_noise(np.random.default_rng(3), world.schema, Concentrated(Fraction(10**4)), parameters)
        ours = learned(features, world, vapvi.learn, FloatCoupled(world, noise), RHO, parameters)
        theirs = literally(world, parameters, noise, weighted=mode != "one", E=2.0)
        assert_same(ours, theirs, precision(features, 1e-9))
        quantised = learned(features, world, vapvi.learn, Coupled(world.trajectories, noise), RHO, parameters)
        assert_same(quantised, theirs, 1e-3)

    @pytest.mark.parametrize("mode", PAPERS)
    @pytest.mark.parametrize("form", worlds.FORMS)
    def test_it_agrees_line_by_line_with_known_rewards(self, form: str, mode: str) -> None:
        world, features = problem("mixtures", 1)
        reward = worlds.known(np.random.default_rng(5), world.schema, form)
        parameters = parameters_of(features, e=2.0, reward=reward, **MODES[mode])
        noise = regression_noise(np.random.default_rng(4), world.schema, Concentrated(Fraction(10**4)), parameters)
        ours = learned(features, world, vapvi.learn, FloatCoupled(world, noise), RHO, parameters)
        assert_same(ours, literally(world, parameters, noise, weighted=True, E=2.0), 1e-9)

    @pytest.mark.parametrize("kind", ["mixtures", "bins", "blocks"])
    def test_the_paper_s_own_shift_makes_room_for_the_noise(self, kind: str) -> None:
        """E = 2√(pv)·(2 + (log(5HG/δ)/p)^⅔) with v = 1/2ρ₀."""
        world, features = problem(kind, 0)
        parameters = parameters_of(features, e=None, calibration="paper", delta=0.3)
        noise = regression_noise(np.random.default_rng(4), world.schema, Concentrated(Fraction(10**4)), parameters)
        ours = learned(features, world, vapvi.learn, FloatCoupled(world, noise), RHO, parameters)
        p, H = features.width, world.schema.horizon
        v = world.schema.per_unit**2 / (2 * 5 / (5 * H))
        E = 2 * math.sqrt(p * v) * (2 + (math.log(5 * H * features.groups / 0.3) / p) ** (2 / 3))
        assert_same(ours, literally(world, parameters, noise, weighted=True, E=E), precision(features, 1e-8))

    def test_eigenvalues_that_only_noise_can_explain_are_lifted_to_the_ridge(self) -> None:
        world, features = problem("blocks")
        parameters = parameters_of(features, e=0.5, ridge=0.25)
        noise = dict(regression_noise(np.random.default_rng(0), world.schema, RHO, parameters))
        for name, drawn in noise.items():
            if "Gram" in name:
                noise[name] = np.zeros_like(drawn) - 10**6 * 2**32 * np.eye(3, dtype=np.int64)
        rule = vapvi.learn(Coupled(world.trajectories, noise), RHO, parameters).rule
        assert isinstance(rule, policy.Linear)
        psi = features.psi(np.array(places(world)))  # type: ignore[operator]
        expected = np.tile((psi**2).sum(axis=1) / 2**32 / 0.25, (features.actions, 1))
        for score in rule.scores:
            np.testing.assert_allclose(score.spread(psi), expected, rtol=1e-8)


class TestLearnedWeights:
    @pytest.mark.parametrize("mode", ["paper", "tight"])
    def test_a_record_s_deviation_is_its_own_whatever_stands_beside_it(self, mode: str) -> None:
        """Bit for bit: the sensitivity of the weighted sums rests on it."""
        world, features = problem("blocks", 1, units=400)
        assert isinstance(features, maps.Blocks)
        asked = Attentive(world.trajectories)
        vapvi.learn(asked, RHO, parameters_of(features, **MODES[mode]))
        states = np.array([state for episode in world.episodes for state in episode.states])
        psi, actions = features.psi(states), np.arange(len(states)) % features.actions
        for deviation in asked.deviations:
            alone = [deviation.of(psi[i : i + 1], actions[i : i + 1])[0] for i in range(len(psi))]
            np.testing.assert_array_equal(deviation.of(psi, actions), alone)
        assert max(alone) > 1

    @pytest.mark.parametrize("width", [3, 9, 20])
    def test_a_record_s_score_is_its_own_whatever_stands_beside_it(self, width: int) -> None:
        rng = np.random.default_rng(width)
        rows: Any = rng.normal(size=(2, 50, width))
        score = values.linear_score(rows[:, 0], np.linalg.inv(rows.swapaxes(1, 2) @ rows), 0.3, 0.0, 9.0)
        psi = np.trunc(rng.uniform(-1, 1, size=(200, width)) / math.sqrt(width) * 2**16)
        alone = np.concatenate([score.of(psi[i : i + 1]) for i in range(len(psi))], axis=1)
        np.testing.assert_array_equal(score.of(psi), alone)
        assert ((alone > 0) & (alone < 9)).mean() > 0.2


class TestMechanisms:
    @pytest.mark.parametrize("reward", [None, *worlds.FORMS])
    @pytest.mark.parametrize("mode", [*MODES, "one"])
    def test_they_are_what_a_run_logs_in_order(self, mode: str, reward: str | None) -> None:
        world, features = problem("mixtures", 2)
        table = None if reward is None else worlds.known(np.random.default_rng(0), world.schema, reward)
        parameters = parameters_of(features, reward=table, **MODES.get(mode, {}))
        noise = regression_noise(np.random.default_rng(0), world.schema, RHO, parameters)
        curator = Coupled(world.trajectories, noise, allowance=RHO.rho)
        planned = vapvi.mechanisms(world.schema, world.units, RHO, parameters)
        assert planned == vapvi.mechanisms(world.schema, world.units, RHO, parameters)
        vapvi.learn(curator, RHO, parameters)
        assert list(curator.log) == planned

    @pytest.mark.parametrize("per_unit", [1, 2])
    @pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(7, 4)])
    @pytest.mark.parametrize(
        ("constants", "part"),
        [
            (MODES["paper"], Fraction(1)), (MODES["paper, split"], Fraction(3, 5)), (MODES["tight"], Fraction(1)),
            (MODES["tight, split"], Fraction(1)), ({}, Fraction(1)),
            (MODES["tight"] | {"shares": (3, 1, 4, 1, 5)}, Fraction(1)),
        ],
    )  # fmt: skip
    def test_they_cost_their_part_of_the_budget_and_no_more(
        self, constants: dict[str, Any], part: Fraction, rho: Fraction, per_unit: int
    ) -> None:
        schema, table = Schema(4, Discrete(3), 2, per_unit=per_unit), np.full((3, 2), 0.5)
        for reward in (None, rewards.Known(table), rewards.Known(table[:, 0])):
            parameters = vapvi.Parameters(maps.one_hot(3, 2), reward=reward, **constants)
            spent = events.compose(vapvi.mechanisms(schema, 50, Concentrated(rho), parameters))
            assert spent == part * rho

    def sensitivities(self, **constants: Any) -> Any:
        """Of covariance, square, mean, gram and target, step by step; squared."""
        parameters = vapvi.Parameters(maps.one_hot(3, 2), **constants)
        planned = vapvi.mechanisms(Schema(4, Discrete(3), 2), 50, RHO, parameters)
        steps = sorted({int(e.statistic.rpartition(" ")[2]) for e in planned if ", step " in e.statistic})
        return [tuple(e.sensitivity for e in planned if e.statistic.endswith(f"step {step}")) for step in steps]

    @pytest.mark.parametrize("split", [False, True])
    def test_the_paper_s_sensitivities_are_those_of_the_horizon(self, split: bool) -> None:
        """Squared: Δ_F² = 2 for a Gram matrix; (2H²)², (2H)², (2H)² for the moments."""
        assert self.sensitivities(calibration="paper", split=split) == [(2, 4 * 4**4, 4 * 4**2, 2, 4 * 4**2)] * 4

    def test_tight_sensitivities_of_blocks_shrink_with_the_steps_that_remain(self) -> None:
        """2(H−h)², 2(H−h), 2(H−h+1); at h = H only the Gram matrix and the rewards need data."""
        parameters = vapvi.Parameters(maps.Blocks(PLANE, 2, ("1", "x")), variance="estimated")
        planned = vapvi.mechanisms(Schema(4, PLANE, 2), 50, RHO, parameters)
        found = [[e.sensitivity for e in planned if e.statistic.endswith(f"step {step}")] for step in (1, 2, 3, 4)]
        assert found == [[2, 4 * n**4, 4 * n**2, 2, 4 * (n + 1) ** 2] for n in (3, 2, 1)] + [[2, 4]]

    @pytest.mark.parametrize("split", [False, True])
    def test_tight_sensitivities_of_finite_maps_are_constants(self, split: bool) -> None:
        """Targets come divided by their range; where Ṽ ≤ 2, so at the last three steps, no variance is estimated."""
        both = Fraction(9, 2)
        assert self.sensitivities(variance="estimated", split=split) == [(2, 4, 4, both), (both,), (both,), (both,)]

    def test_a_known_reward_of_an_action_needs_no_data_at_the_last_step(self) -> None:
        both = Fraction(9, 2)
        assert self.sensitivities() == [(both,)] * 4
        assert self.sensitivities(reward=rewards.Known(np.zeros((3, 2)))) == [(both,)] * 3
        assert self.sensitivities(reward=rewards.Known(np.zeros(3))) == [(both,)] * 4

    @pytest.mark.parametrize("shares", [(1, 1, 1, 1, 2), (1, 1, 1, 3, 1), (1, 1, 1, 1, 4), (1, 1, 1, 1, 30)])
    def test_shares_say_what_gram_matrix_and_target_would_cost_apart(self, shares: tuple[int, ...]) -> None:
        """A : B as given, and together (A + B/4)²/A if B ≤ 4A, else B; B may be less by what a grid takes off."""
        parameters = vapvi.Parameters(maps.one_hot(3, 2), shares=shares)
        (joint,) = vapvi.mechanisms(Schema(1, Discrete(3), 2), 50, RHO, parameters)
        alpha = Fraction(parameters.alpha, 2**16)
        A, B = 1 / joint.scale, 2 * alpha**2 / joint.scale
        assert float(B / A) == pytest.approx(shares[4] / shares[3], rel=1e-4)
        assert Fraction(shares[4], shares[3]) >= B / A
        assert events.cost(joint) == RHO.rho == ((A + B / 4) ** 2 / A if B <= 4 * A else B)

    @pytest.mark.parametrize("reward", [None, rewards.Known(np.zeros((1, 3, 2)))])
    def test_a_single_step_costs_the_whole_budget_too(self, reward: rewards.Known | None) -> None:
        parameters = vapvi.Parameters(maps.one_hot(3, 2), reward=reward)
        (joint,) = vapvi.mechanisms(Schema(1, Discrete(3), 2), 50, RHO, parameters)
        assert events.cost(joint) == RHO.rho

    def test_the_paper_s_noise_comes_out(self) -> None:
        """2H⁴/ρ₀, 2H²/ρ₀ and, mended, v = 1/2ρ₀."""
        rho0 = 5 / (5 * 4)
        parameters = vapvi.Parameters(maps.one_hot(3, 2), calibration="paper")
        scales = [float(e.scale) for e in vapvi.mechanisms(Schema(4, Discrete(3), 2), 50, RHO, parameters)[:5]]
        v = 1 / (2 * rho0)
        assert scales == pytest.approx([v, 2 * 4**4 / rho0, 2 * 4**2 / rho0, v, 2 * 4**2 / rho0], rel=1e-8)

    def test_the_halves_are_kept_apart(self) -> None:
        parameters = vapvi.Parameters(maps.one_hot(3, 2), calibration="paper", split=True)
        parts = [event.part for event in vapvi.mechanisms(Schema(1, Discrete(3), 2), 50, RHO, parameters)]
        assert parts == [events.FIRST_HALF] * 3 + [events.SECOND_HALF] * 2

    def test_pure_privacy_is_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="zCDP only: give rho"):
            vapvi.mechanisms(Schema(1, Discrete(3), 2), 50, Pure(Fraction(1)), vapvi.Parameters(maps.one_hot(3, 2)))


class TestParameters:
    @pytest.mark.parametrize("name", ["ridge", "c", "d", "e", "delta"])
    @pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, True, "1"])
    def test_a_constant_that_is_no_usable_number_is_refused_by_name(self, name: str, value: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=rf"^{name}\b.* must be"):
            vapvi.Parameters(maps.one_hot(3, 2), **{name: value})

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"ridge": 0}, "ridge"), ({"delta": 0}, "delta"), ({"delta": 1}, "delta"), ({"c": None}, "c must"),
            ({"calibration": "loose"}, "calibration"), ({"variance": "two"}, "variance"), ({"split": True}, "split"),
            ({"shares": (1, 1)}, "shares"), ({"shares": (1, 1, 1, 1, 0)}, "shares"),
            ({"shares": (1, 1, 1, 1, 1), "calibration": "paper"}, "shares"),
            ({"calibration": "paper", "variance": "one"}, "calibration"),
            ({"shares": (2, 1, 1, 1, 2)}, "first three shares"), ({"delta": 0.2}, "^delta is for the rule"),
            ({"calibration": "paper", "e": 3.0, "delta": 0.2}, "^delta is for the rule"),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_together_is_refused_by_name(self, wrong: dict[str, Any], named: str) -> None:
        with pytest.raises(errors.InvalidParameter, match=named):
            vapvi.Parameters(maps.one_hot(3, 2), **wrong)


class TestCheck:
    def test_a_map_of_another_schema_is_refused(self) -> None:
        for schema in (Schema(2, Discrete(4), 2), Schema(2, Discrete(3), 3), Schema(2, PLANE, 2)):
            with pytest.raises(errors.InvalidFeatures, match=r"actions|discrete states"):
                vapvi.check(schema, vapvi.Parameters(maps.one_hot(3, 2)))

    @pytest.mark.parametrize("kind", ["bins", "blocks"])
    def test_a_reward_table_without_a_feature_table_is_refused(self, kind: str) -> None:
        world, features = problem(kind)
        with pytest.raises(errors.InvalidParameter, match="reward table"):
            vapvi.check(world.schema, parameters_of(features, reward=rewards.Known(np.zeros((5, 2)))))

    def test_a_reward_table_of_another_shape_is_refused(self) -> None:
        parameters = vapvi.Parameters(maps.one_hot(3, 2), reward=rewards.Known(np.zeros((2, 3))))
        with pytest.raises(errors.InvalidParameter, match="reward table has shape"):
            vapvi.check(Schema(2, Discrete(3), 2), parameters)
