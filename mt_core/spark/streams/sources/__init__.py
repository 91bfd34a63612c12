"""Sources of streams: how a query reads its tables as streams, from where on,
and what becomes of a table meanwhile.
"""
