"""What a release costs: the stated formulas, their composition, and the divergence the noise really has.

The divergences are summed over the noise's own probabilities, so they know nothing of the formulas they are held to.
"""

import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discretion import errors
from discretion.privacy import events, rho
from discretion.privacy.events import EVERYONE, FIRST_HALF, GAUSSIAN, LAPLACE, SECOND_HALF, SYMMETRIC_GAUSSIAN, Event

ORDERS = (1.1, 1.5, 2.0, 3.0, 8.0, 64.0)
# Of the floating-point sums below; the divergences come much closer to their bounds than any wrong constant would.
SLACK = 1 + 1e-9

untimed = settings(deadline=None)
positive = st.builds(Fraction, st.integers(1, 10**40), st.integers(1, 10**40))
moderate = st.builds(Fraction, st.integers(1, 1000), st.integers(1, 1000))
Ints = NDArray[np.int64]
Scale = Callable[[Fraction, Fraction], Fraction]


def event(
    mechanism: str = GAUSSIAN,
    sensitivity: Fraction = Fraction(2),
    scale: Fraction = Fraction(4),
    part: str = EVERYONE,
    resolution: Fraction = Fraction(1),
) -> Event:
    return Event(mechanism, "statistic", (1,), sensitivity, scale, resolution, part)


some_events = st.lists(
    st.builds(
        event,
        st.sampled_from([GAUSSIAN, SYMMETRIC_GAUSSIAN, LAPLACE]),
        moderate,
        moderate,
        st.sampled_from(events.PARTS),
    ),
    max_size=8,
)


class TestEvent:
    @pytest.mark.parametrize("mechanism", ["", "Gaussian", "laplacian", "none", "exponential"])
    def test_a_mechanism_whose_cost_nobody_knows_is_refused(self, mechanism: str) -> None:
        with pytest.raises(errors.UnknownMechanism, match="no mechanism"):
            event(mechanism)

    @pytest.mark.parametrize("part", ["", "half", "third half", "nobody"])
    def test_a_part_that_is_neither_everyone_nor_a_half_is_refused(self, part: str) -> None:
        with pytest.raises(errors.UnknownMechanism, match="no part"):
            event(part=part)

    @pytest.mark.parametrize("field", ["sensitivity", "scale", "resolution"])
    @pytest.mark.parametrize("value", [Fraction(0), Fraction(-1), Fraction(-1, 10**30)])
    def test_nothing_is_released_without_noise_or_sensitivity(self, field: str, value: Fraction) -> None:
        with pytest.raises(errors.InvalidNoiseScale, match="positive"):
            event(**{field: value})  # type: ignore[arg-type]

    def test_the_scale_on_the_grid_is_squared_where_the_scale_is_a_variance(self) -> None:
        step = Fraction(1, 8)
        assert event(GAUSSIAN, scale=Fraction(3), resolution=step).grid_scale == 3 * 64
        assert event(SYMMETRIC_GAUSSIAN, scale=Fraction(3), resolution=step).grid_scale == 3 * 64
        assert event(LAPLACE, scale=Fraction(3), resolution=step).grid_scale == 3 * 8


class TestCost:
    @untimed
    @given(moderate, moderate)
    def test_each_mechanism_costs_what_its_line_of_the_table_says(self, delta: Fraction, scale: Fraction) -> None:
        assert events.cost(event(GAUSSIAN, delta, scale)) == delta / (2 * scale)
        assert events.cost(event(SYMMETRIC_GAUSSIAN, delta, scale)) == delta / (4 * scale)
        assert events.cost(event(LAPLACE, delta, scale)) == (delta / scale) ** 2 / 2

    @untimed
    @given(moderate, moderate, st.sampled_from(events.PARTS), moderate)
    def test_neither_the_part_nor_the_resolution_of_one_release_matters(
        self, delta: Fraction, scale: Fraction, part: str, step: Fraction
    ) -> None:
        for mechanism in (GAUSSIAN, SYMMETRIC_GAUSSIAN, LAPLACE):
            plain = event(mechanism, delta, scale)
            assert events.cost(event(mechanism, delta, scale, part, step)) == events.cost(plain)


class TestPureEpsilon:
    @untimed
    @given(moderate, moderate)
    def test_only_laplace_noise_gives_a_pure_guarantee(self, delta: Fraction, scale: Fraction) -> None:
        assert events.pure_epsilon(event(LAPLACE, delta, scale)) == delta / scale
        assert events.pure_epsilon(event(GAUSSIAN, delta, scale)) is None
        assert events.pure_epsilon(event(SYMMETRIC_GAUSSIAN, delta, scale)) is None


