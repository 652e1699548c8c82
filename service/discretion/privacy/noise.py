"""Discrete Gaussian and discrete Laplace noise on the integers: the only place of the product that draws randomness.

P(x) is proportional to exp(-x²/(2σ²)) or to exp(-|x|/scale), iid and exact to the last bit given ideal random bits.
Exact, because floating-point noise leaks through its low bits, while integer data with discrete noise of the same σ
has the same ρ as the continuous Gaussian (Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential
Privacy", 2020). The bits are an AES-256-CTR keystream under a key of the operating system, so the guarantee is
computational: it holds against whoever cannot tell AES from random. There is no seed, and no way to pass one.

How a number is drawn: a uniform U in [0, 1) falls into one cell of the cumulative distribution, and U is read only as
far as needed. Its first 16 bits look the cell up when a whole bucket lies inside it; buckets with a boundary read 48
more bits and compare with floor(2^64 CDF); ties (less than one draw in 2^52) read 64 more, compare with
floor(2^128 CDF), and so on. Every floor is proven by integer interval arithmetic. The cells are 0, -1, 1, -2, 2, …, so
that there is one tail.

A wide law has too many cells. It is drawn as x = m·q + r: q from a table of the multiples of m = 2^shift, r uniform in
[0, m), accepted with probability exp(-γ), γ being what r adds to the exponent. That coin is tossed by 32 bits against a
float with a proven error, and settled in arbitrary precision when they are too close.
"""

import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from discretion import errors

Ints = NDArray[np.int64]
Words = NDArray[np.unsignedinteger]
Shape = int | tuple[int, ...]
Source = Callable[[int], bytes]  # so many random bytes, please; tests script it, the public functions never take one

# The curator keeps 2^10·σ + |sum| below 2^62; |x| >= 2^10·σ has a probability below e^-1023.
_LARGEST_SIGMA = 2**52
# Draws at a time: bounds the memory on top of the result. Composite draws hold some ten arrays at once, and beyond
# 128 KB each the allocator gives pages back and faults them in again, at twice the time.
_CHUNK, _COMPOSITE_CHUNK = 2**16, 2**14
_LARGEST_PERMUTATION = 2**32  # two of so many keys are equal with probability 0.4
_ZEROS = memoryview(bytes(8 * _CHUNK))  # what the cipher turns into its keystream, as long as the longest request
_BYTES_PER_KEY = 2**30  # 2^26 AES blocks: telling them from random has an advantage of about 2^-77
_SMALLEST_BLOCK = 64  # bytes; a shorter one could be constant by chance
_LONGEST_TABLE = 1600  # magnitudes: σ up to 126 (Laplace: scale up to 20) in one table, built in some 2 ms
_NEGLIGIBLE = 80  # exponent of the last of them; e^-80 leaves 50 bits to tell a 64-bit floor from its neighbour
_OPEN = np.int16(-(2**15))  # the bucket holds a boundary: 16 bits do not decide
_EXP_ERROR = 3
# In units of 2^-32, so 2^-40 of a probability. What it has to cover: γ is computed with at most 8 roundings of
# positive terms, a relative 2^-49, and |exp(-γ(1+d)) - exp(-γ)| <= |d| for every γ; exp itself is good to 4 ulp,
# 2^-50; the subtraction adds 2^-53. Together less than 2^-48, so the bound is generous by a factor of 2^8.
_COIN_ERROR = 2.0**-8


def gaussian(variance: Fraction, shape: Shape) -> Ints:
    """Independent discrete Gaussian noise: P(x) proportional to exp(-x²/(2·variance))."""
    return _sample(_gaussian_law(variance), shape, Keystream())


def laplace(scale: Fraction, shape: Shape) -> Ints:
    """Independent discrete Laplace noise: P(x) proportional to exp(-|x|/scale)."""
    return _sample(_laplace_law(scale), shape, Keystream())


def symmetric_gaussian(variance: Fraction, shape: Shape) -> Ints:  # (..., p, p)
    """Symmetric discrete Gaussian matrices: `variance` off the diagonal and twice that on it.

    This is the noise with density exp(-|X|²/(4·variance)) in the Frobenius norm, which counts each pair twice.
    """
    if not isinstance(shape, tuple) or len(shape) < 2 or shape[-1] != shape[-2]:
        raise errors.InvalidParameter("Symmetric noise needs a shape that ends in two equal lengths.")
    law, diagonal_law = _gaussian_law(variance), _gaussian_law(2 * variance)
    *stack, size, _ = shape
    rows, columns = np.triu_indices(size, k=1)
    diagonal = np.arange(size)
    noise = np.empty(shape, np.int64)
    noise[..., diagonal, diagonal] = _sample(diagonal_law, (*stack, size), Keystream())
    noise[..., rows, columns] = _sample(law, (*stack, rows.size), Keystream())
    noise[..., columns, rows] = noise[..., rows, columns]
    return noise


