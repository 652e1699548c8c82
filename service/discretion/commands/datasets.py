"""A custodian's commands: datasets, uploads, grants, and what a budget has left."""

import csv
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from discretion import errors
from discretion.client import Outcome, Refused
from discretion.commands import connection, terminal

_SCHEMA: Final = (
    'A schema looks like this: {"horizon": 6, "states": {"kind": "discrete", "count": 4}, "actions": {"count": 6}, '
    '"reward": {"low": 0, "high": 1}}.'
)
_OWN_NAMES: Final = "If the file has names of its own, say which is which: --column unit=COLUMN --column step=COLUMN …"

datasets_app = typer.Typer(help="The datasets you may see.")
grants_app = typer.Typer(no_args_is_help=True, help="Who may use a dataset, and how much of its budget.")


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, as_json: connection.Json = False) -> None:
    """List the datasets, or do something with one."""
    if context.invoked_subcommand is None:
        list_datasets(as_json)


@datasets_app.command("list")
def list_datasets(as_json: connection.Json = False) -> None:
    """Show your own, or those granted to you."""
    with connection.service() as client:
        found = list(client.datasets())
    terminal.show(found, as_json, terminal.listed(found, ("id", "name", "state", "units", "horizon")))


@datasets_app.command("show")
def show_dataset(dataset: connection.Dataset, as_json: connection.Json = False) -> None:
    """Show a dataset's public schema."""
    with connection.service() as client:
        found = client.dataset(dataset)
    terminal.show(found, as_json, terminal.facts(found))


@datasets_app.command("create")
def create_dataset(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    schema: Annotated[Path, typer.Argument(help="Its public schema as JSON: horizon, states, actions, reward …")],
    rho: Annotated[str | None, typer.Option(help="A budget of its own.")] = None,
    population: Annotated[str | None, typer.Option(help="The population whose budget it shares.")] = None,
    as_json: connection.Json = False,
) -> None:
    """Make a dataset without data, from what is publicly known about it."""
    with connection.service() as client, _advised(lambda problem: _SCHEMA if problem.get("fields") else ""):
        if (rho is None) == (population is None):
            raise errors.InvalidRequest("Give either --rho or --population.")
        budget = {"population": population} if rho is None else {"budget": {"rho": rho}}
        found = client.add_dataset(name, **(connection.read_json(schema) | budget))
    terminal.show(found, as_json, terminal.facts(found))


@datasets_app.command("retire")
def retire_dataset(dataset: connection.Dataset, yes: connection.Yes = False, as_json: connection.Json = False) -> None:
    """Delete a dataset's data for good; ledger, policies and certificates stay."""
    connection.agree(yes, f"The data of {dataset} will be deleted for good.")
    with connection.service() as client:
        found = client.retire(dataset)
    terminal.show(found, as_json, terminal.facts(found))


def upload(
    dataset: connection.Dataset,
    file: Annotated[Path, typer.Argument(help="A .csv, .ndjson or .parquet file.")],
    column: Annotated[
        list[str] | None,
        typer.Option(help="NAME=COLUMN: which of the file's columns is the upload's NAME; commas between several."),
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="The column that says how a stay ended, if not rewards.")] = None,
    good: Annotated[str | None, typer.Option(help="What stands there if it ended well.")] = None,
    levels: Annotated[str | None, typer.Option(help="Numbers of levels of several action columns: 5,5.")] = None,
    as_json: connection.Json = False,
) -> None:
    """Upload a file of rows; columns of other names are named by --column."""
    with connection.service(progress=terminal.for_people(as_json)) as client:
        named = _columns(column)
        with _advised(lambda problem: _about_rows(file, named or {}, problem.get("problems", []))):
            found = client.upload(dataset, file, named, outcome=_outcome(outcome, good), levels=_levels(levels))
    terminal.show(found, as_json, terminal.facts(found))


@contextmanager
def _advised(advice: Callable[[Mapping[str, Any]], str]) -> Iterator[None]:
    """What was refused, and what most often helps."""
    try:
        yield
    except Refused as refused:
        if not (words := advice(refused.problem)):
            raise
        raise Refused(refused.status, refused.code, f"{refused.detail} {words}", refused.problem) from None


def _about_rows(file: Path, named: Mapping[str, Any], problems: list[dict[str, Any]]) -> str:
    """A header that the service does not know is most often a hospital's own, and its order that of the clock."""
    if not named and any(each.get("row") == 0 and each.get("column") for each in problems):
        return _OWN_NAMES
    unsorted = any("sort the file" in each.get("reason", "") for each in problems)
    return _sorting(file, named) if unsorted and file.suffix.lower() == ".csv" else ""


