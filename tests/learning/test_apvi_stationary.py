"""Stationary DP-APVI against counts by hand, against value iteration, and against its own promises."""

import functools
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.utility import problems

from discretion import errors
from discretion.learning import apvi, apvi_stationary, kernels, rewards, sums
from discretion.learning.apvi_stationary import Parameters
from discretion.learning.counts import ArrivalCounts, ArrivalSums, PaidSums, RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Concentrated, Curator, Pure, Share
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from discretion.privacy import events
from tests import worlds
from tests.curators import Coupled, Noise, ZeroNoise
from tests.worlds import END, World

BUDGETS: tuple[Share, ...] = (Concentrated(Fraction(60)), Pure(Fraction(40)))
SCHEMA = Schema(3, Discrete(4), 2)
RANGES = ((0.0, 1.0), (-1.0, 3.0), (2.0, 4.0), (-4.0, -2.0))
REWARD_ON = ("either", "action", "arrival")


def stationary(mdp: worlds.Mdp) -> worlds.Mdp:
    """The same at every step as at the first."""
    return replace(
        mdp,
        **{
            n: np.tile(getattr(mdp, n)[:1], (len(mdp.reward), 1, 1, 1)[: getattr(mdp, n).ndim])
            for n in ("kernel", "reward", "behaviour")
        },
    )


@functools.cache
def world_of(seed: int, units: int = 150, size: tuple[int, int, int] = (4, 5, 3), cuts: float = 0.1) -> World:
    rng = np.random.default_rng(seed)
    mdp = stationary(worlds.tabular_mdp(rng, *size))
    return worlds.sample(rng, mdp, units, reward=RANGES[seed % 4], per_unit=1 + seed % 3, cuts=cuts)


def noise_for(schema: Schema, privacy: Share, parameters: Parameters, seed: int = 0) -> Noise:
    """Seeded noise of about the right size for everything it asks."""
    rng, drawn = np.random.default_rng(seed), {}
    for event in apvi_stationary.mechanisms(schema, 1, privacy, parameters):
        scale = float(event.grid_scale)
        laplace = event.mechanism == events.LAPLACE
        size = event.shape if len(event.shape) < 3 else (schema.count * schema.actions, schema.count + 1)
        table = rng.laplace(scale=scale, size=size) if laplace else rng.normal(scale=math.sqrt(scale), size=size)
        drawn[event.statistic] = np.round(table).astype(np.int64)
    return drawn


def coupled(world: World, parameters: Parameters, privacy: Share = BUDGETS[0], seed: int = 0) -> Coupled:
    return Coupled(world.trajectories, noise_for(world.schema, privacy, parameters, seed))


class TestCounts:
    @pytest.mark.parametrize("seed", range(12))
    def test_rewards_and_arrivals_are_those_added_up_by_hand(self, seed: int) -> None:
        world = world_of(seed, 60)
        schema = world.schema
        states, actions = schema.count, schema.actions
        paid, ending = np.zeros((2, states, actions))
        arriving, arrived = np.zeros(states), np.zeros(states)
        for episode in world.episodes:
            cells, reached = set(), set()
            for step, (state, action) in enumerate(zip(episode.states, episode.actions, strict=True)):
                after = episode.successor(step)
                if after is None or (state, action) in cells:
                    continue
                cells.add((state, action))
                worth = math.trunc((world.scaled(episode.rewards[step]) - schema.idle) * 2**16)
                paid[state, action] += worth
                if after == END:
                    ending[state, action] += worth
                elif after not in reached:
                    reached.add(after)
                    arriving[after] += worth
                    arrived[after] += 1
        asked: Any = [PaidSums(schema), ArrivalSums(schema), ArrivalCounts(schema)]
        by_action, by_arrival, arrivals = sums.totals(asked, world.trajectories)
        np.testing.assert_array_equal(by_action, paid)
        np.testing.assert_array_equal(by_arrival, np.concatenate([arriving, ending.ravel()]))
        np.testing.assert_array_equal(arrivals, arrived)


