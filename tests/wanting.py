"""A machine of a cluster that lacks something, and was fit when it was asked.

WANTING=memory python -m tests.wanting cluster work       a sum needs more memory than there is
WANTING=software python -m tests.wanting cluster work     it does not know what a share is, as another version would
WANTING=library python -m tests.wanting cluster work      it has another version of a library, and gives other integers
WANTING=store python -m tests.wanting cluster work        its store hangs
"""

import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from discretion import cli, shares
from discretion.learning import sums
from discretion.learning.schemas import IntArray


def _too_much(wanted: shares.Wanted, blocks: Sequence[int]) -> NoReturn:
    np.ones(2**55, np.uint8)
    sys.exit("There is too much memory here.")


def _otherwise(packed: bytes, *, version: int) -> shares.Made:
    return version


def _wrong(statistics: Sequence[sums.Statistic], *given: object, **named: object) -> list[IntArray]:
    """Of the right shape."""
    return [each.partial() for each in statistics]


def _other() -> shares.Versions:
    return _versions() | {"numpy": "1.0"}


def _hang(dataset: str | None) -> None:
    time.sleep(3600)


_versions = shares.versions

if __name__ == "__main__":
    if os.environ["WANTING"] == "memory":
        vars(shares)["_read"] = _too_much
    elif os.environ["WANTING"] == "library":
        vars(shares)["versions"] = _other
        vars(sums)["partials"] = _wrong
    elif os.environ["WANTING"] == "store":
        vars(shares)["why_not"] = _hang
    else:
        vars(shares)["add"] = _otherwise
    cli.app(prog_name="discretion")
