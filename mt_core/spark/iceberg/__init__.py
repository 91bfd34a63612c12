"""Tables of Iceberg: read without a job, changed on a branch, and committed by compare-and-set.

It knows no refreshes.
"""
