"""Looking after a service: what is wrong with it, and what it may forget."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from discretion import database, doctor, retention, serving, settings
from discretion.commands import connection, terminal

app = typer.Typer()


@app.command("doctor")
def examine(
    certificate: Annotated[
        Path | None, typer.Option(help="The proxy's TLS certificate (PEM), to see when it ends.")
    ] = None,
    as_json: connection.Json = False,
) -> None:
    """Check settings, permissions, clock, database, ledgers, store, keys and disk; exits 1 if something is bad."""
    with terminal.told(), serving.privately():
        found = list(doctor.examine(settings.read(), tls=certificate))
    if as_json:
        terminal.write([vars(each) for each in found])
    else:
        for each in found:
            typer.echo(terminal.printable(f"{each.state:<5}{each.check}: {each.words}"))
    if any(each.state == doctor.BAD for each in found):
        raise typer.Exit(terminal.WRONG)


@app.command()
def prune(
    older_than: Annotated[int, typer.Option("--older-than", metavar="DAYS", min=1, max=100_000)],
) -> None:
    """Forget entries of the audit log that are older, sessions that have ended, and what broken uploads left."""
    with terminal.told():
        found = settings.read()
        engine = database.engine(found.database_url)
        database.check(engine)
        age, now = timedelta(days=older_than), datetime.now(UTC)
        gone = retention.prune(engine, found, age, actor="command line", at=now)
        engine.dispose()
    typer.echo(f"Forgotten: {gone.entries} entries of the audit log, {gone.sessions} sessions.")
