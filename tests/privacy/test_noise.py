"""The noise: does it follow its law, is every comparison exact, and does it stop when randomness does?"""

import ast
import inspect
import os
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discretion import errors
from discretion.privacy import noise
from tests import goodness

DRAWS = 10**7
LIMIT = 126  # the largest whole σ that has a table of its own; 127 is drawn in parts
variances = st.fractions(min_value=Fraction(1, 50), max_value=2000, max_denominator=1000)


class Script:
    """A random source that plays the given blocks, and insists on being asked for exactly them."""

    def __init__(self, *blocks: bytes) -> None:
        self.blocks = list(blocks)

    def __call__(self, count: int) -> bytes:
        block = self.blocks.pop(0)
        assert len(block) == count
        return block


def words(kind: str, numbers: list[int]) -> bytes:
    return np.array(numbers, np.dtype(kind)).tobytes()


def longs(numbers: list[int]) -> list[bytes]:
    return [number.to_bytes(8, "little") for number in numbers]


def halves(numbers: list[int]) -> list[bytes]:
    """The blocks a table asks for when every one of these 64-bit numbers lies in a bucket with a boundary."""
    return [words("<u2", [n >> 48 for n in numbers]), words("<u8", [n % 2**48 << 16 for n in numbers])]


def real(fraction: Fraction) -> mpmath.mpf:
    return mpmath.mpf(fraction.numerator) / fraction.denominator


@cache
def independent_floors(law: noise.Law, mirrored: bool, bits: int) -> list[int]:
    """floor(2^bits · CDF) by 80 digits of mpmath and nothing of the product's."""
    with mpmath.workdps(80):
        weights = [mpmath.mpf(1)]
        while weights[-1] > mpmath.mpf(2) ** -250:
            weights.append(mpmath.exp(-real(law.square) * len(weights) ** 2 - real(law.linear) * len(weights)))
        cells = [weights[0], *(w for w in weights[1:] for _ in range(2))] if mirrored else weights
        total, running, floors = mpmath.fsum(cells), mpmath.mpf(0), []
        for weight in cells:
            running += weight
            floors.append(int(mpmath.floor(running / total * 2**bits)))
            if floors[-1] == 2**bits - 1:
                return floors
    raise AssertionError("the weights were cut too early")


def gaussian_law(sigma: Fraction | int) -> noise.Law:
    return noise.Law(1 / (2 * Fraction(sigma) ** 2), Fraction(0))


def laplace_law(scale: Fraction | int) -> noise.Law:
    return noise.Law(Fraction(0), 1 / Fraction(scale))


TABLES = [
    gaussian_law(Fraction(3, 10)),
    gaussian_law(6),
    gaussian_law(50),
    laplace_law(1),
    laplace_law(Fraction(13, 2)),
]
PARTS = [gaussian_law(LIMIT + 1), gaussian_law(10**6), gaussian_law(2**45 + 1), laplace_law(100), laplace_law(2**45)]


