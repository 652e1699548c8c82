"""Public feature maps, on the integer grid from the start.

Every map has the form φ(s, a) = e_g ⊗ ψ: a *group* g that is read off the record, and a vector ψ of width p inside it.
Grams over such features are block-diagonal, and blocks that are zero for every dataset need no noise.

| map      | states              | group g            | ψ                                        | dimension d |
|----------|---------------------|--------------------|------------------------------------------|-------------|
| `Table`  | discrete            | one                | φ[s, a] as given                         | d           |
| `Blocks` | vector              | the action         | terms within ±1 (see `terms`)            | A·p         |
| `Bins`   | vector              | (cell, action)     | 1                                        | cells·A     |

The proofs need ‖φ‖ ≤ 1, and they need it of the numbers that are summed. So ψ is truncated toward zero to multiples of
2⁻¹⁶: no coordinate grows, and the integer norm is checked exactly. `Table` and `Bins` have finitely many states and are
looked up; `Blocks` is computed record by record with elementwise operations only (each correctly rounded by IEEE 754)
and products that add up exactly, so that a record's ψ never depends on its neighbours.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discretion import errors
from discretion.learning import sums
from discretion.learning import terms as languages
from discretion.learning.schemas import CONSTANT, BoolArray, Discrete, FloatArray, IntArray, Schema, Vector, is_finite
from discretion.learning.trajectories import Block, Trajectories

BITS: Final = 16
ONE: Final = 1 << BITS
MAX_DIMENSION: Final = 100_000
MAX_WIDTH: Final = 80  # of a map that nobody wrote down
MAX_TERMS: Final = 150  # of one that is made orthogonal: the work grows with the square
_REFERENCES: Final = 1024
_SHRINKAGE: Final = 1e-4  # of the reference states' second moment: terms more alike than this stay so
_FAR: Final = 2.0**20  # no coordinate is longer before it is shortened
_CHUNK: Final = 1024  # states evaluated at once: what fits the cache


def _check_actions(actions: object) -> None:
    if not isinstance(actions, int) or isinstance(actions, bool) or actions < 1:
        raise errors.InvalidFeatures(f"A feature map needs a positive number of actions, not {actions!r}.")


def _check_dimension(groups: int, width: int) -> None:
    if groups * width > MAX_DIMENSION or groups * width * width > 10 * MAX_DIMENSION:
        raise errors.ProblemTooLarge(
            f"The feature map has {groups} groups of width {width}; use fewer features, actions or bins."
        )


@dataclass(frozen=True, eq=False)
class Table:
    """φ[s, a] given as numbers, for discrete states."""

    values: FloatArray  # (S, A, d)

    def __post_init__(self) -> None:
        numbers = isinstance(self.values, np.ndarray) and self.values.dtype.kind in "fiu"
        if not numbers or self.values.ndim != 3 or 0 in self.values.shape:
            raise errors.InvalidFeatures("A feature table needs three levels: state, action, coordinate.")
        if not np.isfinite(self.values).all():
            state, action, _ = (int(i) for i in np.argwhere(~np.isfinite(self.values))[0])
            raise errors.InvalidFeatures(f"The features of state {state}, action {action} are not finite numbers.")
        own = self.values.astype(np.float64)
        own.setflags(write=False)
        object.__setattr__(self, "values", own)
        _check_dimension(1, self.width)
        norms = np.linalg.norm(np.clip(self.values, -1e6, 1e6), axis=-1)
        if norms.max() > 1 + 1e-9:
            state, action = (int(i) for i in np.unravel_index(norms.argmax(), norms.shape))
            raise errors.InvalidFeatures(
                f"The features of state {state}, action {action} have norm {norms.max():.6g}; "
                f"divide the table by at least that, the guarantee needs norms of at most 1."
            )

    @property
    def states(self) -> int:
        return int(self.values.shape[0])

    @property
    def actions(self) -> int:
        return int(self.values.shape[1])

    @property
    def groups(self) -> int:
        return 1

    @property
    def width(self) -> int:
        return int(self.values.shape[2])

    @cached_property
    def group(self) -> IntArray:  # (S, A)
        return np.zeros((self.states, self.actions), dtype=np.int64)

    @cached_property
    def psi(self) -> IntArray:  # (S, A, p)
        return _within_unit_ball(np.trunc(self.values * ONE).astype(np.int64))

    def cells(self, states: NDArray[np.generic]) -> IntArray:
        return np.asarray(states, dtype=np.int64)


@dataclass(frozen=True)
class Bins:
    """One feature per (cell, action), cells being a grid of intervals cut at public edges."""

    vector: Vector
    actions: int
    edges: tuple[tuple[str, tuple[float, ...]], ...]  # (column, ascending cut-offs)

    @classmethod
    def of(cls, vector: Vector, actions: int, edges: Mapping[str, Sequence[float]]) -> "Bins":
        """Cells are numbered in the order of the state's columns, whatever the order of the mapping."""
        if not isinstance(edges, Mapping) or not all(isinstance(cuts, Sequence) for cuts in edges.values()):
            raise errors.InvalidFeatures("Bins need a list of edges for each column.")
        if not all(is_finite(cut) for cuts in edges.values() for cut in cuts):
            raise errors.InvalidFeatures("The edges of bins must be finite numbers.")
        named = sorted(edges.items(), key=lambda edge: (*vector.columns, edge[0]).index(edge[0]))
        return cls(vector, actions, tuple((column, tuple(map(float, cuts))) for column, cuts in named))

    def __post_init__(self) -> None:
        _check_actions(self.actions)
        if not self.edges:
            raise errors.InvalidFeatures("Bins need at least one column with edges.")
        for column, cuts in self.edges:
            if column not in self.vector.columns:
                raise errors.InvalidFeatures(f"Bins name the column {column!r}, which the states do not have.")
            if column in self.vector.missing:
                raise errors.InvalidFeatures(f"The column {column!r} may be missing, and then has no cell; use blocks.")
            low, high = self.vector.bounds[self.vector.columns.index(column)]
            ascending = all(a < b for a, b in itertools.pairwise(cuts))
            if not cuts or not ascending or not low < cuts[0] <= cuts[-1] < high:
                raise errors.InvalidFeatures(
                    f"The edges of column {column!r} must ascend strictly inside its bounds {low:g} to {high:g}."
                )
        if len({column for column, _ in self.edges}) != len(self.edges):
            raise errors.InvalidFeatures("Bins name a column twice; give all its edges at once.")
        _check_dimension(self.groups, 1)

    @property
    def states(self) -> int:
        return math.prod(len(cuts) + 1 for _, cuts in self.edges)

    @property
    def groups(self) -> int:
        return self.states * self.actions

    @property
    def width(self) -> int:
        return 1

    @cached_property
    def group(self) -> IntArray:  # (cells, A)
        return np.arange(self.groups).reshape(self.states, self.actions)

    @cached_property
    def psi(self) -> IntArray:  # (cells, A, 1)
        return np.full((self.states, self.actions, 1), ONE, dtype=np.int64)

    def cells(self, states: NDArray[np.generic]) -> IntArray:  # (R, columns) → (R,)
        cell = np.zeros(states.shape[:-1], dtype=np.int64)
        for column, cuts in self.edges:
            values = np.asarray(states[..., self.vector.columns.index(column)], dtype=np.float64)
            cell = cell * (len(cuts) + 1) + np.searchsorted(np.array(cuts), values, side="right")
        return cell


