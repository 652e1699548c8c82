"""DP-APVI against its non-private counterpart, against the paper line by line, and against its own promises."""

import functools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from discretion import errors
from discretion.learning import apvi, baselines, rewards
from discretion.learning.counts import RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Concentrated, Pure, Share
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.privacy import events
from tests import transcriptions, worlds
from tests.curators import Coupled, Noise, ZeroNoise, count_noise
from tests.worlds import World

Pessimism = Literal["bernstein", "hoeffding"]
PESSIMISMS: tuple[Pessimism, ...] = ("bernstein", "hoeffding")
RANGES = ((0.0, 1.0), (-1.0, 3.0), (2.0, 4.0), (-4.0, -2.0))
BUDGETS: tuple[Share, ...] = (Concentrated(Fraction(60)), Pure(Fraction(40)))
SCHEMA = Schema(3, Discrete(4), 2)


@functools.cache
def world_of(seed: int, units: int = 150, size: tuple[int, int, int] | None = None) -> World:
    """A random problem of varying size, its data ragged, some units with several trajectories or none."""
    rng = np.random.default_rng(seed)
    horizon, states, actions = size or (int(rng.integers(1, most)) for most in (5, 6, 4))
    mdp = worlds.tabular_mdp(rng, horizon, states, actions)
    return worlds.sample(rng, mdp, units, reward=RANGES[seed % 4], per_unit=1 + seed % 3)


def table_of(seed: int, world: World, form: str) -> rewards.Known:
    return worlds.known(np.random.default_rng(seed), world.schema, form)


def informative(scores: Any) -> bool:
    """Something was learned, and not only at a bound."""
    ceilings = np.arange(len(scores), 0, -1)[:, None, None]
    return bool(((scores > 1e-6) & (scores < ceilings - 1e-6)).any())


def assert_same(ours: worlds.Learned, theirs: worlds.Learned) -> None:
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(ours.fallback, theirs.fallback)
    alone = worlds.untied(theirs.scores)
    np.testing.assert_array_equal(ours.rule.decisions[alone], theirs.rule.decisions[alone])
    blank = theirs.scores.max(axis=2) == 0
    np.testing.assert_array_equal(ours.rule.decisions[blank], theirs.rule.decisions[blank])
    np.testing.assert_array_equal(ours.rule.learned, theirs.rule.learned)


class TestLearnWithoutNoise:
    @pytest.mark.parametrize("pessimism", PESSIMISMS)
    @pytest.mark.parametrize("form", worlds.FORMS)
    def test_it_is_apvi_with_known_rewards(self, form: str, pessimism: Pessimism) -> None:
        learned = 0
        for seed in range(24):
            world, c1 = world_of(seed), (math.sqrt(2), 0.3)[seed % 2]
            reward, data = table_of(seed, world, form), world.trajectories
            parameters = apvi.Parameters(c1=c1, reward=reward, pessimism=pessimism, delta=0.2)
            ours = worlds.watched(apvi.learn, ZeroNoise(data), BUDGETS[0], parameters)
            theirs = worlds.watched(baselines.apvi, data, c1=c1, c2=0.0, delta=0.2, reward=reward, pessimism=pessimism)
            assert_same(ours, theirs)
            learned += informative(ours.scores)
        assert learned >= 12

    @pytest.mark.parametrize("seed", range(24))
    def test_it_is_value_iteration_with_observed_rewards_and_no_penalty(self, seed: int) -> None:
        data = world_of(seed).trajectories
        ours = worlds.watched(apvi.learn, ZeroNoise(data), BUDGETS[seed % 2], apvi.Parameters(c1=0.0))
        assert_same(ours, worlds.watched(baselines.apvi, data, c1=0.0, c2=0.0))
        assert informative(ours.scores)

    @pytest.mark.parametrize("seed", range(24))
    def test_an_observed_reward_adds_half_a_step_to_hoeffdings_horizon(self, seed: int) -> None:
        world = world_of(seed)
        parameters = apvi.Parameters(c1=0.2, pessimism="hoeffding")
        ours = worlds.watched(apvi.learn, ZeroNoise(world.trajectories), BUDGETS[0], parameters)
        wider = 0.2 * (1 + 0.5 / world.schema.horizon)
        assert_same(ours, worlds.watched(baselines.apvi, world.trajectories, c1=wider, c2=0.0, pessimism="hoeffding"))