class TestGaussian:
    @pytest.mark.parametrize(
        "sigma",
        [Fraction(3, 10), 1, Fraction(63, 10), 50, LIMIT, LIMIT + 1, 1000, 10**6],
        ids=lambda sigma: f"σ={sigma}",
    )
    def test_follows_its_law(self, sigma: Fraction) -> None:
        variance = Fraction(sigma) ** 2
        fit = goodness.fit(lambda n: noise.gaussian(variance, n), goodness.gaussian(variance), DRAWS)
        assert fit.accepted, fit

    def test_the_law_at_an_enormous_scale_is_that_of_the_continuous_gaussian(self) -> None:
        sigma = 2**45 + 1
        coarse = noise.gaussian(Fraction(sigma) ** 2, DRAWS) // 2**35  # the cells of σ' = σ/2^35, to one part in 2^35
        edges = np.arange(-9 * 2**10, 9 * 2**10 + 1, 64)
        masses = np.diff([float(mpmath.ncdf(mpmath.mpf(int(e)) * 2**35 / sigma)) for e in edges])
        counts, expected = np.histogram(coarse, edges)[0], masses * DRAWS
        usual = expected >= goodness.FEWEST
        chi_square = ((counts - expected)[usual] ** 2 / expected[usual]).sum()
        assert stats.chi2.sf(chi_square, usual.sum() - 1) > goodness.ALARM
        assert abs(np.mean(noise.gaussian(Fraction(sigma) ** 2, 10**5) & 1) - 0.5) < 0.01  # low bits are alive

    def test_a_rounded_continuous_gaussian_is_found_out(self) -> None:
        rng = np.random.default_rng()
        fit = goodness.fit(
            lambda n: np.rint(rng.normal(size=n)).astype(np.int64), goodness.gaussian(Fraction(1)), DRAWS
        )
        assert not fit.accepted

    @pytest.mark.parametrize("sigma", [1, 50, 10**6])
    def test_a_scale_that_is_one_percent_off_is_found_out(self, sigma: int) -> None:
        wrong = Fraction(101 * sigma, 100) ** 2
        fit = goodness.fit(lambda n: noise.gaussian(wrong, n), goodness.gaussian(Fraction(sigma) ** 2), DRAWS)
        assert not fit.accepted

    def test_a_zero_with_two_names_is_found_out(self) -> None:
        """What a signed draw does that forgets to reject the negative zero."""
        variance = Fraction((LIMIT + 1) ** 2)

        def doubled(count: int) -> noise.Ints:
            draws = noise.gaussian(variance, count)
            return np.concatenate([draws, draws[draws == 0]])

        assert not goodness.fit(doubled, goodness.gaussian(variance), DRAWS).accepted

    def test_draws_like_opendp(self) -> None:
        theirs = opendp_draws(dp.l2_distance(T="f64"), dp.m.make_gaussian, 2.5, 50_000)
        assert goodness.same_law(noise.gaussian(Fraction(25, 4), 10**6), theirs) > goodness.ALARM
        assert goodness.same_law(noise.gaussian(Fraction(15, 2), 10**6), theirs) < goodness.ALARM

    @pytest.mark.parametrize("shape", [0, 1, 7, (), (0,), (3, 0, 2), (2, 3), 2**16 + 1, (3, 2**16)])
    @pytest.mark.parametrize("sigma", [2, 1000])
    def test_every_shape_is_filled(self, shape: noise.Shape, sigma: int) -> None:
        drawn = noise.gaussian(Fraction(sigma**2), shape)
        assert drawn.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert drawn.dtype == np.int64
        assert np.abs(drawn).max(initial=0) < 20 * sigma

    @settings(max_examples=50, deadline=None)
    @given(variance=st.fractions(min_value=Fraction(1, 10**9), max_value=2**100), shape=st.tuples(st.integers(0, 5)))
    def test_any_variance_gives_noise_of_its_size(self, variance: Fraction, shape: tuple[int]) -> None:
        drawn = noise.gaussian(variance, shape)
        assert all(int(x) ** 2 <= 400 * variance for x in drawn)

    def test_two_draws_differ_whatever_is_seeded(self) -> None:
        drawn = []
        for _ in range(2):
            random.seed(0)
            np.random.seed(0)
            drawn.append(noise.gaussian(Fraction(36), 100))
        assert (drawn[0] != drawn[1]).any()

    @pytest.mark.parametrize("variance", [0, -1, Fraction(-1, 3), 1.0, True, "1", None, np.int64(4), float("nan")])
    def test_refuses_what_is_no_exact_positive_number(self, variance: Fraction) -> None:
        with pytest.raises(errors.InvalidNoiseScale):
            noise.gaussian(variance, 3)

    def test_refuses_a_variance_whose_noise_may_not_fit_into_64_bits(self) -> None:
        with pytest.raises(errors.InvalidNoiseScale, match=r"less than 2\^104"):
            noise.gaussian(Fraction(2**104), 3)
        assert noise.gaussian(Fraction(2**104 - 1), 3).shape == (3,)


def opendp_draws(metric: object, make: Callable[..., Callable[..., list[int]]], scale: float, count: int) -> noise.Ints:
    dp.enable_features("contrib")
    measurement = make(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)
    return np.array(measurement([0] * count), np.int64)


