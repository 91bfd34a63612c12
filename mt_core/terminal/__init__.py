"""The SQL client in a terminal: scripts, the prompt, the editor of lines, results, and the viewer."""
