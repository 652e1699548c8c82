"""Feature maps on their grid: never longer than 1, refused where they would be, each record's own to the last bit."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion import errors
from discretion.learning import features, terms
from discretion.learning.features import ONE, Bins, Blocks, Table
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.terms import Bin, Cosine, Hinge, Missing, Product, Term
from discretion.learning.trajectories import Trajectories, block_of
from tests.learning.test_maps import check_pure

untimed = settings(deadline=None)
VECTOR = Vector(("age", "pulse"), ((0.0, 100.0), (-1.0, 3.0)))
finite = st.floats(-1e6, 1e6)


def squared(psi: Any) -> Any:
    """Squared norms as Python integers, which do not wrap."""
    return [sum(int(x) ** 2 for x in row) for row in np.asarray(psi).reshape(-1, np.shape(psi)[-1])]


class TestTable:
    @untimed
    @given(st.lists(finite, min_size=1, max_size=8).filter(lambda v: sum(x * x for x in v) > 1e-6), st.integers(-3, 3))
    def test_a_vector_of_norm_one_is_never_longer_on_the_grid(self, vector: list[float], ulps: int) -> None:
        unit = np.array(vector) / math.sqrt(sum(x * x for x in vector))
        unit *= 1 + ulps * 2.0**-53  # norms from just below one to just above it
        psi = Table(unit.reshape(1, 1, -1)).psi
        assert squared(psi)[0] <= ONE**2
        assert (np.abs(psi[0, 0]) <= np.abs(unit) * ONE).all()
        assert (np.abs(psi[0, 0]) >= np.abs(unit) * ONE - 2).all()

    @pytest.mark.parametrize("excess", [0.0, 1e-16, 3e-16, 1e-12, 9e-10])
    def test_a_norm_that_is_one_but_for_rounding_is_kept_within_the_ball(self, excess: float) -> None:
        for vector in ([1.0], [0.6, 0.8], [0.5] * 4, [1 / 3, 2 / 3, -2 / 3]):
            psi = Table((np.array(vector) * (1 + excess)).reshape(1, 1, -1)).psi
            assert (1 - 2**-14) * ONE**2 < squared(psi)[0] <= ONE**2

    def test_a_grid_that_just_passes_the_norm_is_shrunk(self) -> None:
        """On the grid already, of a float norm of one, and one too long as integers."""
        at = next((a, math.isqrt(ONE**2 - a * a) + 1) for a in range(20_000, 60_000) if _rounds_to_one(a))
        psi = Table(np.array(at).reshape(1, 1, 2) / ONE).psi
        assert squared([at])[0] > ONE**2 >= squared(psi)[0]

    @pytest.mark.parametrize("length", [1 + 1e-8, 1.5, math.sqrt(7), 1e200, 1e308])
    def test_a_longer_vector_is_refused_with_its_state_and_action(self, length: float) -> None:
        values = np.zeros((4, 3, 2))
        values[2, 1] = (0.0, -length)
        with pytest.raises(errors.InvalidFeatures, match=r"state 2, action 1 have norm"):
            Table(values)

    @pytest.mark.parametrize("shape", [(2,), (2, 2), (0, 2, 2), (2, 2, 0), (1, 1, 1, 1)])
    def test_a_table_has_three_levels(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(errors.InvalidFeatures, match="three levels"):
            Table(np.zeros(shape))

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_table_holds_finite_numbers(self, value: float) -> None:
        with pytest.raises(errors.InvalidFeatures, match="finite"):
            Table(np.full((1, 1, 1), value))

    def test_a_table_too_wide_to_release_is_refused(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="width 1001"):
            Table(np.zeros((1, 1, 1001)))

    def test_one_hot_features_of_many_states_are_refused_before_they_are_made(self) -> None:
        with pytest.raises(errors.ProblemTooLarge, match="width 500000"):
            features.one_hot(100_000, 5)

    def test_one_hot_features_are_exact(self) -> None:
        hot = features.one_hot(3, 2)
        assert (hot.psi.reshape(6, 6) == np.eye(6) * ONE).all()
        assert features.dimension(hot) == 6


def _rounds_to_one(a: int) -> bool:
    b = math.isqrt(ONE**2 - a * a) + 1
    return Fraction(a * a + b * b, ONE**2) <= Fraction(10**9 + 1, 10**9)


class TestBins:
    @pytest.mark.parametrize(
        ("edges", "text"),
        [
            ({}, "at least one column"),
            ({"weight": [1.0]}, "'weight', which the states do not have"),
            ({"age": []}, "'age' must ascend"),
            ({"age": [3.0, 2.0]}, "'age' must ascend"),
            ({"age": [3.0, 3.0]}, "'age' must ascend"),
            ({"age": [0.0]}, "bounds 0 to 100"),
            ({"age": [100.0]}, "bounds 0 to 100"),
            ({"age": [50.0], "pulse": [np.nan]}, "finite numbers"),
            ({"age": "50"}, "finite numbers"),
            ({"age": 50.0}, "list of edges"),
        ],
    )
    def test_edges_are_refused_with_their_column(self, edges: Any, text: str) -> None:
        with pytest.raises(errors.InvalidFeatures, match=text):
            Bins.of(VECTOR, 2, edges)

    def test_a_column_that_may_be_missing_is_refused_and_others_do_not_mind(self) -> None:
        vector = replace(VECTOR, missing=("pulse",))
        with pytest.raises(errors.InvalidFeatures, match="'pulse' may be missing"):
            Bins.of(vector, 2, {"pulse": [0.0]})
        schema, bins = Schema(1, vector, 2), Bins.of(vector, 2, {"age": [50.0]})
        block = block_of(np.array([[[60.0, np.nan], [np.nan, 1.0]]]), np.zeros((1, 2), dtype=int), np.zeros((1, 2)))
        (found,) = features.binned(Trajectories(schema, 2, [block]), bins).blocks
        assert found.states.tolist() == [[1, -1]]

    def test_a_column_named_twice_is_refused(self) -> None:
        with pytest.raises(errors.InvalidFeatures, match="twice"):
            Bins(VECTOR, 2, (("age", (1.0,)), ("age", (2.0,))))

    def test_too_many_cells_are_refused(self) -> None:
        cuts = [float(x) for x in np.linspace(0.01, 0.99, 400)]
        with pytest.raises(errors.ProblemTooLarge):
            Bins.of(VECTOR, 2, {"age": cuts, "pulse": cuts})

    def test_an_edge_belongs_to_the_cell_above_it(self) -> None:
        bins = Bins.of(VECTOR, 2, {"age": [18.0, 65.0]})
        ages = [-math.inf, -5.0, 0.0, math.nextafter(18.0, 0), 18.0, 64.9, 65.0, 100.0, math.inf]
        assert bins.cells(np.array([[age, 0.0] for age in ages])).tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2]

    def test_cells_of_two_columns_are_all_different(self) -> None:
        bins = Bins.of(VECTOR, 3, {"age": [18.0, 65.0], "pulse": [0.0]})
        middles = np.array(list(itertools.product([9.0, 30.0, 80.0], [-0.5, 1.0])))
        assert bins.cells(middles).tolist() == list(range(6))
        assert (bins.states, bins.groups, features.dimension(bins)) == (6, 18, 18)
        assert len(np.unique(bins.group)) == 18
        assert (bins.psi == ONE).all()


class TestBlocks:
    @pytest.mark.parametrize(
        ("terms", "text"), [((), "each of them once"), (("age", "age"), "each of them once"), (("sex",), "'sex'")]
    )
    def test_terms_are_refused_by_name(self, terms: Any, text: str) -> None:
        with pytest.raises(errors.InvalidFeatures, match=text):
            Blocks(VECTOR, 2, terms)

    def test_terms_are_scaled_columns_and_the_constant(self) -> None:
        blocks = Blocks(VECTOR, 2, ("pulse", "1", "age"))
        found = blocks.psi(np.array([[0.0, 3.0], [50.0, 1.0], [75.0, -1.0], [-math.inf, 1e300]])) / ONE * math.sqrt(3)
        expected = [[1, 1, -1], [0, 1, 0], [-1, 1, 0.5], [1, 1, -1]]
        assert found == pytest.approx(np.array(expected), abs=2**-15)

    @untimed
    @given(
        st.lists(st.floats(allow_nan=False), min_size=1, max_size=12),
        st.floats(-4e99, 4e99),
        st.floats(1e-300, 4e99),
    )
    def test_no_state_is_longer_than_one_on_the_grid(self, state: list[float], low: float, gap: float) -> None:
        if low + gap <= low:
            return
        names = tuple(f"c{index}" for index in range(len(state)))
        blocks = Blocks(Vector(names, ((low, low + gap),) * len(state)), 1, (*names, "1"))
        psi = blocks.psi(np.array([state, [low] * len(state), [low + gap] * len(state)]))
        assert max(squared(psi)) <= ONE**2
        assert (psi == np.trunc(psi)).all()

    @pytest.mark.parametrize("width", range(1, 31))
    def test_the_corners_come_as_close_to_one_as_the_grid_allows(self, width: int) -> None:
        names = tuple(f"c{index}" for index in range(width))
        blocks = Blocks(Vector(names, ((0.0, 1.0),) * width), 1, names)
        longest = squared(blocks.psi(np.ones((1, width))))[0]
        assert width * (ONE / math.sqrt(width) - 1) ** 2 - 1 <= longest <= ONE**2


MISSING = replace(VECTOR, missing=("pulse",))
RICH: tuple[Term, ...] = (
    "1",
    "age",
    Hinge("pulse", 1.0, "above"),
    Product(("age", Hinge("pulse", 1.0, "below"))),
    Bin("age", 18.0, 65.0),
    Cosine((("age", 0.1), ("pulse", 1.0)), 0.5),
    Missing("pulse"),
)


class TestRichBlocks:
    """Maps with other terms than columns: orthogonal over the reference states, and never longer than 1."""

    @untimed
    @given(st.lists(st.tuples(st.floats(allow_nan=False), st.floats()), min_size=1, max_size=20))
    def test_no_state_is_longer_than_one_on_the_grid(self, states: list[tuple[float, float]]) -> None:
        psi = Blocks(MISSING, 2, RICH).psi(np.array(states))
        assert max(squared(psi)) <= ONE**2
        assert (psi == np.trunc(psi)).all()

    def test_most_reference_states_keep_their_length_and_some_reach_one(self) -> None:
        lengths = np.array(squared(Blocks(MISSING, 2, RICH).psi(features.with_gaps(MISSING, 1024)))) / ONE**2
        assert (lengths > 0.999).mean() == pytest.approx(0.05, abs=0.01)

    def test_terms_that_resemble_each_other_are_told_apart(self) -> None:
        alike = Blocks(VECTOR, 1, ("age", *(Hinge("age", at, "above") for at in (25.0, 50.0, 75.0))))
        psi = alike.psi(features.reference(VECTOR, 1024)) / ONE
        moment = psi.T @ psi
        assert np.abs(moment - np.diag(np.diag(moment))).max() < 0.05 * moment.max()
        assert np.linalg.cond(moment) < 3

    def test_terms_that_add_up_to_each_other_do_no_harm(self) -> None:
        halves = Blocks(VECTOR, 1, ("1", Bin("age", None, 50.0), Bin("age", 50.0, None)))
        psi = halves.psi(features.reference(VECTOR, 100))
        assert max(squared(psi)) <= ONE**2
        assert psi.any(axis=1).all()

    def test_features_are_a_records_own(self) -> None:
        blocks, rng = Blocks(MISSING, 2, RICH), np.random.default_rng(0)
        states = rng.uniform((-10, -2), (110, 4), (2500, 2))
        states[::5, 1] = np.nan
        check_pure(lambda rows: np.ascontiguousarray(blocks.psi(states[rows]).T), len(states))

    def test_what_is_no_term_is_refused(self) -> None:
        for wrong in (({"hinge": "age"},), (1,), (("age",),)):
            with pytest.raises(errors.InvalidFeatures):
                Blocks(VECTOR, 2, wrong)  # type: ignore[arg-type]

    def test_a_map_too_wide_to_be_made_orthogonal_is_refused_before_any_work(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worked = counted(monkeypatch)
        with pytest.raises(errors.ProblemTooLarge, match="151 terms, 150 at most"):
            Blocks(VECTOR, 1, hinges(features.MAX_TERMS + 1))
        assert not worked
        names = tuple(f"c{index}" for index in range(features.MAX_TERMS + 1))
        assert Blocks(Vector(names, ((0.0, 1.0),) * len(names)), 1, names).width > features.MAX_TERMS
        assert not worked  # columns are taken as they are

    def test_a_map_that_is_read_again_is_not_worked_out_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worked, states = counted(monkeypatch), features.reference(VECTOR, 10)
        first, again = (Blocks(VECTOR, 2, hinges(9)).psi(states) for _ in range(2))
        assert worked == [9]
        assert (first == again).all()
        Blocks(VECTOR, 2, hinges(8))
        assert worked == [9, 8]

    def test_a_map_of_the_largest_width_is_usable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worked = counted(monkeypatch)
        psi = Blocks(VECTOR, 1, hinges(features.MAX_TERMS)).psi(features.reference(VECTOR, 10))
        assert worked == [features.MAX_TERMS]
        assert max(squared(psi)) <= ONE**2


def hinges(count: int) -> tuple[Term, ...]:
    return tuple(Hinge("age", 100.0 * (place + 1) / (count + 1), "above") for place in range(count))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The widths of the maps that are worked out from now on."""
    worked: list[int] = []

    def moment(rows: Any) -> Any:
        worked.append(len(rows))
        return second_moment(rows)

    second_moment = features._second_moment
    features._mixing.cache_clear()
    monkeypatch.setattr(features, "_second_moment", moment)
    return worked


