"""Two hosts on one machine: network namespaces with a cable between them that can be pulled.

    unshare --net python -m …      is the first host; `Other()` makes the second, and runs commands there

Both see one disk, so whatever is to be apart has to be asked for by address.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = "10.77.0.1"
THERE: Final = "10.77.0.2"
_CABLE: Final = "cable"
ROOT: Final = Path(__file__).parents[1]


def command(*wanted: str) -> list[str]:
    """Runs it on the first host. Who is not root may be in a namespace of their own, where that is allowed."""
    whose = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", *whose, "--net", sys.executable, "-m", *wanted]


def missing() -> str | None:
    """Why it cannot be done here, if it cannot."""
    if any(shutil.which(program) is None for program in ("unshare", "nsenter", "ip")):
        return "two hosts need unshare and nsenter (util-linux) and ip (iproute2)"
    tried = subprocess.run(command("tests.hosts"), capture_output=True, cwd=ROOT)
    return None if tried.returncode == 0 else "this machine lets nobody but root make a network of its own"


def _ip(step: str, *prefix: str) -> None:
    subprocess.run([*prefix, "ip", *step.split()], check=True)


class Other:
    """The second host; who makes it is on the first."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.prefix = ("nsenter", f"--net=/proc/{self._keeper.pid}/ns/net")
        ours = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{self._keeper.pid}/ns/net").st_ino == ours:
            time.sleep(0.01)
        _ip("link set lo up")
        _ip(f"link add {_CABLE} type veth peer name there netns {self._keeper.pid}")
        _ip(f"address add {HERE}/24 dev {_CABLE}")
        _ip("link set lo up", *self.prefix)
        _ip(f"address add {THERE}/24 dev there", *self.prefix)
        _ip("link set there up", *self.prefix)
        self.plug()

    def plug(self) -> None:
        _ip(f"link set {_CABLE} up")

    def pull(self) -> None:
        _ip(f"link set {_CABLE} down")

    def reaches_us(self) -> bool:
        with socket.create_server((HERE, 0)) as door:
            port = door.getsockname()[1]
            knock = f"import socket; socket.create_connection(('{HERE}', {port}), 1)"
            return subprocess.run([*self.prefix, sys.executable, "-c", knock], capture_output=True).returncode == 0

    def end(self) -> None:
        self._keeper.kill()
        self._keeper.wait()


@contextlib.contextmanager
def other() -> Iterator[Other]:
    made = Other()
    try:
        yield made
    finally:
        made.end()


if __name__ == "__main__":
    with other() as tried:
        assert tried.reaches_us()
        tried.pull()
        assert not tried.reaches_us()
