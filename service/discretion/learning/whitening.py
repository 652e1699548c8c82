"""The same linear functions in coordinates that noise treats fairly: public whitening of a finite feature table.

Noise is as large in every direction, features are not: a table whose entries hardly differ along some direction drowns
there. So φ is replaced by ψ = M^(−½)φ/‖·‖, M = Σ π φφᵀ with weights π over all (s, a) that make the longest ψ as short
as it can be (a G-optimal design, Kiefer & Wolfowitz 1960, found by Titterington's multiplicative steps). The constant 1
is added to φ first: transition probabilities sum to 1, so the map of a linear MDP has it in its span, and targets can
be centred. Functions that are linear in (φ, 1) are linear in ψ, and no others.

All of this is a function of the public table alone. ‖ψ‖ ≤ 1 is enforced on the integer grid like that of any table, so
no guarantee rests on the arithmetic here. Nor does a certificate: ψ has d + 1 coordinates whatever the rank. Directions
that no (s, a) has are left out by whoever reads the answers (`Geometry.basis`), and M^(−½) is the symmetric root, the
only one that does not depend on how eigenvectors are chosen.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from discretion.learning import features as maps
from discretion.learning.schemas import FloatArray

_NEGLIGIBLE: Final = 2.0**-10  # a direction in which no (s, a) stands out by this part of the longest is none
_ROUNDS: Final = 100
_CLOSE: Final = 1.01
_WORK: Final = 1e9  # multiplications that a design may take, and the search for spanning rows
_MOST_MATRICES: Final = 1000
_known: Final = WeakKeyDictionary[maps.Table, "Geometry"]()


@dataclass(frozen=True, eq=False)
class Geometry:
    """What is public about a whitened table."""

    features: maps.Table
    basis: FloatArray  # (r, d + 1) orthonormal: the directions that some (s, a) has
    coordinates: FloatArray  # (S, A, r)
    spanning: FloatArray | None  # (D, r) whose φφᵀ span all that a Gram matrix can be; None: all symmetric matrices

    @property
    def rank(self) -> int:
        return len(self.basis)

    @property
    def freedom(self) -> int:
        """D, the dimension of the space of Gram matrices."""
        return self.rank * (self.rank + 1) // 2 if self.spanning is None else len(self.spanning)

    def projected(self, gram: FloatArray) -> FloatArray:  # (r, r) → (r, r)
        """The nearest matrix that is a sum of multiples of φφᵀ: noise outside their span says nothing."""
        if self.spanning is None:
            return gram
        weights = self._inner_inverse @ ((self.spanning @ gram) * self.spanning).sum(axis=1)
        return (self.spanning * weights[:, None]).T @ self.spanning

    @cached_property
    def _inner_inverse(self) -> FloatArray:  # (D, D)
        assert self.spanning is not None
        return np.asarray(np.linalg.inv((self.spanning @ self.spanning.T) ** 2), dtype=np.float64)


def whitened(table: maps.Table) -> Geometry:
    """Computed once for each table, and gone with it: it is several times as large."""
    if (known := _known.get(table)) is None:
        known = _known[table] = _geometry(table)
    return known


def _geometry(table: maps.Table) -> Geometry:
    features, span = _white(table)
    coordinates = (features.psi / maps.ONE) @ span.T
    spanning = _spanning(np.unique(coordinates.reshape(-1, len(span)), axis=0))
    return Geometry(features, span, coordinates, spanning)


def _white(table: maps.Table) -> tuple[maps.Table, FloatArray]:
    """ψ and its directions, by itself so that arrays of this size are gone before the next are made."""
    rows, columns = table.values.reshape(-1, table.width), table.width + 1
    scale = np.maximum(np.abs(rows).max(axis=0), np.finfo(float).tiny)
    extended = np.concatenate([rows / scale, np.ones((len(rows), 1))], axis=1)  # every column within [−1, 1]
    distinct = np.unique(extended, axis=0)
    span = _span(distinct)
    within = distinct @ span.T
    root = _inverse_root(within, _design(within))
    psi = extended @ (span.T @ root @ span)
    psi /= np.sqrt((psi**2).sum(axis=1).max())
    return maps.Table(psi.reshape(table.states, table.actions, columns)), span


def _span(rows: FloatArray) -> FloatArray:  # (N, p) → (r, p)
    """An orthonormal basis of the directions in which some row stands out."""
    _, vectors = np.linalg.eigh(rows.T @ rows)
    furthest = np.abs(rows @ vectors).max(axis=0)
    longest = np.sqrt((rows**2).sum(axis=1).max())
    return np.ascontiguousarray(vectors.T[furthest > _NEGLIGIBLE * longest])


def _design(rows: FloatArray) -> FloatArray:  # (N, r) → (N,)
    """Weights that make the greatest φᵀM⁻¹φ small; any weights would be allowed, these are nearly the best."""
    count, rank = rows.shape
    weights = np.full(count, 1 / count)
    for _ in range(int(min(_ROUNDS, max(3.0, _WORK / (count * rank**2))))):
        inverse = np.linalg.inv((rows * weights[:, None]).T @ rows)
        leverage = ((rows @ inverse) * rows).sum(axis=1)
        if leverage.max() <= _CLOSE * rank:  # it is never below the rank
            break
        weights = weights * leverage / rank
    return weights


def _inverse_root(rows: FloatArray, weights: FloatArray) -> FloatArray:  # (r, r)
    eigenvalues, vectors = np.linalg.eigh((rows * weights[:, None]).T @ rows)
    return (vectors / np.sqrt(eigenvalues)) @ vectors.T


def _spanning(rows: FloatArray) -> FloatArray | None:  # (N, r) → (D, r)
    """Rows whose φφᵀ span those of all, by pivoted Cholesky of ⟨φφᵀ, φ′φ′ᵀ⟩ = ⟨φ, φ′⟩²; None: no restriction."""
    full = rows.shape[1] * (rows.shape[1] + 1) // 2
    most = min(full, _MOST_MATRICES)
    if len(rows) * min(most, len(rows)) ** 2 > _WORK:
        return None
    rest = (rows**2).sum(axis=1) ** 2
    factor, chosen, smallest = np.zeros((most, len(rows))), list[int](), _NEGLIGIBLE**2 * rest.max()
    while rest.max() > smallest:
        if (found := len(chosen)) + 1 >= most:
            return None
        pivot = int(rest.argmax())
        column = (rows @ rows[pivot]) ** 2 - factor[:found, pivot] @ factor[:found]
        column /= np.sqrt(rest[pivot])
        factor[found] = column
        rest = np.maximum(rest - column**2, 0.0)
        rest[pivot] = 0.0
        chosen.append(pivot)
    return rows[np.array(chosen)]