def empirical(world: World) -> tuple[Any, Any]:
    """First-visit shares (S, A, S+1) and mean rewards (S, A) in units of the width."""
    schema = world.schema
    asked: Any = [TransitionCounts(schema, "stationary"), PaidSums(schema)]
    moves, paid = sums.totals(asked, world.trajectories)
    visits = np.maximum(moves.sum(axis=1), 1)
    shape = (schema.count, schema.actions)
    return (moves / visits[:, None]).reshape(*shape, -1), paid / 2**16 / visits.reshape(shape)


class TestLearnWithoutNoise:
    @pytest.mark.parametrize("reward_on", ["either", "action"])
    @pytest.mark.parametrize("seed", range(6))
    def test_it_is_value_iteration_on_first_visits(self, seed: int, reward_on: Any) -> None:
        world = world_of(seed, 3000, (5, 3, 2), 0.0)
        schema = world.schema
        kernel, paid = empirical(world)
        parameters = Parameters(pessimism=0.0, reward_pessimism=0.0, reward_on=reward_on)
        ours: Any = apvi_stationary.learn(ZeroNoise(world.trajectories), BUDGETS[0], parameters).rule
        value = np.zeros(schema.count + 1)
        for step in reversed(range(schema.horizon)):
            scores = paid + kernel @ value
            value = np.append(scores.max(axis=1), 0.0)
            clear = np.abs(scores[:, 0] - scores[:, 1]) > 0.02
            np.testing.assert_array_equal(ours.decisions[step][clear], scores.argmax(axis=1)[clear])
            np.testing.assert_allclose(ours.scores[step], value[:-1] * schema.width, atol=0.03 * schema.width)
        assert ours.learned.all()

    @pytest.mark.parametrize("form", ["state-action", "next", "next or end"])
    @pytest.mark.parametrize("seed", range(4))
    def test_a_known_reward_is_taken_as_it_is(self, seed: int, form: str) -> None:
        world = world_of(seed, 3000, (5, 3, 2), 0.0)
        schema, known = world.schema, worlds.known(np.random.default_rng(seed), world.schema, form)
        kernel, _ = empirical(world)
        table, arrival = known.table, np.zeros(schema.count + 1)
        if form != "state-action":
            arrival[: len(table)], table = table, np.zeros((schema.count, schema.actions))
        ours: Any = apvi_stationary.learn(
            ZeroNoise(world.trajectories), BUDGETS[0], Parameters(pessimism=0.0, reward=known)
        ).rule
        value = np.zeros(schema.count + 1)
        for step in reversed(range(schema.horizon)):
            scores = table + kernel @ (value + arrival)
            value = np.append(scores.max(axis=1), 0.0)
            np.testing.assert_allclose(ours.scores[step], value[:-1], atol=0.02 * schema.width)

    def test_more_pessimism_never_scores_higher(self) -> None:
        world = world_of(5, 300)
        release = apvi_stationary.draw(coupled(world, Parameters()), BUDGETS[0], Parameters())
        rules: list[Any] = [
            apvi_stationary.derive(release, world.schema, Parameters(pessimism=p, reward_pessimism=p)).rule
            for p in (0.0, 0.5, 1.0, 3.0)
        ]
        tables = [rule.scores for rule in rules]
        for less, more in itertools.pairwise(tables):
            assert (more <= less + 1e-6).all()
            assert (more < less - 1e-6).any()


class TestLearnLazily:
    @pytest.mark.parametrize("privacy", BUDGETS, ids=["gaussian", "laplace"])
    def test_rows_never_drawn_change_no_byte_of_the_policy(self, privacy: Share) -> None:
        skipped = 0
        for seed in range(12):
            world, parameters = world_of(seed % 6, 60), Parameters(trust=6.0)
            noise = noise_for(world.schema, privacy, parameters, seed)
            lazy, full = (
                apvi_stationary.draw(Coupled(world.trajectories, noise), privacy, parameters, lazy=lazy)
                for lazy in (True, False)
            )
            skipped += len(full.rows) - len(lazy.rows)
            one, other = (apvi_stationary.derive(r, world.schema, parameters).canonical() for r in (lazy, full))
            assert one == other
        assert skipped > 10

    def test_short_of_memory_the_rows_with_the_most_noised_visits_are_drawn(self, monkeypatch: Any) -> None:
        world, parameters = world_of(3), Parameters()
        every = apvi_stationary.draw(coupled(world, parameters), BUDGETS[0], parameters)
        monkeypatch.setattr(apvi_stationary, "MAX_DRAWN", 4 * (world.schema.count + 1))
        some = apvi_stationary.draw(coupled(world, parameters), BUDGETS[0], parameters)
        assert len(every.rows) > 4
        assert set(some.rows) == set(np.argsort(-some.visits.ravel(), kind="stable")[:4])


class TestDerive:
    def test_other_constants_give_what_learning_with_them_would(self) -> None:
        world, first, policies = world_of(4, 300), Parameters(), set()
        release = apvi_stationary.draw(coupled(world, first), BUDGETS[0], first)
        changes: list[dict[str, Any]] = [{}, {"pessimism": 2.0}, {"reward_pessimism": 3.0}, {"trust": 30.0}]
        for change in changes:
            other = replace(first, **change)
            derived = apvi_stationary.derive(release, world.schema, other).canonical()
            assert derived == apvi_stationary.learn(coupled(world, first), BUDGETS[0], other).canonical()
            policies.add(derived)
        assert len(policies) == len(changes)

    @pytest.mark.parametrize("form", ["state-action", "next", "next or end"])
    def test_another_reward_can_be_given_for_the_same_release(self, form: str) -> None:
        world, first = world_of(4, 300), Parameters()
        release = apvi_stationary.draw(coupled(world, first), BUDGETS[0], first)
        known = Parameters(reward=worlds.known(np.random.default_rng(1), world.schema, form))
        without = replace(release, by_action=None, by_arrival=None, arrivals=None)
        derived = [apvi_stationary.derive(r, world.schema, known).canonical() for r in (release, without)]
        assert derived[0] == derived[1]
        assert derived[0] != apvi_stationary.derive(release, world.schema, first).canonical()

    @pytest.mark.parametrize(("drawn", "asked"), [("action", "either"), ("arrival", "action"), ("action", "arrival")])
    def test_sums_that_were_not_drawn_are_missed(self, drawn: Any, asked: Any) -> None:
        world, parameters = world_of(4), Parameters(reward_on=drawn)
        release = apvi_stationary.draw(coupled(world, parameters), BUDGETS[0], parameters)
        with pytest.raises(errors.InvalidParameter, match="reward table"):
            apvi_stationary.derive(release, world.schema, Parameters(reward_on=asked))

    @pytest.mark.parametrize("reward_on", REWARD_ON)
    def test_the_unit_of_the_reward_changes_no_decision(self, reward_on: Any) -> None:
        world, parameters = world_of(4, 300), Parameters(reward_on=reward_on)
        release = apvi_stationary.draw(coupled(world, parameters), BUDGETS[0], parameters)
        low, high = world.schema.reward
        wide = replace(world.schema, reward=(8 * low, 8 * high))
        one: Any = apvi_stationary.derive(release, world.schema, parameters).rule
        other: Any = apvi_stationary.derive(release, wide, parameters).rule
        np.testing.assert_array_equal(one.decisions, other.decisions)
        np.testing.assert_allclose(8 * one.scores, other.scores, atol=1e-4)

    @pytest.mark.parametrize("seed", range(4))
    def test_scores_stay_within_the_declared_returns(self, seed: int) -> None:
        world, parameters = world_of(seed), Parameters(pessimism=5.0)
        for total in (None, (-1.5, 0.5)):
            schema = replace(world.schema, total=total)
            data = Trajectories(schema, world.units, world.trajectories.blocks)
            noise = noise_for(schema, BUDGETS[0], parameters)
            scores: Any = apvi_stationary.learn(Coupled(data, noise), BUDGETS[0], parameters).rule.scores  # type: ignore[union-attr]
            left = np.arange(schema.horizon, 0, -1)[:, None]
            span = math.inf if total is None else 2.0
            assert (scores >= np.maximum(schema.low * left, -span) - 1e-6).all()
            assert (scores <= np.minimum((schema.low + schema.width) * left, span) + 1e-6).all()


