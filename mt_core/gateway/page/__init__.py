"""The page below /ui: HTML about tables, refreshes, jobs and the gateway, for people with a browser."""