def permutation(size: int) -> Ints:  # (size,)
    """A uniformly random order of 0 … size−1: by random 64-bit keys, all drawn again should any two be equal."""
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _LARGEST_PERMUTATION:
        raise errors.InvalidParameter(f"A permutation has a whole size from 0 to {_LARGEST_PERMUTATION}.")
    source = Keystream()
    while True:
        keys = np.empty(size, np.uint64)
        for start in range(0, size, _CHUNK):
            keys[start : start + _CHUNK] = _words(source, "<u8", min(_CHUNK, size - start))
        order = np.argsort(keys)
        keys.sort()
        if (keys[1:] != keys[:-1]).all():
            return order


def _gaussian_law(variance: Fraction) -> "Law":
    return Law(square=1 / (2 * _checked(variance, "variance", _LARGEST_SIGMA**2)), linear=Fraction(0))


def _laplace_law(scale: Fraction) -> "Law":
    return Law(square=Fraction(0), linear=1 / _checked(scale, "scale", _LARGEST_SIGMA))


def _checked(value: Fraction, name: str, limit: int) -> Fraction:
    """Refuse what is not an exact positive number of a size that integers of 64 bits can hold."""
    if isinstance(value, bool) or not isinstance(value, Fraction | int):
        raise errors.InvalidNoiseScale(
            f"The {name} of the noise must be an exact fraction, not {type(value).__name__}."
        )
    if value <= 0:
        raise errors.InvalidNoiseScale(f"The {name} of the noise must be greater than zero.")
    if value >= limit:
        raise errors.InvalidNoiseScale(f"The {name} of the noise must be less than 2^{limit.bit_length() - 1}.")
    return Fraction(value)


# --- the random bits ---------------------------------------------------------------------------------------------


class Keystream:
    """Random bytes for one call of a public function, under a key that dies with the call.

    A key for each call costs 7 µs and leaves nothing to share between threads, to repeat after a fork or a restored
    snapshot, or to find in memory later.
    """

    def __init__(self) -> None:
        self._rekey()

    def __call__(self, count: int) -> bytes:
        size = max(count, _SMALLEST_BLOCK)
        # A signal handler can fork in the middle of a call; the child must not go on with its parent's key.
        if size > self._left or os.getpid() != self._process:
            self._rekey()
        self._left -= size
        try:
            block = self._cipher.update(_ZEROS[:size])
        except Exception as failure:
            raise errors.RandomnessFailure("The cipher behind the noise failed: nothing was drawn.") from failure
        if len(block) != size or _is_stuck(block):
            raise errors.RandomnessFailure("The cipher behind the noise delivers no random bytes: nothing was drawn.")
        return block[:count]

    def _rekey(self) -> None:
        secret = _entropy(48)
        self._cipher = Cipher(algorithms.AES(secret[:32]), modes.CTR(secret[32:])).encryptor()
        self._left = _BYTES_PER_KEY
        self._process = os.getpid()


def _entropy(count: int) -> bytes:
    try:
        secret = os.urandom(count)
    except Exception as failure:
        raise errors.RandomnessFailure("The operating system's random source failed: nothing was drawn.") from failure
    if len(secret) != count or _is_stuck(secret):
        raise errors.RandomnessFailure("The operating system's random source delivers no random bytes.")
    return secret


