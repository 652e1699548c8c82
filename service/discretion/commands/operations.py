"""Running a service: its processes, its database, its keys and its ledgers."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer

from discretion import (
    audit,
    database,
    errors,
    identities,
    keys,
    ledger,
    logs,
    premises,
    processes,
    serving,
    settings,
    signatures,
    signing,
    statements,
    worker,
)
from discretion.commands import terminal

app = typer.Typer()
ledger_app = typer.Typer(no_args_is_help=True, help="The budget ledger.")
app.add_typer(ledger_app, name="ledger")
keys_app = typer.Typer(no_args_is_help=True, help="The API keys, and the key that signs certificates.")
app.add_typer(keys_app, name="keys")


@app.command()
def serve() -> None:
    """Run the service: API, worker and, unless DISCRETION_DATABASE_URL names another, an embedded database."""
    with terminal.told(), _damage():
        serving.main(_announce)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for policies, certificates and keys.")] = Path("build/demo"),
    patients: Annotated[int, typer.Option(hidden=True, min=10)] = 6000,
) -> None:
    """Show the whole job over HTTP on made-up patients: upload, plan, train, decide, derive, audit, verify."""
    from discretion import demo as story  # brings a made-up clinic, which nothing else here needs

    raise typer.Exit(0 if story.run(out, patients) else 1)


def _announce(token: str) -> None:
    """The first administrator's token, alone on its line; nobody can show it again."""
    typer.echo(token)
    sys.stdout.flush()


@app.command()
def work(
    with_parent: Annotated[
        int | None, typer.Option("--with-parent", help="The process that started this: end when it ends.")
    ] = None,
) -> None:
    """Run trainings, DISCRETION_WORKERS at once; any number of hosts share one database and store."""
    serving.harden()
    if with_parent is not None:
        processes.die_with_parent(with_parent)
    with terminal.told(), _damage():
        found = settings.read()
        logs.configure(found.log_format)
        if with_parent is None:  # else it has looked: what goes away later is waited for
            premises.check(found, "work")
        if found.workers > 1 and with_parent is None:
            serving.crew(found)
        else:
            worker.Worker(found).run()


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of this version."""
    from discretion.api import app as api  # which a worker does not have

    typer.echo(json.dumps(api.bare().openapi(), indent=2, ensure_ascii=False))


@app.command()
def migrate() -> None:
    """Bring the database up to this version, in one transaction; says each step."""
    with terminal.told(), serving.privately():
        found = settings.read()
        premises.check(found, "migrate")
        engine = database.engine(found.database_url)
        for step in database.migrate(engine, audit.migrated):
            typer.echo(f"{step.revision}: {step.purpose}")
        engine.dispose()
    typer.echo("The database is up to date.")


@ledger_app.command("verify")
def verify_ledger() -> None:
    """Re-derive every balance and chain; exits 1 if one does not add up."""
    with _damage(), _opened(database.snapshot) as connection:
        count = ledger.verify_all(connection)
    typer.echo(f"{count} {'ledger adds' if count == 1 else 'ledgers add'} up.")


@ledger_app.command("check")
def check_ledger(
    downloaded: Annotated[Path, typer.Argument(metavar="LEDGER", help="A whole ledger as downloaded.")],
    head: Annotated[Path, typer.Argument(help="Its signed head, downloaded now or earlier.")],
    jwks: Annotated[Path, typer.Option("--keys", help="The service's public keys (JWKS).")],
) -> None:
    """Check a downloaded ledger against a signed head, offline: an earlier head must still be part of the chain."""
    with _damage(), terminal.told():
        signed, _ = signatures.read(head.read_bytes(), jwks.read_bytes(), signatures.LEDGER_HEAD)
        found = statements.reckon(downloaded.read_bytes(), signed)
    typer.echo(f"{found.sequence} rows add up: {found.balance.charged} of {found.balance.total} charged.")


@keys_app.command("create")
def create_key(
    role: Annotated[
        str,
        typer.Option(help="admin, custodian, analyst or auditor.", autocompletion=terminal.offering(*keys.ROLES)),
    ],
    name: Annotated[str, typer.Option(help="Whose key it is.")] = "command line",
) -> None:
    """Make a key; its token is printed once, alone on standard output, and kept nowhere."""
    now = datetime.now(UTC)
    with _opened() as connection:
        made, token = keys.create(connection, name, role, at=now)
        audit.record(connection, audit.PROGRAM, "key.create", made.id, at=now)
    typer.echo(f"{made.id}, {made.role}: {made.name}", err=True)
    typer.echo(token)


@keys_app.command("replace")
def replace_token(key: Annotated[str, typer.Argument(help="The key's id.")]) -> None:
    """Give a key another token, for whoever lost theirs: it keeps what it owns, and the old token opens nothing."""
    now = datetime.now(UTC)
    with _opened() as connection:
        token = keys.replace(connection, key)
        audit.record(connection, audit.PROGRAM, "key.replace", key, at=now)
    typer.echo(token)


@keys_app.command("list")
def list_keys() -> None:
    """Show every key, without its token, and every identity that the provider has vouched for here."""
    with _opened() as connection:
        found, _ = keys.listed(connection, after=None, limit=1_000_000)
    rows = [
        {
            "id": key.id,
            "name": key.name if key.issuer is None else f"{key.name} (identity {key.subject})",
            "role": key.role,
            "created": key.created_at[:10],
            "revoked": key.revoked_at and key.revoked_at[:10],
        }
        for key in found
    ]
    terminal.show_table(terminal.listed(rows, ("id", "name", "role", "created", "revoked")))


@keys_app.command("revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="The key's id.")]) -> None:
    """Close a key, or refuse an identity from now on."""
    now = datetime.now(UTC)
    with _opened() as connection:
        revoked = keys.revoke(connection, key, at=now)
        audit.record(connection, audit.PROGRAM, f"{revoked.kind}.revoke", key, at=now)
    typer.echo(f"{key} opens nothing any more.")


@keys_app.command("reopen")
def reopen_identity(key: Annotated[str, typer.Argument(help="The identity's id.")]) -> None:
    """Let an identity of the provider in again that was revoked; it keeps what it owns."""
    now = datetime.now(UTC)
    with _opened() as connection:
        identities.reopen(connection, key)
        audit.record(connection, audit.PROGRAM, "identity.reopen", key, at=now)
    typer.echo(f"{key} may come in again.")


@keys_app.command("rotate")
def rotate_key() -> None:
    """Sign with a new key from now on; certificates signed before stay valid."""
    now = datetime.now(UTC)
    with _opened() as connection:
        made = signing.rotate(settings.read())
        signing.publish(connection, made, at=now)
        audit.record(connection, audit.PROGRAM, "signing-key.rotate", made.kid, at=now)
    typer.echo(f"Certificates are signed with key {made.kid} from now on.")


@contextmanager
def _opened(
    begin: Callable[[sa.Engine], AbstractContextManager[sa.Connection]] = database.transaction,
) -> Iterator[sa.Connection]:
    """A transaction on the configured database, if it is one this program knows."""
    with terminal.told():
        engine = database.engine(settings.read().database_url)
        try:
            database.check(engine)
            with begin(engine) as connection:
                yield connection
        finally:
            engine.dispose()


@contextmanager
def _damage() -> Iterator[None]:
    """A ledger that does not add up is exit code 1."""
    try:
        yield
    except errors.LedgerDamaged as damage:
        typer.echo(str(damage), err=True)
        raise typer.Exit(1) from None
