"""Lists come in pages: `limit` items, and `next` to ask for the following ones with `after`."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Query

_MOST: Final = 1000
_USUAL: Final = 100

Limit = Annotated[int, Query(ge=1, le=_MOST, description="How many items at most.")]


@dataclass(frozen=True)
class _ById:
    after: str | None
    limit: int


@dataclass(frozen=True)
class _ByNumber:
    after: int
    limit: int


async def _by_id(
    after: Annotated[
        str | None, Query(pattern=r"^[A-Za-z0-9_]{1,40}$", description="`next` of the page before.")
    ] = None,
    limit: Limit = _USUAL,
) -> _ById:
    return _ById(after, limit)


async def _by_number(
    after: Annotated[int, Query(ge=0, lt=2**31, description="`next` of the page before.")] = 0, limit: Limit = _USUAL
) -> _ByNumber:
    return _ByNumber(after, limit)


Page = Annotated[_ById, Depends(_by_id)]
NumberedPage = Annotated[_ByNumber, Depends(_by_number)]
