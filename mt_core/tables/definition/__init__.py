"""Definitions: what a materialized table is, validated and written out."""
