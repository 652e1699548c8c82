"""What was released, as files: what a policy decides, and whether its certificate holds. No service is needed."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from discretion import certificate_page, certificates, errors
from discretion.commands import connection, terminal
from discretion.commands import trainings as remote
from discretion.learning import policy, report

app = typer.Typer()


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
    as_json: connection.Json = False,
) -> None:
    """Say what a policy does in a state: offline, or by the service if it is named by its id."""
    with terminal.told():
        if connection.is_id(policy_file, "pol"):
            found = remote.decided(policy_file, step, _state(state))
        else:
            found = asdict(policy.parse(Path(policy_file).read_bytes()).decide(step, _state(state)))
    known = {name: value for name, value in found.items() if value is not None}  # actions may have no names
    terminal.show(found, as_json, terminal.facts(known))


def _state(given: list[str]) -> policy.State:
    try:
        if len(given) == 1 and "=" not in given[0]:
            return int(given[0])
        return {column: float(value) for column, value in (part.rsplit("=", 1) for part in given)}
    except ValueError:
        raise errors.InvalidState("Give --state as one whole number, or as COLUMN=VALUE for each column.") from None


@app.command()
def verify(
    released: Annotated[
        Path,
        typer.Argument(metavar="POLICY", help="A policy, or a report of one; or the folder that all three are in."),
    ],
    certificate: Annotated[Path | None, typer.Argument(help="Its certificate.")] = None,
    jwks: Annotated[Path | None, typer.Option("--keys", help="The service's public keys (JWKS).")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Read the certificate out in plain words.")] = False,
    as_json: connection.Json = False,
) -> None:
    """Check the certificate of a policy or of a report offline: signature, digest, every mechanism, and the sum."""
    with terminal.told():
        artefact, signed, public = (path.read_bytes() for path in _papers(released, certificate, jwks))
        found = certificates.verify(artefact, signed, public)
        if explain:
            wide = terminal.width(certificate_page.WIDTH)
            typer.echo(terminal.printable(certificate_page.explain(signed, public, wide)))
            if isinstance(found.released, report.Report):
                typer.echo(terminal.printable(certificate_page.findings(found.released, wide)))
    if explain or terminal.for_people(as_json):
        typer.echo(f"Everything holds: ρ = {found.total_rho}, signed with key {found.kid}.")
    else:
        terminal.write({"holds": True, "rho": str(found.total_rho), "kid": found.kid})


def _papers(released: Path, certificate: Path | None, jwks: Path | None) -> tuple[Path, Path, Path]:
    """What was named, or what a download left in a folder."""
    if released.is_dir() and certificate is None:
        judged = released / "report.json"
        paper = judged if judged.exists() else released / "policy.json"
        return paper, released / "certificate.json", jwks or released / "keys.json"
    if certificate is None or jwks is None:
        missing = "" if released.exists() else f"There is no {released}. "
        raise errors.InvalidRequest(f"{missing}Name a folder, or POLICY CERTIFICATE --keys KEYS.")
    return released, certificate, jwks
