"""Sessions and operations of the SQL gateway (FLIP-91)."""