def literal(world: World, noise: Noise, privacy: Share, parameters: apvi.Parameters) -> Any:
    """The transcription with the same noise and an E of its own."""
    schema, shape = world.schema, (world.schema.horizon, *VisitCounts(world.schema).shape[1:])
    H, S, A, m = schema.horizon, shape[1], schema.actions, schema.per_unit
    union = math.log(4 * H * S * (S + 1) * A / parameters.delta)
    shares = parameters.shares if parameters.reward is None else parameters.shares[:2]
    sensitivities = ((2 * H * m, 2 * H * m, H * m), (2 * H * m**2, 2 * H * m**2, H * m**2))

    def bound(which: int) -> float:
        share = shares[which] / sum(shares)
        if isinstance(privacy, Pure):
            return 2 * sensitivities[0][which] / float(privacy.epsilon * Fraction(share)) * union
        variance = sensitivities[1][which] / (2 * float(privacy.rho) * share)
        return 2 * math.sqrt(2) * math.sqrt(variance) * math.sqrt(union)

    rewarded = parameters.reward is None
    given = transcriptions.TabularNoise(
        visits=noise[VisitCounts(schema).name],
        transitions=noise[TransitionCounts(schema).name].reshape(*shape, S + 1),
        rewards=noise[RewardSums(schema).name] / 2**16 if rewarded else None,
        E=max(bound(0), bound(1)),
        E_r=bound(2) if rewarded else 0.0,
    )
    constants = transcriptions.TabularConstants(
        parameters.c1, parameters.c2, parameters.c, parameters.delta, parameters.pessimism == "hoeffding"
    )
    return transcriptions.dp_apvi(
        world, given, constants, None if parameters.reward is None else parameters.reward.table
    )


