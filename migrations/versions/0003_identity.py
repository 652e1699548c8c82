"""Identities of a provider among the keys, and sessions that end with their token."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("keys", sa.Column("issuer", sa.String(255)))
    op.add_column("keys", sa.Column("subject", sa.String(255)))
    op.add_column("keys", sa.Column("asserted_at", sa.String(32)))
    op.create_index("uq_keys_issuer_subject", "keys", ["issuer", "subject"], unique=True)
    op.add_column("sessions", sa.Column("expires_at", sa.String(32)))
