"""The cluster that sums are made on: its two programs, and whether it can be used."""

import importlib
from typing import Any

import typer

from discretion import errors, logs, memory, premises, processes, serving, settings, summing
from discretion.commands import terminal

app = typer.Typer()
cluster_app = typer.Typer(no_args_is_help=True, help="A cluster of your own machines that sums are made on (Dask).")
app.add_typer(cluster_app, name="cluster")


@cluster_app.command("schedule")
def schedule() -> None:
    """Run the scheduler, at the port of DISCRETION_CLUSTER."""
    with terminal.told():
        found = _begun("cluster schedule")
        _hosting().schedule(found)


@cluster_app.command("work")
def work() -> None:
    """Make sums for the scheduler, one at a time; start as many as a host has processors, which share its memory."""
    with terminal.told():
        found = _begun("cluster work")
        most = memory.cluster_limit(found)
        memory.reuse_small()
        _hosting().work(found, most, lambda: processes.fence(most))


@cluster_app.command("check")
def check() -> None:
    """Ask scheduler and machines whether sums can be made there; exits 2 and says why if not."""
    with terminal.told():
        found = settings.read()
        premises.check(found, "cluster check")
        words = summing.check(found)
    typer.echo(words)


def _begun(command: str) -> settings.Settings:
    serving.harden()
    found = settings.read()
    logs.configure(found.log_format)
    premises.check(found, command)
    return found


def _hosting() -> Any:
    """Here, and not at the top: it brings Dask, which no other command needs."""
    try:
        return importlib.import_module("discretion.hosting")
    except ModuleNotFoundError:
        raise errors.InvalidSetting('A cluster needs Dask; install it: pip install "discretion[cluster]"') from None