def without_records(states: int, units: int = 500) -> Trajectories:
    schema = Schema(20, Discrete(states), 4, total=(0.0, 1.0))
    nothing = np.zeros((20, units), dtype=np.int64)
    empty = block_of(nothing, nothing, nothing.astype(float), lengths=np.zeros(units, dtype=np.int64))
    return Trajectories(schema, units, [empty])


class TestFallback:
    @pytest.mark.parametrize("privacy", [Concentrated(Fraction(1)), Pure(Fraction(1))], ids=["gaussian", "laplace"])
    def test_where_there_is_only_noise_nearly_nothing_is_said_to_be_learned(self, privacy: Share) -> None:
        learned = []
        for _ in range(10):
            curator = Curator(without_records(60), Fraction(1))
            release = apvi_stationary.draw(curator, privacy, Parameters())
            rule: Any = apvi_stationary.derive(release, curator.schema, Parameters()).rule
            learned.append(rule.learned.mean())
            fallback = np.broadcast_to(release.visits.argmax(axis=1), rule.decisions.shape)
            np.testing.assert_array_equal(rule.decisions[~rule.learned], fallback[~rule.learned])
        assert np.mean(learned) < 0.02

    def test_a_state_without_a_trusted_row_is_decided_by_noised_visits_and_worth_what_the_worst_is(self) -> None:
        world, parameters = world_of(0, 400), Parameters()
        noise = dict(noise_for(world.schema, BUDGETS[0], parameters))
        name = VisitCounts(world.schema, "stationary").name
        noise[name] = noise[name].copy()
        noise[name][2] = [-(10**6), -(10**5), -(10**7)]
        rule: Any = apvi_stationary.learn(Coupled(world.trajectories, noise), BUDGETS[0], parameters).rule
        others = np.arange(world.schema.count) != 2
        assert (rule.decisions[:, 2] == 1).all()
        assert not rule.learned[:, 2].any()
        assert rule.learned[:, others].all()
        np.testing.assert_allclose(rule.scores[:, 2], rule.scores[:, others].min(axis=1))


class TestMechanisms:
    @pytest.mark.parametrize("privacy", BUDGETS, ids=["gaussian", "laplace"])
    @pytest.mark.parametrize("reward_on", [None, *REWARD_ON])
    def test_they_are_what_a_run_logs(self, reward_on: Any, privacy: Share) -> None:
        world = world_of(5)
        known = worlds.known(np.random.default_rng(0), world.schema, "next")
        parameters = Parameters(reward_on=reward_on) if reward_on else Parameters(reward=known)
        curator = coupled(world, parameters, privacy)
        planned = apvi_stationary.mechanisms(world.schema, world.units, privacy, parameters)
        apvi_stationary.learn(curator, privacy, parameters)
        assert sorted(planned, key=repr) == sorted(curator.log, key=repr)
        assert (
            len({event.statistic for event in planned}) == {None: 2, "action": 3, "arrival": 4, "either": 5}[reward_on]
        )

    @pytest.mark.parametrize("parameters", [Parameters(reward_on=r, shares=(5, 2, 7)) for r in REWARD_ON])  # type: ignore[arg-type]
    @pytest.mark.parametrize("amount", [Fraction(3, 8), Fraction(7), Fraction(1, 10**6)])
    def test_they_cost_the_whole_budget_exactly(self, amount: Fraction, parameters: Parameters) -> None:
        for privacy, rho in ((Concentrated(amount), amount), (Pure(amount), amount**2 / 2)):
            assert events.compose(apvi_stationary.mechanisms(SCHEMA, 100, privacy, parameters)) == rho

    def test_rewards_are_centred_unless_a_small_total_of_one_sign_makes_them_less_sensitive(self) -> None:
        def asked(**change: Any) -> str:
            schema = replace(Schema(20, Discrete(4), 2), **change)
            return apvi_stationary.mechanisms(schema, 9, BUDGETS[0], Parameters(reward_on="action"))[2].statistic

        paid, centred = PaidSums(SCHEMA).name, RewardSums(SCHEMA, "stationary").name
        assert asked() == asked(total=(0.0, 10.0)) == asked(total=(-1.0, 1.0), reward=(-1.0, 1.0)) == centred
        assert asked(total=(0.0, 9.0)) == asked(total=(-1.0, 0.0), reward=(-1.0, 0.0)) == paid

    def test_a_budget_that_no_ledger_can_hold_is_refused(self) -> None:
        with pytest.raises(errors.InvalidRho, match="budget"):
            apvi_stationary.mechanisms(SCHEMA, 9, Concentrated(Fraction(1, 10**10)), Parameters())