class TestLaplace:
    @pytest.mark.parametrize(
        "scale", [Fraction(3, 10), 1, Fraction(13, 2), 20, 21, 1000, 10**5], ids=lambda scale: f"scale={scale}"
    )
    def test_follows_its_law(self, scale: Fraction) -> None:
        fit = goodness.fit(lambda n: noise.laplace(Fraction(scale), n), goodness.laplace(Fraction(scale)), DRAWS)
        assert fit.accepted, fit

    def test_a_scale_that_is_one_percent_off_is_found_out(self) -> None:
        fit = goodness.fit(lambda n: noise.laplace(Fraction(101, 10), n), goodness.laplace(Fraction(10)), DRAWS)
        assert not fit.accepted

    def test_draws_like_opendp(self) -> None:
        theirs = opendp_draws(dp.l1_distance(T="f64"), dp.m.make_laplace, 2.5, 100_000)
        assert goodness.same_law(noise.laplace(Fraction(5, 2), 10**6), theirs) > goodness.ALARM
        assert goodness.same_law(noise.laplace(Fraction(27, 10), 10**6), theirs) < goodness.ALARM

    @pytest.mark.parametrize("scale", [0, -2, 0.5, False, 2**52])
    def test_refuses_what_is_no_exact_positive_number_of_a_safe_size(self, scale: Fraction) -> None:
        with pytest.raises(errors.InvalidNoiseScale):
            noise.laplace(scale, 3)


class TestSymmetricGaussian:
    @pytest.mark.parametrize("sigma", [3, 500])
    def test_has_the_variance_off_the_diagonal_and_twice_it_on_the_diagonal(self, sigma: int) -> None:
        variance = Fraction(sigma**2)
        drawn = noise.symmetric_gaussian(variance, (10**6, 3, 3))
        for row in range(3):
            for column in range(3):
                tally = goodness.Tally(goodness.gaussian(2 * variance if row == column else variance))
                tally.add(drawn[:, row, column])
                assert tally.fit().accepted, (row, column)

    def test_entries_are_not_copies_of_each_other(self) -> None:
        drawn = noise.symmetric_gaussian(Fraction(100), (10**5, 3, 3))[:, *np.triu_indices(3)]
        correlations = np.corrcoef(drawn.T) - np.eye(6)
        assert np.abs(correlations).max() < 0.03

    @settings(max_examples=30, deadline=None)
    @given(stack=st.lists(st.integers(0, 3), max_size=2), size=st.integers(0, 6))
    def test_is_symmetric_for_every_shape(self, stack: list[int], size: int) -> None:
        drawn = noise.symmetric_gaussian(Fraction(10**6), (*stack, size, size))
        assert drawn.shape == (*stack, size, size)
        assert (drawn == np.swapaxes(drawn, -1, -2)).all()
        assert np.abs(drawn).max(initial=0) < 20_000

    @pytest.mark.parametrize("shape", [3, (3,), (2, 3), (3, 3, 2), ()])
    def test_refuses_a_shape_that_is_not_square(self, shape: noise.Shape) -> None:
        with pytest.raises(errors.InvalidParameter):
            noise.symmetric_gaussian(Fraction(1), shape)

    def test_refuses_a_variance_that_fits_off_the_diagonal_only(self) -> None:
        with pytest.raises(errors.InvalidNoiseScale):
            noise.symmetric_gaussian(Fraction(2**103), (2, 2))


class TestExp:
    @settings(max_examples=300, deadline=None)
    @given(x=st.fractions(min_value=0, max_value=500), precision=st.integers(32, 400))
    def test_encloses_the_exponential(self, x: Fraction, precision: int) -> None:
        with mpmath.workprec(2000):
            exact = mpmath.exp(-real(x)) * 2**precision
            below = noise._exp(x, precision)
            assert below <= exact <= below + noise._EXP_ERROR


