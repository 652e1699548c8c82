"""What noisy sums most likely were: empirical Bayes for counts, values and advantages.

Everything here is computed from released numbers and the known variance of their noise, so it costs no privacy. Priors
are estimated from the released numbers themselves; the few constants are fixed and public.

| letter | here                                                                                   |
|--------|----------------------------------------------------------------------------------------|
| σ      | `deviation`, `noise` (squared): of the noise on each number, known exactly              |
| n      | `visits`: of each state and action, posterior means                                     |
| y      | a noisy sum divided by its visits; its variance is (σ² + n·spread) / n²                 |
| τ      | the prior deviation of what is estimated, chosen by marginal likelihood                 |
| μ_s    | the common part of a state's advantages, left almost free: only contrasts decide        |
| β      | effects of each action, constant and growing with the state's value                     |
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning.clipped import EDGES, PER_OCTAVE
from discretion.learning.schemas import BoolArray, FloatArray

MANY: Final = 200  # actions beyond which nothing is pooled over states: it would take too long
_CERTAIN: Final = 12.0  # deviations above zero from which a count is taken as it is
_ITERATIONS: Final = 100
_COMPONENTS: Final = 5
_VALUE_PRIORS: Final = (0.007, 0.02, 0.04, 0.09, 0.17, 0.33, 0.65)  # τ of values, in deviations of one visit
_PRIORS: Final = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # τ of advantages, likewise
_EFFECTS: Final = (0.02, 0.05, 0.1, 0.2)  # prior deviations of β, likewise
_COMMON: Final = 3.0  # of μ_s, likewise
_SLOPE: Final = 0.5  # of the effects that grow with the value, relative to the constant ones
EVIDENCE: Final = 2 * math.log(3)  # odds of 3 to 1, as twice a logarithm, before actions count as told apart
_TINY: Final = 1e-300
_FLAT: Final = 1e3  # as good as no prior


# --- how long the vectors are ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Where vectors are cut, and what that does to them."""

    radius: float
    kept: float  # the mean factor by which a vector is shortened
    energy: float  # the mean squared length after it

    def times(self, unit: float) -> "Cut":
        return Cut(self.radius * unit, self.kept, self.energy * unit * unit)


def cut(histogram: FloatArray, deviation: float, quantile: float) -> Cut:
    """A quantile of the noisy sizes; bins that hold no more than noise are taken as empty."""
    held = np.where(histogram > 3 * deviation, histogram, 0.0)
    held[0] = 0.0  # next to nothing is next to nothing, however it is cut
    if not held.any():
        return Cut(1.0, 1.0, 1.0)
    below = np.cumsum(held)
    target = quantile * below[-1]
    place = int(np.searchsorted(below, target))
    into = 1.0 - (below[place] - target) / held[place]
    sizes = np.append(EDGES, EDGES[-1]) * 2.0 ** (-0.5 / PER_OCTAVE)
    radius = float(EDGES[min(place, len(EDGES) - 1)] * 2.0 ** ((into - 1.0) / PER_OCTAVE))
    weights = held / below[-1]
    kept = float((weights * np.minimum(1.0, radius / sizes)).sum())
    return Cut(radius, kept, float((weights * np.minimum(radius, sizes) ** 2).sum()))


# --- counts ------------------------------------------------------------------------------------------------------


def counts(noisy: FloatArray, deviation: float) -> FloatArray:  # (S, A)
    """Half what each number tells of itself, half what the rows have in common."""
    alone = _deconvolved(noisy.ravel(), deviation).reshape(noisy.shape)
    if min(noisy.shape) > MANY:
        return alone
    return np.asarray((alone + np.maximum(low_rank(noisy, deviation), 0.0)) / 2)


def _deconvolved(noisy: FloatArray, deviation: float) -> FloatArray:
    """E[n | noisy n], the prior being the mixture that makes all the noisy counts most likely (Kiefer, Wolfowitz)."""
    knots = np.arange(-6.0, _CERTAIN + 0.25, 0.25)  # in deviations
    grid = np.append(0.0, np.geomspace(1 / 16, _CERTAIN + 2.0, 50))
    scaled = noisy / deviation
    unsure = scaled < _CERTAIN
    nearest = np.rint((np.clip(scaled[unsure], knots[0], knots[-1]) - knots[0]) * 4).astype(np.int64)
    if not len(nearest):
        return noisy
    seen = np.bincount(nearest, minlength=len(knots)) / len(nearest)
    likelihood = np.exp(-0.5 * (knots[:, None] - grid) ** 2)
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(_ITERATIONS):
        prior = prior * (likelihood.T @ (seen / np.maximum(likelihood @ prior, _TINY)))
    joint = likelihood * (prior + 1e-12)
    means = (joint @ grid) / joint.sum(axis=1)
    return np.where(unsure, np.interp(scaled, knots, means) * deviation, noisy)


