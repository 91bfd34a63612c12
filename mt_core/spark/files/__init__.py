"""Files and folders, wherever they are."""
