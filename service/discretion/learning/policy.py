"""The released artefact: what a policy decides, where it knew nothing, and its canonical bytes.

One artefact for every learner. Its document is plain JSON; its canonical bytes are RFC 8785, so spacing and key order
do not matter to the digest that a certificate signs. Scores are in the unit of the declared rewards.

A `pessimistic_score` is what the learner's penalised estimate says the rest of the stay is worth. It is no bound on
anything unless `value_lower_bound` says so, and none of today's modes meets a theorem's conditions, so that is null.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import rfc8785
from numpy.typing import NDArray

from discretion import errors
from discretion.learning import policy_tables, terms
from discretion.learning.features import Bins, Blocks
from discretion.learning.pooled_values import Score
from discretion.learning.schemas import BoolArray, Discrete, FloatArray, IntArray, Schema, Vector, is_finite
from discretion.learning.values import LinearScore

LEARNED: Final = policy_tables.LEARNED
FALLBACK: Final = policy_tables.FALLBACK
_DECIMALS: Final = 6  # of scores: finer digits carry noise only

Document = dict[str, Any]
Judgement = tuple[IntArray, BoolArray, FloatArray]  # (R,) each: actions, whether learned, scores
State = int | Mapping[str, float | None]  # a column that may be missing is None where it is


@dataclass(frozen=True)
class Decision:
    action: int
    label: str | None
    source: str
    pessimistic_score: float


@dataclass(frozen=True, eq=False)
class Table:
    """A decision for each step and state; with `bins`, for each step and cell of a vector state."""

    decisions: IntArray  # (H, S)
    learned: BoolArray  # (H, S)
    scores: FloatArray  # (H, S)
    bins: Bins | None = None

    def tables(self) -> Document:
        return policy_tables.document(self.decisions, self.learned, self.scores)

    def decide(self, step: int, state: FloatArray | int) -> tuple[int, bool, float]:
        cell = int(self.bins.cells(np.asarray(state))) if self.bins else int(state)
        return int(self.decisions[step, cell]), bool(self.learned[step, cell]), float(self.scores[step, cell])

    def judge(self, step: int, states: NDArray[np.generic]) -> Judgement:
        cells = self.bins.cells(states) if self.bins else np.asarray(states, dtype=np.int64)
        return self.decisions[step, cells], self.learned[step, cells], self.scores[step, cells]


@dataclass(frozen=True, eq=False)
class Linear:
    """What is needed to decide for any vector state: the released weights and inverse Gram roots of each step."""

    features: Blocks
    scores: tuple[LinearScore, ...]
    low: float  # rewards are scaled by r = low + width·x
    width: float

    def decide(self, step: int, state: FloatArray | int) -> tuple[int, bool, float]:
        return _first(self.judge(step, np.asarray(state)[None, :]))

    def judge(self, step: int, states: NDArray[np.generic]) -> Judgement:
        psi = self.features.psi(states)
        scores, spread = self.scores[step].judged(psi)
        learned = scores.max(axis=0) > 0
        actions = np.where(learned, scores.argmax(axis=0), spread.argmin(axis=0))
        chosen = scores[actions, np.arange(len(psi))] * self.width + self.low * (len(self.scores) - step)
        return actions, learned, np.round(chosen, _DECIMALS)


@dataclass(frozen=True, eq=False)
class Pooled:
    """The same for learners that pool steps: one entry for each group of steps, in equal parts of the horizon."""

    features: Blocks
    groups: tuple[Score, ...]
    horizon: int
    width: float  # rewards are scaled by r = width·x, so that the end is worth nothing

    def decide(self, step: int, state: FloatArray | int) -> tuple[int, bool, float]:
        return _first(self.judge(step, np.asarray(state)[None, :]))

    def judge(self, step: int, states: NDArray[np.generic]) -> Judgement:
        score = self.groups[step * len(self.groups) // self.horizon]
        actions, learned, scores = score.choose(self.features.psi(states))
        return actions, learned, np.round(scores * self.width, _DECIMALS) + 0.0


def _first(judged: Judgement) -> tuple[int, bool, float]:
    actions, learned, scores = judged
    return int(actions[0]), bool(learned[0]), float(scores[0])


@dataclass(frozen=True, eq=False)
class Policy:
    algorithm: str
    horizon: int
    states: Discrete | Vector
    actions: int
    rule: Table | Linear | Pooled
    labels: tuple[str, ...] | None = None
    id: str | None = None

    def decide(self, step: int, state: State) -> Decision:
        """What to do at `step` (1 … horizon) in `state`: a number, or the columns of a vector state by name."""
        if not isinstance(step, int) or isinstance(step, bool) or not 1 <= step <= self.horizon:
            raise errors.InvalidState(f"step must be a whole number from 1 to {self.horizon}, not {step!r}.")
        action, learned, score = self.rule.decide(step - 1, self._checked(state))
        label = self.labels[action] if self.labels else None
        return Decision(action, label, LEARNED if learned else FALLBACK, score)

    def judge(self, step: int, states: NDArray[np.generic]) -> Judgement:
        """The same for many states within the schema, (R,) or (R, columns): actions, whether learned, and scores."""
        return self.rule.judge(step - 1, states)

    def _checked(self, state: State) -> FloatArray | int:
        if isinstance(self.states, Discrete):
            if not isinstance(state, int) or isinstance(state, bool) or not 0 <= state < self.states.count:
                raise errors.InvalidState(f"state must be a whole number from 0 to {self.states.count - 1}.")
            return state
        if not isinstance(state, Mapping) or set(state) != set(self.states.columns):
            raise errors.InvalidState(f"state must give exactly the columns {', '.join(self.states.columns)}.")
        values = [state[column] for column in self.states.columns]
        for column, value in zip(self.states.columns, values, strict=True):
            if not (value is None and column in self.states.missing) and not is_finite(value):
                raise errors.InvalidState(f"state column {column!r} must be a finite number.")
        return np.clip(np.array(values, dtype=np.float64), self.states.low, self.states.high)

    def document(self) -> Document:
        return self.rest() | (self.rule.tables() if isinstance(self.rule, Table) else {})

    def rest(self) -> Document:
        """Everything but the tables of a tabular policy, which may have millions of cells."""
        document: Document = {
            "algorithm": self.algorithm,
            "horizon": self.horizon,
            "states": _states_document(self.states),
            "actions": {"count": self.actions, "labels": None if self.labels is None else list(self.labels)},
            "value_lower_bound": None,
        }
        if self.id is not None:
            document["id"] = self.id
        return document | _rule_document(self.rule)

    def canonical(self) -> bytes:
        """RFC 8785; the tables of a tabular policy are written by faster means, to the same bytes."""
        rest = {name: rfc8785.dumps(value) for name, value in self.rest().items()}
        tables = policy_tables.written(self.rule.tables()) if isinstance(self.rule, Table) else {}
        parts = (b'"%s":%s' % (name.encode(), value) for name, value in sorted((rest | tables).items()))
        return b"{%s}" % b",".join(parts)

    def digest(self) -> str:
        return hashlib.sha256(self.canonical()).hexdigest()


def tabular(
    algorithm: str,
    schema: Schema,
    scores: FloatArray,  # (H, S, A), scaled and clipped at zero
    fallback: IntArray,  # (H, S)
    bins: Bins | None = None,
) -> Policy:
    """The best-scored action where any score is above zero; never the arg max of a row of zeros."""
    best = scores.max(axis=2)
    learned = best > 0
    decisions = np.where(learned, scores.argmax(axis=2), fallback)
    steps = np.arange(schema.horizon, 0, -1)[:, None]
    return of_table(algorithm, schema, decisions, learned, best * schema.width + schema.low * steps, bins)


def of_table(
    algorithm: str,
    schema: Schema,
    decisions: IntArray,  # (H, S), or (S,) for the same at every step
    learned: BoolArray,  # likewise
    scores: FloatArray,  # (H, S), in the unit of the declared rewards
    bins: Bins | None = None,
) -> Policy:
    shape = scores.shape
    rule = Table(
        np.broadcast_to(decisions, shape), np.broadcast_to(learned, shape), np.round(scores, _DECIMALS) + 0.0, bins
    )
    return Policy(algorithm, schema.horizon, schema.states, schema.actions, rule)


def _states_document(states: Discrete | Vector) -> Document:
    if isinstance(states, Discrete):
        return {"kind": "discrete", "count": states.count}
    document = {
        "kind": "vector",
        "columns": list(states.columns),
        "bounds": [[float(low), float(high)] for low, high in states.bounds],
    }
    return document | ({"missing": list(states.missing)} if states.missing else {})


def _rule_document(rule: Table | Linear | Pooled) -> Document:
    if isinstance(rule, Table):
        bins = rule.bins
        return {} if bins is None else {"features": {"kind": "bins", "edges": {c: list(e) for c, e in bins.edges}}}
    return _linear_document(rule) if isinstance(rule, Linear) else _pooled_document(rule)


def _linear_document(rule: Linear) -> Document:
    return {
        "features": {"kind": "blocks", "terms": list(map(terms.document, rule.features.terms))},
        "reward": {"low": rule.low, "width": rule.width},
        "steps": [
            {
                "weights": score.weights.tolist(),
                "roots": score.roots.tolist(),
                "bonus": score.bonus,
                "margin": score.margin,
                "ceiling": score.ceiling,
            }
            | ({"noise": score.noise} if score.noise else {})  # 0: every action counts
            for score in rule.scores
        ],
    }


def _pooled_document(rule: Pooled) -> Document:
    within = rule.features.within
    looked = {} if within is None else {"within": [list(pair) for pair in within]}
    return {
        "features": {"kind": "blocks", "terms": list(map(terms.document, rule.features.terms))} | looked,
        "reward": {"width": rule.width},
        "groups": [
            {
                "base": score.base,
                "support": score.support,
                "informed": score.informed,
                "weights": score.weights.tolist(),
                "shares": score.shares.tolist(),
                "frequencies": score.frequencies.tolist(),
            }
            for score in rule.groups
        ],
    }


def parse(text: bytes | str) -> Policy:
    """Read a policy document back; anything that is not one is refused."""
    try:
        written = text.decode("utf-8") if isinstance(text, bytes) else text
        document = _numbered(json.loads(written, object_pairs_hook=_once, parse_constant=_no_constant))
        read = _policy(document)
        if not _says_no_more(document, read):
            raise errors.InvalidPolicy("it says something that this version does not know.")
    except errors.Refusal as refusal:
        raise errors.InvalidPolicy(f"This is not a policy document: {refusal}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError):
        raise errors.InvalidPolicy("This is not a policy document; download it again.") from None
    return read


def _says_no_more(document: Document, read: Policy) -> bool:
    """Whether what was read is all that was written."""
    tables = policy_tables.NAMES if isinstance(read.rule, Table) else ()
    rest = {name: value for name, value in document.items() if name not in tables}
    plain = all(policy_tables.is_plain(name, document[name]) for name in tables)
    return plain and rfc8785.dumps(rest) == rfc8785.dumps(read.rest())


def _once(pairs: Sequence[tuple[str, Any]]) -> Document:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise errors.InvalidPolicy("a key stands twice.")
    return document


def _numbered(found: Any) -> Any:
    """RFC 8785 writes large floats without a point; as integers they would not be JSON numbers to everybody. Tables
    become floats anyway, and have too many cells to look at each."""
    if isinstance(found, dict):
        return {name: value if name in policy_tables.NAMES else _numbered(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_numbered(value) for value in found]
    return float(found) if type(found) is int and len(str(found)) > 15 else found


def _no_constant(name: str) -> NoReturn:
    raise errors.InvalidPolicy(f"{name} is not a number.")


def _policy(document: Document) -> Policy:
    states, horizon, actions = _states(document["states"]), document["horizon"], document["actions"]["count"]
    Schema(horizon, states, actions)  # refuses sizes out of range
    labels, name = document["actions"]["labels"], document.get("id")
    if not all(isinstance(text, str) for text in (document["algorithm"], *(labels or ()), *([name] if name else ()))):
        raise errors.InvalidPolicy("a name is not a text.")
    read_rule = _linear if "steps" in document else _pooled if "groups" in document else _table
    rule: Table | Linear | Pooled = read_rule(document, states, actions)
    read = Policy(
        document["algorithm"],
        horizon,
        states,
        actions,
        rule,
        None if labels is None else tuple(labels),
        name,
    )
    if labels is not None and len(labels) != actions:
        raise errors.InvalidPolicy(f"{actions} actions need as many labels.")
    return read


def _states(document: Document) -> Discrete | Vector:
    if document["kind"] == "discrete":
        return Discrete(document["count"])
    bounds = tuple((low, high) for low, high in document["bounds"])
    return Vector(tuple(document["columns"]), bounds, tuple(document.get("missing", ())))


def _array(values: Any, shape: tuple[int, ...]) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise errors.InvalidPolicy("a table has the wrong shape or holds something that is no number.")
    return array


def _table(document: Document, states: Discrete | Vector, actions: int) -> Table:
    bins = None
    if isinstance(states, Vector):
        bins = Bins.of(states, actions, document["features"]["edges"])
    shape = (document["horizon"], bins.states if bins is not None else states.count)  # type: ignore[union-attr]
    decisions = _array(document["decisions"], shape)
    if not ((decisions == np.floor(decisions)) & (decisions >= 0) & (decisions < actions)).all():
        raise errors.InvalidPolicy("a decision is not one of the actions.")
    source = np.array(document["source"])
    if source.shape != shape or not np.isin(source, (LEARNED, FALLBACK)).all():
        raise errors.InvalidPolicy(f"a source is neither {LEARNED!r} nor {FALLBACK!r}.")
    return Table(decisions.astype(np.int64), source == LEARNED, _array(document["pessimistic_score"], shape), bins)


def _blocks(document: Document, states: Discrete | Vector, actions: int) -> Blocks:
    if not isinstance(states, Vector):
        raise errors.InvalidPolicy("it has weights for vector states but its states are discrete.")
    features, within = document["features"], None
    if "within" in features:
        pairs = _array(features["within"], (len(states.columns), 2))
        within = tuple((float(low), float(high)) for low, high in pairs)
    return Blocks(states, actions, tuple(map(terms.of, features["terms"])), within)


def _pooled(document: Document, states: Discrete | Vector, actions: int) -> Pooled:
    features, horizon = _blocks(document, states, actions), document["horizon"]
    groups = tuple(_score(group, (actions, features.width)) for group in document["groups"])
    if not 1 <= len(groups) <= horizon:
        raise errors.InvalidPolicy("it needs weights for one group of steps at least, and not more than steps.")
    return Pooled(features, groups, horizon, float(_array(document["reward"]["width"], ())))


def _score(group: Document, shape: tuple[int, int]) -> Score:
    if not isinstance(group["informed"], bool):
        raise errors.InvalidPolicy("whether it is informed is said by true or false.")
    return Score(
        float(_array(group["base"], ())),
        float(_array(group["support"], ())),
        group["informed"],
        _array(group["weights"], shape),
        _array(group["shares"], shape),
        _array(group["frequencies"], shape[:1]),
    )


def _linear(document: Document, states: Discrete | Vector, actions: int) -> Linear:
    features = _blocks(document, states, actions)
    width = features.width
    scores = tuple(
        LinearScore(
            _array(step["weights"], (actions, width)),
            _array(step["roots"], (actions, width, width)),
            *(float(_array(step.get(name, 0.0), ())) for name in ("bonus", "margin", "ceiling", "noise")),
        )
        for step in document["steps"]
    )
    if len(scores) != document["horizon"]:
        raise errors.InvalidPolicy("it needs weights for every step.")
    scale = document["reward"]
    return Linear(features, scores, float(_array(scale["low"], ())), float(_array(scale["width"], ())))
