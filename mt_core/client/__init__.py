"""The client library.

It has HTTP calls, a DB-API driver, a SQLAlchemy dialect, and result values as Python objects.
"""
