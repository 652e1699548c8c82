"""Rehearsals, from a schema alone or through a service."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from discretion import errors, requests, twin
from discretion.client import bars
from discretion.commands import connection, terminal, trainings
from discretion.learning import auto, documents

_WORTH: Final = ("behaviour", "policy", "best")

app = typer.Typer()


@app.command()
def rehearse(
    schema: Annotated[
        str,
        typer.Argument(
            help="A file with a public schema as JSON (horizon, states, actions …), or a dataset's id.",
            autocompletion=connection.offer_datasets,
        ),
    ],
    rho: connection.Rho,
    units: Annotated[int | None, typer.Option(help="How many patients there are; a dataset knows it.")] = None,
    algorithm: connection.Algorithm = auto.NAME,
    parameters: connection.Parameters = None,
    twins: Annotated[int, typer.Option(min=1, max=100, help="How many made-up twins to try.")] = 3,
    as_json: connection.Json = False,
) -> None:
    """Try a training on made-up patients of the same schema, for nothing: what would noise of this size leave?"""
    with terminal.told():
        constants = connection.read_json(parameters) if parameters else {}
        request = {"algorithm": algorithm, "privacy": {"rho": rho}, "parameters": constants}
        with bars.bar("rehearsals", terminal.for_people(as_json)) as show:
            numbers = _shown(twins, show)
            if connection.is_id(schema, "ds"):
                found = trainings.rehearsed(schema, numbers, **request)
            else:
                found = _rehearsed(Path(schema), units, request, numbers)
    table = Table("twin", "behaviour", "policy", "best", "learned", title=f"{found[0]['algorithm']} at ρ = {rho}")
    for one in found:
        worth = ["–" if one["value"][name] is None else f"{one['value'][name]:.4g}" for name in _WORTH]
        table.add_row(str(one["twin"]), *worth, f"{one['learned_share']:.0%}")
    terminal.show(found, as_json, table)


def _shown(twins: int, show: bars.Show) -> Iterator[int]:
    for number in range(twins):
        yield number
        show((number + 1) / twins)


def _rehearsed(
    schema_file: Path, units: int | None, request: dict[str, Any], twins: Iterable[int]
) -> list[dict[str, Any]]:
    if units is None:
        raise errors.InvalidParameter("Say how many patients there are: --units.")
    schema, labels = documents.schema_of(connection.read_json(schema_file))
    asked = requests.of(schema, labels, units, request)
    return [asked.document() | twin.rehearse(asked, number) for number in twins]
