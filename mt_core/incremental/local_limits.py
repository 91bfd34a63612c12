"""Local limits: how much the driver reads and holds itself, instead of by a Spark job.

The run that reads rows and the rules that estimate its cost use the same limits.
"""

MOST_LOCAL = 200_000
"""The maximum number of rows of a change, or of a look-up, that the driver holds."""
MOST_COMPARED = 10_000_000
"""The maximum number of pairs of rows that a join without equal columns compares in the driver."""
MOST_ROWS = 100_000
"""The maximum number of rows in the files that a single thread reads."""
MOST_BYTES = 16 * 1024 * 1024
"""The maximum total size, in bytes, of the files that a single thread reads."""
MOST_FILES = 64
"""The maximum number of the files that a single thread reads."""
