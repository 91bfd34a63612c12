"""Readers: each turns the tokens of one kind of statement into a fact."""
