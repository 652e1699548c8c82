"""The not-private peer: d3rlpy's DiscreteCQL, in an environment that is made for it once."""

import fcntl
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import discretion
from discretion.learning.schemas import FloatArray, IntArray
from discretion.learning.trajectories import ENDED, Block

_HERE: Final = Path(__file__).parent
_ENVIRONMENT: Final = _HERE.parents[1] / "build" / "d3rlpy"
STEPS: Final = 2_000  # of 256 transitions; more, or a faster rate, did worse on ICU-Sepsis


@dataclass(frozen=True, eq=False)
class Learned:
    """Its network: layers with a rectifier between them."""

    weights: list[FloatArray]
    biases: list[FloatArray]
    seconds: float

    def decide(self, observed: FloatArray) -> IntArray:  # (R, d) → (R,)
        reached = observed
        for index, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            reached = (np.maximum(reached, 0.0) if index else reached) @ weights.T + biases
        return np.asarray(reached.argmax(axis=1))

    def by_code(self) -> IntArray:
        """The decision for each one-hot observation."""
        return self.decide(np.eye(self.weights[0].shape[1]))


def python() -> Path:
    """The interpreter of the peer's environment; made if it is not there, which takes minutes and a package index."""
    given = os.environ.get("D3RLPY_PYTHON")
    if given:
        return Path(given)
    _ENVIRONMENT.parent.mkdir(exist_ok=True)
    with _ENVIRONMENT.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # the study's processes come here at once
        if not (_ENVIRONMENT / "ready").exists():
            _make()
    return _ENVIRONMENT / "bin" / "python"


def _make() -> None:
    venv.create(_ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(_ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    # The newest torch brings gigabytes for other hardware; this one is named first, so that d3rlpy takes it.
    for wanted in (["torch==2.13.0"], ["--requirement", str(_HERE / "cql.txt")]):
        subprocess.run([*pip, *wanted], check=True)
    (_ENVIRONMENT / "ready").touch()


def learn(block: Block, observed: Any, actions: int, codes: int = 0, steps: int = STEPS) -> Learned:
    """What CQL learns in that many steps from the same stays. `observed` is (H, B) numbers of one of so many `codes`,
    shown to it one-hot, or (H, B, d) columns."""
    horizon = np.arange(block.actions.shape[0])[:, None]
    rows = (horizon < block.lengths).T  # stay by stay
    last, ended = horizon + 1 == block.lengths, np.asarray(block.endings) == ENDED
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "data.npz", Path(folder) / "network.npz"
        np.savez(
            source,
            observed=np.swapaxes(np.asarray(observed), 0, 1)[rows],
            taken=np.asarray(block.actions).T[rows],
            rewards=np.asarray(block.rewards).T[rows],
            ends=(last & ended).T[rows],
            cuts=(last & ~ended).T[rows],
            codes=codes,
            actions=actions,
        )
        worker = [str(python()), str(_HERE / "cql_worker.py"), str(source), str(target), str(steps)]
        subprocess.run(worker, check=True, stdout=sys.stderr)
        with np.load(target) as found:
            layers = range((len(found.files) - 1) // 2)
            return Learned(
                [found[f"weights{index}"] for index in layers],
                [found[f"biases{index}"] for index in layers],
                float(found["seconds"]),
            )


# Two episodes of a real MDPDataset, one that ended and one that was cut, and what an upload of them must say.
_GIVEN: Final = {
    "observations": [[0, 9], [1, 8], [2, 7], [3, 6]],
    "actions": [[0], [1], [1], [0]],
    "rewards": [[0.0], [0.5], [1.0], [0.25]],
    "terminals": [0.0, 1.0, 0.0, 0.0],
    "timeouts": [0.0, 0.0, 0.0, 1.0],
}
_READ: Final = [
    (1, 1, [0, 9], [0], [0.0], False),
    (1, 2, [1, 8], [1], [0.5], True),
    (2, 1, [2, 7], [1], [1.0], False),
    (2, 2, [3, 6], [0], [0.25], False),
]


def uploads() -> bool:
    """Whether the client reads d3rlpy's own class; the tests, which have no d3rlpy, know it by a look-alike."""
    ours = [str(Path(discretion.__file__).parents[1]), sysconfig.get_path("purelib")]
    worker = [str(python()), str(_HERE / "mdp_worker.py"), json.dumps(_GIVEN), *ours]
    said = subprocess.run(worker, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = json.loads(said.splitlines()[-1])  # d3rlpy talks before
    names = ("unit", "step", "state", "action", "reward", "terminated")
    held = [tuple(row[name] for name in names) for row in rows] == _READ
    print("ok  a d3rlpy MDPDataset is read for an upload" if held else f"BAD a d3rlpy MDPDataset is read as {rows}")
    return held
