"""The editor of `freshtable sql`: keys, colours, completion and the history of what a person types."""
