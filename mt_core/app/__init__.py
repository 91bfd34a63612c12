"""The application: connects all parts, and provides the home folder, the lease and logs.

No other package imports it.
"""
