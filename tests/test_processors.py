"""Which processors a training has, and that no two workers have the same while there are others."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discretion import memory, processors, settings
from discretion.learning import sums
from tests import services
from tests.dying import Queue

OURS = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(OURS) < 2, reason="this machine has one processor")

# A worker that has taken its processors and says which, until its input ends.
HOLDING = """
import sys; from pathlib import Path; from discretion import processors
slot = processors.take(int(sys.argv[1]), Path(sys.argv[2]))
print(sorted(slot.processors), flush=True); sys.stdin.read()
"""
# What a training sees after that.
CONFINED = """
import json, sys; from pathlib import Path; import threadpoolctl; from discretion import processors
from discretion.learning import sums
processors.confine(processors.take(int(sys.argv[1]), Path(sys.argv[2])))
print(json.dumps([sums.processors(), [each["num_threads"] for each in threadpoolctl.threadpool_info()]]))
"""

# The program of a machine of a cluster, which ends at once because none is set, and how many threads BLAS has in it.
MACHINE = """
import json, threadpoolctl; from discretion import cli
try: cli.app(["cluster", "work"])
except SystemExit: print(json.dumps([each["num_threads"] for each in threadpoolctl.threadpool_info()]))
"""


@contextlib.contextmanager
def holding(many: int, file: Path) -> Iterator[list[int]]:
    command = [sys.executable, "-c", HOLDING, str(many), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.kill()


class TestTake:
    def test_who_may_use_all_takes_all_and_locks_nothing(self, tmp_path: Path) -> None:
        assert processors.take(len(OURS), tmp_path / "processors").processors == set(OURS)
        assert not (tmp_path / "processors").exists()

    @several
    def test_workers_have_different_ones_as_far_as_there_are(self, tmp_path: Path) -> None:
        file = tmp_path / "data" / "processors"
        with contextlib.ExitStack() as running:
            taken = [running.enter_context(holding(1, file)) for _ in OURS]
            assert sorted(itertools.chain(*taken)) == OURS
            with holding(1, file) as (shared,):
                assert shared in OURS

    @several
    def test_who_was_killed_lets_go(self, tmp_path: Path) -> None:
        with holding(1, tmp_path / "processors") as first:
            pass
        with holding(1, tmp_path / "processors") as second:
            assert second == first

    @several
    def test_where_no_lock_can_be_had_there_are_as_many(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        slot = processors.take(1, tmp_path / "file" / "processors")
        assert len(slot.processors) == 1
        assert slot.file is None


class TestConfine:
    @several
    def test_sums_and_blas_see_as_many_as_were_taken(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", CONFINED, "1", str(tmp_path / "processors")]
        unconfined = os.environ | {"OPENBLAS_NUM_THREADS": str(len(OURS))}  # what it has unless it is told otherwise
        seen, threads = json.loads(subprocess.run(command, check=True, capture_output=True, env=unconfined).stdout)
        assert seen == 1
        assert threads
        assert set(threads) == {1}


class TestMachines:
    @several
    def test_of_a_cluster_have_one_thread_for_blas_since_there_is_one_for_each_processor(self, tmp_path: Path) -> None:
        environment = services.environment(tmp_path) | {"OPENBLAS_NUM_THREADS": str(len(OURS))}
        command = [sys.executable, "-c", MACHINE]
        threads = json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
        assert threads
        assert set(threads) == {1}


class TestTrainings:
    @several
    def test_at_once_have_processors_of_their_own(self, tmp_path: Path) -> None:
        queue = Queue(tmp_path, f"sqlite:///{tmp_path / 'discretion.db'}")
        for _ in range(2):
            queue.training(queue.dataset(units=20))

        def seen() -> list[set[int]]:
            workers = services.children(process.pid)
            with contextlib.suppress(ProcessLookupError):
                found = [os.sched_getaffinity(each) for worker in workers for each in services.children(worker)]
                return found if len(found) == 2 and all(len(each) == 1 for each in found) else []
            return []

        with queue.worker(workers=2, training_processors=1) as process:
            first, second = services.wait_until(seen)
            assert first.isdisjoint(second)
        queue.close()


class TestSettings:
    def read(self, **more: Any) -> settings.Settings:
        return settings.read({f"DISCRETION_{name.upper()}": str(value) for name, value in more.items()})

    def test_without_any_they_are_shared_out_among_the_workers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sums, "processors", lambda: 8)
        shares = {workers: memory.processors(self.read(workers=workers)) for workers in (0, 1, 2, 3, 8, 20)}
        assert shares == {0: 8, 1: 8, 2: 4, 3: 2, 8: 1, 20: 1}

    def test_what_is_set_counts_as_far_as_there_are_as_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sums, "processors", lambda: 8)
        assert [memory.processors(self.read(training_processors=many, workers=8)) for many in (3, 100)] == [3, 8]
