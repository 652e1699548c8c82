"""What one patient can cost a whole training: every learner is run, and every question it asks is answered twice.

A training is run on one dataset; each statistic, with everything in it that was released before, is also summed over a
neighbour in which one patient was replaced. Along the transcript Σ ‖Δ‖²/2σ² must never exceed the ρ that was claimed
(for pure noise: Σ ‖Δ‖₁/b the ε). Noise reaches everywhere, so a transcript that one dataset made could have been any
other's: it is held against some patients on either side, and each of one side with each of the other is a pair. Pairs
are random, built to hurt, or the worst so far, changed a little.
"""

import json
import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.evidence import asked, patients
from benchmarks.evidence.asked import Asked
from benchmarks.evidence.patients import Patient
from discretion.learning import (
    apvi,
    apvi_stationary,
    evaluators,
    fqe,
    learners,
    pae,
    policy,
    pooled_values,
    sums,
    vapvi,
    vapvi_stationary,
)
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Curator, Pure, Query, Share
from discretion.learning.learners import Parameters
from discretion.learning.rewards import Known
from discretion.learning.schemas import Discrete, FloatArray, IntArray, Schema, Vector
from discretion.learning.trajectories import Trajectories
from discretion.privacy import events

SUMMARY = Path(__file__).with_suffix(".json")
_OTHERS: Final = 3  # patients who stay
_SIDE: Final = 10  # patients on either side, each with each a pair that one transcript is held against
_SLACK: Final = 1 + 1e-12  # of floating point, here only


@dataclass(frozen=True, eq=False)
class Move:
    """How far a pair moved one statistic, as a share of what is claimed for it."""

    share: float
    event: events.Event
    moved: IntArray
    pair: tuple[int, int]  # which of either side


class Watched(Curator):
    """Answers from the first dataset of one side, and notes for each pair how far it would have moved each answer."""

    def __init__(self, ones: Sequence[Trajectories], others: Sequence[Trajectories], allowance: Fraction) -> None:
        super().__init__(ones[0], allowance)
        self._ones, self._others = ones, others
        self.concentrated, self.pure = (np.zeros((len(ones), len(others))) for _ in range(2))
        self.moves: dict[str, Move] = {}  # by statistic: the farthest

    def _totals(self, queries: Sequence[Query]) -> list[IntArray]:
        answered = super()._totals(queries)
        ones = [answered, *(self._summed(queries, each) for each in self._ones[1:])]
        others = [self._summed(queries, each) for each in self._others]
        for query, mine, theirs in zip(queries, zip(*ones, strict=True), zip(*others, strict=True), strict=True):
            self._note(self.price(query), mine, theirs)
        return answered

    @staticmethod
    def _summed(queries: Sequence[Query], data: Trajectories) -> list[IntArray]:
        with np.errstate(all="ignore"):
            return sums.totals([query.statistic for query in queries], data)

    def _note(self, event: events.Event, ones: Sequence[IntArray], others: Sequence[IntArray]) -> None:
        spent = np.array([[_spent(event, one - other) for other in others] for one in ones])
        if event.mechanism == events.LAPLACE:
            self.pure += spent
            claimed = events.pure_epsilon(event)
        else:
            self.concentrated += spent
            claimed = events.cost(event)
        first, second = _farthest(spent)
        share = float(spent[first, second]) / float(claimed or 1)
        if event.statistic not in self.moves or share > self.moves[event.statistic].share:
            moved = ones[first] - others[second]
            self.moves[event.statistic] = Move(share, event, moved, (first, second))


def _spent(event: events.Event, moved: IntArray) -> float:
    change, scale = moved.astype(np.float64).ravel(), float(event.grid_scale)
    if event.mechanism == events.LAPLACE:
        return float(np.abs(change).sum()) / scale
    divisor = 4 if event.mechanism == events.SYMMETRIC_GAUSSIAN else 2
    return float(change @ change) / (divisor * scale)


