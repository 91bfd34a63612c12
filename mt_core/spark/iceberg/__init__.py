"""Tables of Iceberg: their metadata, replaced by compare-and-set, and how rows are replaced on a branch.

It knows no refreshes.
"""
