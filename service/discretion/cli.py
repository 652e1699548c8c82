"""The command line: the edge where refusals become messages and transactions begin and end."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import sqlalchemy as sa
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Column, Table

import discretion
from discretion import (
    audit,
    certificate_page,
    certificates,
    database,
    errors,
    keys,
    ledger,
    processes,
    requests,
    serving,
    settings,
    signatures,
    signing,
    simulation,
    statements,
    terminal,
    twin,
    worker,
)
from discretion.api import app as api
from discretion.learning import auto, documents, policy, report
from discretion.privacy.rho import Rho
from discretion.remote import connection
from discretion.remote import datasets as remote_datasets
from discretion.remote import trainings as remote_trainings

_REHEARSED = ("behaviour", "policy", "best")

app = typer.Typer(name="discretion", no_args_is_help=True)
ledger_app = typer.Typer(no_args_is_help=True, help="The budget ledger.")
app.add_typer(ledger_app, name="ledger")
_ACTOR: Final = "command line"  # in the audit log
keys_app = typer.Typer(no_args_is_help=True, help="The API keys, and the key that signs certificates.")
app.add_typer(keys_app, name="keys")
for commands in (connection, remote_datasets, remote_trainings):
    commands.mount(app)


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


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise errors.InvalidParameter(f"episodes must be whole numbers between commas, not {text!r}.") from None


@app.command()
def simulate(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the numbers behind them.")],
    episodes: Annotated[str, typer.Option(help="Numbers of episodes.")] = "5,10,20,50,100,200,500,1000",
    rho: Annotated[str, typer.Option(help="Privacy budgets ρ.")] = "1,10,100",
    instances: Annotated[int, typer.Option(help="Problems drawn.")] = 2,
    repetitions: Annotated[int, typer.Option(help="Datasets drawn for each problem.")] = 5,
    calibration: Annotated[str, typer.Option(help="How DP-VAPVI spends its budget: paper or tight.")] = "paper",
) -> None:
    """Draw Figure 1 of the paper again: PEVI, VAPVI and DP-VAPVI on its simulated linear MDP."""
    try:
        from discretion import figures
    except ImportError:
        terminal.refuse("Drawing needs matplotlib; install discretion[plots].")
    with terminal.told():
        budgets = tuple(Rho.parse(part) for part in rho.split(","))
        design = simulation.Design(_numbers(episodes), budgets, instances, repetitions, calibration)  # type: ignore[arg-type]
        with _writing(out):
            out.mkdir(parents=True, exist_ok=True)
            rows = _simulated(design)
            simulation.write(rows, out / "suboptimality.csv")
            figures.draw(rows, calibration, out)
    Console().print(_summary(rows))


def _simulated(design: simulation.Design) -> list[simulation.Row]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        return list(progress.track(simulation.run(design), total=design.runs, description="policies learned"))


def _summary(rows: list[simulation.Row]) -> Table:
    """A line for each number of episodes, so that it fits a narrow terminal."""
    table = Table("K", title="mean loss v* − v^π; columns with ρ are dp-vapvi")
    kinds = list(dict.fromkeys((row.algorithm, row.rho) for row in rows))
    for algorithm, rho in kinds:
        table.add_column(f"ρ = {rho}" if rho else algorithm, justify="right")
    gaps: dict[tuple[int, str, str], list[float]] = {}
    for row in rows:
        gaps.setdefault((row.episodes, row.algorithm, row.rho), []).append(row.suboptimality)
    for count in sorted({row.episodes for row in rows}):
        cells = (gaps[count, algorithm, rho] for algorithm, rho in kinds)
        table.add_row(str(count), *(f"{sum(cell) / len(cell):.3f}" for cell in cells))
    return table


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
        if connection.is_id(schema, "ds"):
            found = remote_trainings.rehearsed(schema, twins, **request)
        else:
            found = _rehearsed(Path(schema), units, request, twins)
    table = Table("twin", "behaviour", "policy", "best", "learned", title=f"{found[0]['algorithm']} at ρ = {rho}")
    for one in found:
        worth = ["–" if one["value"][name] is None else f"{one['value'][name]:.4g}" for name in _REHEARSED]
        table.add_row(str(one["twin"]), *worth, f"{one['learned_share']:.0%}")
    terminal.show(found, as_json, table)


def _rehearsed(schema_file: Path, units: int | None, request: dict[str, Any], twins: int) -> list[dict[str, Any]]:
    if units is None:
        raise errors.InvalidParameter("Say how many patients there are: --units.")
    schema, labels = documents.schema_of(connection.read_json(schema_file))
    asked = requests.of(schema, labels, units, request)
    return [asked.document() | twin.rehearse(asked, number) for number in range(twins)]


@app.command()
def decide(
    policy_file: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="A policy as downloaded, or its id.", autocompletion=connection.offer_policies
        ),
    ],
    step: Annotated[int, typer.Option(help="The step, from 1.")],
    state: Annotated[list[str], typer.Option(help="A state's number, or COLUMN=VALUE for each column.")],
) -> None:
    """Say what a policy does in a state: offline, or by the service if it is named by its id."""
    with terminal.told():
        if connection.is_id(policy_file, "pol"):
            found = remote_trainings.decided(policy_file, step, _state(state))
        else:
            found = asdict(policy.parse(_read(Path(policy_file))).decide(step, _state(state)))
    typer.echo(json.dumps(found, ensure_ascii=False))


def _state(given: list[str]) -> policy.State:
    try:
        if len(given) == 1 and "=" not in given[0]:
            return int(given[0])
        return {column: float(value) for column, value in (part.rsplit("=", 1) for part in given)}
    except ValueError:
        raise errors.InvalidState("Give --state as one whole number, or as COLUMN=VALUE for each column.") from None


@app.command()
def verify(
    released: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy, or a report of one, as downloaded.")],
    certificate: Annotated[Path, typer.Argument(help="Its certificate.")],
    jwks: Annotated[Path, typer.Option("--keys", help="The service's public keys (JWKS).")],
    explain: Annotated[bool, typer.Option("--explain", help="Read the certificate out in plain words.")] = False,
) -> None:
    """Check the certificate of a policy or of a report offline: signature, digest, every mechanism, and the sum."""
    with terminal.told():
        signed, public = _read(certificate), _read(jwks)
        found = certificates.verify(_read(released), signed, public)
        if explain:
            typer.echo(certificate_page.explain(signed, public))
            if isinstance(found.released, report.Report):
                typer.echo(certificate_page.findings(found.released))
    typer.echo(f"Everything holds: ρ = {found.total_rho}, signed with key {found.kid}.")


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
    """Run trainings; any number of workers on any number of hosts share one database and store."""
    serving.harden()
    serving.configure_logging()
    if with_parent is not None:
        processes.die_with_parent(with_parent)
    with terminal.told(), _damage():
        worker.Worker(settings.read()).run()


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of this version."""
    typer.echo(json.dumps(api.bare().openapi(), indent=2, ensure_ascii=False))


