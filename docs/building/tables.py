"""What pages show and nobody typed: `python -m docs.building.tables` writes it where it stands.

A page has `<!-- table: NAME -->` and `<!-- end -->` around each table, and around each part of the sample certificate.
A test computes them again and compares.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

from docs.building import evidence, sample

from discretion.privacy import rho

DOCS: Final = Path(__file__).parents[1]
PAGES: Final = tuple(DOCS / name for name in ("choosing-rho.md", "certificate.md", "performance.md", "reproduction.md"))

_DELTA: Final = Fraction(1, 10**6)
_AMOUNTS: Final = ("0.01", "0.05", "0.1", "0.25", "0.5", "1", "2", "5")
_SUSPICION: Final = 0.01
_RUNS: Final = (1, 2, 4, 10, 20)
_EACH: Final = "0.1"
_TABLE: Final = re.compile(r"<!-- table: (?P<name>[^>]+) -->\n(?:.*?\n)??<!-- end -->", re.DOTALL)


def odds() -> str:
    """What ρ is at most, in numbers that a person can weigh; every figure is rounded up."""
    head = [
        "ρ",
        "ε at δ = 10⁻⁶",
        "odds grow at most",
        "1 in 100 becomes at most",
        "a coin toss is guessed right at most",
    ]
    return _table(head, [_odds(amount) for amount in _AMOUNTS])


def _odds(amount: str) -> list[str]:
    epsilon = _epsilon(Fraction(amount))
    factor = math.exp(epsilon)
    after = factor * _SUSPICION / (1 - _SUSPICION + factor * _SUSPICION)
    return [amount, f"{epsilon:.2f}", f"{_up(factor, 2)} times", _percent(after), _percent(guessed(float(amount)))]


def guessed(amount: float) -> float:
    """How often the better of two records is found out, at most.

    ρ-zCDP bounds the Kullback-Leibler divergence of two neighbours' releases by ρ. So their total variation is at most
    √(ρ/2) (Pinsker) and √(1 − e^−ρ) (Bretagnolle and Huber), and half of it is what a guess gains over a coin.
    """
    return 0.5 + 0.5 * min(math.sqrt(amount / 2), math.sqrt(1 - math.exp(-amount)))


def together() -> str:
    """Trainings on the same patients: ρ adds, and ε grows more slowly than it would if ε were added."""
    head = ["trainings", "ρ together", "ε at δ = 10⁻⁶", "if ε were added"]
    alone = _epsilon(Fraction(_EACH))
    rows = []
    for count in _RUNS:
        total = count * Fraction(_EACH)
        rows.append([str(count), f"{float(total):g}", f"{_epsilon(total):.2f}", f"{count * alone:.2f}"])
    return _table(head, rows)


def bought() -> str:
    """What `auto` reached on ICU-Sepsis, as docs/utility.md has it."""
    page = (DOCS / "utility.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"<!-- table: icu-sepsis -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()]
    head, cells = rows[0], rows[2:]
    kept = [index for index, name in enumerate(head) if name in ("n", "ρ = 0.01", "ρ = 0.1", "ρ = 1", "ρ = 10")]
    found = [[row[index].split(" ± ")[0] for index in kept] for row in cells if row[1] == "auto"]
    return _table([head[index] for index in kept], found)


def certified(*names: str) -> str:
    """Parts of the sample certificate; of its mechanisms, which are alike, the first."""
    said = sample.payload((sample.SAMPLES / "certificate.json").read_text(encoding="utf-8"))
    parts = {name: said[name][:1] if name == "mechanisms" else said[name] for name in names}
    return f"```json\n{json.dumps(parts, indent=1, ensure_ascii=False)}\n```"


_PARTS: Final = {
    "promise": ("version", "promise"),
    "request": ("request", "derived_from"),
    "mechanisms": ("mechanisms", "composition"),
    "privacy": ("privacy",),
    "papers": ("policy", "ledger", "software"),
    "not covered": ("not_covered",),
}
MADE: Final[dict[str, Callable[[], str]]] = {
    "odds": odds,
    "together": together,
    "bought": bought,
    "simulated": lambda: _lined(evidence.simulated()),
    "attacked": lambda: _lined(evidence.attacked()),
    "neighbours": lambda: _lined(evidence.held()),
    "measured": lambda: _lined(evidence.measured()),
    **{f"certificate, {name}": partial(certified, *parts) for name, parts in _PARTS.items()},
}


def filled(page: str) -> str:
    return _TABLE.sub(lambda found: f"<!-- table: {found['name']} -->\n{MADE[found['name']]()}\n<!-- end -->", page)


def _epsilon(amount: Fraction) -> float:
    """Rounded up to two decimals."""
    return math.ceil(100 * rho.epsilon(amount, _DELTA)) / 100


def _up(value: float, digits: int) -> str:
    """Rounded up to so many digits, in words where it is past counting."""
    if value >= 10**6:
        return "more than a million"
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return f"{math.ceil(value / unit) * unit:,.10g}".replace(",", " ")


def _percent(share: float) -> str:
    return f"{math.ceil(100 * share)} %"


def _lined(lines: list[list[str]]) -> str:
    return _table(lines[0], lines[1:])


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if text != filled(text):
            path.write_text(filled(text), encoding="utf-8")
