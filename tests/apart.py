"""Three hosts: a scheduler and a worker here, two machines elsewhere that both of them reach, and a line between the
machines that a firewall closes: before a training is charged, and in the middle of a sum.

    python -m tests.apart      on the first host (`tests.hosts`); prints what was seen
"""

import contextlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discretion import cluster, datasets, errors, sealing, settings, tables
from tests import clusters, dying, hosts, services

_WATCHED = {"SLOWLY": "0.5", "GLANCE": "2"}


@dataclass
class Stage:
    line: hosts.Line
    cluster: clusters.Cluster
    queue: dying.Queue
    machines: set[int]

    @property
    def folder(self) -> Path:
        return self.cluster.folder

    def check(self) -> str:
        try:
            return cluster.check(self.queue.found)
        except errors.ClusterUnfit as unfit:
            return str(unfit)

    def seen(self) -> dict[str, Any]:
        well = self.check()
        self.line.close()
        closed = self.check()
        training = self.queue.training(self.queue.dataset(units=100))
        watched = _WATCHED | {"SUMMED": str(self.folder)}
        with self.queue.running("tests.summed", "work", **self.cluster.settings, environment=watched):
            services.wait_until(lambda: "left waiting" in self.queue.log)
            before = [row.kind for row in self.queue.rows(tables.ledger, training)]
            self.line.open()
            services.wait_until(lambda: self.machines <= clusters.summing(self.folder, time.monotonic()))
            self.line.close()
            services.wait_until(lambda: "breaks off" in self.queue.log)
            self.line.open()
            ended = self.queue.ended(training)
        self.queue.check_charged_once(training)
        return {
            "well": well,
            "closed": closed,
            "before": before,
            "log": self.queue.log,
            "state": ended.state,
            "same_integers": clusters.same(clusters.sums(self.folder)),
        }


def _main(folder: Path) -> dict[str, Any]:
    (folder / "keys").write_text(sealing.new_key().hex())
    (folder / "store").mkdir(mode=0o700)
    named = {"store": f"file://{folder / 'store'}", "store_key_file": folder / "keys"}
    named |= clusters.certificates(folder / "tls") | {"cluster": f"tls://{hosts.HERE}:8786"}
    datasets._BLOCK = 2**10  # type: ignore[misc]
    with contextlib.ExitStack() as after:
        others = [after.enter_context(hosts.other(number)) for number in (77, 78)]
        line = hosts.Line(*others)
        made = clusters.Cluster(folder, named)
        after.callback(made.stop)
        made.start("schedule", host=hosts.HERE)
        services.wait_until(lambda: "Scheduling" in made.log, 60)
        watched = _WATCHED | {"SUMMED": str(folder)}
        machines = {made.start("work", other.prefix, "tests.summed", watched).pid for other in others}
        made.ready(2)
        (folder / "queue").mkdir()
        queue = dying.Queue(folder / "queue", f"sqlite:///{folder / 'queue' / 'discretion.db'}")
        after.callback(queue.close)
        queue.found = settings.read(queue.environment(**named))
        return Stage(line, made, queue, machines).seen()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(_main(Path(name))))
