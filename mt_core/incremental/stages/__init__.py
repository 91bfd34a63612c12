"""Stages: aggregates of a query whose groups are kept between refreshes, and the rest computed over them."""