@app.command()
def migrate() -> None:
    """Bring the database up to this version."""
    with terminal.told():
        found = settings.read()
        with _writing(found.data):
            found.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        engine = database.engine(found.database_url)
        database.migrate(engine)
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
        signed, _ = signatures.read(_read(head), _read(jwks), signatures.LEDGER_HEAD)
        found = statements.reckon(_read(downloaded), signed)
    typer.echo(f"{found.sequence} rows add up: {found.balance.charged} of {found.balance.total} charged.")


@keys_app.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="admin, custodian, analyst or auditor.")],
    name: Annotated[str, typer.Option(help="Whose key it is.")] = "command line",
) -> None:
    """Make a key; its token is printed once, alone on standard output, and kept nowhere."""
    now = datetime.now(UTC)
    with _opened() as connection:
        made, token = keys.create(connection, name, role, at=now)
        audit.record(connection, _ACTOR, "key.create", made.id, at=now)
    typer.echo(f"{made.id}, {made.role}: {made.name}", err=True)
    typer.echo(token)


@keys_app.command("replace")
def replace_token(key: Annotated[str, typer.Argument(help="The key's id.")]) -> None:
    """Give a key another token, for whoever lost theirs: it keeps what it owns, and the old token opens nothing."""
    now = datetime.now(UTC)
    with _opened() as connection:
        token = keys.replace(connection, key)
        audit.record(connection, _ACTOR, "key.replace", key, at=now)
    typer.echo(token)


@keys_app.command("list")
def list_keys() -> None:
    """Show every key, without its token."""
    with _opened() as connection:
        found, _ = keys.listed(connection, after=None, limit=1_000_000)
    table = Table(Column("id", no_wrap=True), "name", "role", "created", "revoked")  # whole: `keys revoke` needs it
    for key in found:
        table.add_row(key.id, key.name, key.role, key.created_at, key.revoked_at or "")
    Console().print(table)


@keys_app.command("revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="The key's id.")]) -> None:
    """Close a key."""
    now = datetime.now(UTC)
    with _opened() as connection:
        keys.revoke(connection, key, at=now)
        audit.record(connection, _ACTOR, "key.revoke", key, at=now)
    typer.echo(f"{key} opens nothing any more.")


@keys_app.command("rotate")
def rotate_key() -> None:
    """Sign with a new key from now on; certificates signed before stay valid."""
    now = datetime.now(UTC)
    with _opened() as connection:
        made = signing.rotate(settings.read())
        signing.publish(connection, made, at=now)
        audit.record(connection, _ACTOR, "signing-key.rotate", made.kid[:40], at=now)
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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as trouble:
        terminal.refuse(f"Cannot read {path}: {trouble.strerror}.")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as trouble:
        terminal.refuse(f"Cannot write to {folder}: {trouble.strerror}.")


@contextmanager
def _damage() -> Iterator[None]:
    """A ledger that does not add up is exit code 1."""
    try:
        yield
    except errors.LedgerDamaged as damage:
        typer.echo(str(damage), err=True)
        raise typer.Exit(1) from None
