"""How much memory a training takes, from public sizes alone, and how much it may take here.

The need is what the learner holds at most: a few blocks of the data as they are read and bounded, and its tables. It is
a function of schema, number of units and request, so whoever asks may be told the figure.
"""

import math
import os
from pathlib import Path
from typing import Final

from discretion import datasets, errors, shares
from discretion.learning import apvi, apvi_stationary
from discretion.privacy import events
from discretion.requests import Asked
from discretion.settings import Settings

MEGABYTE: Final = 2**20
_PROGRAM: Final = 256 * MEGABYTE  # interpreter, numpy, Arrow, a connection
_BLOCKS: Final = 12  # times the bytes of a block's records: as stored, as columns, padded, by step, of two threads
_COPIES: Final = 3  # of a table: its sum, the noise or what was drawn, what is made of it
_SMALL: Final = 8  # partial sums that a machine holds if they are not large
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")


def need(asked: Asked) -> int:
    """Bytes, at most, of the process that learns."""
    return _reading(asked) + _COPIES * _tables(asked)


def summing(asked: Asked) -> int:
    """Bytes, at most, of a machine that makes sums for it: of large ones it keeps its own while it adds two others'."""
    tables = _tables(asked)
    return _reading(asked) + max(_COPIES * tables, _SMALL * min(tables, shares.LARGE))


def _reading(asked: Asked) -> int:
    width = int(getattr(getattr(asked.parameters, "features", None), "width", 0) or 0)
    rows, record = datasets.block_rows(asked.schema, asked.units)
    return _PROGRAM + rows * (_BLOCKS * record + 4 * 8 * width)


def _tables(asked: Asked) -> int:
    return 8 * sum(_entries(asked, event) for event in asked.mechanisms)


def _entries(asked: Asked, event: events.Event) -> int:
    """Of a table that is drawn lazily, those rows alone that may have enough visits."""
    whole = math.prod(event.shape)
    if isinstance(asked.parameters, apvi.Parameters) and len(event.shape) > 3:
        enough = max(1.0, apvi.trusted_from(asked.schema, asked.units, asked.privacy, asked.parameters) / 4)
        rows = asked.schema.horizon * math.ceil(asked.units * asked.schema.per_unit / enough)
        return min(whole, rows * event.shape[-1], apvi.MAX_DRAWN)
    if isinstance(asked.parameters, apvi_stationary.Parameters):
        return min(whole, apvi_stationary.MAX_DRAWN)
    return whole


def limit(found: Settings) -> int:
    """Bytes that one training may take: what is set, or an equal share of the machine."""
    return found.training_megabytes * MEGABYTE or machine() // max(1, found.workers)


def machine() -> int:
    """Bytes that this machine has, or this container may take."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(_CONTAINER.read_text()))
    except (OSError, ValueError):  # none, or "max"
        return physical


def check(asked: Asked, found: Settings) -> None:
    wanted, most = need(asked), limit(found)
    if wanted > most:
        raise errors.ProblemTooLarge(
            f"This training needs up to {-(-wanted // MEGABYTE)} MB of memory and may take {most // MEGABYTE}; use "
            "fewer states, actions, terms or steps, or have DISCRETION_TRAINING_MEGABYTES raised."
        )