def low_rank(noisy: FloatArray, deviation: float) -> FloatArray:  # (S, A)
    """Singular values shrunk as is best for the squared error at this noise (Gavish and Donoho 2017, eq. 7)."""
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    large, aspect = max(noisy.shape), min(noisy.shape) / max(noisy.shape)
    scale = deviation * math.sqrt(large)
    seen = np.maximum(values / scale, 1 + math.sqrt(aspect))  # below this a singular value is noise
    kept = np.sqrt(np.maximum((seen * seen - aspect - 1) ** 2 - 4 * aspect, 0.0)) / seen
    return np.asarray((left * (kept * scale)) @ right)


# --- values ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimates:
    mean: FloatArray
    deviation: FloatArray
    informed: bool = True  # something speaks against all of them being alike


def components(visits: FloatArray) -> FloatArray:  # (S, A) → (S, p)
    """The main ways in which states differ in what is done there, scaled to mean square 1 over visits."""
    size = min(_COMPONENTS, visits.shape[1] - 1)
    totals = visits.sum(axis=1)
    if size < 1 or visits.shape[1] > MANY or not totals.any():
        return np.zeros((len(visits), 0))
    weights = totals / totals.sum()
    shares = visits / np.maximum(totals, 1e-9)[:, None]
    centred = shares - weights @ shares
    _, axes = np.linalg.eigh((centred * weights[:, None]).T @ centred)
    along = centred @ axes[:, : -size - 1 : -1]
    return np.asarray(along / np.maximum(np.sqrt(weights @ along**2), 1e-9))


def values(sums: FloatArray, noise: float, visits: FloatArray, spread: float, features: FloatArray) -> Estimates:
    """The mean of each state, shrunk toward a ridge regression on its features; everything (S,) but features (S, p)."""
    known = np.maximum(visits, 1e-6)
    seen, variance = sums / known, (noise + known * spread) / known**2
    design = np.column_stack([np.ones(len(known)), features])
    best = max((_regressed(seen, variance, design, prior * math.sqrt(spread)) for prior in _VALUE_PRIORS), key=_first)
    _, prior, fitted, weights = best
    mean = fitted + prior**2 * weights * (seen - fitted)
    return Estimates(mean, np.sqrt(prior**2 * (1 - prior**2 * weights)))


def _first(found: tuple[float, float, FloatArray, FloatArray]) -> float:
    return found[0]


def _regressed(
    seen: FloatArray, variance: FloatArray, design: FloatArray, prior: float
) -> tuple[float, float, FloatArray, FloatArray]:
    """Log marginal likelihood, τ, fit, and weights."""
    weights = 1 / (variance + prior**2)
    precision = np.full(design.shape[1], 1 / prior**2)
    precision[0] = 1 / (_FLAT * prior) ** 2
    normal = design.T @ (design * weights[:, None]) + np.diag(precision)
    right = design.T @ (weights * seen)
    effects = np.linalg.solve(normal, right)
    likelihood = np.log(weights).sum() - (weights * seen**2).sum() + right @ effects
    likelihood += np.log(precision).sum() - np.linalg.slogdet(normal)[1]
    return float(likelihood), prior, design @ effects, weights


# --- advantages --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Model:
    """One prior, and what it makes of the sums."""

    likelihood: float  # twice its logarithm
    prior: float  # τ
    fitted: FloatArray  # (S, A) action effects
    doubt: FloatArray  # (S, A) their variance
    weights: FloatArray  # (S, A) 1 / (variance + τ²)


