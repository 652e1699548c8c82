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

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    # The token itself is shown once and kept nowhere. An identity has none, and here a word that is no hash.
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("revoked_at", sa.String(32)),
    sa.Column("issuer", sa.String(255)),  # of identities only: the provider that vouches for them,
    sa.Column("subject", sa.String(255)),  # whom it means,
    sa.Column("asserted_at", sa.String(32)),  # and when it issued the newest token that was seen
    sa.CheckConstraint("role IN ('admin', 'custodian', 'analyst', 'auditor')", name="role"),
    sa.Index("uq_keys_issuer_subject", "issuer", "subject", unique=True),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("hash", sa.String(64), primary_key=True),  # of a secret that only a browser keeps
    sa.Column("token_hash", sa.String(64), nullable=False),  # of the token it was opened with, and ends with
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("used_at", sa.String(32), nullable=False),
    sa.Column("expires_at", sa.String(32)),  # with an identity's token, whatever happens
)

populations = sa.Table(
    "populations",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("owner", sa.String(40), nullable=False),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("reserved", sa.BigInteger, nullable=False),
    sa.Column("charged", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),  # of the newest ledger row
    sa.Column("head", sa.String(64), nullable=False),  # and its hash: a ledger cut short is found
    sa.Column("created_at", sa.String(32), nullable=False),
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

datasets = sa.Table(
    "datasets",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("population", sa.ForeignKey("populations.id"), nullable=False),
    sa.Column("owner", sa.String(40), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("schema", sa.Text, nullable=False),  # the public document, canonical JSON
    sa.Column("units", sa.BigInteger),  # public once the data is there
    sa.Column("folder", sa.String(80)),  # where the data lies; a name that is not here is a broken upload's
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.CheckConstraint("state IN ('empty', 'ready', 'retired')", name="state"),
)

trainings = sa.Table(
    "trainings",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("dataset", sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("actor", sa.String(40), nullable=False),
    sa.Column("idempotency_key", sa.String(200), nullable=False),
    sa.Column("grant_id", sa.ForeignKey("grants.id")),
    sa.Column("algorithm", sa.String(40), nullable=False),
    sa.Column("request", sa.Text, nullable=False),  # canonical JSON, every default written out
    sa.Column("rho", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("code", sa.String(40)),
    sa.Column("stages", sa.BigInteger, nullable=False),  # releases of the run, and its policy
    sa.Column("done", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.String(32)),  # of the first claim: the public schedule counts from here
    sa.Column("fence", sa.BigInteger, nullable=False),  # grows with every claim: an older worker's writes are refused
    sa.Column("lease_until", sa.String(32)),
    sa.Column("created_at", sa.String(32), nullable=False),  # the order of the queue
    sa.UniqueConstraint("actor", "idempotency_key"),
    sa.CheckConstraint("state IN ('queued', 'running', 'released', 'failed', 'cancelled')", name="state"),
)

uploads = sa.Table(
    "uploads",  # folders that an upload is about to fill: one that stays behind was broken off
    metadata,
    sa.Column("folder", sa.String(80), primary_key=True),
    sa.Column("dataset", sa.ForeignKey("datasets.id"), nullable=False),
)

draws = sa.Table(
    "draws",
    metadata,
    sa.Column("training", sa.ForeignKey("trainings.id"), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("recorded", sa.Boolean, nullable=False),  # false: intended, and never to be drawn again
)

drawn = sa.Table(
    "drawn",  # the noised values, in pieces that both databases take
    metadata,
    sa.Column("training", sa.String(40), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("piece", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.ForeignKeyConstraint(["training", "number"], ["draws.training", "draws.number"], name="fk_drawn_draws"),
)

releases = sa.Table(
    "releases",  # what was certified: policies, and reports of evaluations
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("training", sa.ForeignKey("trainings.id"), nullable=False),
    sa.Column("dataset", sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("actor", sa.String(40), nullable=False),
    sa.Column("algorithm", sa.String(40), nullable=False),
    sa.Column("derived", sa.Boolean, nullable=False),
    sa.Column("document", sa.Text, nullable=False),  # the certified bytes
    sa.Column("certificate", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("at", sa.String(32), nullable=False),
    sa.Column("actor", sa.String(40), nullable=False),
    sa.Column("action", sa.String(40), nullable=False),
    sa.Column("object", sa.String(64), nullable=False),  # an id, or the whole fingerprint of a key
)

signing_keys = sa.Table(
    "signing_keys",  # public halves only, those of the past too: old certificates stay verifiable
    metadata,
    sa.Column("kid", sa.String(64), primary_key=True),
    sa.Column("jwk", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
)

grants = sa.Table(
    "grants",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("population", sa.ForeignKey("populations.id"), nullable=False),
    sa.Column("dataset", sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("holder", sa.ForeignKey("keys.id"), nullable=False),
    sa.Column("cap", sa.BigInteger, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("revoked", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.CheckConstraint("cap > 0 AND used >= 0 AND used <= cap", name="within_cap"),
)
