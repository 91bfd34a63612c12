"""The terminal client: `freshtable sql`."""
