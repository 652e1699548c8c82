"""What each state earns at the horizon, from the private sums of `horizon`: the potential Φ that visits are paid by.

A state's mean is believed as far as it stands out of the noise, else the mean of all states is taken for it. Rewards
are in widths of the declared reward, so that the end earns 0. As in `occupancy`, noise is shrunk and sampling is not.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discretion.learning import horizon
from discretion.learning.asking import Asker, deviation
from discretion.learning.schemas import FloatArray

_CLEAR: Final = 2.0  # standard deviations of noise: fewer stays than so many are taken for as many
_TINY: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Potential:
    values: FloatArray  # (S + 1,) the end's is 0
    variance: FloatArray  # (S + 1,) of the values, given the noise
    reached: FloatArray  # (S,) stays in each state at the last step, with noise
    noise: float  # the deviation of that

    def ended(self, stays: float) -> float:
        """At most so many of a stay end before the last step, as far as noise lets one see."""
        error = self.noise * math.sqrt(len(self.reached))
        return min(max(1 - (float(self.reached.sum()) - error) / stays, 0.0), 1.0)


def of(asker: Asker) -> Potential:
    answer, stays = asker.ask(horizon.Settled(asker.schema)), asker.schema.per_unit
    (reached, earned), noise = answer.values * stays, deviation(answer) * stays
    mean = float(np.clip(earned.sum() / max(float(reached.sum()), noise, 1.0), -1.0, 1.0))
    visits = np.maximum(reached, max(_CLEAR * noise, 1.0))
    rest, noises = (earned - mean * reached) / visits, noise * math.hypot(1.0, mean) / visits
    prior = max(float((visits * (rest**2 - noises**2)).sum()), 0.0) / float(visits.sum())
    belief = prior / np.maximum(prior + noises**2, _TINY)
    centred = np.clip(mean + belief * rest, -1.0, 1.0)
    values, variance = (1 + centred) / 2 - asker.schema.idle, belief * noises**2 / 4
    return Potential(np.append(values, 0.0), np.append(variance, 0.0), reached, noise)
