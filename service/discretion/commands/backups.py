"""Copies of the whole service that can be trusted, and their way back."""

from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from discretion import backups, restores, serving, settings
from discretion.commands import terminal


class _Folders(typer.core.TyperGroup):
    """`backup DIR` makes one: whatever is no command is a folder's name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["create", *args])


app = typer.Typer()
backup_app = typer.Typer(cls=_Folders, no_args_is_help=True, help="Copy database and store, while the service works.")
app.add_typer(backup_app, name="backup")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The backup's folder.")]
Keys = Annotated[
    Path | None, typer.Option("--keys", help="The service's public keys (JWKS), kept elsewhere than the backup.")
]


@backup_app.command("create")
def create_backup(
    folder: Folder,
    with_signing_key: Annotated[
        bool, typer.Option("--with-signing-key", help="Put the private key that signs certificates in as well.")
    ] = False,
) -> None:
    """Make a backup in a new folder: whole and read back, or not at all. It holds patients' rows."""
    with terminal.told(), serving.privately():
        made = backups.create(settings.read(), folder, with_signing_key=with_signing_key)
    typer.echo(_described(made))


@backup_app.command("verify")
def verify_backup(folder: Folder, keys: Keys = None) -> None:
    """Check every byte of a backup and every ledger in it; exits 1 if something does not hold."""
    with terminal.told():
        found = backups.verify(folder, _text(keys))
    typer.echo(_described(found))


@app.command("restore")
def restore_backup(
    folder: Folder,
    head: Annotated[
        list[Path] | None, typer.Option(help="A signed head of a ledger, or a folder of them, that was kept elsewhere.")
    ] = None,
    keys: Keys = None,
    settle: Annotated[
        bool, typer.Option("--settle", help="Take what heads say was charged since off the budgets, and go back.")
    ] = False,
    without_heads: Annotated[
        bool, typer.Option("--without-heads", help="No head was ever kept: trust that nothing was charged since.")
    ] = False,
) -> None:
    """Put a backup into an empty database and folder; refused if a signed head tells of more than the backup."""
    with terminal.told(), serving.privately():
        made = restores.restore(
            settings.read(), folder, kept=head or [], listed=_text(keys), settle=settle, unseen=without_heads
        )
    typer.echo(_described(made.backup))
    typer.echo(f"Restored; ledgers that add up: {made.populations}.")
    if made.failed:
        typer.echo(f"Trainings that were drawing when it was taken, and have failed: {made.failed}.")
    for lost in made.settled:
        typer.echo(f"Settled for {lost.population}: rows {lost.had + 1} to {lost.head['sequence']} are lost.")
    typer.echo("Revoke again what was revoked since, and retire again what was retired.")


def _text(path: Path | None) -> str | None:
    return None if path is None else path.read_text(encoding="utf-8")


def _described(found: backups.Backup) -> str:
    return (
        f"A backup of {found.at}: revision {found.revision}, {len(found.heads)} ledgers, {len(found.datasets)} "
        f"datasets, {len(found.parts)} files, {found.size} bytes."
    )
