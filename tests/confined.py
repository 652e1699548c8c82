"""Runs a command in a network of its own that leads nowhere, and writes down every packet that tried to leave.

    unshare --net python -m tests.confined FOUND.json ROUTES COMMAND …

With ROUTES `none` there is a loopback address and nothing else, so the kernel refuses whoever wants out. That leaves no
packet, and a program that shrugs at the refusal would not be found out. With ROUTES `trap` there is a way to
everywhere, by an interface that nobody is at the other end of: whoever tries is seen.
"""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
_EVERYTHING: Final = 3  # ETH_P_ALL
_IPV4, _IPV6 = 0x0800, 0x86DD
_NAMES: Final = {6: "tcp", 17: "udp"}
_NEIGHBOURS: Final = ("224.0.0.", "ff02:")  # whom a kernel itself tells that an interface has come up
_DNS: Final = 53
_LOOPBACK: Final = "lo"


def command(found: Path, routes: str, *wanted: str) -> list[str]:
    """The same, ready to be run. Who is not root may be in a namespace of their own, where that is allowed."""
    whose = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", *whose, "--net", sys.executable, "-m", "tests.confined", str(found), routes, *wanted]


def missing() -> str | None:
    """Why it cannot be done here, if it cannot."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "a network of its own needs unshare (util-linux) and ip (iproute2)"
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(command(Path(folder) / "found", "trap", "true"), capture_output=True, cwd=_ROOT)
    return None if tried.returncode == 0 else "this machine lets nobody but root make a network of its own"


def _set_up(routes: str) -> None:
    steps = [f"link set {_LOOPBACK} up"]
    if routes == "trap":
        steps += ["link add trap arp off type veth peer name nobody", "link set nobody up", "link set trap up"]
        steps += ["address add 192.0.2.1/24 dev trap", "-6 address add 2001:db8::1/64 dev trap nodad"]
        steps += ["route add default dev trap", "-6 route add default dev trap"]
    for step in steps:
        subprocess.run(["ip", *step.split()], check=True)


def _seen(packet: bytes, protocol: int, interface: str) -> str | None:
    """Where a packet was going, if it was to leave or to ask for a name."""
    if protocol == _IPV4:
        kind, rest = packet[9], packet[(packet[0] & 15) * 4 :]
        address = socket.inet_ntop(socket.AF_INET, packet[16:20])
    elif protocol == _IPV6:
        kind, rest = packet[6], packet[40:]
        address = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return f"{interface}: protocol {protocol:#06x}" if interface != _LOOPBACK else None
    port = struct.unpack("!H", rest[2:4])[0] if kind in _NAMES and len(rest) >= 4 else 0
    if (kind not in _NAMES and address.startswith(_NEIGHBOURS)) or (interface == _LOOPBACK and port != _DNS):
        return None
    return f"{interface}: {_NAMES.get(kind, kind)} {address} {port}"


class _Capture:
    """Every packet of every interface, from the kernel itself."""

    def __init__(self) -> None:
        # Whole packets without the link's header, as AF_PACKET gives them to SOCK_DGRAM.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERYTHING))
        with contextlib.suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, 33, 2**26)  # SO_RCVBUFFORCE, so that none is dropped
        self._socket.settimeout(0.5)
        self.total, self.found = 0, set[str]()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                packet, (interface, protocol, *_) = self._socket.recvfrom(2**16)
            except TimeoutError:
                if self._done.is_set():
                    return
                continue
            self.total += 1
            if (seen := _seen(packet, protocol, interface)) is not None:
                self.found.add(seen)

    def dropped(self) -> int:
        """How many the kernel could not hand over."""
        return int(struct.unpack("II", self._socket.getsockopt(263, 6, 8))[1])  # SOL_PACKET, PACKET_STATISTICS

    def end(self) -> None:
        self._done.set()
        self._thread.join()


def main(found: str, routes: str, *wanted: str) -> int:
    _set_up(routes)
    capture = _Capture()
    done = subprocess.run(wanted)
    capture.end()
    report = {"packets": capture.total, "dropped": capture.dropped(), "leaving": sorted(capture.found)}
    Path(found).write_text(json.dumps(report), encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
