"""The not-private peer: d3rlpy's DiscreteCQL, in an environment that is made for it once."""

import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.utility.problems import Problem
from discretion.learning.trajectories import ENDED, Block, IntArray

_HERE: Final = Path(__file__).parent
_ENVIRONMENT: Final = _HERE.parents[1] / "build" / "d3rlpy"
STEPS: Final = 4_000  # of 256 transitions


@dataclass(frozen=True)
class Learned:
    decisions: IntArray  # (S,)
    seconds: float


def python() -> Path:
    """The interpreter of the peer's environment; made if it is not there, which takes minutes and a package index."""
    given = os.environ.get("D3RLPY_PYTHON")
    if given:
        return Path(given)
    ready = _ENVIRONMENT / "ready"
    if not ready.exists():
        venv.create(_ENVIRONMENT, clear=True, with_pip=True)
        pip = [str(_ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        # The newest torch brings gigabytes for other hardware; this one is named first, so that d3rlpy takes it.
        for wanted in (["torch==2.13.0"], ["--requirement", str(_HERE / "cql.txt")]):
            subprocess.run([*pip, *wanted], check=True)
        ready.touch()
    return _ENVIRONMENT / "bin" / "python"


def learn(problem: Problem, block: Block, steps: int = STEPS) -> Learned:
    """What CQL decides after that many steps on the same stays."""
    order = np.arange(block.actions.shape[0])[:, None] < block.lengths  # (H, B)
    rows = order.T  # stay by stay
    last = np.arange(block.actions.shape[0])[:, None] + 1 == block.lengths
    ended = np.asarray(block.endings) == ENDED
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "data.npz", Path(folder) / "policy.npz"
        np.savez(
            source,
            states=np.asarray(block.states).T[rows],
            actions=np.asarray(block.actions).T[rows],
            rewards=np.asarray(block.rewards).T[rows],
            ends=(last & ended).T[rows],
            cuts=(last & ~ended).T[rows],
            count=len(problem.first),
        )
        worker = str(_HERE / "cql_worker.py")
        subprocess.run(
            [str(python()), worker, str(source), str(target), str(steps)],
            check=True,
            stdout=sys.stderr,
        )
        with np.load(target) as found:
            return Learned(found["decisions"].astype(np.int64), float(found["seconds"]))
