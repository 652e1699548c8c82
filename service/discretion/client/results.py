"""What a service gave, as values that can be asked, kept and checked without it.

What is certified stays text, exactly as it was sent: its digest is what the certificate signs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from discretion import certificates, errors
from discretion.client.calls import Document
from discretion.learning import policy as artefacts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CERTIFICATE: Final = "certificate.json"
_KEYS: Final = "keys.json"


@dataclass(frozen=True)
class _Certified:
    """Something released, its certificate, and the public keys that check it."""

    text: str
    certificate: str
    keys: str

    _file = "released.json"

    @cached_property
    def document(self) -> Document:
        found: Document = json.loads(self.text)
        return found

    @property
    def id(self) -> str:
        return str(self.document["id"])

    def verify(self) -> certificates.Verified:
        """What was verified: signature, digest, every mechanism, and the sum; raises if one does not hold."""
        return certificates.verify(self.text, self.certificate, self.keys)

    def save(self, folder: Path | str) -> Path:
        """Three files, ready for `discretion verify`; the folder is made if need be."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in ((self._file, self.text), (_CERTIFICATE, self.certificate), (_KEYS, self.keys)):
            (folder / name).write_text(text, encoding="utf-8")
        return folder

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """What `save` wrote."""
        return cls(*((Path(folder) / name).read_text(encoding="utf-8") for name in (cls._file, _CERTIFICATE, _KEYS)))


@dataclass(frozen=True)
class Policy(_Certified):
    """What to do at every step, in every state; it decides without the service."""

    _file = "policy.json"

    def __repr__(self) -> str:
        return f"Policy({self.id!r}, {self.rule.algorithm}, {self.rule.horizon} steps, {self.rule.actions} actions)"

    @cached_property
    def rule(self) -> artefacts.Policy:
        return artefacts.parse(self.text)

    def decide(self, step: int, state: artefacts.State) -> artefacts.Decision:
        """At `step`, from 1, in a state: a number, or a vector's columns by name."""
        return self.rule.decide(step, state)

    def plot(self, path: Path | str | None = None, *, scores: bool = False, column: str | None = None) -> "Figure":
        """A map of its decisions, step by state; fallback is hatched. Of a vector state, `column` is shown."""
        try:
            from discretion.client import policy_map
        except ImportError:
            raise errors.InvalidParameter("Drawing needs matplotlib; install discretion[plots].") from None
        figure = policy_map.draw(self.rule, scores, column)
        if path is not None:
            figure.savefig(path)
        return figure


@dataclass(frozen=True)
class Report(_Certified):
    """What a policy is worth, with an interval, and on whom that was judged."""

    _file = "report.json"

    def __repr__(self) -> str:
        return f"Report({self.id!r}, value={self.value:.6g}, low={self.low:.6g}, high={self.high:.6g})"

    @property
    def value(self) -> float:
        return float(self.document["found"]["value"])

    @property
    def low(self) -> float:
        return float(self.document["found"]["low"])

    @property
    def high(self) -> float:
        return float(self.document["found"]["high"])

    @property
    def caution(self) -> str:
        return str(self.document["caution"])


@dataclass(frozen=True)
class Budget:
    """What there is to spend, exactly; `left` is what you may still spend, your own grant considered."""

    total: Decimal
    charged: Decimal
    reserved: Decimal
    remaining: Decimal
    granted: Decimal | None  # of the budget, to you
    grant_remaining: Decimal | None
    document: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        total, charged, reserved, remaining = (
            Decimal(document[name]) for name in ("total", "charged", "reserved", "remaining")
        )
        grant = document.get("grant") or {"rho": None, "remaining": None}
        granted, left = (None if grant[name] is None else Decimal(grant[name]) for name in ("rho", "remaining"))
        return cls(total, charged, reserved, remaining, granted, left, document)

    @property
    def left(self) -> Decimal:
        return self.remaining if self.grant_remaining is None else min(self.remaining, self.grant_remaining)

    def epsilon(self, delta: float = 1e-6) -> float:
        """What was charged means at most this ε, at one of the service's δ."""
        for row in self.document["epsilon"]:
            if row["delta"] == delta:
                return float(row["charged"])
        known = ", ".join(str(row["delta"]) for row in self.document["epsilon"])
        raise errors.InvalidParameter(f"The service says ε at δ = {known}.")
