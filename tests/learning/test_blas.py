"""BLAS has one thread while several threads multiply, and afterwards as many as before."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # which has a BLAS of its own, with other names

from discretion.learning import blas, sums
from tests.learning.test_sums import cut, discrete


def threads() -> list[int | None]:
    return [blas._call(library, "get_num_threads") for library in blas._libraries()]


@pytest.fixture(autouse=True)
def _three() -> Iterator[None]:
    """More than one, and not as many as a machine is likely to have."""
    before = list(zip(blas._libraries(), threads(), strict=True))
    blas.tell(3)
    yield
    for library, many in before:
        assert many is not None
        blas._call(library, "set_num_threads", many)


class Watching:
    """A statistic that looks how many threads BLAS has while it is added to."""

    def __init__(self, statistic: Any) -> None:
        self.statistic, self.seen = statistic, set[int | None]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.statistic, name)

    def add(self, *arguments: Any) -> None:
        self.seen.update(threads())
        self.statistic.add(*arguments)


class TestTell:
    def test_every_library_is_told(self) -> None:
        """numpy's and scipy's, which name their functions differently."""
        assert threads()
        assert set(threads()) == {3}

    def test_a_library_without_such_a_function_is_left_alone(self) -> None:
        assert blas._call(ctypes.CDLL(None), "set_num_threads", 5) is None
        assert set(threads()) == {3}


class TestOneEach:
    def test_afterwards_there_are_as_many_as_before(self) -> None:
        with blas.one_each():
            assert set(threads()) == {1}
        assert set(threads()) == {3}

    def test_also_after_a_failure(self) -> None:
        with pytest.raises(KeyError), blas.one_each():
            raise KeyError
        assert set(threads()) == {3}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
class TestPasses:
    @pytest.mark.parametrize(("many", "seen"), [(1, {3}), (2, {1})])
    def test_several_threads_have_one_of_blas_each_and_a_single_one_has_all(self, many: int, seen: set[int]) -> None:
        data, asked = discrete(1)
        watching = Watching(asked[0])
        (found,) = sums.partials([watching], cut(data, (30,)), many)
        np.testing.assert_array_equal(found, sums.partials([asked[0]], data, 1)[0])
        assert watching.seen == seen
        assert set(threads()) == {3}
