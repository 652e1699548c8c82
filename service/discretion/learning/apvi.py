"""DP-APVI: Algorithm 1 of Qiao & Wang, *Offline Reinforcement Learning with Differential Privacy*.

Adaptive pessimistic value iteration on noisy visit counts of a tabular MDP, with a kernel for each step.

| paper            | here                                                                                       |
|------------------|--------------------------------------------------------------------------------------------|
| n′_sa, n′_sas′   | `Release.visits`, `Release.transitions`: noised counts, the latter for the drawn rows only  |
| E_ρ              | `noise_bound`: twice what no noise exceeds with probability 1 − δ                           |
| ñ                | `consistent`: the count programme, eq. (final_choice)                                       |
| P̃                | `_Kernel`: ñ_sas′/ñ_sa for the trusted rows                                                 |
| C₁, C₂, C, δ, ι  | `Parameters.c1`, `.c2`, `.c`, `.delta`; ι = log(HSA/δ)                                      |
| Γ, Q̄, Ṽ          | penalty, clipped pessimistic score, its maximum                                             |

**Guarantee.** The counts are ρ-zCDP (Gaussian) or ε-DP (Laplace) for replacing one patient; all else is computed from
them.

`calibration="paper"` fixes C₁ = √2, C₂ = 16 and the same ρ for every table, as printed; E and the count programme are
the paper's in either calibration.

**Differs from the paper in:**
* The end of a trajectory is one more successor (column S) whose value is known, so S + 1 stands where S counts
  successors: E = 2√2·σ·√log(4HS(S+1)A/δ), and C₂(S+1)HE·ι/ñ.
* Noise is discrete, on integers; for Laplace noise of scale b, E = 2b·log(4HS(S+1)A/δ).
* Rewards may be any bounded range; they are scaled to [0, 1], and scores are given in the original unit. They may be a
  public table over (s, a), (h, s, a) or the next state, or unknown: then noisy sums of centred rewards get a share of
  their own, and the penalty grows by C₁/2·√(ι/(ñ−E)) + (E_r + E)/2ñ.
* Lazy noise: a row with n′_sa ≤ E/2 has ñ_sa ≤ E whatever its successors are, so these are never drawn. Of more rows
  than memory is set aside for, those with the largest n′_sa are drawn and the others are not trusted.
* Where every score of a state is zero the algorithm knows nothing; instead of an arbitrary arg max the decision is the
  most frequent action by noisy count, labelled `fallback`.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from discretion import errors
from discretion.learning import checks, denoising, policy, rewards, sums
from discretion.learning.counts import MAKERS, RewardSums, TransitionCounts, VisitCounts
from discretion.learning.curator import Curator, Query, Share, check_budget, event_of, is_narrow
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.sums import Statistic
from discretion.privacy import events

NAME: Final = "dp-apvi"
MAX_CELLS: Final = 200_000_000
MAX_DRAWN: Final = 2**28  # transition counts held at once: 1 GiB where 32 bits hold each, else 2
PIECE: Final = 2**18  # counts that are worked on at once, or a row: what fits the cache
_ROWS: Final = 256  # most rows of them that are solved at once: of short ones, more would be slower
# As printed in the paper.
PRINTED_C1: Final = math.sqrt(2.0)
PRINTED_C2: Final = 16.0
PRINTED_SHARES: Final = (1, 1, 1)  # the same ρ for every table


@dataclass(frozen=True)
class Parameters:
    """Public constants of Alg. 1, line 1; fixed before the data is seen.

    The paper's calibration is the printed constants and nothing else; "tight" leaves them to whoever asks.
    """

    c1: float = PRINTED_C1
    c2: float = PRINTED_C2
    c: float = 2.0  # nothing reads it: any C ≥ 1 gives the same policy, a row below the threshold being worth nothing
    delta: float = 0.1
    pessimism: Literal["bernstein", "hoeffding"] = "bernstein"
    reward: rewards.Known | None = None
    shares: tuple[int, int, int] = PRINTED_SHARES  # of visits, transitions, and rewards where these are unknown
    calibration: Literal["paper", "tight"] = "tight"

    def __post_init__(self) -> None:
        checks.choice(self.calibration, "calibration", "paper", "tight")
        checks.number(self.c1, "c1", low=0.0)
        checks.number(self.c2, "c2", low=0.0)
        checks.number(self.c, "c", low=1.0)
        checks.number(self.delta, "delta", low=0.0, high=1.0, strictly=True)
        checks.choice(self.pessimism, "pessimism", "bernstein", "hoeffding")
        checks.shares(self.shares, "visits", "transitions", "rewards")
        rewards.check_kind(self.reward)
        printed = (self.c1, self.c2, tuple(self.shares)) == (PRINTED_C1, PRINTED_C2, PRINTED_SHARES)
        if self.calibration == "paper" and not printed:
            raise errors.InvalidParameter(
                "The paper's calibration has c1 = √2, c2 = 16 and equal shares; leave these out, or use 'tight'."
            )


@dataclass(frozen=True, eq=False)
class Release:
    """What was drawn, and all that any derived policy may use."""

    visits: IntArray  # (H, S, A), noised, not clipped
    rows: IntArray  # (R,) flat (h, s, a) of the rows drawn, ascending
    transitions: IntArray  # (R, S+1), noised, not clipped
    counted: tuple[events.Event, ...]  # how visits and transitions were noised
    rewards: FloatArray | None = None  # (H, S, A), noised sums of x − ½
    rewarded: events.Event | None = None  # how they were noised


def check(schema: Schema, parameters: Parameters) -> int:
    """The number of states, once everything fits; refusals name what does not."""
    cells = schema.horizon * schema.count * schema.actions
    if cells > MAX_CELLS:
        raise errors.ProblemTooLarge(
            f"dp-apvi keeps a count for each step, state and action: {cells} of them, {MAX_CELLS} at most."
        )
    if parameters.reward is not None:
        parameters.reward.check(schema)
    return schema.count


def queries(schema: Schema, privacy: Share, parameters: Parameters) -> list[Query]:
    """Everything a training asks, a pure function of what is public."""
    check(schema, parameters)
    check_budget(privacy)
    asked: tuple[Statistic, ...] = (VisitCounts(schema), TransitionCounts(schema), RewardSums(schema))
    weights = parameters.shares if parameters.reward is None else parameters.shares[:2]
    return [
        Query(statistic, privacy.part(Fraction(weight, sum(weights))))
        for statistic, weight in zip(asked, weights, strict=False)
    ]


def mechanisms(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> list[events.Event]:
    return [event_of(query, units) for query in queries(schema, privacy, parameters)]


def narrow(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> bool:
    """Whether transitions, the largest table, need half the memory."""
    return is_narrow(queries(schema, privacy, parameters)[1], units)


def trusted_from(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """How many visits of a step, state and action, about, it takes before its successors are trusted: E."""
    visits, transitions, *_ = mechanisms(schema, units, privacy, parameters)
    return _bound((visits, transitions), schema, parameters.delta)


def likely_rows(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> int:
    """How many rows may have enough visits to be drawn, at most.

    A row is drawn if its noisy visits exceed E/2. Where it has t of them, that happens with probability 1 at most, with
    ½ below E/2, and hardly ever below E/4 or without any: so of n visits no more than n/(E/2) rows are expected, and
    six deviations above that are allowed for.
    """
    enough = max(1.0, trusted_from(schema, units, privacy, parameters) / 2)
    rows = schema.horizon * units * schema.per_unit / enough
    return min(schema.horizon * schema.count * schema.actions, math.ceil(rows + 6 * math.sqrt(rows) + 36))


def most_rows(schema: Schema) -> int:
    """That are drawn. A row has noise in every successor, and what is drawn is held, stored and derived from."""
    return MAX_DRAWN // (schema.count + 1)


def visits_needed(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> float:
    """How many it takes, about and at least, before its score is above zero.

    Where the second term of the penalty exceeds a step's reward and what an end may be worth, at every step, it exceeds
    all scores: those of the last step are zero, and so on to the first.
    """
    trusted = trusted_from(schema, units, privacy, parameters)
    iota = math.log(schema.horizon * schema.count * schema.actions / parameters.delta)
    earned = 1 + schema.idle * (schema.horizon - 1)
    return max(trusted, parameters.c2 * (schema.count + 1) * schema.horizon * trusted * iota / earned)


def hopeless(schema: Schema, units: int, privacy: Share, parameters: Parameters) -> str | None:
    """The noise, or the second term of the penalty alone, clips every score to zero."""
    most = units * schema.per_unit  # visits of a step, state and action, if everybody came there
    needed = visits_needed(schema, units, privacy, parameters)
    if most > needed:
        return None
    if needed == trusted_from(schema, units, privacy, parameters):
        return (
            f"Every decision will be a fallback: {math.ceil(needed)} visits of one step, state and action are needed, "
            f'and {most} are possible. Use more ρ, or dynamics "stationary", which counts all steps together.'
        )
    return (
        f"With {_constants(parameters)} every score will be clipped to zero and every decision be a fallback: if all "
        f"{most} trajectories met at one state and action, its penalty would still exceed what it can earn, and "
        f"{needed:.2g} would have to meet there. {milder(parameters)}"
    )


def _constants(parameters: Parameters) -> str:
    return "the paper's constants" if parameters.calibration == "paper" else f"c2 = {parameters.c2:g}"


def milder(parameters: Parameters) -> str:
    """What to do about constants that clip scores to zero."""
    if parameters.calibration == "paper":
        return 'Use calibration "tight" with c2 = 0, or use dynamics "stationary" (without calibration).'
    return 'Set c2 to 0, or use dynamics "stationary".'


def learn(curator: Curator, privacy: Share, parameters: Parameters, *, lazy: bool = True) -> policy.Policy:
    return derive(draw(curator, privacy, parameters, lazy=lazy), curator.schema, parameters)


def draw(curator: Curator, privacy: Share, parameters: Parameters, *, lazy: bool = True) -> Release:
    """Ask the curator for the counts of eq. (noisy_est); clipping at zero is left to `derive`."""
    schema = curator.schema
    visiting, moving, *rewarding = queries(schema, privacy, parameters)
    visits, *rewarded = curator.ask(visiting, *rewarding)
    counted = (visits.event, curator.price(moving))
    paid = [(answer.values, answer.event) for answer in rewarded]
    rewarded.clear()  # their integers need not stay beside the transitions, which may be most of the memory
    bound = _bound(counted, schema, parameters.delta)
    rows = _eligible(visits.grid, bound, most_rows(schema)) if lazy else np.arange(visits.grid.size)
    chosen = TransitionCounts(schema, rows=rows, narrow=narrow(schema, curator.units, privacy, parameters))
    (transitions,) = curator.ask(Query(chosen, moving.share))
    curator.done()
    values, event = paid[0] if paid else (None, None)
    return Release(visits.grid, rows, transitions.grid, counted, values, event)


def _eligible(visits: IntArray, bound: float, most: int) -> IntArray:
    """Rows that may pass the threshold."""
    return most_visited(visits, np.flatnonzero(visits > bound / 2), most)


def most_visited(visits: IntArray, rows: IntArray, most: int) -> IntArray:
    """Of more rows than there is memory for, those with the most noisy visits, which were released."""
    if len(rows) <= most:
        return rows
    return np.sort(rows[np.argsort(-visits.ravel()[rows], kind="stable")[:most]])


def _bound(counted: tuple[events.Event, ...], schema: Schema, delta: float) -> float:
    """E_ρ of both tables."""
    return max(noise_bound(event, schema, delta) for event in counted)


def noise_bound(event: events.Event, schema: Schema, delta: float) -> float:
    """E: with probability 1 − δ no noise on any count is larger than E/2 (Lemma "uti").

    The discrete Gaussian is σ²-subgaussian: P(|X| > t) ≤ 2·exp(−t²/2σ²). The discrete Laplace: ≤ 2·exp(−t/b).
    """
    states = schema.count
    union = math.log(4 * schema.horizon * states * (states + 1) * schema.actions / delta)
    if event.mechanism == events.LAPLACE:
        return 2 * float(event.scale) * union
    return 2 * math.sqrt(2 * float(event.scale) * union)


def consistent(
    totals: FloatArray,  # (R,) n′_sa ≥ 0
    counts: FloatArray,  # (R, S+1) n′_sas′ ≥ 0
    bound: float,
    out: FloatArray | None = None,  # may be the counts themselves
) -> FloatArray:  # (R, S+1) ñ_sas′
    """Eq. (final_choice): the closest counts in the largest deviation whose sum is within E/2 of n′_sa, and none < 0.

    In closed form. If the sum is in the band, nothing moves. If it is below, every count must rise by the same t: any
    that rose less would leave more to the others. If it is above, every count falls by the same t but not below zero.
    """
    reached = counts.sum(axis=1)
    low, high = totals - bound / 2, totals + bound / 2
    # Rows that are over rise by nothing, so that their counts stand here unchanged.
    chosen = np.add(counts, (np.maximum(low - reached, 0.0) / counts.shape[1])[:, None], out=out)
    over, step = np.flatnonzero(reached > high), min(_ROWS, _rows_of_a_piece(counts))
    for start in range(0, len(over), step):
        rows = over[start : start + step]
        some = chosen[rows]
        chosen[rows] = denoising.lowered(some, None, high[rows])
    return chosen


def _rows_of_a_piece(counts: IntArray | FloatArray) -> int:
    return max(1, PIECE // counts.shape[1])


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Trusted rows of one step."""

    step: int
    states: IntArray  # (R,)
    actions: IntArray  # (R,)
    visits: FloatArray  # (R,) ñ_sa
    successors: FloatArray  # (R, S+1) P̃
    bound: float  # E


