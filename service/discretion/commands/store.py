"""The store of datasets: whether it can be used, and the keys that encrypt it."""

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from discretion import audit, catalogue, database, datasets, sealing, settings, shelves
from discretion.commands import terminal

_ACTOR: Final = "command line"  # in the audit log

app = typer.Typer()
store_app = typer.Typer(no_args_is_help=True, help="The store of datasets, and the keys that encrypt it.")
app.add_typer(store_app, name="store")


@store_app.command("key")
def make_key() -> None:
    """Print a new master key, which is kept nowhere: put it first into the file named by DISCRETION_STORE_KEY_FILE."""
    made = sealing.new_key()
    typer.echo(f"key {sealing.name_of(made)}", err=True)
    typer.echo(made.hex())


@store_app.command("check")
def check_store() -> None:
    """Write a little to the store, read it back and delete it; exits 2 and says why if that does not do."""
    with terminal.told():
        datasets.probe(settings.read())
    typer.echo("The store can be written, read and cleared.")


@store_app.command("rotate")
def rotate_keys(
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing about single datasets.")] = False,
) -> None:
    """Bring every dataset under the first master key; run it until nothing changes, then take the old key away."""
    found, changed = settings.read(), 0
    with terminal.told(), closing(shelves.opened(found)) as shelf:
        engine = database.engine(found.database_url)
        database.check(engine)
        with database.snapshot(engine) as connection:
            wanted = catalogue.ready_folders(connection)
        for dataset, folder in wanted:
            # Under the dataset's lock: it could be retired meanwhile, and its manifest written again after that.
            with database.transaction(engine) as connection:
                if not catalogue.hold(connection, dataset) or not shelves.rotate(shelf.place(folder)):
                    continue
                audit.record(connection, _ACTOR, "store.rotate", dataset, at=datetime.now(UTC))
            changed += 1
            if not quiet:
                typer.echo(dataset)
        engine.dispose()
    typer.echo(f"{changed} of {len(wanted)} datasets changed.", err=True)