@dataclass(frozen=True)
class Blocks:
    """One block per action over terms of a vector state: φ(x, a) = e_a ⊗ ψ(x)."""

    vector: Vector
    actions: int
    terms: tuple[languages.Term, ...]  # column names, "1" for the constant, and what `terms` can say
    within: languages.Within = None  # where in the bounds it looks; None: everywhere

    def __post_init__(self) -> None:
        _check_actions(self.actions)
        if not all(isinstance(term, languages.Term) for term in self.terms):
            raise errors.InvalidFeatures('Blocks need terms: column names, "1", hinges, bins, products and the like.')
        if not self.plain and self.width > MAX_TERMS:
            raise errors.ProblemTooLarge(
                f"The feature map has {self.width} terms, {MAX_TERMS} at most unless all are columns; leave some out."
            )
        object.__setattr__(self, "terms", languages.check(self.terms, self.vector))
        _check_dimension(self.actions, self.width)
        languages.check_within(self.within, self.vector)
        if not self.plain:
            _mixing(self.declared)  # or a refusal

    @property
    def groups(self) -> int:
        return self.actions

    @property
    def width(self) -> int:
        return len(self.terms)

    @cached_property
    def declared(self) -> "Blocks":
        """The same map over all of the bounds."""
        return self if self.within is None else Blocks(self.vector, self.actions, self.terms)

    @property
    def plain(self) -> bool:
        """Whether there are only columns and the constant, which are told apart well enough as they are."""
        return all(isinstance(term, str) for term in self.terms)

    def psi(self, states: NDArray[np.generic]) -> FloatArray:  # (R, columns) → (R, p), integers
        """Plain terms are divided by √p (rounded up), so that ‖ψ‖ ≤ 1 for every state there is. Other terms resemble
        each other, and noise would drown what tells them apart: they are made orthogonal over the reference states,
        those written first longer than later ones, scaled so that nineteen of twenty reference states have ‖ψ‖ ≤ 1, and
        a state beyond is shortened to that."""
        if self.plain:
            return self.rows(states, ONE / math.nextafter(math.sqrt(self.width), math.inf)).T
        psi, mixing = np.empty((len(states), self.width)), _mixing(self.declared)
        for start in range(0, len(states), _CHUNK):
            # Integers below 2¹⁶ times multiples of one power of two: every sum is exact, in any order.
            mixed = self.rows(states[start : start + _CHUNK], ONE).T @ mixing.T
            psi[start : start + _CHUNK] = _shortened(sums.whole(mixed, _FAR))
        return psi

    @property
    def largest(self) -> int:
        """Of the size of a coordinate of ψ."""
        return math.ceil(ONE / math.sqrt(self.width)) if self.plain else ONE

    def rows(self, states: NDArray[np.generic], scale: float) -> FloatArray:  # (p, R)
        """The terms as they are, times `scale` and truncated."""
        rows, stretched = np.empty((self.width, len(states))), languages.stretched(states, self.within, self.vector)
        for row, term in zip(rows, languages.Evaluation(self.vector, stretched).rows(self.terms), strict=True):
            np.trunc(term * scale, out=row)
        return rows


