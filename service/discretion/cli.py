"""The command line."""

from typing import Annotated

import typer

import discretion

app = typer.Typer(name="discretion", no_args_is_help=True, add_completion=False)


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
