"""An analyst's commands: plans, trainings, evaluations, and the policies that came of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.table import Table

from discretion import errors
from discretion.client import Client, Document, Policy, Refused, Report
from discretion.commands import connection, terminal
from discretion.privacy import tokens

policies_app = typer.Typer(help="The policies you may see.")
trainings_app = typer.Typer(help="What was asked for and how it stands.")


def _asked(rho: str, parameters: Path | None, half: str | None) -> dict[str, Any]:
    """What plans, trainings and evaluations have in common."""
    if half not in ("first", "second", None):
        raise errors.InvalidParameter("--half is first or second.")
    return {"rho": rho, "half": half, "parameters": connection.read_json(parameters) if parameters else {}}


def plan(
    dataset: connection.Dataset,
    rho: connection.Rho,
    algorithm: connection.Algorithm = "auto",
    parameters: connection.Parameters = None,
    half: connection.Half = None,
    visiting: Annotated[
        Path | None, typer.Option(help="A file with how patients are known to visit states and actions, as JSON.")
    ] = None,
    as_json: connection.Json = False,
) -> None:
    """Say what a training would do and cost; reads no patient, and is free."""
    with connection.service() as client:
        asked = _asked(rho, parameters, half)
        known = None if visiting is None else connection.read_json(visiting)
        found = client.plan(dataset, algorithm=algorithm, visiting=known, **asked)
    terminal.show(found, as_json, _planned(found))


def _planned(found: Mapping[str, Any]) -> Table:
    names = ("algorithm", "rho", "trainings_left", "learned_share", "visits_needed", "assumption", "seconds")
    shown = {name: found[name] for name in names}
    shown |= {f"ε at δ = {row['delta']:g}": f"{row['epsilon']:.4g}" for row in found["epsilon"]}
    shown |= {"reason": found["chosen"]["reason"]} if found.get("chosen") else {}
    return terminal.facts(shown | {f"warning {number}": text for number, text in enumerate(found["warnings"], 1)})


def rehearsed(dataset: str, twins: Iterable[int], **asked: Any) -> list[Document]:
    """Through the service, on made-up twins of a dataset's schema."""
    with connection.service() as client:
        return [client.rehearse(dataset, twin=number, **asked) for number in twins]


def train(
    dataset: connection.Dataset,
    rho: connection.Rho,
    algorithm: connection.Algorithm = "auto",
    parameters: connection.Parameters = None,
    half: connection.Half = None,
    wait: connection.Wait = True,
    yes: connection.Yes = False,
    key: connection.Key = None,
    out: connection.Out = None,
    as_json: connection.Json = False,
) -> None:
    """Train a policy, and pay for it from the budget."""
    with connection.service(progress=terminal.for_people(as_json)) as client:
        asked = _asked(rho, parameters, half) | {"algorithm": algorithm}
        _agree_to_pay(yes, dataset, client, lambda: client.plan(dataset, **asked))
        with _paid_once(key) as once:
            found = client.train(dataset, wait=False, key=once, **asked)
            if wait:
                found = _ended(found["id"], client.wait, client.training, out)
    terminal.show(found, as_json, terminal.facts({name: found[name] for name in ("id", "state", "policy", "rho")}))


def evaluate(
    policy: connection.Policy,
    rho: connection.Rho,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Whose patients to ask; the policy's own if left out.", autocompletion=connection.offer_datasets
        ),
    ] = None,
    parameters: connection.Parameters = None,
    half: connection.Half = None,
    wait: connection.Wait = True,
    yes: connection.Yes = False,
    key: connection.Key = None,
    out: connection.Out = None,
    as_json: connection.Json = False,
) -> None:
    """Ask patients' data what a policy is worth, and pay for it from the budget."""
    with connection.service(progress=terminal.for_people(as_json)) as client:
        asked = _asked(rho, parameters, half) | ({} if dataset is None else {"dataset": dataset})
        _agree_to_pay(yes, dataset, client, lambda: client.plan_evaluation(policy, **asked))
        with _paid_once(key) as once:
            found = client.evaluate(policy, wait=False, key=once, **asked)
            if wait:
                found = _ended(found["id"], client.wait_for_report, client.evaluation, out)
    shown = {name: found[name] for name in ("id", "state", "rho")} | ((found["report"] or {}).get("found") or {})
    terminal.show(found, as_json, terminal.facts(shown))


