"""How the time of a training grows with stays, states, actions, steps and features, over two decades each.

The exponent is the slope of a line through the logarithms, or that of its last decade, if that is steeper: what a
training does once, whatever the size, hides in the first how the rest grows.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from benchmarks import scale, stays
from benchmarks.rows import Row, row
from discretion.learning.schemas import Schema

POINTS: Final = Path(__file__).parent / "growth.json"
PICTURE: Final = Path(__file__).parents[1] / "docs" / "figures" / "performance" / "growth.png"
_JUDGING: Final = (scale.ROUND_BY_ROUND, scale.BY_TABLE)
_DISCRETE: Final = (*scale.COUNTING, scale.ROUND_BY_ROUND)
_EVALUATING: Final = (scale.ROUND_BY_ROUND, scale.REGRESSING)
_ROUNDS: Final = 1.45  # exponent of H·min(H, 40) at 5, 50 and 500 steps: each pass over the steps is for one of them
_NONE: Final = 0.1  # an exponent below that is none: its figure is noise
_SHORT: Final = 1.0  # seconds below which the best of three counts
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


@dataclass(frozen=True)
class Curve:
    letter: str
    sizes: tuple[int, ...]
    schema: Callable[[int], Schema]
    units: Callable[[int], int]
    most: float  # the algorithm's own exponent
    learners: tuple[str, ...]

    def own(self, learner: str) -> float:
        """An evaluation makes a pass for each step, as long as these are not too many."""
        return _ROUNDS if self.letter == "H" and learner in _EVALUATING else self.most

    def goal(self, learner: str) -> str:
        return f"value <= {self.own(learner) + 0.05:g}"

    @property
    def drawn(self) -> set[tuple[str, str]]:
        return {(self.letter, learner) for learner in self.learners}


CURVES: Final = (
    Curve("n", (30_000, 300_000, 3_000_000), lambda n: scale.discrete(), lambda n: n, 1.0, scale.COUNTING),
    Curve("n", (5_000, 50_000, 500_000), lambda n: scale.discrete(), lambda n: n, 1.0, _JUDGING),
    Curve("n", (3_000, 30_000, 300_000), lambda n: scale.vector(4), lambda n: n, 1.0, scale.VECTOR),
    Curve("S", (1_000, 10_000, 100_000), lambda s: scale.discrete(s, 5), lambda s: 100_000, 1.0, _DISCRETE),
    Curve("A", (2, 20, 200), lambda a: scale.discrete(actions=a), lambda a: 100_000, 1.0, _DISCRETE),
    Curve("A", (2, 20, 200), lambda a: scale.vector(4, a), lambda a: 5_000, 1.0, scale.VECTOR),
    Curve("H", (5, 50, 500), lambda h: scale.discrete(horizon=h), lambda h: 20_000, 1.0, _DISCRETE),
    Curve("H", (5, 50, 500), lambda h: scale.vector(4, horizon=h), lambda h: 2_000, 1.0, scale.VECTOR),
    Curve("d", (10, 100, 1000), lambda d: scale.vector(d // 5 - 1), lambda d: 5_000, 2.0, scale.VECTOR),
)


def measure() -> Iterator[Row]:
    points: list[dict[str, Any]] = []
    for curve in CURVES:
        found: dict[str, list[float]] = {name: [] for name in curve.learners}
        for size in curve.sizes:
            for name, taken in _timed(curve, size):
                found[name].append(taken)
        for name, seconds in found.items():
            points.append({"letter": curve.letter, "learner": name, "sizes": curve.sizes, "seconds": seconds})
            own = curve.own(name)
            peer = {1.0: "a line", 2.0: "a square", _ROUNDS: "a pass for each of 40 steps"}[own]
            steepness = exponent(curve.sizes, seconds)
            yield row(f"growth with {curve.letter}, {name}", "exponent", steepness, peer, own, curve.goal(name))
    POINTS.write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    draw(points)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return max(_NONE, _slope(sizes, seconds), _slope(sizes[-2:], seconds[-2:]))


def _slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _timed(curve: Curve, size: int) -> Iterator[tuple[str, float]]:
    schema = curve.schema(size)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        stays.store(Path(folder), schema, curve.units(size))
        for name in curve.learners:
            seconds, _ = scale.isolated(name, Path(folder), schema)
            if seconds < _SHORT:
                seconds = min(seconds, *(scale.isolated(name, Path(folder), schema)[0] for _ in range(2)))
            yield name, seconds


def draw(points: list[dict[str, Any]]) -> None:
    figure = Figure(figsize=(14, 8), layout="constrained")
    axes = figure.subplots(3, 3).flat
    for axis, curve in zip(axes, CURVES, strict=True):
        mine = [point for point in points if (point["letter"], point["learner"]) in curve.drawn]
        for colour, point in zip(_COLOURS, mine, strict=False):
            axis.loglog(point["sizes"], point["seconds"], "o-", color=colour, label=point["learner"])
        sizes, first = np.array(curve.sizes, dtype=float), min(point["seconds"][0] for point in mine)
        ideal = first * (sizes / sizes[0]) ** curve.most
        axis.loglog(sizes, ideal, ":", color="grey", label=f"exponent {curve.most:g}")
        axis.set_xlabel("features" if curve.letter == "d" else curve.letter)
        axis.set_ylabel("seconds")
        axis.legend(fontsize=7, framealpha=0.5)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(json.loads(POINTS.read_text(encoding="utf-8")))
