"""The library of programs: HTTP calls, DB-API, the dialect of SQLAlchemy, values as programs read them."""
