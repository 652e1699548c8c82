"""What a command leaves behind: tables for people, one JSON document for programs, and an exit code that says why.

0 done · 1 something does not hold, or a training failed · 2 a request that cannot be meant · 3 not signed in, or not
allowed · 4 budget or grant exhausted · 5 the service does not answer.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import httpx
import typer
from rich.console import Console
from rich.table import Table

from discretion import errors
from discretion.client import Failed, Refused
from discretion.commands.login import NotSignedIn

WRONG, USAGE, FORBIDDEN, EXHAUSTED, UNREACHABLE = 1, 2, 3, 4, 5

# Of C0 and C1 all but the end of a line, what turns the direction of a text around, and halves of characters.
_CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NARROWEST: Final = 12  # of a column of names, which may be broken
_CODES: Final = {401: FORBIDDEN, 402: EXHAUSTED, 403: FORBIDDEN, 429: UNREACHABLE}


def offering(*values: str) -> Callable[[str], list[str]]:
    """What a shell completes an option with that is one of a few words."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def for_people(as_json: bool) -> bool:
    return sys.stdout.isatty() and not as_json


def width(most: int) -> int:
    """Of a line of text: of a page, or less where a terminal has less."""
    return min(most, Console().width) if sys.stdout.isatty() else most


def show(found: Any, as_json: bool, table: Table) -> None:
    """The table on a terminal; else the document, and nothing else."""
    if for_people(as_json):
        show_table(table)
    else:
        write(found)


def write(found: Any) -> None:
    typer.echo(printable(json.dumps(found, ensure_ascii=False, default=str)))


def show_table(table: Table) -> None:
    """Names are names: brackets in one are no markup, whoever chose it."""
    Console(markup=False, emoji=False).print(table)


def printable(text: str) -> str:
    """What came from elsewhere, without a sign that a terminal obeys."""
    return _CONTROL.sub(_escaped, text)


def _escaped(sign: re.Match[str]) -> str:
    return f"\\u{ord(sign[0]):04x}"


def listed(rows: Iterable[Mapping[str, Any]], names: Sequence[str], title: str | None = None) -> Table:
    """A line for each row; ids are not broken, for other commands need them whole: on a terminal that is too narrow
    for them, a line for each of a row's cells."""
    cells = [["" if row[name] is None else printable(str(row[name])) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    least = sum(_NARROWEST if name == "name" else wide for name, wide in zip(names, widths, strict=True))
    if least + 3 * len(names) + 1 > Console().width:
        return _stacked(names, cells, title)
    table = Table(title=title)
    for name in names:
        table.add_column(name, no_wrap=name != "name", overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def _stacked(names: Sequence[str], cells: Sequence[Sequence[str]], title: str | None) -> Table:
    table = Table("", "", title=title, show_header=False)
    table.columns[1].overflow = "fold"
    for row in cells:
        for name, cell in zip(names, row, strict=True):
            table.add_row(name, cell)
        table.add_section()
    return table


def facts(document: Mapping[str, Any], title: str | None = None) -> Table:
    """A line for each thing that is known."""
    table = Table("", "", title=title, show_header=False)
    for name, value in document.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        table.add_row(printable(name), printable(text))
    return table


def refuse(reason: str, code: int = USAGE) -> NoReturn:
    typer.echo(printable(reason), err=True)
    raise typer.Exit(code)


@contextmanager
def told() -> Iterator[None]:
    """Whatever goes wrong is said on standard error, and its kind is the exit code."""
    try:
        yield
    except NotSignedIn as unknown:
        refuse(str(unknown), FORBIDDEN)
    except (errors.InvalidCertificate, errors.InvalidBackup, errors.WouldForget, errors.LedgerDamaged) as refusal:
        refuse(str(refusal), WRONG)
    except errors.Refusal as refusal:
        refuse(str(refusal))
    except Failed as failed:
        refuse(str(failed), WRONG)
    except Refused as refused:
        answered = 400 <= refused.status < 500  # else it is down, or no such service
        refuse(str(refused), _CODES.get(refused.status, USAGE) if answered else UNREACHABLE)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL):
        refuse("That is no address of a service; it begins with http:// or https://.")
    except httpx.RequestError:
        refuse("The service does not answer; check its address, and that it is running.", UNREACHABLE)
    except OSError as trouble:
        refuse(f"Cannot use {trouble.filename}: {trouble.strerror}.")