def _is_stuck(block: bytes) -> bool:
    """Whether three neighbouring words are equal: by chance once in 2^128, always where bytes were left at zero."""
    words = np.frombuffer(block, np.uint64, len(block) // 8)
    same = words[1:] == words[:-1]
    return bool((same[1:] & same[:-1]).any())


def _words(source: Source, kind: str, count: int) -> Words:
    """`count` random unsigned integers of the numpy type `kind`."""
    size = np.dtype(kind).itemsize * count
    block = source(size)
    if len(block) != size:
        raise errors.RandomnessFailure("The random source delivered too few bytes: nothing was drawn.")
    return np.frombuffer(block, kind)


def _lengthen(number: int, source: Source) -> int:
    """The same random number, known to 64 more bits."""
    return number << 64 | int(_words(source, "<u8", 1)[0])


# --- the law and its proven thresholds ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """Integers x with weight exp(-(square·x² + linear·|x|)): Gaussian and Laplace differ only in what is zero."""

    square: Fraction
    linear: Fraction

    def exponent(self, magnitude: int) -> Fraction:
        return (self.square * magnitude + self.linear) * magnitude

    def of_multiples(self, shift: int) -> "Law":
        """The law of q when x = q·2^shift."""
        return Law(self.square * 4**shift, self.linear * 2**shift)


def _exp(x: Fraction, precision: int) -> int:
    """An integer y with y <= 2^precision · exp(-x) <= y + _EXP_ERROR, for x >= 0."""
    if x > precision:
        return 0
    digits = (precision + 2) * 31 // 100 + 1  # 10^-digits <= 2^-precision / 4
    context = Context(prec=digits + 10)  # room for the whole part of x, so that scaleb is exact
    # x is cut at 10^-digits and `Context.exp` is correctly rounded: together at most 2·10^-digits too much, 10^-digits
    # too little. One step down and three up enclose that and the cut of the division.
    power = context.exp(context.scaleb(-(x.numerator * 10**digits // x.denominator), -digits))
    numerator, denominator = power.as_integer_ratio()
    return max((numerator << precision) // denominator - 1, 0)


def _weights(law: Law, precision: int, smallest: int) -> tuple[list[int], int, int] | None:
    """Lower bounds of 2^precision · exp(-exponent(k)) while above `smallest`, their total error, and the tail's bound.

    By recurrence: weights[k+1] = weights[k]·ratio, and the ratio itself shrinks by a constant factor. As no factor
    exceeds one, a product is off by at most the sum of its factors' errors, and by one for the shift.
    """
    decay = _exp(2 * law.square, precision)
    ratio, ratio_error = _exp(law.exponent(1), precision), _EXP_ERROR
    weight, error, total_error = 1 << precision, 0, 0
    weights = []
    while weight > smallest:
        weights.append(weight)
        total_error += error
        weight, error = weight * ratio >> precision, error + ratio_error + 1
        ratio, ratio_error = ratio * decay >> precision, ratio_error + _EXP_ERROR + 1
    shrinkage = (1 << precision) - ratio - ratio_error
    if shrinkage <= 0:
        return None
    return weights, total_error, ((weight + error) << precision) // shrinkage + 1  # geometric: the ratio only falls


def _floors(law: Law, mirrored: bool, bits: int) -> list[int]:
    """floor(2^bits · CDF) of every cell up to the first one that rounds to 2^bits - 1."""
    guard = 96
    while (floors := _floors_at(law, mirrored, bits, guard)) is None:
        guard *= 2
    return floors


def _floors_at(law: Law, mirrored: bool, bits: int, guard: int) -> list[int] | None:
    """The same, or None when a precision of bits + guard leaves a floor undecided."""
    if (enclosed := _weights(law, bits + guard, 1 << guard // 2)) is None:
        return None
    weights, error, tail = enclosed
    cells = weights
    if mirrored:
        cells, error, tail = [weights[0], *(w for w in weights[1:] for _ in "-+")], 2 * error, 2 * tail
    sums = list(accumulate(cells))
    # The CDF lies in [sum / most, (sum + error) / least], which is at most `slack` wide.
    least, most = sums[-1], sums[-1] + error + tail
    half = guard // 2
    slack = ((most - least + error) << bits + half) // least + 2
    top, floors = (1 << bits) - 1, []
    for value in sums:
        low = (value << bits + half) // most
        floor = low >> half
        # No CDF reaches one, so the last floor is decided from below.
        if floor < top and low + slack >> half != floor:
            return None
        floors.append(floor)
        if floor == top:
            return floors
    return None


# --- the sampler -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sampler:
    """A law prepared for drawing: its table holds every x when shift is 0, else the multiples q of 2^shift, q >= 0."""

    law: Law
    shift: int
    cells: Law  # what the table is of
    floors: NDArray[np.uint64]  # (cells,)
    answers: NDArray[np.int16]  # (65536,)


@lru_cache(maxsize=128)
def _sampler(law: Law) -> Sampler:
    shift = 0
    while law.exponent(_LONGEST_TABLE << shift) < _NEGLIGIBLE:
        shift += 1
    cells = law.of_multiples(shift)
    floors = np.array(_floors(cells, shift == 0, bits=64), np.uint64)
    boundaries = np.bincount((floors >> np.uint64(48)).astype(np.int64), minlength=2**16)
    cell = np.cumsum(boundaries) - boundaries  # how many boundaries lie below the bucket
    answers = np.where(boundaries > 0, _OPEN, _value(cell, shift)).astype(np.int16)
    floors.setflags(write=False)
    answers.setflags(write=False)
    return Sampler(law, shift, cells, floors, answers)


def _value(cell: Ints, shift: int) -> Ints:
    """What a cell stands for: 0, -1, 1, -2, 2, … in a table of every x, 0, 1, 2, … in one of multiples."""
    return (cell >> 1) ^ -(cell & 1) if shift == 0 else cell


def _sample(law: Law, shape: Shape, source: Source) -> Ints:
    sampler = _sampler(law)
    draw, chunk = (_from_table, _CHUNK) if sampler.shift == 0 else (_from_parts, _COMPOSITE_CHUNK)
    noise = np.empty(shape, np.int64)
    flat = noise.reshape(-1)
    filled = 0
    while filled < flat.size:
        drawn = draw(sampler, min(flat.size - filled, chunk), source)
        flat[filled : filled + drawn.size] = drawn
        filled += drawn.size
    return noise


def _from_table(sampler: Sampler, count: int, source: Source) -> Ints:
    first = _words(source, "<u2", count)
    short = sampler.answers.take(first)
    values = short.astype(np.int64)
    undecided = np.flatnonzero(short == _OPEN)
    if undecided.size:
        values[undecided] = _value(_cells_of(sampler, first[undecided], source), sampler.shift)
    return values


def _cells_of(sampler: Sampler, first: Words, source: Source) -> Ints:
    """The cells of numbers whose first 16 bits do not decide."""
    numbers = first.astype(np.uint64) << np.uint64(48) | _words(source, "<u8", first.size) >> np.uint64(16)
    cells = np.searchsorted(sampler.floors, numbers)
    for tie in np.flatnonzero(sampler.floors[cells] == numbers):
        cells[tie] = _settled_cell(sampler, int(numbers[tie]), source)
    return cells


def _settled_cell(sampler: Sampler, number: int, source: Source) -> int:
    """The cell of a 64-bit number that equals a floor, so that the boundary may lie on either side of it."""
    bits = 64
    while True:
        number, bits = _lengthen(number, source), bits + 64
        floors = _floors(sampler.cells, sampler.shift == 0, bits)
        cell = bisect_left(floors, number)
        if floors[cell] != number:
            return cell


def _from_parts(sampler: Sampler, count: int, source: Source) -> Ints:
    """Draws that survived their coin, so at most `count`.

    With a sign s the value is y = m·q + r or its complement -1 - y: the negative half starts at -1, zero has one
    name, and the magnitude is m·q + (r + s) in both halves.
    """
    quotient = _from_table(sampler, count, source)
    word = _words(source, "<u8", count)
    sign = (word >> np.uint64(63)).view(np.int64)
    values = (word & np.uint64((1 << sampler.shift) - 1)).view(np.int64)
    survivors = _tossed(sampler, quotient, values + sign, source)
    quotient <<= sampler.shift
    values += quotient
    values ^= -sign
    return values[survivors]


def _tossed(sampler: Sampler, quotient: Ints, rest: Ints, source: Source) -> NDArray[np.bool_]:
    """Coins that show heads with probability exp(-γ), γ = exponent(m·q + rest) - exponent(m·q)."""
    addend = rest.astype(np.float64)
    gamma = quotient * 2.0 ** (sampler.shift + 1)  # in place from here on: fresh memory costs more than arithmetic
    gamma += addend
    gamma *= float(sampler.law.square)
    gamma += float(sampler.law.linear)
    gamma *= addend
    coin = _words(source, "<u4", rest.size)
    # A coin stands for the reals in [coin, coin + 1). Nearly all lie below 1 - γ <= exp(-γ) and need no exponential.
    heads = coin <= (2.0**32 - 1 - _COIN_ERROR) - gamma * 2.0**32
    doubtful = np.flatnonzero(~heads)
    room = np.exp(-gamma[doubtful]) * 2.0**32 - coin[doubtful]
    heads[doubtful] = room >= 1 + _COIN_ERROR
    for tie in doubtful[(room > -_COIN_ERROR) & (room < 1 + _COIN_ERROR)]:
        base = int(quotient[tie]) << sampler.shift
        gain = sampler.law.exponent(base + int(rest[tie])) - sampler.law.exponent(base)
        heads[tie] = _settled_coin(gain, int(coin[tie]), source)
    return heads


def _settled_coin(gamma: Fraction, coin: int, source: Source) -> bool:
    """Whether the real number that begins with the 32 bits of `coin` lies below exp(-γ)."""
    if gamma == 0:
        return True  # every number does, however long its row of ones
    bits, guard = 32, 32
    while True:
        bound = _exp(gamma, bits + guard)
        if coin + 1 << guard <= bound:
            return True
        if coin << guard >= bound + _EXP_ERROR:
            return False
        coin, bits = _lengthen(coin, source), bits + 64