def _sorting(file: Path, named: Mapping[str, Any]) -> str:
    """The command that brings the rows of a stay together, by where its columns stand in this file."""
    with file.open(encoding="utf-8-sig", newline="") as text:
        header = text.readline()
    between = max(",;\t", key=header.count)
    places = {name: place for place, name in enumerate(next(csv.reader([header], delimiter=between)), 1)}
    unit, stay, step = (places.get(named.get(name, name)) for name in ("unit", "trajectory", "step"))
    if unit is None or step is None:
        return ""
    by = " ".join(f"-k{place},{place}" for place in (unit, stay) if place)
    sign = "$'\\t'" if between == "\t" else shlex.quote(between)
    name = shlex.quote(str(file))
    return f"This sorts it: (head -n 1 {name}; tail -n +2 {name} | sort -t{sign} {by} -k{step},{step}n) > sorted.csv"


def _columns(given: list[str] | None) -> dict[str, str | tuple[str, ...] | None] | None:
    """`unit=` leaves a column out; only an action and a state can be made from several."""
    if not given:
        return None
    found: dict[str, str | tuple[str, ...] | None] = {}
    for part in given:
        name, equals, own = part.partition("=")
        if not equals or name in found:
            raise errors.InvalidSource("Give --column as NAME=COLUMN, once for each name.")
        several = name in ("action", "state", "next_state") and "," in own
        found[name] = tuple(own.split(",")) if several else own or None
    return found


def _outcome(column: str | None, good: str | None) -> Outcome | None:
    if (column is None) != (good is None):
        raise errors.InvalidSource(
            "--outcome and --good go together: the column, and what stands in it after a good end."
        )
    return None if column is None or good is None else Outcome(column, _value(good))


def _value(text: str) -> object:
    """A number or a flag where it looks like one; texts in a table are compared as texts or numbers all the same."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _levels(given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        return tuple(int(part) for part in given.split(","))
    except ValueError:
        raise errors.InvalidSource("Give --levels as whole numbers between commas.") from None


@grants_app.command("list")
def list_grants(dataset: connection.Dataset, as_json: connection.Json = False) -> None:
    """Show who may use a dataset."""
    with connection.service() as client:
        found = list(client.grants(dataset))
    shown = [grant | ({"remaining": "revoked"} if grant["revoked"] else {}) for grant in found]
    terminal.show(found, as_json, terminal.listed(shown, ("id", "key", "rho", "remaining")))


@grants_app.command("add")
def add_grant(
    dataset: connection.Dataset,
    key: Annotated[str, typer.Argument(help="The id of the analyst's key.")],
    rho: Annotated[str, typer.Argument(help="How much of the budget they may spend.")],
    as_json: connection.Json = False,
) -> None:
    """Let an analyst use a dataset."""
    with connection.service() as client:
        if key.startswith("dk_"):
            raise errors.InvalidRequest("That is a secret token; name the key by its id, which begins with key_.")
        found = client.add_grant(dataset, key, rho)
    terminal.show(found, as_json, terminal.facts(found))


@grants_app.command("revoke")
def revoke_grant(
    dataset: connection.Dataset,
    grant: Annotated[str, typer.Argument(help="The grant's id.")],
    as_json: connection.Json = False,
) -> None:
    """Allow no further trainings; what was reserved goes on."""
    with connection.service() as client:
        found = client.revoke_grant(dataset, grant)
    terminal.show(found, as_json, terminal.facts(found))


def budget(dataset: connection.Dataset, as_json: connection.Json = False) -> None:
    """Show what a dataset's budget has left."""
    with connection.service() as client:
        found = client.budget(dataset)
    shown = {name: found.document[name] for name in ("total", "charged", "reserved", "remaining")}
    for row in found.document["epsilon"]:
        shown[f"ε at δ = {row['delta']:g}"] = f"{row['charged']:.4g} of {row['total']:.4g}"
    if found.granted is not None:
        shown["your grant"] = f"{found.grant_remaining} left of {found.granted}"
    terminal.show(found.document, as_json, terminal.facts(shown))


app = typer.Typer()
app.add_typer(datasets_app, name="datasets")
app.add_typer(grants_app, name="grants")
app.command()(upload)
app.command()(budget)
