"""How the tables of a store came to be, step by step: alembic runs what a store does not have."""
