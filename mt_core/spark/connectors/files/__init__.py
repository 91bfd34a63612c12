"""The filesystem connector: folders of files that streams read and write."""
