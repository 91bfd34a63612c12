"""Tables of databases, written by streams."""
