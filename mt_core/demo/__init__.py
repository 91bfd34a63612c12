"""`freshtable demo`: materialized tables over real flights, from an empty folder to verified results."""
