"""Discretion: policies learned from treatment histories, with a privacy promise that can be checked."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discretion.client import Client as Client
    from discretion.client import Failed as Failed
    from discretion.client import Outcome as Outcome
    from discretion.client import Policy as Policy
    from discretion.client import Refused as Refused

__version__ = "0.1.0"

_CLIENT = ("Client", "Failed", "Outcome", "Policy", "Refused")


def __getattr__(name: str) -> Any:
    """The client is imported when it is first asked for: whoever wants the library alone need not wait for it."""
    if name in _CLIENT:
        return getattr(importlib.import_module("discretion.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