class TestReference:
    def test_states_fill_the_declared_bounds_evenly(self) -> None:
        found = features.reference(VECTOR, 1024)
        assert (found >= VECTOR.low).all()
        assert (found <= VECTOR.high).all()
        for column, (low, high) in zip(found.T, VECTOR.bounds, strict=True):
            shares = np.histogram(column, bins=16, range=(low, high))[0] / 1024
            assert shares == pytest.approx(np.full(16, 1 / 16), abs=0.006)


class TestUsual:
    def test_it_grows_with_patients_and_budget(self) -> None:
        wide = Vector(tuple("abcdef"), ((0.0, 1.0),) * 6)
        widths = [
            features.usual(wide, 5, units, Fraction(rho)).width
            for units, rho in ((1, "0.01"), (100, "0.1"), (1000, "0.1"), (1000, "1"), (10**6, "1"))
        ]
        assert widths == sorted(widths)
        assert (widths[0], widths[-1]) == (7, 58)

    def test_it_is_never_wider_than_what_may_be_written_down(self) -> None:
        assert features.MAX_WIDTH <= features.MAX_TERMS

    def test_a_column_that_may_be_missing_has_its_indicator(self) -> None:
        assert Missing("pulse") in features.usual(MISSING, 2, 1000, Fraction(1)).terms

    @pytest.mark.parametrize("columns", [1, 40, 400])
    def test_any_number_of_columns_can_be_released(self, columns: int) -> None:
        vector = Vector(tuple(f"c{index}" for index in range(columns)), ((0.0, 1.0),) * columns)
        found = features.usual(vector, 3, 10**6, Fraction(1))
        assert columns + 1 <= found.width <= max(columns + 1, features.MAX_WIDTH)

    def test_a_thousand_columns_are_refused_or_used_without_listing_their_products(self) -> None:
        vector = Vector(tuple(f"c{index}" for index in range(1000)), ((0.0, 1.0),) * 1000)
        assert next(itertools.islice(terms.kinds(vector), 1, None))[999] == terms.Hinge("c999", 0.25, "above")
        with pytest.raises(errors.ProblemTooLarge, match="use fewer"):
            features.usual(vector, 5, 10**6, Fraction(1))

    def test_few_columns_get_finer_hinges(self) -> None:
        one = features.usual(Vector(("x",), ((0.0, 8.0),)), 2, 10**4, Fraction(1))
        cuts = [term.at for term in one.terms if isinstance(term, terms.Hinge)]
        assert cuts == [2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]
        two = features.usual(Vector(("x", "y"), ((0.0, 8.0),) * 2), 2, 10**4, Fraction(1))
        assert two.width == 1 + 2 + 2 + 1 + 2 + 6 + 8


class TestCheck:
    def test_a_map_belongs_to_its_schema(self) -> None:
        discrete, vector = Schema(2, Discrete(3), 2), Schema(2, VECTOR, 2)
        blocks, bins = Blocks(VECTOR, 2, ("1",)), Bins.of(VECTOR, 2, {"age": [50.0]})
        features.check(features.one_hot(3, 2), discrete)
        features.check(blocks, vector)
        features.check(bins, vector)
        for wrong in (features.one_hot(4, 2), features.one_hot(3, 3), blocks, bins):
            with pytest.raises(errors.InvalidFeatures):
                features.check(wrong, discrete)
        for other in (features.one_hot(3, 2), Blocks(VECTOR, 3, ("1",)), replace(bins, actions=3)):
            with pytest.raises(errors.InvalidFeatures):
                features.check(other, vector)
        with pytest.raises(errors.InvalidFeatures, match="other state columns or bounds"):
            features.check(Blocks(Vector(("age",), ((0.0, 1.0),)), 2, ("1",)), vector)
