"""Alembic runs this: migrations on the connection that the caller gives."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