@lru_cache(maxsize=16)  # a request is read more than once
def _mixing(blocks: Blocks) -> FloatArray:  # (p, p) lower triangular
    """The scaled inverse of the root L of Σψψᵀ = LLᵀ over the reference states, so that each coordinate is what its
    term adds to those before it; and the later, the shorter (see `_fading`). Computed from correctly rounded operations
    in a fixed order, so that everybody finds the same bits."""
    rows = blocks.rows(with_gaps(blocks.vector, _REFERENCES), ONE) / ONE
    inverse = _inverse_root(_second_moment(rows)) / _fading(blocks.width)[:, None]
    mixed = _multiplied(inverse, rows)
    norms = np.sort(_multiplied(np.ones((1, blocks.width)), mixed * mixed)[0])
    usual = math.sqrt(norms[_REFERENCES * 19 // 20])
    if usual < _SHRINKAGE:  # a term that is zero nearly everywhere would be blown up out of all proportion
        raise errors.InvalidFeatures('These terms are zero nearly everywhere within the bounds; add "1" or a column.')
    return on_grid(inverse / usual, blocks.width)


def _second_moment(rows: FloatArray) -> FloatArray:  # (p, R) → (p, p)
    moment = np.empty((len(rows), len(rows)))
    for index, row in enumerate(rows):
        for other in range(index + 1):
            moment[index, other] = moment[other, index] = math.fsum((row * rows[other]).tolist()) / rows.shape[1]
    return moment + np.eye(len(rows)) * _SHRINKAGE


def _inverse_root(moment: FloatArray) -> FloatArray:
    """L⁻¹ for moment = LLᵀ, column by column with elementwise operations only."""
    width = len(moment)
    rest, inverse = moment.copy(), np.eye(width)
    for index in range(width):
        pivot = math.sqrt(rest[index, index])
        column = rest[index:, index] / pivot
        inverse[index] = inverse[index] / pivot
        rest[index:, index:] -= column[:, None] * column[None, :]
        inverse[index + 1 :] -= column[1:, None] * inverse[index][None, :]
    return inverse


def _fading(width: int) -> FloatArray:  # (p,)
    """Places to the power of 3/8, by roots, which are correctly rounded. Noise is as large in every coordinate, and a
    map's length is shared by all of them: simple terms, written first, would drown among many subtle ones."""
    fourth = np.sqrt(np.sqrt(np.arange(1.0, width + 1.0)))
    return np.asarray(fourth * np.sqrt(fourth))


def _multiplied(matrix: FloatArray, rows: FloatArray) -> FloatArray:
    """A product in a fixed order."""
    total = np.zeros((len(matrix), rows.shape[1]))
    for index, row in enumerate(rows):
        total += matrix[:, index, None] * row
    return total


def on_grid(factors: FloatArray, width: int, bits: int = BITS) -> FloatArray:
    """Rounded to multiples of one power of two: sums of `width` products with integers of so many bits are exact."""
    bits = 52 - bits - width.bit_length()
    unit = math.ldexp(1.0, math.frexp(float(np.abs(factors).max()))[1] - bits)
    return np.asarray(np.rint(factors / unit) * unit)


def _shortened(psi: FloatArray) -> FloatArray:  # (R, p) integers
    """Rows whose norm passes 1 are scaled to it, and shrunk until they are within it exactly. Sums of squares of such
    integers are exact, in any order."""
    square = np.einsum("ij,ij->i", psi, psi)
    factor = np.where(square > ONE**2, ONE / np.sqrt(np.maximum(square, 1.0)), 1.0)
    shorter = np.trunc(psi * factor[:, None])
    while (over := np.einsum("ij,ij->i", shorter, shorter) > ONE**2).any():
        shorter[over] -= np.sign(shorter[over])
    return shorter


def with_gaps(vector: Vector, count: int) -> FloatArray:  # (count, columns)
    """The same with a quarter missing of what may be, or an indicator of that would weigh too much."""
    states = reference(vector, count)
    for place, column in enumerate(vector.columns):
        if column in vector.missing:
            states[place % 4 :: 4, place] = np.nan
    return states


def reference(vector: Vector, count: int) -> FloatArray:  # (count, columns)
    """Public states spread evenly over the declared bounds: multiples of the roots of primes, modulo 1."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < len(vector.columns):
        if all(candidate % prime for prime in primes if prime * prime <= candidate):
            primes.append(candidate)
        candidate += 1
    turns = np.arange(1, count + 1)[:, None] * np.sqrt(np.array(primes, dtype=np.float64))
    return np.asarray(vector.low + (turns - np.floor(turns)) * (vector.high - vector.low))


FiniteMap = Table | Bins
FeatureMap = Table | Bins | Blocks


def dimension(features: FeatureMap) -> int:
    return features.groups * features.width


def one_hot(states: int, actions: int) -> Table:
    """The map under which a linear MDP is a tabular one: as wide as it is long, so a large one is refused first."""
    _check_dimension(1, states * actions)
    return Table(np.eye(states * actions).reshape(states, actions, states * actions))


def usual(vector: Vector, actions: int, units: int, rho: Fraction) -> Blocks:
    """A map for when nobody has written one down: the kinds of terms that `terms.kinds` lists, in its order, as long as
    all terms of a kind fit the width that patients and budget can bear, 8·√(units·√ρ/A), and 80: more takes time and
    finds little."""
    most = min(8 * math.sqrt(units * math.sqrt(rho) / actions), math.sqrt(MAX_DIMENSION / actions), MAX_WIDTH)
    chosen: list[languages.Term] = [CONSTANT, *vector.columns]
    for kind in languages.kinds(vector):
        if len(chosen) + len(kind) > most:
            break
        chosen += kind
    return Blocks(vector, actions, tuple(chosen))


def check(features: FeatureMap, schema: Schema) -> None:
    """Refuse a map that does not belong to the schema."""
    if features.actions != schema.actions:
        raise errors.InvalidFeatures(
            f"The feature map has {features.actions} actions where the schema has {schema.actions}."
        )
    if isinstance(features, Table):
        if not isinstance(schema.states, Discrete) or features.states != schema.states.count:
            raise errors.InvalidFeatures(f"A feature table of {features.states} states needs as many discrete states.")
    elif features.vector != schema.states:
        raise errors.InvalidFeatures("The feature map names other state columns or bounds than the schema.")


def _within_unit_ball(psi: IntArray) -> IntArray:
    """Shrink rows whose integer norm passes 1 (a float norm of 1 + 1e-17 does) until none does, by exact comparison."""
    shrunk = psi.copy()
    while (over := (shrunk**2).sum(axis=-1) > ONE**2).any():
        shrunk[over] -= np.sign(shrunk[over])
    return shrunk


@dataclass(frozen=True)
class _Binned:
    bins: Bins
    blocks: Trajectories

    def __iter__(self) -> Iterator[Block]:
        for block in self.blocks.blocks:
            missing = self._missing(block.states)
            lost = self._missing(block.final)
            states = np.where(missing, -1, self.bins.cells(block.states))
            yield replace(block, states=states, final=np.where(lost, -1, self.bins.cells(block.final)))

    def _missing(self, states: NDArray[np.generic]) -> BoolArray:
        nothing = np.isnan(np.asarray(states, dtype=np.float64)) & self.bins.vector.complete
        return np.asarray(nothing.any(axis=-1))


def binned(trajectories: Trajectories, bins: Bins) -> Trajectories:
    """The same trajectories with vector states replaced by their cells, for the learners of discrete states."""
    check(bins, trajectories.schema)
    schema = replace(trajectories.schema, states=Discrete(bins.states))
    return Trajectories(schema, trajectories.units, _Binned(bins, trajectories))