class TestWeights:
    @pytest.mark.parametrize("law", TABLES)
    @pytest.mark.parametrize("precision", [50, 64, 160])
    def test_are_enclosed_together_with_their_tail(self, law: noise.Law, precision: int) -> None:
        enclosed = noise._weights(law, precision, smallest=1 << precision // 3)
        assert enclosed is not None
        weights, error, tail = enclosed
        with mpmath.workprec(600):
            exact = [mpmath.exp(-real(law.exponent(k))) * 2**precision for k in range(3 * len(weights) + 20)]
            kept, lost = mpmath.fsum(exact[: len(weights)]), mpmath.fsum(exact[len(weights) :])
            assert all(weight <= weight_exact for weight, weight_exact in zip(weights, exact, strict=False))
            assert 0 <= kept - sum(weights) <= error
            assert lost <= tail

    def test_the_error_bound_covers_the_worst_rounding(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With exponentials as far below the truth as they are allowed to be."""
        exp = noise._exp
        monkeypatch.setattr(noise, "_exp", lambda x, precision: (exp(x, precision + 30) + 2 + 2**30 >> 30) - 3)
        self.test_are_enclosed_together_with_their_tail(gaussian_law(6), 160)
        self.test_are_enclosed_together_with_their_tail(gaussian_law(LIMIT), 160)


class TestFloors:
    @pytest.mark.parametrize("law", TABLES)
    @pytest.mark.parametrize("mirrored", [True, False])
    @pytest.mark.parametrize("bits", [64, 128])
    def test_are_those_of_an_independent_calculation(self, law: noise.Law, mirrored: bool, bits: int) -> None:
        assert noise._floors(law, mirrored, bits) == independent_floors(law, mirrored, bits)

    @settings(max_examples=25, deadline=None)
    @given(variance=variances, linear=st.fractions(min_value=0, max_value=1, max_denominator=50))
    def test_are_right_for_any_law(self, variance: Fraction, linear: Fraction) -> None:
        law = noise.Law(1 / (2 * variance), linear)
        assert noise._floors(law, True, 64) == independent_floors(law, True, 64)

    @pytest.mark.parametrize("law", TABLES)
    def test_a_precision_too_low_is_noticed_and_never_gives_a_wrong_floor(self, law: noise.Law) -> None:
        right = noise._floors(law, True, 64)
        answers = [noise._floors_at(law, True, 64, guard) for guard in range(1, 97)]
        assert all(answer is None or answer == right for answer in answers)
        assert answers[0] is None
        assert answers[-1] == right

    def test_an_undecided_floor_raises_the_precision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        guards, floors_at = [], noise._floors_at

        def reluctant(law: noise.Law, mirrored: bool, bits: int, guard: int) -> list[int] | None:
            guards.append(guard)
            return floors_at(law, mirrored, bits, guard) if guard > 300 else None

        right = noise._floors(TABLES[1], True, 64)
        monkeypatch.setattr(noise, "_floors_at", reluctant)
        assert noise._floors(TABLES[1], True, 64) == right
        assert guards == [96, 192, 384]

    def test_a_variance_next_to_nothing_is_still_a_law(self) -> None:
        assert noise._floors(gaussian_law(Fraction(1, 10**3000)), True, 64) == [2**64 - 1]


def table_value(cell: int, mirrored: bool) -> int:
    return (cell + 1) // 2 * (-1 if cell % 2 else 1) if mirrored else cell


class TestTable:
    """Every comparison of the lazy inverse CDF, with scripted bits and the independent thresholds."""

    def expected(self, law: noise.Law, number: int, bits: int) -> int:
        sampler = noise._sampler(law)
        floors = independent_floors(sampler.cells, sampler.shift == 0, bits)
        cell = bisect_left(floors, number)
        assert floors[cell] != number
        return table_value(cell, sampler.shift == 0)

    def drawn(self, law: noise.Law, count: int, *blocks: bytes) -> list[int]:
        script = Script(*blocks)
        drawn = noise._from_table(noise._sampler(law), count, script)
        assert not script.blocks
        return drawn.tolist()

    @pytest.mark.parametrize("law", [*TABLES, *PARTS])
    def test_a_bucket_without_a_boundary_needs_16_bits(self, law: noise.Law) -> None:
        floors = independent_floors(noise._sampler(law).cells, noise._sampler(law).shift == 0, 64)
        boundaries = {floor >> 48 for floor in floors}
        clear = [bucket for bucket in range(2**16) if bucket not in boundaries]
        expected = [self.expected(law, bucket << 48, 64) for bucket in clear]
        assert self.drawn(law, len(clear), words("<u2", clear)) == expected

    @pytest.mark.parametrize("law", [*TABLES, *PARTS])
    def test_beside_every_threshold_64_bits_decide(self, law: noise.Law) -> None:
        floors = independent_floors(noise._sampler(law).cells, noise._sampler(law).shift == 0, 64)
        beside = {floor + step for floor in floors for step in (-1, 1)} - set(floors) - {2**64}
        numbers = sorted(n for n in beside if n >> 48 in {floor >> 48 for floor in floors})
        assert len(numbers) > len(set(floors)) - 3
        assert self.drawn(law, len(numbers), *halves(numbers)) == [self.expected(law, n, 64) for n in numbers]

    @pytest.mark.parametrize("law", TABLES[:2] + TABLES[3:4] + PARTS[:1])
    @pytest.mark.parametrize("step", [-1, 1])
    def test_on_every_threshold_128_bits_decide_either_way(self, law: noise.Law, step: int) -> None:
        sampler = noise._sampler(law)
        deep = independent_floors(sampler.cells, sampler.shift == 0, 128)
        shallow = independent_floors(sampler.cells, sampler.shift == 0, 64)
        numbers = [n + step for n in deep[: len(shallow)] if n + step not in deep and n + step >> 64 == n >> 64]
        numbers = numbers[:: max(1, len(numbers) // 120)]
        blocks = [*halves([n >> 64 for n in numbers]), *longs([n % 2**64 for n in numbers])]
        assert self.drawn(law, len(numbers), *blocks) == [self.expected(law, n, 128) for n in numbers]

    @pytest.mark.parametrize("law", TABLES)
    def test_the_tail_beyond_the_table_is_reached(self, law: noise.Law) -> None:
        deep, shallow = independent_floors(law, True, 128), independent_floors(law, True, 64)
        for cell in range(len(shallow), len(deep) - 1):
            if deep[cell] - deep[cell - 1] > 1:
                blocks = [*halves([2**64 - 1]), *longs([(deep[cell] - 1) % 2**64])]
                assert self.drawn(law, 1, *blocks) == [table_value(cell, True)]

    def test_a_tie_of_128_bits_goes_on_to_192(self) -> None:
        law = gaussian_law(6)
        for step in (-1, 1):
            number = independent_floors(law, True, 192)[10] + step
            blocks = [*halves([number >> 128]), *longs([number >> 64 & 2**64 - 1, number % 2**64])]
            assert self.drawn(law, 1, *blocks) == [self.expected(law, number, 192)]

    def test_a_wide_law_has_a_table_of_multiples(self) -> None:
        assert noise._sampler(gaussian_law(LIMIT)).shift == 0
        assert noise._sampler(gaussian_law(LIMIT + 1)).shift == 1
        assert noise._sampler(gaussian_law(2**52 - 1)).shift <= 48

    def test_a_prepared_law_cannot_be_changed(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            noise._sampler(gaussian_law(6)).answers[0] = 1


class TestParts:
    """x = m·q + r with a coin: every outcome has one name and its coin has the right bias."""

    def attempt(self, law: noise.Law, parts: list[tuple[int, int, int]], coins: list[int], *more: bytes) -> list[int]:
        """Play the sampler quotients, signs and remainders; `more` goes to coins that 32 bits do not decide."""
        sampler = noise._sampler(law)
        buckets = [int(np.flatnonzero(sampler.answers == quotient)[0]) for quotient, _, _ in parts]
        script = Script(
            words("<u2", buckets),
            words("<u8", [sign << 63 | rest for _, sign, rest in parts]),
            words("<u4", coins),
            *more,
        )
        drawn = noise._from_parts(sampler, len(parts), script)
        assert not script.blocks
        return drawn.tolist()

    def outcomes(self, law: noise.Law) -> Iterator[tuple[tuple[int, int, int], int, mpmath.mpf]]:
        """Parts, the value they name, and exp(-γ) as the ratio of two weights of the law itself."""
        m = 1 << noise._sampler(law).shift
        for quotient in (0, 1, 7, 40):
            for sign in (0, 1):
                for rest in sorted({0, 1, m // 3, m // 2, m - 1} & set(range(m)) if m < 9 else {0, 1, m // 3, m - 1}):
                    value = -1 - (m * quotient + rest) if sign else m * quotient + rest
                    gain = law.exponent(abs(value)) - law.exponent(m * quotient)
                    yield (quotient, sign, rest), value, mpmath.exp(-real(gain))

    def test_every_integer_has_one_name(self) -> None:
        law = gaussian_law(1000)
        m = 1 << noise._sampler(law).shift
        assert m == 8
        parts = [(q, sign, rest) for q in range(20) for sign in (0, 1) for rest in range(m)]
        assert sorted(self.attempt(law, parts, [0] * len(parts))) == list(range(-20 * m, 20 * m))

    @pytest.mark.parametrize("law", PARTS)
    def test_a_coin_beside_its_probability_needs_32_bits(self, law: noise.Law) -> None:
        with mpmath.workdps(80):
            outcomes = [(parts, value, int(p * 2**32)) for parts, value, p in self.outcomes(law)]
        low = [(parts, value, floor - 2) for parts, value, floor in outcomes]
        high = [(parts, value, floor + 2) for parts, value, floor in outcomes if floor + 2 < 2**32]
        assert self.attempt(law, [x[0] for x in low], [x[2] for x in low]) == [x[1] for x in low]
        assert self.attempt(law, [x[0] for x in high], [x[2] for x in high]) == []
        assert len(high) >= len(low) // 2

    @pytest.mark.parametrize("law", PARTS)
    @pytest.mark.parametrize("step", [-1, 1])
    @pytest.mark.parametrize("rounds", [1, 2])
    def test_a_coin_on_its_probability_is_settled_either_way(self, law: noise.Law, step: int, rounds: int) -> None:
        """96 bits decide, or 160 when the first 96 agree as well."""
        played = 0
        for parts, value, p in self.deep_outcomes(law):
            number = int(p * 2 ** (32 + 64 * rounds)) + step
            digits = [number >> 64 * k & 2**64 - 1 for k in reversed(range(rounds))]
            drawn = self.attempt(law, [parts], [number >> 64 * rounds], *longs(digits))
            assert drawn == ([value] if step < 0 else [])
            played += 1
        assert played >= 12

    def deep_outcomes(self, law: noise.Law) -> Iterator[tuple[tuple[int, int, int], int, mpmath.mpf]]:
        with mpmath.workdps(80):
            yield from (outcome for outcome in self.outcomes(law) if outcome[2] < 1 - mpmath.mpf(2) ** -30)

    def test_a_coin_that_cannot_fail_is_not_tossed_for_ever(self) -> None:
        law = gaussian_law(1000)
        assert self.attempt(law, [(3, 0, 0)], [2**32 - 1]) == [24]
        assert noise._settled_coin(Fraction(0), 2**32 - 1, Script())

    @pytest.mark.parametrize(("more", "heads"), [(bytes(8), True), (b"\xff" * 8, False)])
    def test_a_coin_inside_the_enclosure_of_its_probability_reads_on(self, more: bytes, heads: bool) -> None:
        coin = 3 * 10**9
        with mpmath.workprec(400):  # exp(-γ) lies half a unit of the first enclosure above the coin
            gamma = Fraction(int(-mpmath.log((coin * 2**32 + mpmath.mpf(0.5)) / 2**64) * 2**300), 2**300)
        script = Script(more)
        assert noise._settled_coin(gamma, coin, script) is heads
        assert not script.blocks

    def test_what_was_rejected_is_drawn_again(self) -> None:
        law = gaussian_law(1000)
        sampler = noise._sampler(law)
        bucket = int(np.flatnonzero(sampler.answers == 100)[0])
        rounds = [
            [words("<u2", [bucket] * 2), words("<u8", [7, 7]), words("<u4", [2**32 - 1, 0])],
            [words("<u2", [bucket]), words("<u8", [1 << 63]), words("<u4", [0])],
        ]
        script = Script(*rounds[0], *rounds[1])
        assert noise._sample(law, 2, script).tolist() == [807, -801]
        assert not script.blocks


class TestKeystream:
    def test_children_of_a_fork_draw_their_own_noise(self) -> None:
        stream = noise.Keystream()
        stream(64)
        seen = [in_child(lambda: noise.gaussian(Fraction(10**6), 50).tobytes()) for _ in range(2)]
        seen += [in_child(lambda: stream(400)) for _ in range(2)]  # forked while a draw is under way
        seen += [noise.gaussian(Fraction(10**6), 50).tobytes(), stream(400)]
        assert all(len(block) == 400 for block in seen)
        assert len(set(seen)) == 6

    def test_threads_draw_their_own_noise(self) -> None:
        reference = goodness.Tally(goodness.gaussian(Fraction(10**6)))
        with ThreadPoolExecutor(8) as pool:
            drawn = list(pool.map(lambda _: noise.gaussian(Fraction(10**6), 20_000), range(64)))
        assert len({block.tobytes() for block in drawn}) == 64
        reference.add(np.concatenate(drawn))
        assert reference.fit().accepted

    def test_the_key_is_renewed_after_so_many_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys: list[bytes] = []
        urandom = os.urandom

        def recorded(count: int) -> bytes:
            keys.append(urandom(count))
            return keys[-1]

        monkeypatch.setattr(os, "urandom", recorded)
        monkeypatch.setattr(noise, "_BYTES_PER_KEY", 256)
        stream = noise.Keystream()
        blocks = [stream(128) for _ in range(6)]
        assert len(set(keys)) == len(keys) == 3
        assert len(set(blocks)) == 6

    def test_its_bytes_are_even(self) -> None:
        counts = np.bincount(np.frombuffer(noise.Keystream()(2**19), np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > goodness.ALARM

    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(lambda count: raising(OSError()), id="fails"),
            pytest.param(lambda count: raising(NotImplementedError()), id="is missing"),
            pytest.param(lambda count: b"", id="empty"),
            pytest.param(lambda count: bytes(range(count - 1)), id="short"),
            pytest.param(lambda count: bytes(count), id="zeros"),
            pytest.param(lambda count: b"\xaa" * count, id="constant"),
        ],
    )
    @pytest.mark.parametrize("draw", [noise.gaussian, noise.laplace])
    def test_nothing_is_drawn_when_the_operating_system_has_no_randomness(
        self, monkeypatch: pytest.MonkeyPatch, broken: Callable[[int], bytes], draw: Callable[..., noise.Ints]
    ) -> None:
        monkeypatch.setattr(os, "urandom", broken)
        with pytest.raises(errors.RandomnessFailure):
            draw(Fraction(36), 10)

    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(lambda block: raising(ValueError()), id="fails"),
            pytest.param(lambda block: bytes(len(block)), id="zeros"),
            pytest.param(lambda block: b"\x01" * len(block), id="constant"),
            pytest.param(lambda block: np.random.bytes(len(block))[:-1], id="short"),
            pytest.param(lambda block: np.random.bytes(len(block) - 24) + bytes(24), id="zeros at the end"),
            pytest.param(lambda block: bytes(24) + np.random.bytes(len(block) - 24), id="zeros at the start"),
        ],
    )
    @pytest.mark.parametrize("sigma", [6, 1000])
    def test_nothing_is_drawn_when_the_cipher_is_broken(
        self, monkeypatch: pytest.MonkeyPatch, broken: Callable[[bytes], bytes], sigma: int
    ) -> None:
        class Broken:
            def __init__(self, *_: object) -> None:
                pass

            def encryptor(self) -> "Broken":
                return self

            def update(self, block: bytes) -> bytes:
                return broken(block)

        monkeypatch.setattr(noise, "Cipher", Broken)
        for count in (1, 10, 10**5):
            with pytest.raises(errors.RandomnessFailure):
                noise.gaussian(Fraction(sigma**2), count)

    def test_a_cipher_that_breaks_midway_leaves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        healthy, calls = noise.Keystream.__call__, []

        def failing(stream: noise.Keystream, count: int) -> bytes:
            calls.append(count)
            return healthy(stream, count) if len(calls) < 4 else b""

        monkeypatch.setattr(noise.Keystream, "__call__", failing)
        with pytest.raises(errors.RandomnessFailure):
            noise.gaussian(Fraction(36), 10**6)
        assert len(calls) == 4


def raising(failure: Exception) -> bytes:
    raise failure


def in_child(produce: Callable[[], bytes]) -> bytes:
    """What a forked child makes of it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, produce())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        block = pipe.read()
    os.waitpid(child, 0)
    return block


class TestModule:
    def test_no_public_function_takes_a_seed_or_a_source(self) -> None:
        for function in (noise.gaussian, noise.laplace, noise.symmetric_gaussian):
            first, *others = inspect.signature(function).parameters
            assert first in {"variance", "scale"}
            assert others == ["shape"]

    def test_reads_no_environment_and_no_other_generator(self) -> None:
        tree = ast.parse(Path(noise.__file__).read_text())
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert attributes.isdisjoint({"environ", "getenv", "random", "seed", "default_rng"})
        modules = {node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)}
        modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert modules.isdisjoint({"random", "secrets", "numpy.random", "discretion.settings"})
