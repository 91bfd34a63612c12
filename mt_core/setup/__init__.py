"""Setting up and watching an installation: what `freshtable doctor`,
`freshtable init` and `freshtable status` do.
"""