def recount(listed: list[Event], mine: str) -> Fraction:
    """What a unit of one half has to bear, added up by hand."""
    touching = [e for e in listed if e.part != (SECOND_HALF if mine == FIRST_HALF else FIRST_HALF)]
    pure = sum((e.sensitivity / e.scale for e in touching if e.mechanism == LAPLACE), Fraction(0))
    divisor = {GAUSSIAN: 2, SYMMETRIC_GAUSSIAN: 4}
    rest = (e.sensitivity / (divisor[e.mechanism] * e.scale) for e in touching if e.mechanism in divisor)
    return sum(rest, Fraction(0)) + rho.of_pure(pure)


class TestCompose:
    def test_nothing_costs_nothing(self) -> None:
        assert events.compose([]) == 0

    @untimed
    @given(some_events)
    def test_the_dearer_half_counts_and_everyone_counts_in_both(self, listed: list[Event]) -> None:
        assert events.compose(listed) == max(recount(listed, FIRST_HALF), recount(listed, SECOND_HALF))

    @untimed
    @given(some_events, st.randoms(use_true_random=False))
    def test_the_order_of_releases_does_not_matter(self, listed: list[Event], shuffler: random.Random) -> None:
        shuffled = list(listed)
        shuffler.shuffle(shuffled)
        assert events.compose(shuffled) == events.compose(listed)

    @untimed
    @given(some_events, some_events)
    def test_more_releases_never_cost_less(self, some: list[Event], more: list[Event]) -> None:
        assert events.compose(some + more) >= max(events.compose(some), events.compose(more))

    def test_halves_are_parallel_and_not_added(self) -> None:
        cheap, dear = event(part=FIRST_HALF), event(sensitivity=Fraction(6), part=SECOND_HALF)
        everyone = event(sensitivity=Fraction(1))
        assert events.compose([cheap, dear]) == events.cost(dear)
        assert events.compose([dear, cheap]) == events.cost(dear)
        assert events.compose([cheap, dear, everyone]) == events.cost(dear) + events.cost(everyone)
        assert events.compose([cheap, cheap, cheap, cheap, dear]) == 4 * events.cost(cheap)

    def test_pure_releases_add_their_epsilon_before_it_is_squared(self) -> None:
        half = event(LAPLACE, Fraction(1), Fraction(2))
        assert events.compose([half, half]) == Fraction(1, 2)
        assert events.compose([half, half, event(GAUSSIAN, Fraction(1), Fraction(1))]) == 1

    def test_it_reads_an_iterator_once(self) -> None:
        assert events.compose(iter([event(), event()])) == 2 * events.cost(event())


SCALES = [
    pytest.param(events.gaussian_scale, GAUSSIAN, id="gaussian"),
    pytest.param(events.symmetric_gaussian_scale, SYMMETRIC_GAUSSIAN, id="symmetric"),
]


class TestScales:
    @pytest.mark.parametrize(("scale", "mechanism"), SCALES)
    @untimed
    @given(delta=positive, share=positive)
    def test_a_release_costs_its_share_exactly(
        self, scale: Scale, mechanism: str, delta: Fraction, share: Fraction
    ) -> None:
        cost = events.cost(event(mechanism, delta, scale(delta, share)))
        assert cost == share

    @untimed
    @given(positive, positive)
    def test_a_pure_release_has_its_epsilon_exactly(self, delta: Fraction, share: Fraction) -> None:
        epsilon = events.pure_epsilon(event(LAPLACE, delta, events.laplace_scale(delta, share)))
        assert epsilon == share

    def test_the_scales_of_some_releases(self) -> None:
        assert events.gaussian_scale(Fraction(6), Fraction(1, 2)) == 6
        assert events.symmetric_gaussian_scale(Fraction(2), Fraction(1, 2)) == 1
        assert events.laplace_scale(Fraction(8), Fraction(1, 4)) == 32

    @pytest.mark.parametrize(("scale", "mechanism"), [*SCALES, pytest.param(events.laplace_scale, LAPLACE, id="pure")])
    @pytest.mark.parametrize(("delta", "share"), [(0, 1), (-1, 1), (1, -1)])
    def test_no_release_follows_from_an_amount_that_is_not_positive(
        self, scale: Scale, mechanism: str, delta: int, share: int
    ) -> None:
        with pytest.raises(errors.InvalidNoiseScale):
            event(mechanism, Fraction(max(delta, 1)), scale(Fraction(delta), Fraction(share)))


