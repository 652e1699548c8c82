"""How much memory a training takes, from public sizes alone, and how much it may take here.

The need is what the learner holds at most, whatever the records say: blocks of the data as they are read and bounded,
one for each thread, those that stay from one pass to the next, its tables, and the policy as it is written. It is a
function of schema, number of units, request and the processors that a training has here, so whoever asks may be told
the figure. The factors were measured on records that fill every table; `tests/test_memory.py` measures again.
"""

import contextlib
import ctypes
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from discretion import blocks, datasets, errors, requests, shares
from discretion.learning import (
    apvi,
    apvi_stationary,
    counts,
    fqe,
    kernels,
    outcomes,
    pae,
    sums,
    vapvi,
    vapvi_stationary,
    walks,
)
from discretion.learning import features as maps
from discretion.learning.schemas import Discrete, Schema
from discretion.privacy import events
from discretion.requests import Asked
from discretion.settings import Settings

MEGABYTE: Final = 2**20
PROGRAM: Final = 256 * MEGABYTE  # interpreter, numpy, Arrow, a connection
_STACK: Final = 8 * MEGABYTE  # of a thread, as glibc reserves it and a fence counts it
_BLOCK: Final = 5  # times the bytes of a block's records: as stored, as columns, padded, by step
_FEATURES: Final = 4  # floats of a record for each feature
_COPIES: Final = 3  # of a table: its sum, the noise or what was drawn, what is made of it
_PACKED: Final = 40  # bytes of a record of vector states apart from features
_PIECES: Final = 32  # of rows of transitions: noise as it is added, or what four threads make of counts
_SHRUNK: Final = 16  # of DP-PAE's tables: each thread's sums, and all that shrinking them makes
_DENOISED: Final = 4  # of the one kernel of all steps
_PLACES: Final = 4 * 8  # bytes of a row that is drawn: which one it is, as it is chosen and looked up
_WRITTEN: Final = 128  # bytes of a policy's number, or of a decision with its label and score, also as text
_TABLE: Final = 32  # of a feature table: as it was sent, whitened, along the directions of a step, in the certificate
_SENT: Final = 8  # the same for a machine that makes sums by it
_PASSED_ON: Final = 16  # the same for a scheduler, which has it several times while it comes in
_STATISTICS: Final = 5  # of a step of DP-VAPVI, at most
_LOOKED_AT: Final = 16  # of every step's matrices, when all steps are seen together
_SCORED: Final = 3  # tables over step, state and action
_CLINIC: Final = 5  # of the tables behind a twin of discrete states, while they are made up
_PLAYED: Final = 3  # numbers of a record of a twin
_TOGETHER: Final = 4  # times these, where a unit's records are all seen together
_PLAYED_COLUMNS: Final = 4  # times the columns of vector states: as they were made up, and as records in an order
_PLAYED_UNIT: Final = 8  # numbers of a unit of a twin, apart from its records
_CHOSEN: Final = 3  # the same for each action of vector states: how much it is wished for
_HABIT: Final = 1.5  # the same for each action or successor of discrete states: a chance, and whether it is passed
_SEEN: Final = 2**15  # records whose features pooled statistics look at together
_SMALL: Final = 8  # partial sums that a machine holds if they are not large
_SMALL_TRAINING: Final = 2048 * MEGABYTE
USUAL: Final = 3584 * MEGABYTE  # that a training may take in containers, if nobody sets another figure
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")
_ARENAS, _FROM_THE_SYSTEM, _GIVEN_BACK = -8, -3, -1  # M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD: <malloc.h>
_LARGE: Final = 256 * MEGABYTE  # of one array
_PASSING: Final = 16 * MEGABYTE  # of one array, which is more than any has that only reads and adds a block
_NEVER: Final = 2**31 - 1


def need(asked: Asked, processors: int | None = None, most: int = USUAL) -> int:
    """Bytes, at most, of the process that learns by so many processors or fewer, or those of this process: what fewer
    leave free may be taken by `room`, and no more than that."""
    return max(_apart(asked, processors), _behind(asked, processors) + room(asked, processors, most))


def room(asked: Asked, processors: int | None = None, most: int = USUAL) -> int:
    """Bytes of blocks, or of what is computed of them, that stay in memory from one pass to the next: all of them, as
    far as a training stays small, and within what it may take. One that can do without them is not refused."""
    if keeps_blocks(asked):
        _, record = _block_rows(asked)
    else:
        assert isinstance(asked.parameters, vapvi_stationary.Parameters)
        features = asked.parameters.features  # of a record, and of its successor if nobody has it
        record = _PACKED + 2 * features.width * np.dtype(walks.kind(features.largest)).itemsize
    stored = asked.units * asked.schema.per_unit * asked.schema.horizon * record
    free = min(_SMALL_TRAINING - _beside(asked, processors), most - _behind(asked, processors))
    return max(0, min(blocks.KEPT, stored, free))


