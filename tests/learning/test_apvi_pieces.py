"""DP-APVI looks at what was drawn in pieces of rows: the policy is the same in any, and they are all that it takes."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from discretion.learning import apvi, sums
from discretion.learning.curator import Concentrated
from discretion.learning.schemas import Discrete, Schema
from tests import worlds

PARAMETERS = apvi.Parameters(c2=0.0, c1=0.3)


def drawn(schema: Schema, rows: int, seed: int = 0) -> apvi.Release:
    """So many rows, of which most are trusted, in all steps but one."""
    rng, columns = np.random.default_rng(seed), schema.count + 1
    visits = np.zeros((schema.horizon, schema.count, schema.actions), dtype=np.int64)
    which = np.sort(rng.choice(visits[1:].size, rows, replace=False)) + visits[0].size
    visits.reshape(-1)[which] = rng.integers(1, 3000, size=rows)
    many = visits.reshape(-1)[which, None] * rng.dirichlet(np.full(columns, 0.05), size=rows)
    transitions = np.rint(many + rng.normal(size=many.shape)).astype(np.int64)
    counted = apvi.mechanisms(schema, 10_000, Concentrated(Fraction(10**4)), PARAMETERS)[:2]
    return apvi.Release(visits, which, transitions, tuple(counted), visits - 0.6 * visits, counted[0])


class TestDerive:
    @pytest.mark.parametrize("processors", [1, 4])
    @pytest.mark.parametrize("rows_of_a_piece", [1, 3, 4, 7])
    @pytest.mark.parametrize(("states", "rows"), [(333, 450), (10_007, 23)])
    def test_the_size_of_a_piece_changes_no_bit_of_a_score(
        self, states: int, rows: int, rows_of_a_piece: int, processors: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of the larger, a product takes longer than BLAS leaves to one thread."""
        schema = Schema(3, Discrete(states), 2)
        release = drawn(schema, rows)
        monkeypatch.setattr(apvi, "PIECE", 2**30)
        whole = worlds.watched(apvi.derive, release, schema, PARAMETERS)
        monkeypatch.setattr(apvi, "PIECE", rows_of_a_piece * (states + 1))
        monkeypatch.setattr(sums, "processors", lambda: processors)
        pieces = worlds.watched(apvi.derive, release, schema, PARAMETERS)
        np.testing.assert_array_equal(pieces.scores, whole.scores)
        assert np.count_nonzero(whole.scores) > rows / 3

    def test_what_it_takes_does_not_grow_with_the_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Apart from what each row has of its own: its place, its visits and its score."""
        monkeypatch.setattr(apvi, "PIECE", 2**14)
        monkeypatch.setattr(sums, "processors", lambda: 2)
        schema, taken = Schema(3, Discrete(1000), 2), []
        for rows in (300, 3000):
            release = drawn(schema, rows)
            tracemalloc.start()
            apvi.derive(release, schema, PARAMETERS)
            taken.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert taken[1] - taken[0] < release.transitions.size  # bytes: an eighth of these numbers as floats
