"""The terms of a public feature map over vector states: what a clinician can write down.

| term                                                   | value for a state inside its bounds           | range   |
|--------------------------------------------------------|-----------------------------------------------|---------|
| `"1"`                                                  | the constant                                  | 1       |
| `"lactate"`                                            | the column, its bounds scaled to ±1           | [−1, 1] |
| `{"hinge": "lactate", "at": 4, "side": "above"}`       | 0 up to 4, then rising to 1 at the bound      | [0, 1]  |
| `{"bin": "lactate", "from": 2, "to": 4}`               | 1 where 2 ≤ lactate < 4 (or ≤ the bound)      | [0, 1]  |
| `{"cosine": {"age": 0.1, "lactate": 1}, "phase": 0}`   | cos(0.1·age + lactate + phase), own units     | [−1, 1] |
| `{"missing": "lactate"}`                               | 1 where the value is missing                  | [0, 1]  |
| `{"product": [term, term]}`                            | the product of other terms                    | [−1, 1] |

Every term lies within ±1 by construction; one that would be the same for every state is refused. A term that needs a
missing value is 0: a column is then taken at the middle of its bounds.

A term's value is a function of its own record, bit for bit: only elementwise operations that IEEE 754 rounds correctly
are used (sums, products, quotients, floor, comparisons), and the cosine is a polynomial of these, because a library's
may differ with a record's place in the array.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from discretion import errors
from discretion.learning.schemas import CONSTANT, FloatArray, Vector, is_finite

_MOST_FACTORS: Final = 8  # of a product
_TURNS: Final = 1000.0  # of a cosine over the declared bounds, beyond which it is noise
_STILL: Final = 1e-3  # radians over the declared bounds, below which it is a constant


@dataclass(frozen=True)
class Hinge:
    """0 on one side of a cut-off, rising to 1 at the bound on the other."""

    column: str
    at: float
    side: Literal["above", "below"]


@dataclass(frozen=True)
class Bin:
    """1 from one cut-off to the next; an open side reaches to the bound."""

    column: str
    start: float | None
    stop: float | None


@dataclass(frozen=True)
class Cosine:
    """cos(Σ frequency·column + phase), columns in their own units: a Fourier feature, written out."""

    frequencies: tuple[tuple[str, float], ...]
    phase: float = 0.0


@dataclass(frozen=True)
class Missing:
    """1 where a column that may be missing is."""

    column: str


@dataclass(frozen=True)
class Product:
    factors: tuple["Factor", ...]


Factor = str | Hinge | Bin | Cosine | Missing
Term = Factor | Product


_FORMS: Final = {
    "hinge": '{"hinge": COLUMN, "at": NUMBER, "side": "above" or "below"}',
    "bin": '{"bin": COLUMN, "from": NUMBER, "to": NUMBER}, either of which may be left out',
    "cosine": '{"cosine": {COLUMN: NUMBER, …}, "phase": NUMBER}',
    "missing": '{"missing": COLUMN}',
    "product": f'{{"product": [TERM, …]}}, of at most {_MOST_FACTORS} terms',
}


def _refuse(text: str) -> errors.InvalidFeatures:
    return errors.InvalidFeatures(text)


def of(document: object) -> Term:
    """Read one term of a request; what fits no form is refused."""
    if isinstance(document, str):
        return document
    if not isinstance(document, Mapping):
        raise _refuse('A term must be a column\'s name, "1" or an object.')
    keys = frozenset(document)
    if keys == {"hinge", "at", "side"}:
        return Hinge(_text(document["hinge"]), _number(document["at"], "at"), _side(document["side"]))
    if "bin" in keys and keys <= {"bin", "from", "to"}:
        edges = [None if document.get(key) is None else _number(document[key], key) for key in ("from", "to")]
        return Bin(_text(document["bin"]), *edges)
    if "cosine" in keys and keys <= {"cosine", "phase"} and isinstance(document["cosine"], Mapping):
        named = ((_text(column), _number(number, "cosine")) for column, number in document["cosine"].items())
        return Cosine(tuple(sorted(named)), _number(document.get("phase", 0.0), "phase"))
    if keys == {"missing"}:
        return Missing(_text(document["missing"]))
    if keys == {"product"} and isinstance(document["product"], list) and len(document["product"]) <= _MOST_FACTORS:
        return Product(tuple(_factor(inner) for inner in document["product"]))
    for word in sorted(keys & _FORMS.keys(), key=str):
        raise _refuse(f"A {word} is written {_FORMS[word]}.")
    raise _refuse('A term must be a column, "1", or one of hinge, bin, cosine, missing and product with their keys.')


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _refuse("A term names a state column by its text.")
    return value


def _number(value: Any, key: str) -> float:
    if not is_finite(value):
        raise _refuse(f'The "{key}" of a term must be a finite number, without quotes.')
    return float(value)


def _side(value: object) -> Literal["above", "below"]:
    if value == "above":
        return "above"
    if value == "below":
        return "below"
    raise _refuse('The side of a hinge must be "above" or "below".')


def _factor(document: object) -> Factor:
    factor = of(document)
    if isinstance(factor, Product):
        raise _refuse("A product of products is one product; list all its factors.")
    return factor


def document(term: Term) -> Any:
    """The term as plain JSON, which `of` reads back."""
    match term:
        case Hinge(column, at, side):
            return {"hinge": column, "at": at, "side": side}
        case Bin(column, start, stop):
            return {"bin": column, "from": start, "to": stop}
        case Cosine(frequencies, phase):
            return {"cosine": dict(frequencies), "phase": phase}
        case Missing(column):
            return {"missing": column}
        case Product(factors):
            return {"product": [document(factor) for factor in factors]}
    return term


def kinds(vector: Vector) -> Iterator[list[Term]]:
    """Terms beside the constant and the columns for when nobody has written any down, from simple to subtle. One kind
    after the other: of many columns there are too many products to list what will not be used."""
    names = vector.columns
    cut: dict[tuple[str, int], Hinge] = {}
    for column, (low, high) in zip(names, vector.bounds, strict=True):
        cut |= {(column, part): Hinge(column, low + (high - low) * part / 8, "above") for part in range(1, 8)}
    yield [Missing(column) for column in vector.missing]
    yield [cut[column, 2] for column in names]
    yield [Product(pair) for pair in itertools.combinations(names, 2)]
    yield [Product((cut[one, 2], other)) for one, other in itertools.permutations(names, 2)]
    middle: list[Term] = [Product((cut[one, 4], other)) for one, other in itertools.permutations(names, 2)]
    yield [cut[column, part] for column in names for part in (4, 6)] + middle
    yield [cut[column, part] for column in names for part in (1, 3, 5, 7)]


def columns(term: Term) -> frozenset[str]:
    """The columns whose values a term needs; a missing one makes it 0."""
    match term:
        case Hinge(column) | Bin(column):
            return frozenset((column,))
        case Cosine(frequencies):
            return frozenset(column for column, _ in frequencies)
        case Product(factors):
            return frozenset().union(*map(columns, factors))
        case Missing():
            return frozenset()
    return frozenset(()) if term == CONSTANT else frozenset((term,))


def check(terms: Sequence[Term], vector: Vector) -> tuple[Term, ...]:
    """The terms in one form; refused if one names no column, is the same for every state, or stands twice."""
    found = tuple(_checked(term, vector) for term in terms)
    if not found or len(set(found)) != len(found):
        raise _refuse("Blocks need terms, each of them once.")
    return found


def _checked(term: Term, vector: Vector) -> Term:
    named = columns(term) | ({term.column} if isinstance(term, Missing) else frozenset())
    for column in sorted(named - set(vector.columns)):
        raise _refuse(f"Blocks name the term {column!r}; use a state column or {CONSTANT!r}.")
    match term:
        case Hinge():
            return _hinge(term, vector)
        case Bin():
            return _bin(term, vector)
        case Cosine():
            return _cosine(term, vector)
        case Missing(column) if column not in vector.missing:
            raise _refuse(f"The column {column!r} is not declared as one that may be missing, so it never is.")
        case Product(factors):
            return _product(factors, vector)
    return term


def _hinge(term: Hinge, vector: Vector) -> Hinge:
    low, high = _bounds(term.column, vector)
    if not low < term.at < high:
        raise _refuse(
            f"The hinge of {term.column!r} at {term.at:g} must stand strictly inside its bounds {low:g} to {high:g}."
        )
    return term


def _bin(term: Bin, vector: Vector) -> Bin:
    """An edge at or beyond a bound is an open side."""
    low, high = _bounds(term.column, vector)
    start = None if term.start is None or term.start <= low else term.start
    stop = None if term.stop is None or term.stop >= high else term.stop
    inside = all(edge is None or low < edge < high for edge in (start, stop))
    ascending = start is None or stop is None or start < stop
    if not inside or not ascending or start is stop is None:
        raise _refuse(f"A bin of {term.column!r} must hold some of its bounds {low:g} to {high:g} and not all of them.")
    return replace(term, start=start, stop=stop)


def _cosine(term: Cosine, vector: Vector) -> Cosine:
    swing = 0.0
    for column, frequency in term.frequencies:
        low, high = _bounds(column, vector)
        swing += abs(frequency) * (high - low)
    if not _STILL <= swing <= 2 * math.pi * _TURNS or 0.0 in dict(term.frequencies).values():
        raise _refuse(
            f"The columns of a cosine must turn it by {_STILL:g} radians at least within their bounds and "
            f"by {_TURNS:g} turns at most, and none by nothing."
        )
    if abs(term.phase) > 2 * math.pi:
        raise _refuse("The phase of a cosine must lie within one turn, ±2π.")
    return replace(term, frequencies=tuple(sorted(term.frequencies)))


def _product(factors: tuple[Factor, ...], vector: Vector) -> Product:
    checked = [_checked(factor, vector) for factor in factors]
    plain = [factor for factor in checked if not isinstance(factor, Product)]
    if len(plain) < 2 or CONSTANT in plain:
        raise _refuse(f"A product needs at least two factors, and {CONSTANT!r} is none.")
    for factor in plain:
        if isinstance(factor, Missing) and any(factor.column in columns(other) for other in plain):
            raise _refuse(f"A product with {factor.column!r} missing and present is zero for every state.")
    supports: dict[str, list[tuple[float, float]]] = {}
    for factor in plain:
        if len(columns(factor)) == 1:
            (column,) = columns(factor)
            supports.setdefault(column, []).append(_support(factor, vector))
    for column, found in supports.items():
        if max(low for low, _ in found) >= min(high for _, high in found):
            raise _refuse(f"The factors of a product leave no value of {column!r} where it is not zero.")
    return Product(tuple(sorted(plain, key=repr)))


def _support(factor: Factor, vector: Vector) -> tuple[float, float]:
    """Between which values of its column a factor is not zero."""
    (column,) = columns(factor)
    low, high = _bounds(column, vector)
    match factor:
        case Hinge(_, at, side):
            return (at, high) if side == "above" else (low, at)
        case Bin(_, start, stop):
            return (low if start is None else start, high if stop is None else stop)
    return low, high


def _bounds(column: str, vector: Vector) -> tuple[float, float]:
    return vector.bounds[vector.columns.index(column)]


Within = tuple[tuple[float, float], ...] | None  # the part of each column's bounds that a map looks at; None: all


def check_within(within: Within, vector: Vector) -> None:
    pairs = zip(within or vector.bounds, vector.bounds, strict=False)
    inside = all(low <= first < last <= high for (first, last), (low, high) in pairs)
    if not inside or len(within or vector.bounds) != len(vector.bounds):
        raise _refuse("Blocks look at a part of each column's bounds, or at all of them.")


def stretched(states: NDArray[np.generic], within: Within, vector: Vector) -> NDArray[np.generic]:  # (R, columns) each
    """The part that is looked at takes the place of all of the bounds; what lies beyond is at its edge."""
    if within is None:
        return states
    found = np.empty(states.shape)
    for column, ((first, last), (low, high)) in enumerate(zip(within, vector.bounds, strict=True)):
        values = np.minimum(np.maximum(np.asarray(states[:, column], dtype=np.float64), first), last)
        found[:, column] = low + (values - first) / (last - first) * (high - low)
    return found


class Evaluation:
    """The terms of some states, each column read once."""

    def __init__(self, vector: Vector, states: NDArray[np.generic]) -> None:  # (R, columns)
        self._vector = vector
        self._states = states
        self._columns: dict[str, FloatArray] = {}
        self._factors: dict[Factor, FloatArray] = {}

    def rows(self, terms: Sequence[Term]) -> Iterator[FloatArray]:
        """Each term's values (R,), within ±1."""
        for term in terms:
            if isinstance(term, Product):
                value = self._factor(term.factors[0])
                for factor in term.factors[1:]:
                    value = value * self._factor(factor)
                yield value
            else:
                yield self._factor(term)

    def _factor(self, factor: Factor) -> FloatArray:
        if factor not in self._factors:
            value = self._evaluated(factor)
            for column in columns(factor) & set(self._vector.missing):
                value = np.where(np.isnan(self._column(column)), 0.0, value)
            self._factors[factor] = value
        return self._factors[factor]

    def _column(self, column: str) -> FloatArray:
        """Within its bounds, or NaN."""
        if column not in self._columns:
            low, high = _bounds(column, self._vector)
            values = np.asarray(self._states[:, self._vector.columns.index(column)], dtype=np.float64)
            self._columns[column] = np.minimum(np.maximum(values, low), high)
        return self._columns[column]

    def _evaluated(self, factor: Factor) -> FloatArray:
        match factor:
            case Hinge(column, at, side):
                low, high = _bounds(column, self._vector)
                above = side == "above"
                over = (self._column(column) - at) / (high - at) if above else (at - self._column(column)) / (at - low)
                return np.minimum(np.maximum(over, 0.0), 1.0)
            case Bin(column, start, stop):
                values = self._column(column)
                inside = (values >= (-math.inf if start is None else start)) & (
                    values < (math.inf if stop is None else stop)
                )
                return inside.astype(np.float64)
            case Cosine(frequencies, phase):
                angle = np.full(len(self._states), phase)
                for column, frequency in frequencies:
                    angle = angle + self._column(column) * frequency
                return cosine(angle)
            case Missing(column):
                return np.isnan(self._column(column)).astype(np.float64)
        return self._scaled(factor)

    def _scaled(self, column: str) -> FloatArray:
        if column == CONSTANT:
            return np.ones(len(self._states))
        low, high = _bounds(column, self._vector)
        return np.minimum((self._column(column) - low) / (high - low), 1.0) * 2.0 - 1.0


_SINE: Final = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))


def cosine(angle: FloatArray) -> FloatArray:
    """cos to 10⁻¹¹ by elementwise sums and products alone: cos 2πt = −sin(π/2 − 2π|t − ⌊t⌋ − ½|), as a polynomial."""
    turns = angle * (0.5 / math.pi)
    folded = np.abs(turns - np.floor(turns) - 0.5)
    reach = (0.25 - folded) * (2 * math.pi)  # in [−π/2, π/2]
    square = reach * reach
    value = np.full_like(square, _SINE[-1])
    for coefficient in reversed(_SINE[:-1]):
        value = value * square + coefficient
    return np.minimum(np.maximum(-(value * reach), -1.0), 1.0)
