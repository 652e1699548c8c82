"""Whitened tables: within the unit ball by integers, with the same linear functions, and as white as can be."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import simulation
from discretion.learning import features as maps
from discretion.learning import whitening
from tests import worlds


def table_of(values: Any) -> maps.Table:
    norms = np.linalg.norm(values, axis=-1).max()
    return maps.Table(values / max(norms, 1e-300) * (1 - 1e-12) if norms > 0 else values)


def rows_of(geometry: whitening.Geometry) -> Any:
    return (geometry.features.psi / maps.ONE).reshape(-1, geometry.features.width)


@st.composite
def tables(draw: st.DrawFn) -> maps.Table:
    """Of any rank, with columns of very different sizes, repeated rows, and nothing at all in some."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    states, actions, width = (draw(st.integers(1, most)) for most in (5, 4, 6))
    values = rng.normal(size=(states, actions, width)) * 10.0 ** rng.integers(-6, 1, width)
    if draw(st.booleans()):
        values[..., 0] = draw(st.sampled_from([0.0, 1.0])) * values[..., -1]
    if draw(st.booleans()):
        values[:] = values[0]
    if draw(st.booleans()):
        values *= 0.0
    return table_of(values)


class TestWhitened:
    @settings(deadline=None, max_examples=150)
    @given(tables())
    def test_every_table_stays_within_the_unit_ball_and_keeps_its_shape(self, table: maps.Table) -> None:
        geometry = whitening.whitened(table)
        psi = geometry.features.psi
        assert int((psi**2).sum(axis=-1).max()) <= maps.ONE**2
        assert psi.shape == (table.states, table.actions, table.width + 1)
        assert 1 <= geometry.rank <= table.width + 1
        np.testing.assert_allclose(geometry.basis @ geometry.basis.T, np.eye(geometry.rank), atol=1e-12)

    @settings(deadline=None, max_examples=150)
    @given(tables())
    def test_linear_functions_of_the_table_and_constants_are_linear_still(self, table: maps.Table) -> None:
        psi, rows = rows_of(whitening.whitened(table)), table.values.reshape(-1, table.width)
        for function in (*rows.T, np.ones(len(rows))):
            weights = np.linalg.lstsq(psi, function, rcond=1e-4)[0]
            assert np.abs(psi @ weights - function).max() <= 0.02 * max(np.abs(function).max(), 1e-300)

    @pytest.mark.parametrize("seed", range(5))
    def test_the_design_is_nearly_optimal(self, seed: int) -> None:
        """By Kiefer and Wolfowitz no weights make all φᵀM⁻¹φ smaller than the rank, and some reach it."""
        table = worlds.signed_features(np.random.default_rng(seed), 6, 5, 4)
        psi = rows_of(whitening.whitened(table))
        assert np.linalg.matrix_rank(psi, tol=1e-3) == 5
        weights = np.full(len(psi), 1 / len(psi))
        for _ in range(2000):
            weights *= ((psi @ np.linalg.inv((psi * weights[:, None]).T @ psi)) * psi).sum(axis=1) / 5
        moment = (psi * weights[:, None]).T @ psi  # of an optimal design: white, as large as it can be
        np.testing.assert_allclose(moment, np.eye(5) / 5, atol=0.03)

    def test_it_does_not_depend_on_the_units_of_the_columns(self) -> None:
        values = worlds.signed_features(np.random.default_rng(1), 6, 5, 4).values
        plain = rows_of(whitening.whitened(table_of(values)))
        scaled = rows_of(whitening.whitened(table_of(values * [1.0, 1e-3, 20.0, 1e-5])))
        np.testing.assert_allclose(plain @ plain.T, scaled @ scaled.T, atol=1e-3)

    def test_one_direction_a_pair_stays_one_direction_a_pair(self) -> None:
        geometry = whitening.whitened(maps.one_hot(4, 3))
        psi = rows_of(geometry)
        np.testing.assert_allclose(psi @ psi.T, np.eye(12), atol=1e-3)
        assert geometry.rank == geometry.freedom == 12

    def test_the_paper_s_dead_coordinate_is_left_out(self) -> None:
        """Of 10 coordinates one is never set, and the constant is the sum of two others."""
        geometry = whitening.whitened(simulation.paper_mdp(0).features)
        assert geometry.rank == 9
        assert geometry.features.width == 11
        assert np.abs(rows_of(geometry)[:, 0]).max() < 1e-4
        assert geometry.freedom == 37


class TestProjected:
    @pytest.mark.parametrize("kind", ["signed", "one-hot", "paper"])
    def test_what_a_gram_matrix_can_be_stays_and_the_rest_goes(self, kind: str) -> None:
        rng = np.random.default_rng(0)
        table = {
            "signed": lambda: worlds.signed_features(rng, 2, 2, 4),
            "one-hot": lambda: maps.one_hot(3, 2),
            "paper": lambda: simulation.paper_mdp(1).features,
        }[kind]()
        geometry = whitening.whitened(table)
        rows = geometry.coordinates.reshape(-1, geometry.rank)
        gram = (rows * rng.integers(0, 50, len(rows))[:, None]).T @ rows
        np.testing.assert_allclose(geometry.projected(gram), gram, atol=2e-3 * np.abs(gram).max())
        noise = rng.normal(size=gram.shape)
        once = geometry.projected(noise + noise.T)
        np.testing.assert_allclose(geometry.projected(once), once, atol=1e-8)
        others = np.stack([np.outer(row, row) for row in rows])
        left = noise + noise.T - once
        assert np.abs((others * left).sum(axis=(1, 2))).max() < 0.02 * np.abs(noise).max()
        assert geometry.freedom < geometry.rank * (geometry.rank + 1) / 2

    def test_many_different_rows_restrict_nothing(self) -> None:
        geometry = whitening.whitened(worlds.signed_features(np.random.default_rng(0), 9, 9, 3))
        assert geometry.spanning is None
        matrix = np.arange(16.0).reshape(4, 4)
        np.testing.assert_array_equal(geometry.projected(matrix + matrix.T), matrix + matrix.T)
