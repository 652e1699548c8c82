"""How a pooled learner maps residuals before they are shortened, and how far a round's answer moves the weights.

All of it is computed from a released Gram matrix Λ̃, one (p, p) matrix for each group of steps and action. It only
steers the rounds: where it is wrong they take longer, and end at the same weights.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning.schemas import FloatArray

_OWN: Final = 0.34  # of an action's Gram matrix is its own, the rest its share of all; above 1/3, rounds converge
_FLOOR: Final = 0.35  # of the norm of the Gram matrix's noise: where eigenvalues end


@dataclass(frozen=True, eq=False)
class Steps:
    """g groups of steps, A actions, p features."""

    typical: float  # length of a patient under Λ̃^(−½)
    roots: FloatArray  # (g, A, p, p) Λ̃^(−½)
    inverse_roots: FloatArray  # (g, A, p, p) Λ̃^½
    known: FloatArray  # (g, A, p, p) Λ̃ as it is, not lifted
    everyone: FloatArray  # (g, p, p) the inverse of all actions' matrix, lifted

    @classmethod
    def of(cls, gram: FloatArray, frequencies: FloatArray, noise: float, ridge: float, units: int) -> "Steps":
        """Most of each action's matrix is its share of all actions' matrix, whose noise is smaller. A matrix of which
        nothing is shared is still _OWN of what it should be: a step is 1/_OWN too long at most, and with momentum β
        steps below 2·(1 + β) settle. Eigenvalues below the size of the noise are lifted to it."""
        share, total, actions = frequencies[:, :, None, None], gram.sum(axis=1), gram.shape[1]
        left = _OWN**2 + 2 * _OWN * (1 - _OWN) * share + (1 - _OWN) ** 2 * share**2 * actions
        eigenvalues, vectors = np.linalg.eigh(_OWN * gram + (1 - _OWN) * share * total[:, None])
        known = np.maximum(eigenvalues, 0.0)
        lifted = np.maximum(eigenvalues, _FLOOR * noise * np.sqrt(left[..., 0])) + ridge
        together, directions = np.linalg.eigh(total)
        return cls(
            max(math.sqrt(float((known / lifted).sum()) / units), 1e-9),
            _made(vectors, 1.0 / np.sqrt(lifted)),
            _made(vectors, np.sqrt(lifted)),
            _made(vectors, known),
            _made(directions, 1.0 / (np.maximum(together, _FLOOR * noise * math.sqrt(actions)) + ridge)),
        )

    @property
    def maps(self) -> FloatArray:  # (g, A, p, p)
        """What residuals are mapped by: a typical patient's have length 1 then, if each is as large as its cut."""
        return self.roots / self.typical

    @property
    def back(self) -> FloatArray:  # (g, A, p, p)
        """From there to an action's own weights, and what their noise goes through; times the map it is Λ̃⁻¹."""
        return self.roots * self.typical

    def change(self, found: FloatArray) -> FloatArray:  # (g, A, p) each
        """First what all actions' residuals say alike, of which most is known; then Λ̃⁻¹ times what that leaves of an
        action's own. So a direction in which little is known of an action goes with what states are worth there, and
        does not stay behind. Where everything is known it is Λ̃⁻¹ times the residuals, and whatever is known it is 0
        only where these are: the rounds end at the same weights."""
        summed = np.einsum("gaij,gaj->gai", self.inverse_roots * self.typical, found)
        alike = np.einsum("gij,gj->gi", self.everyone, summed.sum(axis=1))
        own = summed - np.einsum("gaij,gj->gai", self.known, alike)
        return np.asarray(alike[:, None] + np.einsum("gaij,gaj->gai", self.roots @ self.roots, own))


def _made(vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:  # (…, p, p), (…, p) → (…, p, p)
    return np.asarray((vectors * eigenvalues[..., None, :]) @ np.swapaxes(vectors, -1, -2))
