"""The statements that Freshtable itself parses, from text to immutable objects."""

from mt_core.sql.parser import parse, parse_name
from mt_core.sql.statements import Statement, qualify

__all__ = ["Statement", "parse", "parse_name", "qualify"]
