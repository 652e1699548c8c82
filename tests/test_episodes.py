"""Datasets of reinforcement learning as uploads: Minari, d3rlpy, and the arrays of D4RL."""

import dataclasses
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces

from discretion import errors
from discretion.client import sources
from tests.test_frames import VECTOR, sent


@dataclasses.dataclass
class Episode:
    """As d3rlpy has it: rewards and discrete observations as columns, one flag for the whole episode."""

    observations: Any
    actions: Any
    rewards: Any
    terminated: bool


@dataclasses.dataclass
class MDPDataset:
    episodes: list[Episode]


def made_of(observations: Any, ended: bool) -> Any:
    steps = len(observations) - 1
    return minari.EpisodeData(
        id=0,
        observations=observations,
        actions=np.arange(steps) % 2,
        rewards=np.linspace(0, 1, steps),
        terminations=np.arange(steps) == (steps - 1 if ended else steps),
        truncations=np.arange(steps) == (steps if ended else steps - 1),
        infos={},
    )


class Minari:
    """What `minari.MinariDataset.iterate_episodes` gives, without a store."""

    def __init__(self, *episodes: Any) -> None:
        self._episodes = episodes

    def iterate_episodes(self) -> Any:
        return iter(self._episodes)


class TestMinari:
    def test_an_episode_is_a_unit_and_one_that_was_cut_says_what_came_next(self):
        found = sent(Minari(made_of(np.array([0, 1, 2]), ended=True), made_of(np.array([3, 4]), ended=False)))
        assert found.column("unit").to_pylist() == ["1", "1", "2"]
        assert found.column("step").to_pylist() == [1, 2, 1]
        assert found.column("state").to_pylist() == [0, 1, 3]
        assert found.column("terminated").to_pylist() == [False, True, False]
        assert found.column("next_state").to_pylist() == [None, None, 4]

    def test_rows_and_dictionaries_of_observations_are_vectors(self):
        rows = np.array([[1.0, 0.5], [2.0, 0.25], [3.0, 0.0]])
        named = {"age": rows[:, 0], "dose": rows[:, 1]}
        by_row, by_name = (sent(Minari(made_of_vectors(given)), None, VECTOR) for given in (rows, named))
        assert by_row.to_pylist() == by_name.to_pylist()
        assert by_row.column("next_age").to_pylist() == [None, 3.0]

    @pytest.mark.filterwarnings("ignore::UserWarning")  # it would like to know more about the dataset
    def test_a_real_dataset_is_read(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        buffers: list[Any] = []
        for length in (3, 2):
            buffer = minari.data_collector.EpisodeBuffer(
                id=len(buffers),
                observations=list(range(length + 1)),
                actions=[0] * length,
                rewards=[1.0] * length,
                terminations=[False] * (length - 1) + [True],
                truncations=[False] * length,
            )
            buffers.append(buffer)
        made = minari.create_dataset_from_buffers(
            "ward/test-v0",
            buffers,
            observation_space=spaces.Discrete(5),
            action_space=spaces.Discrete(6),
            data_format="arrow",
        )
        found = sent(made)
        assert found.column("state").to_pylist() == [0, 1, 2, 0, 1]
        assert found.column("step").to_pylist() == [1, 2, 3, 1, 2]


def made_of_vectors(observations: Any) -> Any:
    return dataclasses.replace(made_of(np.zeros(3), ended=False), observations=observations)


class TestD3rlpy:
    def test_an_episode_is_a_unit(self):
        column = np.array([[0], [1], [2]])
        ended, cut = (Episode(column, column, np.ones((3, 1)), flag) for flag in (True, False))
        found = sent(MDPDataset([ended, cut]))
        assert found.column("state").to_pylist() == [0, 1, 2, 0, 1, 2]
        assert found.column("terminated").to_pylist() == [False, False, True, False, False, False]
        assert found.column("next_state").null_count == 6

    def test_several_doses_of_an_action_are_one(self):
        actions = np.array([[2, 1], [0, 1]])
        found = sent(MDPDataset([Episode(np.zeros((2, 1)), actions, np.ones((2, 1)), True)]), levels=(3, 2))
        assert found.column("action").to_pylist() == [5, 1]

    def test_what_is_no_row_of_numbers_is_refused(self):
        for observations in (np.zeros((2, 3, 3)), (np.zeros(2), np.zeros(2))):
            with pytest.raises(errors.InvalidSource, match="Observations"):
                sent(MDPDataset([Episode(observations, np.zeros(2), np.zeros(2), True)]))
        with pytest.raises(errors.InvalidSource, match="Episode 1 has no steps"):
            sent(MDPDataset([Episode(np.zeros((0, 1)), np.zeros(0), np.zeros(0), True)]))


class TestD4rl:
    def test_four_arrays_are_cut_into_episodes(self, monkeypatch):
        arrays = {
            "observations": np.array([0, 1, 2, 3, 4, 0]),
            "actions": np.zeros(6, int),
            "rewards": np.ones(6),
            "terminals": np.array([0, 1, 0, 0, 0, 0]),
            "timeouts": np.array([0, 0, 0, 1, 0, 0]),
            "next_observations": np.array([1, 0, 3, 4, 0, 1]),
        }
        monkeypatch.setattr(sources, "ROWS", 4)
        found = sent(arrays)
        assert found.column("unit").to_pylist() == ["1", "1", "2", "2", "3", "3"]
        assert found.column("step").to_pylist() == [1, 2, 1, 2, 1, 2]
        assert found.column("terminated").to_pylist() == [False, True, False, False, False, False]
        assert found.column("next_state").to_pylist() == [None, None, None, 4, None, None]
