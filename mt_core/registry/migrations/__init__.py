"""How the tables of the registry came to be: one Alembic revision per change,
run when a registry is opened.
"""
