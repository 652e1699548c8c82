"""Algorithms 1 and 2 of Qiao & Wang, line by line from the paper's pseudo-code: slow, sharing no code with the product.

Noise is an input. What is not in the paper is the end of a trajectory, an absorbing successor (index S) that earns
r = 0 from then on, so that S + 1 stands where the paper's S counts successors; and rewards of any range, scaled.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, sparse

from tests.worlds import END, Episode, State, World

Array = Any


def closest_counts(totals: list[float], counts: list[list[float]], bound: float) -> list[list[float]]:
    """Eq. (final_choice) as the linear programme (reformulate), solved by HiGHS.

    The programmes of several rows share nothing, so minimising the sum of their t's minimises each.
    """
    entries: list[tuple[int, int, float]] = []
    limits: list[float] = []
    cost: list[float] = []
    for total, row in zip(totals, counts, strict=True):
        x = len(cost)  # the row's variables: x_1 … x_k, and then t
        t = x + len(row)
        cost += [0.0] * len(row) + [1.0]
        for i, count in enumerate(row):  # |x_i − n′_i| ≤ t
            entries += [(len(limits), x + i, 1.0), (len(limits), t, -1.0)]
            limits.append(count)
            entries += [(len(limits), x + i, -1.0), (len(limits), t, -1.0)]
            limits.append(-count)
        for sign in (1.0, -1.0):  # |Σx_i − n′| ≤ E/2
            entries += [(len(limits), x + i, sign) for i in range(len(row))]
            limits.append(sign * total + bound / 2)
    rows, columns, values = zip(*entries, strict=True)
    matrix = sparse.csr_array((values, (rows, columns)), shape=(len(limits), len(cost)))
    tolerances = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = optimize.linprog(cost, matrix, limits, bounds=(0, None), method="highs-ds", options=tolerances)
    assert solution.status == 0, solution.message
    chosen, start = [], 0
    for row in counts:
        chosen.append([float(value) for value in solution.x[start : start + len(row)]])
        start += len(row) + 1
    return chosen


@dataclass(frozen=True)
class Reward:
    """A known reward, scaled: paid for (h, s, a), or on arrival at s′."""

    world: World
    table: Array | None  # None: rewards are observed only

    @property
    def on_arrival(self) -> bool:
        return self.table is not None and self.table.ndim == 1

    def paid(self, h: int, s: int, a: int) -> float:
        if self.table is None or self.on_arrival:
            return 0.0
        return self.world.scaled(float(self.table[s][a] if self.table.ndim == 2 else self.table[h][s][a]))

    def arriving(self, successor: State) -> float:
        if self.table is None or not self.on_arrival:
            return 0.0
        if successor is None or successor == END:
            return self.world.scaled(float(self.table[-1]) if len(self.table) > _states(self.world) else 0.0)
        return self.world.scaled(float(self.table[successor]))


def _states(world: World) -> int:
    return int(world.schema.states.count)  # type: ignore[union-attr]


def _idle(world: World) -> float:
    return world.scaled(0.0)


@dataclass(frozen=True)
class TabularNoise:
    visits: Array  # (H, S, A)
    transitions: Array  # (H, S, A, S+1)
    rewards: Array | None = None  # (H, S, A), in the unit of scaled rewards
    E: float = 0.0
    E_r: float = 0.0


@dataclass(frozen=True)
class TabularConstants:
    C1: float = math.sqrt(2)
    C2: float = 16.0
    C: float = 2.0
    delta: float = 0.1
    hoeffding: bool = False


def _count(world: World, noise: TabularNoise, h: int, s: int, a: int) -> tuple[float, list[float], float]:
    """n_sa, n_sas′ and Σ(x − ½), each with its noise."""
    S, H = _states(world), world.schema.horizon
    n, following, centred = 0, [0] * (S + 1), 0.0
    for tau in world.episodes:
        if h >= len(tau.states) or tau.states[h] != s or tau.actions[h] != a:
            continue
        successor = tau.successor(h)
        if successor is None and h + 1 < H:
            continue  # nobody knows what followed
        n += 1
        following[S if successor is None or successor == END else successor] += 1
        centred += world.scaled(tau.rewards[h]) - 0.5
    moved = [following[t] + float(noise.transitions[h][s][a][t]) for t in range(S + 1)]
    return n + float(noise.visits[h][s][a]), moved, centred + (0.0 if noise.rewards is None else noise.rewards[h][s][a])


def dp_apvi(world: World, noise: TabularNoise, constants: TabularConstants, table: Array | None) -> Array:
    """Algorithm 1: Q̄ (H, S, A), scaled."""
    H, S, A = world.schema.horizon, _states(world), world.schema.actions
    E, C1, C2, reward = noise.E, constants.C1, constants.C2, Reward(world, table)
    iota = math.log(H * S * A / constants.delta)
    Q_bar = np.zeros((H, S, A))
    V = [0.0] * (S + 1)  # line 2; V[S] is the end's
    for h in range(H - 1, -1, -1):  # line 3
        gain = [V[t] + reward.arriving(END if t == S else t) for t in range(S + 1)]
        for s in range(S):
            for a in range(A):
                visits, moved, centred = _count(world, noise, h, s, a)
                clipped = [max(count, 0.0) for count in moved]  # eq. (noisy_est)
                (n_tilde,) = closest_counts([max(visits, 0.0)], [clipped], E)
                n = sum(n_tilde)
                P = [count / n if n > E else 1 / (S + 1) for count in n_tilde]  # eq. (mb_est)
                r = reward.paid(h, s, a)
                if table is None:
                    r = min(max(0.5 + centred / n, 0.0), 1.0) if n > E else 0.5
                mean = sum(P[t] * gain[t] for t in range(S + 1))
                Q = r + mean  # line 4
                Gamma = constants.C * H
                if n > E:  # line 5
                    variance = sum(P[t] * (gain[t] - mean) ** 2 for t in range(S + 1))
                    spread = (
                        H * math.sqrt(iota / (n - E)) if constants.hoeffding else math.sqrt(variance * iota / (n - E))
                    )
                    Gamma = C1 * spread + C2 * (S + 1) * H * E * iota / n
                    if table is None:  # ours: the reward is an estimate too
                        Gamma += C1 / 2 * math.sqrt(iota / (n - E)) + (noise.E_r + E) / (2 * n)
                Q_bar[h, s, a] = max(min(Q - Gamma, H - h), 0.0)  # lines 6 and 7; h is from 0
        V = [max(Q_bar[h, s]) for s in range(S)] + [_idle(world) * (H - h)]  # line 8
    return Q_bar


Phi = Callable[[State, int], Array]


@dataclass(frozen=True)
class LinearNoise:
    """For each step: K₁, K₂ with their E/2·I, and φ₁, φ₂, φ₃."""

    K1: list[Array]
    K2: list[Array]
    phi1: list[Array]
    phi2: list[Array]
    phi3: list[Array]


def no_noise(world: World, d: int) -> LinearNoise:
    H = world.schema.horizon
    zeros, nothing = [np.zeros(d)] * H, [np.zeros((d, d))] * H
    return LinearNoise(nothing, nothing, zeros, zeros, zeros)


@dataclass(frozen=True)
class LinearConstants:
    ridge: float = 1.0
    C: float = 0.1
    D: float = 0.0
    split: bool = False
    weighted: bool = True
    free_horizon: bool = False  # ours, tight: at the horizon a known reward is not estimated, and not penalised


@dataclass(frozen=True)
class LinearStep:
    Q: Callable[[State], list[float]]  # Q̂_h(s, ·)
    coverage: Callable[[State], list[float]]  # φᵀΛ̃⁻¹φ
    inverse: Array
    w: Array


def _halves(world: World, split: bool) -> tuple[list[Episode], list[Episode], int]:
    """D′, D, and K: how many units D has."""
    if not split:
        return world.episodes, world.episodes, world.units
    middle = world.units // 2
    first = [tau for tau in world.episodes if tau.unit < middle]
    return first, [tau for tau in world.episodes if tau.unit >= middle], world.units - middle


def _clip(value: float, high: float) -> float:
    return min(max(value, 0.0), high)


def dp_vapvi(
    world: World, phi: Phi, d: int, noise: LinearNoise, constants: LinearConstants, table: Array | None = None
) -> list[LinearStep]:
    """Algorithm 2, for each step."""
    H, A, ridge = world.schema.horizon, world.schema.actions, constants.ridge * np.eye(d)
    D_prime, D, K = _halves(world, constants.split)
    reward, steps = Reward(world, table), list[LinearStep]()

    def V(h: int, successor: State) -> float:
        """Ṽ_{h+1} of what followed step h."""
        if h + 1 == H:
            return 0.0  # line 2
        if successor == END:
            return _idle(world) * (H - h - 1)
        return max(steps[-1].Q(successor))  # line 14

    def counted(episodes: list[Episode], h: int) -> list[tuple[Array, State, int, float, State]]:
        chosen = [tau for tau in episodes if h < len(tau.states)]
        chosen = [tau for tau in chosen if tau.successor(h) is not None or h + 1 == H]
        return [
            (phi(t.states[h], t.actions[h]), t.states[h], t.actions[h], world.scaled(t.rewards[h]), t.successor(h))
            for t in chosen
        ]

    def step(h: int) -> LinearStep:
        Sigma, beta, theta = ridge + noise.K1[h], noise.phi1[h].copy(), noise.phi2[h].copy()
        for f, _, _, _, successor in counted(D_prime, h):
            Sigma = Sigma + np.outer(f, f)  # line 4
            beta += f * V(h, successor) ** 2  # line 5
            theta += f * V(h, successor)  # line 6
        beta, theta = np.linalg.solve(Sigma, beta), np.linalg.solve(Sigma, theta)

        def sigma_squared(f: Array) -> float:
            if not constants.weighted:
                return 1.0
            variance = _clip(float(f @ beta), (H - h) ** 2) - _clip(float(f @ theta), H - h) ** 2  # line 7
            return max(1.0, variance)  # line 8

        Lambda, w = ridge + noise.K2[h], noise.phi3[h].copy()
        for f, _, _, x, successor in counted(D, h):
            Lambda = Lambda + np.outer(f, f) / sigma_squared(f)  # line 9
            y = x if table is None else reward.arriving(successor)
            w += f * (y + V(h, successor)) / sigma_squared(f)  # line 10
        inverse = np.linalg.inv(Lambda)
        w = inverse @ w
        free = constants.free_horizon and h + 1 == H and table is not None and not reward.on_arrival

        def coverage(s: State) -> list[float]:
            return [float(phi(s, a) @ inverse @ phi(s, a)) for a in range(A)]

        def Q(s: State) -> list[float]:
            scores = []
            for a, covered in enumerate(coverage(s)):
                Gamma = 0.0 if free else constants.C * math.sqrt(d) * math.sqrt(covered) + constants.D / K  # line 11
                estimate = 0.0 if free else float(phi(s, a) @ w)
                known = 0.0 if table is None else reward.paid(h, s, a)
                scores.append(_clip(known + estimate - Gamma, H - h))  # lines 12 and 13
            return scores

        return LinearStep(Q, coverage, inverse, w)

    for h in range(H - 1, -1, -1):  # line 3
        steps.append(step(h))
    return steps[::-1]
