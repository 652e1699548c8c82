"""Room for the whole fingerprint of a signing key in the audit log; entries that were cut stay as they were written."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    # SQLite keeps a text of any length, and would have to copy the table, and the log's protection with it.
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("audit", "object", existing_type=sa.String(40), type_=sa.String(64), existing_nullable=False)
