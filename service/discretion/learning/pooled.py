"""Statistics of vector states pooled over steps, each patient's contribution shortened as a whole.

For replacing one unit, X and Y being the two contributions, whatever the number of its trajectories and steps:

* Gram: X and Y are positive semidefinite with ‖X‖_F, ‖Y‖_F ≤ c, and so ⟨X, Y⟩ ≥ 0: ‖X − Y‖_F² ≤ 2c².
* residuals: ‖X‖, ‖Y‖ ≤ 1 in units of the radius, so ‖X − Y‖₂² ≤ 4. They are measured after a released linear map (one
  for each cell), whatever it is: it is applied to a unit's own sums, and the norm is checked after it.

A unit is weighted by w = min(1, c/‖M‖_F), M = Σφφᵀ over all its records. The weight enters as √w·φ *before* that is put
on the grid, and then the norm of what will be summed is checked in integers and the unit shrunk until it passes:
rounding products instead would break the bound, and so does truncating signed vectors once in a while. ‖M‖_F² is the
sum of the squared entries of ΦΦᵀ or ΦᵀΦ, whichever is smaller, block by block; the entries are exact integers, rounded
up to a multiple of 2ˢ so that the sum of their squares fits 64 bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np

from discretion import errors
from discretion.learning import features as maps
from discretion.learning import sums
from discretion.learning.pooled_records import Packed, Seen, seen_of
from discretion.learning.pooled_values import StateValue, Value
from discretion.learning.schemas import BoolArray, FloatArray, IntArray, Schema
from discretion.learning.trajectories import Bounded
from discretion.privacy import events

_RECORDS: Final = 2**15  # whose features are looked at together: what bounds the memory
_CHUNK: Final = 4096  # records evaluated at once: what fits the cache
_SUMMED: Final = 22  # bits of a unit's sums before they are mapped: multiples of 2⁻¹⁶ up to 2⁶
UNIT: Final = 2**20  # steps of a shortened vector's grid in its radius
_RESIDUAL: Final = 2**15  # steps of a residual's grid in its bound
_STEPS: Final = 6  # whose news a trace carries
_LONGEST: Final = 2**18  # records of a unit, so that its sums stay below 2⁵³
_FAR: Final = 2.0**100  # of what is handed to the curator, so that no square leaves the range of float64
_MARGIN: Final = 1 - 2.0**-12  # so that truncation rarely lengthens a contribution beyond its bound


@dataclass(frozen=True, eq=False, repr=False)
class _Weighted:
    """Records with √w·ψ, integers, and √w of each."""

    seen: Seen
    psi: FloatArray  # (R, p)
    root: FloatArray  # (R,)


def _frobenius(psi: FloatArray, seen: Seen, shift: int, which: BoolArray | None = None) -> IntArray:  # (U,)
    """An integer at least ‖M/2ˢ‖_F² of each unit, or of those units, from exact products of integers."""
    lengths, square = np.diff(np.append(seen.starts, len(psi))), np.zeros(seen.count, dtype=np.int64)
    runs = np.arange(len(lengths)) if which is None else np.flatnonzero(which[seen.owner])
    for length in np.unique(lengths[runs]):
        chosen = runs[lengths[runs] == length]
        rows = psi[seen.starts[chosen][:, None] + np.arange(length)]  # (S, length, p)
        other = rows.transpose(0, 2, 1)
        product = rows @ other if length <= psi.shape[1] else other @ rows
        np.abs(product, out=product)
        product *= 0.5**shift
        entries = np.ceil(product, out=product).astype(np.int64)
        entries *= entries
        np.add.at(square, seen.owner[chosen], entries.sum(axis=(1, 2)))
    return square


def _roots(seen: Seen, clip: Fraction, longest: int) -> FloatArray:  # (U,)
    """√w of each unit so that ‖M‖_F ≤ clip, checked in integers; `longest` is the most records a unit can have."""
    shift = longest.bit_length() + 2
    limit = int(clip * 2 ** (2 * maps.BITS - shift)) ** 2
    square = _frobenius(seen.here, seen, shift)
    over = square > limit
    root, shrink = np.ones(seen.count), _MARGIN
    root[over] = np.sqrt(np.sqrt(limit / square[over])) * _MARGIN
    while over.any():  # who is over now was over each time before, so how often is a unit's own matter
        over = _frobenius(_shortened(seen, root), seen, shift, over) > limit
        root[over] *= shrink
        shrink = max(shrink * shrink, 0.5)
    return root


def _shortened(seen: Seen, root: FloatArray) -> FloatArray:  # (U,) → (R, p)
    """√w·ψ on the grid: the integers that are checked, and those that are summed."""
    if (root == 1.0).all():
        return seen.here
    psi = seen.here * root[seen.units][:, None]  # of most, by 1
    return np.trunc(psi, out=psi)


@dataclass(frozen=True, eq=False)
class Pooled:
    """What the pooled statistics share."""

    schema: Schema
    features: maps.Blocks
    groups: int = 1  # of steps
    clip: Fraction = Fraction(1)  # of a unit's Gram matrix

    part = events.EVERYONE
    absolute_sensitivity = None

    def __post_init__(self) -> None:
        maps.check(self.features, self.schema)
        if self.longest > _LONGEST:
            raise errors.ProblemTooLarge(
                f"A patient may have {self.longest} records; {_LONGEST} at most can be summed exactly."
            )
        if not 1 <= self.groups <= self.schema.horizon:
            raise errors.InvalidParameter(
                f"A horizon of {self.schema.horizon} steps has no {self.groups} groups of steps."
            )

    @property
    def cells(self) -> int:
        return self.groups * self.schema.actions

    @property
    def longest(self) -> int:
        return self.schema.horizon * self.schema.per_unit

    def pieces(self, block: Bounded) -> Iterator[Seen]:
        """The records of some units at a time, with the features of their states; remembered from one pass to the next
        as far as there is room."""
        key = ("features", self.features, self.groups)
        if (known := block.recall(key)) is not None:
            yield from (packed.opened() for packed in cast(list[Packed], known))
            return
        every = seen_of(block, self.schema, self.groups)
        sizes = self.features, self.cells, max(_RECORDS, self.longest)
        kept, keep = list[Packed](), block.reserve(Packed.size(every, *sizes))
        for seen in every.pieces(max(1, _RECORDS // self.longest)):
            mapped = seen.mapped(self.features)
            if keep:
                kept.append(Packed.of(mapped, *sizes))
            yield mapped
        if keep:
            block.remember(key, kept)

    def weighted(self, block: Bounded) -> Iterator[_Weighted]:
        """The same, each unit shortened as a whole. By how much is found once for all passes."""
        key = ("roots", self.features, self.groups, self.clip)
        known, found = cast(list[FloatArray] | None, block.recall(key)), list[FloatArray]()
        for seen in self.pieces(block):
            root = _roots(seen, self.clip, self.longest) if known is None else known[len(found)]
            found.append(root)
            yield _Weighted(seen, _shortened(seen, root), root[seen.units])
        if known is None and block.reserve(sum(root.nbytes for root in found)):
            block.remember(key, found)

    def check_potential(self, potential: StateValue | None) -> None:
        if potential is not None and potential.weights.shape != (self.features.width,):
            raise errors.InvalidParameter("The potential handed to the curator does not fit the feature map.")

    def gains(self, seen: Seen, potential: StateValue | None) -> FloatArray:  # (R,)
        """Rewards over their width, and what a potential rises by; the end is worth 0."""
        reward = seen.rewards - self.schema.idle
        if potential is None:
            return reward
        here = potential.of(seen.here)
        there = here[seen.again]
        there[seen.last] = potential.of(seen.beyond)
        return np.asarray(reward + np.where(seen.ended, 0.0, there) - here)

    def finish(self, partial: IntArray) -> IntArray:
        return partial


@dataclass(frozen=True, eq=False)
class Gram(Pooled):
    """Σ w·φφᵀ, a (p, p) matrix for each group of steps and action."""

    resolution = Fraction(1, maps.ONE**2)
    symmetric = True
    name = "Gram matrix of the features, whole patients"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.cells, self.features.width, self.features.width)

    @property
    def squared_sensitivity(self) -> Fraction:
        return 2 * self.clip**2

    def largest(self, units: int) -> int:
        return units * -(-self.clip.numerator // self.clip.denominator) * maps.ONE**2

    def partial(self) -> IntArray:
        return np.zeros(self.shape, dtype=np.int64)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for weighted in self.weighted(block):
            for cell in range(self.cells):
                mine = weighted.psi[weighted.seen.cells == cell]
                partial[cell] += sums.exact_product(mine, mine, maps.ONE, maps.ONE)


@dataclass(frozen=True, eq=False)
class Residuals(Pooled):
    """Σ over units of R·Σ w·φ·e shortened to norm 1, in units of bound·radius; e = clip(δ/bound, ±1).

    δ = r + γV(x′) − Q̃, and if the next recorded action is the one that V is of, γ·trace times its own is added
    (Watkins 1989), so that its news need not wait for a later round. r is the declared reward over its width, so that
    the end is worth 0; what a potential rises by is earned too. `values`, `potential`, `bound` and `roots` (R) were
    released before, or are not needed in a plan.
    """

    radius: float = 1.0
    discount: float = 1.0
    trace: float = 0.0
    round: int = 0
    bound: float = 1.0
    values: tuple[Value, ...] = ()
    roots: FloatArray | None = None  # (cells, p, p), put on their grid; None: left as they are
    potential: StateValue | None = None

    resolution = Fraction(1, UNIT)
    symmetric = False
    squared_sensitivity = Fraction(4)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_potential(self.potential)
        fits = all(value.score.weights.shape == (self.schema.actions, self.features.width) for value in self.values)
        if not fits or len(self.values) not in (0, self.groups):
            raise errors.InvalidParameter("The values handed to the curator do not fit the feature map.")
        if self.roots is not None:
            width = self.features.width
            if self.roots.shape != (self.cells, width, width):
                raise errors.InvalidParameter("The roots handed to the curator do not fit the feature map.")
            finite = np.clip(np.nan_to_num(self.roots), -_FAR, _FAR)
            object.__setattr__(self, "roots", maps.on_grid(finite, width, _SUMMED))

    @property
    def name(self) -> str:
        return f"features times what the value so far fails to predict, whole patients, round {self.round + 1}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.cells, self.features.width)

    def largest(self, units: int) -> int:
        return units * UNIT

    def partial(self) -> IntArray:
        return np.zeros(self.shape, dtype=np.int64)

    def _errors(self, seen: Seen) -> FloatArray:  # (R,) within ±1
        reward = self.gains(seen, self.potential)
        following, followed, predicted = self._looked_up(seen)
        found = own = reward + self.discount * following - predicted
        for _ in range(_STEPS if self.trace else 0):  # where nothing is followed, nobody else's number is looked at
            found = own + np.where(followed, self.discount * self.trace * found[seen.again], 0.0)
        scaled = found / self.bound
        return np.minimum(np.maximum(np.where(np.isnan(scaled), 0.0, scaled), -1.0), 1.0)

    def _looked_up(self, seen: Seen) -> tuple[FloatArray, BoolArray, FloatArray]:  # (R,) each
        """What the next state is worth, whether the next recorded action is the one that makes it so, and what was
        predicted. Most successors are records of their own, in the group that follows: each state is looked at once."""
        group, action = np.divmod(seen.cells, self.schema.actions)
        worth, best, predicted = _by_group(self.values, group, seen.here, action)
        last, _, _ = _by_group(self.values, seen.following[seen.last], seen.beyond)
        value, followed = worth[seen.again], (best == action)[seen.again]
        value[seen.last], followed[seen.last] = last, False
        return np.where(seen.ended, 0.0, value), followed & ~seen.ended, predicted

    def _mapped(self, summed: FloatArray, cells: IntArray) -> FloatArray:  # (S, p), integers
        """The runs' sums under the released map. Put on a coarse grid first, every sum of products is exact."""
        exact = summed * (1.0 / (maps.ONE * _RESIDUAL))
        if self.roots is None:
            return exact
        whole = np.clip(np.trunc(exact * maps.ONE), -(2.0**_SUMMED), 2.0**_SUMMED)
        mapped = np.empty_like(whole)
        for cell, root in enumerate(self.roots):
            rows = np.flatnonzero(cells == cell)
            mapped[rows] = whole[rows] @ root.T
        return mapped * (1.0 / maps.ONE)

    def add(self, block: Bounded, units: int, partial: IntArray) -> None:
        for weighted in self.weighted(block):
            seen = weighted.seen
            if not len(seen.starts):
                continue
            error = sums.whole(self._errors(seen) * weighted.root * _RESIDUAL, _RESIDUAL)
            summed = sums.by_run(error, weighted.psi, seen.starts)
            cells = seen.cells[seen.starts]
            mapped = np.nan_to_num(self._mapped(summed, cells) * (UNIT / self.radius))
            vectors = sums.shortened(np.clip(mapped, -_FAR, _FAR), seen.owner, UNIT)
            for cell in range(self.cells):
                partial[cell] += vectors[cells == cell].sum(axis=0).astype(np.int64)


def _by_group(
    values: tuple[Value, ...], group: IntArray, psi: FloatArray, actions: IntArray | None = None
) -> tuple[FloatArray, IntArray, FloatArray]:  # (R,), (R, p), (R,) → (R,) each
    """What each state is worth, the action that makes it so, and what the actions that are asked about are worth; no
    action makes it so where nothing was released."""
    worth, best, asked = np.zeros(len(psi)), np.full(len(psi), -1), np.zeros(len(psi))
    for number, value in enumerate(values):
        for rows in _chunks(len(psi), None if len(values) == 1 else np.flatnonzero(group == number)):
            worth[rows], best[rows], mean = value.best(psi[rows])
            if actions is not None:
                asked[rows] = mean[actions[rows], np.arange(mean.shape[1])]
    return worth, best, asked


def _chunks(size: int, some: IntArray | None) -> Iterator[slice | IntArray]:
    """Some of the rows at a time, or all of them, which need not be copied."""
    for start in range(0, size if some is None else len(some), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield part if some is None else some[part]
