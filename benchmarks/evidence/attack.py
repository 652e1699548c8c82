"""An attacker who knows everything but one patient, against each released statistic and its own share of the budget.

The attacker sees one noisy release and must tell two worst-case neighbours apart, by the likelihood ratio, which no
test beats. Half of the draws choose the threshold, the other half bound its error rates (Clopper–Pearson, 95 %). From
P[D] ≤ e^ε·P[D′] + δ follows a lower bound on ε, which must stay below the ε that the statistic's ρ claims at that δ
(for pure releases: its own ε at δ = 0). The same attack on noise made for half the sensitivity must break through, or
it would prove nothing.

Where the worst neighbours are known they are written down; for the statistics of the learners that pool whole patients
they are those that the search of `neighbours` found. A statistic that some plan asks for (`asked`) and nobody attacks
is a failure too.
"""

import itertools
import json
import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from benchmarks.evidence import asked, neighbours
from benchmarks.evidence.asked import Asked
from discretion.learning import followed, sums, transits, whereabouts
from discretion.learning.counts import ArrivalCounts, ArrivalSums, PaidSums, RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Concentrated, Pure, Query, Share, event_of
from discretion.learning.features import Bins, Blocks, FeatureMap, Table
from discretion.learning.joint import Joint
from discretion.learning.regressions import Deviation, Gram, Moment, Value
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from discretion.learning.values import LinearDeviation, LinearValue, TableDeviation, TableValue, linear_score
from discretion.privacy import events, noise, rho

SUMMARY = Path(__file__).with_suffix(".json")
_DELTAS = (Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
_HORIZON = 4
_SHARE = Concentrated(Fraction(1, 2))
_BOUND = 5  # of the targets that are attacked
_FAR = 100.0  # a value that is cut to it


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    query: Query
    one: Trajectories
    other: Trajectories


@dataclass(frozen=True, eq=False)
class Moved:
    """A release, and what two neighbours differ by in it."""

    name: str
    asked: Asked
    event: events.Event
    change: IntArray


def cases() -> Iterator[Case]:
    yield from _counts(_SHARE, "")
    yield from _counts(Pure(Fraction(1)), ", Laplace")
    yield from _tables()
    yield from _bins()
    yield from _blocks()
    yield _rare()


def _counts(share: Share, noise: str) -> Iterator[Case]:
    """Two patients who are never in the same place, or always, and earn nothing or everything."""
    schema = Schema(_HORIZON, Discrete(2 * _HORIZON), 2)
    bounded = replace(schema, total=(0.0, 1.0))
    here, there = _stay(schema, 0, 1.0), _stay(schema, 1, 1.0)
    tours = _tour(schema, 0, 0.0), _tour(schema, _HORIZON, 0.0)
    paid = _tour(bounded, 0, 1.0), _tour(bounded, _HORIZON, 1.0)
    yield Case(f"visits{noise}", Query(VisitCounts(schema), share), here, there)
    yield Case(f"transitions{noise}", Query(TransitionCounts(schema), share), here, there)
    yield Case(f"centred rewards{noise}", Query(RewardSums(schema), share), _stay(schema, 0, 0.0), here)
    yield Case(f"first visits{noise}", Query(VisitCounts(schema, "stationary"), share), *tours)
    yield Case(f"first transitions{noise}", Query(TransitionCounts(schema, "stationary"), share), *tours)
    yield Case(f"first arrivals{noise}", Query(ArrivalCounts(schema), share), *tours)
    centred = RewardSums(schema, "stationary")
    yield Case(f"centred rewards, first visits{noise}", Query(centred, share), tours[0], _tour(schema, 0, 1.0))
    yield Case(f"rewards, first visits{noise}", Query(PaidSums(bounded), share), *paid)
    yield Case(f"rewards, first arrivals{noise}", Query(ArrivalSums(bounded), share), *paid)


def _tables() -> Iterator[Case]:
    """Features at a right angle move a Gram matrix most, opposite ones a moment, and both together those at 120°."""
    schema = Schema(_HORIZON, Discrete(4), 2)
    angles = np.array([0.0, np.pi / 2, np.pi, 2 * np.pi / 3])
    features = Table(np.repeat(np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None], 2, axis=1))
    here, aside, opposite, between = (_stay(schema, state, 1.0) for state in range(4))
    value, deviation = TableValue(np.full(5, _FAR)), TableDeviation(np.ones((4, 2)))
    common = (schema, features, 0)
    for gram in (Gram(*common), Gram(*common, deviation=deviation, label="weighted Gram matrix")):
        yield Case(f"{gram.label}, table", Query(gram, _SHARE), here, aside)
    for moment in _moments(*common, value=value, deviation=deviation, known=True):
        yield Case(f"features times {moment.label}, table", Query(moment, _SHARE), here, opposite)
    for label in ("next value, scaled", "reward plus next value, scaled"):
        joint = Joint(*common, label=label, share=0.0 if label.startswith("next") else 1.0, value=value)
        yield Case(f"features times themselves and times {label}, table", Query(joint, _SHARE), here, between)