def _kernel(release: Release, bound: float, step: int, piece: slice) -> _Kernel:
    """Eq. (mb_est): P̃ = ñ_sas′/ñ_sa where ñ_sa > E; the other rows are worth nothing (line 5: Γ = CH ≥ H)."""
    _, states, actions = release.visits.shape
    cell = release.rows[piece] - step * states * actions
    totals = np.maximum(release.visits[step].ravel()[cell], 0).astype(np.float64)
    noisy = release.transitions[piece].astype(np.float64)
    counts = consistent(totals, np.maximum(noisy, 0.0, out=noisy), bound, out=noisy)
    visits = counts.sum(axis=1)
    trusted = visits > bound
    kernel = counts if trusted.all() else counts[trusted]
    kernel /= visits[trusted, None]
    return _Kernel(step, cell[trusted] // actions, cell[trusted] % actions, visits[trusted], kernel, bound)


def _pieces(release: Release) -> Iterator[tuple[int, slice]]:
    """Of the rows drawn, from the last step to the first: never of two steps, and an empty one where a step has none,
    for its states have a value as well."""
    horizon, states, actions = release.visits.shape
    rows = _rows_of_a_piece(release.transitions)
    begins = np.searchsorted(release.rows, np.arange(horizon + 1) * states * actions).tolist()
    for step in reversed(range(horizon)):
        first, last = begins[step : step + 2]
        yield from ((step, slice(start, min(start + rows, last))) for start in range(first, max(last, first + 1), rows))


def _kernels(release: Release, bound: float) -> Iterator[_Kernel]:
    """Piece by piece, so that what is made of the counts is small whatever their number. The next ones are prepared by
    other processors meanwhile."""
    most = min(sums.processors(), MAKERS)
    with ThreadPoolExecutor(most) as pool:
        waiting: deque[Future[_Kernel]] = deque()
        for step, piece in _pieces(release):
            waiting.append(pool.submit(_kernel, release, bound, step, piece))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _penalty(
    kernel: _Kernel, variance: FloatArray, release: Release, schema: Schema, parameters: Parameters
) -> FloatArray:
    """Alg. 1, line 5, and its Hoeffding form."""
    horizon, successors = schema.horizon, kernel.successors.shape[1]
    iota = math.log(horizon * (successors - 1) * schema.actions / parameters.delta)
    spread = np.sqrt(variance) if parameters.pessimism == "bernstein" else float(horizon)
    rate = np.sqrt(iota / (kernel.visits - kernel.bound))
    penalty: FloatArray = parameters.c1 * spread * rate
    penalty += parameters.c2 * successors * horizon * kernel.bound * iota / kernel.visits
    if parameters.reward is None and release.rewarded is not None:
        noise = noise_bound(release.rewarded, schema, parameters.delta)
        penalty += parameters.c1 / 2 * rate + (noise + kernel.bound) / (2 * kernel.visits)
    return penalty


def _reward(kernel: _Kernel, release: Release, schema: Schema, parameters: Parameters) -> FloatArray | float:
    """The scaled reward of the trusted rows: known, or ½ + noisy sum / ñ."""
    if parameters.reward is not None:
        known = parameters.reward.at(schema, kernel.step)
        return known if isinstance(known, float) else known[kernel.states, kernel.actions]
    if release.rewards is None:
        raise errors.InvalidParameter("This release holds no reward sums; give a reward table.")
    return np.clip(0.5 + release.rewards[kernel.step, kernel.states, kernel.actions] / kernel.visits, 0.0, 1.0)


def _scores(
    kernel: _Kernel,
    moments: FloatArray,  # (3, S+1) what follows, that around its mean, and the square of this
    release: Release,
    schema: Schema,
    parameters: Parameters,
) -> FloatArray:  # (R,)
    """Lines 4 to 7. A product for each row: of one for many, its bits would depend on which rows stand beside it."""
    mean, around, square = np.vecdot(kernel.successors, moments[:, None])
    variance = np.maximum(square - around**2, 0.0)
    raw = _reward(kernel, release, schema, parameters) + mean  # line 4
    raw -= _penalty(kernel, variance, release, schema, parameters)  # lines 5 and 6
    return np.clip(raw, 0.0, schema.horizon - kernel.step)  # line 7


def derive(release: Release, schema: Schema, parameters: Parameters) -> policy.Policy:
    """Alg. 1, lines 3 to 9, from the noised counts alone: costs nothing, and may be done again with other constants."""
    states = check(schema, parameters)
    horizon, actions = schema.horizon, schema.actions
    arrival = parameters.reward.on_arrival(schema) if parameters.reward is not None else 0.0
    bound = _bound(release.counted, schema, parameters.delta)
    scores = np.zeros((horizon, states, actions))
    value = np.zeros(states + 1)  # line 2: Ṽ_{H+1} = 0
    for step, kernels in itertools.groupby(_kernels(release, bound), lambda kernel: kernel.step):
        following = value + arrival
        around = following - following.mean()
        moments = np.stack((following, around, around**2))
        for kernel in kernels:
            scores[step, kernel.states, kernel.actions] = _scores(kernel, moments, release, schema, parameters)
        value = np.append(scores[step].max(axis=1), schema.idle * (horizon - step))  # line 8
    return policy.tabular(NAME, schema, scores, fallback=release.visits.argmax(axis=2))
