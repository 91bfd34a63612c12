"""Keeps materialized tables true to what users declared."""