def _bins() -> Iterator[Case]:
    """Two bins move a Gram matrix most; opposite values of the next state, where there are, a moment of one bin."""
    line = Vector(("x",), ((-1.0, 1.0),))
    schema, features = Schema(_HORIZON, line, 2), Bins.of(line, 2, {"x": [0.0]})
    low, high = _stay(schema, -1.0, 1.0), _stay(schema, 1.0, 1.0)
    leaving = _path(schema, np.array([-1.0, *[1.0] * (_HORIZON - 1)]), 1.0)
    value, deviation = TableValue(np.array([_FAR, -_FAR, 0.0])), TableDeviation(np.ones((2, 2)))
    common = (schema, features, 0)
    for gram in (Gram(*common), Gram(*common, deviation=deviation, label="weighted Gram matrix")):
        yield Case(f"{gram.label}, bins", Query(gram, _SHARE), low, high)
    for moment in _moments(*common, value=value, deviation=deviation):
        apart = high if moment.squared else leaving
        yield Case(f"features times {moment.label}, bins", Query(moment, _SHARE), low, apart)
    joint = Joint(*common, label="reward plus next value, scaled", share=1.0, value=value)
    yield Case(f"features times themselves and times {joint.label}, bins", Query(joint, _SHARE), low, leaving)


def _blocks() -> Iterator[Case]:
    """Two actions move a Gram matrix most, opposite features a moment."""
    line = Vector(("x",), ((-1.0, 1.0),))
    schema, features = Schema(_HORIZON, line, 2), Blocks(line, 2, ("x",))
    low, high = _stay(schema, -1.0, 1.0), _stay(schema, 1.0, 1.0)
    otherwise = _stay(schema, 1.0, 1.0, action=1)
    either = np.array([[_FAR], [-_FAR]])  # the better action is worth as much at both ends
    value = LinearValue(linear_score(either, np.zeros((2, 1, 1)), 0.0, 0.0, _FAR), _FAR)
    deviation = LinearDeviation(np.ones((2, 1)), np.zeros((2, 1)), 1.0)
    common = (schema, features, 0)
    for gram in (Gram(*common), Gram(*common, deviation=deviation, label="weighted Gram matrix")):
        yield Case(f"{gram.label}, blocks", Query(gram, _SHARE), high, otherwise)
    for moment in _moments(*common, value=value, deviation=deviation):
        yield Case(f"features times {moment.label}, blocks", Query(moment, _SHARE), low, high)
    judged = transits.Judged(schema, features, limit=float(_HORIZON))
    yield Case("features of each action", Query(transits.Actions(judged), _SHARE), low, high)
    shares = whereabouts.Whereabouts(schema, 8)
    yield Case(shares.name, Query(shares, _SHARE), low, high)


def _moments(
    schema: Schema, features: FeatureMap, step: int, *, value: Value, deviation: Deviation, known: bool = False
) -> Iterator[Moment]:
    """What is regressed on the features: to estimate variances, and then weighted by them."""
    estimated = partial(Moment, schema, features, step, value=value)
    yield estimated(bound=_BOUND, label="next value")
    yield estimated(bound=_BOUND**2, label="squared next value", squared=True)
    yield estimated(bound=_BOUND, label="reward plus next value, weighted", deviation=deviation, reward=True)
    if known:
        yield estimated(bound=_BOUND, label="next value, weighted", deviation=deviation)


def _rare() -> Case:
    """A patient who is only in states that are pooled, and one of whom nothing was recorded."""
    schema = Schema(_HORIZON, Discrete(_HORIZON), 2)
    nowhere = np.zeros((_HORIZON, _HORIZON), dtype=np.int64)
    judged = followed.Judged(schema, nowhere, limits=followed.Limits(1, _HORIZON), place=np.full(_HORIZON, _HORIZON))
    path = np.arange(_HORIZON)[:, None]
    block = block_of(path, np.zeros_like(path), np.zeros((_HORIZON, 1)), final=path[0])
    one, other = (Trajectories(schema, 1, [replace(block, lengths=np.array([steps]))]) for steps in (_HORIZON, 0))
    return Case("steps that stand for a policy", Query(followed.Standing(judged), _SHARE), one, other)


def _path(schema: Schema, places: FloatArray, reward: float, action: int = 0) -> Trajectories:  # (H,)
    """One patient, who in the end is where it began."""
    discrete = isinstance(schema.states, Discrete)
    states = places.astype(np.int64)[:, None] if discrete else places[:, None, None]
    actions, rewards = np.full((_HORIZON, 1), action), np.full((_HORIZON, 1), reward)
    return Trajectories(schema, 1, [block_of(states, actions, rewards, final=states[0])])


