"""The checks of `freshtable doctor`, one module each; reading the state and judging it are separate
functions.
"""
