"""The application: the only package that knows every part and wires them together."""
