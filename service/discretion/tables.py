"""The tables, as the newest migration leaves them. Every privacy amount is an integer of nano-ρ."""

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

populations = sa.Table(
    "populations",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("reserved", sa.BigInteger, nullable=False),
    sa.Column("charged", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),  # of the newest ledger row
    sa.Column("head", sa.String(64), nullable=False),  # and its hash: a ledger cut short is found
    sa.CheckConstraint("reserved >= 0 AND charged >= 0 AND reserved + charged <= total", name="within_total"),
)

ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("population", sa.ForeignKey("populations.id"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("rho", sa.BigInteger, nullable=False),
    sa.Column("training", sa.String(40)),
    sa.Column("actor", sa.String(40), nullable=False),
    sa.Column("reason", sa.String(500)),
    sa.Column("previous_hash", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.CheckConstraint("kind IN ('open', 'reserve', 'charge', 'give_back', 'adjust', 'draw')", name="kind"),
)

reservations = sa.Table(
    "reservations",
    metadata,
    sa.Column("training", sa.String(40), primary_key=True),
    sa.Column("population", sa.ForeignKey("populations.id"), nullable=False),
    sa.Column("grant_id", sa.ForeignKey("grants.id")),
    sa.Column("rho", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.CheckConstraint("rho > 0", name="positive"),
    sa.CheckConstraint("state IN ('reserved', 'charged', 'given_back')", name="state"),
)

grants = sa.Table(
    "grants",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("population", sa.ForeignKey("populations.id"), nullable=False),
    sa.Column("dataset", sa.String(40), nullable=False),
    sa.Column("holder", sa.String(40), nullable=False),
    sa.Column("cap", sa.BigInteger, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("revoked", sa.Boolean, nullable=False),
    sa.CheckConstraint("cap > 0 AND used >= 0 AND used <= cap", name="within_cap"),
)