def advantages(
    sums: FloatArray,  # (S, A)
    noise: float,
    visits: FloatArray,  # (S, A)
    spread: float,
    value: FloatArray | None,  # (S,) with action effects that may grow with it; None: no action effects
) -> Estimates:
    """The mean of each cell, up to a constant of its state, averaged over priors by how likely they make the sums."""
    counted = visits > 1.0
    known = np.maximum(visits, 1.0)
    seen, variance = np.where(counted, sums / known, 0.0), (noise + known * spread) / known**2
    unit = math.sqrt(spread)
    common = (_COMMON * unit) ** 2
    nothing = _modelled(seen, variance, counted, 0.0, common)
    models = _models(seen, variance, counted, unit, None if value is None else _design(value, visits))
    most, total = -math.inf, 0.0
    mean, square = np.zeros(seen.shape), np.zeros(seen.shape)
    for model in models:  # one at a time: there are many, and each is as large as the table
        before, most = most, max(most, model.likelihood)
        kept, weight = math.exp((before - most) / 2), math.exp((model.likelihood - most) / 2)
        expected, doubt = _posterior(model, seen, common)
        total = kept * total + weight
        mean = kept * mean + weight * expected
        square = kept * square + weight * (doubt + expected**2)
    mean, square = mean / total, square / total
    return Estimates(mean, np.sqrt(np.maximum(square - mean**2, 0.0)), most > nothing.likelihood + EVIDENCE)


def _posterior(model: _Model, seen: FloatArray, common: float) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each cell under one prior."""
    left = seen - model.fitted
    totals = model.weights.sum(axis=1) + 1 / common
    left = left - ((model.weights * left).sum(axis=1) / totals)[:, None]
    certainty = model.prior**2 * model.weights
    return model.fitted + certainty * left, model.prior**2 * (1 - certainty) + (1 - certainty) ** 2 * model.doubt


def _design(value: FloatArray, visits: FloatArray) -> FloatArray:  # (S, 2)
    weights = visits.sum(axis=1) / max(float(visits.sum()), 1e-9)
    centred = value - weights @ value
    scaled = centred / max(math.sqrt(float(weights @ centred**2)), 1e-9)
    return np.column_stack([np.ones(len(value)), np.clip(scaled, -3.0, 3.0)])


def _models(
    seen: FloatArray, variance: FloatArray, counted: BoolArray, unit: float, design: FloatArray | None
) -> Iterator[_Model]:
    common = (_COMMON * unit) ** 2
    for prior in _PRIORS:
        model = _modelled(seen, variance, counted, prior * unit, common)
        if design is None:
            yield model
        else:
            yield from (_with_effects(model, seen, design, effect * unit, common) for effect in _EFFECTS)


def _modelled(seen: FloatArray, variance: FloatArray, counted: BoolArray, prior: float, common: float) -> _Model:
    """Cells that differ by τ within states that differ by μ, and nothing else."""
    weights = np.where(counted, 1 / (variance + prior**2), 0.0)
    totals = weights.sum(axis=1) + 1 / common
    squares = (weights * seen**2).sum() - ((weights * seen).sum(axis=1) ** 2 / totals).sum()
    likelihood = np.log(weights[counted]).sum() - np.log(totals * common).sum() - squares
    nothing = np.zeros(seen.shape)
    return _Model(float(likelihood), prior, nothing, nothing, weights)


def _with_effects(model: _Model, seen: FloatArray, design: FloatArray, effect: float, common: float) -> _Model:
    """The same with effects of each action, β ~ N(0, effect²): generalised least squares, μ_s integrated out."""
    (states, actions), width = seen.shape, design.shape[1]
    weights = model.weights
    totals = weights.sum(axis=1) + 1 / common
    weighted = (weights[:, :, None] * design[:, None, :]).reshape(states, -1)
    normal = -(weighted / totals[:, None]).T @ weighted
    precision = np.tile(1 / (effect * np.where(np.arange(width) > 0, _SLOPE, 1.0)) ** 2, actions)
    for action, block in enumerate(np.einsum("sa,sk,sl->akl", weights, design, design, optimize=True)):
        place = slice(action * width, (action + 1) * width)
        normal[place, place] += block
    normal[np.diag_indices_from(normal)] += precision
    centred = weights * (seen - ((weights * seen).sum(axis=1) / totals)[:, None])
    right = (centred.T @ design).ravel()
    inverse = np.linalg.inv(normal)
    effects = inverse @ right
    likelihood = model.likelihood + right @ effects + np.log(precision).sum() - np.linalg.slogdet(normal)[1]
    blocks = np.stack([inverse[a * width : (a + 1) * width, a * width : (a + 1) * width] for a in range(actions)])
    doubt = np.einsum("sk,akl,sl->sa", design, blocks, design, optimize=True)
    return _Model(float(likelihood), model.prior, design @ effects.reshape(actions, width).T, doubt, weights)
