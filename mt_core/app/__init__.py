"""The application: wires all parts, and provides home folder, lease and logs. No package imports it."""
