"""Readers, which turn the tokens of one kind of statement into an immutable object."""
