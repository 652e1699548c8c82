"""What somebody may be here: one of four, none of which includes another."""

from typing import Final

ROLES: Final = ("admin", "custodian", "analyst", "auditor")
