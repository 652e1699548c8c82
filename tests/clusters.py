"""A cluster of our own for the tests: certificates of one authority, a scheduler, machines."""

import contextlib
import ipaddress
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests import services

_DAY = timedelta(days=1)


def certificates(folder: Path, *, ended: bool = False) -> dict[str, Path]:
    """An authority's certificate, and one of it with its key, as settings name them."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")]), datetime.now(UTC)
    end = now - _DAY if ended else now + _DAY

    def certificate(public: ec.EllipticCurvePublicKey, name: x509.Name, ca: bool) -> x509.Certificate:
        made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(public)
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - 2 * _DAY).not_valid_after(end)
        made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return made.add_extension(names, critical=False).sign(authority, hashes.SHA256())

    pem = serialization.Encoding.PEM
    machine = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "machine")])
    files = {f"cluster_{name}_file": folder / name for name in ("ca", "certificate", "key")}
    files["cluster_ca_file"].write_bytes(certificate(authority.public_key(), issuer, True).public_bytes(pem))
    files["cluster_certificate_file"].write_bytes(certificate(key.public_key(), machine, False).public_bytes(pem))
    files["cluster_key_file"].write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@dataclass
class Cluster:
    folder: Path
    settings: dict[str, Any]  # of whoever has sums made here
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self,
        command: str,
        prefix: tuple[str, ...] = (),
        module: str = "discretion",
        environment: Mapping[str, str] | None = None,
        **more: object,
    ) -> subprocess.Popen[bytes]:
        """`prefix` runs it elsewhere."""
        whole = services.environment(self.folder, **(self.settings | more))
        if environment is not None:
            path = f"{environment.get('PYTHONPATH', '')}:{whole['PYTHONPATH']}".strip(":")
            whole |= {**environment, "PYTHONPATH": path}
        with (self.folder / "log").open("ab") as log:
            named = [*prefix, sys.executable, "-m", module, "cluster", command]
            self.running.append(subprocess.Popen(named, env=whole, stdout=log, stderr=log))
        return self.running[-1]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def ready(self, machines: int) -> None:
        """Until so many have said that they make sums; each says so again when it comes back."""
        services.wait_until(lambda: self.log.count("Making sums") >= machines, 60)

    def check(self, **more: object) -> tuple[int, str]:
        command = [sys.executable, "-m", "discretion", "cluster", "check"]
        environment = services.environment(self.folder, **(self.settings | more))
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(30)


@contextlib.contextmanager
def cluster(folder: Path, machines: int = 2, **settings: object) -> Iterator[Cluster]:
    """A scheduler and some machines until the block ends; `settings` are of the store."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {"cluster": f"tls://127.0.0.1:{free_port()}"} | certificates(folder / "tls") | settings
    made = Cluster(folder, named)
    try:
        made.start("schedule")
        services.wait_until(lambda: "Scheduling" in made.log, 60)
        for _ in range(machines):
            made.start("work")
        made.ready(machines)
        yield made
    finally:
        made.stop()


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)


def ports(process: subprocess.Popen[bytes]) -> set[int]:
    """Those at which a process listens."""
    folder = Path(f"/proc/{process.pid}")
    open_ones = set()
    for each in (folder / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it may be closed between the listing and the look
            open_ones.add(os.readlink(each))
    rows = [line.split() for name in ("tcp", "tcp6") for line in (folder / "net" / name).read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in open_ones]
    return {int(row[1].rpartition(":")[2], 16) for row in listening}


# --- what `tests.summed` wrote down -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """One time that it was made, or was about to be: by the cluster, and in the worker's own process."""

    number: str
    began: float
    ended: float | None = None
    made: str = ""
    ours: str = ""


def sums(folder: Path) -> list[Sum]:
    """In the order in which they began; one that was broken off has no end."""
    found: list[Sum] = []
    for at, number, made, ours in _lines(folder / "sums"):
        if made == "begins":
            found.append(Sum(number, float(at)))
        else:
            found[-1] = Sum(number, found[-1].began, float(at), made, ours)
    return found


def same(found: list[Sum]) -> bool:
    """Each came to what it comes to in one process, and to one thing however often it was made."""
    ended = [each for each in found if each.ended is not None]
    ours = {each.number: each.ours for each in ended}
    return all(each.made == each.ours == ours[each.number] for each in ended)


def summing(folder: Path, at: float) -> set[int]:
    """The machines, by process, that were in the middle of a block at that time, while a sum was not there yet. One
    that was killed there still is."""
    last = _last(folder, at)
    if last is None or (last.ended is not None and last.ended <= at):
        return set()
    begun: dict[str, float] = {}
    found: set[int] = set()
    for when, process, what in _lines(folder / "reads"):
        if what == "begins":
            begun[process] = float(when)
        elif begun.pop(process, at) < at < float(when):
            found.add(int(process))
    return found | {int(process) for process, began in begun.items() if began < at}


def between(folder: Path, at: float) -> bool:
    """Whether a sum was made by then, and the next had not begun."""
    last = _last(folder, at)
    return last is not None and last.ended is not None and last.ended < at


def _last(folder: Path, at: float) -> Sum | None:
    """The last one that had begun."""
    return max((each for each in sums(folder) if each.began < at), key=lambda each: each.began, default=None)


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []
