"""d3rlpy's DiscreteCQL on one dataset, in an environment of its own: not private, and never a dependency.

Started by `benchmarks.utility.cql` with the name of a file of arrays; prints what it took and saves what it decides.
"""

# mypy: ignore-errors
import sys
import time

import d3rlpy
import numpy as np


def main(source: str, target: str, steps: str) -> None:
    with np.load(source) as data:
        states, actions, rewards, ends, cuts = (data[n] for n in ("states", "actions", "rewards", "ends", "cuts"))
        count = int(data["count"])
    began = time.perf_counter()
    one_hot = np.eye(count, dtype=np.float32)
    dataset = d3rlpy.dataset.MDPDataset(
        observations=one_hot[states],
        actions=actions[:, None],
        rewards=rewards.astype(np.float32)[:, None],
        terminals=ends.astype(np.float32),
        timeouts=cuts.astype(np.float32),
        action_space=d3rlpy.constants.ActionSpace.DISCRETE,
        action_size=int(actions.max()) + 1,
    )
    learner = d3rlpy.algos.DiscreteCQLConfig(batch_size=256, gamma=0.99).create(device="cpu")
    learner.fit(
        dataset,
        n_steps=int(steps),
        n_steps_per_epoch=int(steps),
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    decisions = learner.predict(one_hot)
    np.savez(target, decisions=decisions, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
