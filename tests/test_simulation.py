"""The paper's simulated MDP: what it is, and that rows are right."""

import csv

import numpy as np
import pytest

from discretion import errors, simulation
from discretion.learning import policy
from discretion.learning.trajectories import Trajectories
from discretion.privacy.rho import Rho

SMALL = simulation.Design((5, 40), (Rho.parse("1"), Rho.parse("100")), instances=1, repetitions=2)


class TestPaperMdp:
    def test_is_the_linear_mdp_of_the_appendix(self):
        mdp = simulation.paper_mdp(0)
        assert mdp.features.values.shape == (2, 100, 10)
        assert np.linalg.norm(mdp.features.values, axis=2).max() == pytest.approx(1.0)
        np.testing.assert_allclose(mdp.kernel.sum(axis=3), 1.0)
        assert mdp.rewards.min() >= 0
        assert mdp.rewards.max() <= 1
        assert mdp.behaviour.sum() == pytest.approx(1.0)
        assert mdp.behaviour[0] == 0.6

    def test_transitions_and_rewards_are_linear_in_the_features(self):
        mdp = simulation.paper_mdp(3)
        phi = mdp.features.values.reshape(-1, 10)
        for step in range(simulation.HORIZON):
            for target in (mdp.rewards[step].ravel(), mdp.kernel[step, :, :, 0].ravel()):
                weights, *_ = np.linalg.lstsq(phi, target, rcond=None)
                np.testing.assert_allclose(phi @ weights, target, atol=1e-12)

    def test_no_action_sets_the_highest_bit_so_the_covariance_is_singular(self):
        values = simulation.paper_mdp(0).features.values
        assert (values[:, :, 0] == 0).all()
        assert (values[:, :, 1] > 0).any()

    def test_an_instance_is_the_same_every_time_and_differs_from_the_next(self):
        first, again, other = (simulation.paper_mdp(i) for i in (1, 1, 2))
        assert (first.kernel == again.kernel).all()
        assert (first.kernel != other.kernel).any()


class TestValue:
    def test_of_the_best_policy_is_an_upper_bound_that_value_iteration_reaches(self):
        mdp = simulation.paper_mdp(0)
        best = simulation.value(mdp, None)
        draw = np.random.default_rng(0)
        for _ in range(20):
            decisions = draw.integers(100, size=(simulation.HORIZON, 2))
            assert simulation.value(mdp, decisions) <= best

    def test_agrees_with_a_monte_carlo_of_the_policy(self):
        mdp = simulation.paper_mdp(1)
        draw = np.random.default_rng(1)
        decisions = draw.integers(100, size=(simulation.HORIZON, 2))
        states = draw.integers(2, size=200_000)
        total = np.zeros(len(states))
        for step in range(simulation.HORIZON):
            actions = decisions[step][states]
            total += mdp.rewards[step][states, actions]
            states = (draw.random(len(states)) >= mdp.kernel[step][states, actions][:, 0]).astype(int)
        assert total.mean() == pytest.approx(
            simulation.value(mdp, decisions), abs=5 * total.std() / np.sqrt(len(total))
        )


class TestSample:
    def test_follows_the_behaviour_and_the_kernel(self):
        mdp = simulation.paper_mdp(0)
        block = simulation.sample(mdp, 50_000, np.random.default_rng(2))
        assert (block.actions == 0).mean() == pytest.approx(0.6, abs=0.002)
        here = (block.states[0] == 0) & (block.actions[0] == 0)
        expected = mdp.kernel[0, 0, 0, 1]
        assert block.states[1][here].mean() == pytest.approx(expected, abs=0.02)


class TestRun:
    def test_gives_every_algorithm_budget_size_instance_and_repetition_once(self):
        rows = list(simulation.run(SMALL))
        assert (
            len(rows) == SMALL.runs == len({(r.algorithm, r.rho, r.episodes, r.instance, r.repetition) for r in rows})
        )
        assert {(r.algorithm, r.rho) for r in rows} == {
            ("pevi", ""),
            ("vapvi", ""),
            ("dp-vapvi", "1"),
            ("dp-vapvi", "100"),
        }
        assert all(0 <= r.suboptimality <= simulation.HORIZON for r in rows)

    def test_repeats_public_rows_exactly_and_never_private_ones(self):
        design = simulation.Design((200,), (Rho.parse("1"),), instances=3, repetitions=3)
        first, second = list(simulation.run(design)), list(simulation.run(design))
        public = [(a, b) for a, b in zip(first, second, strict=True) if not a.rho]
        private = [(a, b) for a, b in zip(first, second, strict=True) if a.rho]
        assert all(a == b for a, b in public)
        assert any(a.suboptimality != b.suboptimality for a, b in private)

    def test_learns_without_privacy(self):
        design = simulation.Design((1000,), (Rho.parse("1"),), instances=1, repetitions=1)
        (gap,) = (row.suboptimality for row in simulation.run(design) if row.algorithm == "vapvi")
        assert gap < 0.3

    def test_fewer_episodes_are_the_first_ones_of_more(self):
        mdp = simulation.paper_mdp(0)
        block = simulation.sample(mdp, 30, np.random.default_rng(0))
        first = simulation._first(block, 10)
        assert (first.states == block.states[:, :10]).all()
        data = Trajectories(mdp.schema, 10, [first])
        ((_, _, learned), *_) = simulation._policies(mdp, data, SMALL)
        assert isinstance(learned.rule, policy.Table)


class TestSeeds:
    def test_data_never_share_a_stream_with_the_problem_or_each_other(self):
        streams = [[simulation._SEED, simulation._PROBLEM, i] for i in range(20)]
        streams += [[simulation._SEED, simulation._DATA, i, r] for i in range(20) for r in range(20)]
        first = {np.random.default_rng(stream).integers(2**62) for stream in streams}
        assert len(first) == len(streams)


class TestDesign:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"episodes": ()},
            {"rhos": ()},
            {"episodes": (0,)},
            {"episodes": (10**8,)},
            {"episodes": (5.5,)},
            {"instances": 0},
            {"repetitions": -1},
            {"calibration": "loose"},
        ],
    )
    def test_refuses_what_cannot_be_simulated(self, wrong):
        with pytest.raises(errors.InvalidParameter):
            simulation.Design(**wrong)


class TestWrite:
    def test_writes_the_columns_that_are_promised(self, tmp_path):
        rows = list(simulation.run(simulation.Design((5,), (Rho.parse("0.5"),), 1, 1)))
        simulation.write(rows, tmp_path / "rows.csv")
        with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
            read = list(csv.DictReader(file))
        assert list(read[0]) == ["algorithm", "rho", "episodes", "instance", "repetition", "suboptimality"]
        assert [row["rho"] for row in read] == ["", "", "0.5"]
        assert [float(row["suboptimality"]) for row in read] == [row.suboptimality for row in rows]