class TestVisitsNeeded:
    def test_it_is_the_trusted_number_of_deviations_of_the_noise(self) -> None:
        """15 of 100 parts of ρ = 1: σ² = 2H/(2·0.15)."""
        needed = apvi_stationary.visits_needed(SCHEMA, 9, Concentrated(Fraction(1)), Parameters())
        assert needed == pytest.approx(2 * math.sqrt(3 / 0.15))
        pure = apvi_stationary.visits_needed(SCHEMA, 9, Pure(Fraction(1)), Parameters(trust=3.0))
        assert pure == pytest.approx(3 * math.sqrt(2) * 6 / 0.15)

    def test_many_states_need_more(self) -> None:
        many = replace(SCHEMA, states=Discrete(3599))
        assert Parameters().trusted(3599) == 10
        asked, exact = (Concentrated(Fraction(rho)) for rho in (1, 10**6))
        assert apvi_stationary.visits_needed(many, 9, asked, Parameters()) == pytest.approx(10 * math.sqrt(3 / 0.15))
        assert apvi_stationary.visits_needed(many, 9, exact, Parameters()) == 40  # however little noise there is


class TestUtility:
    @pytest.mark.parametrize(("problem", "least"), [(problems.random_mdp, 0.7), (problems.grid, 0.5)])
    def test_most_of_what_could_be_gained_is_gained_at_five_thousand_trajectories(
        self, problem: Any, least: float
    ) -> None:
        found = problem(40)
        curator = Curator(found.data(5000, 1040), Fraction(1))
        rule: Any = apvi_stationary.learn(curator, Concentrated(Fraction(1)), Parameters()).rule
        assert found.share(found.value(rule.decisions)) > least


class TestParameters:
    @pytest.mark.parametrize("name", ["pessimism", "reward_pessimism", "trust"])
    @pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1"])
    def test_a_constant_that_is_no_usable_number_is_refused_by_name(self, name: str, value: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=rf"^{name} must be"):
            Parameters(**{name: value})

    @pytest.mark.parametrize("value", ["both", None, 1])
    def test_rewards_on_anything_else_are_refused(self, value: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=r"^reward_on must be"):
            Parameters(reward_on=value)

    @pytest.mark.parametrize("estimating", [{"reward_on": "action"}, {"reward_on": "arrival"}, {"reward_pessimism": 2}])
    def test_rewards_that_are_known_and_estimated_are_refused(self, estimating: dict[str, Any]) -> None:
        with pytest.raises(errors.InvalidParameter, match="these are known"):
            Parameters(reward=rewards.Known(np.zeros((3, 2))), **estimating)

    @pytest.mark.parametrize("shares", [(1, 1), (0, 1, 1), (1, 1.5, 1), (True, 1, 1)])
    def test_shares_that_are_not_three_whole_numbers_are_refused(self, shares: Any) -> None:
        with pytest.raises(errors.InvalidParameter, match=r"shares .* visits, transitions, rewards"):
            Parameters(shares=shares)


class TestCheck:
    def test_vector_states_are_refused(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="discrete states"):
            apvi_stationary.check(Schema(3, Vector(("x",), ((0.0, 1.0),)), 2), Parameters())

    def test_more_counts_than_fit_are_refused(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="state and action"):
            apvi_stationary.check(Schema(10, Discrete(10_000_000), 30), Parameters())

    def test_a_reward_for_each_step_is_refused_and_said_why(self) -> None:
        with pytest.raises(errors.InvalidParameter, match="same at every step"):
            apvi_stationary.check(SCHEMA, Parameters(reward=rewards.Known(np.zeros((3, 4, 2)))))

    def test_it_goes_by_the_name_of_the_paper_s_algorithm(self) -> None:
        assert apvi_stationary.NAME == apvi.NAME
        assert issubclass(apvi_stationary.Release, kernels.Counted)