def _farthest(shares: FloatArray) -> tuple[int, int]:
    first, second = np.unravel_index(shares.argmax(), shares.shape)
    return int(first), int(second)


@dataclass(frozen=True)
class Case:
    name: str
    schema: Schema
    privacy: Share
    parameters: Parameters
    units: int = _OTHERS + 1  # more than are there have nothing recorded, but learners spend as for so many
    telling: int = 0  # more patients who stay, whose rewards tell which action is better
    first: bool = False  # whether the one who is replaced is in the first half

    def asked(self) -> dict[str, Asked]:
        return asked.of(self.schema, self.units, self.privacy, self.parameters)


def costs(
    case: Case, rest: Sequence[Patient], ones: Sequence[Patient], others: Sequence[Patient]
) -> tuple[FloatArray, dict[str, Move]]:
    """The share of the claim that replacing each of `ones` by each of the others uses up, along one transcript."""

    def dataset(who: Patient) -> Trajectories:
        return patients.dataset(case.schema, [who, *rest] if case.first else [*rest, who], case.units)

    whole = case.privacy.epsilon**2 / 2 if isinstance(case.privacy, Pure) else case.privacy.rho
    curator = Watched([dataset(one) for one in ones], [dataset(other) for other in others], Fraction(whole))
    with np.errstate(all="ignore"):
        if isinstance(case.parameters, fqe.Parameters):
            evaluators.evaluate(curator, case.privacy, case.parameters, _judged(case.schema))
        else:
            learners.learn(curator, case.privacy, case.parameters)
    if isinstance(case.privacy, Pure):
        return curator.pure / float(case.privacy.epsilon), curator.moves
    return curator.concentrated / float(case.privacy.rho), curator.moves


def _judged(schema: Schema) -> policy.Policy:
    """Some policy that depends on the step, or on which half of the horizon that is in."""
    if isinstance(schema.states, Vector):
        return _judged_plane(schema, schema.states)
    shape = (schema.horizon, schema.count)
    decisions = np.add.outer(np.arange(schema.horizon), np.arange(schema.count)) % schema.actions
    return policy.of_table("any", schema, decisions, np.ones(shape, dtype=bool), np.zeros(shape))


def _judged_plane(schema: Schema, vector: Vector) -> policy.Policy:
    """By the first column, one way and then the other."""
    features = maps.Blocks(vector, schema.actions, ("1", *vector.columns))
    shape = (schema.actions, features.width)
    first = np.zeros(shape)
    first[0, 1] = 1.0
    groups = tuple(
        pooled_values.Score(0.0, 0.0, True, weights, np.zeros(shape), np.full(schema.actions, 1 / schema.actions))
        for weights in (first, -first)
    )
    rule = policy.Pooled(features, groups, schema.horizon, schema.width)
    return policy.Policy("any", schema.horizon, vector, schema.actions, rule)