class TestLearnAgainstThePaper:
    @pytest.mark.parametrize("privacy", BUDGETS, ids=["gaussian", "laplace"])
    @pytest.mark.parametrize("form", [None, *worlds.FORMS])
    def test_it_agrees_line_by_line_on_the_same_noise(self, form: str | None, privacy: Share) -> None:
        learned = 0
        for seed in range(6):
            world = world_of(seed, units=260)
            parameters = apvi.Parameters(
                c1=(math.sqrt(2), 0.3, 0.0)[seed % 3],
                c2=(0.0, 1e-3, 0.02, 16.0)[seed % 4],
                c=(1.0, 2.0)[seed % 2],
                delta=(0.1, 0.5)[seed % 2],
                pessimism=PESSIMISMS[seed // 3],
                reward=None if form is None else table_of(seed, world, form),
                shares=((1, 1, 1), (3, 1, 2))[seed % 2],
            )
            noise = count_noise(np.random.default_rng(seed), world.schema, privacy, parameters)
            ours = worlds.watched(apvi.learn, Coupled(world.trajectories, noise), privacy, parameters)
            theirs = literal(world, noise, privacy, parameters)
            np.testing.assert_allclose(ours.scores, theirs, rtol=0, atol=1e-9)
            alone = worlds.untied(theirs)
            np.testing.assert_array_equal(ours.rule.decisions[alone], theirs.argmax(axis=2)[alone])
            learned += informative(ours.scores)
        assert learned >= 2

    def test_the_estimated_reward_is_penalised_even_without_noise(self) -> None:
        world, parameters = world_of(7, size=(3, 4, 2)), apvi.Parameters(c1=0.3, c2=0.1, shares=(1, 2, 3))
        nothing = {name: np.zeros_like(n) for name, n in some_noise(world, parameters).items()}
        privacy = Concentrated(Fraction(10**6))
        ours = worlds.watched(apvi.learn, Coupled(world.trajectories, nothing), privacy, parameters)
        np.testing.assert_allclose(ours.scores, literal(world, nothing, privacy, parameters), rtol=0, atol=1e-9)
        assert informative(ours.scores)


def some_noise(world: World, parameters: apvi.Parameters, seed: int = 0, privacy: Share = BUDGETS[0]) -> Noise:
    return count_noise(np.random.default_rng(seed), world.schema, privacy, parameters)


class TestLearnLazily:
    @pytest.mark.parametrize("privacy", BUDGETS, ids=["gaussian", "laplace"])
    def test_rows_never_drawn_change_no_byte_of_the_policy(self, privacy: Share) -> None:
        skipped = 0
        for seed in range(60):
            world, parameters = world_of(seed % 12), apvi.Parameters(c1=0.3, c2=1e-3)
            noise, data = some_noise(world, parameters, seed, privacy), world.trajectories
            lazy = apvi.draw(Coupled(data, noise), privacy, parameters)
            full = apvi.draw(Coupled(data, noise), privacy, parameters, lazy=False)
            skipped += len(full.rows) - len(lazy.rows)
            policies = [apvi.derive(release, world.schema, parameters).canonical() for release in (lazy, full)]
            assert policies[0] == policies[1]
        assert skipped > 100

    def test_a_row_is_drawn_exactly_where_the_noised_visits_pass_half_the_bound(self) -> None:
        world, parameters = world_of(3, size=(4, 6, 3)), apvi.Parameters()
        release = apvi.draw(Coupled(world.trajectories, some_noise(world, parameters)), BUDGETS[0], parameters)
        bound = max(apvi.noise_bound(event, world.schema, parameters.delta) for event in release.counted)
        assert set(release.rows) == set(np.flatnonzero(release.visits.ravel() > bound / 2))
        assert release.transitions.shape == (len(release.rows), release.visits.shape[1] + 1)
        assert 0 < len(release.rows) < release.visits.size


class TestConsistent:
    def compare(self, totals: Any, counts: Any, bound: float) -> None:
        ours = apvi.consistent(np.array(totals, dtype=float), np.array(counts, dtype=float), bound)
        theirs = np.array(transcriptions.closest_counts(list(totals), [list(row) for row in counts], bound))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("successors", range(1, 9))
    @pytest.mark.parametrize("bound", [0.0, 0.7, 5.0, 60.0])
    def test_it_solves_the_count_programme(self, successors: int, bound: float) -> None:
        """32 cases of 160 rows: in the band, above it and below it, with zeros and ties."""
        rng = np.random.default_rng([successors, int(10 * bound)])
        counts = rng.integers(0, 30, size=(160, successors)) * (rng.uniform(size=(160, successors)) < 0.7)
        counts[::5] = counts[::5, :1]  # ties
        sums = counts.sum(axis=1)
        totals = np.maximum(sums + rng.integers(-60, 60, size=160), 0)
        totals[::7] = sums[::7]
        self.compare(totals, counts, bound)

    @pytest.mark.parametrize("bound", [0.0, 3.0])
    def test_it_solves_the_edges(self, bound: float) -> None:
        rows = [[0, 0, 0], [0, 0, 9], [5, 5, 5], [5, 5, 0], [1, 2, 3], [10**6, 10**6, 0], [10**6, 1, 0]]
        for total in (0, 1, 6, 10**5, 2 * 10**6, 10**7):
            self.compare([total] * len(rows), rows, bound)

    def test_nothing_moves_inside_the_band(self) -> None:
        counts = np.array([[3.0, 0.0, 4.0]])
        for total in (5.0, 7.0, 9.0):
            np.testing.assert_array_equal(apvi.consistent(np.array([total]), counts, 4.0), counts)


class TestDerive:
    @pytest.mark.parametrize("form", [None, "step"])
    @pytest.mark.parametrize("lazy", [True, False])
    def test_other_constants_give_what_learning_with_them_would(self, lazy: bool, form: str | None) -> None:
        world = world_of(4, units=300)
        first = apvi.Parameters(c1=0.3, c2=1e-3, reward=None if form is None else table_of(1, world, form))
        noise, policies = some_noise(world, first), set()
        release = apvi.draw(Coupled(world.trajectories, noise), BUDGETS[0], first, lazy=lazy)
        changes: list[dict[str, Any]] = [{}, {"c1": 0.0}, {"c2": 0.05}, {"pessimism": "hoeffding"}, {"c": 1.5}]
        if form is not None:
            changes += [{"reward": table_of(2, world, other)} for other in worlds.FORMS]
        for change in changes:
            other = replace(first, **change)
            derived = apvi.derive(release, world.schema, other).canonical()
            assert derived == apvi.learn(Coupled(world.trajectories, noise), BUDGETS[0], other, lazy=lazy).canonical()
            policies.add(derived)
        assert len(policies) == len(changes) - 1  # c changes nothing from 1 on: an untrusted row is worth nothing

    def test_a_known_reward_is_not_penalised_for_sums_the_release_happens_to_hold(self) -> None:
        world = world_of(4, units=300)
        first = apvi.Parameters(c1=0.3, c2=1e-3)
        release = apvi.draw(Coupled(world.trajectories, some_noise(world, first)), BUDGETS[0], first)
        known = replace(first, reward=table_of(1, world, "step"))
        derived = apvi.derive(release, world.schema, known)
        assert derived.canonical() == apvi.derive(replace(release, rewards=None), world.schema, known).canonical()

    def test_without_reward_sums_a_reward_table_is_needed(self) -> None:
        world = world_of(4)
        parameters = apvi.Parameters(reward=table_of(1, world, "state-action"))
        release = apvi.draw(ZeroNoise(world.trajectories), BUDGETS[0], parameters)
        with pytest.raises(errors.InvalidParameter, match="reward table"):
            apvi.derive(release, world.schema, apvi.Parameters())


class TestFallback:
    @pytest.mark.parametrize("seed", range(12))
    def test_it_is_the_most_frequent_action_by_noised_count_where_all_scores_are_zero(self, seed: int) -> None:
        world, parameters = world_of(seed, 400, (3, 5, 3)), apvi.Parameters(c1=0.3, c2=1e-3)
        noise = dict(some_noise(world, parameters, seed))
        noise[VisitCounts(world.schema).name] = noise[VisitCounts(world.schema).name] - 12  # many below zero, unclipped
        curator = Coupled(world.trajectories, noise)
        release = apvi.draw(curator, BUDGETS[0], parameters)
        ours = worlds.watched(apvi.derive, release, world.schema, parameters)
        blank = (ours.scores == 0).all(axis=2)
        assert blank.any()
        assert not blank.all()
        np.testing.assert_array_equal(ours.rule.decisions[blank], release.visits.argmax(axis=2)[blank])
        np.testing.assert_array_equal(ours.rule.decisions[~blank], ours.scores.argmax(axis=2)[~blank])
        np.testing.assert_array_equal(ours.rule.learned, ~blank)
        for step, state in np.ndindex(blank.shape):
            source = ours.released.decide(step + 1, state).source
            assert source == ("fallback" if blank[step, state] else "learned")

    def test_a_count_below_zero_is_not_like_another(self) -> None:
        world = world_of(3, size=(3, 5, 3))
        shape = VisitCounts(world.schema).shape
        noise = dict(some_noise(world, apvi.Parameters()))
        noise[VisitCounts(world.schema).name] = np.zeros(shape, dtype=np.int64) - 10**6
        noise[VisitCounts(world.schema).name][..., -1] += 10**4
        released = worlds.watched(apvi.learn, Coupled(world.trajectories, noise), BUDGETS[0], apvi.Parameters())
        assert (released.rule.decisions == shape[-1] - 1).all()
        assert not released.rule.learned.any()


class TestMechanisms:
    @pytest.mark.parametrize("privacy", BUDGETS, ids=["gaussian", "laplace"])
    @pytest.mark.parametrize("form", [None, "state-action"])
    @pytest.mark.parametrize("lazy", [True, False])
    def test_they_are_what_a_run_logs(self, lazy: bool, form: str | None, privacy: Share) -> None:
        world = world_of(5)
        parameters = apvi.Parameters(reward=None if form is None else table_of(0, world, form), shares=(2, 3, 1))
        curator = Coupled(world.trajectories, some_noise(world, parameters, privacy=privacy))
        planned = apvi.mechanisms(world.schema, world.units, privacy, parameters)
        assert planned == apvi.mechanisms(world.schema, world.units, privacy, parameters)
        apvi.learn(curator, privacy, parameters, lazy=lazy)
        assert sorted(planned, key=repr) == sorted(curator.log, key=repr)
        assert len(planned) == (3 if form is None else 2)

    @pytest.mark.parametrize("reward", [None, rewards.Known(np.zeros((4, 2)))], ids=["observed", "known"])
    @pytest.mark.parametrize("shares", [(1, 1, 1), (5, 2, 7)])
    @pytest.mark.parametrize("amount", [Fraction(3, 8), Fraction(7), Fraction(1, 10**6)])
    def test_they_cost_the_whole_budget_and_no_more(
        self, amount: Fraction, shares: tuple[int, int, int], reward: rewards.Known | None
    ) -> None:
        parameters = apvi.Parameters(reward=reward, shares=shares)
        for privacy, rho in ((Concentrated(amount), amount), (Pure(amount), amount**2 / 2)):
            spent = events.compose(apvi.mechanisms(SCHEMA, 100, privacy, parameters))
            assert rho * (1 - Fraction(1, 10**8)) <= spent <= rho

    @pytest.mark.parametrize("per_unit", [1, 3])
    def test_sensitivities_grow_with_the_trajectories_of_a_unit(self, per_unit: int) -> None:
        schema = replace(SCHEMA, per_unit=per_unit)
        squared = [e.sensitivity for e in apvi.mechanisms(schema, 9, Concentrated(Fraction(1)), apvi.Parameters())]
        absolute = [e.sensitivity for e in apvi.mechanisms(schema, 9, Pure(Fraction(1)), apvi.Parameters())]
        assert squared == [6 * per_unit**2, 6 * per_unit**2, 3 * per_unit**2]
        assert absolute == [6 * per_unit, 6 * per_unit, 3 * per_unit]

    def test_the_paper_s_noise_and_bound_come_out(self) -> None:
        """σ² = 2H/ρ and E = 4√(H·log(4HS(S+1)A/δ)/ρ); for Laplace noise the scale is 4H/ε."""
        known, rho = apvi.Parameters(reward=rewards.Known(np.zeros((4, 2)))), 0.7
        visits, _ = apvi.mechanisms(SCHEMA, 9, Concentrated(Fraction("0.7")), known)
        assert float(visits.scale) == pytest.approx(2 * 3 / rho, rel=1e-8)
        expected = 4 * math.sqrt(3 * math.log(4 * 3 * 4 * 5 * 2 / 0.1) / rho)
        assert apvi.noise_bound(visits, SCHEMA, 0.1) == pytest.approx(expected, rel=1e-8)
        visits, _ = apvi.mechanisms(SCHEMA, 9, Pure(Fraction("0.7")), known)
        assert float(visits.scale) == pytest.approx(4 * 3 / rho, rel=1e-8)

    @pytest.mark.parametrize("kind", [Concentrated, Pure])
    @pytest.mark.parametrize(
        "amount", [Fraction(0), Fraction(-1), math.nan, math.inf, 0.5, "1", None, True, Fraction(1, 10**10), 10**6 + 1]
    )
    def test_a_budget_that_no_ledger_can_hold_is_refused(self, kind: Any, amount: Any) -> None:
        with pytest.raises(errors.InvalidRho, match="budget"):
            apvi.mechanisms(SCHEMA, 9, kind(amount), apvi.Parameters())


class TestPaperConstants:
    def test_need_more_than_ten_million_visits_of_one_row_at_the_size_of_an_intensive_care_unit(self) -> None:
        schema = Schema(20, Discrete(716), 25)
        known = apvi.Parameters(reward=rewards.Known(np.zeros((716, 25))))
        counted = apvi.mechanisms(schema, 20_000, Concentrated(Fraction(1)), known)
        bound = max(apvi.noise_bound(event, schema, known.delta) for event in counted)
        visits = known.c2 * 717 * bound * math.log(20 * 716 * 25 / known.delta)
        assert visits == pytest.approx(1.5e7, rel=0.02)


class TestParameters:
    @pytest.mark.parametrize("name", ["c1", "c2", "c", "delta"])
    @pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, True, "1", None])
    def test_a_constant_that_is_no_usable_number_is_refused_by_name(self, name: str, value: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=rf"^{name} must be"):
            apvi.Parameters(**{name: value})

    @pytest.mark.parametrize(
        ("name", "value"),
        [("c", 0.99), ("delta", 0), ("delta", 1), ("delta", 1.5), ("pessimism", "optimism"), ("pessimism", None)],
    )
    def test_a_value_out_of_its_range_is_refused_by_name(self, name: str, value: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=rf"^{name} must be"):
            apvi.Parameters(**{name: value})

    @pytest.mark.parametrize("shares", [(1, 1), (1, 1, 1, 1), (0, 1, 1), (1, -1, 1), (1, 1.5, 1), (True, 1, 1)])
    def test_shares_that_are_not_three_whole_numbers_are_refused(self, shares: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=r"shares .* visits, transitions, rewards"):
            apvi.Parameters(shares=shares)


