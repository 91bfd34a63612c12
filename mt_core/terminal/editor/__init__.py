"""The line editor of `freshtable sql`: keys, syntax colours, completion and history."""