def worst(case: Case, pairs: int) -> tuple[float, dict[str, Move]]:
    """The largest share over that many pairs, and the farthest move of each statistic. A third of the pairs is random,
    a third climbs from the worst pair so far, and a third from the worst of some statistic."""
    draw = np.random.default_rng([4, zlib.crc32(case.name.encode())])
    rest = [patients.patient(case.schema, draw) for _ in range(_OTHERS)]
    rest += [patients.telling(case.schema, draw) for _ in range(case.telling)]
    farthest: dict[str, Move] = {}
    best, pairs_of = -1.0, {"": (patients.patient(case.schema, draw), patients.patient(case.schema, draw))}
    for number in range(max(1, pairs // _SIDE**2)):
        chosen = pairs_of[draw.choice(list(pairs_of)) if number % 3 == 1 else ""]
        ones, others = (_side(case.schema, draw, None if number % 3 == 0 else who) for who in chosen)
        shares, moves = costs(case, rest, ones, others)
        for name, move in moves.items():
            if move.share > _share(farthest, name):
                farthest[name], pairs_of[name] = move, (ones[move.pair[0]], others[move.pair[1]])
        if shares.max() > best:
            first, second = _farthest(shares)
            best, pairs_of[""] = float(shares.max()), (ones[first], others[second])
    return best, farthest


def _side(schema: Schema, draw: np.random.Generator, like: Patient | None) -> list[Patient]:
    """Anybody, or mostly those who are somewhat like one."""
    return [
        patients.patient(schema, draw) if like is None or index % 4 == 3 else patients.changed(like, schema, draw)
        for index in range(_SIDE)
    ]


def _share(moves: dict[str, Move], name: str) -> float:
    return moves[name].share if name in moves else -1.0


_RHO: Final = Concentrated(Fraction(1))
_PLENTY: Final = Concentrated(Fraction(100))  # little noise, so that a learner gets past its thresholds
_PURE, _PURE_PLENTY = Pure(Fraction(1)), Pure(Fraction(100))
_LINE: Final = Vector(("x", "y"), ((-1.0, 1.0), (0.0, 10.0)))
_GAPPY: Final = replace(_LINE, missing=("y",))
_MANY: Final = 100  # units, enough for DP-VAPVI to learn from at ρ = 1
_USUAL: Final = maps.usual(_LINE, 2, _MANY, _RHO.rho)  # made orthogonal
_PLACES: Final = Schema(4, Discrete(3), 2, (-1.0, 2.0), per_unit=2)
_BOUNDED: Final = Schema(4, Discrete(3), 2, (0.0, 1.0), total=(0.0, 1.0))
_ONE_SIGN: Final = Schema(4, Discrete(3), 2, (0.0, 1.0), per_unit=2)  # its sums by first visits are centred
_PLANE: Final = Schema(4, _LINE, 2, (0.0, 1.0), per_unit=2)
_PLACES_ONCE, _PLANE_ONCE = (replace(schema, outcome=True) for schema in (_PLACES, _PLANE))
_TABLE: Final = maps.Table(np.array([[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.5, 0.5]], [[-1.0, 0.0], [0.0, -0.7]]]))
_KNOWN: Final = Known(np.array([[-1.0, 2.0], [0.5, -0.5], [2.0, 0.0]]))
_ARRIVING: Final = Known(np.array([2.0, -1.0, 0.5, 1.0]))


def cases() -> list[Case]:
    """Every learner, with its modes."""
    return [*_counting(), *_regressing(), *_regressing_apart(), *_pooling_otherwise(), *pooling()]


def _counting() -> list[Case]:
    each = Known(np.stack([_KNOWN.table * part for part in (1.0, 0.5, -0.5, 0.0)]))
    return [
        Case("DP-APVI, per step", _PLACES, _PLENTY, apvi.Parameters()),
        Case("DP-APVI, per step, Laplace", _PLACES, _PURE, apvi.Parameters()),
        Case("DP-APVI, per step, Laplace, large ε", _PLACES, _PURE_PLENTY, apvi.Parameters()),
        Case("DP-APVI, per step, paper", _PLACES, _PLENTY, apvi.Parameters(calibration="paper")),
        Case("DP-APVI, per step, known rewards", _PLACES, _PLENTY, apvi.Parameters(reward=each)),
        Case("DP-APVI, first visits, Laplace", _PLACES, _PURE, apvi_stationary.Parameters()),
        Case("DP-APVI, first visits", _PLACES, _PLENTY, apvi_stationary.Parameters()),
        Case("DP-APVI, first visits, rewards of one sign", _ONE_SIGN, _PLENTY, apvi_stationary.Parameters()),
        Case("DP-APVI, first visits, one sign, Laplace", _ONE_SIGN, _PURE_PLENTY, apvi_stationary.Parameters()),
        Case("DP-APVI, first visits, by action", _PLACES, _PLENTY, apvi_stationary.Parameters(reward_on="action")),
        Case("DP-APVI, first visits, by arrival", _PLACES, _PLENTY, apvi_stationary.Parameters(reward_on="arrival")),
        Case("DP-APVI, first visits, known rewards", _PLACES, _PLENTY, apvi_stationary.Parameters(reward=_ARRIVING)),
        Case("DP-PAE, what is usually done", _PLACES, Concentrated(Fraction(1, 1000)), pae.Parameters()),
        Case("DP-PAE, little budget", _PLACES, Concentrated(Fraction(1, 100)), pae.Parameters()),
        Case("DP-PAE, known rewards", _PLACES, _PLENTY, pae.Parameters(reward=_KNOWN)),
        Case("DP-PAE, known rewards on arrival", _PLACES, _PLENTY, pae.Parameters(reward=_ARRIVING)),
    ]


def _regressing() -> list[Case]:
    blocks, bins = maps.Blocks(_LINE, 2, ("1", "x", "y")), maps.Bins.of(_LINE, 2, {"x": [0.0]})
    return [
        Case("DP-VAPVI, table, paper", _PLACES, _RHO, vapvi.Parameters(_TABLE, calibration="paper")),
        Case("DP-VAPVI, table, variance", _PLACES, _RHO, vapvi.Parameters(_TABLE, variance="estimated")),
        Case("DP-VAPVI, bins, tight", _PLANE, _RHO, vapvi.Parameters(bins)),
        Case("DP-VAPVI, bins, variance", _PLANE, _RHO, vapvi.Parameters(bins, variance="estimated")),
        Case("DP-VAPVI, bins, paper", _PLANE, _RHO, vapvi.Parameters(bins, calibration="paper")),
        Case("DP-VAPVI, blocks, tight", _PLANE, _RHO, vapvi.Parameters(blocks)),
        Case("DP-VAPVI, blocks, variance", _PLANE, _RHO, vapvi.Parameters(blocks, variance="estimated")),
        Case("DP-VAPVI, blocks, paper", _PLANE, _RHO, vapvi.Parameters(blocks, calibration="paper")),
    ]


def _regressing_apart() -> list[Case]:
    """With rewards that are known, and with variances that are estimated from one half for the other."""
    printed = vapvi.Parameters(_TABLE, calibration="paper", split=True)
    tight = vapvi.Parameters(_TABLE, variance="estimated", split=True)
    known = replace(printed, split=False, reward=_KNOWN)
    return [
        Case("DP-VAPVI, table, paper, split", _PLACES, _RHO, printed),
        Case("DP-VAPVI, table, paper, split, first half", _PLACES, _RHO, printed, first=True),
        Case("DP-VAPVI, table, tight, split", _PLACES, _RHO, tight),
        Case("DP-VAPVI, table, tight, split, first half", _PLACES, _RHO, tight, first=True),
        Case("DP-VAPVI, table, paper, known rewards", _PLACES, _RHO, known),
        Case("DP-VAPVI, table, tight, known rewards", _PLACES, _RHO, vapvi.Parameters(_TABLE, reward=_KNOWN)),
        Case("DP-VAPVI, table, tight, known on arrival", _PLACES, _RHO, vapvi.Parameters(_TABLE, reward=_ARRIVING)),
    ]


def _pooling_otherwise() -> list[Case]:
    """As many patients as it takes to learn anything, but where it says that they are too few."""
    whitened, gappy = vapvi_stationary.Parameters(_USUAL), maps.usual(_GAPPY, 2, _MANY, _RHO.rho)
    columns, groups = (
        replace(whitened, features=maps.Blocks(_LINE, 2, ("1", "x", "y"))),
        replace(whitened, time_groups=2),
    )
    near, gaps = replace(whitened, parts=8), replace(_PLANE, states=_GAPPY)
    return [
        Case("DP-VAPVI, pooled, too few patients", _PLANE, _RHO, whitened),
        Case("DP-VAPVI, pooled, columns", _PLANE, _RHO, columns, units=_MANY),
        Case("DP-VAPVI, pooled, two groups", _PLANE, _RHO, groups, units=_MANY),
        Case("DP-VAPVI, pooled, where patients are", _PLANE, _PLENTY, near, units=20, telling=10),
        Case("DP-VAPVI, pooled, outcomes, two groups", _PLANE_ONCE, _RHO, groups, units=_MANY),
        Case("DP-VAPVI, pooled, missing values", gaps, _RHO, vapvi_stationary.Parameters(gappy), units=_MANY),
        Case("DP-FQE, vector states, missing values", gaps, _RHO, fqe.Parameters(features=gappy, time_groups=2)),
    ]


def pooling() -> list[Case]:
    """The learners whose statistics are of whole patients, and so have no worst neighbours that are easily written."""
    return [
        Case("DP-VAPVI, table, tight", _PLACES, _RHO, vapvi.Parameters(_TABLE)),
        Case("DP-VAPVI, pooled", _PLANE, _RHO, vapvi_stationary.Parameters(_USUAL), units=_MANY),
        Case("DP-APVI, first visits, bounded return", _BOUNDED, _PLENTY, apvi_stationary.Parameters()),
        Case("DP-PAE", _PLACES, _PLENTY, pae.Parameters()),
        Case("DP-PAE, bounded return", _BOUNDED, _PLENTY, pae.Parameters()),
        Case("DP-PAE, many patients", _PLACES, _PLENTY, pae.Parameters(), units=100, telling=40),
        Case("DP-FQE, by rounds", _PLACES, _RHO, fqe.Parameters(way="rounds")),
        Case("DP-FQE, by a table", _PLACES, _PLENTY, fqe.Parameters(way="table"), units=100),
        Case("DP-FQE, vector states", _PLANE, _RHO, fqe.Parameters(features=_USUAL, time_groups=2)),
        Case("DP-FQE, vector states, columns", _PLANE, _PLENTY, fqe.Parameters(time_groups=2)),
        Case("DP-FQE, outcomes, by rounds", _PLACES_ONCE, _RHO, fqe.Parameters(way="rounds")),
        Case("DP-FQE, outcomes, by a table", _PLACES_ONCE, _PLENTY, fqe.Parameters(way="table"), units=100),
        Case("DP-FQE, outcomes, vector states", _PLANE_ONCE, _RHO, fqe.Parameters(features=_USUAL, time_groups=2)),
        Case("DP-VAPVI, pooled, outcomes", _PLANE_ONCE, _RHO, vapvi_stationary.Parameters(_USUAL), units=_MANY),
    ]


def _one(case: Case, pairs: int) -> dict[str, Any]:
    share, moves = worst(case, pairs)
    row: dict[str, Any] = {"learner": case.name, "pairs": pairs, "worst_share_of_claim": round(share, 6)}
    return row | {"worst_share_of_each": {name: round(move.share, 4) for name, move in moves.items()}}


def stored() -> dict[str, dict[str, Any]]:
    return {row["learner"]: row for row in json.loads(SUMMARY.read_text(encoding="utf-8"))}


def run(pairs: int, output: Path | None, *, missing: bool = False) -> bool:
    """All cases, or only those that no row is stored of; as many at once as there are processors. Each row is written
    when it is found."""
    rows = stored() if missing else {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = [pool.submit(_one, case, pairs) for case in cases() if case.name not in rows]
        for found in as_completed(waiting):
            row = found.result()
            rows[row["learner"]], share = row, row["worst_share_of_claim"]
            held = "ok " if share <= _SLACK else "BAD"
            print(f"{held} {row['learner']}: at most {share:.4f} of the claim", flush=True)
            if output is not None:
                kept = [rows[case.name] for case in cases() if case.name in rows]
                output.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return all(rows[case.name]["worst_share_of_claim"] <= _SLACK for case in cases())
