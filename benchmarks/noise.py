"""How long a draw takes, next to numpy's (insecure, continuous) normal and to OpenDP's discrete Gaussian.

python -m benchmarks.noise
"""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp

from benchmarks.rows import Row, row
from discretion.privacy import noise

_DRAWS = 10**8
_OPENDP_DRAWS = 10**4
_REPETITIONS = 3


def measure() -> list[Row]:
    rng = np.random.default_rng()
    opendp = _opendp(6.0)
    best = _interleaved(
        {
            "six": (lambda: noise.gaussian(Fraction(36), _DRAWS), _DRAWS),
            "million": (lambda: noise.gaussian(Fraction(10**12), _DRAWS), _DRAWS),
            "numpy": (lambda: rng.normal(scale=6.0, size=_DRAWS), _DRAWS),
            "opendp": (lambda: opendp(_OPENDP_DRAWS), _OPENDP_DRAWS),
        }
    )
    return [
        row("discrete Gaussian, σ = 6", "ns per draw", best["six"], "numpy normal", best["numpy"], "<= 1.5"),
        row("discrete Gaussian, σ = 10^6", "ns per draw", best["million"], "numpy normal", best["numpy"], "<= 8"),
        row(
            "discrete Gaussian, σ = 6",
            "ns per draw",
            best["six"],
            "OpenDP discrete Gaussian",
            best["opendp"],
            "<= 0.002",
        ),
    ]


def _interleaved(tasks: dict[str, tuple[Callable[[], object], int]]) -> dict[str, float]:
    """The best nanoseconds per draw of each task; taking turns lets a busy moment of the machine hit all of them."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(_REPETITIONS):
        for name, (task, draws) in tasks.items():
            start = time.perf_counter()
            task()
            best[name] = min(best[name], (time.perf_counter() - start) / draws * 1e9)
    return best


def _opendp(scale: float) -> Callable[[int], list[int]]:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.m.make_gaussian(*space, scale=scale)
    return lambda draws: measurement([0] * draws)


if __name__ == "__main__":
    for measured in measure():
        print(measured)