def _stay(schema: Schema, place: float, reward: float, action: int = 0) -> Trajectories:
    """One who is always in one place."""
    return _path(schema, np.full(_HORIZON, float(place)), reward, action)


def _tour(schema: Schema, start: int, reward: float) -> Trajectories:
    """One who is in another place at every step."""
    return _path(schema, start + np.arange(float(_HORIZON)), reward)


def written() -> Iterator[Moved]:
    for case in cases():
        (one,), (other,) = (sums.totals([case.query.statistic], data) for data in (case.one, case.other))
        event, statistic = event_of(case.query, 1), case.query.statistic
        features = getattr(getattr(statistic, "judged", statistic), "features", None)
        yield Moved(case.name, asked.named(event, features), event, one - other)


def _searched(case: neighbours.Case, pairs: int) -> list[tuple[float, Moved]]:
    names, found = case.asked(), []
    for name, move in neighbours.worst(case, pairs)[1].items():
        event = _at(_SHARE.rho, move.event)
        moved = Moved(f"{case.name}: {names[name].statistic}", names[name], event, move.moved)
        found.append((move.share, moved))
    return found


def searched(pairs: int, known: set[Asked]) -> Iterator[Moved]:
    """Each other statistic of the pooling learners, moved as far as the search could; all processors search."""
    asking = [case for case in neighbours.pooling() if not known.issuperset(case.asked().values())]
    farthest: dict[Asked, tuple[float, Moved]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for share, moved in itertools.chain(*pool.map(_searched, asking, itertools.repeat(pairs))):
            if share > farthest.get(moved.asked, (0.0,))[0]:
                farthest[moved.asked] = share, moved
    yield from (moved for what, (_, moved) in farthest.items() if what not in known)


def _at(share: Fraction, event: events.Event) -> events.Event:
    """The same release at another share: what an attacker can show with so many draws."""
    symmetric = event.mechanism == events.SYMMETRIC_GAUSSIAN
    scale = events.symmetric_gaussian_scale if symmetric else events.gaussian_scale
    return replace(event, scale=scale(event.sensitivity, share))


def attack(moved: Moved, draws: int, *, halved: bool = False) -> dict[str, Any]:
    event = moved.event
    change, scale = _change(moved.change, event)
    if halved:
        scale = scale / (2.0 if event.mechanism == events.LAPLACE else 4.0)
    own, other = (_ratios(change, scale, event, draws, away) for away in (False, True))
    found = [
        {"delta": float(delta), "found": round(_bound(own, other, float(delta)), 4), "claimed": round(claimed, 4)}
        for delta, claimed in _claims(event)
    ]
    return {
        "name": moved.name,
        "asked": moved.asked._asdict(),
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
    hits, alarms = (1 - np.searchsorted(np.sort(r[:half]), candidates, side="right") / half for r in (own, moved))
    gain = np.log(np.maximum(hits - delta, 1e-12) / np.maximum(alarms, 10 / half))
    threshold = candidates[gain.argmax()]
    hit = _interval(int((own[half:] > threshold).sum()), half)[0]
    alarm = _interval(int((moved[half:] > threshold).sum()), half)[1]
    return math.log((hit - delta) / alarm) if hit > delta else 0.0


def _interval(successes: int, trials: int) -> tuple[float, float]:
    low = float(beta.ppf(0.025, successes, trials - successes + 1)) if successes else 0.0
    return low, float(beta.ppf(0.975, successes + 1, trials - successes)) if successes < trials else 1.0


def unattacked(rows: list[dict[str, Any]]) -> set[Asked]:
    """What some learner or evaluator can ask for and no row is of."""
    return asked.everything() - {Asked(**row["asked"]) for row in rows}


def stored() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(SUMMARY.read_text(encoding="utf-8"))["statistics"]
    return rows


def run(draws: int, pairs: int, output: Path | None, *, missing: bool = False) -> bool:
    """All statistics, or only those that no row is stored of."""
    rows = stored() if missing else []
    known = {Asked(**row["asked"]) for row in rows}
    moves = [moved for moved in written() if moved.asked not in known]
    moves += searched(pairs, known | {moved.asked for moved in moves})
    for moved, halved in itertools.product(moves, (False, True)):
        rows.append(attack(moved, draws, halved=halved))
        _tell(rows[-1])
    forgotten = unattacked(rows)
    for what in sorted(forgotten):
        print(f"BAD never attacked: {', '.join(filter(None, what))}", flush=True)
    passed = not forgotten and all(row["broken"] == row["halved"] for row in rows)
    if output is not None:
        summary = {"draws": draws, "passed": passed, "statistics": rows}
        output.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return passed


def _tell(row: dict[str, Any]) -> None:
    best = max(row["bounds"], key=lambda bound: float(bound["found"] - bound["claimed"]))
    kind = "control" if row["halved"] else "release"
    print(f"{'ok ' if row['broken'] == row['halved'] else 'BAD'} {kind} {row['name']}: {best}", flush=True)
