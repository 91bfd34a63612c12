"""The application: the only package that knows every part. It wires them; its home folder, lease and logs."""