def _ended(
    job: str, waited: Callable[[str], Policy | Report], read: Callable[[str], Document], out: Path | None
) -> Document:
    """Wait for a job, keep what it released if a folder was named, and say how it stands."""
    released = waited(job)
    if out is not None:
        released.save(out)
    return read(job)


@contextmanager
def _paid_once(key: str | None) -> Iterator[str]:
    """The payment's own name, which is told if the end is not seen: asked for under it, nothing is paid twice."""
    once = key or tokens.identifier("once")
    try:
        yield once
    except (httpx.RequestError, OSError, KeyboardInterrupt, Refused) as trouble:
        refused = isinstance(trouble, Refused) and 400 <= trouble.status < 500 and not trouble.passing
        if not refused:
            typer.echo(f"It may have been paid for. Ask again with --key {once}: that costs nothing more.", err=True)
        raise


def _agree_to_pay(yes: bool, dataset: str | None, client: Client, plan: Callable[[], Document]) -> None:
    if yes:
        return
    planned = plan()
    left = client.budget(dataset or planned["dataset"]).left
    cost = Decimal(planned["rho"])
    after = f"{left - cost} after it" if left >= cost else "which is not enough"
    connection.agree(yes, f"This costs ρ = {cost} for good. You have {left} left, {after}.")


# --- what was asked for ----------------------------------------------------------------------------------------------


@trainings_app.callback(invoke_without_command=True)
def trainings(context: typer.Context, as_json: connection.Json = False) -> None:
    """List the trainings and evaluations, or cancel one."""
    if context.invoked_subcommand is None:
        list_trainings(as_json)


@trainings_app.command("list")
def list_trainings(as_json: connection.Json = False) -> None:
    """Show trainings and evaluations: your own, those on your datasets, or, for an auditor, all."""
    with connection.service() as client:
        found = [*client.trainings(), *client.evaluations()]
    terminal.show(found, as_json, terminal.listed(found, ("id", "dataset", "state", "rho", "created_at")))


@trainings_app.command("cancel")
def cancel_training(
    training: Annotated[str, typer.Argument(help="The id of a training or an evaluation.")],
    as_json: connection.Json = False,
) -> None:
    """Stop a training or an evaluation: what was only reserved comes back, what had begun stays charged."""
    with connection.service() as client:
        found = client.cancel(training)
    terminal.show(found, as_json, terminal.facts({name: found[name] for name in ("id", "state", "rho")}))


# --- policies --------------------------------------------------------------------------------------------------------


@policies_app.callback(invoke_without_command=True)
def policies(context: typer.Context, as_json: connection.Json = False) -> None:
    """List the policies, or take one along."""
    if context.invoked_subcommand is None:
        list_policies(as_json)


@policies_app.command("list")
def list_policies(as_json: connection.Json = False) -> None:
    """Show your own, those made of your datasets, or, for an auditor, all."""
    with connection.service() as client:
        found = list(client.policies())
    terminal.show(found, as_json, terminal.listed(found, ("id", "dataset", "algorithm", "derived")))


@policies_app.command("download")
def download_policy(policy: connection.Policy, out: connection.Out = None, as_json: connection.Json = False) -> None:
    """Take a policy along, with its certificate and the public keys: three files, ready for `discretion verify`."""
    with connection.service() as client:
        folder = client.policy(policy).save(out or Path(policy))
    found = {name: str(folder / f"{name}.json") for name in ("policy", "certificate", "keys")}
    terminal.show(found, as_json, terminal.facts(found))


def decided(policy: str, step: int, state: Any) -> Document:
    """By the service."""
    with connection.service() as client:
        return client.decide(policy, step, state)


app = typer.Typer()
for command in (plan, train, evaluate):
    app.command()(command)
app.add_typer(trainings_app, name="trainings")
app.add_typer(policies_app, name="policies")
