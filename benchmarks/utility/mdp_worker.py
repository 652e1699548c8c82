"""A real d3rlpy MDPDataset, read as the client reads it for an upload; prints the rows.

Started by `benchmarks.utility.cql` in d3rlpy's environment, with the folders where Discretion and what it needs are.
"""

# mypy: ignore-errors
import json
import sys

import d3rlpy
import numpy as np

sys.path.extend(sys.argv[2:])  # behind d3rlpy's own libraries
from discretion.client import sources


def main(asked: str) -> None:
    given = {name: np.array(values) for name, values in json.loads(asked).items()}
    space = d3rlpy.constants.ActionSpace.DISCRETE
    dataset = d3rlpy.dataset.MDPDataset(**given, action_space=space, action_size=2)
    source = sources.of(dataset)
    print(json.dumps([row for part in source.slices(source.names) for row in part.to_pylist()]))


if __name__ == "__main__":
    main(sys.argv[1])