def keeps_blocks(asked: Asked) -> bool:
    """Or what is computed of them, where pooled statistics ask for the same features in every pass."""
    return not isinstance(asked.parameters, vapvi_stationary.Parameters)


def _apart(asked: Asked, processors: int | None) -> int:
    """What it takes without these."""
    rows, _ = _block_rows(asked)
    records = asked.units * asked.schema.per_unit * asked.schema.horizon
    threads = min(processors or sums.processors(), -(-records // rows))
    learning = _regressing(asked, threads) if _by_step(asked) else _learning(asked, asked.mechanisms)
    return _reading(asked, threads) + _stacks(asked, threads, processors) + learning + _written(asked)


def _written(asked: Asked) -> int:
    """The policy, as it is made or, for an evaluation, as it is judged: of vector states it may be any."""
    if asked.judged is None:
        return _WRITTEN * requests.numbers(asked)
    discrete = isinstance(asked.schema.states, Discrete)
    return _WRITTEN * (asked.schema.horizon * asked.schema.count if discrete else requests.MAX_NUMBERS)


def _by_step(asked: Asked) -> bool:
    return isinstance(asked.parameters, vapvi.Parameters)


def _regressing(asked: Asked, threads: int) -> int:
    """DP-VAPVI: the sums of one step at a time, what is kept of all steps, and a table of features."""
    assert isinstance(asked.parameters, vapvi.Parameters)
    features, horizon = asked.parameters.features, asked.schema.horizon
    held = _STATISTICS * (_COPIES + threads) * max(_entries(asked, event) for event in asked.mechanisms)
    matrices = horizon * features.groups * features.width**2
    if isinstance(features, maps.Blocks):
        return 8 * (held + _COPIES * matrices)  # which are the policy's
    cells = features.states * features.actions
    held += _COPIES * threads * cells + _SCORED * horizon * cells
    held += _LOOKED_AT * matrices if asked.parameters.normalises else 0
    return 8 * (held + (_TABLE * _numbers_of(features) if isinstance(features, maps.Table) else 0))


def _numbers_of(features: maps.Table) -> int:
    """With the constant."""
    return features.states * features.actions * (features.width + 1)


def _beside(asked: Asked, processors: int | None) -> int:
    """What it takes beside these while there is no table of transitions, to which they give way."""
    others = [event for event in asked.mechanisms if not _is_drawn(asked, event)]
    return _apart(asked, processors) - _learning(asked, asked.mechanisms) + _learning(asked, others)


def _behind(asked: Asked, processors: int | None) -> int:
    """What is taken beside blocks that have been kept. The room that they leave is for smaller arrays: a table by step
    gets pages of its own, and both are reserved then. One of first visits is counted as often as makes up for it."""
    by_step = isinstance(asked.parameters, apvi.Parameters)
    return _apart(asked, processors) if by_step else _beside(asked, processors)


def summing(asked: Asked) -> int:
    """Bytes, at most, of a machine that makes sums for it, by one thread and reading each block once: of large ones it
    keeps its own while it adds two others'."""
    tables = _partial(asked)
    kept = max(_COPIES * tables, _SMALL * min(tables, shares.LARGE))
    return _reading(asked, 1) + _stacks(asked, 1, 1) + _SENT * _told(asked) + kept


def scheduling(asked: Asked) -> int:
    """Bytes, at most, of a scheduler that passes on what machines are told and, whole, what they have made of it, for
    one training at a time."""
    return PROGRAM + _PASSED_ON * _told(asked) + _partial(asked)


def _partial(asked: Asked) -> int:
    """What is made for it at once, at most, on a machine of the cluster."""
    features = _features(asked)
    if isinstance(features, maps.Table):  # counts of each state and action are sent back, sums are made of them here
        return 8 * _STATISTICS * features.states * features.actions
    sizes = {True: 0, False: 0}  # a table of transitions is asked for by itself, when everything else is known
    for event in asked.mechanisms:
        sizes[_is_drawn(asked, event)] += _size(asked, event) * _entries(asked, event)
    return max(sizes.values())


def _told(asked: Asked) -> int:
    features = _features(asked)
    return 8 * _numbers_of(features) if isinstance(features, maps.Table) else 0


def _size(asked: Asked, event: events.Event) -> int:
    """Bytes of a number of a partial sum."""
    if not _is_drawn(asked, event):
        return 8
    if isinstance(asked.parameters, apvi.Parameters):
        return 4 if apvi.narrow(asked.schema, asked.units, asked.privacy, asked.parameters) else 8
    assert isinstance(asked.parameters, apvi_stationary.Parameters)
    return 4 if apvi_stationary.narrow(asked.schema, asked.units, asked.privacy, asked.parameters) else 8


def deriving(asked: Asked) -> int:
    """Bytes, at most, that a further policy of what such a training drew takes in a process that runs already: what was
    drawn, and what becomes of it. No block is read, and nothing is summed."""
    return _learning(asked, asked.mechanisms) + _written(asked)


def rehearsing(asked: Asked) -> int:
    """Bytes, at most, of the process that rehearses it, by one thread: of the clinic behind a twin, of all its stays,
    which are one block, and of what learns from them."""
    played = requests.rehearsed(asked)
    learning = _regressing(played, 1) if _by_step(played) else _learning(played, played.mechanisms)
    return PROGRAM + _clinic(played.schema) + _stays(played) + _stacks(played, 1) + learning + _written(played)


def _clinic(schema: Schema) -> int:
    discrete = isinstance(schema.states, Discrete)
    return 8 * _CLINIC * schema.count * schema.actions * requests.SUCCESSORS if discrete else 0


def _stays(played: Asked) -> int:
    """As they are made up, a step at a time, and as they are learned from."""
    schema, features = played.schema, _features(played)
    records = played.units * (schema.horizon + 1)
    if isinstance(schema.states, Discrete):
        of_a_record = _PLAYED * (_TOGETHER if schema.per_unit > 1 else 1)
        of_a_unit = _PLAYED_UNIT + _HABIT * max(schema.actions, requests.SUCCESSORS)
    else:
        of_a_record = _PLAYED + _PLAYED_COLUMNS * len(schema.states.columns)
        of_a_unit = _PLAYED_UNIT + _CHOSEN * schema.actions
    seen = played.units if _by_step(played) else min(records, max(_SEEN, schema.horizon * schema.per_unit))
    width = features.width if isinstance(features, maps.Blocks) else 0
    return math.ceil(8 * (of_a_record * records + of_a_unit * played.units + _FEATURES * width * seen))


def _stacks(asked: Asked, threads: int, processors: int | None = None) -> int:
    """Of the threads that there are at once beside the first: those that read and add, or those that make a table or
    what becomes of it. Others get the stacks of those that ended."""
    tables, others = [event for event in asked.mechanisms if _is_drawn(asked, event)], threads - 1
    if tables:
        others = max(others, counts.MAKERS)
    if isinstance(asked.parameters, apvi_stationary.Parameters):
        pieces = -(-sum(_entries(asked, event) for event in tables) // kernels.CELLS)
        others = max(others, min(processors or sums.processors(), pieces))
    return _STACK * others


def _features(asked: Asked) -> maps.FeatureMap | None:
    found: maps.FeatureMap | None = getattr(asked.parameters, "features", None)
    return found


def _reading(asked: Asked, threads: int) -> int:
    """Features of vector states are computed, all steps of a block or one at a time; others are looked up."""
    features = _features(asked)
    width = features.width if isinstance(features, maps.Blocks) else 0
    rows, record = _block_rows(asked)
    steps = asked.schema.horizon if _by_step(asked) else 1
    return PROGRAM + threads * (rows * _BLOCK * record + -(-rows // steps) * _FEATURES * 8 * width)


def _block_rows(asked: Asked) -> tuple[int, int]:
    """Blocks are those of the whole dataset, also where a half is asked about."""
    return datasets.block_rows(asked.schema, asked.units if asked.half is None else 2 * asked.units + 1)


def _learning(asked: Asked, tables: Sequence[events.Event]) -> int:
    """The tables, and what becomes of them."""
    if isinstance(asked.parameters, apvi.Parameters):
        return _counting(asked, tables)
    return 8 * sum(_copies(asked, event) * _entries(asked, event) for event in tables)


def _counting(asked: Asked, tables: Sequence[events.Event]) -> int:
    """DP-APVI by step: visits and rewards, of which each is there twice when it has been summed; then these once, what
    was drawn, and which row of it is whose, or the scores. What else becomes of what was drawn is made in pieces."""
    drawn = [event for event in tables if _is_drawn(asked, event)]
    counted = [8 * _entries(asked, event) for event in tables if event not in drawn]
    rows = sum(_PLACES * _entries(asked, event) // event.shape[-1] for event in drawn)
    rows += sum(_size(asked, event) * _entries(asked, event) for event in drawn)
    pieces = _PIECES * 8 * max(apvi.PIECE, asked.schema.count + 1)
    return pieces + max(2 * sum(counted), sum(counted) + max(counted) + rows)


def _copies(asked: Asked, event: events.Event) -> int:
    if isinstance(asked.parameters, apvi_stationary.Parameters):
        return _DENOISED
    return _SHRUNK if isinstance(asked.parameters, pae.Parameters) else _COPIES


def _is_drawn(asked: Asked, event: events.Event) -> bool:
    """Whether it is a table of which only some rows are: transitions, at each step or of all."""
    steps = {apvi.Parameters: 1, apvi_stationary.Parameters: 0}.get(type(asked.parameters))
    return steps is not None and len(event.shape) > 2 + steps


def _entries(asked: Asked, event: events.Event) -> int:
    """Of a table that is drawn lazily, those rows alone that may have enough visits."""
    whole, parameters = math.prod(event.shape), asked.parameters
    if isinstance(parameters, apvi.Parameters) and _is_drawn(asked, event):
        rows = apvi.likely_rows(asked.schema, asked.units, asked.privacy, parameters)
        return min(whole, rows * event.shape[-1], apvi.MAX_DRAWN)
    if isinstance(parameters, apvi_stationary.Parameters) and _is_drawn(asked, event):
        rows = apvi_stationary.likely_rows(asked.schema, asked.units, asked.privacy, parameters)
        return min(whole, rows * event.shape[-1], apvi_stationary.MAX_DRAWN)
    if event.statistic == outcomes.Transitions.name:  # the rows that some policy may need
        return min(fqe.most_drawn(asked.schema), fqe.MAX_DRAWN)
    return whole


def reuse_small() -> None:
    """The same in a process that lives on: tables and what is kept are given back, because the next training has
    others."""
    reuse(_PASSING)


def reuse(largest: int = _LARGE) -> None:
    """Keep what is freed for the next arrays, in a process that ends with its sums: threads that give pages back and
    ask for them again wait for each other, a quarter of their time. Only glibc is told; others are as they are."""
    with contextlib.suppress(AttributeError):
        change = ctypes.CDLL(None).mallopt
        change(_ARENAS, 1)  # those of threads are too small for large arrays
        change(_FROM_THE_SYSTEM, largest)
        change(_GIVEN_BACK, _NEVER)


def limit(found: Settings) -> int:
    """Bytes that one training may take: what is set, or an equal share of the machine."""
    return found.training_megabytes * MEGABYTE or machine() // max(1, found.workers)


def cluster_limit(found: Settings) -> int:
    """Bytes of one `cluster work`: what is set, or an equal share of the host for each of its processors, because as
    many are to be started. They do not see each other, and too little is said before a charge."""
    return found.training_megabytes * MEGABYTE or machine() // sums.processors()


def deriving_limit(found: Settings) -> int:
    """Bytes of all derivations at once, which the API makes in its own process, and of a rehearsal, in another one of
    the same container: what one training may take, or this container if that is less, beside the program."""
    return min(limit(found), machine()) - PROGRAM


def processors(found: Settings) -> int:
    """Those that one training may use: what is set, or an equal share of what this process may."""
    ours = sums.processors()
    return min(ours, found.training_processors or max(1, ours // max(1, found.workers)))


def machine() -> int:
    """Bytes that this machine has, or this container may take."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(_CONTAINER.read_text()))
    except (OSError, ValueError):  # none, or "max"
        return physical


def check(asked: Asked, found: Settings) -> None:
    most = limit(found)
    wanted = need(asked, processors(found), most)
    if wanted > most:
        raise errors.ProblemTooLarge(
            f"This training needs up to {-(-wanted // MEGABYTE)} MB of memory and may take {most // MEGABYTE}; use "
            "fewer states, actions, terms or steps, or have DISCRETION_TRAINING_MEGABYTES raised."
        )
    has = found.cluster_megabytes
    if has and (elsewhere := summing(asked)) > has * MEGABYTE:
        raise errors.ProblemTooLarge(
            f"Sums of this training need up to {-(-elsewhere // MEGABYTE)} MB of memory on a machine of the cluster, "
            f"which has {has}; use fewer states, actions, terms or steps, or have machines with more, and "
            "DISCRETION_CLUSTER_MEGABYTES raised."
        )


def check_rehearsing(asked: Asked, found: Settings) -> None:
    wanted, most = rehearsing(asked), deriving_limit(found)
    if wanted > most:
        raise errors.ProblemTooLarge(
            f"A rehearsal of this training needs up to {-(-wanted // MEGABYTE)} MB of memory and may take "
            f"{max(0, most) // MEGABYTE}; use fewer states, actions, columns or terms, or have "
            "DISCRETION_TRAINING_MEGABYTES raised, and the API's own memory if that is less."
        )


def check_deriving(asked: Asked, found: Settings) -> None:
    wanted, most = deriving(asked), deriving_limit(found)
    if wanted > most:
        raise errors.ProblemTooLarge(
            f"A further policy of this training needs up to {-(-wanted // MEGABYTE)} MB of memory and may take "
            f"{max(0, most) // MEGABYTE}; have DISCRETION_TRAINING_MEGABYTES raised, and the API's own memory if that "
            "is less."
        )
