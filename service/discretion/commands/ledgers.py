"""An auditor's commands: every ledger, and one to take along. What was taken is checked offline by `ledger check`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from discretion.commands import connection, terminal

ledgers_app = typer.Typer(help="The ledgers an auditor may see.")


@ledgers_app.callback(invoke_without_command=True)
def ledgers(context: typer.Context, as_json: connection.Json = False) -> None:
    """List the ledgers, or take one along."""
    if context.invoked_subcommand is None:
        list_ledgers(as_json)


@ledgers_app.command("list")
def list_ledgers(as_json: connection.Json = False) -> None:
    """Show whose budgets there are and how they stand."""
    with connection.service() as client:
        found = list(client.ledgers())
    shown = [each | each["budget"] | {"datasets": " ".join(each["datasets"])} for each in found]
    terminal.show(found, as_json, terminal.listed(shown, ("name", "total", "charged", "remaining", "datasets")))


@ledgers_app.command("download")
def download_ledger(
    dataset: Annotated[str, typer.Argument(help="A dataset's id; of a retired one, too.")],
    out: connection.Out = None,
    as_json: connection.Json = False,
) -> None:
    """Take a ledger along, with its signed head and the public keys: ready for `discretion ledger check`."""
    with connection.service() as client:
        papers = {
            "ledger": json.dumps(client.ledger(dataset), ensure_ascii=False),
            "head": client.ledger_head(dataset),
            "keys": client.certificate_keys(),
        }
        folder = out or Path(dataset)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in papers.items():
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
    found = {name: str(folder / f"{name}.json") for name in papers}
    terminal.show(found, as_json, terminal.facts(found))


app = typer.Typer()
app.add_typer(ledgers_app, name="ledgers")