class TestThePapersCalibration:
    PAPER = apvi.Parameters(calibration="paper")

    @pytest.mark.parametrize("wrong", [{"c1": 1.0}, {"c2": 0}, {"shares": (1, 2, 1)}, {"shares": (2, 2, 2)}])
    def test_its_constants_are_not_to_be_set(self, wrong: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match="c1 = √2, c2 = 16 and equal shares"):
            apvi.Parameters(**wrong, calibration="paper")

    def test_with_known_rewards_noise_and_bound_are_the_printed_ones(self) -> None:
        """σ² = 2H/ρ for both tables and E = 4·√(H·log(4HS²A/δ)/ρ), S² with the end as one more successor."""
        asked = SCHEMA, 100, Concentrated(Fraction(1, 2)), replace(self.PAPER, reward=rewards.Known(np.zeros((4, 2))))
        assert [event.scale for event in apvi.mechanisms(*asked)] == [12, 12]
        printed = 4 * math.sqrt(3 * math.log(4 * 3 * 4 * 5 * 2 / 0.1) / 0.5)
        assert apvi.trusted_from(*asked) == pytest.approx(printed)

    def test_a_release_makes_the_same_policy_as_with_these_constants_written_out(self) -> None:
        world = world_of(3)
        release = apvi.draw(ZeroNoise(world.trajectories), BUDGETS[0], self.PAPER)
        named, written = (apvi.derive(release, world.schema, one) for one in (self.PAPER, apvi.Parameters()))
        assert named.canonical() == written.canonical()


class TestCheck:
    def test_vector_states_are_refused(self) -> None:
        schema = Schema(3, Vector(("x",), ((0.0, 1.0),)), 2)
        with pytest.raises(errors.InvalidParameter, match="discrete states"):
            apvi.mechanisms(schema, 9, BUDGETS[0], apvi.Parameters())

    def test_more_counts_than_fit_are_refused(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="step, state and action"):
            apvi.check(Schema(10_000, Discrete(10_000), 3), apvi.Parameters())

    @pytest.mark.parametrize("shape", [(2, 4), (4, 3), (2, 4, 2), (3,), (6,), (1, 3, 4, 2)])
    def test_a_reward_table_of_another_shape_is_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(errors.InvalidParameter, match="reward table has shape"):
            apvi.check(SCHEMA, apvi.Parameters(reward=rewards.Known(np.zeros(shape))))

    @pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf])
    def test_a_reward_table_out_of_the_declared_range_is_refused(self, value: float) -> None:
        table = np.full((4, 2), 0.5)
        table[2, 1] = value
        with pytest.raises(errors.InvalidParameter, match="reward table must stay within"):
            apvi.check(SCHEMA, apvi.Parameters(reward=rewards.Known(table)))
