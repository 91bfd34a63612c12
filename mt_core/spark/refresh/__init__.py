"""The engine of refreshes: storage, metadata, writes, comparisons, changes of sources, housekeeping."""
