"""Folders of files, read and written by streams."""