def divergence(shift: int, order: float, scale: float, mechanism: str) -> float:
    """The Rényi divergence between the noise and the noise moved by `shift`, summed over the integers."""
    reach = 14 * scale**0.5 if mechanism != LAPLACE else 60 * scale
    middle = (1 - order) * shift if mechanism != LAPLACE else 0.0
    x = np.arange(int(min(middle, 0) - reach) - abs(shift) - 2, int(max(middle, 0) + reach) + abs(shift) + 3.0)
    if mechanism == LAPLACE:
        here, there = -np.abs(x) / scale, -np.abs(x - shift) / scale
    else:
        here, there = -(x**2) / (2 * scale), -((x - shift) ** 2) / (2 * scale)
    terms = order * here + (1 - order) * there
    top = float(terms.max())
    return (top + float(np.log(np.exp(terms - top).sum()) - np.log(np.exp(here).sum()))) / (order - 1)


def largest_share(release: Event, change: Ints) -> float:
    """The largest D_α / (α·cost) over the orders, for neighbours whose statistics differ by `change` on the grid."""
    scale = float(release.grid_scale)
    symmetric = release.mechanism == SYMMETRIC_GAUSSIAN
    pairs = [
        (abs(int(change[index])), scale * (2 if symmetric and index[0] == index[1] else 1))
        for index in np.ndindex(change.shape)
        if not symmetric or index[0] <= index[1]
    ]
    cost = float(events.cost(release))
    return max(
        sum(divergence(shift, order, width, release.mechanism) for shift, width in pairs if shift) / (order * cost)
        for order in ORDERS
    )


def outer(vector: Ints) -> Ints:
    return np.outer(vector, vector)


def priced(mechanism: str, squared: int | Fraction, share: Fraction, unit: int) -> Event:
    """A release with its scale chosen for a share, on a grid of 1/unit."""
    scale = events.symmetric_gaussian_scale if mechanism == SYMMETRIC_GAUSSIAN else events.gaussian_scale
    return event(mechanism, Fraction(squared), scale(Fraction(squared), share), resolution=Fraction(1, unit))


THREE_FOUR, FOUR_THREE = np.array([3, 4]), np.array([4, -3])  # on a grid of 1/5: orthogonal and of norm 1
SHARES = [Fraction(1, 200), Fraction(1, 10), Fraction(1)]


