"""The SQL client for the terminal: scripts, the prompt and its line editor, results, and the viewer."""
