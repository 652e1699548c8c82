"""The Python client: a dataframe of 10⁶ rows sent by it, beside the same rows as a ready file sent by httpx alone."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
from tests import services

from benchmarks.rows import Row, row
from discretion.client import Client, frames, sources

ROWS = 10**6
HORIZON = 20
SCHEMA = {
    "horizon": HORIZON,
    "states": {"kind": "discrete", "count": 716},
    "actions": {"count": 25},
    "reward": {"low": 0, "high": 1},
}
NAMED = {"unit": "icustayid", "step": "bloc", "state": "cluster", "action": "dose", "reward": "gain"}
_TIMES = 5
_CHUNK = 2**20


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, services.serve(Path(folder) / "service", workers=0) as service:
        custodian = service.key("custodian")
        ready = Path(folder) / "rows.parquet"
        pyarrow.parquet.write_table(_renamed(_frame(ROWS)), ready)
        ours, peers = [], []
        for _ in range(_TIMES):
            ours.append(
                _isolated("client", service.url, custodian.token, services.new_dataset(custodian, schema=SCHEMA))
            )
            dataset = services.new_dataset(custodian, schema=SCHEMA)
            peers.append(_isolated("httpx", service.url, custodian.token, dataset, str(ready)))
    rate, peer = (ROWS / min(seconds for seconds, *_ in runs) for runs in (ours, peers))
    _, taken, size = max(ours, key=lambda run: run[1])  # no upload may take more
    name = "upload of a dataframe of 10⁶ rows by the client"
    yield row(name, "rows/s", rate, "the same rows as a Parquet file, plain httpx", peer, "ratio ≥ 0.5")
    yield row(f"{name}: memory, the frame included", "MB", taken, "the frame", size, "ratio ≤ 2")


def _frame(rows: int) -> pandas.DataFrame:
    draw, units = np.random.default_rng(0), rows // HORIZON
    return pandas.DataFrame(
        {
            "icustayid": np.repeat(np.arange(units), HORIZON),
            "bloc": np.tile(np.arange(1, HORIZON + 1), units),
            "cluster": draw.integers(716, size=rows),
            "dose": draw.integers(25, size=rows),
            "gain": np.round(draw.random(rows), 3),
        }
    )


def _renamed(frame: pandas.DataFrame) -> pa.Table:
    table = pa.table(frame).rename_columns(list(NAMED))
    return table.set_column(0, "unit", table.column("unit").cast(pa.string()))


def _isolated(*arguments: str) -> list[float]:
    """The figures of one of the jobs below, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.client", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(figure) for figure in done.stdout.split()]


def _by_client(url: str, token: str, dataset: str) -> None:
    """Seconds, and megabytes: at the peak beyond what the empty program needs, and of the frame alone."""
    for _ in frames.parquet(frames.converted(sources.of(_frame(1000)), SCHEMA, NAMED)):
        pass  # whatever is imported or set up once is there before the frame is
    with Client(url, token, trust_env=False) as custodian:
        custodian.dataset(dataset)
        empty = _megabytes("VmRSS")
        frame = _frame(ROWS)
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making it
        began = time.perf_counter()
        custodian.upload(dataset, frame, NAMED)
        seconds = time.perf_counter() - began
    print(seconds, _megabytes("VmHWM") - empty, frame.memory_usage(deep=True).sum() / 2**20)


def _by_httpx(url: str, token: str, dataset: str, path: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/vnd.apache.parquet"}
    with httpx.Client(base_url=url, trust_env=False, timeout=None) as client, open(path, "rb") as file:
        client.get(f"/v1/datasets/{dataset}", headers=headers).raise_for_status()
        began = time.perf_counter()
        chunks: Any = iter(lambda: file.read(_CHUNK), b"")
        client.put(f"/v1/datasets/{dataset}/trajectories", content=chunks, headers=headers).raise_for_status()
        print(time.perf_counter() - began)


def _megabytes(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    jobs: dict[str, Callable[..., None]] = {"client": _by_client, "httpx": _by_httpx}
    jobs[sys.argv[1]](*sys.argv[2:])
