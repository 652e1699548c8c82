"""The command line: which room a command lives in. A room is loaded when one of its commands is called, so that asking
for a plan does not wait for a database and a web server to be imported."""

import importlib
import os
from types import SimpleNamespace
from typing import Annotated, Any, Final

import typer
import typer.core

import discretion

_ROOMS: Final = {
    "connection": ("login", "logout"),
    "datasets": ("datasets", "upload", "grants", "budget"),
    "trainings": ("plan", "train", "evaluate", "trainings", "policies"),
    "rehearsals": ("rehearse",),
    "papers": ("decide", "verify"),
    "ledgers": ("ledgers",),
    "operations": ("serve", "work", "migrate", "keys", "ledger", "openapi", "demo"),
    "store": ("store",),
    "cluster": ("cluster",),
    "backups": ("backup", "restore"),
    "upkeep": ("doctor", "prune"),
    "paper": ("simulate",),
}
# What Arrow's allocator reads when it is loaded: the memory of trainings, and of machines of a cluster, is fenced by
# what they reserve, and of a gigabyte that nobody uses yet nothing shall count.
_RESERVED: Final = {"MIMALLOC_ARENA_EAGER_COMMIT": "0"}
# What BLAS reads when it is loaded: a machine of a cluster has one thread, because a host has one for each processor.
# Told later, BLAS would have its threads already, and their stacks.
_ALONE: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_HOMES: Final = {command: room for room, commands in _ROOMS.items() for command in commands}


class _Rooms(typer.core.TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _HOMES:
            return None
        if cmd_name in ("work", "cluster"):
            os.environ.update(_RESERVED)
        if cmd_name == "cluster":
            os.environ.update(_ALONE)
        room = importlib.import_module(f"discretion.commands.{_HOMES[cmd_name]}")
        return typer.main.get_group(room.app).commands[cmd_name]

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Names without what they do: a shell that waits for every room to be loaded is slower than typing."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [SimpleNamespace(type="plain", value=name, help=None) for name in _HOMES if name.startswith(incomplete)]


# A fault of ours is told plainly: frames with lines of code and never with values.
app = typer.Typer(name="discretion", cls=_Rooms, no_args_is_help=True, pretty_exceptions_enable=False)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discretion {discretion.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Policies learned from treatment histories, with a privacy promise that can be checked."""
