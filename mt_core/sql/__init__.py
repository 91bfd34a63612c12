"""The statements that Freshtable parses itself: text in, frozen facts out."""

from mt_core.sql.parser import parse, parse_name
from mt_core.sql.statements import Statement, qualify

__all__ = ["Statement", "parse", "parse_name", "qualify"]
