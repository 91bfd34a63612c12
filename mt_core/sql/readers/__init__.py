"""Readers: the tokens of one kind of statement as its fact."""