class TestDivergence:
    """The stated costs, against neighbours that are as far apart as the stated sensitivity allows."""

    @pytest.mark.parametrize("share", SHARES, ids=str)
    @pytest.mark.parametrize("per_unit", [1, 2])
    def test_counts_reach_their_cost_and_never_exceed_it(self, share: Fraction, per_unit: int) -> None:
        horizon = 3
        release = priced(GAUSSIAN, 2 * horizon * per_unit**2, share, unit=1)
        change = np.repeat([per_unit, -per_unit], horizon)
        assert 0.99 <= largest_share(release, change) <= SLACK

    @pytest.mark.parametrize("share", SHARES, ids=str)
    @pytest.mark.parametrize("bound", [1, 6])
    def test_moments_reach_their_cost_and_never_exceed_it(self, share: Fraction, bound: int) -> None:
        release = priced(GAUSSIAN, 4 * bound**2, share, unit=25)
        assert 0.99 <= largest_share(release, 2 * bound * 5 * THREE_FOUR) <= SLACK

    @pytest.mark.parametrize("share", SHARES, ids=str)
    @pytest.mark.parametrize("other", [FOUR_THREE, np.array([0, 0])], ids=["replaced", "removed"])
    def test_symmetric_matrices_reach_their_cost_and_never_exceed_it(self, share: Fraction, other: Ints) -> None:
        release = priced(SYMMETRIC_GAUSSIAN, 2, share, unit=25)
        found = largest_share(release, outer(THREE_FOUR) - outer(other))
        assert found <= SLACK
        assert found >= (0.99 if other.any() else 0.49)

    @pytest.mark.parametrize("share", SHARES, ids=str)
    def test_a_change_on_the_diagonal_alone_pays_for_twice_the_variance(self, share: Fraction) -> None:
        release = priced(SYMMETRIC_GAUSSIAN, 2, share, unit=25)
        assert 0.99 <= largest_share(release, np.diag([25, -25])) <= SLACK

    @pytest.mark.parametrize("share", SHARES, ids=str)
    def test_gram_matrix_and_moment_together_reach_their_cost_and_never_exceed_it(self, share: Fraction) -> None:
        """φ(φ, y)ᵀ of norm 1 and |y| ≤ 1 has squared sensitivity 9/2, reached at ⟨φ, φ′⟩ = ½ and y = −y′."""
        release = priced(GAUSSIAN, Fraction(9, 2), share, unit=4)
        here, there = np.array([2, 0, 0, 0]), np.array([1, 1, 1, 1])  # on a grid of ½
        change = np.outer(here, [*here, 2]) - np.outer(there, [*there, -2])
        assert 0.99 <= largest_share(release, change) <= SLACK
        apart = np.outer(here, [*here, 2]) - np.outer([0, 2, 0, 0], [0, 2, 0, 0, -2])  # orthogonal: 4 of 9/2
        assert 0.88 <= largest_share(release, apart) <= 0.89
        claimed = priced(GAUSSIAN, 4, share, unit=4)  # the control: the price of the moment alone
        assert largest_share(claimed, change) >= 1.1

    @untimed
    @given(
        st.lists(st.tuples(st.integers(-16, 16), st.integers(-16, 16)), min_size=2, max_size=2),
        st.builds(Fraction, st.integers(1, 400), st.just(20)),
    )
    def test_no_two_records_within_the_unit_ball_cost_more(
        self, records: list[tuple[int, int]], share: Fraction
    ) -> None:
        inside = [np.array(r) if r[0] ** 2 + r[1] ** 2 <= 256 else np.array([0, np.sign(r[1]) * 16]) for r in records]
        gram = priced(SYMMETRIC_GAUSSIAN, 2, share, unit=256)
        assert largest_share(gram, outer(inside[0]) - outer(inside[1])) <= SLACK
        moment = priced(GAUSSIAN, 4, share, unit=16)
        assert largest_share(moment, inside[0] - inside[1]) <= SLACK

    @pytest.mark.parametrize("share", SHARES, ids=str)
    def test_the_calibration_for_adding_a_record_fails_where_one_is_replaced(self, share: Fraction) -> None:
        """The control: the paper's variance, 1/4ρ₀, supposes Δ_F² = 1. Neighbours that replace a record cost 2ρ₀."""
        variance = events.symmetric_gaussian_scale(Fraction(1), share)
        claimed = event(SYMMETRIC_GAUSSIAN, Fraction(1), variance, resolution=Fraction(1, 25))
        assert events.cost(claimed) <= share
        assert 1.98 <= largest_share(claimed, outer(THREE_FOUR) - outer(FOUR_THREE)) <= 2 * SLACK
        true = event(SYMMETRIC_GAUSSIAN, Fraction(2), variance)
        assert events.cost(true) == 2 * events.cost(claimed)

    def test_half_the_sensitivity_of_a_vector_is_found_out(self) -> None:
        """The control for counts and moments."""
        claimed = priced(GAUSSIAN, 1, Fraction(1, 10), unit=1)
        assert 1.98 <= largest_share(claimed, np.array([1, -1])) <= 2 * SLACK

    @pytest.mark.parametrize("shift", [1, 2, 7])
    @pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(40)])
    def test_laplace_noise_reaches_its_epsilon_and_never_exceeds_it(self, shift: int, scale: Fraction) -> None:
        release = event(LAPLACE, Fraction(shift), scale)
        x = np.arange(-500, 501)
        losses = (np.abs(x - shift) - np.abs(x)) / float(scale)
        epsilon = events.pure_epsilon(release)
        assert epsilon is not None
        assert losses.max() == pytest.approx(float(epsilon), rel=1e-12)
        assert largest_share(release, np.array([shift])) <= SLACK

    def test_laplace_noise_comes_close_to_half_its_epsilon_squared(self) -> None:
        assert largest_share(event(LAPLACE, Fraction(1), Fraction(400)), np.array([1])) >= 0.99

    @untimed
    @given(
        st.lists(st.integers(-5, 5), min_size=1, max_size=4).filter(any),
        st.builds(Fraction, st.integers(1, 1000), st.just(20)),
    )
    def test_no_vector_costs_more_than_its_absolute_sum(self, change: list[int], scale: Fraction) -> None:
        release = event(LAPLACE, Fraction(sum(map(abs, change))), scale)
        assert largest_share(release, np.array(change)) <= SLACK
