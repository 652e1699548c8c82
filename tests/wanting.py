"""A machine of a cluster that lacks something, and was fit when it was asked.

WANTING=memory python -m tests.wanting cluster work       a sum needs more memory than there is
WANTING=software python -m tests.wanting cluster work     it does not know what a share is, as another version would
"""

import os
import sys
from typing import NoReturn

import numpy as np

from discretion import cli, shares


def _too_much(share: shares.Share) -> NoReturn:
    np.ones(2**55, np.uint8)
    sys.exit("There is too much memory here.")


def _otherwise(share: shares.Share, *, version: int) -> shares.Made:
    return version


if __name__ == "__main__":
    if os.environ["WANTING"] == "memory":
        vars(shares)["_read"] = _too_much
    else:
        vars(shares)["add"] = _otherwise
    cli.app(prog_name="discretion")
