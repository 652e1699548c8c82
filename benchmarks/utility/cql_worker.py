"""d3rlpy's DiscreteCQL on one dataset, in an environment of its own: not private, and never a dependency.

Started by `benchmarks.utility.cql` with the name of a file of arrays; saves the network and how long it took.
"""

# mypy: ignore-errors
import sys
import time

import d3rlpy
import numpy as np


def main(source: str, target: str, steps: str) -> None:
    with np.load(source) as data:
        observed, taken, rewards, ends, cuts, codes, actions = (
            data[name] for name in ("observed", "taken", "rewards", "ends", "cuts", "codes", "actions")
        )
    began = time.perf_counter()
    dataset = d3rlpy.dataset.MDPDataset(
        observations=np.eye(int(codes), dtype=np.float32)[observed] if codes else observed.astype(np.float32),
        actions=taken[:, None],
        rewards=rewards.astype(np.float32)[:, None],
        terminals=ends.astype(np.float32),
        timeouts=cuts.astype(np.float32),
        action_space=d3rlpy.constants.ActionSpace.DISCRETE,
        action_size=int(actions),
    )
    learner = d3rlpy.algos.DiscreteCQLConfig(batch_size=256, gamma=0.99).create(device="cpu")
    learner.fit(
        dataset,
        n_steps=int(steps),
        n_steps_per_epoch=int(steps),
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    seconds = time.perf_counter() - began
    layers = [value.detach().cpu().numpy() for value in learner.impl.q_function[0].state_dict().values()]
    named = {f"weights{index // 2}": layer for index, layer in enumerate(layers) if not index % 2}
    named |= {f"biases{index // 2}": layer for index, layer in enumerate(layers) if index % 2}
    probe = np.zeros((1, layers[0].shape[1]), dtype=np.float32)
    probe[0, 0] = 1.0
    if learner.predict(probe)[0] != _decided(layers, probe[0]):
        raise SystemExit("the network's layers are not what they are taken for")
    np.savez(target, seconds=seconds, **named)


def _decided(layers, observed):
    for index in range(0, len(layers), 2):
        observed = (np.maximum(observed, 0.0) if index else observed) @ layers[index].T + layers[index + 1]
    return observed.argmax()


if __name__ == "__main__":
    main(*sys.argv[1:])
