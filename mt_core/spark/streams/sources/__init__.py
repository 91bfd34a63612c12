"""Sources of streams: how a query reads its tables as streams, where it starts, and how changes affect it."""
