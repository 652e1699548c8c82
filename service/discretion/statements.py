"""A ledger as its readers see it: written for them, and read back by an auditor who trusts nobody."""

import json
from typing import Any

from discretion import errors, ledger
from discretion.privacy.rho import Rho


def row_document(row: ledger.Row) -> dict[str, Any]:
    shown = {name: value for name, value in vars(row).items() if name != "population"}
    return shown | {"rho": f"{'-' if row.rho < 0 else ''}{Rho(abs(row.rho))}"}


def _row(population: str, said: dict[str, Any]) -> ledger.Row:
    text = said["rho"]
    nano = Rho.parse(text.removeprefix("-")).nano * (-1 if text.startswith("-") else 1) if text != "0" else 0
    return ledger.Row(**said | {"population": population, "rho": nano})


def reckon(text: bytes, head: dict[str, Any]) -> ledger.Reckoning:
    """Add up a downloaded ledger; the signed head must be one of its rows, with the balance as it was then."""
    try:
        document = json.loads(text)
        population, rows = document["population"], document["rows"]
        read = [_row(population, row) for row in rows]
        sequence = int(head["sequence"])
    except (errors.Refusal, ValueError, KeyError, TypeError, AttributeError):
        raise errors.LedgerDamaged("This is not a ledger as it is downloaded.") from None
    whole = ledger.reckon(population, read)
    then = ledger.reckon(population, read[:sequence])
    expected = {name: value for name, value in head.items() if name != "at"}
    if ledger.head_document(population, then) != expected:
        raise errors.LedgerDamaged(
            "The signed head is not part of this ledger: it is another population's, was rolled back, or is incomplete."
        )
    return whole
