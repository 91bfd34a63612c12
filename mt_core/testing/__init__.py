"""Shipped test support: fakes, and the contracts which every implementation of a seam passes."""
