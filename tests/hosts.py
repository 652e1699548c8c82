"""Two or three hosts on one machine: network namespaces with a cable between them that can be pulled.

    unshare --net python -m …      is the first host; `Other()` makes the second, and runs commands there

Another `Other` with a number of its own is a third, and a `Line` joins the two without the first. All see one disk, so
whatever is to be apart has to be asked for by address.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = "10.77.0.1"
THERE: Final = "10.77.0.2"
_SOON: Final = 30.0  # seconds in which a process that is killed is dead
_NOBODY: Final = "02:00:00:00:00:01"  # the address of no card
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
    """The second host, or a third; who makes it is on the first."""

    def __init__(self, number: int = 77) -> None:
        self.address, self._cable = f"10.{number}.0.2", f"cable{number}"
        self._keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.prefix = ("nsenter", f"--net=/proc/{self._keeper.pid}/ns/net")
        ours = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{self._keeper.pid}/ns/net").st_ino == ours:
            time.sleep(0.01)
        _ip("link set lo up")
        _ip(f"link add {self._cable} type veth peer name there netns {self.process}")
        _ip(f"address add 10.{number}.0.1/24 dev {self._cable}")
        _ip("link set lo up", *self.prefix)
        _ip(f"address add {self.address}/24 dev there", *self.prefix)
        _ip("link set there up", *self.prefix)
        self.plug()
        if self.address != THERE:
            _ip(f"route add {HERE} via 10.{number}.0.1", *self.prefix)

    @property
    def process(self) -> int:
        return self._keeper.pid

    def plug(self) -> None:
        _ip(f"link set {self._cable} up")

    def pull(self) -> None:
        _ip(f"link set {self._cable} down")

    def reaches_us(self) -> bool:
        with socket.create_server((HERE, 0)) as door:
            port = door.getsockname()[1]
            knock = f"import socket; socket.create_connection(('{HERE}', {port}), 1)"
            return subprocess.run([*self.prefix, sys.executable, "-c", knock], capture_output=True).returncode == 0

    @property
    def running(self) -> list[int]:
        """Every process there, whoever started it."""
        there, found = os.stat(f"/proc/{self.process}/ns/net").st_ino, []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.stat(entry / "ns" / "net").st_ino == there:
                    found.append(int(entry.name))
        return [each for each in found if each != self.process]

    def die(self) -> None:
        """All that runs there, at once; the host can be used again, and its cable is as it was."""
        end = time.monotonic() + _SOON
        while found := self.running:
            assert time.monotonic() < end, f"not dead within {_SOON} s: {found}"
            for each in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            time.sleep(0.01)

    def end(self) -> None:
        try:
            self.die()
        finally:
            self._keeper.kill()
            self._keeper.wait()


class Line:
    """Between two others. A firewall on it lets nothing pass and says nothing; both still reach the first host."""

    def __init__(self, one: Other, two: Other) -> None:
        self._ends = ((one, two), (two, one))
        _ip(f"link add line netns {one.process} type veth peer name line netns {two.process}")
        for end, far in self._ends:
            _ip("link set line up", *end.prefix)
            _ip(f"route add {far.address} dev line src {end.address}", *end.prefix)

    def close(self) -> None:
        """What is sent arrives at nobody's card."""
        for end, far in self._ends:
            _ip(f"neigh replace {far.address} lladdr {_NOBODY} dev line nud permanent", *end.prefix)

    def open(self) -> None:
        for end, far in self._ends:
            _ip(f"neigh del {far.address} dev line", *end.prefix)


@contextlib.contextmanager
def other(number: int = 77) -> Iterator[Other]:
    made = Other(number)
    try:
        yield made
    finally:
        made.end()


if __name__ == "__main__":
    with other() as tried:
        assert tried.reaches_us()
        tried.pull()
        assert not tried.reaches_us()
