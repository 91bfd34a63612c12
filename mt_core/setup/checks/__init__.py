"""The checks of `freshtable doctor`: a module each, with what it looks at apart from what it makes of it."""
