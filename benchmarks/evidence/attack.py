"""An attacker who knows everything but one patient, against each released statistic and its own share of the budget.

The attacker sees one noisy release and must tell two worst-case neighbours apart, by the likelihood ratio, which no
test beats. Half of the draws choose the threshold, the other half bound its error rates (Clopper–Pearson, 95 %). From
P[D] ≤ e^ε·P[D′] + δ follows a lower bound on ε, which must stay below the ε that the statistic's ρ claims at that δ
(for pure releases: its own ε at δ = 0). The same attack on noise made for half the sensitivity must break through, or
it would prove nothing.

Where the worst neighbours are known they are written down; for the statistics of the learners that pool whole patients
they are those that the search of `neighbours` found.
"""

import itertools
import json
import math
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from benchmarks.evidence import neighbours
from discretion.learning import followed, sums, transits
from discretion.learning.counts import RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Concentrated, Pure, Query, event_of
from discretion.learning.features import Blocks, Table
from discretion.learning.regressions import Gram, Moment
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from discretion.privacy import events, noise, rho

SUMMARY = Path(__file__).with_suffix(".json")
_DELTAS = (Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
_HORIZON = 4
_SHARE = Concentrated(Fraction(1, 2))
# What no search finds the worst neighbours of:
_WRITTEN = ("transitions", "steps that stand for", "features where each action was taken")


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    query: Query
    one: Trajectories
    other: Trajectories


def cases() -> Iterator[Case]:
    """The same patient twice: elsewhere at every step, or with the opposite features and the largest targets."""
    schema = Schema(_HORIZON, Discrete(3), 2)
    here, there = _stay(schema, 0, 1.0), _stay(schema, 1, 1.0)
    poor, rich = _stay(schema, 0, 0.0), _stay(schema, 0, 1.0)
    opposite = Table(np.array([[[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2, [[-1.0, 0.0]] * 2]))
    across = _stay(schema, 2, 1.0)
    yield Case("visits", Query(VisitCounts(schema), _SHARE), here, there)
    yield Case("visits, Laplace", Query(VisitCounts(schema), Pure(Fraction(1))), here, there)
    yield Case("transitions", Query(TransitionCounts(schema), _SHARE), here, there)
    yield Case("first visits", Query(VisitCounts(schema, "stationary"), _SHARE), *_tours(schema))
    yield Case("first transitions", Query(TransitionCounts(schema, "stationary"), _SHARE), *_tours(schema))
    yield Case("centred rewards", Query(RewardSums(schema), _SHARE), poor, rich)
    yield Case("Gram matrix, table", Query(Gram(schema, opposite, 0), _SHARE), here, there)
    yield Case("moment, table", Query(Moment(schema, opposite, 0, reward=True, bound=1), _SHARE), here, across)
    yield _rare()
    line = Vector(("x",), ((-1.0, 1.0),))
    plane, blocks = Schema(_HORIZON, line, 2), Blocks(line, 2, ("x",))
    low, high = _stay(plane, -1.0, 1.0), _stay(plane, 1.0, 1.0)
    yield Case("moment, action blocks", Query(Moment(plane, blocks, 0, reward=True, bound=1), _SHARE), low, high)
    judged = transits.Judged(plane, blocks, limit=float(_HORIZON))
    yield Case("features of each action", Query(transits.Actions(judged), _SHARE), low, high)


def _rare() -> Case:
    """A patient who is only in states that are pooled, and one of whom nothing was recorded."""
    schema = Schema(_HORIZON, Discrete(_HORIZON), 2)
    nowhere = np.zeros((_HORIZON, _HORIZON), dtype=np.int64)
    judged = followed.Judged(schema, nowhere, limits=followed.Limits(1, _HORIZON), place=np.full(_HORIZON, _HORIZON))
    path = np.arange(_HORIZON)[:, None]
    block = block_of(path, np.zeros_like(path), np.zeros((_HORIZON, 1)), final=path[0])
    one, other = (Trajectories(schema, 1, [replace(block, lengths=np.array([steps]))]) for steps in (_HORIZON, 0))
    return Case("steps that stand for a policy", Query(followed.Standing(judged), _SHARE), one, other)


def _stay(schema: Schema, place: float, reward: float) -> Trajectories:
    """One patient who is always in one place."""
    discrete = isinstance(schema.states, Discrete)
    states = np.full((_HORIZON, 1), int(place)) if discrete else np.full((_HORIZON, 1, 1), place)
    actions = np.zeros((_HORIZON, 1), dtype=np.int64)
    return Trajectories(schema, 1, [block_of(states, actions, np.full((_HORIZON, 1), reward), final=states[0])])


def _tours(schema: Schema) -> tuple[Trajectories, Trajectories]:
    """Two patients who visit three cells each, and none in common."""
    tours = []
    for cells in ([0, 1, 2], [3, 4, 5]):
        cell = np.resize(cells, (_HORIZON, 1))
        block = block_of(cell // 2, cell % 2, np.zeros((_HORIZON, 1)), final=np.zeros(1, dtype=np.int64))
        tours.append(Trajectories(schema, 1, [block]))
    return tours[0], tours[1]


def written() -> Iterator[tuple[str, events.Event, IntArray]]:
    for case in cases():
        (one,), (other,) = (sums.totals([case.query.statistic], data) for data in (case.one, case.other))
        yield case.name, event_of(case.query, 1), one - other


def _searched(number: int, pairs: int) -> dict[str, neighbours.Move]:
    return neighbours.worst(neighbours.pooling()[number], pairs, number)[1]


def searched(pairs: int) -> Iterator[tuple[str, events.Event, IntArray]]:
    """Each statistic of the pooling learners, moved as far as the search could move it; all processors search."""
    farthest: dict[str, tuple[str, neighbours.Move]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(_searched, range(len(neighbours.pooling())), itertools.repeat(pairs)))
    for case, moves in zip(neighbours.pooling(), found, strict=True):
        for name, move in moves.items():
            stem = re.sub(r", (step|round) [0-9]+$", "", name)
            if stem not in farthest or move.share > farthest[stem][1].share:
                farthest[stem] = f"{case.name}: {stem}", move
    for told, move in farthest.values():
        if move.moved.any() and not any(word in told for word in _WRITTEN):  # with so few patients some say nothing
            yield told, _at(_SHARE.rho, move.event), move.moved


def _at(share: Fraction, event: events.Event) -> events.Event:
    """The same release at another share: what an attacker can show with so many draws."""
    symmetric = event.mechanism == events.SYMMETRIC_GAUSSIAN
    scale = events.symmetric_gaussian_scale if symmetric else events.gaussian_scale
    return replace(event, scale=scale(event.sensitivity, share))


def attack(name: str, event: events.Event, moved: IntArray, draws: int, *, halved: bool = False) -> dict[str, Any]:
    change, scale = _change(moved, event)
    if halved:
        scale = scale / (2.0 if event.mechanism == events.LAPLACE else 4.0)
    own, other = (_ratios(change, scale, event, draws, away) for away in (False, True))
    found = [
        {"delta": float(delta), "found": round(_bound(own, other, float(delta)), 4), "claimed": round(claimed, 4)}
        for delta, claimed in _claims(event)
    ]
    return {
        "name": name,
        "halved": halved,
        "broken": any(f["found"] > f["claimed"] for f in found),
        "bounds": found,
    }


def _change(moved: IntArray, event: events.Event) -> tuple[FloatArray, FloatArray]:
    """The coordinates that differ, with the scale of their noise; of a symmetric matrix, each pair once."""
    scale = np.full(moved.shape, float(event.grid_scale))
    if event.mechanism == events.SYMMETRIC_GAUSSIAN:
        upper = np.triu(np.ones(moved.shape[-2:], dtype=bool))
        scale = scale * (1 + np.eye(moved.shape[-1]))
        moved = np.where(upper, moved, 0)
    return moved[moved != 0].astype(np.float64), scale[moved != 0]


def _ratios(change: FloatArray, scale: FloatArray, event: events.Event, draws: int, moved: bool) -> FloatArray:
    """log P[D] − log P[D′] of `draws` releases, of D or (moved) of D′, where D′ is D moved by −change."""
    total = np.zeros(draws)
    draw = noise.laplace if event.mechanism == events.LAPLACE else noise.gaussian
    for step, width in zip(change, scale, strict=True):
        seen = draw(Fraction(width), draws) - (step if moved else 0.0)
        if event.mechanism == events.LAPLACE:
            total += (np.abs(seen + step) - np.abs(seen)) / width
        else:
            total += ((seen + step) ** 2 - seen**2) / (2 * width)
    return total


def _claims(event: events.Event) -> list[tuple[Fraction, float]]:
    pure = events.pure_epsilon(event)
    if pure is not None:
        return [(Fraction(0), float(pure))]
    return [(delta, rho.epsilon(events.cost(event), delta)) for delta in _DELTAS]


def _bound(own: FloatArray, moved: FloatArray, delta: float) -> float:
    """The largest ε that the attacker has shown, with 95 % confidence."""
    half = len(own) // 2
    candidates = np.quantile(own[:half], np.linspace(0.001, 0.999, 400))
    hits, alarms = ((r[:half, None] > candidates).mean(axis=0) for r in (own, moved))
    gain = np.log(np.maximum(hits - delta, 1e-12) / np.maximum(alarms, 10 / half))
    threshold = candidates[gain.argmax()]
    hit = _interval(int((own[half:] > threshold).sum()), half)[0]
    alarm = _interval(int((moved[half:] > threshold).sum()), half)[1]
    return math.log((hit - delta) / alarm) if hit > delta else 0.0


def _interval(successes: int, trials: int) -> tuple[float, float]:
    low = float(beta.ppf(0.025, successes, trials - successes + 1)) if successes else 0.0
    return low, float(beta.ppf(0.975, successes + 1, trials - successes)) if successes < trials else 1.0


def run(draws: int, pairs: int, output: Path | None) -> bool:
    moves = [*written(), *searched(pairs)]
    rows = [attack(*move, draws, halved=halved) for move in moves for halved in (False, True)]
    passed = all(row["broken"] == row["halved"] for row in rows)
    if output is not None:
        summary = {"draws": draws, "passed": passed, "statistics": rows}
        output.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for row in rows:
        best = max(row["bounds"], key=lambda bound: bound["found"] - bound["claimed"])
        kind = "control" if row["halved"] else "release"
        print(f"{'ok ' if row['broken'] == row['halved'] else 'BAD'} {kind} {row['name']}: {best}", flush=True)
    return passed
