"""Signing in, the service one is signed in to, and what commands that speak to it have in common."""

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from discretion import errors
from discretion.client import Client, Document, Refused
from discretion.commands import login, terminal

_PATIENCE: Final = 5.0  # seconds that a person at a shell waits for a service that is away
_SOON: Final = 1.0  # seconds that one waits for a completion
_ALGORITHMS: Final = ("auto", "dp-apvi", "dp-vapvi", "dp-pae")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_OFFERED: Final = 100  # ids at a completion
_UNSAFE: Final = re.compile(r"[^\w .,+-]")  # zsh evaluates what it is offered, and what escapes it forgets backslashes


@contextmanager
def service(**options: Any) -> Iterator[Client]:
    """The service one is signed in to; what it refuses is told."""
    with terminal.told(), _opened(login.find(), **options) as client:
        yield client


def _opened(found: login.Login, **options: Any) -> Client:
    away = urlsplit(found.url).hostname not in _LOOPBACK  # no proxy stands between a machine and itself
    return Client(found.url, found.token, **({"patience": _PATIENCE, "trust_env": away} | options))


def is_id(given: str, kind: str) -> bool:
    """An id of the service's, and not a file that is called like one."""
    return given.startswith(f"{kind}_") and not Path(given).exists()


# --- completion --------------------------------------------------------------------------------------------------


def _offered(listed: Callable[[Client], Iterator[Document]], incomplete: str) -> list[tuple[str, str]]:
    """What the service has, quickly, or nothing: a shell that completes must never complain."""
    try:
        with _opened(login.find(), patience=0.0, timeout=_SOON) as client:
            found = [(str(each["id"]), str(each.get("name", each.get("algorithm")))) for each in _some(listed(client))]
    except Exception:
        return []
    return [
        (name, _UNSAFE.sub(" ", help_text))
        for name, help_text in found
        if name.startswith(incomplete) and not _UNSAFE.search(name)
    ]


def _some(found: Iterator[Document]) -> Iterator[Document]:
    return itertools.islice(found, _OFFERED)


def offer_datasets(incomplete: str) -> list[tuple[str, str]]:
    return _offered(Client.datasets, incomplete)


def offer_policies(incomplete: str) -> list[tuple[str, str]]:
    return _offered(Client.policies, incomplete)


Json = Annotated[bool, typer.Option("--json", help="One JSON document, as when the output is piped.")]
Dataset = Annotated[str, typer.Argument(help="A dataset's id.", autocompletion=offer_datasets)]
Policy = Annotated[str, typer.Argument(help="A policy's id.", autocompletion=offer_policies)]
Rho = Annotated[str, typer.Option(help="The privacy budget ρ that it may cost.")]
Algorithm = Annotated[
    str, typer.Option(help="auto, dp-apvi, dp-vapvi or dp-pae.", autocompletion=terminal.offering(*_ALGORITHMS))
]
Parameters = Annotated[Path | None, typer.Option(help="A file with public constants as JSON.")]
Half = Annotated[
    str | None,
    typer.Option(
        help="first or second half of the units; all if left out.", autocompletion=terminal.offering("first", "second")
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result, or only queue it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Spend without asking; needed where nobody can be asked.")]
Key = Annotated[str | None, typer.Option(help="An Idempotency-Key: the same one is never charged twice.")]
Out = Annotated[Path | None, typer.Option(help="A folder for the result, its certificate and the keys.")]


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise errors.InvalidRequest(f"{path.name} holds no JSON.") from None


def agree(yes: bool, meaning: str) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        terminal.refuse(f"{meaning} Say --yes if you mean it.")
    typer.confirm(f"{meaning} Go on?", err=True, abort=True)


# --- signing in --------------------------------------------------------------------------------------------------


def sign_in(url: Annotated[str, typer.Argument(help="The service's address.")]) -> None:
    """Sign in to a service: the token is asked for, or read from standard input, and kept for the next commands."""
    asked = sys.stdin.isatty()
    token = typer.prompt("Token", hide_input=True, err=True) if asked else sys.stdin.readline()
    found = login.Login(url.rstrip("/"), token.strip())
    if not found.token or not found.token.isascii() or not found.token.isprintable():
        terminal.refuse("That is no token; copy the one that was shown when the key was made.", terminal.FORBIDDEN)
    if found.token.startswith("key_"):
        terminal.refuse("That is the id of a key. Its token begins with dk_.", terminal.FORBIDDEN)
    with terminal.told(), _opened(found) as client:
        try:
            next(client.datasets(), None)
        except Refused as refused:
            if refused.status != 403:  # a role that sees no datasets is known to the service all the same
                raise
        kept = login.keep(found)
    parts = urlsplit(found.url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        typer.echo("Careful: without https, everybody on the way can read the token.", err=True)
    typer.echo(f"Signed in to {found.url}; the token is kept in {kept}.", err=True)


def sign_out() -> None:
    """Forget the address and the token."""
    with terminal.told():
        typer.echo("Signed out." if login.forget() else "Nobody was signed in.", err=True)


app = typer.Typer()
app.command("login")(sign_in)
app.command("logout")(sign_out)
