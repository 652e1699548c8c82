"""What is kept of blocks where other trainings follow: the same, and nothing of it is left."""

from pathlib import Path
from typing import Any

import numpy as np

from discretion import blocks
from discretion.learning.trajectories import Block, block_of

COUNT, SIZE = 2000, 2**13  # arrays, and the numbers of each: small enough to lie between others


def made() -> Block:
    draw = np.random.default_rng(1)
    states, actions = draw.integers(9, size=(3, 5)), draw.integers(4, size=(3, 5)).astype(np.int8)
    return block_of(states, actions, draw.random((3, 5)), final=states[-1])


def reserved() -> int:
    """Bytes, as a fence counts them."""
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmData"].split()[0]) * 1024


class TestApart:
    def test_a_block_is_the_same(self) -> None:
        block = made()
        found = blocks._apart(block)
        for name, value in vars(block).items():
            same = getattr(found, name)
            assert np.array_equal(same, value) if isinstance(value, np.ndarray) else same == value
            assert not isinstance(value, np.ndarray) or (
                same.dtype == value.dtype and not np.shares_memory(same, value)
            )

    def test_so_is_whatever_was_computed(self) -> None:
        computed: list[tuple[Any, Any]] = [(np.arange(3.0), np.zeros((0, 2))), (np.arange(5, dtype=np.int16), "text")]
        found = blocks._apart(computed)
        assert [[np.asarray(each).tolist() for each in pair] for pair in found] == [
            [np.asarray(each).tolist() for each in pair] for pair in computed
        ]
        assert found[0][1].shape == (0, 2)

    def test_its_memory_goes_with_it_whatever_was_made_after_it(self) -> None:
        before = reserved()
        kept = blocks.Kept(2**40, apart=True)
        others = []
        for index in range(COUNT):
            kept.remember((index, "key"), np.full(SIZE, index))
            others.append(np.zeros(100))
        assert reserved() >= before + 8 * COUNT * SIZE
        del kept
        assert len(others) == COUNT
        assert reserved() <= before + COUNT * SIZE  # an eighth of it


class TestKept:
    def test_apart_what_is_recalled_is_what_was_remembered(self) -> None:
        kept = blocks.Kept(2**20, apart=True)
        assert kept.is_empty
        kept.remember((0, "key"), [np.arange(3)])
        found = kept.recall((0, "key"))
        assert isinstance(found, list)
        assert (found[0].tolist(), kept.recall((1, "key")), kept.is_empty) == ([0, 1, 2], None, False)

    def test_apart_a_block_is_kept_as_it_is(self) -> None:
        kept, block = blocks.Kept(2**20, apart=True), made()
        kept.keep(0, block)
        found = kept.get(0)
        assert found is not None
        assert found is not block
        assert np.array_equal(found.states, block.states)
