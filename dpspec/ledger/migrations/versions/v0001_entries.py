"""The chain of entries and its index of charges; both can be added to and not changed."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "about",
        sa.Column("ledger", sa.String(36), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("account", sa.String(200)),
        sa.Column("ref", sa.Integer, unique=True),
        sa.Column("at", sa.String(20), index=True),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "charges",
        sa.Column("account", sa.String(200), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(20), nullable=False),
        sa.Column("sign", sa.Integer, nullable=False),
        sa.Column("cost", sa.Text, nullable=False),
        sa.Column("total", sa.Text, nullable=False),
    )
    op.create_index("entries_account", "entries", ["account", "kind"])
    op.create_index("charges_at", "charges", ["account", "at", "seq"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION dpspec_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$"
        )
    for table in ("entries", "charges"):
        if op.get_bind().dialect.name == "postgresql":
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION dpspec_append_only()"
            )
        else:
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
                )
