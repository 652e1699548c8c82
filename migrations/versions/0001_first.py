"""Keys, populations and their ledgers, datasets, grants, trainings, their draws and what they released.

What must not change (ledger, audit log, drawn values, releases, public keys) refuses UPDATE and DELETE.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _accounts()
    _work()
    _results()
    _keep_the_head()
    _refuse_changes("ledger")
    for table in ("audit", "drawn", "releases", "signing_keys"):
        _refuse_changes(table)


def _accounts() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32)),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("token_hash", name="uq_keys_token_hash"),
        sa.CheckConstraint("role IN ('admin', 'custodian', 'analyst', 'auditor')", name="ck_keys_role"),
    )
    op.create_table(
        "populations",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(40), nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("charged", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_populations"),
        sa.CheckConstraint(
            "reserved >= 0 AND charged >= 0 AND reserved + charged <= total", name="ck_populations_within_total"
        ),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("population", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("schema", sa.Text, nullable=False),
        sa.Column("units", sa.BigInteger),
        sa.Column("folder", sa.String(80)),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.ForeignKeyConstraint(["population"], ["populations.id"], name="fk_datasets_population"),
        sa.CheckConstraint("state IN ('empty', 'ready', 'retired')", name="ck_datasets_state"),
    )
    op.create_table(
        "grants",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("population", sa.String(40), nullable=False),
        sa.Column("dataset", sa.String(40), nullable=False),
        sa.Column("holder", sa.String(40), nullable=False),
        sa.Column("cap", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_grants"),
        sa.ForeignKeyConstraint(["population"], ["populations.id"], name="fk_grants_population"),
        sa.ForeignKeyConstraint(["dataset"], ["datasets.id"], name="fk_grants_dataset"),
        sa.ForeignKeyConstraint(["holder"], ["keys.id"], name="fk_grants_holder"),
        sa.CheckConstraint("cap > 0 AND used >= 0 AND used <= cap", name="ck_grants_within_cap"),
    )
    op.create_table(
        "ledger",
        sa.Column("population", sa.String(40), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("rho", sa.BigInteger, nullable=False),
        sa.Column("training", sa.String(40)),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("reason", sa.String(500)),
        sa.Column("previous_hash", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("population", "sequence", name="pk_ledger"),
        sa.ForeignKeyConstraint(["population"], ["populations.id"], name="fk_ledger_population"),
        sa.CheckConstraint(
            "kind IN ('open', 'reserve', 'charge', 'give_back', 'adjust', 'draw')", name="ck_ledger_kind"
        ),
        sqlite_with_rowid=False,  # one page to write for a row, not two
    )

    # A training reserves once, and its reservation leaves once, whatever anybody believes.
    for name, kinds in (("reserved", "kind = 'reserve'"), ("left", "kind IN ('charge', 'give_back')")):
        where = sa.text(kinds)
        op.create_index(
            f"ix_ledger_{name}", "ledger", ["training"], unique=True, sqlite_where=where, postgresql_where=where
        )


def _work() -> None:
    op.create_table(
        "trainings",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("dataset", sa.String(40), nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("idempotency_key", sa.String(200), nullable=False),
        sa.Column("grant_id", sa.String(40)),
        sa.Column("algorithm", sa.String(40), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("rho", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("code", sa.String(40)),
        sa.Column("stages", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.String(32)),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("lease_until", sa.String(32)),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trainings"),
        sa.UniqueConstraint("actor", "idempotency_key", name="uq_trainings_actor_idempotency_key"),
        sa.ForeignKeyConstraint(["dataset"], ["datasets.id"], name="fk_trainings_dataset"),
        sa.ForeignKeyConstraint(["grant_id"], ["grants.id"], name="fk_trainings_grant_id"),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'released', 'failed', 'cancelled')", name="ck_trainings_state"
        ),
    )
    op.create_table(
        "uploads",
        sa.Column("folder", sa.String(80), nullable=False),
        sa.Column("dataset", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("folder", name="pk_uploads"),
        sa.ForeignKeyConstraint(["dataset"], ["datasets.id"], name="fk_uploads_dataset"),
    )
    op.create_table(
        "draws",
        sa.Column("training", sa.String(40), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("recorded", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("training", "number", name="pk_draws"),
        sa.ForeignKeyConstraint(["training"], ["trainings.id"], name="fk_draws_training"),
    )
    op.create_table(
        "drawn",
        sa.Column("training", sa.String(40), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("piece", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("training", "number", "piece", name="pk_drawn"),
        sa.ForeignKeyConstraint(["training", "number"], ["draws.training", "draws.number"], name="fk_drawn_draws"),
    )


def _results() -> None:
    op.create_table(
        "releases",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("training", sa.String(40), nullable=False),
        sa.Column("dataset", sa.String(40), nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("algorithm", sa.String(40), nullable=False),
        sa.Column("derived", sa.Boolean, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("certificate", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
        sa.ForeignKeyConstraint(["training"], ["trainings.id"], name="fk_releases_training"),
        sa.ForeignKeyConstraint(["dataset"], ["datasets.id"], name="fk_releases_dataset"),
    )
    # One run, one release: whatever a worker believes, a second release of the same training is refused.
    op.create_index(
        "ix_releases_first",
        "releases",
        ["training"],
        unique=True,
        sqlite_where=sa.text("NOT derived"),
        postgresql_where=sa.text("NOT derived"),
    )
    op.create_table(
        "audit",
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("actor", sa.String(40), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("object", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit"),
    )
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.String(64), nullable=False),
        sa.Column("jwk", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("kid", name="pk_signing_keys"),
    )


def _keep_the_head() -> None:
    """A population's head is the hash of its newest row: the database writes it with the row."""
    update = "UPDATE populations SET head = NEW.hash WHERE id = NEW.population;"
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"CREATE TRIGGER ledger_head AFTER INSERT ON ledger BEGIN {update} END")
        return
    op.execute(
        f"CREATE FUNCTION ledger_head() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {update} RETURN NULL; END $$"
    )
    op.execute("CREATE TRIGGER ledger_head AFTER INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION ledger_head()")


def _refuse_changes(table: str) -> None:
    """Rows are written once: the database itself refuses to change or delete them, whoever asks."""
    if op.get_bind().dialect.name == "sqlite":
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, 'the {table} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'the {table} is append-only'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"
    )
