"""The checks of `freshtable doctor`, one module each.

Each has separate functions to read the state and to judge it.
"""
