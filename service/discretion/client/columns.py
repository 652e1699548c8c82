"""Which column of a table is which column of an upload: said by the custodian, or by its name.

All of it is decided from names and the dataset's public schema, before a row is read; what cannot be meant is refused
with what to say instead.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from discretion import errors
from discretion.client.calls import Document

Names = Mapping[str, str | Sequence[str] | None]  # the upload's columns, and the table's own

_OR_OUTCOME: Final = "; or give outcome=Outcome(column, good=…), or --outcome COLUMN --good VALUE"
_OPTIONAL: Final = {"trajectory": "label", "terminated": "flag"}


@dataclass(frozen=True)
class Outcome:
    """How a stay ended, where a table has that in place of rewards: the column that says so, and the good end.

    The good end earns the most that the dataset's schema allows, the other one the least.
    """

    column: str
    good: object


@dataclass(frozen=True)
class Column:
    """A column of an upload, and what it is made from."""

    name: str
    kind: str  # name, whole, number, label or flag, as the service has it; or step, stays, action, doses, outcome
    made_from: tuple[str, ...]
    element: int | None = None  # of the lists in the table's column


class Arrangement:
    """The columns to send, from what the table has, what was said about it, and what the dataset needs."""

    def __init__(
        self, have: Sequence[str], dataset: Document, said: Names, outcome: Outcome | None, levels: Sequence[int] | None
    ) -> None:
        self._have, self._dataset, self._said = have, dataset, said
        self._states: tuple[str, ...] | None = None
        if dataset["states"]["kind"] == "vector":
            self._states = tuple(dataset["states"]["columns"])
        self._check_names()
        self.columns = [*self._who_and_when(), *self._state(""), self._action(levels), self._earned(outcome)]
        self.columns += [*self._optional(), *self._state("next_", required=False)]
        for name in itertools.chain.from_iterable(column.made_from for column in self.columns):
            self._check_there(name)

    def _check_names(self) -> None:
        states = ("state", *(self._states or ()))
        known = [
            "unit",
            "step",
            *states,
            "action",
            "reward",
            "outcome",
            *_OPTIONAL,
            *(f"next_{name}" for name in states),
        ]
        for name in self._said:
            if name not in known:
                raise errors.InvalidSource(
                    f"{name!r} is no column of this dataset's uploads; they are {listed(known)}."
                )

    def _check_there(self, name: str) -> None:
        found = self._have.count(name)
        if not found:
            raise errors.InvalidSource(f"The table has no column {name!r}; it has {listed(self._have)}.")
        if found > 1:
            raise errors.InvalidSource(f"The table has {found} columns {name!r}; rename one.")

    def _one(self, name: str) -> str | None:
        """The table's column for a column of the upload, if there is one."""
        found = self._said.get(name, name if name in self._have else None)
        if found is None or isinstance(found, str):
            return found
        raise errors.InvalidSource(f"Name one column for {name!r}, not {len(found)}.")

    def _needed(self, name: str, instead: str = "") -> str:
        if (found := self._one(name)) is None:
            raise errors.InvalidSource(
                f"Say which column holds {name!r}: columns={{{name!r}: …}}, or --column {name}=COLUMN{instead}."
            )
        return found

    def _who_and_when(self) -> list[Column]:
        step, unit = self._needed("step"), self._one("unit")
        who = Column("unit", "stays", (step,)) if unit is None else Column("unit", "name", (unit,))
        return [who, Column("step", "step", (step,))]

    def _state(self, prefix: str, required: bool = True) -> list[Column]:
        whole = f"{prefix}state"
        if self._states is None:
            name = self._needed(whole) if required else self._one(whole)
            return [] if name is None else [Column(whole, "whole", (name,))]
        said = self._said.get(whole)
        if said is not None and not isinstance(said, str) and len(said) != len(self._states):
            raise errors.InvalidSource(f"{whole!r} needs {len(self._states)} columns, for {listed(self._states)}.")
        parts = [self._part(prefix, index, name, said) for index, name in enumerate(self._states)]
        if required or any(parts):
            for name, part in zip(self._states, parts, strict=True):
                if part is None:
                    self._needed(prefix + name)
        return [part for part in parts if part is not None]

    def _part(self, prefix: str, index: int, name: str, said: str | Sequence[str] | None) -> Column | None:
        """One column of a vector: by its own name, as one of several, or as an element of lists."""
        if (found := self._one(prefix + name)) is not None:
            return Column(prefix + name, "number", (found,))
        if said is not None and not isinstance(said, str):
            return Column(prefix + name, "number", (said[index],))
        lists = said or (f"{prefix}state" if f"{prefix}state" in self._have else None)
        return None if lists is None else Column(prefix + name, "number", (lists,), index)

    def _action(self, levels: Sequence[int] | None) -> Column:
        said = self._said.get("action")
        if levels is None and (said is None or isinstance(said, str)):
            return Column("action", "action", (self._needed("action"),))
        names = (self._needed("action"),) * len(levels or ()) if said is None or isinstance(said, str) else tuple(said)
        if levels is None or len(levels) != len(names):
            raise errors.InvalidSource(
                f"Say how many levels each of {listed(names)} has: levels=(5, 5), or --levels 5,5."
            )
        if (count := math.prod(levels)) != self._dataset["actions"]["count"]:
            raise errors.InvalidSource(
                f"{'·'.join(map(str, levels))} levels make {count} actions, and the dataset has "
                f"{self._dataset['actions']['count']}; give the numbers of levels that it was made for."
            )
        return Column("action", "doses", names)

    def _earned(self, outcome: Outcome | None) -> Column:
        if outcome is not None:
            if "reward" in self._said or "outcome" in self._said:
                raise errors.InvalidSource("Give `outcome`, or a column of rewards or of outcomes, not both.")
            return Column("outcome", "outcome", (outcome.column,))
        reward, ended = self._one("reward"), self._one("outcome")
        if reward is not None and ended is not None:
            raise errors.InvalidSource(
                "There are rewards and outcomes; leave one out: columns={'outcome': None}, or --column outcome=."
            )
        if ended is not None:
            return Column("outcome", "number", (ended,))
        return Column("reward", "number", (self._needed("reward", _OR_OUTCOME),))

    def _optional(self) -> Iterator[Column]:
        for name, kind in _OPTIONAL.items():
            if (found := self._one(name)) is not None:
                yield Column(name, kind, (found,))


def listed(names: Iterable[str], most: int = 20) -> str:
    shown = [*map(str, names)]
    return ", ".join(shown[:most]) + (" …" if len(shown) > most else "")
